"""One run: the pods are placed, a scheduler and who moves pods work for some rounds, and all is taken away again.

What becomes of the pods: evictions, where their replacements are, and how even the true load is.

In a run nobody but who is measured deletes pods: each that goes was evicted. The k-th pod that a controller makes is
taken for the replacement of its k-th pod that went.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import statistics
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.control_plane import require_alive
from benchmarks.harness.objects import apply, at_once
from benchmarks.harness.scenario import Json
from benchmarks.rebalancing import movers
from benchmarks.rebalancing.movers import DESCHEDULER, HIGH, OWN_NAMESPACE, Moving, Pair, RunSite
from benchmarks.rebalancing.placement import (
    BASE_CPU,
    BASE_MEMORY,
    LABEL,
    NAMESPACE,
    Guard,
    InitialPlacement,
    manifests,
)
from devcluster import ports, processes
from devcluster.load_generator import LoadClient
from devcluster.pod_loads import PodUses
from devcluster.processes import ProcessRecord, ServiceProcess
from devcluster.services.monitoring import CPU_RATIO
from scheduler.kube.client import ClientConfig, KubeClient, NotFound, Reflector, api_path, unchanged
from scheduler.kube.model import DecodeError, EventType, ObjectMeta, ResourceVersion, Unstructured, UnstructuredCodec

_PATIENCE_SECONDS = 180.0
_POLL_SECONDS = 0.25
_WRITERS = 8
_CLOSE_POINTS = 4.0
"""How near the measured load of every node must be to the true one before a run: its swing and some more."""
_PODS = api_path("v1", "pods", namespace=NAMESPACE)
_POD = f"{api_path('v1', 'pods', namespace=OWN_NAMESPACE)}/{DESCHEDULER}"


@dataclass
class RunResult:
    """What came of a run.

    Attributes:
        answers: how often the API server answered what to evictions, by code.
        guarded: evicted pods of the workloads that have to stay.
        balanced: in which round no pod was left that may leave an overloaded node, for the rest of the run, and after
            how many evictions; None if that was not reached.
        waiting: pods without a node in the end.
    """

    contestant: str
    before: LoadSpread
    after: LoadSpread
    evictions: list[ObservedEviction] = field(default_factory=list)
    came_back: int = 0
    answers: dict[int, int] = field(default_factory=dict)
    guarded: int = 0
    balanced: tuple[int, int] | None = None
    rounds: int = 0
    waiting: int = 0

    @property
    def again(self) -> int:
        """Evictions of pods that had come in place of others."""
        return sum(eviction.again for eviction in self.evictions)


@dataclass(frozen=True)
class Pace:
    """How long a run goes on: for so many rounds at most, and until nothing was evicted in so many."""

    rounds: int
    quiet: int


async def run(pair: Pair, placement: InitialPlacement, site: RunSite, pace: Pace) -> RunResult:
    """Run a pair on a cluster without workloads, and leave it so.

    Raises:
        RuntimeError: something has ended, or does not come.
    """
    config = ClientConfig.load(site.cluster.kubeconfig)
    async with KubeClient(config, qps=0, user_agent="benchmark", timeout=120) as client:
        this_run = _Run(pair, placement, site, client, pace)
        try:
            return await this_run.run()
        finally:
            await this_run.clear()


class _Run:
    def __init__(self, pair: Pair, placement: InitialPlacement, site: RunSite, client: KubeClient, pace: Pace) -> None:
        self._pair, self._placement, self._site, self._client = pair, placement, site, client
        self._pace = pace
        staying = {workload.name for workload in placement.workloads if workload.guard is not Guard.NONE}
        self._observer = EvictionObserver(placement.cores, placement.pods, HIGH, staying)
        self._started: list[ProcessRecord] = []

    async def run(self) -> RunResult:
        async with self._observing():
            await self._build()
            with self._scheduler():
                await self._until(self._measured, "the measured load of every node is the true one")
                return await self._compete()

    async def clear(self) -> None:
        """Take away all that was made."""
        processes.stop(self._started)
        for path in (
            f"{api_path('apps/v1', 'deployments', namespace=NAMESPACE)}",
            f"{api_path('policy/v1', 'poddisruptionbudgets', namespace=NAMESPACE)}",
            f"{api_path('apps/v1', 'deployments', namespace=OWN_NAMESPACE)}",
        ):
            await self._client.delete(path, {"propagationPolicy": "Background"})
        for path in (
            _POD,
            f"{api_path('v1', 'configmaps', namespace=OWN_NAMESPACE)}/{movers.REBALANCER}",
            f"{api_path('coordination.k8s.io/v1', 'leases', namespace=OWN_NAMESPACE)}/{movers.SCHEDULER}",
        ):
            with contextlib.suppress(NotFound):
                await self._client.delete(path, None)

        async def left() -> str:
            names = [
                item["metadata"]["name"]
                for namespace in (NAMESPACE, OWN_NAMESPACE)
                for item in await self._list(api_path("v1", "pods", namespace=namespace))
            ]
            return f"{len(names)} pods, such as {names[0]}" if names else ""

        await self._until(left, "all pods are gone")

    # Before -----------------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _observing(self) -> AsyncIterator[None]:
        reflector = Reflector(self._client, "/api/v1/pods", UnstructuredCodec(), self._observer, unchanged)
        task = asyncio.create_task(reflector.run())
        try:
            await reflector.synced.wait()
            yield
        finally:
            self._observer.end()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _build(self) -> None:
        for name in (NAMESPACE, OWN_NAMESPACE):
            await self._apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        loads = LoadClient(self._site.cluster.load_generator_url)
        for name in self._placement.cores:
            loads.change(name, {"cpu": BASE_CPU, "memory": BASE_MEMORY})
        # Whatever has no node selector stays off the nodes that are not simulated.
        for item in await self._list("/api/v1/nodes"):
            if item["metadata"]["name"] not in self._placement.cores:
                path = f"/api/v1/nodes/{item['metadata']['name']}"
                await self._client.patch(path, {"spec": {"unschedulable": True}})
        for workload in self._placement.workloads:
            for item in manifests(workload):
                await self._apply(item)
        await self._until(self._absent, "the controllers have made all pods")
        await self._place()
        await self._until(self._unready, "all pods are ready")

    async def _place(self) -> None:
        """Bind the pods to where they are in the beginning; no scheduler runs yet."""
        left = {name: list(nodes) for name, nodes in self._placement.node_names.items()}
        pods = sorted(await self._list(_PODS), key=lambda item: str(item["metadata"]["name"]))
        todo = [
            (item["metadata"]["name"], left[item["metadata"]["labels"][LABEL]].pop(0))
            for item in pods
            if not item["spec"].get("nodeName")
        ]
        await at_once((self._bind(name, node) for name, node in todo), _WRITERS)

    async def _bind(self, name: str, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        await self._client.post(f"{_PODS}/{name}/binding", body)

    @contextlib.contextmanager
    def _scheduler(self) -> Iterator[None]:
        port = ports.allocate(["scheduler"], {})["scheduler"]
        record = self._start(movers.scheduler(self._pair.placing, self._site, port))
        yield
        processes.stop([record])

    # While it runs ----------------------------------------------------------------------------------------------------

    async def _compete(self) -> RunResult:
        observer, interval = self._observer, movers.INTERVAL_SECONDS
        audit = EvictionAudit(self._site.cluster.audit_log)
        observer.begin()
        result = RunResult(str(self._pair), observer.spread(), observer.spread())
        began = time.monotonic()
        await self._begin_moving()
        for number in range(1, self._pace.rounds + 1):
            result.rounds = number
            await asyncio.sleep(max(0.0, began + number * interval - time.monotonic()))
            await self._require_alive()
            last = observer.evictions[-1].at if observer.evictions else began
            if time.monotonic() - last > self._pace.quiet * interval:
                break
        # What was evicted last is placed before it is counted.
        with contextlib.suppress(RuntimeError):
            await self._until(self._unplaced, "all pods have a node", interval)
        observer.end()
        guards = {workload.name: workload.guard for workload in self._placement.workloads}
        result.after, result.waiting = observer.spread(), observer.waiting
        result.evictions, result.came_back = list(observer.evictions), observer.came_back()
        result.answers = audit.evictions()
        result.guarded = sum(guards[eviction.workload] is not Guard.NONE for eviction in result.evictions)
        if observer.balanced_since is not None:
            at, evictions = observer.balanced_since
            result.balanced = max(0, math.ceil((at - began) / interval)), evictions
        return result

    async def _begin_moving(self) -> None:
        moving, prometheus = self._pair.moving, self._site.prometheus
        if moving is Moving.OURS:
            text = movers.configuration(self._pair.placing, self._site)
            for item in movers.stand_in(next(iter(self._placement.cores)), text):
                await self._apply(item)
            self._start(movers.rebalancer(self._site))
        elif moving is not Moving.NOTHING:
            for item in movers.descheduler(self._site.real_node, moving, prometheus):
                await self._apply(item)
            await self._until(self._not_running, "the descheduler runs")

    async def _require_alive(self) -> None:
        for record in self._started:
            require_alive(record)
        if self._pair.moving in (Moving.REQUESTS, Moving.PROMETHEUS) and (problem := await self._not_running()):
            raise RuntimeError(problem)

    # Conditions -------------------------------------------------------------------------------------------------------

    async def _until(
        self, missing: Callable[[], Awaitable[str]], condition: str, seconds: float = _PATIENCE_SECONDS
    ) -> None:
        """Wait until nothing is missing. Raises RuntimeError when that takes too long."""
        deadline = time.monotonic() + seconds
        while lacking := await missing():
            if time.monotonic() > deadline:
                raise RuntimeError(f"gave up waiting until {condition}: {lacking}")
            await asyncio.sleep(_POLL_SECONDS)

    async def _absent(self) -> str:
        pods = self._observer.pods
        return f"{pods} of {self._placement.pods} pods are there" if pods != self._placement.pods else ""

    async def _unplaced(self) -> str:
        return "" if self._observer.placed else "some are on their way"

    async def _unready(self) -> str:
        path = api_path("apps/v1", "deployments", namespace=NAMESPACE)
        for item in await self._list(path):
            ready, replicas = item["status"].get("readyReplicas", 0), item["spec"]["replicas"]
            if ready != replicas:
                return f"{item['metadata']['name']} has {ready} of {replicas}"
        return ""

    async def _measured(self) -> str:
        """Return which node's measured load is not the true one."""
        query = f"avg_over_time({CPU_RATIO}[{movers.WINDOW_SECONDS}s])"
        ratios = await asyncio.to_thread(self._site.cluster.query_prometheus, query)
        measured = {name: 100.0 * ratio for name, ratio in ratios.items()}
        for name, load in self._observer.loads().items():
            if abs(measured.get(name, math.inf) - load) > _CLOSE_POINTS:
                return f"{name} has {load:.0f} %, and {measured.get(name, math.nan):.0f} % are measured"
        return ""

    async def _not_running(self) -> str:
        status = json.loads(await self._client.get(_POD))["status"]
        if status.get("phase") == "Running":
            return ""
        log = ""
        with contextlib.suppress(Exception):  # there is none yet
            log = (await self._client.get(f"{_POD}/log", {"tailLines": "5"})).decode(errors="replace")
        return f"the descheduler is {status.get('phase')}: {log or status}"

    # Requests ---------------------------------------------------------------------------------------------------------

    def _start(self, service: ServiceProcess) -> ProcessRecord:
        record = processes.start(service, self._site.cluster.state_dir)
        self._started.append(record)
        processes.wait_ready(service, record)
        return record

    async def _apply(self, item: Json) -> None:
        await apply(self._client, item, "benchmark")

    async def _list(self, path: str) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads(await self._client.get(path))["items"]
        return items


class EvictionAudit:
    """What the API server has answered to evictions, from now on."""

    def __init__(self, path: Path) -> None:
        self._path, self._begin = path, path.stat().st_size

    def evictions(self) -> dict[int, int]:
        """How often which code."""
        codes: dict[int, int] = {}
        for event in self._events():
            reference = event.get("objectRef") or {}
            if event.get("verb") == "create" and reference.get("subresource") == "eviction":
                code = int((event.get("responseStatus") or {}).get("code") or 0)
                codes[code] = codes.get(code, 0) + 1
        return codes

    def _events(self) -> Iterable[Mapping[str, Any]]:
        with self._path.open("rb") as file:
            # A log that was started again is read from its beginning.
            file.seek(self._begin if self._path.stat().st_size >= self._begin else 0)
            for line in file:
                with contextlib.suppress(ValueError):  # the last line may not be complete
                    yield json.loads(line)


@dataclass(frozen=True)
class ObservedEviction:
    """A pod that went.

    Attributes:
        at: on the monotonic clock.
        again: it was itself made in place of another.
    """

    pod: str
    workload: str
    node: str
    at: float
    again: bool


@dataclass(frozen=True)
class LoadSpread:
    """How even the true CPU load of the nodes is, in per cent."""

    stddev: float
    largest: float
    overloaded: int


class EvictionObserver:
    """Receives all pods from a Reflector (a Sink).

    Args:
        cores: of each node.
        expected: how many pods the workloads have.
        limit: per cent above which a node is overloaded.
        staying: workloads whose pods have to stay where they are.
    """

    def __init__(
        self, cores: Mapping[str, int], expected: int, limit: float, staying: Collection[str] = frozenset()
    ) -> None:
        self._cores, self._expected, self._limit, self._staying = cores, expected, limit, staying
        self._uses = PodUses()
        self._live: dict[str, str] = {}
        self._workload_of: dict[str, str] = {}
        self._leaving: set[str] = set()
        self._first: frozenset[str] | None = None
        self._node_of: dict[str, str] = {}
        self._made: defaultdict[str, list[str]] = defaultdict(list)
        self.evictions: list[ObservedEviction] = []
        self.balanced_since: tuple[float, int] | None = None
        """Since when no pod may leave an overloaded node any more and all have a node, and after how many evictions."""

    def begin(self) -> None:
        """From now on, a pod that goes was evicted."""
        self._first = frozenset(self._live)
        self._note_balance()

    def end(self) -> None:
        """From now on, a pod that goes is of no interest."""
        self._first = None

    @property
    def placed(self) -> bool:
        """Whether all pods are there, have nodes, and none is going."""
        live = [uid for uid in self._live if uid not in self._leaving]
        return len(live) == self._expected == len(self._live) and all(uid in self._node_of for uid in live)

    @property
    def pods(self) -> int:
        """How many there are."""
        return len(self._live)

    @property
    def waiting(self) -> int:
        """How many have no node."""
        return sum(uid not in self._node_of for uid in self._live)

    def loads(self) -> dict[str, float]:
        """The true CPU load of each node in per cent."""
        uses = self._uses.by_node()
        return {
            name: 100.0 * min(1.0, BASE_CPU + (uses[name].cpu / cores if name in uses else 0.0))
            for name, cores in self._cores.items()
        }

    def spread(self) -> LoadSpread:
        """How even they are."""
        loads = list(self.loads().values())
        return LoadSpread(statistics.pstdev(loads), max(loads), sum(load > self._limit for load in loads))

    def came_back(self) -> int:
        """How many evictions ended where they began: the replacement is on the same node."""
        uids_of = {workload: list(uids) for workload, uids in self._made.items()}
        count = 0
        for eviction in self.evictions:
            replacements = uids_of.get(eviction.workload)
            if replacements:
                count += self._node_of.get(replacements.pop(0)) == eviction.node
        return count

    def replace(self, items: Sequence[Unstructured], resource_version: ResourceVersion) -> None:
        """See Sink."""
        self._uses.replace(items, resource_version)
        for uid in self._live.keys() - {item.metadata.uid for item in items}:
            self._gone(uid, self._live[uid])
        for item in items:
            self._show(item)
        self._note_balance()

    def apply(self, events: Sequence[tuple[EventType, Unstructured]]) -> None:
        """See Sink."""
        self._uses.apply(events)
        for kind, item in events:
            if item.metadata.namespace != NAMESPACE:
                continue
            if kind is EventType.DELETED:
                self._gone(item.metadata.uid, item.metadata.name)
            else:
                self._show(item)
        self._note_balance()

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """See Sink."""
        raise RuntimeError(f"pod {metadata.key} of the benchmark cannot be read: {error}")

    def _show(self, item: Unstructured) -> None:
        if item.metadata.namespace != NAMESPACE:
            return
        uid = item.metadata.uid
        if uid not in self._live:
            self._live[uid] = item.metadata.name
            self._workload_of[uid] = item.content["metadata"]["labels"][LABEL]
            if self._first is not None:
                self._made[self._workload_of[uid]].append(uid)
        if node := item.content["spec"].get("nodeName"):
            self._node_of[uid] = node
        if item.content["metadata"].get("deletionTimestamp"):
            self._leave(uid, item.metadata.name)

    def _gone(self, uid: str, name: str) -> None:
        self._leave(uid, name)
        self._live.pop(uid, None)
        self._leaving.discard(uid)

    def _leave(self, uid: str, name: str) -> None:
        if uid in self._leaving or uid not in self._live:
            return
        self._leaving.add(uid)
        if self._first is not None:
            workload, node = self._workload_of[uid], self._node_of.get(uid, "")
            self.evictions.append(ObservedEviction(name, workload, node, time.monotonic(), uid not in self._first))

    def _has_more_to_do(self) -> bool:
        """Whether a pod may leave an overloaded node."""
        overloaded = {name for name, load in self.loads().items() if load > self._limit}
        return any(
            self._node_of.get(uid) in overloaded and self._workload_of[uid] not in self._staying for uid in self._live
        )

    def _note_balance(self) -> None:
        if self._first is None:
            return
        if not self.placed or self._has_more_to_do():
            self.balanced_since = None
        elif self.balanced_since is None:
            self.balanced_since = (time.monotonic(), len(self.evictions))
