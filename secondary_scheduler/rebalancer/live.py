"""The cluster as the loop sees it, and what it does to it: reads, evictions, the status, Events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from scheduler.catalog import operand_name
from scheduler.framework import LoadReading, PodInfo
from scheduler.kube.client import (
    APPLY_PATCH,
    ApiError,
    Conflict,
    Forbidden,
    KubeClient,
    KubeError,
    NotFound,
    WriteWithheld,
    api_path,
)
from secondary_scheduler.kubeobjects import KubeObject, part
from secondary_scheduler.rebalancer.cluster import WatchedCluster
from secondary_scheduler.rebalancer.planner import Planner, RoundInput
from secondary_scheduler.rebalancer.rounds import EvictionAnswer, StatusDeleted
from secondary_scheduler.rebalancer.status import Announcer, RoundReport, rebalance_status
from secondary_scheduler.rebalancer.usage import UsageReader
from secondary_scheduler.rebalancestatus import STATUS_KEY, RebalanceStatus
from secondary_scheduler.rebalancing import (
    EvictionReply,
    History,
    Memory,
    ObservedScheduler,
    PastMove,
    PlannedMove,
    RebalancePlan,
    SchedulerHealth,
    UnreadableMemory,
    answer_of,
    decode_memory,
    elects_leader,
    encode_memory,
    eviction_of,
    lease_of,
    scheduler_health,
)

MANAGER = "secondary-scheduler-rebalancer"
MEMORY_KEY = "memory.json"
_SECONDARY_SCHEDULERS = "operator.openshift.io/v1"
_EVICTION_SECONDS = 35.0
"""An admission webhook may take 30."""
_MAX_TEXT = 300
log = structlog.get_logger(component="rebalancer")


@dataclass(frozen=True, slots=True)
class RebalancerPlaces:
    """Where things are.

    Attributes:
        namespace: of this process, its Lease and its status.
        name: of both.
        scheduler: namespace and name of the scheduler's Deployment.
    """

    namespace: str
    name: str
    scheduler: tuple[str, str]


class LiveAccess:
    """A cluster.

    Args:
        client: for everything but the watches, so that these do not use up its rate.
        cluster: the copy of the cluster.
        planner: makes the plans.
        announcer: writes Events.
        places: where things are.
        configuration: hash of the configuration that plans are made with.
        leads: whether this process may write now.
        usage: reads what pods use.
    """

    def __init__(
        self,
        client: KubeClient,
        cluster: WatchedCluster,
        planner: Planner,
        announcer: Announcer,
        places: RebalancerPlaces,
        configuration: str,
        leads: Callable[[], bool],
        usage: UsageReader,
    ) -> None:
        self._client = client
        self._usage = usage
        self._cluster = cluster
        self._planner = planner
        self._announcer = announcer
        self._places = places
        self._configuration = configuration
        self._leads = leads
        self._path = api_path("v1", "configmaps", namespace=places.namespace, name=places.name)
        self._status_uid = ""
        self.reading: LoadReading | None = None
        """The last load by name of node; set from the collector's thread."""

    def problem(self) -> str:
        """Return why the copy of the cluster cannot be trusted."""
        return self._cluster.problem()

    def pod(self, uid: str) -> PodInfo | None:
        """Return the pod with a UID."""
        return self._cluster.pod(uid)

    def pods_of(self, controller: str) -> list[PodInfo]:
        """Return the pods of a controller."""
        return list(self._cluster.pods_of(controller)) if controller else []

    async def plan(self, history: History, *, evicts: bool) -> RebalancePlan:
        """Return the plan of a round."""
        usage, health = await asyncio.gather(self._usage.read(), self._health())
        now = time.time()
        reading = self.reading if self.reading is not None else LoadReading({}, now)
        # The picture last: it is what evictions are decided on.
        round_ = RoundInput(self._cluster.picture(), reading, usage, history, health, now, evicts)
        # In a thread: with many pods it takes seconds, in which probes are to be answered.
        return await asyncio.to_thread(self._planner.plan, round_)

    async def evict(self, pod: PodInfo, *, dry_run: bool) -> EvictionAnswer:
        """Ask for the eviction of this very pod, once."""
        path = api_path("v1", "pods", namespace=pod.namespace, name=pod.name, subresource="eviction")
        body = eviction_of(pod, dry_run=dry_run)
        try:
            await self._client.post(path, body, timeout=_EVICTION_SECONDS, allowed=self._leads, repeat=False)
        except WriteWithheld:
            return EvictionAnswer(EvictionReply.FAILED, "not sent: the Lease is not held any more")
        except ApiError as error:
            return EvictionAnswer(answer_of(error.status, error.message), error.message[:_MAX_TEXT])
        except KubeError as error:
            return EvictionAnswer(EvictionReply.FAILED, str(error)[:_MAX_TEXT])
        return EvictionAnswer(answer_of(201, ""))

    async def read_memory(self) -> Memory:
        """Return what was kept before; the memory of somebody who has just come where that cannot be read.

        Raises:
            KubeError: the API server does not answer.
        """
        try:
            content: Any = json.loads(await self._client.get(self._path))
        except NotFound:
            return Memory()
        except ValueError:
            content = {}
        self._status_uid = str(part(content, "metadata").get("uid") or "")
        text = part(content, "data").get(MEMORY_KEY)
        if not isinstance(text, str):
            return Memory()
        try:
            return decode_memory(text)
        except UnreadableMemory as error:
            log.warning("what was kept cannot be read: cooldowns are forgotten", reason=str(error)[:_MAX_TEXT])
            return Memory()

    async def save(self, memory: Memory, report: RoundReport) -> str:
        """Write the status; see `World.save`."""
        identity = {"uid": self._status_uid} if self._status_uid else {}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self._places.name,
                "namespace": self._places.namespace,
                "labels": {"app.kubernetes.io/managed-by": MANAGER},
                **identity,
            },
            "data": {
                STATUS_KEY: _indented(rebalance_status(report, memory.history)),
                MEMORY_KEY: encode_memory(memory),
            },
        }
        params = {"fieldManager": MANAGER, "force": "true"}
        try:
            answer = await self._client.patch(self._path, body, params, content_type=APPLY_PATCH, allowed=self._leads)
        except (Conflict, NotFound) as error:
            if not self._status_uid:
                return str(error)
            self._status_uid = ""
            raise StatusDeleted from error
        except KubeError as error:
            return str(error)[:_MAX_TEXT]
        self._status_uid = _uid(answer)
        return ""

    def announce_move(self, move: PlannedMove, pod: PodInfo) -> None:
        """Write Events about an eviction."""
        self._announcer.moved(move, pod, self._cluster.workload(move.workload))

    def announce_outcome(self, move: PastMove, node: str) -> None:
        """Write an Event about how a move ended."""
        self._announcer.ended(move, node, self._cluster.workload(move.workload))

    async def _health(self) -> SchedulerHealth:
        """Return the health of the scheduler; not available where nothing can be read of it."""
        namespace, name = self._places.scheduler
        title = f"{namespace}/{name}"
        try:
            deployment = await self._get(api_path("apps/v1", "deployments", namespace=namespace, name=name))
            lease_namespace, lease_name = lease_of(deployment, namespace, name)
            lease = await self._get(
                api_path("coordination.k8s.io/v1", "leases", namespace=lease_namespace, name=lease_name)
            )
            resource = await self._resource(namespace, name)
        except KubeError as error:
            return SchedulerHealth(
                f"{title} cannot be read: {str(error)[:_MAX_TEXT]}", self._configuration, self._configuration
            )
        observed = ObservedScheduler(title, deployment, lease, resource, elects_leader(deployment))
        return scheduler_health(observed, planned=self._configuration, now=time.time())

    async def _resource(self, namespace: str, name: str) -> KubeObject | None:
        """Return the SecondaryScheduler of a Deployment; None without one, and where they may not be read."""
        path = api_path(_SECONDARY_SCHEDULERS, "secondaryschedulers", namespace=namespace)
        try:
            body = await self._get(path)
        except Forbidden:
            return None
        items = (body or {}).get("items")
        for item in items if isinstance(items, list) else ():
            if isinstance(item, dict) and operand_name(str(part(item, "metadata").get("name"))) == name:
                return item
        return None

    async def _get(self, path: str) -> KubeObject | None:
        try:
            content = json.loads(await self._client.get(path))
        except NotFound:
            return None
        except ValueError:
            return {}
        return content if isinstance(content, dict) else {}


def _indented(status: RebalanceStatus) -> str:
    return msgspec.json.format(msgspec.json.encode(status), indent=1).decode()


def _uid(answer: bytes) -> str:
    try:
        return str(part(json.loads(answer), "metadata").get("uid") or "")
    except ValueError:
        return ""
