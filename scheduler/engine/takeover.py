"""What a replica does between getting the Lease and its first decision."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from scheduler.kube.client import KubeError

_RETRY_SECONDS: Final = 1.0
log = structlog.get_logger(component="takeover")


class Takeover:
    """Reads the pods once more when this replica takes over from another.

    The leader before may have bound pods until a moment ago. A watch shows them milliseconds later, unless its
    connection broke or the API server that it is connected to lags behind: then the new leader would give the same room
    to others. kube-scheduler decides by what its watches have shown.
    """

    def __init__(self, read_pods: Callable[[], Awaitable[None]], ready: Callable[[], None]) -> None:
        """`read_pods` brings the cache to what a quorum read shows, or raises KubeError; `ready` is called then."""
        self._read_pods = read_pods
        self._ready = ready
        self._begun = asyncio.Event()

    @property
    def pending(self) -> bool:
        """Whether the pods have still to be read: nothing may be decided until then."""
        return self._begun.is_set()

    def begin(self) -> None:
        """Begin a takeover; `run` completes it."""
        self._begun.set()

    async def run(self) -> None:
        """Complete takeovers until cancelled. A read that fails is tried again: without it nothing may be bound."""
        while True:
            await self._begun.wait()
            try:
                await self._read_pods()
            except KubeError as error:
                log.warning("pods are not read again yet, nothing is scheduled before", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._begun.clear()
            self._ready()
