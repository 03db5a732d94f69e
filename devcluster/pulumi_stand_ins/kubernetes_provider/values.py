"""Property values as the engine sends them: plain JSON, except that secrets and unknowns are marked in band."""

import json
import re
from collections.abc import Callable
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]
"""A Kubernetes object or a part of one, as JSON."""

SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 (the protocol's marker, not a credential)
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
_UNKNOWNS = frozenset(
    {
        UNKNOWN,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)


def is_secret(value: Any) -> bool:
    """Whether the value itself is marked secret (not merely something inside it)."""
    return isinstance(value, dict) and value.get(SIGNATURE_KEY) == SECRET_SIGNATURE


def is_unknown(value: Any) -> bool:
    """Whether the value is not known yet, as happens in a preview."""
    return isinstance(value, str) and value in _UNKNOWNS


def secret(value: Any) -> Any:
    """Mark a value secret; marking twice changes nothing."""
    return value if is_secret(value) else {SIGNATURE_KEY: SECRET_SIGNATURE, "value": value}


def reveal(value: Any) -> Any:
    """The value without any secret marks, as the API server must get it."""
    if is_secret(value):
        return reveal(value.get("value"))
    if isinstance(value, dict):
        return {key: reveal(item) for key, item in value.items()}
    if isinstance(value, list):
        return [reveal(item) for item in value]
    return value


def contains(value: Any, test: Callable[[Any], bool]) -> bool:
    """Whether the value or anything inside it passes the test."""
    if test(value):
        return True
    if isinstance(value, dict):
        return any(contains(item, test) for item in value.values())
    return isinstance(value, list) and any(contains(item, test) for item in value)


def contains_unknown(value: Any) -> bool:
    """Whether any part is unknown."""
    return contains(value, is_unknown)


def contains_secret(value: Any) -> bool:
    """Whether any part is marked secret."""
    return contains(value, is_secret)


def with_secrets_of(value: Any, marked: Any) -> Any:
    """`value` with the secret marks of `marked` copied on to it.

    A list with a secret anywhere becomes secret as a whole: the server may have reordered or extended it.
    """
    if is_secret(marked):
        return secret(reveal(value))
    if isinstance(value, dict) and isinstance(marked, dict):
        return {key: with_secrets_of(item, marked.get(key)) for key, item in value.items()}
    if isinstance(marked, list) and contains_secret(marked):
        return secret(reveal(value))
    return value


def without_nulls(value: Any) -> Any:
    """The value without null members of objects: to Kubernetes an absent field and null are the same."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def is_empty(value: Any) -> bool:
    """Whether the API server leaves the value out of objects of its own types."""
    return value is None or value is False or (not isinstance(value, bool) and value in ("", 0, [], {}))


def prune(live: Any, shape: Any) -> Any:
    """What of `live` `shape` speaks about: added members of objects are dropped, and so are further items of lists.

    As pulumi-kubernetes' pruneMap and pruneSlice: what somebody appended to a list is never seen.
    """
    if isinstance(shape, dict) and isinstance(live, dict):
        return {key: prune(live[key], item) for key, item in shape.items() if key in live}
    if isinstance(shape, list) and isinstance(live, list):
        return [prune(a, b) for a, b in zip(live, shape, strict=False)]
    return live


Path: TypeAlias = tuple[str | int, ...]

ANY = "*"
_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*\Z")
_STEP = re.compile(r"""\.?([^.\[\]"]+)|\[(\d+)\]|\[\*\]|\[("(?:[^"\\]|\\.)*")\]""")


def parse(text: str) -> Path:
    """Read a path; a leading dot is allowed. Raises ValueError where it cannot be read."""
    steps: list[str | int] = []
    position = 0
    while position < len(text):
        step = _STEP.match(text, position)
        if step is None:
            raise ValueError(f"cannot read the property path {text!r} at position {position}")
        name, index, quoted = step.groups()
        if name is not None:
            steps.append(name)
        elif index is not None:
            steps.append(int(index))
        else:
            steps.append(ANY if quoted is None else str(json.loads(quoted)))
        position = step.end()
    return tuple(steps)


def render(path: Path) -> str:
    """Write a path the way the engine reads it."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.match(step):
            text += f".{step}" if text else step
        else:
            text += f"[{json.dumps(step)}]"
    return text


ABSENT = object()
"""What `at` returns for a place that does not exist."""


def at(value: Any, path: Path) -> Any:
    """What stands at a place, ABSENT where there is none."""
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return ABSENT
    return value


def covers(pattern: Path, path: Path) -> bool:
    """Whether `path` is the place that `pattern` names, or lies inside it."""
    return len(pattern) <= len(path) and all(p in (ANY, s) for p, s in zip(pattern, path, strict=False))


def overlaps(pattern: Path, path: Path) -> bool:
    """Whether one of the two lies inside the other: a change at `path` touches what `pattern` names."""
    return all(p in (ANY, s) for p, s in zip(pattern, path, strict=False))
