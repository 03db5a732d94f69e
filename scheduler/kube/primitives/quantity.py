"""Kubernetes quantities ("100m", "1.5Gi", "12e6") without floating point.

Follows k8s.io/apimachinery/pkg/api/resource (v0.34) with three differences, all of them outside what a cluster normally
holds: values beyond int64 saturate (Go returns 0 or wraps around), negative values always round away from zero (Go's
big-decimal path rounds them up), and a quantity needs at least one digit (Go reads "Gi" as 0).
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Final

INT64_MAX: Final = (1 << 63) - 1
INT64_MIN: Final = -INT64_MAX
"""Saturation is symmetric, as in Go where a parsed magnitude is capped before the sign is put back."""

_MAX_TEXT: Final = 256
"""Longer texts are refused: no sane quantity needs them, and digits cost quadratic time to convert."""
_BIG_EXPONENT: Final = 64
"""10**64 is beyond any int64 at every scale we ask for, given at most `_MAX_TEXT` fraction digits are counted apart."""


_MAX_EXPONENT: Final = 1_000_000
"""Decimal has no larger ones than 10**18, and no quantity is meant to have one."""


class QuantityFormat(enum.StrEnum):
    """Family of suffix that a quantity was written with and is printed with."""

    BINARY_SI = "BinarySI"
    DECIMAL_SI = "DecimalSI"
    DECIMAL_EXPONENT = "DecimalExponent"


class QuantityError(ValueError):
    """The text is not a Kubernetes quantity; the message quotes it and says what is allowed."""


BINARY_SUFFIXES: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
DECIMAL_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
"""Powers of two and of ten that suffixes stand for."""
_DECIMAL_BY_EXPONENT: Final = {exponent: suffix for suffix, exponent in DECIMAL_SUFFIXES.items()}
_BINARY_BY_EXPONENT: Final = {0: ""} | {exponent: suffix for suffix, exponent in BINARY_SUFFIXES.items()}
_PATTERN: Final = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([KMGTPE]i|[numkMGTPE]?|[eE][+-]?[0-9]+)", re.ASCII)
_PLAIN: Final = re.compile(r"([0-9]{1,15})(m|Ki|Mi|Gi|)", re.ASCII)
_PLAIN_MILLI: Final = {"m": 1, "": 1000, "Ki": 1000 << 10, "Mi": 1000 << 20, "Gi": 1000 << 30}


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact number `mantissa * 10**exponent` and the family of suffix it is printed with."""

    mantissa: int
    exponent: int
    format: QuantityFormat = QuantityFormat.DECIMAL_SI

    def scaled(self, scale: int) -> int:
        """Return the number in units of `10**scale`, rounded away from zero and saturated to int64."""
        shift = self.exponent - scale
        magnitude = abs(self.mantissa)
        if magnitude == 0:
            return 0
        if shift >= 0:
            value = INT64_MAX if shift > _BIG_EXPONENT else magnitude * 10**shift
        elif -shift > _BIG_EXPONENT + _MAX_TEXT:
            value = 1
        else:
            value = -(-magnitude // 10**-shift)
        value = min(value, INT64_MAX)
        return value if self.mantissa > 0 else -value

    def __str__(self) -> str:
        return _canonical(self)


def parse_quantity(text: str) -> Quantity:
    """Read a quantity. Surrounding blanks are ignored, as the JSON decoder of Kubernetes does."""
    stripped = text.strip()
    match = _PATTERN.fullmatch(stripped) if len(stripped) <= _MAX_TEXT else None
    if match is None or not (match[2] or match[3]):
        raise QuantityError(
            f"{_shown(text)} is not a Kubernetes quantity: expected a number with an optional suffix, "
            "one of n u m k M G T P E, Ki Mi Gi Ti Pi Ei or an exponent such as e3"
        )
    sign, whole, fraction, suffix = match[1], match[2], match[3] or "", match[4]
    mantissa = int((whole + fraction) or "0")
    exponent = -len(fraction)
    if suffix in BINARY_SUFFIXES:
        mantissa <<= BINARY_SUFFIXES[suffix]
        family = QuantityFormat.BINARY_SI
    elif suffix in DECIMAL_SUFFIXES:
        exponent += DECIMAL_SUFFIXES[suffix]
        family = QuantityFormat.DECIMAL_SI
    else:
        exponent += int(suffix[1:])
        family = QuantityFormat.DECIMAL_EXPONENT
    if family is QuantityFormat.BINARY_SI:
        mantissa, exponent, family = _limit_binary(mantissa, exponent)
    return Quantity(-mantissa if sign == "-" else mantissa, exponent, family)


def _limit_binary(mantissa: int, exponent: int) -> tuple[int, int, QuantityFormat]:
    """Cap a binary quantity at int64, and print one below 1 with a decimal suffix (as ParseQuantity)."""
    if exponent == 0:
        return min(mantissa, INT64_MAX), 0, QuantityFormat.BINARY_SI
    unit = 10**-exponent
    if mantissa > INT64_MAX * unit:
        return INT64_MAX, 0, QuantityFormat.BINARY_SI
    return mantissa, exponent, QuantityFormat.DECIMAL_SI if 0 < mantissa < unit else QuantityFormat.BINARY_SI


@lru_cache(maxsize=65536)
def _milli_value(text: str) -> int:
    match = _PLAIN.fullmatch(text)
    if match is not None:
        value = int(match[1]) * _PLAIN_MILLI[match[2]]
        return min(value, INT64_MAX)
    return parse_quantity(text).scaled(-3)


@lru_cache(maxsize=65536)
def _value(text: str) -> int:
    match = _PLAIN.fullmatch(text)
    if match is not None:
        return min(-(-int(match[1]) * _PLAIN_MILLI[match[2]] // 1000), INT64_MAX)
    return parse_quantity(text).scaled(0)


def quantity_milli_value(quantity: str | int | float) -> int:
    """Return thousandths of the unit, rounded away from zero, as Go's Quantity.MilliValue (cpu is counted so)."""
    return _milli_value(quantity if type(quantity) is str else _number(quantity))


def quantity_value(quantity: str | int | float) -> int:
    """Return whole units, rounded away from zero, as Go's Quantity.Value (bytes, pods, devices are counted so)."""
    return _value(quantity if type(quantity) is str else _number(quantity))


@lru_cache(maxsize=65536)
def _exact(text: str) -> Decimal:
    parsed = parse_quantity(text)
    return Decimal(f"{parsed.mantissa}E{min(max(parsed.exponent, -_MAX_EXPONENT), _MAX_EXPONENT)}")


def exact_quantity(quantity: str | int | float) -> Decimal:
    """Return a number that compares as Go's Quantity.Cmp: nothing is rounded or saturated."""
    return _exact(quantity if type(quantity) is str else _number(quantity))


def canonical(quantity: str | int | float) -> str:
    """Return the canonical form: "1500m" for 1.5, "1536Mi" for 1.5Gi.

    Go's String() keeps some texts as they were written ("1.500"); this never does.
    """
    return str(parse_quantity(_number(quantity)))


def format_value(amount: int, family: QuantityFormat = QuantityFormat.BINARY_SI) -> str:
    """Print whole units, as NewQuantity(amount, family).String()."""
    return str(Quantity(amount, 0, family))


def format_milli(amount: int) -> str:
    """Print thousandths, as NewMilliQuantity(amount, DecimalSI).String()."""
    return str(Quantity(amount, -3))


def _number(quantity: str | int | float) -> str:
    """YAML written by hand may hold bare numbers; the API server only sends strings."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise QuantityError(f"{quantity!r} is not a Kubernetes quantity: expected a string or a number")
    return quantity if isinstance(quantity, str) else repr(quantity)


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def _canonical(quantity: Quantity) -> str:
    """CanonicalizeBytes of quantity.go: no precision lost, no fraction digits, largest possible suffix."""
    if quantity.mantissa == 0:
        return "0"
    family = quantity.format
    if family is QuantityFormat.BINARY_SI and (whole := _exact_int(quantity)) is not None and abs(whole) >= 1024:
        mantissa, exponent = whole, 0
        while exponent < 60 and mantissa % 1024 == 0:
            mantissa, exponent = mantissa // 1024, exponent + 10
        return f"{mantissa}{_BINARY_BY_EXPONENT[exponent]}"
    mantissa, exponent = quantity.mantissa, quantity.exponent
    if exponent < -9:
        # More precise than the nano that Kubernetes keeps: rounded away from zero.
        mantissa, exponent = quantity.scaled(-9), -9
    while mantissa % 10 == 0:
        mantissa, exponent = mantissa // 10, exponent + 1
    while exponent % 3:
        mantissa, exponent = mantissa * 10, exponent - 1
    if family is QuantityFormat.DECIMAL_EXPONENT:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    # Kubernetes has no suffix beyond E and prints none, losing the value; an exponent keeps it readable.
    suffix = _DECIMAL_BY_EXPONENT.get(exponent)
    return f"{mantissa}{suffix}" if suffix is not None else f"{mantissa}e{exponent}"


def _exact_int(quantity: Quantity) -> int | None:
    if quantity.exponent >= 0:
        return quantity.mantissa * 10**quantity.exponent if quantity.exponent <= _BIG_EXPONENT else None
    whole, rest = divmod(quantity.mantissa, 10**-quantity.exponent)
    return None if rest else whole
