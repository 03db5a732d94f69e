"""Processor time that something beside decisions may take on the scheduling loop."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from scheduler.framework import MonotonicSeconds

_REMEMBERED: Final = 256
"""Askers whose allowance is kept; the one that asked longest ago is forgotten first."""


@dataclass(slots=True)
class ProcessorAllowance:
    """Seconds that something may take: a share of all that go by, and a debt after something expensive.

    Attributes:
        share: of one processor's time; 0: nothing is ever available.
        burst: seconds that a calm period may save up.
        clock: of the seconds that go by; one of processor time makes it a share of that.
        cheap: asked first, if there is one: until enough time has gone by on it, `clock` is not asked. Processor time
            is a system call, which costs more than what it is asked for.
    """

    share: float
    burst: float
    clock: Callable[[], MonotonicSeconds]
    cheap: Callable[[], MonotonicSeconds] | None = None
    left: float = field(init=False)
    filled_at: MonotonicSeconds = field(init=False)
    not_before: MonotonicSeconds = field(init=False, default=MonotonicSeconds(-math.inf))

    def __post_init__(self) -> None:
        self.left, self.filled_at = self.burst, self.clock()

    def available(self) -> bool:
        """Tell whether anything is left."""
        if self.cheap is None:
            return self._fill()
        passed = self.cheap()
        if passed < self.not_before:
            return False
        available = self._fill()
        if not available:
            self.not_before = passed + (-self.left / self.share if self.share > 0.0 else math.inf)
        return available

    def _fill(self) -> bool:
        now = self.clock()
        self.left = min(self.burst, self.left + (now - self.filled_at) * self.share)
        self.filled_at = now
        return self.share > 0.0 and self.left > 0.0

    def spend(self, seconds: float) -> None:
        """Take this much, even if less is left."""
        self.left -= seconds


@dataclass(slots=True)
class Credit:
    """So many times something may go beyond its allowance, for bursts: it comes back while nothing goes on.

    Attributes:
        most: times in a row.
        seconds: which all of them may take together: where each takes long, there are fewer.
        period: seconds of calm after which all of it is back.
    """

    most: int
    seconds: float
    period: float
    _times: float = field(init=False)
    _seconds: float = field(init=False)

    def __post_init__(self) -> None:
        self._times, self._seconds = float(self.most), self.seconds

    def take(self) -> bool:
        """Take one time; False when none is left."""
        if self._times < 1.0 or self._seconds <= 0.0:
            return False
        self._times -= 1.0
        return True

    def spend(self, seconds: float) -> None:
        """Note how long what was taken took."""
        self._seconds -= seconds

    def refill(self, calm: float) -> None:
        """Give back what so many seconds of calm bring."""
        share = min(1.0, calm / self.period)
        self._times = min(float(self.most), self._times + self.most * share)
        self._seconds = min(self.seconds, self._seconds + self.seconds * share)


class FairAllowance:
    """An allowance for all askers together, of which each may take half.

    So an asker that never stops asking takes a part of the time that is set aside, and the others get the rest.
    """

    def __init__(self, share: float, burst: float, clock: Callable[[], MonotonicSeconds]) -> None:
        self._all = ProcessorAllowance(share, burst, clock)
        self._of: OrderedDict[str, ProcessorAllowance] = OrderedDict()

    def __len__(self) -> int:
        return len(self._of)

    def available(self, asker: str) -> bool:
        """Tell whether anything is left for an asker."""
        own = self._of.get(asker)
        if own is None:
            own = self._of[asker] = ProcessorAllowance(self._all.share / 2, self._all.burst / 2, self._all.clock)
            if len(self._of) > _REMEMBERED:
                self._of.popitem(last=False)
        self._of.move_to_end(asker)
        return own.available() and self._all.available()

    def spend(self, asker: str, seconds: float) -> None:
        """Take this much for an asker that was told that something is left."""
        self._all.spend(seconds)
        if (own := self._of.get(asker)) is not None:
            own.spend(seconds)
