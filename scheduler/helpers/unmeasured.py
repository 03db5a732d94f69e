"""Use of pods that were assigned too recently to show in the measured averages."""

from collections.abc import Callable, Sequence

import numpy as np

from scheduler.framework import REPORT_INTERVAL, Assignment, FloatArray, LoadColumns, NodeView


def requested(resource: str) -> Callable[[Assignment], int]:
    """Return what says how much of a resource a recent pod requests."""
    return lambda entry: entry.requests.get(resource, 0)


class UnmeasuredUse:
    """Predicted use of recent pods per node row. Follows the assignment log; starts again when the nodes change.

    In `safe` mode a pod counts as soon as it is assumed, by the time at which its object says it was bound: a burst
    counts at once, and a restart does not count old pods again. In `upstream` mode it counts from when this process
    saw it bound.
    """

    def __init__(self, predict: Callable[[Assignment], int], *, upstream: bool) -> None:
        self._predict = predict
        self._upstream = upstream
        self._log: object = None
        self._membership = -1
        self._window_end = 0.0
        self._cursor = 0
        self._entries: list[Assignment] = []
        self._sums: FloatArray = np.zeros(0)

    def by_row(self, view: NodeView, load: LoadColumns) -> FloatArray:
        """Return per row of the view what `predict` gives for its recent pods, added up."""
        log = view.assignments
        same = self._log is log and self._membership == view.membership and self._cursor >= log.start
        if not same or load.window_end < self._window_end:
            self._log, self._membership, self._cursor = log, view.membership, log.start
            self._entries, self._sums = [], np.zeros(view.size)
            self._window_end = load.window_end
        elif load.window_end > self._window_end:
            # The window only moves forward: an entry that did not count before cannot count now.
            self._window_end = load.window_end
            entries, self._entries, self._sums = self._entries, [], np.zeros(view.size)
            self._add(view, entries)
        if self._cursor < log.end:
            self._add(view, log.since(self._cursor))
            self._cursor = log.end
        overlay = view.overlay_assignments
        if not overlay or self._upstream:
            return self._sums
        sums = self._sums.copy()
        for entry in overlay:
            sums[view.row(entry.node)] += entry.sign * self._predict(entry)
        return sums

    def _add(self, view: NodeView, entries: Sequence[Assignment]) -> None:
        earliest = self._window_end - REPORT_INTERVAL
        for entry in entries:
            if entry.observed is not self._upstream:
                continue
            at = float(int(entry.at)) if self._upstream else entry.at
            if at > earliest:
                self._entries.append(entry)
                row = view.row(entry.node)
                if row >= 0:
                    self._sums[row] += entry.sign * self._predict(entry)
