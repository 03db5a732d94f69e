"""One cell of the table: two schedulers, a share of full nodes, a rate of pods, and a way to avoid conflicts."""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import re
import sys
import time
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.race import cluster as servers
from benchmarks.race.cluster import RaceCluster
from benchmarks.race.contestants import BURST, QPS, ROOT
from benchmarks.race.scenario import Json
from benchmarks.sharing.kubelets import Kubelets, Outcome
from benchmarks.writes import at_once
from devcluster import ports, processes
from devcluster.node_agent.admission import amounts
from devcluster.ports import LOOPBACK
from devcluster.processes import ProcessRecord, ServiceProcess
from scheduler.kube.client import Conflict, KubeClient, KubeError

OURS, PEER = "ours", "kube-scheduler"
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
class Cell:
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
class Result:
    """What came of a cell.

    Attributes:
        cell: what was run.
        outcomes: by scheduler (OURS, PEER).
        given_up: Bindings of ours that were not written, as the node had filled up.
        waiting: pods that had no node in the end, when none had got one for longer than a backoff lasts.
        lost: requests that the API server did not carry out: the machine was too slow.
        seconds: that the arrivals took; longer than planned where the machine was too slow for the rate.
    """

    cell: Cell
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    given_up: int = 0
    waiting: int = 0
    lost: int = 0
    seconds: float = 0.0


def run(cell: Cell, cluster: RaceCluster, kube_scheduler: Path) -> Result:
    """Run a cell on servers that have no nodes and pods, and leave them so.

    Raises:
        RuntimeError: a scheduler or a server has ended.
    """
    return asyncio.run(_Stage(cell, cluster, kube_scheduler).run())


class _Stage:
    def __init__(self, cell: Cell, cluster: RaceCluster, kube_scheduler: Path) -> None:
        self._cell, self._cluster, self._kube_scheduler = cell, cluster, kube_scheduler
        names = [f"node-{number:03d}" for number in range(cell.nodes)]
        half = cell.nodes // 2
        apart = cell.way is Way.PARTITION
        self._nodes_of = {OURS: names[:half] if apart else names, PEER: names[half:] if apart else names}
        self._nodes, self._apart = names, apart
        self._processes: dict[str, tuple[ProcessRecord, int]] = {}
        self._lost = 0

    async def run(self) -> Result:
        cell = self._cell
        async with KubeClient(self._cluster.client_config(), qps=0, user_agent="sharing", timeout=120) as client:
            self._client = client
            kubelets = Kubelets(client, dict.fromkeys(self._nodes, amounts(_ALLOCATABLE)), cell.seed)
            await self._build()
            async with kubelets.working():
                with self._schedulers():
                    await self._until_both_bind(kubelets)
                    began = time.monotonic()
                    await self._arrive(kubelets)
                    seconds = time.monotonic() - began
                    # By then the watch has shown all that arrived.
                    await kubelets.quiet_for(_QUIET_SECONDS)
                    waiting = await kubelets.settled(_STALLED_SECONDS)
                    await kubelets.quiet_for(_QUIET_SECONDS)
                    given_up = await self._given_up()
                    for record, _ in self._processes.values():
                        servers.require_alive(record)
                outcomes = {role: kubelets.outcomes.get(name, Outcome()) for role, name in NAMES.items()}
                await self._clear(kubelets)
        return Result(cell, outcomes, given_up, waiting, self._lost, seconds)

    # Objects --------------------------------------------------------------------------------------------------------

    async def _build(self) -> None:
        with contextlib.suppress(Conflict):
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
            await self._client.post("/api/v1/namespaces", namespace)
        await at_once((self._client.post("/api/v1/nodes", self._node(name)) for name in self._nodes), _CREATORS)
        full_slots = round(self._cell.nodes * _SLOTS * self._cell.fill / 100)
        # Both halves are equally full, whether they are apart or not.
        half = -(-len(self._nodes) // 2)
        order = [name for pair in zip_longest(self._nodes[:half], self._nodes[half:]) for name in pair if name]
        before = (
            self._create(f"before-{number:05d}", "nobody", nodeName=order[number % len(order)])
            for number in range(full_slots)
        )
        await at_once(before, _CREATORS)

    def _node(self, name: str) -> Json:
        ours = self._apart and name in self._nodes_of[OURS]
        taints = [{"key": POOL, "value": "ours", "effect": "NoSchedule"}] if ours else []
        ready = {"type": "Ready", "status": "True", "reason": "Played"}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {POOL: "ours"} if ours else {}},
            "spec": {"taints": taints},
            "status": {"capacity": _ALLOCATABLE, "allocatable": _ALLOCATABLE, "conditions": [ready]},
        }

    async def _create(self, name: str, scheduler_name: str, **spec: Any) -> None:
        if self._apart and scheduler_name == NAMES[OURS]:
            spec["nodeSelector"] = {POOL: "ours"}
            spec["tolerations"] = [{"key": POOL, "operator": "Exists"}]
        container = {"name": "c", "image": "registry.example.com/shop/web:1", "resources": {"requests": _REQUESTS}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            # It is gone as soon as it is deleted.
            "spec": {"schedulerName": scheduler_name, "terminationGracePeriodSeconds": 0, "containers": [container]}
            | spec,
        }
        await self._client.post(_PODS, pod)

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
    def _schedulers(self) -> Iterator[None]:
        try:
            for role in (OURS, PEER):
                self._start(role)
            yield
        finally:
            processes.stop([record for record, _ in self._processes.values()])

    def _start(self, role: str) -> None:
        layout = self._cluster.layout
        profile: Json = {"schedulerName": NAMES[role]}
        percent = {Way.RECHECK: 80, Way.RECHECK_ALWAYS: 0, Way.CARE_AND_RECHECK: 80}.get(self._cell.way)
        if role == OURS and percent is not None:
            args = {"recheckNodesAbovePercent": percent}
            profile["pluginConfig"] = [{"name": "SecondarySchedulerOptions", "args": args}]
        if role == OURS and self._cell.way in (Way.CARE, Way.CARE_AND_RECHECK):
            profile["plugins"] = {"filter": {"enabled": [{"name": "SharedNodes"}]}}
        file = layout.config(f"{role}.json")
        file.write_text(
            json.dumps(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "leaderElection": {"leaderElect": False},
                    "clientConnection": {"kubeconfig": str(layout.kubeconfig), "qps": QPS, "burst": BURST},
                    "profiles": [profile],
                }
            )
        )
        port = ports.allocate([role], {})[role]
        kubeconfig = layout.kubeconfig
        argv = [
            *([sys.executable, "-m", "scheduler"] if role == OURS else [str(self._kube_scheduler)]),
            f"--config={file}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={port}",
            *(f"--{purpose}-kubeconfig={kubeconfig}" for purpose in ("authentication", "authorization")),
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
        ]
        service = ServiceProcess(role, argv, ports=[port], env={"PYTHONPATH": str(ROOT)})
        self._processes[role] = (processes.start(service, layout.root), port)

    async def _until_both_bind(self, kubelets: Kubelets) -> None:
        """One pod each, which goes again."""
        for role, name in NAMES.items():
            await self._create(f"first-{name}", name)
            deadline = time.monotonic() + _FIRST_SECONDS
            while name not in kubelets.outcomes:
                servers.require_alive(self._processes[role][0])
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{role} bound no pod in {_FIRST_SECONDS:.0f} s")
                await kubelets.quiet_for(0.1)
            await self._client.delete(f"{_PODS}/first-{name}", None)
        await kubelets.quiet_for(0.5)

    async def _given_up(self) -> int:
        url = f"https://{LOOPBACK}:{self._processes[OURS][1]}/metrics"
        connector = aiohttp.TCPConnector(ssl=servers.unchecked_tls())
        async with aiohttp.ClientSession(connector=connector) as session, session.get(url) as answer:
            match = _FULL.search(await answer.text())
        return int(float(match[1])) if match else 0
