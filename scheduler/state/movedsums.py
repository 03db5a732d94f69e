"""What added and removed pods change in the columns of a view: sums of requests, of other amounts, and pods."""

from collections.abc import Callable, Iterable

import numpy as np

from scheduler.framework import FloatArray, IntArray, NodeView, PodAmount, PodBatch, PodInfo
from scheduler.state.moves import Move
from scheduler.state.nominations import NominatedSums


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
