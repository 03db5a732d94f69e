"""What an evaluation carries along: variables, and how much it may still do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scheduler.cel.errors import CostExceeded
from scheduler.cel.values import Value

COST_LIMIT: Final = 1_000_000
"""Steps of one evaluation, as CELSelectorExpressionMaxCost. A step is a call, a turn of a loop, or ten characters or
elements made or compared; upstream's units are of the same size, and the server estimates the worst case of each
expression when it is created, so that ordinary expressions stay far below."""


class Lazy:
    """The value of a variable of cel.bind, which is evaluated when it is first asked for."""

    __slots__ = ("_evaluate", "_outer", "_value")

    def __init__(self, evaluate: Callable[[Scope], Value], outer: dict[str, Value]) -> None:
        self._evaluate: Callable[[Scope], Value] | None = evaluate
        self._outer = outer
        self._value: Value = None

    def value(self, scope: Scope) -> Value:
        """Return the value."""
        if self._evaluate is not None:
            variables, scope.variables = scope.variables, self._outer
            try:
                self._value = self._evaluate(scope)
            finally:
                scope.variables = variables
            self._evaluate = None
        return self._value


class Scope:
    """One evaluation."""

    __slots__ = ("_left", "variables")

    def __init__(self, variables: dict[str, Value], limit: int = COST_LIMIT) -> None:
        self.variables = variables
        self._left = limit

    def spend(self, steps: int) -> None:
        """Account for work, before it is done.

        Raises:
            CostExceeded: there is no more.
        """
        self._left -= steps
        if self._left < 0:
            raise CostExceeded

    @property
    def left(self) -> int:
        """The steps that are left."""
        return max(0, self._left)
