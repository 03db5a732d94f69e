"""A token bucket for one event loop."""

from __future__ import annotations

import asyncio
import time


class TokenBucket:
    """Let `burst` calls through at once and `qps` a second in the long run, first come first served.

    `qps` of 0 or less means no limit, as a negative one in client-go. Each caller reserves its moment on arrival, so
    that callers keep their order and none polls.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._tokens = self._burst
        self._filled_at = time.monotonic()

    async def acquire(self) -> None:
        """Wait until the call may be made."""
        if self._qps <= 0:
            return
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        self._tokens -= 1
        if self._tokens >= 0:
            return
        try:
            await asyncio.sleep(-self._tokens / self._qps)
        except asyncio.CancelledError:
            self._tokens += 1
            raise
