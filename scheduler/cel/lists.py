"""CEL's functions on lists: cel-go's lists and sets extensions, and Kubernetes' own."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Mapping

from scheduler.cel.errors import CelError, no_such_overload
from scheduler.cel.scope import Scope
from scheduler.cel.values import ABSENT, INT_MAX, INT_MIN, UINT_MAX, Optional, Uint, Value, compare, equal


def _demand_lists(*values: Value) -> None:
    for value in values:
        if type(value) is not list:
            raise no_such_overload()


def contains(scope: Scope, values: list[Value], wanted: Value) -> bool:
    """Tell whether a list has a value; those that cannot be compared with it are others."""
    for value in values:
        try:
            if equal(wanted, value, scope.spend):
                return True
        except CelError:
            continue
    return False


def _sets_contains(scope: Scope, values: Value, wanted: Value) -> Value:
    _demand_lists(values, wanted)
    return all(contains(scope, values, each) for each in wanted)


def _sets_equivalent(scope: Scope, left: Value, right: Value) -> Value:
    return _sets_contains(scope, left, right) and _sets_contains(scope, right, left)


def _sets_intersects(scope: Scope, left: Value, right: Value) -> Value:
    _demand_lists(left, right)
    return any(contains(scope, right, each) for each in left)


def _distinct(scope: Scope, values: Value) -> Value:
    _demand_lists(values)
    result: list[Value] = []
    for value in values:
        if not contains(scope, result, value):
            result.append(value)
    return result


def _flatten(scope: Scope, values: Value, depth: Value = 1) -> Value:
    _demand_lists(values)
    if type(depth) is not int:
        raise no_such_overload()
    if depth < 0:
        raise CelError("level must be non-negative")
    result: list[Value] = []
    for value in values:
        if type(value) is list and depth > 0:
            result.extend(_flatten(scope, value, depth - 1))
        else:
            result.append(value)
    scope.spend(1 + len(result))
    return result


def _range(scope: Scope, end: Value) -> Value:
    if type(end) is not int:
        raise no_such_overload()
    scope.spend(max(0, end))
    return list(range(end))


def _reverse(scope: Scope, values: Value) -> Value:
    _demand_lists(values)
    scope.spend(len(values) // 10)
    return values[::-1]


def _slice(scope: Scope, values: Value, start: Value, end: Value) -> Value:
    _demand_lists(values)
    if type(start) is not int or type(end) is not int:
        raise no_such_overload()
    if start < 0 or end < 0:
        raise CelError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise CelError(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if end > len(values):
        raise CelError(f"cannot slice({start}, {end}), list is length {len(values)}")
    scope.spend((end - start) // 10)
    return values[start:end]


def _sort(scope: Scope, values: Value) -> Value:
    _demand_lists(values)
    scope.spend(len(values) * max(1, len(values).bit_length()))
    if values and any(type(value) is not type(values[0]) for value in values):
        raise CelError("list elements must have the same type")
    return sorted(values, key=functools.cmp_to_key(compare))


def _is_sorted(scope: Scope, values: Value) -> Value:
    _demand_lists(values)
    scope.spend(len(values) // 10)
    return all(compare(left, right) <= 0 for left, right in itertools.pairwise(values))


def _sum(scope: Scope, values: Value) -> Value:
    _demand_lists(values)
    scope.spend(len(values) // 10)
    if not values:
        return 0
    kind = type(values[0])
    if kind not in (int, Uint, float) or any(type(value) is not kind for value in values):
        raise no_such_overload()
    total = values[0]
    for value in values[1:]:
        total = total + value if kind is float else int(total) + int(value)
        if kind is int and not INT_MIN <= total <= INT_MAX:
            raise CelError("integer overflow")
        if kind is Uint and total > UINT_MAX:
            raise CelError("unsigned integer overflow")
    return Uint(total) if kind is Uint else total


def _extreme(sign: int, name: str) -> Callable[..., Value]:
    def function(scope: Scope, values: Value) -> Value:
        _demand_lists(values)
        scope.spend(len(values) // 10)
        if not values:
            raise CelError(f"{name} called on empty list")
        best = values[0]
        for value in values[1:]:
            if sign * compare(value, best) > 0:
                best = value
        return best

    return function


def _first(scope: Scope, values: Value) -> Value:
    _demand_lists(values)
    return Optional(values[0]) if values else ABSENT


def _last(scope: Scope, values: Value) -> Value:
    _demand_lists(values)
    return Optional(values[-1]) if values else ABSENT


LIST_FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "distinct": _distinct,
    "flatten": _flatten,
    "reverse": _reverse,
    "slice": _slice,
    "sort": _sort,
    "isSorted": _is_sorted,
    "sum": _sum,
    "min": _extreme(-1, "min"),
    "max": _extreme(1, "max"),
    "first": _first,
    "last": _last,
}
NAMESPACED_LISTS: Mapping[str, Callable[..., Value]] = {
    "lists.range": _range,
    "sets.contains": _sets_contains,
    "sets.equivalent": _sets_equivalent,
    "sets.intersects": _sets_intersects,
}
