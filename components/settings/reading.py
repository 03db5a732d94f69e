"""Reading settings so that one pass finds every mistake: a wrong one is reported and left out."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from scheduler.catalog import Loc
from scheduler.config import Problem

from .problems import from_validation_error

_PROVIDER = "metricProvider"
_ROUNDS = 20

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class ReadSettings(Generic[Model]):
    """What settings say, as far as they are right.

    Attributes:
        settings: without the wrong ones; None if nothing can be made of the rest.
        problems: of the wrong ones.
        left_out: locations of the settings that are not part of `settings`.
    """

    settings: Model | None
    problems: tuple[Problem, ...] = ()
    left_out: tuple[Loc, ...] = ()

    def lacks(self, *keys: str) -> bool:
        """Tell whether one of these keys, or a part of it, was left out."""
        return any(location[0] in keys for location in self.left_out)

    def concerns(self, problem: Problem) -> bool:
        """Tell whether a later problem may only be there because something was left out."""
        if problem.source:
            return False
        return any(problem.loc[: len(out)] == out or out[: len(problem.loc)] == problem.loc for out in self.left_out)


def read_settings(
    document: dict[str, Any], model: type[Model], stand_ins: Mapping[str, tuple[str, str]] | None = None
) -> ReadSettings[Model]:
    """Read the settings; a wrong one is left out, so that the others can still be checked against each other.

    Args:
        document: the settings as parsed JSON.
        model: what they must be.
        stand_ins: what to put in the place of a wrong one that others are judged by: key and value, by first part of
            the location.
    """
    document, left_out = copy.deepcopy(document), list[Loc]()
    problems: tuple[Problem, ...] | None = None
    for _ in range(_ROUNDS):
        try:
            # As JSON, because strict models take a list for a tuple, and text for an enum, from JSON only.
            settings = model.model_validate_json(json.dumps(document), by_alias=True, by_name=False)
            return ReadSettings(settings, problems or (), tuple(left_out))
        except ValidationError as error:
            # What is wrong in a later round may follow from what was left out.
            problems = tuple(from_validation_error(error, model)) if problems is None else problems
            left_out += [_leave_out(document, detail, stand_ins or {}) for detail in error.errors(include_url=False)]
    return ReadSettings(None, problems or (), tuple(left_out))


def _leave_out(document: dict[str, Any], detail: ErrorDetails, stand_ins: Mapping[str, tuple[str, str]]) -> Loc:
    """Take a wrong value out of the document, or the nearest key around it; return the location of what is gone."""
    location: Loc = detail["loc"]
    if location and (stand_in := stand_ins.get(str(location[0]))) is not None:
        key, document[stand_in[0]] = stand_in
        return (key,)
    for around in _keys(document, location):
        *parents, last = around
        parent: Any = document
        for part in parents:
            parent = parent[part]
        if location == (_PROVIDER, "type") and detail["type"] == "literal_error":
            # A source without a type is left out as a whole: any type, so that its other settings are checked.
            parent[last] = str(detail["ctx"]["expected"]).partition("'")[2].partition("'")[0]
        else:
            del parent[last]
        return around
    document.pop("installMode", None)  # which other settings are judged by
    return ("installMode",)


def _keys(document: dict[str, Any], location: Loc) -> Iterator[Loc]:
    """The mapping keys on the way to a location, the innermost first; an item of a list cannot be left out alone."""
    keys: list[Loc] = []
    value: Any = document
    for depth, part in enumerate(location):
        if isinstance(value, dict) and part in value:
            keys.append(location[: depth + 1])
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            break
    yield from reversed(keys)
