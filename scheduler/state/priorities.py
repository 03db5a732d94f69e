"""The lowest priority of the pods on each node: where it is no lower than a pod's own, preemption cannot help."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from scheduler.framework import IntArray, NodeInfo, PodInfo
from scheduler.state.rowlog import RowLog

NO_PODS = np.iinfo(np.int64).max
"""Stands for a node without pods: no pod's priority is above it, so no pod preempts there."""


class LowestPriorities:
    """A column that is brought up to date when it is read.

    Only preemption reads it, so placing pods must not pay for it: a minimum cannot be kept by adding and subtracting,
    and would need a pass over the node's pods for each one that leaves.
    """

    def __init__(self) -> None:
        self._column: IntArray = np.zeros(0, dtype=np.int64)
        self._generation = -1

    def column(
        self, nodes: Sequence[NodeInfo | None], size: int, log: RowLog, pods_on: Callable[[str], Iterable[PodInfo]]
    ) -> IntArray:
        """Return the column, of `size` entries.

        Args:
            nodes: the node in each row, None in an empty one; there may be more than `size`.
            size: rows in use.
            log: the rows that changed; always the same log.
            pods_on: the pods on a node, by the node's name.
        """
        if self._generation == log.end and len(self._column) == size:
            return self._column
        changed = log.since(self._generation) if len(self._column) == size else None
        rows: Iterable[int] = range(size) if changed is None else set(changed.tolist())
        if changed is None:
            self._column = np.full(size, NO_PODS, dtype=np.int64)
        for row in rows:
            node = nodes[row]
            pods = pods_on(node.name) if node is not None else ()
            self._column[row] = min((pod.priority for pod in pods), default=NO_PODS)
        self._generation = log.end
        return self._column
