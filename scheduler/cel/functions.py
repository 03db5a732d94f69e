"""The functions of Kubernetes' CEL environment, by name.

Each gets the scope, its target if it has one, and its arguments, and looks at their types itself: upstream chooses
among overloads when it checks the expression. A function that is missing here is refused by name when the expression
is compiled, never counted as false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Decimal

from scheduler.cel.errors import CelError, no_such_overload
from scheduler.cel.lists import LIST_FUNCTIONS, NAMESPACED_LISTS, contains
from scheduler.cel.scope import Scope
from scheduler.cel.strings import STRING_FUNCTIONS
from scheduler.cel.values import (
    ABSENT,
    INT_MAX,
    INT_MIN,
    NULL,
    UINT_MAX,
    MapValue,
    Optional,
    Quantity,
    Semver,
    TypeValue,
    Uint,
    Value,
    compare,
    equal,
    is_present,
    parsed_quantity,
    type_name,
)

Function = Callable[..., Value]
_NANO = 10**9


# Operators ----------------------------------------------------------------------------------------------------------


def _checked(value: int, kind: type) -> int:
    if kind is Uint:
        if not 0 <= value <= UINT_MAX:
            raise CelError("unsigned integer overflow")
        return Uint(value)
    if not INT_MIN <= value <= INT_MAX:
        raise CelError("integer overflow")
    return value


def _same_numbers(left: Value, right: Value) -> type:
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint, float):
        raise no_such_overload()
    return kind


def _add(scope: Scope, left: Value, right: Value) -> Value:
    kind = type(left)
    if kind is type(right) and kind in (str, list):
        scope.spend((len(left) + len(right)) // 10)
        return left + right
    kind = _same_numbers(left, right)
    return left + right if kind is float else _checked(int(left) + int(right), kind)


def _subtract(scope: Scope, left: Value, right: Value) -> Value:
    kind = _same_numbers(left, right)
    return left - right if kind is float else _checked(int(left) - int(right), kind)


def _multiply(scope: Scope, left: Value, right: Value) -> Value:
    kind = _same_numbers(left, right)
    return left * right if kind is float else _checked(int(left) * int(right), kind)


def _divide(scope: Scope, left: Value, right: Value) -> Value:
    kind = _same_numbers(left, right)
    if kind is float:
        if right == 0:
            unsigned = math.nan if left == 0 or math.isnan(left) else math.inf
            return math.copysign(unsigned, math.copysign(1, left) * math.copysign(1, right))
        return left / right
    if right == 0:
        raise CelError("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    return _checked(quotient if (left < 0) == (right < 0) else -quotient, kind)


def _modulo(scope: Scope, left: Value, right: Value) -> Value:
    kind = _same_numbers(left, right)
    if kind is float:
        raise no_such_overload()
    if right == 0:
        raise CelError("modulus by zero")
    if left == INT_MIN and right == -1:
        raise CelError("integer overflow")
    rest = abs(int(left)) % abs(int(right))
    return _checked(-rest if left < 0 else rest, kind)


def _negate(scope: Scope, value: Value) -> Value:
    if type(value) is float:
        return -value
    if type(value) is int:
        return _checked(-value, int)
    raise no_such_overload()


def _not(scope: Scope, value: Value) -> Value:
    if type(value) is not bool:
        raise no_such_overload()
    return not value


def _in(scope: Scope, value: Value, container: Value) -> Value:
    if type(container) is list:
        return contains(scope, container, value)
    if isinstance(container, MapValue):
        return container.has(value)
    raise no_such_overload()


def _ordered(holds: Callable[[int], bool]) -> Function:
    def function(scope: Scope, left: Value, right: Value) -> Value:
        if type(left) is str and type(right) is str:
            scope.spend(min(len(left), len(right)) // 10)
        return holds(compare(left, right))

    return function


# Types --------------------------------------------------------------------------------------------------------------


def _size(scope: Scope, value: Value) -> Value:
    if type(value) in (str, list) or isinstance(value, MapValue):
        return len(value)
    raise no_such_overload()


def _int(scope: Scope, value: Value) -> Value:
    kind = type(value)
    if kind in (int, Uint):
        return _checked(int(value), int)
    if kind is float:
        if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
            raise CelError("integer overflow")
        return int(value)
    if kind is str and len(value) <= 20 and _is_number(value):
        number = int(value)
        if INT_MIN <= number <= INT_MAX:
            return number
    if kind is str:
        raise CelError("type conversion error from 'string' to 'int'")
    raise no_such_overload()


def _is_number(text: str) -> bool:
    digits = text[1:] if text[:1] in ("+", "-") else text
    return digits.isascii() and digits.isdecimal()


def _uint(scope: Scope, value: Value) -> Value:
    kind = type(value)
    if kind in (int, Uint):
        return _checked(int(value), Uint)
    if kind is float:
        if math.isnan(value) or not -1.0 < value < 2.0**64:
            raise CelError("unsigned integer overflow")
        return Uint(int(value))
    if kind is str and len(value) <= 20 and value.isascii() and value.isdecimal():
        return _checked(int(value), Uint)
    if kind is str:
        raise CelError("type conversion error from 'string' to 'uint'")
    raise no_such_overload()


def _double(scope: Scope, value: Value) -> Value:
    if type(value) in (int, Uint, float):
        return float(value)
    if type(value) is str:
        try:
            return float(value) if "_" not in value and value == value.strip() else math.nan
        except ValueError as error:
            raise CelError("type conversion error from 'string' to 'double'") from error
    raise no_such_overload()


def _bool(scope: Scope, value: Value) -> Value:
    if type(value) is bool:
        return value
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if value in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise CelError("type conversion error from 'string' to 'bool'") if type(value) is str else no_such_overload()


def _string(scope: Scope, value: Value) -> Value:
    kind = type(value)
    if kind is str:
        return value
    if kind is bool:
        return "true" if value else "false"
    if kind in (int, Uint):
        return str(int(value))
    if kind is float:
        return _go_float(value)
    raise no_such_overload()


def _go_float(value: float) -> str:
    """Print as strconv.FormatFloat(value, 'g', -1, 64): the shortest digits, with an exponent from 1e6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if not value:
        return "-0" if math.copysign(1, value) < 0 else "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text, power = "".join(map(str, digits)), len(digits) + exponent - 1
    if -4 <= power < 6:
        return f"{Decimal(repr(value)).normalize():f}"
    mantissa = text[0] + (f".{text[1:]}" if text[1:] else "")
    return f"{'-' if sign else ''}{mantissa}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _type(scope: Scope, value: Value) -> Value:
    return TypeValue(type_name(value))


def _dyn(scope: Scope, value: Value) -> Value:
    return value


# Optionals ----------------------------------------------------------------------------------------------------------


def _optional_of(scope: Scope, value: Value) -> Value:
    return Optional(value)


def _optional_none(scope: Scope) -> Value:
    return ABSENT


def _optional_of_non_zero(scope: Scope, value: Value) -> Value:
    kind = type(value)
    empty = value is NULL or (kind in (bool, int, Uint, float, str, list) and not value)
    return ABSENT if empty or (isinstance(value, MapValue) and not len(value)) else Optional(value)


def _has_value(scope: Scope, value: Value) -> Value:
    if type(value) is not Optional:
        raise no_such_overload()
    return is_present(value)


def _value(scope: Scope, value: Value) -> Value:
    if type(value) is not Optional:
        raise no_such_overload()
    if not is_present(value):
        raise CelError("optional.none() dereference")
    return value.value


# Quantities and versions --------------------------------------------------------------------------------------------


def _quantity(scope: Scope, text: Value) -> Value:
    if type(text) is not str:
        raise no_such_overload()
    quantity = parsed_quantity(text)
    if quantity is None:
        raise CelError("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")
    return quantity


def _is_quantity(scope: Scope, text: Value) -> Value:
    if type(text) is not str:
        raise no_such_overload()
    return parsed_quantity(text) is not None


def _of_quantity(method: Callable[[Quantity], Value]) -> Function:
    def function(scope: Scope, quantity: Value) -> Value:
        if type(quantity) is not Quantity:
            raise no_such_overload()
        return method(quantity)

    return function


def _as_integer(quantity: Quantity) -> int:
    if not quantity.is_integer:
        raise CelError("cannot convert value to integer")
    return quantity.nano // _NANO


def _sum_of(sign: int) -> Function:
    def function(scope: Scope, left: Value, right: Value) -> Value:
        if type(left) is not Quantity or type(right) not in (Quantity, int):
            raise no_such_overload()
        return left.plus(right if type(right) is Quantity else Quantity(right * _NANO), sign)

    return function


def _semver(scope: Scope, text: Value, normalize: Value = False) -> Value:
    version = _read_version(text, normalize)
    if version is None:
        raise CelError(f"invalid semantic version: {text[:64]}")
    return version


def _is_semver(scope: Scope, text: Value, normalize: Value = False) -> Value:
    return _read_version(text, normalize) is not None


def _read_version(text: Value, normalize: Value) -> Semver | None:
    if type(text) is not str or type(normalize) is not bool:
        raise no_such_overload()
    return Semver.parse(_normalized(text) if normalize else text)


def _normalized(text: str) -> str:
    """Return a version without "v" and leading zeros, and with three numbers."""
    text = text.removeprefix("v")
    numbers, mark, rest = text, "", ""
    at = next((index for index, character in enumerate(text) if character in "-+"), -1)
    if at >= 0:
        numbers, mark, rest = text[:at], text[at], text[at + 1 :]
    parts = numbers.split(".", 2)
    parts = [part.lstrip("0") or "0" if len(part) > 1 else part for part in parts]
    return ".".join([*parts, *["0"] * (3 - len(parts))]) + mark + rest


def _number_of(index: int) -> Function:
    def function(scope: Scope, version: Value) -> Value:
        if type(version) is not Semver:
            raise no_such_overload()
        return _checked(version.numbers[index], int)

    return function


def _comparing(holds: Callable[[int], Value]) -> Function:
    """Return a method that two quantities, or two versions, have."""

    def function(scope: Scope, left: Value, right: Value) -> Value:
        if type(left) is not type(right):
            raise no_such_overload()
        if type(left) is Quantity:
            return holds((left.nano > right.nano) - (left.nano < right.nano))
        if type(left) is Semver:
            return holds(left.compare(right))
        raise no_such_overload()

    return function


def _includes(scope: Scope, value: Value, wanted: Value) -> Value:
    if type(value) is list:
        if len(value) > _MAX_VALUES:
            raise CelError(f"'includes' function cannot be applied to lists longer than {_MAX_VALUES} values")
        return any(equal(element, wanted, scope.spend) for element in value)
    return equal(value, wanted, scope.spend)


_MAX_VALUES = 48


def _equals(scope: Scope, left: Value, right: Value) -> Value:
    if type(left) is str and type(right) is str:
        scope.spend(min(len(left), len(right)) // 10)
    return equal(left, right, scope.spend)


def _differs(scope: Scope, left: Value, right: Value) -> Value:
    try:
        return not _equals(scope, left, right)
    except CelError:
        # What cannot be compared differs.
        return True


FUNCTIONS: Mapping[str, Function] = {
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _modulo,
    "-_": _negate,
    "!_": _not,
    "_==_": _equals,
    "_!=_": _differs,
    "_<_": _ordered(lambda order: order < 0),
    "_<=_": _ordered(lambda order: order <= 0),
    "_>_": _ordered(lambda order: order > 0),
    "_>=_": _ordered(lambda order: order >= 0),
    "@in": _in,
    "size": _size,
    "int": _int,
    "uint": _uint,
    "double": _double,
    "bool": _bool,
    "string": _string,
    "type": _type,
    "dyn": _dyn,
    "hasValue": _has_value,
    "value": _value,
    "quantity": _quantity,
    "isQuantity": _is_quantity,
    "isInteger": _of_quantity(lambda quantity: quantity.is_integer),
    "asInteger": _of_quantity(_as_integer),
    "asApproximateFloat": _of_quantity(lambda quantity: quantity.nano / _NANO),
    "sign": _of_quantity(lambda quantity: (quantity.nano > 0) - (quantity.nano < 0)),
    "add": _sum_of(1),
    "sub": _sum_of(-1),
    "isGreaterThan": _comparing(lambda order: order > 0),
    "isLessThan": _comparing(lambda order: order < 0),
    "compareTo": _comparing(lambda order: order),
    "semver": _semver,
    "isSemver": _is_semver,
    "major": _number_of(0),
    "minor": _number_of(1),
    "patch": _number_of(2),
    "includes": _includes,
    **STRING_FUNCTIONS,
    **LIST_FUNCTIONS,
}
"""Operators, global functions and methods; a method's target is its first argument."""
NAMESPACED: Mapping[str, Function] = {
    "optional.of": _optional_of,
    "optional.none": _optional_none,
    "optional.ofNonZeroValue": _optional_of_non_zero,
    **NAMESPACED_LISTS,
}
"""Functions with a qualified name."""
