"""The values of CEL as Python objects, with CEL's equality and order.

int is int (within 64 bits), uint `Uint`, double float, string str, bool bool, list a list, map a `CelMap`. Python's
True equals 1, CEL's does not: compare with `equal` only.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import total_ordering
from typing import Any, Final

from scheduler.cel.errors import CelError, no_such_overload
from scheduler.kube.primitives import BINARY_SUFFIXES, DECIMAL_SUFFIXES, QuantityError, parse_quantity

Value = Any
"""One of the types named above, or one of the classes below."""

INT_MIN, INT_MAX, UINT_MAX = -(1 << 63), (1 << 63) - 1, (1 << 64) - 1
_NANO: Final = 10**9
_QUANTITY_MAX: Final = INT_MAX * _NANO
_MAX_SHIFT: Final = 400
"""Powers of ten beyond it are beyond every quantity, and need not be computed."""


class Null:
    """The only value of null_type."""

    __slots__ = ()


NULL: Final = Null()


class Uint(int):
    """An unsigned 64-bit number."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """A value that may be absent; `ABSENT` is optional.none()."""

    value: Value


_NOTHING: Final = object()
ABSENT: Final = Optional(_NOTHING)


def is_present(optional: Optional) -> bool:
    """Tell whether an optional has a value."""
    return optional.value is not _NOTHING


class Fields(ABC):
    """What fields or keys are selected of."""

    __slots__ = ()

    @abstractmethod
    def entry(self, key: Value) -> Value | None:
        """Return the value of a key, None where there is none."""


class MapValue(Fields):
    """A map."""

    __slots__ = ()

    @abstractmethod
    def __iter__(self) -> Iterator[Value]:
        """Yield the keys."""

    @abstractmethod
    def items(self) -> Iterator[tuple[Value, Value]]:
        """Yield keys with their values."""

    @abstractmethod
    def __len__(self) -> int: ...

    def has(self, key: Value) -> bool:
        """Tell whether there is a key: the operator `in`."""
        return self.entry(key) is not None


class CelMap(MapValue):
    """A map. Keys are kept with their kind, as Python takes True for 1."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[Any, tuple[Value, Value]] | None = None) -> None:
        self._entries: dict[Any, tuple[Value, Value]] = dict(entries or {})

    def insert(self, key: Value, value: Value) -> None:
        """Add an entry.

        Raises:
            CelError: the key is there already, or cannot be one.
        """
        kept = _map_key(key)
        if kept in self._entries:
            raise CelError(f"insert failed: key {shown(key)} already exists")
        self._entries[kept] = (key, value)

    def entry(self, key: Value) -> Value | None:
        """Return the value of a key, None where there is none."""
        entry = self._entries.get(_map_key(key))
        return None if entry is None else entry[1]

    def __iter__(self) -> Iterator[Value]:
        """Yield the keys."""
        return (key for key, _ in self._entries.values())

    def items(self) -> Iterator[tuple[Value, Value]]:
        """Yield keys with their values."""
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)


def _map_key(key: Value) -> Any:
    kind = type(key)
    if kind is str:
        return key
    if kind is bool:
        return ("bool", key)
    if kind in (int, Uint):
        return int(key)
    if kind is float:
        return int(key) if key.is_integer() else key
    raise CelError(f"unsupported key type: {type_name(key)}")


@total_ordering
class Quantity:
    """A Kubernetes quantity, in billionths: what is smaller is rounded up and what is larger capped, as upstream.

    `is_sum` marks what add and sub give: on the right of == it is of no known type there, a slip of upstream's.
    `scale` is the power of ten in which Go keeps it as an int64, None where it does not: what it keeps with fraction
    digits is no integer to it, even 2000m.
    """

    __slots__ = ("is_sum", "nano", "scale")

    def __init__(self, nano: int, scale: int | None = 0, *, is_sum: bool = False) -> None:
        self.nano = nano
        self.scale = scale
        self.is_sum = is_sum

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity.

        Raises:
            QuantityError: it is none.
        """
        parsed = parse_quantity(text)
        magnitude, shift = abs(parsed.mantissa), parsed.exponent + 9
        if magnitude and shift > _MAX_SHIFT:
            nano = _QUANTITY_MAX
        elif shift >= 0:
            nano = magnitude * 10**shift if magnitude else 0
        elif shift < -_MAX_SHIFT:
            nano = 1 if magnitude else 0
        else:
            nano = -(-magnitude // 10**-shift)
        nano = min(nano, _QUANTITY_MAX)
        scale = _scale_of(text) if nano < _QUANTITY_MAX else None
        return cls(-nano if parsed.mantissa < 0 else nano, scale)

    def plus(self, other: Quantity, sign: int) -> Quantity:
        """Return the sum, or the difference for a sign of -1."""
        scale: int | None
        if self.scale is None or other.scale is None:
            scale = None
        elif not other.nano:
            scale = self.scale
        else:
            scale = min(self.scale, other.scale) if self.nano else other.scale
        return Quantity(self.nano + sign * other.nano, scale, is_sum=True)

    @property
    def is_integer(self) -> bool:
        """Whether it is a whole number within 64 bits."""
        return self.scale is not None and self.scale >= 0 and INT_MIN <= self.nano // _NANO <= INT_MAX

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)


_QUANTITY: Final = re.compile(r"[+-]?0*([0-9]*)(?:\.([0-9]*))?([a-zA-Z]{0,2})([+-]?[0-9]*)", re.ASCII)


def _scale_of(text: str) -> int | None:
    """Return the power of ten that ParseQuantity chooses; None for a number that it does not keep as an int64."""
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    whole, fraction, suffix, exponent = match[1], match[2] or "", match[3], match[4]
    if suffix in BINARY_SUFFIXES:
        bits = BINARY_SUFFIXES[suffix]
        return 0 if not fraction and 15 - len(whole) - bits * 3 // 10 - 1 >= 0 else None
    power = int(exponent[:6]) if exponent else DECIMAL_SUFFIXES.get(suffix, 0)
    scale = power - len(fraction)
    return scale if len(whole) + len(fraction) <= 18 and scale >= -9 else None


_IDENTIFIER: Final = r"(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)"
_SEMVER: Final = re.compile(
    rf"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?",
    re.ASCII,
)
_MAX_VERSION: Final = 256


@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version; what is built from it does not count in comparisons."""

    numbers: tuple[int, int, int]
    pre: tuple[tuple[int, int, str], ...]
    """Each part: whether it is text (texts come after numbers), the number, the text."""

    @classmethod
    def parse(cls, text: str) -> Semver | None:
        """Read a version in its strict form; None where it is none."""
        match = _SEMVER.fullmatch(text) if len(text) <= _MAX_VERSION else None
        if match is None:
            return None
        numbers = (int(match[1]), int(match[2]), int(match[3]))
        if max(numbers) > UINT_MAX:
            return None
        parts = match[4].split(".") if match[4] else []
        pre = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)
        return cls(numbers, pre)

    def compare(self, other: Semver) -> int:
        """Return -1, 0 or 1: the order of semver.org."""
        # No pre-release comes after all pre-releases.
        mine, others = (self.numbers, not self.pre, self.pre), (other.numbers, not other.pre, other.pre)
        return (mine > others) - (mine < others)


def type_name(value: Value) -> str:
    """Return CEL's name of a value's type."""
    names: dict[type, str] = {
        bool: "bool", int: "int", Uint: "uint", float: "double", str: "string", list: "list", CelMap: "map",
        Null: "null_type", TypeValue: "type", Optional: "optional_type",
        Quantity: "kubernetes.Quantity", Semver: "kubernetes.Semver",
    }  # fmt: skip
    name = names.get(type(value))
    if name is None:
        return "map" if isinstance(value, MapValue) else "kubernetes.DRADevice"
    return name


_NUMBERS: Final = frozenset({int, Uint, float})


def equal(left: Value, right: Value, spend: Callable[[int], None]) -> bool:
    """Tell whether two values are equal; those of different types are not, numbers apart. `spend` is called with the
    work it takes, as lists may hold one list many times.

    Raises:
        CelError: the first is a quantity or version, and the second is not.
    """
    spend(1)
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        return bool(left == right)
    if kind is list and other is list:
        return len(left) == len(right) and all(equal(a, b, spend) for a, b in zip(left, right, strict=True))
    if isinstance(left, MapValue) and isinstance(right, MapValue):
        if len(left) != len(right):
            return False
        return all(
            (entry := right.entry(key)) is not None and equal(value, entry, spend) for key, value in left.items()
        )
    if kind in (Quantity, Semver) and (kind is not other or (kind is Quantity and right.is_sum)):
        raise no_such_overload()
    if kind is not other:
        return False
    if kind is Semver:
        return bool(left.compare(right) == 0)
    if kind is Optional:
        if is_present(left) and is_present(right):
            return equal(left.value, right.value, spend)
        return is_present(left) == is_present(right)
    return bool(left == right)


def compare(left: Value, right: Value) -> int:
    """Return -1, 0 or 1 for values that have an order among each other.

    Raises:
        CelError: they have none.
    """
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        if (kind is float and math.isnan(left)) or (other is float and math.isnan(right)):
            raise CelError("NaN values cannot be ordered")
        return int(left > right) - int(left < right)
    if kind is other and kind in (str, bool):
        return int(left > right) - int(left < right)
    raise no_such_overload()


def shown(value: Value) -> str:
    """Return a value for a message."""
    if type(value) is bool:
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else type_name(value)


def parsed_quantity(text: str) -> Quantity | None:
    """Return a quantity, None where the text is none."""
    try:
        return Quantity.parse(text)
    except QuantityError:
        return None
