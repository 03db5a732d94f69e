"""Rounds: all contestants in turn on one API server and etcd, each with the same backlog and the same arrivals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import aiohttp

from benchmarks.race import cluster as servers, contestants, watcher
from benchmarks.race.cluster import RaceCluster
from benchmarks.race.contestants import NULL, OURS, PEER, Contestant
from benchmarks.race.kept import KeptCluster
from benchmarks.race.observe import Observer
from benchmarks.race.report import ContestantRun, Round, curve, drain_rate, percentile, spread
from benchmarks.race.scenario import Arrivals, Churn, CreatePods, Json, Operation, Scenario, Workload, resolved
from benchmarks.race.watcher import cpu_seconds, peak_memory, stolen_seconds
from benchmarks.race.world import World
from devcluster import processes
from devcluster.ports import LOOPBACK
from scheduler.kube.client import KubeClient
from scheduler.kube.primitives import quantity_milli_value

_BATCH_ATTEMPTS = re.compile(r'^scheduler_batch_attempts_total\{.*result="(\w+)".*\} (\S+)$', re.MULTILINE)
_SETTLE_SECONDS = 1.0
_QUIET_SECONDS = 4.0
"""Events have ended when none came for so long."""
_EVENT_SECONDS = 60.0
_FIRST_SECONDS = 120.0
_PROBE_EVERY = 0.1
"""A hundred times as often as a kubelet asks; more would measure the asking."""


def race(
    scenario: Scenario,
    workload: Workload,
    numbers: Sequence[int],
    binaries: dict[str, Path],
    key: str,
    kept: KeptCluster,
) -> list[Round]:
    """Run the rounds with these numbers of a workload with all contestants, all on one new cluster or the one that was
    kept; `key` identifies its settings for --resume.

    Raises:
        RuntimeError: a server or a contestant has exited; the message ends with its log.
    """
    load_before, stolen = os.getloadavg()[0], stolen_seconds()
    with servers.running(binaries, kept.data) as cluster:
        stage = _Round(scenario, workload, cluster, binaries, kept=kept)
        results = asyncio.run(stage.run(numbers[0], len(numbers)))
    return [
        Round(
            number=number,
            key=key,
            load_before=round(load_before, 2),
            stolen_seconds=round(stolen_seconds() - stolen, 2),
            runs=runs,
        )
        for number, runs in zip(numbers, results, strict=True)
    ]


def race_checkouts(
    scenario: Scenario,
    workload: Workload,
    rounds: int,
    binaries: dict[str, Path],
    others: dict[str, Path],
    kept: KeptCluster,
) -> list[dict[str, ContestantRun]]:
    """Run ours and those of other checkouts by their names, alternately, all rounds on one new cluster or the one that
    was kept.

    Raises:
        RuntimeError: a server or a contestant has exited; the message ends with its log.
    """
    roots = {**others, OURS: contestants.ROOT}
    with servers.running(binaries, kept.data) as cluster:
        stage = _Round(scenario, workload, cluster, binaries, roots, kept=kept)
        return asyncio.run(stage.run(1, rounds))


class _Round:
    def __init__(
        self,
        scenario: Scenario,
        workload: Workload,
        cluster: RaceCluster,
        binaries: dict[str, Path],
        roots: dict[str, Path] | None = None,
        *,
        kept: KeptCluster,
    ) -> None:
        self._kept = kept
        self._scenario, self._workload = scenario, workload
        self._roots = roots or dict.fromkeys((NULL, PEER, OURS), contestants.ROOT)
        self._cluster, self._binaries = cluster, binaries
        self._operations: list[Operation] = resolved(scenario, workload)
        self._backlog = next(
            operation for operation in self._operations if isinstance(operation, CreatePods) and operation.measured
        )
        self._watcher = ""

    async def run(self, number: int, rounds: int = 1) -> list[dict[str, ContestantRun]]:
        # Nobody is always the first on fresh servers; in a single round the ceiling is, which warms them up.
        roles = list(self._roots)
        orders = [
            roles[shift:] + roles[:shift] for shift in ((number - 1 + each) % len(roles) for each in range(rounds))
        ]
        config = self._cluster.client_config()
        async with KubeClient(config, qps=0, user_agent="race", timeout=300) as client:
            self._world = World(client, self._scenario, self._workload.params, self._operations)
            self._seen = Observer(client)
            await self._kept.fill(self._world, self._cluster)
            _log(f"{len(self._world.nodes)} nodes are there, filled")
            self._measured_loads = watcher.loads(self._world.nodes) if self._scenario.watcher else {}
            async with contextlib.AsyncExitStack() as stack:
                if self._scenario.watcher:
                    self._watcher = stack.enter_context(watcher.serving(self._measured_loads))
                await stack.enter_async_context(self._seen.watch())
                if warm := self._workload.params.get("warmup", 0):
                    for role in orders[0]:
                        await self._warm_up(role, warm)
                return [{role: await self._contest(role) for role in order} for order in orders]

    async def _warm_up(self, role: str, pods: int) -> None:
        """Programs into the page cache, servers to their speed; nothing is measured."""
        tag = f"warm-{role}"
        await self._world.refill(tag)
        names = await self._world.backlog(self._backlog, tag, pods)
        contestant = self._start(role)
        try:
            await self._wait_until_bound(contestant, names, _FIRST_SECONDS)
        finally:
            contestants.stop(contestant)
        await self._clear()

    async def _contest(self, role: str) -> ContestantRun:
        self._cluster.require_alive()
        await self._world.refill(role)
        names = await self._world.backlog(self._backlog, role, int(self._backlog.count))
        await asyncio.sleep(_SETTLE_SECONDS)
        self._seen.reset()
        async with contextlib.AsyncExitStack() as stack:
            started = time.monotonic()
            contestant = self._start(role)
            stack.callback(contestants.stop, contestant)
            probe = await stack.enter_async_context(liveness(contestant, self._scenario.probe_liveness))
            for churn in (operation for operation in self._operations if isinstance(operation, Churn)):
                task = asyncio.create_task(self._world.churn(churn, role))
                stack.callback(task.cancel)
            figures = await self._drain(contestant, names, started)
            times = [self._seen.bound[name] for name in names if name in self._seen.bound]
            if not any(isinstance(operation, CreatePods) and operation.every_round for operation in self._operations):
                # Where pods make room for others, the load says nothing about the choice of nodes.
                figures |= self._quality(names)
            if probe:
                figures |= {"livez_p99": 1000 * percentile(probe, 0.99), "livez_max": 1000 * max(probe)}
            if role != NULL:
                figures |= await self._steady(contestant)
            if role == PEER:
                figures |= await batching(contestant)
            figures["rss"] = peak_memory(contestant.process.pid) / 2**20
        await self._clear()
        return ContestantRun(figures=figures, curve=curve(times, started))

    async def _drain(self, contestant: Contestant, names: list[str], started: float) -> dict[str, float]:
        """The backlog, until the last event is written too."""
        pids = (contestant.process.pid, self._cluster.api_server.pid, self._cluster.etcd.pid)
        seen = self._seen
        makes_room = any(isinstance(operation, CreatePods) and operation.every_round for operation in self._operations)
        # From the first binding on: starting is a figure of its own. Where others have to go first, from the first word
        # about them: most of the work may lie before the first binding.
        if not await self._wait_for(
            contestant, lambda: len(seen.bound) > 0 or (makes_room and seen.first_event_at is not None), _FIRST_SECONDS
        ):
            log = processes.last_lines(contestant.process.log)
            raise RuntimeError(f"{contestant.role} bound no pod in {_FIRST_SECONDS:.0f} s: {log}")
        began = time.monotonic()
        bound_before, used_before = len(seen.bound), [cpu_seconds(pid) for pid in pids]
        await self._wait_until_bound(contestant, names, self._workload.timeout_seconds)
        _log(f"{contestant.role}: {len(seen.bound)} pods bound {time.monotonic() - started:.1f} s after its start")
        await self._wait_until_quiet(names)
        used = [after - before for after, before in zip(map(cpu_seconds, pids), used_before, strict=True)]
        times = {name: seen.bound[name] for name in names if name in seen.bound}
        written = {name: seen.events[name] for name in times if name in seen.events}
        first, last = min(times.values()), max([*times.values(), *written.values()])
        origin = began if makes_room else first
        counted = max(len(times) - bound_before, 1)
        per_pod = [1000 * seconds / counted for seconds in used]
        return {
            "bound": len(times),
            "events": len(written),
            "start_to_first_bind": first - started,
            "start_cpu": used_before[0],
            "drain_rate": len(times) / (max(times.values()) - began) if makes_room else drain_rate(times.values()),
            "sustained_rate": len(times) / (last - origin) if last > origin else 0.0,
            "event_age_max": max((at - times[name] for name, at in written.items()), default=0.0),
            "cpu_per_pod": per_pod[0],
            "api_cpu_per_pod": per_pod[1],
            "etcd_cpu_per_pod": per_pod[2],
        }

    async def _steady(self, contestant: Contestant) -> dict[str, float]:
        """The time from creation to binding while pods arrive at a rate that both can carry."""
        arrivals = next((operation for operation in self._operations if isinstance(operation, Arrivals)), None)
        if arrivals is None:
            return {}
        tag = f"steady-{contestant.role}"
        names = await self._world.arrive(arrivals.template, tag, float(arrivals.rate), float(arrivals.seconds))
        await self._wait_until_bound(contestant, names, _FIRST_SECONDS)
        seen = self._seen
        # What was never bound took at least until now.
        now = time.monotonic()
        waits = [seen.bound.get(name, now) - seen.created[name] for name in names if name in seen.created]
        return {"latency_p50": 1000 * percentile(waits, 0.5), "latency_p99": 1000 * percentile(waits, 0.99)}

    def _quality(self, names: list[str]) -> dict[str, float]:
        """How evenly the nodes are loaded: measured load, if any, and the CPU that all pods on a node ask for."""
        nodes = self._world.nodes
        requested: Counter[str] = Counter()
        for operation in self._operations:
            if isinstance(operation, CreatePods) and operation.placed:
                millis = _cpu_request(self._scenario.templates[operation.template])
                for index in range(int(operation.count)):
                    requested[nodes[index % len(nodes)]] += millis
        millis = _cpu_request(self._scenario.templates[self._backlog.template])
        for name in names:
            if name in self._seen.node:
                requested[self._seen.node[name]] += millis
        loads = [
            self._measured_loads.get(node, 0.0)
            + 100 * requested[node] / quantity_milli_value(self._world.allocatable[node].get("cpu", "1"))
            for node in nodes
        ]
        deviation, most = spread(loads)
        return {"load_stddev": deviation, "load_max": most}

    def _start(self, role: str) -> Contestant:
        known_as = role if role in (NULL, PEER) else OURS
        root = self._roots[role]
        params = self._workload.params
        return contestants.start(known_as, self._scenario, self._cluster, self._binaries, self._watcher, root, params)

    async def _wait_until_bound(self, contestant: Contestant, names: list[str], seconds: float) -> bool:
        wanted, bound = set(names), self._seen.bound
        return await self._wait_for(contestant, lambda: wanted <= bound.keys(), seconds)

    async def _wait_for(self, contestant: Contestant, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait for a condition on what is seen while contestant and servers live; returns whether it came true."""
        deadline = time.monotonic() + seconds
        while not await self._seen.wait_for(condition, min(2.0, deadline - time.monotonic())):
            contestants.require_alive(contestant)
            self._cluster.require_alive()
            if time.monotonic() >= deadline:
                return False
        return True

    async def _wait_until_quiet(self, names: list[str]) -> None:
        seen, end = self._seen, time.monotonic() + _EVENT_SECONDS
        wanted = {name for name in names if name in seen.bound}
        while time.monotonic() < end:
            before = len(seen.events)
            if await seen.wait_for(lambda: wanted <= seen.events.keys(), _QUIET_SECONDS) or len(seen.events) == before:
                return

    async def _clear(self) -> None:
        await self._world.clear()
        seen = self._seen
        if not await seen.wait_for(lambda: not seen.present, 120):
            raise RuntimeError(f"{len(seen.present)} pods of the race are still there 120 s after their deletion")
        seen.reset()


def _log(text: str) -> None:
    print(f"  {time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def _cpu_request(template: Json) -> int:
    containers = template.get("spec", {}).get("containers", ())
    return sum(
        quantity_milli_value(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
        for container in containers
    )


async def batching(contestant: Contestant) -> dict[str, float]:
    """How many attempts of the peer took the node that an earlier one for an equal pod had left over, and how many
    could not; nothing for a kube-scheduler without batching, which came with 1.35."""
    url = f"https://{LOOPBACK}:{contestant.port}/metrics"
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=servers.unchecked_tls())) as session,
        session.get(url) as answer,
    ):
        text = await answer.text() if answer.status == 200 else ""
    attempts = dict.fromkeys(("hint_used", "hint_not_used"), 0.0)
    matches = _BATCH_ATTEMPTS.findall(text)
    for result, count in matches:
        if result in attempts:
            attempts[result] += float(count)
    if not matches:
        return {}
    return {"hints_used": attempts["hint_used"], "hints_not_used": attempts["hint_not_used"]}


@contextlib.asynccontextmanager
async def liveness(contestant: Contestant, wanted: bool) -> AsyncIterator[list[float]]:
    """Ask /livez all the time, from its first answer on; yields the seconds that each answer took."""
    latencies: list[float] = []
    if not wanted or not contestant.port:
        yield latencies
        return

    async def ask() -> None:
        url = f"https://{LOOPBACK}:{contestant.port}/livez"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=servers.unchecked_tls())) as session:
            while True:
                began = time.monotonic()
                try:
                    async with session.get(url) as answer:
                        await answer.read()
                        if answer.status == 200:
                            latencies.append(time.monotonic() - began)
                except aiohttp.ClientConnectionError:
                    # Not serving yet; a process that has ended is noticed elsewhere.
                    await asyncio.sleep(_PROBE_EVERY)
                await asyncio.sleep(_PROBE_EVERY)

    task = asyncio.create_task(ask())
    try:
        yield latencies
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
