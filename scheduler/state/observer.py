"""What the scheduling queue tells of itself, to whoever counts it; nothing here reads a clock."""

from typing import Final, Protocol

from scheduler.framework import Hint


class QueueObserver(Protocol):
    """Counts and measures what the queue does."""

    def entered(self, queue: str, event: str) -> None:
        """A pod entered a queue (active, backoff, unschedulable) because of an event; a gated one is unschedulable."""

    def times_hint(self) -> bool:
        """Tell whether the hint that is to be asked now shall be measured."""

    def hinted(self, plugin: str, event: str, hint: Hint | None, seconds: float) -> None:
        """A plugin's hint answered after so many seconds; None where it raised."""

    def unasked(self, event: str) -> None:
        """A waiting pod was not asked about an event, as that pod or the one that changed lists too much."""

    def now(self) -> float:
        """Return seconds of a monotonic clock."""


class _Unobserved:
    """Observes nothing."""

    def entered(self, queue: str, event: str) -> None:
        """Nothing."""

    def times_hint(self) -> bool:
        return False

    def hinted(self, plugin: str, event: str, hint: Hint | None, seconds: float) -> None:
        """Nothing."""

    def unasked(self, event: str) -> None:
        """Nothing."""

    def now(self) -> float:
        return 0.0


UNOBSERVED: Final = _Unobserved()
"""Observes nothing."""
