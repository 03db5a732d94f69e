"""Which nodes have pods of other schedulers, as a column that is kept up to date."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from scheduler.framework import BoolArray, NodeView, PodInfo
from scheduler.helpers import StaleRows

_EVERYWHERE = frozenset({"DaemonSet", "Node"})
"""Controllers of pods that every node has; that of a static pod is its node."""


class SharedColumn:
    """True where a pod of another scheduler is, by row."""

    def __init__(self, own: Collection[str]) -> None:
        self._own = frozenset(own)
        self._stale = StaleRows()
        self._shared: BoolArray = np.zeros(0, dtype=np.bool_)

    def by_row(self, view: NodeView) -> BoolArray:
        """Return the column. What a what-if view moves are our own pods, or victims: it does not count here."""
        begins, rows = self._stale.take(view)
        if begins:
            self._shared = np.zeros(view.size, dtype=np.bool_)
        for row in rows:
            self._shared[row] = self._has_other(view.pods_on(row))
        return self._shared

    def _has_other(self, pods: Iterable[PodInfo]) -> bool:
        return any(
            pod.scheduler_name not in self._own and (pod.controller is None or pod.controller.kind not in _EVERYWHERE)
            for pod in pods
        )
