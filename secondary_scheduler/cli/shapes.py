"""What is kept of a value: shapes that name what stays, so that everything else is left out.

A shape copies the part of JSON-like data that it names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MAX_TEXT: Final = 8 << 10
"""Characters of one text."""
_LIMIT: Final = 500
"""Elements of a list or map."""
_CUT: Final = " […]"


class _Dropped:
    """What is not kept; None may be a value."""


DROPPED: Final = _Dropped()


class KeptShape(ABC):
    """What is kept of one value."""

    @abstractmethod
    def keep(self, value: Any) -> Any:
        """Return the part of a value that is kept; `DROPPED` if none is."""


class Scalar(KeptShape):
    """A text of limited length, a number, a boolean or null."""

    def keep(self, value: Any) -> Any:
        """The part that this shape names."""
        if isinstance(value, str):
            return value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + _CUT
        return value if value is None or isinstance(value, bool | int | float) else DROPPED


@dataclass(frozen=True)
class Masked(KeptShape):
    """Any text is replaced; that there is one may be known."""

    mask: str

    def keep(self, value: Any) -> Any:
        """The mask."""
        return self.mask if isinstance(value, str) and value else DROPPED


@dataclass(frozen=True)
class MapShape(KeptShape):
    """A map with known keys."""

    fields: Mapping[str, KeptShape]

    def keep(self, value: Any) -> Any:
        """The part that this shape names."""
        if not isinstance(value, dict):
            return DROPPED
        parts = {name: shape.keep(value[name]) for name, shape in self.fields.items() if name in value}
        return {name: part for name, part in parts.items() if part is not DROPPED}


@dataclass(frozen=True)
class Each(KeptShape):
    """A list."""

    shape: KeptShape

    def keep(self, value: Any) -> Any:
        """The part that this shape names."""
        if not isinstance(value, list):
            return DROPPED
        parts = (self.shape.keep(item) for item in value[:_LIMIT])
        return [part for part in parts if part is not DROPPED]


@dataclass(frozen=True)
class Table(KeptShape):
    """A map whose keys are data."""

    shape: KeptShape

    def keep(self, value: Any) -> Any:
        """The part that this shape names."""
        if not isinstance(value, dict):
            return DROPPED
        keys = [key for key in value if isinstance(key, str) and len(key) < MAX_TEXT][:_LIMIT]
        parts = {key: self.shape.keep(value[key]) for key in keys}
        return {key: part for key, part in parts.items() if part is not DROPPED} or DROPPED


def scalars(*names: str) -> dict[str, KeptShape]:
    """Fields that are scalars."""
    return {name: Scalar() for name in names}
