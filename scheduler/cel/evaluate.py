"""From the tree of an expression to a function that evaluates it.

Each part becomes a closure, once; evaluating is then calls only. What upstream evaluates lazily (`&&`, `||`, `?:`,
optional defaults) is lazy, and an error on one side of `&&` and `||` does not count when the other side decides.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from scheduler.cel.errors import CelError, CompileError, no_such_overload
from scheduler.cel.functions import FUNCTIONS, NAMESPACED, Function
from scheduler.cel.scope import Lazy, Scope
from scheduler.cel.syntax import Call, Expression, Ident, Index, ListNode, Literal, MapNode, Select
from scheduler.cel.values import ABSENT, CelMap, Fields, MapValue, Optional, TypeValue, Uint, Value, is_present, shown

Evaluator = Callable[[Scope], Value]
Turns = Generator[tuple[Any, ...]]
_Loop = Callable[[Turns, Scope, Evaluator | None, Evaluator], Value]


class Compiler(Protocol):
    """Compiles the arguments of a macro."""

    variables: frozenset[str]

    def __init__(self, variables: frozenset[str]) -> None:
        self.variables = variables

    def compile(self, node: Expression) -> Evaluator:
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


def _name(node: Expression) -> str:
    if not isinstance(node, Ident):
        raise CompileError("argument must be a simple name")
    return node.name


def _has(compiler: Compiler, field: Expression) -> Evaluator:
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


_TYPES: Mapping[str, TypeValue] = {
    name: TypeValue(name)
    for name in (
        "bool",
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "list",
        "map",
        "null_type",
        "type",
        "optional_type",
    )
}


def compiled(node: Expression, variables: frozenset[str]) -> Evaluator:
    """Return the evaluator of an expression.

    Args:
        node: the expression.
        variables: names that a scope has.

    Raises:
        CompileError: it names a function or variable that this package does not know.
    """
    return _Compilation(variables).compile(node)


class _Compilation(Compiler):
    """Compiles parts of an expression, given the variables that are bound around them."""

    def compile(self, node: Expression) -> Evaluator:
        """Return the evaluator of a part."""
        match node:
            case Literal(value):
                return lambda scope: value
            case Ident(name):
                return self._ident(name)
            case Select(operand, name, optional):
                return _select(self.compile(operand), name, optional=optional)
            case Index(operand, key, optional):
                return _index(self.compile(operand), self.compile(key), optional=optional)
            case ListNode(elements):
                return _list([(self.compile(element), optional) for element, optional in elements])
            case MapNode(entries):
                return _map([(self.compile(key), self.compile(value), optional) for key, value, optional in entries])
            case Call():
                return expand(self, node) or self._call(node)
        raise CompileError(f"unknown syntax {type(node).__name__}")

    def within(self, *names: str) -> _Compilation:
        """Return a compilation for a part in which these names are variables, too."""
        return _Compilation(self.variables | set(names))

    def _ident(self, name: str) -> Evaluator:
        if name in self.variables:
            return _variable(name)
        if name in _TYPES:
            kind = _TYPES[name]
            return lambda scope: kind
        raise CompileError(f"undeclared reference to '{name}'")

    def _call(self, call: Call) -> Evaluator:
        lazy = {"_&&_": _and, "_||_": _or, "_?_:_": _conditional}.get(call.function)
        args = [self.compile(arg) for arg in call.args]
        if lazy is not None:
            return lazy(args)
        target = call.target
        if isinstance(target, Ident) and target.name not in self.variables:
            name = f"{target.name}.{call.function}"
            if name not in NAMESPACED:
                raise CompileError(f"function {name} is not supported")
            return _invocation(NAMESPACED[name], args)
        if target is not None:
            args.insert(0, self.compile(target))
            if call.function in ("or", "orValue") and len(args) == 2:
                return _or_value(args[0], args[1], unwrap=call.function == "orValue")
        function = FUNCTIONS.get(call.function)
        if function is None:
            raise CompileError(f"function {call.function} is not supported")
        return _invocation(function, args)


def _variable(name: str) -> Evaluator:
    def evaluate(scope: Scope) -> Value:
        value = scope.variables[name]
        return value.value(scope) if type(value) is Lazy else value

    return evaluate


def _invocation(function: Function, args: list[Evaluator]) -> Evaluator:
    if len(args) == 1:
        (only,) = args

        def call_with_one(scope: Scope) -> Value:
            scope.spend(1)
            return function(scope, only(scope))

        return call_with_one
    if len(args) == 2:
        first, second = args

        def call_with_two(scope: Scope) -> Value:
            scope.spend(1)
            return function(scope, first(scope), second(scope))

        return call_with_two

    def call(scope: Scope) -> Value:
        scope.spend(1)
        return function(scope, *[arg(scope) for arg in args])

    return call


def _and(args: list[Evaluator]) -> Evaluator:
    return lambda scope: absorbing(args, scope, deciding=False)


def _or(args: list[Evaluator]) -> Evaluator:
    return lambda scope: absorbing(args, scope, deciding=True)


def _conditional(args: list[Evaluator]) -> Evaluator:
    condition, then, otherwise = args

    def evaluate(scope: Scope) -> Value:
        chosen = condition(scope)
        if type(chosen) is not bool:
            raise no_such_overload()
        return then(scope) if chosen else otherwise(scope)

    return evaluate


def _optional(value: Value) -> Optional:
    if type(value) is not Optional:
        raise no_such_overload()
    return value


def _or_value(optional: Evaluator, default: Evaluator, *, unwrap: bool) -> Evaluator:
    def evaluate(scope: Scope) -> Value:
        value = _optional(optional(scope))
        if not is_present(value):
            return default(scope)
        return value.value if unwrap else value

    return evaluate


def _select(operand: Evaluator, name: str, *, optional: bool) -> Evaluator:
    def evaluate(scope: Scope) -> Value:
        scope.spend(1)
        return _looked_up(operand(scope), name, optional=optional, selecting=True)

    return evaluate


def _index(operand: Evaluator, key: Evaluator, *, optional: bool) -> Evaluator:
    def evaluate(scope: Scope) -> Value:
        scope.spend(1)
        return _looked_up(operand(scope), key(scope), optional=optional, selecting=False)

    return evaluate


def _looked_up(value: Value, key: Value, *, optional: bool, selecting: bool) -> Value:
    if type(value) is Optional:
        return _looked_up(value.value, key, optional=True, selecting=selecting) if is_present(value) else ABSENT
    if isinstance(value, Fields):
        selected = value.entry(key)
        if selected is None:
            if optional:
                return ABSENT
            raise CelError(f"no such key: {shown(key)}")
        return Optional(selected) if optional else selected
    if type(value) is list and not selecting:
        return _element(value, key, optional=optional)
    raise no_such_overload()


def _element(values: list[Value], key: Value, *, optional: bool) -> Value:
    if type(key) is float and key.is_integer():
        key = int(key)
    if type(key) not in (int, Uint):
        raise CelError(f"unsupported index type '{type(key).__name__}' in list")
    if not 0 <= key < len(values):
        if optional:
            return ABSENT
        raise CelError(f"index out of bounds: {int(key)}")
    return Optional(values[key]) if optional else values[key]


def _list(elements: list[tuple[Evaluator, bool]]) -> Evaluator:
    def evaluate(scope: Scope) -> Value:
        scope.spend(1 + len(elements) // 10)
        values = []
        for element, optional in elements:
            value = element(scope)
            if optional:
                value = _optional(value)
                if not is_present(value):
                    continue
                value = value.value
            values.append(value)
        return values

    return evaluate


def _map(entries: list[tuple[Evaluator, Evaluator, bool]]) -> Evaluator:
    def evaluate(scope: Scope) -> Value:
        scope.spend(1 + len(entries) // 10)
        result = CelMap()
        for key, value, optional in entries:
            entry_key, entry_value = key(scope), value(scope)
            if optional:
                entry_value = _optional(entry_value)
                if not is_present(entry_value):
                    continue
                entry_value = entry_value.value
            result.insert(entry_key, entry_value)
        return result

    return evaluate
