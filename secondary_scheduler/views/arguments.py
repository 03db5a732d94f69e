"""Nested args as a flat list of their leaves, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MAX_LEAVES = 400
"""Leaves of one plugin's args that are shown."""
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Argument:
    """One leaf.

    Attributes:
        path: keys and indexes.
        value: a number, a text, a boolean, None, or an empty list or map.
    """

    path: Path
    value: Any

    @property
    def name(self) -> str:
        """The path as text: `scoringStrategy.resources[0].weight`."""
        return path_name(self.path)

    @property
    def shown(self) -> str:
        """The value as YAML writes it."""
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        if self.value is None:
            return "null"
        return str(self.value)

    @property
    def kind(self) -> str:
        """How it can be edited: `boolean`, `number`, `text`, or "" if not at all."""
        if isinstance(self.value, bool):
            return "boolean"
        if isinstance(self.value, int | float):
            return "number"
        return "text" if isinstance(self.value, str) else ""


def path_name(path: Path) -> str:
    """Return a path as text."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def arguments_of(data: Any) -> tuple[Argument, ...]:
    """Return the leaves of nested data in order, at most some hundreds."""
    leaves: list[Argument] = []
    for argument in _leaves(data, ()):
        if len(leaves) == _MAX_LEAVES:
            break
        leaves.append(argument)
    return tuple(leaves)


def _leaves(data: Any, path: Path) -> Iterator[Argument]:
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _leaves(value, (*path, str(key)))
    elif isinstance(data, list | tuple) and data:
        for index, value in enumerate(data):
            yield from _leaves(value, (*path, index))
    else:
        yield Argument(path, data)
