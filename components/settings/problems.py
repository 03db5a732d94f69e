"""Problems of settings: pydantic's errors with what to do about them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from pydantic import BaseModel, ValidationError

from scheduler.catalog import Loc
from scheduler.config import Problem, closest, describe_value, field_names, is_shown, message_of, path_text

_SET_TOKEN = "pulumi config set --secret prometheusToken"  # noqa: S105 - a command


def from_validation_error(error: ValidationError, model: type[BaseModel]) -> Iterator[Problem]:
    """Yield a problem per error of pydantic; `model` is the model that was validated."""
    for detail in error.errors(include_url=False):
        location: Loc = detail["loc"]
        if detail["type"] == "extra_forbidden":
            yield unknown_key(location, sorted(field_names(model, location[:-1])))
            continue
        location = _as_written(model, location)
        if detail["type"] == "missing":
            path = "--path " * (len(location) > 1) + path_text(location)
            yield Problem(location, f"missing; set it, for example with: pulumi config set {path} VALUE")
            continue
        message = message_of({**detail, "loc": location})
        if detail["type"] == "value_error" and is_shown(location, detail["input"]):
            # The validators' words go on from the value: `"a b" is not an image`.
            message = f"{describe_value(location, detail['input'])} {message}"
        yield Problem(location, message)


def unknown_key(location: Loc, allowed: list[str]) -> Problem:
    """A key that does not exist, with the closest one that does."""
    if location == ("metricProvider", "token"):
        remedy = "put {secretKey: prometheusToken} under metricProvider.credentials.token"
        return Problem(location, f"a token does not stand here; {remedy}, and run: {_SET_TOKEN}")
    similar = closest(str(location[-1]), allowed)
    hint = f'; did you mean "{similar}"?' if similar else ""
    return Problem(location, f"unknown key; allowed: {', '.join(allowed)}{hint}")


def shown_value(location: Loc, value: object) -> str:
    """The value as an argument of a command line; VALUE where it is structured or may be secret."""
    text = describe_value(location, value).strip('"') if is_shown(location, value) else ""
    return text if text and re.fullmatch(r"[\w./:@=-]+", text) else "VALUE"


def _as_written(model: type[BaseModel], location: Loc) -> Loc:
    """The location with the setting's name in the file: for a wrong default, pydantic reports the field's name."""
    field = model.model_fields.get(str(location[0])) if location else None
    return (field.alias, *location[1:]) if field is not None and field.alias else location
