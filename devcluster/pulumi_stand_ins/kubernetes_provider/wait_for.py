"""The annotation `pulumi.com/waitFor`: what must be true of an object before it counts as ready.

`condition=T[=S]`, `jsonpath={…}[=v]`, or a JSON array of those, as `kubectl wait --for` writes them.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from devcluster.pulumi_stand_ins.kubernetes_provider.objects import conditions
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object

_SEGMENT = re.compile(
    r"""\.(?P<name>[A-Za-z0-9_\-]+(?:\\\.[A-Za-z0-9_\-]+)*)
      | \[(?P<quote>['"])(?P<quoted>[^'"]+)(?P=quote)\]
      | \[(?P<index>-?\d+)\]
      | (?P<all>\[\*?\]|\.\*)
      | \[\?\(\s*@\.(?P<field>[A-Za-z0-9_\-.]+)\s*==\s*(?P<literal>"[^"]*"|'[^']*'|[^)\s"'|&]+)\s*\)\]""",
    re.VERBOSE,
)


class WaitForError(ValueError):
    """The annotation cannot be read; the message says what is wrong and shows the form that is right."""


class Expectation(Protocol):
    """Something an object must show."""

    def pending_reason(self, obj: Object) -> str | None:
        """What is still missing, or None once it is met."""


@dataclass(frozen=True)
class ConditionExpectation:
    """A status condition with a given status; compared without case, as kubectl does."""

    type: str
    status: str = "True"

    def pending_reason(self, obj: Object) -> str | None:
        """What is still missing. A condition that speaks of an older generation does not count."""
        expected = f'condition "{self.type}" to be "{self.status}"'
        condition = conditions(obj).get(self.type)
        if condition is None:
            return f"Waiting for {expected}; it is not set yet"
        observed = condition.get("observedGeneration", obj["status"].get("observedGeneration"))
        generation = obj.get("metadata", {}).get("generation")
        if isinstance(observed, int) and isinstance(generation, int) and observed < generation:
            return f"Waiting for {expected}; it still speaks of generation {observed} of {generation}"
        if str(condition.get("status", "")).lower() == self.status.lower():
            return None
        reported = [str(condition[key]) for key in ("reason", "message") if condition.get(key)]
        return f'Waiting for {expected}; it is "{condition.get("status")}"' + (
            f" ({': '.join(reported)})" if reported else ""
        )


@dataclass(frozen=True)
class JsonPathExpectation:
    """A path that must lead to something, or to a given value."""

    text: str
    steps: tuple[re.Match[str], ...]
    value: str | None = None

    def pending_reason(self, obj: Object) -> str | None:
        """What is still missing; one of several places that a path leads to is enough."""
        places: list[Any] = [obj]
        for step in self.steps:
            places = [match for place in places for match in _follow(step, place)]
        if not places:
            return f"Waiting for {self.text}; there is no such field yet"
        if self.value is None:
            return None
        texts = [_text(place) for place in places]
        if self.value.lower() in (text.lower() for text in texts):
            return None
        return f'Waiting for {self.text} to be "{self.value}" (found "{", ".join(texts)}")'


def _follow(step: re.Match[str], place: Any) -> Iterable[Any]:
    name = step["quoted"] or (step["name"].replace("\\.", ".") if step["name"] else None)
    if name is not None:
        return [place[name]] if isinstance(place, dict) and name in place else []
    if step["index"] is not None:
        index = int(step["index"])
        return [place[index]] if isinstance(place, list) and -len(place) <= index < len(place) else []
    items = list(place.values()) if isinstance(place, dict) else place if isinstance(place, list) else []
    if step["all"]:
        return items
    literal = step["literal"].strip("\"'")
    return [item for item in items if literal in (_text(match) for match in _field(item, step["field"]))]


def _field(item: Any, dotted: str) -> list[Any]:
    for part in dotted.split("."):
        if not isinstance(item, dict) or part not in item:
            return []
        item = item[part]
    return [item]


def _text(value: Any) -> str:
    """A value as kubectl prints it: booleans in lower case, whole objects as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), sort_keys=True)


def parse(annotation: str) -> list[Expectation]:
    """Read the annotation; all expectations must be met. Raises WaitForError."""
    text = annotation.strip()
    if not text.startswith("["):
        return [_expectation(text)]
    try:
        listed = json.loads(text)
    except ValueError as error:
        raise WaitForError(f"pulumi.com/waitFor is not valid JSON: {error}") from error
    if not listed or not all(isinstance(item, str) for item in listed):
        raise WaitForError('pulumi.com/waitFor must be a JSON array of strings, such as ["condition=Available"]')
    return [_expectation(item.strip()) for item in listed]


def _expectation(text: str) -> Expectation:
    if text.startswith("condition="):
        kind, _, status = text.removeprefix("condition=").partition("=")
        if not kind:
            raise WaitForError(f"pulumi.com/waitFor {text!r} names no condition; write condition=Ready")
        return ConditionExpectation(kind, status or "True")
    if text.startswith("jsonpath="):
        return _json_path(text.removeprefix("jsonpath="))
    raise WaitForError(f"pulumi.com/waitFor {text!r} must start with condition= or jsonpath=")


def _json_path(text: str) -> JsonPathExpectation:
    if text.startswith("'"):
        raise WaitForError(f"pulumi.com/waitFor {text!r}: omit shell quotes")
    match = re.fullmatch(r"\{(?P<path>[^{}]*)\}(?:(?P<equals>=)(?P<value>.*))?", text, re.DOTALL)
    if match is None:
        raise WaitForError(f"pulumi.com/waitFor {text!r}: the form is jsonpath={{.path}} or jsonpath={{.path}}=value")
    if match["equals"] and not match["value"]:
        raise WaitForError(f"pulumi.com/waitFor {text!r} requires a value after =")
    return JsonPathExpectation(f"{{{match['path'].strip()}}}", _steps(match["path"].strip(), text), match["value"])


def _steps(path: str, text: str) -> tuple[re.Match[str], ...]:
    path = path.removeprefix("$")
    path = path if path.startswith((".", "[")) else f".{path}"
    steps, position = [], 0
    while position < len(path):
        step = _SEGMENT.match(path, position)
        if step is None:
            raise WaitForError(f"pulumi.com/waitFor {text!r}: cannot read the path at {path[position:]!r}")
        steps.append(step)
        position = step.end()
    return tuple(steps)
