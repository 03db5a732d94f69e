"""What a few added and removed pods change in the counts below them.

Each function returns the base's answer corrected by the moves, which are few: an overlay has no counts of its own that
would have to be set up for each what-if.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.framework import (
    FloatArray,
    IntArray,
    NodeSet,
    NodeView,
    PodAmount,
    PodBatch,
    PodInfo,
    PodQuery,
    RowArray,
    TermCounts,
    TermKind,
)
from scheduler.state.lowerpods import LowerSums
from scheduler.state.nominations import NominatedSums
from scheduler.state.termcounts import namespace_labels, terms_of


class Move(NamedTuple):
    """A pod put on a row (+1) or taken from it (-1)."""

    row: int
    pod: PodInfo
    sign: int


def moved_by_node(counts: IntArray, query: PodQuery, moves: Sequence[Move]) -> IntArray:
    """Return the counts per row after the moves."""
    counts = counts.copy()
    for row, pod, sign in moves:
        if query.matches(pod):
            counts[row] += sign
    return counts


def moved_by_domain(
    counts: IntArray, query: PodQuery, codes: RowArray, nodes: NodeSet | None, moves: Sequence[Move]
) -> IntArray:
    """Return the counts per domain after the moves."""
    counts = counts.copy()
    for row, pod, sign in moves:
        if codes[row] >= 0 and (nodes is None or nodes.mask[row]) and query.matches(pod):
            counts[codes[row]] += sign
    return counts


def moved_terms(
    terms: Sequence[TermCounts], pod: PodInfo, kind: TermKind, view: NodeView, moves: Sequence[Move]
) -> list[TermCounts]:
    """Return the terms that match a pod after the moves: those below, and one entry more per term of moved pods."""
    labels = namespace_labels(view.objects, pod.namespace)
    # The members of a gang are of one class and share their terms: one count for all of them.
    extra: dict[int, TermCounts | None] = {}
    for row, moved, sign in moves:
        if not moved.spec.terms.any:
            continue
        for of_kind, weight, term in terms_of(moved.spec.terms):
            if of_kind is not kind:
                continue
            column = view.labels(term.topology_key)
            if id(term) not in extra:
                matches = term.matches(pod.namespace, pod.labels, labels)
                counts = np.zeros(len(column.values) + 1, dtype=np.int64)
                extra[id(term)] = TermCounts(term, weight, counts) if matches else None
            counted = extra[id(term)]
            if counted is not None and column.codes[row] >= 0:
                counted.counts[column.codes[row]] += sign
    return [*terms, *(counts for counts in extra.values() if counts is not None)]


class MovedSums:
    """Columns of a view below that differ from it, copied when first written."""

    def __init__(self, base: NodeView) -> None:
        self._base = base
        self.requested: dict[str, FloatArray] = {}
        self.nonzero: dict[str, FloatArray] = {}
        self.others: dict[PodAmount, FloatArray] = {}
        self.count: FloatArray | None = None

    def use(self, pod: PodInfo, row: int, sign: int) -> None:
        """Add a pod's requests to a row, or take them away."""
        for name, amount in pod.requests.items():
            # A pod may name any number of resources that it wants nothing of.
            if amount:
                _own(self.requested, name, self._base.requested)[row] += sign * amount
        for name, amount in (("cpu", pod.nonzero_cpu), ("memory", pod.nonzero_memory)):
            _own(self.nonzero, name, self._base.nonzero_requested)[row] += sign * amount
        for amount_of, column in self.others.items():
            column[row] += sign * amount_of(pod)
        if self.count is None:
            self.count = self._base.pod_count.copy()
        self.count[row] += sign

    def use_many(self, batch: PodBatch, indices: IntArray, sign: int) -> None:
        """As `use` for some pods of a batch."""
        rows = batch.rows[indices]
        for name, amounts in batch.requests.items():
            np.add.at(_own(self.requested, name, self._base.requested), rows, sign * amounts[indices])
        for name, amounts in batch.nonzero.items():
            np.add.at(_own(self.nonzero, name, self._base.nonzero_requested), rows, sign * amounts[indices])
        for amount_of in self.others:
            self._add(amount_of, (Move(row, pod, sign) for row, pod in batch.at(indices)))
        if self.count is None:
            self.count = self._base.pod_count.copy()
        np.add.at(self.count, rows, float(sign))

    def copy(self) -> "MovedSums":
        """Return the same columns, to be written by themselves."""
        copy = MovedSums(self._base)
        copy.requested = {name: column.copy() for name, column in self.requested.items()}
        copy.nonzero = {name: column.copy() for name, column in self.nonzero.items()}
        copy.others = {amount: column.copy() for amount, column in self.others.items()}
        copy.count = None if self.count is None else self.count.copy()
        return copy

    def remove_lower(self, lower: LowerSums) -> None:
        """Take away what all pods below a priority request, before anything else is moved."""
        self.requested = {name: self._base.requested(name) - amounts for name, amounts in lower.requested.items()}
        self.nonzero = {name: self._base.nonzero_requested(name) - amounts for name, amounts in lower.nonzero.items()}
        self.count = self._base.pod_count - lower.count

    def add_nominated(self, nominated: NominatedSums) -> None:
        """Add what nominated pods request."""
        size = self._base.size
        for name, amounts in nominated.requested.items():
            self.requested[name] = self.requested.get(name, self._base.requested(name)) + amounts[:size]
        for name, amounts in nominated.nonzero.items():
            self.nonzero[name] = self.nonzero.get(name, self._base.nonzero_requested(name)) + amounts[:size]
        self.count = (self._base.pod_count if self.count is None else self.count) + nominated.count[:size]
        for amount_of in self.others:
            self._add(amount_of, (Move(row, pod, 1) for row, pods in nominated.pods.items() for pod in pods))

    def keep(self, amount: PodAmount, moves: Iterable[Move]) -> FloatArray:
        """Return the sums of an amount after the moves up to now, and keep them from now on."""
        self.others[amount] = self._base.summed(amount).copy()
        self._add(amount, moves)
        return self.others[amount]

    def _add(self, amount: PodAmount, moves: Iterable[Move]) -> None:
        column = self.others[amount]
        for row, pod, sign in moves:
            column[row] += sign * amount(pod)


def _own(columns: dict[str, FloatArray], name: str, base: Callable[[str], FloatArray]) -> FloatArray:
    column = columns.get(name)
    if column is None:
        column = columns[name] = base(name).copy()
    return column
