"""What pods below a priority request, by row: preemption for a gang takes all of them away at once."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from scheduler.framework import FloatArray, NodeInfo, PodInfo, RowArray

_MAX_PRIORITIES = 8
"""Priorities for which sums are kept; clusters have a handful of PriorityClasses."""

PodsOn = Callable[[str], Iterable[PodInfo]]


class LowerSums:
    """Sums that are brought up to date when they are read.

    Attributes:
        priority: pods below it are summed up.
        requested, nonzero: by resource; the latter with defaults for containers that request nothing.
        count: of the pods.
    """

    def __init__(self, priority: int, size: int) -> None:
        self.priority = priority
        self.requested: dict[str, FloatArray] = {}
        self.nonzero: dict[str, FloatArray] = {name: np.zeros(size) for name in ("cpu", "memory")}
        self.count: FloatArray = np.zeros(size)
        self.position = -1

    @property
    def rows(self) -> RowArray:
        """Rows with such pods, ascending."""
        return np.flatnonzero(self.count)

    def update(self, row: int, pods: Iterable[PodInfo]) -> None:
        """Take in the pods that are on a row now."""
        requested: dict[str, int] = {}
        count = cpu = memory = 0
        for pod in pods:
            if pod.priority < self.priority:
                count += 1
                cpu += pod.nonzero_cpu
                memory += pod.nonzero_memory
                for name, amount in pod.requests.items():
                    requested[name] = requested.get(name, 0) + amount
        for name, column in self.requested.items():
            column[row] = requested.pop(name, 0)
        for name, amount in requested.items():
            if amount:
                self.requested[name] = np.zeros_like(self.count)
                self.requested[name][row] = amount
        self.nonzero["cpu"][row], self.nonzero["memory"][row], self.count[row] = cpu, memory, count


class LowerPods:
    """The sums of one table, by priority."""

    def __init__(self) -> None:
        self._by_priority: dict[int, LowerSums] = {}

    def sums(
        self,
        priority: int,
        nodes: Sequence[NodeInfo | None],
        size: int,
        end: int,
        since: Callable[[int], RowArray | None],
        pods_on: PodsOn,
    ) -> LowerSums:
        """Return the sums below a priority.

        Args:
            priority: that of who preempts.
            nodes: the node in each row, None in an empty one; there may be more than `size`.
            size: rows in use.
            end: position one past the newest change.
            since: returns the rows that changed from a position on; None where that is not known any more.
            pods_on: the pods on a node, by the node's name.
        """
        sums = self._by_priority.pop(priority, None)
        changed = since(sums.position) if sums is not None and len(sums.count) == size else None
        rows: Iterable[int] = range(size) if changed is None else set(changed.tolist())
        if sums is None or changed is None:
            sums = LowerSums(priority, size)
        for row in rows:
            node = nodes[row]
            sums.update(row, pods_on(node.name) if node is not None else ())
        sums.position = end
        self._by_priority[priority] = sums
        while len(self._by_priority) > _MAX_PRIORITIES:
            del self._by_priority[next(iter(self._by_priority))]
        return sums
