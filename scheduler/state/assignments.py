"""The log of recent assignments, for load that is not in the measurements yet.

Upstream's Trimaran plugins each keep a cache of their own of the pods bound lately, by a handler of pod events. One log
serves all of them; each plugin reads it from the position where it stopped.
"""

from collections.abc import Sequence

from scheduler.framework import REPORT_INTERVAL, Assignment

HORIZON_SECONDS = 1800.0
"""Entries older than this are dropped: averaging windows are 15 minutes, and stale load is not used for much longer."""
_SWEEP = 4096
"""Below so many entries nothing is dropped: looking for what expired would cost more than it frees."""


class RecentAssignments:
    """An append-only list with a moving start; readers keep an index and catch up.

    Thousands of entries may come in a second, so nothing is kept that no reader will ask for.
    """

    def __init__(self) -> None:
        self._entries: list[Assignment] = []
        self._keeps = True
        self._measured_until = float("-inf")
        self.start = 0

    @property
    def end(self) -> int:
        """Index one past the newest entry."""
        return self.start + len(self._entries)

    def since(self, index: int) -> Sequence[Assignment]:
        """Return the entries from an index (not before `start`) on."""
        return self._entries[index - self.start :]

    def keep(self, keeps: bool) -> None:
        """Say whether anybody reads the entries: without, they are only counted."""
        self._keeps = keeps

    def measured_until(self, window_end: float) -> None:
        """Say up to when all sources have measured the load: no reader asks for what these averages show already."""
        self._measured_until = window_end - REPORT_INTERVAL

    def append(self, entry: Assignment) -> None:
        """Add an entry, dropping expired ones from time to time. An entry with an unknown time is as good as
        expired."""
        if not self._keeps:
            self.start = self.end + 1
            self._entries.clear()
            return
        self._entries.append(entry)
        half = len(self._entries) // 2
        oldest = max(entry.at - HORIZON_SECONDS, self._measured_until)
        # By halves, so that the cost per entry stays the same however many are kept.
        if half >= _SWEEP // 2 and self._entries[half].at < oldest:
            # Entries come in order of observation, not of `at`: stop at the first that is still of interest.
            keep = next((i for i, entry in enumerate(self._entries) if entry.at >= oldest), len(self._entries) - 1)
            del self._entries[:keep]
            self.start += keep

    def copy(self) -> "RecentAssignments":
        """Return an independent copy."""
        twin = RecentAssignments()
        twin._entries, twin.start = list(self._entries), self.start
        twin._keeps, twin._measured_until = self._keeps, self._measured_until
        return twin
