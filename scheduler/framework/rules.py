"""Rules: what a filter or a score says of "a node", written once, for one node (plain numbers) or for all (columns).

Numpy takes as long for one node as Python for twenty, and Python for 5,000 nodes as numpy for a million. So a class's
columns are made by numpy, and the row that the last placement changed is asked about in plain numbers. A rule gets
`Nodes` to read from, and returns a function of a node; the framework asks it either way, and both must give the same
digits (tests/unit/scheduler/plugins/test_rules.py).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scheduler.framework.status import MAX_REASONS, AnyArray, BoolArray, Code, IntArray, RowArray, Verdicts
from scheduler.framework.view import NodeView

Node = Any
"""What readers take: a row, or many."""
Reader = Callable[[Node], Any]
"""Returns the value of a column at a node: a float, or a column of them, which the rule must not change."""
ColumnOf = Callable[[NodeView], AnyArray]


class Nodes(ABC):
    """Nodes as a rule reads them, and what Python and numpy spell differently.

    `at_least`, `at_most` and `floor` may overwrite their first operand with the result, as a new column of 5,000 nodes
    costs as much as the arithmetic: it has to be the rule's own, never what a reader returned.

    Attributes:
        view: the view that is read from now.
        layout: `NodeView.layout` when the readers were made: with another one, rules are made again. A view's own is
            no record of it, as it goes along with the table.
        in_columns: whether values are columns.
    """

    in_columns: bool
    at_least: Callable[[Any, float], Any]
    at_most: Callable[[Any, Any], Any]
    floor: Callable[[Any], Any]
    select: Callable[[Any, Any, Any], Any]

    def __init__(self, view: NodeView) -> None:
        self.view = view
        self.layout = view.layout
        self._readers: dict[tuple[str, str], Reader] = {}

    def allocatable(self, resource: str) -> Reader:
        """Return a reader of `NodeView.allocatable`."""
        return self._named("allocatable", resource)

    def requested(self, resource: str) -> Reader:
        """Return a reader of `NodeView.requested`."""
        return self._named("requested", resource)

    def nonzero_requested(self, resource: str) -> Reader:
        """Return a reader of `NodeView.nonzero_requested`."""
        return self._named("nonzero_requested", resource)

    def _named(self, columns: str, resource: str) -> Reader:
        key = (columns, resource)
        reader = self._readers.get(key)
        if reader is None:
            reader = self._readers[key] = self.column(getattr(self.view, columns)(resource))
        return reader

    @abstractmethod
    def column(self, column: AnyArray) -> Reader:
        """Return a reader of a column that stays the same array while `NodeView.layout` does."""

    @abstractmethod
    def changing(self, column: ColumnOf) -> Reader:
        """Return a reader of a column that may be another array in the next attempt."""


class OneNode(Nodes):
    """A node is a row, and values are plain numbers."""

    in_columns = False
    at_least, at_most, floor = staticmethod(max), staticmethod(min), staticmethod(math.floor)
    select = staticmethod(lambda condition, value, other: value if condition else other)

    def __init__(self, view: NodeView) -> None:
        super().__init__(view)
        self._changing: list[tuple[ColumnOf, list[Reader]]] = []

    def look(self, view: NodeView) -> None:
        """Read from now on from a view with the same `layout`."""
        self.view = view
        for column, box in self._changing:
            box[0] = column(view).item

    def column(self, column: AnyArray) -> Reader:
        """Return a reader of numbers."""
        return column.item

    def changing(self, column: ColumnOf) -> Reader:
        """Return a reader of numbers."""
        box: list[Reader] = [column(self.view).item]
        self._changing.append((column, box))

        def read(row: int) -> Any:
            return box[0](row)

        return read


class ManyNodes(Nodes):
    """A node is an array of rows, and values are columns; each is gathered once, however many rules read it."""

    in_columns = True
    at_least = staticmethod(lambda values, low: np.maximum(values, low, out=values))
    at_most = staticmethod(lambda values, high: np.minimum(values, high, out=values))
    floor = staticmethod(lambda values: np.floor(values, out=values))
    select = staticmethod(np.where)

    def __init__(self, view: NodeView) -> None:
        super().__init__(view)
        self._gathered: dict[object, AnyArray] = {}
        self._everywhere = False

    def look(self, view: NodeView, rows: RowArray) -> None:
        """Read from now on from a view with the same `layout`, at some rows."""
        self.view = view
        self._everywhere = rows is view.rows and view.dense
        self._gathered.clear()

    def column(self, column: AnyArray) -> Reader:
        """Return a reader of columns."""
        key = object()

        def read(rows: RowArray) -> AnyArray:
            return column if self._everywhere else self._gather(key, column, rows)

        return read

    def changing(self, column: ColumnOf) -> Reader:
        """Return a reader of columns."""
        key = object()

        def read(rows: RowArray) -> AnyArray:
            now = column(self.view)
            return now if self._everywhere else self._gather(key, now, rows)

        return read

    def _gather(self, key: object, column: AnyArray, rows: RowArray) -> AnyArray:
        values = self._gathered.get(key)
        if values is None:
            # Rows are always in range; "clip" spares numpy the copy by which it would check that.
            values = self._gathered[key] = column.take(rows, mode="clip")
        return values


FilterRule = Callable[[Nodes], Callable[[Node], Sequence[Any]]]
"""Makes a function that returns, per reason, whether it keeps the pod off a node: bools, or columns of them."""
ScoreRule = Callable[[Nodes], Callable[[Node], Any]]
"""Makes a function that returns the score of a node, cut towards zero where it has a fraction."""


def masks_of(rule: FilterRule, view: NodeView, rows: RowArray) -> Sequence[BoolArray]:
    """Return, per reason, the rows that a rule rejects for it."""
    nodes = ManyNodes(view)
    nodes.look(view, rows)
    return rule(nodes)(rows)


def scores_of(rule: ScoreRule, view: NodeView, rows: RowArray) -> IntArray:
    """Return a rule's scores: the body of a `score` method."""
    nodes = ManyNodes(view)
    nodes.look(view, rows)
    scores = rule(nodes)(rows)
    return np.full(len(rows), scores, np.int64) if np.ndim(scores) == 0 else scores.astype(np.int64)


def verdicts_of(
    masks: Sequence[BoolArray], reasons: Sequence[str], code: Code, unresolvable: BoolArray | None = None
) -> Verdicts | None:
    """Return the verdicts of masks that stand for reasons: the end of a `filter` method.

    Args:
        masks: per reason, the rows that are rejected for it.
        reasons: the texts.
        code: of rejected rows,
        unresolvable: except these, where it is UnschedulableAndUnresolvable.
    """
    failed = [(reason, mask) for reason, mask in zip(reasons, masks, strict=True) if mask.any()]
    if not failed:
        return None
    bits = np.zeros(len(failed[0][1]), dtype=np.int64)
    for index, (_, mask) in enumerate(failed):
        bits |= mask.astype(np.int64) << min(index, MAX_REASONS - 1)
    codes = np.where(bits == 0, 0, code).astype(np.int8)
    if unresolvable is not None:
        codes[unresolvable & (bits != 0)] = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    return Verdicts(codes, bits, tuple([reason for reason, _ in failed[:MAX_REASONS]]))
