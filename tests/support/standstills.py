"""Tests of what happens in real time are judged only where the machine kept time.

A machine that CI shares with others stands still for half a second now and then. Then a Lease of 1.5 s is rightly lost,
and a test that says otherwise would fail for no fault of ours.
"""

from __future__ import annotations

import threading
import time
from typing import Final, Self

TOLERATED_SECONDS: Final = 0.15
"""What such a test must stand: its own limits leave room for it."""
_STEP: Final = 0.01


class Standstills:
    """Measures on a thread of its own how late this process wakes up, from entering to leaving it."""

    def __init__(self) -> None:
        self.longest = 0.0
        """Seconds beyond the wake-up that was due."""
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._measure, name="standstills", daemon=True)

    def _measure(self) -> None:
        before = time.monotonic()
        while not self._ended.wait(_STEP):
            now = time.monotonic()
            self.longest = max(self.longest, now - before - _STEP)
            before = now

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
