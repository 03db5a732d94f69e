"""How long the builds that are left will take."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

_SCALES = (0.1, 10.0)
"""A machine that seems faster or slower than this has something cached, or something else to do."""
_TELLING = 0.1
"""Of a build, the least part that says how fast the machine is: small packages come first."""


class Estimate:
    """Measured seconds per build, scaled by those that are finished here."""

    def __init__(self, seconds: Iterable[float]) -> None:
        """Take what each build took elsewhere, in order; all are above 0."""
        self._expected = deque(seconds)
        self._finished_there = 0.0
        self._finished_here = 0.0

    @property
    def left(self) -> float:
        """Seconds until the last build is finished, about."""
        return self.left_during(0.0, 0.0)

    def left_during(self, part: float, seconds: float) -> float:
        """As `left`, when `part` of the next build, from 0 to 1, took `seconds` here."""
        done = part * self._expected[0] if self._expected else 0.0
        measured, seconds_here = self._finished_there, self._finished_here
        if part >= _TELLING:
            measured, seconds_here = measured + done, seconds_here + seconds
        scale = seconds_here / measured if measured else 1.0
        return (sum(self._expected) - done) * min(max(scale, _SCALES[0]), _SCALES[1])

    def finished(self, seconds: float) -> None:
        """Note that the next build took so long here."""
        self._finished_there += self._expected.popleft()
        self._finished_here += seconds


def about(seconds: float) -> str:
    """Return a duration in words that promise no more than is known: `less than a minute`, `about 4 min`."""
    return "less than a minute" if seconds < 55 else f"about {max(1, round(seconds / 60))} min"
