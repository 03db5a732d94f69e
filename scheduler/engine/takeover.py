"""What a replica does between getting the Lease and its first decision."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final

import structlog

from scheduler.kube.client import Forbidden, KubeError, NotFound, Reflector

_RETRY_SECONDS: Final = 1.0
_GIVEN_AWAY: Final = ("pods", "resourceclaims")
"""Where it stands what has been given away: the room of nodes, and devices. Two pods, or two claims, that get the same
do not conflict at the API server. Volumes and their claims do: each is a patch of the version that is known."""
log = structlog.get_logger(component="takeover")


class Takeover:
    """Reads pods and ResourceClaims once more when this replica takes over from another.

    The leader before may have bound pods until a moment ago. A watch shows them milliseconds later, unless its
    connection broke or the API server that it is connected to lags behind: then the new leader would give the same room
    or device to others. kube-scheduler decides by what its watches have shown.
    """

    def __init__(self, reflectors: Mapping[str, Reflector[Any, Any]], ready: Callable[[], None]) -> None:
        """`reflectors` are those of the caches, by resource; `ready` is called once a quorum read has filled them."""
        self._reflectors = reflectors
        self._ready = ready
        self._begun = asyncio.Event()

    @property
    def pending(self) -> bool:
        """Whether they have still to be read: nothing may be decided until then."""
        return self._begun.is_set()

    def begin(self) -> None:
        """Begin a takeover; `run` completes it."""
        self._begun.set()

    async def run(self) -> None:
        """Complete takeovers until cancelled. A read that fails is tried again: without it nothing may be bound."""
        while True:
            await self._begun.wait()
            try:
                await self._read()
            except KubeError as error:
                message = "pods and ResourceClaims are not read again yet, nothing is scheduled before"
                log.warning(message, reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            self._begun.clear()
            self._ready()

    async def _read(self) -> None:
        for resource in _GIVEN_AWAY:
            reflector = self._reflectors.get(resource)
            if reflector is None or reflector.state.absent or reflector.state.unread:
                continue
            try:
                await reflector.refresh()
            except (Forbidden, NotFound) as error:
                # Pods that use no such object must not wait for one that cannot be read.
                if not reflector.optional:
                    raise
                log.warning("not read again after a takeover", resource=resource, reason=str(error))
