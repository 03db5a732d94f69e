"""CEL's macros: has, all, exists, map, filter and the like, with one variable or two, cel.bind, optMap, optFlatMap."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, Protocol

from scheduler.cel.errors import CelError, CompileError, no_such_overload
from scheduler.cel.scope import Lazy, Scope
from scheduler.cel.syntax import Call, Ident, Node, Select
from scheduler.cel.values import ABSENT, CelMap, Fields, MapValue, Optional, Value, is_present

Evaluator = Callable[[Scope], Value]
Turns = Generator[tuple[Any, ...]]
_Loop = Callable[[Turns, Scope, Evaluator | None, Evaluator], Value]


class Compiler(Protocol):
    """Compiles the arguments of a macro."""

    variables: frozenset[str]

    def __init__(self, variables: frozenset[str]) -> None:
        self.variables = variables

    def compile(self, node: Node) -> Evaluator:
        """Return the evaluator of a part."""

    def within(self, *names: str) -> Compiler:
        """Return a compiler for parts in which more names are variables."""


def expand(compiler: Compiler, call: Call) -> Evaluator | None:
    """Return the evaluator of a call that is a macro, None for any other.

    Raises:
        CompileError: its arguments are not those of the macro.
    """
    if call.target is None:
        return _has(compiler, call.args[0]) if call.function == "has" and len(call.args) == 1 else None
    if call.function == "bind" and call.target == Ident("cel") and len(call.args) == 3:
        return _bind(compiler, call)
    if call.function in ("optMap", "optFlatMap") and len(call.args) == 2:
        return _opt_map(compiler, call)
    return _comprehension(compiler, call)


def _name(node: Node) -> str:
    if not isinstance(node, Ident):
        raise CompileError("argument must be a simple name")
    return node.name


def _has(compiler: Compiler, field: Node) -> Evaluator:
    if not isinstance(field, Select):
        raise CompileError("invalid argument to has() macro")
    operand, name = compiler.compile(field.operand), field.field

    def evaluate(scope: Scope) -> Value:
        value = operand(scope)
        if type(value) is Optional:
            if not is_present(value):
                return False
            value = value.value
        if not isinstance(value, Fields):
            raise no_such_overload()
        return value.entry(name) is not None

    return evaluate


def _bind(compiler: Compiler, call: Call) -> Evaluator:
    name = _name(call.args[0])
    value, body = compiler.compile(call.args[1]), compiler.within(name).compile(call.args[2])
    return lambda scope: _with_variable(scope, name, Lazy(value, scope.variables), body)


def _opt_map(compiler: Compiler, call: Call) -> Evaluator:
    assert call.target is not None
    name, flat = _name(call.args[0]), call.function == "optFlatMap"
    target, body = compiler.compile(call.target), compiler.within(name).compile(call.args[1])

    def evaluate(scope: Scope) -> Value:
        optional = target(scope)
        if type(optional) is not Optional:
            raise no_such_overload()
        if not is_present(optional):
            return ABSENT
        result = _with_variable(scope, name, optional.value, body)
        return result if flat else Optional(result)

    return evaluate


def _with_variable(scope: Scope, name: str, value: Value, body: Evaluator) -> Value:
    variables = scope.variables
    scope.variables = {**variables, name: value}
    try:
        return body(scope)
    finally:
        scope.variables = variables


_ONE_VARIABLE = {"all": 1, "exists": 1, "exists_one": 1, "existsOne": 1, "filter": 1, "map": 1}
_TWO_VARIABLES = {"all": 1, "exists": 1, "existsOne": 1, "transformList": 1, "transformMap": 1, "transformMapEntry": 1}
_OPTIONAL_FILTER = ("map", "transformList", "transformMap", "transformMapEntry")


def _comprehension(compiler: Compiler, call: Call) -> Evaluator | None:
    """Return the evaluator of a loop: one or two variables, perhaps a filter, and a body."""
    name, number = call.function, len(call.args)
    extra = 1 if name in _OPTIONAL_FILTER else 0
    if name in _ONE_VARIABLE and 2 <= number <= 2 + (name == "map"):
        count = 1
    elif name in _TWO_VARIABLES and 3 <= number <= 3 + extra:
        count = 2
    else:
        return None
    assert call.target is not None
    names = [_name(node) for node in call.args[:count]]
    if len(set(names)) != len(names):
        raise CompileError("a loop's variables must have different names")
    inner = compiler.within(*names)
    bodies = [inner.compile(node) for node in call.args[count:]]
    loop = _LOOPS[name]
    turns = _Turns(compiler.compile(call.target), names)
    condition = bodies[0] if len(bodies) == 2 else None
    return lambda scope: loop(turns(scope), scope, condition, bodies[-1])


class _Turns:
    """Binds the variables of a loop, turn by turn."""

    def __init__(self, over: Evaluator, names: Sequence[str]) -> None:
        self._over = over
        self._names = names

    def __call__(self, scope: Scope) -> Turns:
        """Yield the values of the variables once per turn, with the variables set."""
        over, outer = self._over(scope), scope.variables
        values = self._values(over)
        try:
            for bound in values:
                scope.spend(1)
                scope.variables = {**outer, **dict(zip(self._names, bound, strict=True))}
                yield bound
        finally:
            scope.variables = outer

    def _values(self, over: Value) -> Iterator[tuple[Any, ...]]:
        single = len(self._names) == 1
        if type(over) is list:
            return ((value,) for value in over) if single else iter(enumerate(over))
        if isinstance(over, MapValue):
            return ((key,) for key in over) if single else iter(over.items())
        raise no_such_overload()


def absorbing(evaluators: Iterable[Evaluator], scope: Scope, *, deciding: bool) -> bool:
    """Return `deciding` as soon as some evaluator gives it, whatever the others do; its opposite where all give that.

    That is `||` and exists (deciding: True), `&&` and all (False).

    Raises:
        CelError: none gives it, and this is the first error.
    """
    problem: CelError | None = None
    for evaluate in evaluators:
        try:
            value: object = evaluate(scope)
        except CelError as error:
            problem = problem or error
            continue
        if value is deciding:
            return deciding
        if type(value) is not bool:
            problem = problem or no_such_overload()
    if problem is not None:
        raise problem
    return not deciding


def _quantified(*, deciding: bool) -> _Loop:
    def loop(turns: Turns, scope: Scope, condition: Evaluator | None, body: Evaluator) -> Value:
        try:
            return absorbing((body for _ in turns), scope, deciding=deciding)
        finally:
            # Closed at once: what follows must see the outer variables.
            turns.close()

    return loop


def _exists_one(turns: Turns, scope: Scope, condition: Evaluator | None, body: Evaluator) -> Value:
    number = 0
    for _ in turns:
        number += _is_true(body(scope))
    return number == 1


def _filtered(turns: Turns, scope: Scope, condition: Evaluator | None, body: Evaluator) -> Value:
    return [bound[0] for bound in turns if _is_true(body(scope))]


def _mapped(turns: Turns, scope: Scope, condition: Evaluator | None, body: Evaluator) -> Value:
    return [body(scope) for _ in turns if condition is None or _is_true(condition(scope))]


def _mapped_values(turns: Turns, scope: Scope, condition: Evaluator | None, body: Evaluator) -> Value:
    result = CelMap()
    for bound in turns:
        if condition is None or _is_true(condition(scope)):
            result.insert(bound[0], body(scope))
    return result


def _mapped_entries(turns: Turns, scope: Scope, condition: Evaluator | None, body: Evaluator) -> Value:
    result = CelMap()
    for _ in turns:
        if condition is None or _is_true(condition(scope)):
            entries = body(scope)
            if not isinstance(entries, MapValue):
                raise no_such_overload()
            for key, value in entries.items():
                result.insert(key, value)
    return result


def _is_true(value: Value) -> bool:
    if type(value) is not bool:
        raise no_such_overload()
    return value


_LOOPS: dict[str, _Loop] = {
    "all": _quantified(deciding=False),
    "exists": _quantified(deciding=True),
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "filter": _filtered,
    "map": _mapped,
    "transformList": _mapped,
    "transformMap": _mapped_values,
    "transformMapEntry": _mapped_entries,
}
