"""Quantities of capacities and counters, for exact comparisons."""

from __future__ import annotations

from functools import lru_cache

from scheduler.kube.model import Amount
from scheduler.kube.primitives import QuantityError, parse_quantity

_MAX_SHIFT = 60


class AllocationError(Exception):
    """Something is wrong with a claim, a class or a slice: the attempt fails, on all nodes."""


@lru_cache(maxsize=10_000)
def billionths(amount: Amount) -> int:
    """Return a quantity in billionths.

    Raises:
        AllocationError: it is none.
    """
    try:
        parsed = parse_quantity(str(amount))
    except QuantityError as error:
        raise AllocationError(str(error)) from error
    shift = parsed.exponent + 9
    unit: int = 10 ** min(abs(shift), _MAX_SHIFT)
    return parsed.mantissa * unit if shift >= 0 else -(-parsed.mantissa // unit)
