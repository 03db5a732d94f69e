"""What the running scheduler and the API server say to a visitor, who asks with a token of its own.

The page forwards a port of the scheduler's pod as the command `explain` does (docs/adr/0025), and shows the visitor's
token on both ways: what the visitor may not do is refused there. Only the pod's name comes from the Lease, which the
page may get.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final, Protocol
from urllib.parse import quote

from scheduler.answers import DecisionList
from scheduler.kube.client import ClientConfig, KubeClient, KubeError, api_path
from scheduler.operand import SECURE_PORT
from secondary_scheduler.clusterstatus.document import read_status, status_document
from secondary_scheduler.clusterstatus.installations import CallerLimits, Installations, Instance
from secondary_scheduler.clusterstatus.installed import holder_of
from secondary_scheduler.clusterstatus.listing import read_object
from secondary_scheduler.clusterstatus.schedulerclient import SchedulerPod
from secondary_scheduler.clusterstatus.status import StatusReport
from secondary_scheduler.clusterstatus.unknownpods import AskedSchedulers, refuse_unknown
from secondary_scheduler.errors import CommandError, printable
from secondary_scheduler.kubeobjects import KubeObject
from secondary_scheduler.page.rights import NamespacedName
from secondary_scheduler.views.guarding import Refused
from secondary_scheduler.views.pods import PodAnswer, running_pod

_AT_ONCE, _AT_ONCE_OF_ONE = 16, 2
"""Questions that are answered at a time, and of one user: who asks and asks keeps nobody else out."""
_COMMAND: Final = "page"
_ONLY_THE_LEASE: Final = (
    "replicas, queue, placements, conditions and versions: your token is for this page only; come through a proxy that "
    "passes your own on, or ask from your machine: secondary-scheduler status"
)


class Running(Protocol):
    """What a visitor can ask."""

    async def status(self, token: str, user: str) -> StatusReport:
        """Return the document of `status` for the owner of a token, whose name is `user`."""
        ...

    async def reported(self) -> StatusReport:
        """Return what can be said without a token: for who may get the scheduler's Lease."""
        ...

    async def ask(self, token: str, user: str, namespace: str, name: str) -> PodAnswer:
        """Return what the running scheduler says about a pod to the owner of a token, whose name is `user`."""
        ...


@dataclass(frozen=True, slots=True)
class LeadingScheduler:
    """The scheduler of a Lease.

    Attributes:
        api: the API server; none of its credentials is used for what a visitor asks.
        lease: names the pod that leads.
        client: of the page itself, which may get the Lease.
        asking: how many questions of each user are under way.
        threads: in which they are read; those of the page's views are others.
    """

    api: ClientConfig
    lease: NamespacedName
    client: KubeClient
    asking: Counter[str] = field(default_factory=Counter)
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(_AT_ONCE, "asking"))

    async def status(self, token: str, user: str) -> StatusReport:
        """Read and ask as `status` does.

        Raises:
            CommandError: the API server does not answer, or refuses the token.
            Refused: too many ask.
        """
        config = as_visitor(self.api, token)

        def read() -> StatusReport:
            try:
                return read_status(config, self.lease.namespace, everywhere=False, command=_COMMAND)
            except KubeError as error:
                raise CommandError(printable(str(error))) from error

        with self._turn(user):
            return await asyncio.get_running_loop().run_in_executor(self.threads, read)

    async def reported(self) -> StatusReport:
        """Return the document of what the leader reports on its Lease, which the page gets with its own right.

        Raises:
            CommandError: it cannot be read.
        """
        lease, now, limits = await self._lease(), datetime.now(UTC), CallerLimits()
        limits.note(_ONLY_THE_LEASE)
        place = (self.lease.namespace, self.lease.name)
        instance = Instance(place, None, None, lease, deployment_readable=False, lease_readable=True, configuration="")
        read = Installations(
            self.api.server, "", "", [], [], {place: lease}, frozenset(), frozenset({self.lease.namespace}), {}
        )
        return status_document(read, [instance], {}, limits, now)

    async def ask(self, token: str, user: str, namespace: str, name: str) -> PodAnswer:
        """Ask about a pod as `explain` does.

        Raises:
            CommandError: nobody leads, the tunnel or the question is refused, or the answer is none.
            Refused: too many ask.
        """
        with self._turn(user):
            return await self._ask(as_visitor(self.api, token), namespace, name)

    @contextlib.contextmanager
    def _turn(self, user: str) -> Iterator[None]:
        if self.asking[user] >= _AT_ONCE_OF_ONE:
            raise Refused(429, "you ask the scheduler already; wait for its answers")
        if self.asking.total() >= _AT_ONCE:
            raise Refused(503, "too many ask the scheduler at the moment; try again")
        self.asking[user] += 1
        try:
            yield
        finally:
            self.asking[user] -= 1
            if not self.asking[user]:
                del self.asking[user]

    async def _ask(self, config: ClientConfig, namespace: str, name: str) -> PodAnswer:
        leader = await self._leader()
        scheduler = SchedulerPod(config, self.lease.namespace, leader, SECURE_PORT)
        path = f"/debug/decisions/namespaces/{quote(namespace, safe='')}"
        right = f"to get pods in namespace {namespace}"
        pod = running_pod(await scheduler.ask(path, {"pod": name}, DecisionList, right))
        if pod.last is None and pod.waiting is None:
            schedulers = AskedSchedulers((leader,), pod.scheduler_names)
            read = partial(refuse_unknown, config, _COMMAND, namespace, name, schedulers)
            await asyncio.get_running_loop().run_in_executor(self.threads, read)
        return pod

    async def _leader(self) -> str:
        leader = holder_of(await self._lease())
        if not leader:
            raise CommandError("no replica of the scheduler leads")
        return leader

    async def _lease(self) -> KubeObject:
        path = api_path("coordination.k8s.io/v1", "leases", namespace=self.lease.namespace, name=self.lease.name)
        try:
            return read_object(await self.client.get(path), path)
        except KubeError as error:
            raise CommandError(printable(f"who leads cannot be read: {error}")) from error


def as_visitor(api: ClientConfig, token: str) -> ClientConfig:
    """Return the connection of the owner of a token: nothing of the page's own credentials is in it."""
    return api.with_token(token, "the visitor's token")
