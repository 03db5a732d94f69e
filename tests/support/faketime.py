"""An event loop on a fake clock: while nothing can run, its time jumps to the next timer.

A test that waits for ten seconds of backoff takes no time, and what it sees does not depend on how fast the machine
is: a round of the loop takes the same short time on this clock, whatever it does. It is for code that neither does I/O
nor starts threads: the clock would run ahead of their answers.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

from scheduler.framework import Clocks, MonotonicSeconds, WallSeconds

T = TypeVar("T")
EPOCH = 1_760_000_000.0
"""What `wall_clock` says when a loop starts."""


_ROUND_SECONDS = 0.002
"""Time has to pass while there is work, or pods that wake each other would be tried for ever before the first timer
runs; about as much as an attempt takes."""


class _JumpingSelector(selectors.SelectSelector):
    """Never waits for as long as it is told to: the time goes to `passed` instead."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            # No timer is set: only something outside of the loop can wake it.
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self.passed += timeout or _ROUND_SECONDS
        return ready


class FakeTimeLoop(asyncio.SelectorEventLoop):
    """The loop; use it as a loop factory."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        """Seconds since the loop was made, on its own clock."""
        return self._jumping.passed


def wall_clock() -> WallSeconds:
    """Seconds since the epoch, as the running loop's clock has it."""
    return WallSeconds(EPOCH + asyncio.get_running_loop().time())


def monotonic_clock() -> MonotonicSeconds:
    """The running loop's clock."""
    return MonotonicSeconds(asyncio.get_running_loop().time())


class ManualClocks:
    """Clocks that a test moves by hand: both by `now`, and the wall clock alone by `wall_offset`, as when it is set."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now
        self.wall_offset = 0.0

    def wall(self) -> WallSeconds:
        return WallSeconds(self.now + self.wall_offset)

    def monotonic(self) -> MonotonicSeconds:
        return MonotonicSeconds(self.now)

    @property
    def clocks(self) -> Clocks:
        """What code under test takes."""
        return Clocks(self.wall, self.monotonic)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own, as `asyncio.run`."""
    with asyncio.Runner(loop_factory=FakeTimeLoop) as runner:
        return runner.run(coroutine)
