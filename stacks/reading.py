"""Reading a stack's settings so that one pass finds every mistake: a wrong one is reported and left out."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection, Iterator, MutableMapping
from dataclasses import dataclass
from shlex import quote
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from scheduler.catalog import Loc
from scheduler.config import Problem
from stacks.problems import from_validation_error, shown_value
from stacks.settings import StackSettings

_STAND_IN = "localhost/secondary-scheduler/{}:0"
"""An image in place of a wrong or missing one, so that everything else can be checked."""
_IMAGES = {"schedulerImage": "kube-scheduler", "operatorImage": "operator", "operator_image": "operator"}
_PROVIDER = "metricProvider"
_ROUNDS = 20


@dataclass(frozen=True)
class ReadSettings:
    """What a stack file says, as far as it is right.

    Attributes:
        settings: without the wrong ones; None if nothing can be made of the rest.
        problems: of the wrong ones.
        left_out: locations of the settings that are not part of `settings`.
    """

    settings: StackSettings | None
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


def read_settings(document: dict[str, Any]) -> ReadSettings:
    """Read the settings; a wrong one is left out, so that the others can still be checked against each other."""
    document, left_out = copy.deepcopy(document), list[Loc]()
    problems: tuple[Problem, ...] | None = None
    for _ in range(_ROUNDS):
        try:
            # As JSON, because strict models take a list for a tuple, and text for an enum, from JSON only.
            settings = StackSettings.model_validate_json(json.dumps(document))
            return ReadSettings(settings, problems or (), tuple(left_out))
        except ValidationError as error:
            # What is wrong in a later round may follow from what was left out.
            problems = tuple(from_validation_error(error, StackSettings)) if problems is None else problems
            left_out += [_leave_out(document, detail) for detail in error.errors(include_url=False)]
    return ReadSettings(None, problems or (), tuple(left_out))


def separate_keys(document: MutableMapping[str, Any], structured: Collection[str]) -> list[Problem]:
    """Take keys such as `cluster.context` out of the document, and return a problem for each.

    `pulumi config set` without --path makes such a key of its own, which means nothing."""
    problems = []
    for key in [key for key in document if "." in key and key.partition(".")[0].partition("[")[0] in structured]:
        value = shown_value((key,), document.pop(key))
        commands = f"pulumi config rm {quote(key)} && pulumi config set --path {quote(key)} {value}"
        problems.append(Problem((key,), f"is a key of its own, because --path was missing; run: {commands}"))
    return problems


def _leave_out(document: dict[str, Any], detail: ErrorDetails) -> Loc:
    """Take a wrong value out of the document, or the nearest key around it; return the location of what is gone."""
    location: Loc = detail["loc"]
    if location and location[0] in _IMAGES:
        key = "operatorImage" if location[0] == "operator_image" else str(location[0])
        document[key] = _STAND_IN.format(_IMAGES[key])
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
