"""Sends an Event to instances that another operator serves; only that operator may write their status."""

import asyncio
import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from scheduler.kube.client import KubeClient, KubeError, api_path
from secondary_scheduler.operator.reconcile import KIND, RESOURCES, EventDraft
from secondary_scheduler.operator.writer import Writer

NOTIFY_AFTER = 20.0
"""Seconds that a holder is waited for in silence: longer than a successor waits for an operator that is replaced, or
that died and whose Lease runs out."""
_CHECK_SECONDS = 1.0
_LIST_SECONDS = 10.0
"""Seconds between lists for instances that have not had the Event yet."""

log = structlog.stdlib.get_logger(__name__)


class LeaseHolder(NamedTuple):
    """A Lease and its holder."""

    lease: str
    holder: str


@dataclass
class _Waiting:
    lease_holder: LeaseHolder
    next_look: float
    notified: set[str] = field(default_factory=set)
    """UIDs of instances."""


class Standby:
    """Watches the namespaces whose Lease another operator holds."""

    def __init__(
        self,
        client: KubeClient,
        writer: Writer,
        namespaces: Collection[str],
        lease_holder: Callable[[str], LeaseHolder | None],
    ) -> None:
        """`lease_holder` says which Lease keeps this operator from serving a namespace; None if none does."""
        self._client = client
        self._writer = writer
        self._namespaces = tuple(namespaces)
        self._lease_holder_of = lease_holder
        self._waiting: dict[str, _Waiting] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self.check(time.monotonic())
            await asyncio.sleep(_CHECK_SECONDS)

    async def check(self, now: float) -> None:
        """Send the Events that are due; `now` in monotonic seconds."""
        for namespace in self._namespaces:
            lease_holder = self._lease_holder_of(namespace)
            if lease_holder is None:
                self._waiting.pop(namespace, None)
                continue
            waiting = self._waiting.get(namespace)
            if waiting is None or waiting.lease_holder != lease_holder:
                self._waiting[namespace] = _Waiting(lease_holder, now + NOTIFY_AFTER)
            elif now >= waiting.next_look:
                waiting.next_look = now + _LIST_SECONDS
                await self._notify(namespace, waiting)

    async def _notify(self, namespace: str, waiting: _Waiting) -> None:
        resource = RESOURCES[KIND]
        holder, lease = waiting.lease_holder.holder, waiting.lease_holder.lease
        message = (
            f"{holder} holds Lease {lease} and serves this instance; this operator does nothing until the Lease "
            "is free: remove one of the two operators"
        )
        try:
            answer = await self._client.get(api_path(resource.api_version, resource.plural, namespace=namespace))
            for instance in json.loads(answer)["items"]:
                uid = str(instance["metadata"]["uid"])
                if uid not in waiting.notified:
                    draft = EventDraft("ServedByAnotherOperator", message, warning=True)
                    await self._writer.send_event(instance, draft, datetime.now(UTC))
                    waiting.notified.add(uid)
        except (KubeError, ValueError, KeyError, TypeError) as error:
            log.info("cannot send the Event about the other operator", namespace=namespace, error=str(error))
