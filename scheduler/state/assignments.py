"""The log of recent assignments, for load that is not in the measurements yet."""

from collections.abc import Sequence

from scheduler.framework import Assignment

HORIZON_SECONDS = 1800.0
"""Entries older than this are dropped: averaging windows are 15 minutes, and stale load is not used for much longer."""
_SWEEP = 4096


class RecentAssignments:
    """An append-only list with a moving start; readers keep an index and catch up."""

    def __init__(self) -> None:
        self._entries: list[Assignment] = []
        self.start = 0

    @property
    def end(self) -> int:
        """Index one past the newest entry."""
        return self.start + len(self._entries)

    def since(self, index: int) -> Sequence[Assignment]:
        """Return the entries from an index (not before `start`) on."""
        return self._entries[index - self.start :]

    def append(self, entry: Assignment) -> None:
        """Add an entry, dropping expired ones from time to time. An entry with an unknown time is as good as
        expired."""
        self._entries.append(entry)
        if len(self._entries) >= _SWEEP and self._entries[0].at < entry.at - HORIZON_SECONDS:
            # Entries come in order of observation, not of `at`: stop at the first that is still of interest.
            keep = next(
                (i for i, one in enumerate(self._entries) if one.at >= entry.at - HORIZON_SECONDS),
                len(self._entries) - 1,
            )
            del self._entries[:keep]
            self.start += keep

    def copy(self) -> "RecentAssignments":
        """Return an independent copy."""
        twin = RecentAssignments()
        twin._entries, twin.start = list(self._entries), self.start
        return twin
