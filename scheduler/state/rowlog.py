"""Which rows changed, in order: readers keep a position and look at what came after it.

A log, and not a dirty flag per row, as there are many readers (each class of pods, the dry runs of each class), which
catch up at different times. A generation number per row would do as well, but finding the changed rows would mean
comparing all of them each time.
"""

import numpy as np

from scheduler.framework import RowArray

_CAPACITY = 131_072
"""Entries kept at most (1 MB): a reader further behind than that looks at all rows, which costs it less by then."""


class RowLog:
    """An append-only log of rows that forgets its older half when it is full."""

    __slots__ = ("_rows", "_used", "end", "start")

    def __init__(self) -> None:
        self._rows: RowArray = np.zeros(64, dtype=np.intp)
        self.start = 0
        self._used = 0
        self.end = 0
        """Position one past the newest entry. It only grows."""

    def add(self, row: int) -> None:
        """Append a row."""
        if self._used == len(self._rows):
            self._make_room(1)
        self._rows[self._used] = row
        self._used += 1
        self.end += 1

    def extend(self, rows: range) -> None:
        """Append many rows."""
        if len(rows) > _CAPACITY // 2:
            self.forget(self.end + len(rows))
            return
        if self._used + len(rows) > len(self._rows):
            self._make_room(len(rows))
        self._rows[self._used : self._used + len(rows)] = rows
        self._used += len(rows)
        self.end += len(rows)

    def since(self, position: int) -> RowArray | None:
        """Return the rows from a position on, repetitions included; None when the log does not reach back that far.

        The array is the log's own: read it before the next change.
        """
        if position < self.start:
            return None
        return self._rows[position - self.start : self._used]

    def forget(self, position: int | None = None) -> None:
        """Drop all entries and go on at a later position; a reader with an earlier one has to look at every row."""
        self.end = self.end + 1 if position is None else position
        self.start = self.end
        self._used = 0

    def _make_room(self, more: int) -> None:
        length = len(self._rows)
        while length < min(self._used + more, _CAPACITY):
            length *= 2
        if length > len(self._rows):
            longer = np.zeros(length, dtype=np.intp)
            longer[: self._used] = self._rows[: self._used]
            self._rows = longer
        if self._used + more <= length:
            return
        kept = self._used // 2
        self._rows[:kept] = self._rows[self._used - kept : self._used].copy()
        self.start += self._used - kept
        self._used = kept
