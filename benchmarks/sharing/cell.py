"""One cell of the table: two schedulers, a share of full nodes, a rate of pods, and a way to avoid conflicts."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import re
import time
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from benchmarks.harness import contestants
from benchmarks.harness.contestants import OURS, PEER, Contestant
from benchmarks.harness.control_plane import ControlPlane
from benchmarks.harness.manifests import node, node_name, pod
from benchmarks.harness.objects import at_once
from benchmarks.harness.scenario import ContestantProfile, Json
from benchmarks.sharing.kubelets import KubeletOutcome, Kubelets
from devcluster.node_agent.admission import amounts
from scheduler.kube.client import Conflict, KubeError

NAMES = {OURS: "secondary-scheduler", PEER: "default-scheduler"}
"""The scheduler names."""
POOL = "sharing.secondary-scheduler.io/pool"
"""Label and taint of our nodes, where they are apart."""
_NAMESPACE = "sharing"
_PODS = f"/api/v1/namespaces/{_NAMESPACE}/pods"
_SLOTS = 16
_ALLOCATABLE = {"cpu": "8", "memory": "32Gi", "pods": "110"}
_REQUESTS = {"cpu": "500m", "memory": "512Mi"}
_CREATORS = 16
_FIRST_SECONDS = 60.0
_QUIET_SECONDS = 3.0
_STALLED_SECONDS = 20.0
"""Longer than the longest backoff, so that a pod that waits has been tried again meanwhile."""
_FULL = re.compile(r'^secondary_scheduler_node_checks_total\{outcome="full"\} (\S+)$', re.MULTILINE)


class Way(enum.StrEnum):
    """How conflicts are avoided."""

    NONE = "none"
    RECHECK = "recheck 80"
    """`recheckNodesAbovePercent: 80`."""
    RECHECK_ALWAYS = "recheck 0"
    CARE = "SharedNodes"
    """The plugin with its default args."""
    CARE_AND_RECHECK = "SharedNodes, recheck 80"
    PARTITION = "partition"
    """Each scheduler has half of the nodes."""


@dataclass(frozen=True)
class SharingCell:
    """What is run.

    Attributes:
        nodes: their number; each has room for 16 pods.
        fill: percent of the room that is taken, before and all the time.
        rate: pods a second, of both schedulers together.
        pods: how many arrive.
        way: how conflicts are avoided.
        seed: for which pods end.
    """

    nodes: int
    fill: int
    rate: int
    pods: int
    way: Way
    seed: int


@dataclass
class CellResult:
    """What came of a cell.

    Attributes:
        cell: what was run.
        outcomes: by scheduler (OURS, PEER).
        given_up: Bindings of ours that were not written, as the node had filled up.
        waiting: pods that had no node in the end, when none had got one for longer than a backoff lasts.
        lost: requests that the API server did not carry out: the machine was too slow.
        seconds: that the arrivals took; longer than planned where the machine was too slow for the rate.
    """

    cell: SharingCell
    outcomes: dict[str, KubeletOutcome] = field(default_factory=dict)
    given_up: int = 0
    waiting: int = 0
    lost: int = 0
    seconds: float = 0.0


def run(cell: SharingCell, cluster: ControlPlane) -> CellResult:
    """Run a cell on servers that have no nodes and pods, and leave them so.

    Raises:
        RuntimeError: a scheduler or a server has ended.
    """
    return asyncio.run(_CellRun(cell, cluster).run())


class _CellRun:
    def __init__(self, cell: SharingCell, cluster: ControlPlane) -> None:
        self._cell, self._cluster = cell, cluster
        names = [node_name(number) for number in range(cell.nodes)]
        half = cell.nodes // 2
        apart = cell.way is Way.PARTITION
        self._nodes_of = {OURS: names[:half] if apart else names, PEER: names[half:] if apart else names}
        self._nodes, self._apart = names, apart
        self._lost = 0

    async def run(self) -> CellResult:
        cell = self._cell
        async with self._cluster.client("sharing") as client:
            self._client = client
            kubelets = Kubelets(client, dict.fromkeys(self._nodes, amounts(_ALLOCATABLE)), cell.seed)
            await self._build()
            async with kubelets.working():
                with self._schedulers() as schedulers:
                    await self._until_both_bind(kubelets, schedulers)
                    began = time.monotonic()
                    await self._arrive(kubelets)
                    seconds = time.monotonic() - began
                    # By then the watch has shown all that arrived.
                    await kubelets.quiet_for(_QUIET_SECONDS)
                    waiting = await kubelets.settled(_STALLED_SECONDS)
                    await kubelets.quiet_for(_QUIET_SECONDS)
                    match = _FULL.search(await schedulers[OURS].metrics())
                    given_up = int(float(match[1])) if match else 0
                    for scheduler in schedulers.values():
                        scheduler.require_alive()
                outcomes = {role: kubelets.outcomes.get(name, KubeletOutcome()) for role, name in NAMES.items()}
                await self._clear(kubelets)
        return CellResult(cell, outcomes, given_up, waiting, self._lost, seconds)

    # Objects --------------------------------------------------------------------------------------------------------

    async def _build(self) -> None:
        with contextlib.suppress(Conflict):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
            await self._client.post("/api/v1/namespaces", namespace)
        numbers = range(self._cell.nodes)
        await at_once((self._client.post("/api/v1/nodes", self._node(number)) for number in numbers), _CREATORS)
        full_slots = round(self._cell.nodes * _SLOTS * self._cell.fill / 100)
        # Both halves are equally full, whether they are apart or not.
        half = -(-len(self._nodes) // 2)
        order = [name for pair in zip_longest(self._nodes[:half], self._nodes[half:]) for name in pair if name]
        before = (
            self._create(f"before-{number:05d}", "none", nodeName=order[number % len(order)])
            for number in range(full_slots)
        )
        await at_once(before, _CREATORS)

    def _node(self, number: int) -> Json:
        ours = self._apart and node_name(number) in self._nodes_of[OURS]
        taints = [{"key": POOL, "value": "ours", "effect": "NoSchedule"}] if ours else []
        item = node(number, _ALLOCATABLE, taints=taints)
        item["metadata"]["labels"] = {POOL: "ours"} if ours else {}
        return item

    async def _create(self, name: str, scheduler_name: str, **spec: Any) -> None:
        if self._apart and scheduler_name == NAMES[OURS]:
            spec["nodeSelector"] = {POOL: "ours"}
            spec["tolerations"] = [{"key": POOL, "operator": "Exists"}]
        # It is gone as soon as it is deleted.
        spec |= {"schedulerName": scheduler_name, "terminationGracePeriodSeconds": 0}
        await self._client.post(_PODS, pod(name, _REQUESTS, namespace=_NAMESPACE, **spec))

    async def _arrive(self, kubelets: Kubelets) -> None:
        """Pods at the cell's rate, to both schedulers alternately; with each, another one ends."""
        cell, began = self._cell, time.monotonic()
        kubelets.outcomes.clear()
        async with asyncio.TaskGroup() as group:
            for number in range(cell.pods):
                await asyncio.sleep(max(0.0, began + number / cell.rate - time.monotonic()))
                role = (OURS, PEER)[number % 2]
                if path := kubelets.end_one(self._nodes_of[role]):
                    group.create_task(self._try(self._client.delete(path, None)))
                group.create_task(self._try(self._create(f"pod-{number:05d}", NAMES[role])))

    async def _try(self, call: Awaitable[Any]) -> None:
        try:
            await call
        except KubeError:
            self._lost += 1

    async def _clear(self, kubelets: Kubelets) -> None:
        await self._client.delete(_PODS, None, timeout=120)
        await self._client.delete("/api/v1/nodes", None, timeout=120)
        deadline = time.monotonic() + _FIRST_SECONDS
        while kubelets.running():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{kubelets.running()} pods are still there {_FIRST_SECONDS:.0f} s after deletion")
            await kubelets.quiet_for(0.2)

    # Schedulers -----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _schedulers(self) -> Iterator[dict[str, Contestant]]:
        with contextlib.ExitStack() as stack:
            yield {
                role: stack.enter_context(contestants.running(role, profile, self._cluster, scheduler_name=NAMES[role]))
                for role, profile in ((OURS, self._profile()), (PEER, ContestantProfile()))
            }

    def _profile(self) -> ContestantProfile:
        """How ours is configured."""
        way = self._cell.way
        percent = {Way.RECHECK: 80, Way.RECHECK_ALWAYS: 0, Way.CARE_AND_RECHECK: 80}.get(way)
        options = [{"name": "SecondarySchedulerOptions", "args": {"recheckNodesAbovePercent": percent}}]
        cares = way in (Way.CARE, Way.CARE_AND_RECHECK)
        return ContestantProfile(
            plugins={"filter": {"enabled": [{"name": "SharedNodes"}]}} if cares else {},
            pluginConfig=[] if percent is None else options,
        )

    async def _until_both_bind(self, kubelets: Kubelets, schedulers: dict[str, Contestant]) -> None:
        """One pod each, which goes again."""
        for role, name in NAMES.items():
            await self._create(f"first-{name}", name)
            deadline = time.monotonic() + _FIRST_SECONDS
            while name not in kubelets.outcomes:
                schedulers[role].require_alive()
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{role} bound no pod in {_FIRST_SECONDS:.0f} s")
                await kubelets.quiet_for(0.1)
            await self._client.delete(f"{_PODS}/first-{name}", None)
        await kubelets.quiet_for(0.5)
