"""Log lines about what strangers may cause as often as they like: counted, so that nobody can fill a disk with them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, Protocol

_SECONDS: Final = 10.0
_MAX_REASON: Final = 120


class CountReport(Protocol):
    """Takes a counted event, as `structlog`'s methods do."""

    def __call__(self, event: str, /, *, count: int, address: str, reason: str) -> object:
        """Log that it happened `count` times since the last line about it, the last time by `address`."""


def in_words(say: Callable[[str], object]) -> CountReport:
    """Return what reports in one sentence, for a log of plain lines."""

    def report(event: str, /, *, count: int, address: str, reason: str) -> None:
        say(f"{event}: {count}, the last by {address}: {reason}")

    return report


class _CountedEvent:
    __slots__ = ("address", "count", "reason", "said_at")

    def __init__(self) -> None:
        self.said_at = -_SECONDS
        self.count, self.address, self.reason = 0, "", ""


class CountedEvents:
    """One line per event and 10 s, the first at once. The owner calls `flush` every second or so, and at the end."""

    def __init__(self, report: CountReport, clock: Callable[[], float] = time.monotonic) -> None:
        self._report, self._clock = report, clock
        self._events: dict[str, _CountedEvent] = {}

    def note(self, event: str, address: str, reason: str) -> None:
        """Count an event.

        Args:
            event: what happened; one of a fixed number of texts.
            address: who caused it.
            reason: what was wrong; may hold what a stranger sent.
        """
        noted = self._events.setdefault(event, _CountedEvent())
        noted.count, noted.address, noted.reason = noted.count + 1, address, reason
        self._say_if_due(event, noted)

    def flush(self, *, everything: bool = False) -> None:
        """Report what was counted and has waited for long enough, or `everything`."""
        for event, noted in self._events.items():
            if noted.count and everything:
                noted.said_at = -_SECONDS
            self._say_if_due(event, noted)

    def _say_if_due(self, event: str, noted: _CountedEvent) -> None:
        now = self._clock()
        if not noted.count or now - noted.said_at < _SECONDS:
            return
        printable = "".join(
            character if character.isprintable() else repr(character)[1:-1]
            for character in " ".join(noted.reason.split())
        )
        reason = printable.encode("ascii", "backslashreplace").decode()[:_MAX_REASON]
        self._report(event, count=noted.count, address=noted.address, reason=reason)
        noted.said_at, noted.count = now, 0
