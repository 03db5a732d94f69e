"""CPU of pods that were assigned too recently to show in the measured averages."""

from collections.abc import Callable, Sequence

import numpy as np

from scheduler.framework import REPORT_INTERVAL, Assignment, FloatArray, LoadColumns, NodeView, SpecInfo


class Unmeasured:
    """Predicted CPU of recent pods per node row, kept up from the assignment log and thrown away when the nodes change.

    In `safe` mode a pod counts from the moment it is assumed, and by the time its object says it was bound; so a
    burst is seen at once, and a restart does not count old pods again. In `upstream` mode it counts from when this
    process saw it bound.
    """

    def __init__(self, predict: Callable[[SpecInfo], int], *, upstream: bool) -> None:
        self._predict = predict
        self._upstream = upstream
        self._log: object = None
        self._membership = -1
        self._window_end = 0.0
        self._cursor = 0
        self._entries: list[Assignment] = []
        self._sums: FloatArray = np.zeros(0)

    def by_row(self, view: NodeView, load: LoadColumns) -> FloatArray:
        """Return milli-units of CPU per row of the view."""
        log = view.assignments
        same = self._log is log and self._membership == view.membership and self._cursor >= log.start
        if not same or load.window_end < self._window_end:
            self._log, self._membership, self._cursor = log, view.membership, log.start
            self._entries, self._sums = [], np.zeros(view.size)
            self._window_end = load.window_end
        elif load.window_end > self._window_end:
            # The window only moves on, so what counts now counted before, or is new.
            self._window_end = load.window_end
            kept, self._entries, self._sums = self._entries, [], np.zeros(view.size)
            self._take(view, kept)
        if self._cursor < log.end:
            self._take(view, log.since(self._cursor))
            self._cursor = log.end
        extra = view.overlay_assignments
        if not extra or self._upstream:
            return self._sums
        sums = self._sums.copy()
        for entry in extra:
            sums[view.row(entry.node)] += entry.sign * self._predict(entry.spec)
        return sums

    def _take(self, view: NodeView, entries: Sequence[Assignment]) -> None:
        earliest = self._window_end - REPORT_INTERVAL
        for entry in entries:
            if entry.observed is not self._upstream:
                continue
            at = float(int(entry.at)) if self._upstream else entry.at
            if at > earliest:
                self._entries.append(entry)
                row = view.row(entry.node)
                if row >= 0:
                    self._sums[row] += entry.sign * self._predict(entry.spec)
