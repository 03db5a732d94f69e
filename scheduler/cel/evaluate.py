"""From the tree of an expression to a function that evaluates it.

Each part becomes a closure, once; evaluating is then calls only. What upstream evaluates lazily (`&&`, `||`, `?:`,
optional defaults) is lazy, and an error on one side of `&&` and `||` does not count when the other side decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from scheduler.cel.errors import CelError, CompileError, no_such_overload
from scheduler.cel.functions import FUNCTIONS, NAMESPACED, Function
from scheduler.cel.macros import Compiler, absorbing, expand
from scheduler.cel.scope import Lazy, Scope
from scheduler.cel.syntax import Call, Ident, Index, ListNode, Literal, MapNode, Node, Select
from scheduler.cel.values import ABSENT, CelMap, Fields, Optional, TypeValue, Uint, Value, is_present, shown

Evaluator = Callable[[Scope], Value]
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


def compiled(node: Node, variables: frozenset[str]) -> Evaluator:
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

    def compile(self, node: Node) -> Evaluator:
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
