"""Property paths in Pulumi's notation: `spec.containers[0].image`, `metadata.annotations["a/b"]`, `spec.ports[*]`."""

import json
import re
from typing import TypeAlias

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


def covers(pattern: Path, path: Path) -> bool:
    """Whether `path` is the place that `pattern` names, or lies inside it."""
    return len(pattern) <= len(path) and all(p in (ANY, s) for p, s in zip(pattern, path, strict=False))


def overlaps(pattern: Path, path: Path) -> bool:
    """Whether one of the two lies inside the other: a change at `path` touches what `pattern` names."""
    return all(p in (ANY, s) for p, s in zip(pattern, path, strict=False))
