"""Restart and image-pull back-off of a kubelet. Pure: times are given, in seconds."""

from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Doubling delays with kubelet's forgetting rule (client-go ``flowcontrol.Backoff``).

    The first failure costs nothing; then ``base`` seconds, doubling up to ``limit``. Who ran longer than twice the
    limit starts over.
    """

    base: float = 10.0
    limit: float = 300.0
    _current: float = 0.0
    _last: float = 0.0

    def delay(self, now: float) -> float:
        """Seconds to wait after a failure at ``now`` before the next attempt; call it once per failure."""
        if self._current == 0 or now - self._last > 2 * self.limit:
            wait, self._current = 0.0, self.base
        else:
            wait, self._current = self._current, min(self._current * 2, self.limit)
        self._last = now + wait
        return wait
