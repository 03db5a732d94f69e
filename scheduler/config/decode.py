"""Decoding plain data into models; every error has a location and a message that a user can act on."""

import inspect
import typing
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from scheduler.catalog import Loc, descriptors
from scheduler.config.document import Document
from scheduler.config.legacy import FIELD_HINTS
from scheduler.config.problems import Problem, path_text

M = TypeVar("M", bound=BaseModel)

_BELONGS = "it belongs under"
_LOST_INDENTATION = 3
"""With this many keys that belong deeper, the whole file has lost its indentation."""
_EXPECTED = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "string_type": "text (put it in quotes)",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
}


def decode(document: Document, data: Any, model: type[M], loc: Loc, problems: list[Problem]) -> M | None:
    """Return the model, or None after adding every decoding error below `loc` to `problems`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        errors = [_describe(document, detail, model, loc) for detail in error.errors(include_url=False)]
        misplaced = sum(1 for problem in errors if problem.hint.startswith(_BELONGS))
        if not loc and misplaced >= _LOST_INDENTATION:
            message = (
                f"the indentation of the file was lost: {misplaced} keys at the left margin belong further to the right"
            )
            problems.append(document.problem((), message, hint="copy it again from a source that keeps spaces"))
        problems.extend(errors)
        return None


def _describe(document: Document, detail: ErrorDetails, model: type[BaseModel], base: Loc) -> Problem:
    # A location inside a union also names the branch ("str", "constrained-int"), which is not part of the data; the
    # position falls back to the closest enclosing location.
    loc: Loc = (*base, *detail["loc"])
    kind = detail["type"]
    # A token of the wrong type is still secret.
    value = "…" if str(loc[-1]).lower() == "token" else detail["input"]
    if kind == "extra_forbidden":
        name = str(loc[-1])
        hint = _hint_for_field(name, model, detail["loc"][:-1], base)
        return document.problem(loc, f'unknown field "{name}"', hint=hint, at_key=True)
    if kind == "missing":
        return document.problem(loc, "is required", hint=f'add "{loc[-1]}"')
    if kind == "literal_error":
        expected = str(detail.get("ctx", {}).get("expected", ""))
        return document.problem(loc, f"{describe_value(value)} is not allowed", hint=f"allowed values: {expected}")
    if kind == "value_error":
        return document.problem(loc, str(detail.get("ctx", {}).get("error", detail["msg"])))
    if kind in _EXPECTED:
        return document.problem(loc, f"should be {_EXPECTED[kind]}, not {describe_value(value)}")
    return document.problem(loc, detail["msg"][:1].lower() + detail["msg"][1:])


def _hint_for_field(name: str, model: type[BaseModel], loc: tuple[int | str, ...], base: Loc) -> str:
    """Return a hint. Tried in this order: wrong case, a field of an older version, lost indentation, a typing error."""
    known = field_names(model, loc)
    if name in FIELD_HINTS:
        return FIELD_HINTS[name]
    if all(name.lower() != other.lower() for other in known):
        path = _path_to_field(name, model)
        if path and path != tuple(part for part in loc if isinstance(part, str)):
            return f"{_BELONGS} {path_text((*base, *path))}: indent it below that key"
        if not base and not loc:
            plugins = [
                (descriptor.name, _path_to_field(name, descriptor.args_model))
                for descriptor in descriptors()
                if descriptor.args_model
            ]
            owners = [(plugin, path) for plugin, path in plugins if path is not None]
            if owners:
                owner = owners[0][0] if len(owners) == 1 else "a plugin"
                inside = f"{path_text(owners[0][1])} of " if owners[0][1] else ""
                return f"{_BELONGS} {inside}the args of {owner} in profiles[].pluginConfig: indent it there"
    return nearest(name, known)


def _path_to_field(name: str, model: type[BaseModel]) -> Loc | None:
    """Return the path of the model's field that contains a field of this name; if several are equally close, the path
    of what contains those."""
    if name in field_names(model, ()):
        return ()
    paths = list(_paths_to_field(name, model, ()))
    if not paths:
        return None
    shortest = [path for path in paths if len(path) == len(paths[0])]
    return paths[0] if len(shortest) == 1 else (*paths[0][:-1], "…")


def _paths_to_field(name: str, model: type[BaseModel], path: Loc) -> Iterator[Loc]:
    """Yield the paths below a model that contain a field of this name, the closest first."""
    inner = []
    for info in model.model_fields.values():
        child = _model_in(info.annotation)
        if child is not None:
            is_list = typing.get_origin(info.annotation) is list
            inner.append((child, (*path, f"{info.alias}[]" if is_list else str(info.alias))))
    for child, below in inner:
        if name in field_names(child, ()):
            yield below
    for child, below in inner:
        yield from _paths_to_field(name, child, below)


def describe_value(value: Any) -> str:
    """Return a value as text for a message: shortened, and with its kind."""
    if isinstance(value, str):
        return f'the text "{value if len(value) <= 40 else value[:37] + "..."}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list):
        return "a list"
    return "null" if value is None else str(value)[:40]


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return a hint with the closest allowed name; one that differs only in case wins over a similar one."""
    names = sorted(allowed)
    for candidate in names:
        if candidate.lower() == name.lower():
            return f'did you mean "{candidate}"? (names are case-sensitive)'
    import difflib  # here, since few mistype a name

    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f'did you mean "{close[0]}"?'
    return f"allowed here: {', '.join(names)}" if 0 < len(names) <= 20 else ""


def field_names(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """Return the field names of the (nested) model at a location below `model`."""
    current: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, int) or current is None:
            continue
        field = next((info for info in current.model_fields.values() if info.alias == part), None)
        current = _model_in(field.annotation) if field is not None else None
    return [info.alias or name for name, info in current.model_fields.items()] if current is not None else []


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for item in typing.get_args(annotation) if (model := _model_in(item)) is not None), None)
