"""What a list and watch is doing, and how long it waits before it tries again."""

from __future__ import annotations

import asyncio
import random
from typing import Final

from msgspec import Struct

from scheduler.kube.client.errors import KubeError
from scheduler.kube.model import ResourceVersion

NEVER: Final = ResourceVersion("")


class ReflectorTiming(Struct, frozen=True, kw_only=True):
    """Timeouts and delays in seconds. The defaults follow client-go; tests shorten them."""

    backoff_first: float = 0.8
    backoff_most: float = 30.0
    backoff_reset: float = 120.0
    """A watch that lasted so long ends the back-off."""
    watch_least: float = 300.0
    watch_most: float = 600.0
    silence: float = 150.0
    """The API server sends a bookmark about every minute."""
    list_timeout: float = 120.0
    absent: float = 5.0
    """How often an optional resource that the API server does not serve is looked for."""
    refused: float = 30.0
    """How long an optional resource is waited for that the API server refuses from the start: its rule may be just
    about to be made."""
    refuse_older: float = 60.0
    """How long a list older than the last one is refused where nothing else tells that the cluster went back."""


class ReflectorState(Struct):
    """What a reflector is doing, for health checks and metrics. `time.monotonic()` for all times."""

    synced: bool = False
    outdated: bool = False
    """The cluster went back to an older state, and this has not been listed since."""
    watching: bool = False
    absent: bool = False
    """The API server does not serve the resource, which is optional: the sink was given an empty list."""
    unread: bool = False
    """The API server has refused the resource from the start, and it is optional: the sink was given nothing."""
    last_progress: float = float("-inf")
    """When the API server last said anything."""
    resource_version: ResourceVersion = NEVER
    error: KubeError | None = None
    """Why the last attempt failed; None while all is well."""
    lists: int = 0
    watches: int = 0
    events: int = 0
    invalid: int = 0


class Backoff:
    """0.8 s doubling to 30 s, with jitter; one second apart at most while all goes well."""

    def __init__(self, timing: ReflectorTiming) -> None:
        self._timing = timing
        self._next = 0.0

    def reset(self) -> None:
        """Do not wait the next time."""
        self._next = 0.0

    async def wait(self) -> None:
        """Wait, and longer the next time."""
        delay = self._next
        self._next = min(max(delay * 2, self._timing.backoff_first), self._timing.backoff_most)
        if delay:
            await asyncio.sleep(delay * random.uniform(1.0, 1.5))
