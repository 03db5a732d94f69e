"""A queue of keys, like client-go's rate-limited workqueue: each key is queued at most once, with the time it is due.

One worker takes from it, so that a key is never worked on twice at the same time and needs no `done`.
"""

import asyncio
import time
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class WorkQueue(Generic[K]):
    """Keys to be worked on, for one worker. A burst of changes to a key is one piece of work.

    The same key is handed out again no sooner than after `spacing` seconds: two controllers that fight over an object
    must not fill the API server. `retry` delays grow from `first_delay` to `longest_delay` seconds by doubling, until
    `forget`.
    """

    def __init__(
        self,
        *,
        spacing: float = 0.05,
        first_delay: float = 0.2,
        longest_delay: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spacing = spacing
        self._first_delay = first_delay
        self._longest_delay = longest_delay
        self._clock = clock
        self._due: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._not_before: dict[K, float] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, key: K, after: float = 0.0) -> None:
        """Have the key worked on in `after` seconds, or earlier if it is already due earlier."""
        due = max(self._clock() + after, self._not_before.get(key, 0.0))
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._changed.set()

    def retry(self, key: K) -> float:
        """Have the key worked on again after a delay that grows with each call; return the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        delay = float(min(self._first_delay * 2 ** min(failures, 30), self._longest_delay))
        self.add(key, delay)
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded: its next retry starts with the shortest delay."""
        self._failures.pop(key, None)

    async def get(self) -> K:
        """Take the key that is due, waiting for one if need be."""
        while True:
            self._changed.clear()
            key = min(self._due, key=self._due.__getitem__, default=None)
            if key is None:
                await self._changed.wait()
                continue
            wait = self._due[key] - self._clock()
            if wait <= 0:
                del self._due[key]
                self._not_before = {k: t for k, t in self._not_before.items() if t > self._clock()}
                self._not_before[key] = self._clock() + self._spacing
                return key
            try:
                async with asyncio.timeout(wait):
                    await self._changed.wait()
            except TimeoutError:
                continue
