"""A stage for two schedulers on the same nodes: the real kube-scheduler and our daemon, each with pods of its own, and
the order in which the API server took the Bindings.

The oracle reads a watch of its own, in the order of resource versions, which is the order of the writes: a Binding that
makes a node's pods request more than is allocatable is an over-commit by the scheduler of that pod. Nothing of our
scheduler's state is asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from devcluster import ports
from devcluster.ports import LOOPBACK
from tests.conformance import profiles
from tests.conformance.apiclient import Api
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.integration.scheduler.preemption import daemon_running
from tests.integration.scheduler.queueing import Json, node, pod

REAL, OURS = profiles.scheduler_name(profiles.PLAIN), "ours"
NAMESPACE = "contended"
NODES, SLOTS = 60, 4
"""Nodes, and pods for which each of them has room."""
NODE_NAMES = [f"n{number:02}" for number in range(NODES)]
_FULL_SECONDS = 60.0
_WORKERS = 12


@dataclass
class Bindings:
    """What the oracle saw: the Bindings in order, and for each scheduler how many of them made a node too full."""

    by: Counter[str] = field(default_factory=Counter)
    overcommits: Counter[str] = field(default_factory=Counter)
    on_node: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    """From the first node until every node was full."""

    @property
    def too_full(self) -> list[str]:
        """Nodes whose pods request more than is allocatable."""
        return sorted(name for name, count in self.on_node.items() if count > SLOTS)

    def add(self, scheduler: str, node_name: str) -> None:
        """Count the next Binding."""
        self.by[scheduler] += 1
        self.on_node[node_name] += 1
        if self.on_node[node_name] > SLOTS:
            self.overcommits[scheduler] += 1


class Contention:
    """Where both schedulers fill the nodes."""

    def __init__(
        self,
        plane: ControlPlane,
        api: Api,
        session: aiohttp.ClientSession,
        metrics_port: int,
        nodes: Mapping[str, Json],
    ) -> None:
        self._plane = plane
        self._nodes = nodes
        self._api = api
        self._session = session
        self._metrics = f"https://{LOOPBACK}:{metrics_port}/metrics"

    async def prepare(self) -> None:
        """Make the namespace, and a node without room: pods that find no node at all would wait for longer."""
        await self._api.create({"kind": "Namespace", "metadata": {"name": NAMESPACE}})
        await self._api.create(node("full", "0"))

    async def fill(
        self, pods: Mapping[str, int], more: Mapping[str, Json] | None = None, *, nodes_last: bool = True
    ) -> Bindings:
        """Give each scheduler that many pods of a slot each, and let both fill the nodes, until no node has room left
        and nobody binds any more.

        With `nodes_last` the nodes come once all pods wait, and both schedulers place theirs as fast as they can. Else
        the pods come one after the other, in turn, to nodes that are there. `more` are fields of pods' specs, by
        scheduler.
        """
        listed = await self._api.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods")
        bindings, full, more = Bindings(), asyncio.Event(), more or {}
        watch = asyncio.create_task(self._watch(listed["metadata"]["resourceVersion"], bindings, full))
        filled = asyncio.create_task(full.wait())
        nodes = [self._node(name, fields) for name, fields in self._nodes.items()]
        waiting = [
            pod(f"{name}-{number:03}", "1", namespace=NAMESPACE, schedulerName=name, **more.get(name, {}))
            for number in range(max(pods.values()))
            for name, count in pods.items()
            if number < count
        ]
        try:
            if nodes_last:
                await self._create(waiting)
                await self._all_rejected()
                began = time.monotonic()
                await self._create(nodes)
            else:
                await self._create(nodes)
                began = time.monotonic()
                await self._create(waiting)
            await asyncio.wait([watch, filled], timeout=_FULL_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            assert full.is_set(), f"the nodes were not full in time: {bindings} {watch}"
            bindings.seconds = time.monotonic() - began
            # Attempts that were under way may still end in a Binding.
            count = -1
            while count != bindings.by.total():
                count = bindings.by.total()
                await asyncio.sleep(1.0)
        finally:
            for task in (watch, filled):
                task.cancel()
            await asyncio.gather(watch, filled, return_exceptions=True)
        return bindings

    async def samples(self, name: str) -> dict[str, float]:
        """Our daemon's samples of a metric, by their labels as text."""
        async with self._session.get(self._metrics, ssl=False) as response:
            assert response.status == 200, await response.text()
            lines = (await response.text()).splitlines()
        parts = (line.rpartition(" ") for line in lines if line.startswith((f"{name}{{", f"{name} ")))
        return {sample.removeprefix(name): float(value) for sample, _, value in parts}

    @staticmethod
    def _node(name: str, more: Json) -> Json:
        return node(name, str(SLOTS), taints=tuple(more.get("taints", ())), **more.get("labels", {}))

    async def _all_rejected(self) -> None:
        async with asyncio.timeout(_FULL_SECONDS):
            while True:
                pods = await self._api.list_all("Pod", NAMESPACE)
                if all(item["status"].get("conditions") for item in pods):
                    return
                await asyncio.sleep(0.2)

    async def _create(self, items: Iterable[Json]) -> None:
        left = iter(items)

        async def worker() -> None:
            for item in left:
                await self._api.create(item)

        async with asyncio.TaskGroup() as group:
            for _ in range(_WORKERS):
                group.create_task(worker())

    async def _watch(self, version: str, bindings: Bindings, full: asyncio.Event) -> None:
        bound: set[str] = set()
        timeout = aiohttp.ClientTimeout(total=None)
        while True:
            path = f"{self._plane.api_server}/api/v1/namespaces/{NAMESPACE}/pods?watch=1&resourceVersion={version}"
            # The API server ends the watch of a client that reads too slowly.
            async with self._session.get(path, timeout=timeout) as response:
                async for line in response.content:
                    item: dict[str, Any] = json.loads(line)["object"]
                    version = item["metadata"]["resourceVersion"]
                    node_name, uid = item["spec"].get("nodeName"), item["metadata"]["uid"]
                    if node_name and uid not in bound:
                        bound.add(uid)
                        bindings.add(item["spec"]["schedulerName"], node_name)
                        if sum(count >= SLOTS for count in bindings.on_node.values()) == NODES:
                            full.set()


@contextlib.contextmanager
def contention_running(
    directory: Path, profile: Json | None = None, nodes: Mapping[str, Json] | None = None
) -> Iterator[tuple[Contention, asyncio.Runner]]:
    """Start everything, our daemon with the fields of a profile; the runner is where the coroutines belong."""
    with control_plane_running() as plane, asyncio.Runner() as runner:
        port = ports.allocate(["ours"], {})["ours"]
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(plane.layout.kubeconfig), "qps": 5000, "burst": 5000},
            "profiles": [{"schedulerName": OURS, **(profile or {})}],
        }
        flags = [
            f"--secure-port={port}",
            f"--bind-address={LOOPBACK}",
            "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
        ]

        async def open_stage() -> tuple[Contention, Api, aiohttp.ClientSession]:
            api = Api(plane)
            session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=plane.ssl_context()))
            stage = Contention(plane, api, session, port, nodes or {name: {} for name in NODE_NAMES})
            await stage.prepare()
            return stage, api, session

        stage, api, session = runner.run(open_stage())
        try:
            with daemon_running(directory, json.dumps(configuration), flags):
                yield stage, runner
        finally:
            runner.run(api.close())
            runner.run(session.close())
