"""Sends an Event to instances that another operator serves; only that operator may write their status."""

import asyncio
import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import structlog

from scheduler.kube.client import ClientConfig, KubeClient, KubeError, api_path
from scheduler.kube.lease import LeaseElector, LeaseSettings
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


class NamespaceLeases:
    """Competes for one Lease per namespace, and again for one that is lost; the other namespaces stay served."""

    def __init__(
        self,
        config: ClientConfig,
        namespaces: Collection[str],
        lease: str,
        *,
        identity: str,
        on_acquired: Callable[[str], None],
        user_agent: str,
    ) -> None:
        """`on_acquired` is called with a namespace, on some thread, when its Lease has been acquired."""
        self._config = config
        self._lease = lease
        self._identity = identity
        self._on_acquired = on_acquired
        self._user_agent = user_agent
        self._stopped = False
        self._electors = {namespace: self._elector(namespace) for namespace in namespaces}

    def start(self) -> None:
        """Begin to compete."""
        for elector in self._electors.values():
            elector.start()

    def stop(self) -> None:
        """Release what is held; blocks for as long as the API server takes."""
        self._stopped = True
        for elector in list(self._electors.values()):
            elector.stop()

    def holds(self, namespace: str) -> bool:
        """Whether this operator may write for instances of the namespace at this very moment."""
        return self._electors[namespace].is_leader()

    def holder(self, namespace: str) -> str:
        """Who else held a namespace's Lease when it was last looked at, or ""."""
        elector = self._electors[namespace]
        other = elector.observed_holder
        return "" if elector.is_leader() or other == elector.identity else other

    def _elector(self, namespace: str) -> LeaseElector:
        return LeaseElector(
            self._config,
            LeaseSettings(namespace=namespace, name=self._lease),
            identity=self._identity,
            on_started_leading=partial(self._on_acquired, namespace),
            on_lost=partial(self._compete_again, namespace),
            user_agent=self._user_agent,
        )

    def _compete_again(self, namespace: str, reason: str) -> None:
        log.warning("lost a namespace's Lease: its instances are not reconciled", namespace=namespace, why=reason)
        if not self._stopped:
            self._electors[namespace] = self._elector(namespace)
            self._electors[namespace].start()
