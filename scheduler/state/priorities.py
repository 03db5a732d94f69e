"""The lowest priority of the pods on each node: where it is no lower than a pod's own, preemption cannot help."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from scheduler.framework import IntArray, PodInfo

if TYPE_CHECKING:
    from scheduler.state.table import NodeTable

NOBODY = np.iinfo(np.int64).max
"""Stands for a node without pods."""


class LowestPriorities:
    """A column that is brought up to date when it is asked for, so that placing pods does not pay for it."""

    def __init__(self) -> None:
        self._column: IntArray = np.zeros(0, dtype=np.int64)
        self._generation = -1

    def column(self, table: NodeTable, pods_on: Callable[[str], Iterable[PodInfo]]) -> IntArray:
        """Return the column for a table, given what tells the pods on a node."""
        if self._generation == table.generation and len(self._column) == table.size:
            return self._column
        changed = table.changed_since(self._generation) if len(self._column) == table.size else None
        if changed is None:
            self._column = np.full(table.size, NOBODY, dtype=np.int64)
            changed = set(table.row_of.values())
        for row in changed:
            info = table.infos[row]
            pods = pods_on(info.name) if info is not None else ()
            self._column[row] = min((pod.priority for pod in pods), default=NOBODY)
        self._generation = table.generation
        return self._column
