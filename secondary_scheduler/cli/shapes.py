"""What is kept of a value: shapes that name what stays, so that everything else is left out.

A shape copies the part of JSON-like data that it names. It can list the paths of what it may keep: the allowlist.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

LONGEST: Final = 8 << 10
"""Characters of one text."""
_MOST: Final = 500
"""Elements of a list or map."""
_CUT: Final = " […]"


class _Dropped:
    """What is not kept; None may be a value."""


DROPPED: Final = _Dropped()


class Shape(ABC):
    """What is kept of one value."""

    @abstractmethod
    def keep(self, value: Any) -> Any:
        """Return the part of a value that is kept; `DROPPED` if none is."""

    @abstractmethod
    def paths(self) -> Iterator[str]:
        """Yield the paths of what may be kept, below this value: `.name`, `.ports[].name`, `.labels{}`."""


class Scalar(Shape):
    """A text of limited length, a number, a boolean or null."""

    def keep(self, value: Any) -> Any:
        """The part that this shape names."""
        if isinstance(value, str):
            return value if len(value) <= LONGEST else value[:LONGEST] + _CUT
        return value if value is None or isinstance(value, bool | int | float) else DROPPED

    def paths(self) -> Iterator[str]:
        """Its path, or those of its parts."""
        yield ""


@dataclass(frozen=True)
class Masked(Shape):
    """Any text is replaced; that there is one may be known."""

    mask: str

    def keep(self, value: Any) -> Any:
        """The mask."""
        return self.mask if isinstance(value, str) and value else DROPPED

    def paths(self) -> Iterator[str]:
        """None, as no value is kept."""
        yield from ()


@dataclass(frozen=True)
class Fields(Shape):
    """A map with known keys."""

    fields: Mapping[str, Shape]

    def keep(self, value: Any) -> Any:
        """The part that this shape names."""
        if not isinstance(value, dict):
            return DROPPED
        kept = {name: shape.keep(value[name]) for name, shape in self.fields.items() if name in value}
        return {name: part for name, part in kept.items() if part is not DROPPED}

    def paths(self) -> Iterator[str]:
        """Its path, or those of its parts."""
        for name, shape in self.fields.items():
            yield from (f".{name}{path}" for path in shape.paths())


@dataclass(frozen=True)
class Each(Shape):
    """A list."""

    shape: Shape

    def keep(self, value: Any) -> Any:
        """The part that this shape names."""
        if not isinstance(value, list):
            return DROPPED
        kept = (self.shape.keep(item) for item in value[:_MOST])
        return [part for part in kept if part is not DROPPED]

    def paths(self) -> Iterator[str]:
        """Its path, or those of its parts."""
        yield from (f"[]{path}" for path in self.shape.paths())


def _any_key(_: str) -> bool:
    return True


@dataclass(frozen=True)
class Table(Shape):
    """A map whose keys are data, such as labels: those that `wanted` accepts."""

    shape: Shape = field(default_factory=Scalar)
    wanted: Callable[[str], bool] = _any_key

    def keep(self, value: Any) -> Any:
        """The part that this shape names."""
        if not isinstance(value, dict):
            return DROPPED
        keys = [key for key in value if isinstance(key, str) and len(key) < LONGEST and self.wanted(key)][:_MOST]
        kept = {key: self.shape.keep(value[key]) for key in keys}
        return {key: part for key, part in kept.items() if part is not DROPPED} or DROPPED

    def paths(self) -> Iterator[str]:
        """Its path, or those of its parts."""
        yield from (f"{{}}{path}" for path in self.shape.paths())


@dataclass(frozen=True)
class Flags(Shape):
    """A command line: programs and flags that are known, with the values that follow a `=`.

    Attributes:
        flags: with their dashes.
        programs: whose path is kept; of any other program nothing is.
    """

    flags: Collection[str]
    programs: Collection[str]

    def keep(self, value: Any) -> Any:
        """The part that this shape names."""
        if not isinstance(value, list):
            return DROPPED
        words = [word for word in value[:_MOST] if isinstance(word, str)]
        kept = [Scalar().keep(word) for word in words if self.knows(word)]
        left_out = len(value) - len(kept)
        return [*kept, f"[{left_out} left out]"] if left_out else kept

    def knows(self, word: str) -> bool:
        """Whether a word of the command line is kept."""
        if word.startswith("-"):
            return flag_of(word) in self.flags
        return word.rpartition("/")[2] in self.programs

    def paths(self) -> Iterator[str]:
        """Its path, or those of its parts."""
        yield "[]"


def flag_of(word: str) -> str:
    """The flag of a word of a command line; Kubernetes' flags may be written with underscores."""
    return word.partition("=")[0].replace("_", "-")


def scalars(*names: str) -> dict[str, Shape]:
    """Fields that are scalars."""
    return {name: Scalar() for name in names}
