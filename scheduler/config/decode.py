"""Decoding plain data into models; every error has a location and a message that a user can act on."""

import inspect
import typing
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from scheduler.catalog import Loc, descriptors
from scheduler.config.document import REMOVED, ConfigurationDocument
from scheduler.config.legacy import FIELD_HINTS
from scheduler.config.problems import Problem, closest, message_of, path_text

M = TypeVar("M", bound=BaseModel)

_BELONGS = "it belongs under"
_MAX_ROUNDS = 8
"""So often the rest is decoded again; what is taken out can only uncover what is around it."""
_LOST_INDENTATION = 3
"""With this many keys that belong deeper, the whole file has lost its indentation."""


class Usable:
    """What of a document can be decoded. The rest is reported and taken out of the document's data, so that the checks
    of what is left report their problems in the same pass.

    Attributes:
        problems: every decoding error.
    """

    def __init__(self, document: ConfigurationDocument) -> None:
        self._document = document
        self._out: set[Loc] = set()
        # What is left out or unknown, and everything that contains it.
        self._around_out: set[Loc] = set()
        self._around_unknown: set[Loc] = set()
        self._filled: set[Loc] = set()
        self.problems: list[Problem] = []

    def decode(self, model: type[M], loc: Loc, ignored: Collection[str] = ()) -> tuple[M | None, bool]:
        """Return the model of the data at a location, and whether all of it was decoded; None where nothing can be.

        `ignored` are keys there that are no fields.
        """
        whole = True
        for _ in range(_MAX_ROUNDS):
            data = self._document.value_at(loc)
            data = {key: value for key, value in (data or {}).items() if key not in ignored}
            try:
                return model.model_validate(data), whole
            except ValidationError as error:
                whole = False
                if not self._take_out(error.errors(include_url=False), model, loc):
                    break
        return None, False

    def is_consequence(self, problem: Problem) -> bool:
        """Tell whether a problem is about something that could not be decoded."""
        # By sets, as a hostile file may have tens of thousands of both.
        around = problem.loc in self._around_out
        return around or any(problem.loc[:length] in self._out for length in range(1, len(problem.loc) + 1))

    def lacks_below(self, loc: Loc) -> bool:
        """Tell whether something at or below a location of the file could not be decoded, or is not known."""
        return loc in self._around_out or loc in self._around_unknown

    def _leave_out(self, loc: Loc) -> None:
        self._out.add(loc)
        self._around_out.update(loc[:length] for length in range(1, len(loc) + 1))

    def _take_out(self, errors: list[ErrorDetails], model: type[BaseModel], base: Loc) -> bool:
        """Report errors and change the data so that they are gone; False where that cannot be."""
        self._report(errors, model, base)
        changes: dict[Loc, Any] = {}
        for detail in errors:
            named = (*base, *detail["loc"])
            at = self._existing(named)
            if detail["type"] == "missing" and at == named:
                at = at[:-1]  # it is there, and null
            missing = (*at, detail["loc"][-1]) if detail["type"] == "missing" else None
            filled = (*self._document.original(at), detail["loc"][-1]) if missing else ()
            if missing is not None and filled not in self._filled:
                # Text stands in for what is missing, so that what is beside it is checked. Where a number is missing,
                # the whole map goes.
                self._filled.add(filled)
                changes[missing] = ""
            elif len(at) > len(base):
                changes[at] = REMOVED
            else:
                return False
        outermost = {loc: value for loc, value in changes.items() if not _is_below_removed(loc, changes)}
        self._document.replace(outermost)
        return True

    def _report(self, errors: list[ErrorDetails], model: type[BaseModel], base: Loc) -> None:
        first = not self.problems
        described = []
        for detail in errors:
            at = self._document.original((*base, *detail["loc"]))
            if detail["type"] == "extra_forbidden":
                self._around_unknown.update(at[:length] for length in range(1, len(at) + 1))
                meant = closest(str(detail["loc"][-1]), field_names(model, detail["loc"][:-1]))
                if meant:
                    self._leave_out((*at[:-1], meant))
            elif at in self._out:
                continue
            else:
                self._leave_out(at)
            described.append(_describe(self._document, detail, model, base))
        misplaced = sum(1 for problem in described if problem.hint.startswith(_BELONGS))
        if not base and first and misplaced >= _LOST_INDENTATION:
            message = (
                f"the indentation of the file was lost: {misplaced} keys at the left margin belong further to the right"
            )
            hint = "copy it again from a source that keeps spaces"
            self.problems.append(self._document.problem((), message, hint=hint))
        self.problems += described

    def _existing(self, loc: Loc) -> Loc:
        """Return the part of a location that the data has: in a union, the rest names the branch."""
        value = self._document.data
        for length, part in enumerate(loc):
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return loc[:length]
        return loc


def _is_below_removed(loc: Loc, changes: Mapping[Loc, Any]) -> bool:
    return any(changes.get(loc[:length]) is REMOVED for length in range(len(loc)))


def _describe(document: ConfigurationDocument, detail: ErrorDetails, model: type[BaseModel], base: Loc) -> Problem:
    # A location inside a union also names the branch ("str", "constrained-int"), which is not part of the data; the
    # position falls back to the closest enclosing location.
    loc: Loc = (*base, *detail["loc"])
    message = message_of(detail)
    if detail["type"] == "extra_forbidden":
        hint = _hint_for_field(str(loc[-1]), model, detail["loc"][:-1], base)
        return document.problem(loc, message, hint=hint, at_key=True)
    if detail["type"] == "missing":
        return document.problem(loc, message, hint=f'add "{loc[-1]}"')
    if detail["type"] == "literal_error":
        message, _, hint = message.partition("; ")
        return document.problem(loc, message, hint=hint)
    return document.problem(loc, message)


def _hint_for_field(name: str, model: type[BaseModel], loc: tuple[int | str, ...], base: Loc) -> str:
    """Return a hint. Tried in this order: wrong case, a field of an older version, lost indentation, a typing error."""
    names = field_names(model, loc)
    if name in FIELD_HINTS:
        return FIELD_HINTS[name]
    if all(name.lower() != other.lower() for other in names):
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
    return nearest(name, names)


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


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return a hint with the closest allowed name; one that differs only in case wins over a similar one."""
    names = sorted(allowed)
    for candidate in names:
        if candidate.lower() == name.lower():
            return f'did you mean "{candidate}"? (names are case-sensitive)'
    if close := closest(name, names):
        return f'did you mean "{close}"?'
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
