"""Problems of settings: pydantic's errors in plain words, without secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from scheduler.catalog import Loc
from scheduler.config import Problem, message_without_value, path_text

_TYPE_NAMES = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
}
_KINDS = {str: "a string", bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: "a mapping"}
# A wrong value below these keys may be the secret itself, put into the wrong place.
_LOOKS_SECRET = re.compile(r"eyJ|sha256~|Bearer\s|-----BEGIN|\S+://[^/\s]*:[^/\s]*@", re.IGNORECASE)
"""A JWT, an OpenShift token, a header, a PEM block or a URL with a password: no message quotes it."""
_SET_TOKEN = "pulumi config set --secret prometheusToken"  # noqa: S105 - a command
_NEVER_SHOWN = re.compile(r"credentials|address|token|password|secret", re.IGNORECASE)

_LIMITS = {
    "greater_than": ("above", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
}
"""Of numbers: the words for each, and where pydantic has the number."""


def from_validation_error(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    """Yield a problem per error of pydantic; `model` is the model that was validated."""
    for detail in error.errors(include_url=False):
        location: Loc = detail["loc"]
        kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
        if kind == "extra_forbidden":
            allowed = sorted(_aliases(_model_at(model, location[:-1])))
            yield unknown_key(location, allowed)
            continue
        location = _as_written(model, location)
        if kind == "missing":
            message = _missing(location)
        elif kind in ("literal_error", "enum"):
            message = _not_allowed(location, value, re.findall(r"'([^']*)'", context["expected"]))
        elif kind in _TYPE_NAMES:
            actual = _KINDS.get(type(value), "nothing")
            message = f"must be {_TYPE_NAMES[kind]}, not {actual}{_shown(location, value, ' ({})')}"
            if kind == "string_type" and isinstance(value, int | float):
                message += "; put it in quotes"
        elif kind in _LIMITS:
            words, limit = _LIMITS[kind]
            message = f"must be {words} {context[limit]}, not {value}"
        elif kind in ("string_too_short", "too_short"):
            message = "must not be empty"
        elif kind == "string_too_long":
            message = f"must have at most {context['max_length']} characters, not {len(str(value))}"
        elif kind == "string_pattern_mismatch":
            message = f"{_shown(location, value, '{} ')}must match {context['pattern']}"
        else:
            message = _shown(location, value, "{} ") + message_without_value(detail)
        yield Problem(location, message)


def unknown_key(location: Loc, allowed: list[str]) -> Problem:
    """A key that does not exist, with the closest one that does."""
    if location == ("metricProvider", "token"):
        remedy = "put {secretKey: prometheusToken} under metricProvider.credentials.token"
        return Problem(location, f"a token does not stand here; {remedy}, and run: {_SET_TOKEN}")
    message = f"unknown key; allowed: {', '.join(allowed)}"
    return Problem(location, message + _did_you_mean(str(location[-1]), allowed))


def _as_written(model: type[BaseModel], location: Loc) -> Loc:
    """The location with the setting's name in the file: for a wrong default, pydantic reports the field's name."""
    field = model.model_fields.get(str(location[0])) if location else None
    return (field.alias, *location[1:]) if field is not None and field.alias else location


def _model_at(model: type[BaseModel], location: Loc) -> type[BaseModel]:
    for part in location:
        if isinstance(part, int):
            continue
        for name, field in model.model_fields.items():
            if (field.alias or name) == part:
                model = next(_models(field.annotation), model)
    return model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _aliases(model: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _not_allowed(location: Loc, value: object, allowed: list[str]) -> str:
    message = f"{_shown(location, value, '{} is')} not allowed; allowed: {', '.join(allowed)}".strip()
    return message + _did_you_mean(str(value), allowed)


def _did_you_mean(written: str, allowed: list[str]) -> str:
    by_lower_case = {name.lower(): name for name in allowed}
    matches = get_close_matches(written.lower(), by_lower_case, n=1)
    return f'; did you mean "{by_lower_case[matches[0]]}"?' if matches else ""


def _missing(location: Loc) -> str:
    path = "--path " * (len(location) > 1) + path_text(location)
    return f"missing; set it, for example with: pulumi config set {path} VALUE"


def shown_value(location: Loc, value: object) -> str:
    """The value as an argument of a command line; VALUE where it is structured or may be secret."""
    text = _shown(location, value, "{}").strip('"')
    return text if text and re.fullmatch(r"[\w./:@=-]+", text) else "VALUE"


def _shown(location: Loc, value: object, template: str) -> str:
    """The value within the template; empty if the value is structured or may be secret."""
    if not isinstance(value, str | int | float) or _NEVER_SHOWN.search(path_text(location)):
        return ""
    if _LOOKS_SECRET.match(str(value)):
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return template.format(text if len(text) <= 80 else f'{text[:76]}…"')
