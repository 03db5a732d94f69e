"""Rounds: all contestants in turn on one API server and etcd, each with the same backlog and the same arrivals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.contestants import (
    FIRST_SECONDS,
    NULL,
    OURS,
    PEER,
    ROOT,
    Contestant,
    Probe,
    cpu_seconds,
    peak_memory,
    stolen_seconds,
)
from benchmarks.harness.figures import log, order_of, percentile
from benchmarks.harness.filled import FilledCluster, SavedCluster, filled
from benchmarks.harness.scenario import Arrivals, Churn, CreatePods, Json, Scenario, Workload
from benchmarks.race.report import ContestantRun, RaceRound, curve, drain_rate, spread
from scheduler.kube.primitives import quantity_milli_value

_BATCH_ATTEMPTS = re.compile(r'^scheduler_batch_attempts_total\{.*result="(\w+)".*\} (\S+)$', re.MULTILINE)
_SETTLE_SECONDS = 1.0
_QUIET_SECONDS = 4.0
"""Events have ended when none came for so long."""
_EVENT_SECONDS = 60.0
PROBE_EVERY = 0.1
"""A hundred times as often as a kubelet asks; more would measure the asking."""


def race(
    scenario: Scenario,
    workload: Workload,
    numbers: Sequence[int],
    paths: dict[str, Path],
    key: str,
    saved: SavedCluster,
) -> list[RaceRound]:
    """Run the rounds with these numbers of a workload with all contestants, all on one new cluster or the one that was
    saved; `key` identifies its settings for --resume.

    Raises:
        RuntimeError: a server or a contestant has exited; the message ends with its log.
    """
    load_before, stolen = os.getloadavg()[0], stolen_seconds()
    roots = dict.fromkeys((NULL, PEER, OURS), ROOT)
    results = asyncio.run(_run(scenario, workload, numbers, paths, roots, saved))
    return [
        RaceRound(
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
    paths: dict[str, Path],
    roots: dict[str, Path],
    saved: SavedCluster,
) -> list[dict[str, ContestantRun]]:
    """Run ours and those of other checkouts by their names, alternately, all rounds on one new cluster or the one that
    was saved.

    Raises:
        RuntimeError: a server or a contestant has exited; the message ends with its log.
    """
    return asyncio.run(_run(scenario, workload, range(1, rounds + 1), paths, roots, saved))


async def _run(
    scenario: Scenario,
    workload: Workload,
    numbers: Sequence[int],
    paths: dict[str, Path],
    roots: dict[str, Path],
    saved: SavedCluster,
) -> list[dict[str, ContestantRun]]:
    async with filled(scenario, workload, paths, saved) as cluster:
        log(f"{len(cluster.objects.nodes)} nodes are there, filled")
        contests = _Contests(cluster, roots)
        if warm := workload.params.get("warmup", 0):
            for role in order_of(roots, numbers[0]):
                await contests.warm_up(role, warm)
        return [{role: await contests.run(role) for role in order_of(roots, number)} for number in numbers]


class _Contests:
    """What each contestant goes through on a cluster."""

    def __init__(self, cluster: FilledCluster, roots: dict[str, Path]) -> None:
        self._cluster, self._roots = cluster, roots
        self._objects, self._seen = cluster.objects, cluster.seen
        self._operations, self._backlog = cluster.operations, cluster.backlog

    async def warm_up(self, role: str, pods: int) -> None:
        """Programs into the page cache, servers to their speed; nothing is measured."""
        tag = f"warm-{role}"
        await self._objects.refill(tag)
        names = await self._objects.backlog(self._backlog, tag, pods)
        with self._cluster.contestant(role, self._roots[role]) as contestant:
            await contestant.wait_until_bound(self._seen, names, FIRST_SECONDS)
        await self._cluster.clear()

    async def run(self, role: str) -> ContestantRun:
        """One contestant's turn: the backlog, then steady arrivals."""
        self._cluster.cluster.require_alive()
        await self._objects.refill(role)
        names = await self._objects.backlog(self._backlog, role, int(self._backlog.count))
        await asyncio.sleep(_SETTLE_SECONDS)
        self._seen.reset()
        started = time.monotonic()
        async with contextlib.AsyncExitStack() as stack:
            contestant = stack.enter_context(self._cluster.contestant(role, self._roots[role]))
            probes = None
            if self._cluster.scenario.probe_liveness:
                probes = await stack.enter_async_context(contestant.probing(PROBE_EVERY))
            for churn in (operation for operation in self._operations if isinstance(operation, Churn)):
                task = asyncio.create_task(self._objects.churn(churn, role))
                stack.callback(task.cancel)
            figures = await self._drain(contestant, names, started)
            times = [self._seen.bound[name] for name in names if name in self._seen.bound]
            if not self._cluster.makes_room:
                # Where pods make room for others, the load says nothing about the choice of nodes.
                figures |= self._quality(names)
            figures |= liveness(probes or ())
            if role != NULL:
                figures |= await self._steady(contestant)
            if role == PEER:
                figures |= await batching(contestant)
            figures["rss"] = peak_memory(contestant.process.pid) / 2**20
        await self._cluster.clear()
        return ContestantRun(figures=figures, curve=curve(times, started))

    async def _drain(self, contestant: Contestant, names: list[str], started: float) -> dict[str, float]:
        """The backlog, until the last event is written too."""
        servers, seen, makes_room = contestant.cluster, self._seen, self._cluster.makes_room
        pids = (contestant.process.pid, servers.api_server.pid, servers.etcd.pid)
        # From the first binding on: starting is a figure of its own. Where others have to go first, from the first word
        # about them: most of the work may lie before the first binding.
        await contestant.wait_for_first_binding(
            seen, lambda: bool(seen.bound) or (makes_room and seen.first_event_at is not None)
        )
        began = time.monotonic()
        bound_before, used_before = len(seen.bound), [cpu_seconds(pid) for pid in pids]
        await contestant.wait_until_bound(seen, names, self._cluster.workload.timeout_seconds)
        log(f"{contestant.role}: {len(seen.bound)} pods bound {time.monotonic() - started:.1f} s after its start")
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
        names = await self._objects.arrive(arrivals.template, tag, float(arrivals.rate), float(arrivals.seconds))
        await contestant.wait_until_bound(self._seen, names, FIRST_SECONDS)
        seen = self._seen
        # What was never bound took at least until now.
        now = time.monotonic()
        waits = [seen.bound.get(name, now) - seen.created[name] for name in names if name in seen.created]
        return {"latency_p50": 1000 * percentile(waits, 0.5), "latency_p99": 1000 * percentile(waits, 0.99)}

    def _quality(self, names: list[str]) -> dict[str, float]:
        """How evenly the nodes are loaded: measured load, if any, and the CPU that all pods on a node ask for."""
        nodes = self._objects.nodes
        requested: Counter[str] = Counter()
        for operation in self._operations:
            if isinstance(operation, CreatePods) and operation.placed:
                millis = _cpu_request(self._cluster.scenario.templates[operation.template])
                for index in range(int(operation.count)):
                    requested[nodes[index % len(nodes)]] += millis
        millis = _cpu_request(self._cluster.scenario.templates[self._backlog.template])
        for name in names:
            if name in self._seen.node:
                requested[self._seen.node[name]] += millis
        loads = [
            self._cluster.cpu_loads.get(node, 0.0)
            + 100 * requested[node] / quantity_milli_value(self._objects.allocatable[node].get("cpu", "1"))
            for node in nodes
        ]
        deviation, most = spread(loads)
        return {"load_stddev": deviation, "load_max": most}

    async def _wait_until_quiet(self, names: list[str]) -> None:
        seen, end = self._seen, time.monotonic() + _EVENT_SECONDS
        bound_names = {name for name in names if name in seen.bound}
        while time.monotonic() < end:
            before = len(seen.events)
            if (
                await seen.wait_for(lambda: bound_names <= seen.events.keys(), _QUIET_SECONDS)
                or len(seen.events) == before
            ):
                return


def _cpu_request(template: Json) -> int:
    containers = template.get("spec", {}).get("containers", ())
    return sum(
        quantity_milli_value(container.get("resources", {}).get("requests", {}).get("cpu", "0"))
        for container in containers
    )


def liveness(probes: Sequence[Probe]) -> dict[str, float]:
    """How long good answers of /livez took; nothing where there was none."""
    latencies = [1000 * probe.seconds for probe in probes if probe.seconds is not None]
    return {"livez_p99": percentile(latencies, 0.99), "livez_max": max(latencies)} if latencies else {}


async def batching(contestant: Contestant) -> dict[str, float]:
    """How many attempts of the peer took the node that an earlier one for an equal pod had left over, and how many
    could not; nothing for a kube-scheduler without batching, which came with 1.35."""
    matches = _BATCH_ATTEMPTS.findall(await contestant.metrics())
    counts = {"hint_used": 0.0, "hint_not_used": 0.0}
    for result, count in matches:
        if result in counts:
            counts[result] += float(count)
    return {"hints_used": counts["hint_used"], "hints_not_used": counts["hint_not_used"]} if matches else {}
