"""Which plugins rejected which nodes lately: counters by row, so that a decision adds to them in microseconds."""

from __future__ import annotations

from typing import Final

import numpy as np

from scheduler.core import Explanation
from scheduler.framework import IntArray, RowArray
from scheduler.state import Snapshot

_WINDOW: Final = 500
"""Decisions after which counting begins again; what was counted before is shown for as many more."""
_GROWTH: Final = 64


class _Window:
    """Counts of some decisions."""

    def __init__(self) -> None:
        self.decisions = 0
        self.by_plugin: dict[str, IntArray] = {}

    def count(self, plugin: str, rows: RowArray, size: int) -> None:
        counts = self.by_plugin.get(plugin)
        if counts is None or len(counts) < size:
            grown = np.zeros(size + _GROWTH, dtype=np.int64)
            if counts is not None:
                grown[: len(counts)] = counts
            counts = self.by_plugin[plugin] = grown
        counts[rows] += 1

    def forget(self, row: int) -> None:
        for counts in self.by_plugin.values():
            if row < len(counts):
                counts[row] = 0


class RejectionCounts:
    """By node and plugin, of the last 500 to 1,000 decisions that were looked at.

    A node is counted for the plugin that rejected it first. A row that another node has taken over begins at nothing.
    """

    def __init__(self) -> None:
        self._latest, self._before = _Window(), _Window()
        self._names: list[str] = []
        self._membership = -1

    def note(self, snapshot: Snapshot, explanation: Explanation) -> None:
        """Count the rejections of a decision; of one that ended with an error there are none."""
        if explanation.error is not None:
            return
        self._follow(snapshot)
        window, diagnosis, size = self._latest, explanation.diagnosis, snapshot.size
        window.decisions += 1
        if diagnosis.pre_filter is not None:
            window.count(diagnosis.pre_filter.plugin, snapshot.rows, size)
        for rejection in diagnosis.rejections:
            window.count(rejection.plugin, rejection.rows, size)
        absent = diagnosis.absent_status
        if absent is not None and diagnosis.absent:
            looked_at = [rejection.rows for rejection in diagnosis.rejections]
            rows = np.setdiff1d(snapshot.rows, np.concatenate([explanation.feasible, *looked_at]))
            window.count(absent.plugin, rows, size)
        if window.decisions >= _WINDOW:
            self._latest, self._before = _Window(), window

    def of(self, snapshot: Snapshot, row: int) -> tuple[int, dict[str, int]]:
        """Return how many decisions were looked at, and by plugin how many of them it kept from the node in a row."""
        self._follow(snapshot)
        counts: dict[str, int] = {}
        for window in (self._before, self._latest):
            for plugin, by_row in window.by_plugin.items():
                if row < len(by_row) and by_row[row]:
                    counts[plugin] = counts.get(plugin, 0) + int(by_row[row])
        return self._before.decisions + self._latest.decisions, counts

    def _follow(self, snapshot: Snapshot) -> None:
        """Forget what was counted for nodes that have gone."""
        if snapshot.membership == self._membership:
            return
        self._membership = snapshot.membership
        before, self._names = self._names, [""] * snapshot.size
        for row in snapshot.rows.tolist():
            self._names[row] = snapshot.name(row)
        for row, name in enumerate(before):
            if name and (row >= len(self._names) or self._names[row] != name):
                self._latest.forget(row)
                self._before.forget(row)
