"""`python -m benchmarks soak`: the largest cluster that Kubernetes supports, on which pods are replaced all the time.

150,000 pods of 1,500 deployments run on 5,000 nodes. Each minute one in a hundred of them is deleted and another one of
its deployment created, evenly over the minute; our scheduler places it, and its kubelet's part is played: its status
says that it runs. Per minute: the
time from a pod's creation to its binding, both seen by the same watch, and the scheduler's memory, descriptors and
processor time. At the end: straight lines through the minutes after `--warm-up`, with the 95 % interval of their
slopes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import statistics
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.endurance import Sample, thinned
from benchmarks.harness import control_plane
from benchmarks.harness.contestants import FIRST_SECONDS, OURS, Contestant, cpu_seconds, sizes
from benchmarks.harness.figures import log, percentile
from benchmarks.harness.filled import FilledCluster, SavedCluster, add_option, filled
from benchmarks.harness.objects import pod_template
from benchmarks.harness.scenario import CreatePods, Render, Scenario, Workload, load

SCENARIO = "LargeCluster"
_MINUTE = 60.0
_SEED = 1
_TEMPLATE = "running"
_T95 = 2.0
"""Student's t for 95 % and some fifty minutes."""
EXIT_GROWS = 3
FIGURES = {
    "rss": "MiB",
    "descriptors": "",
    "p50": "ms from creation to binding",
    "p99": "ms from creation to binding",
    "cpu": "ms of processor time per pod",
    "api_cpu": "ms of the API server's per pod",
}
NONE = {"rss": 10.0, "p99": 10.0}
"""A growth per hour below this is taken for none, whatever its interval."""


class Slope(NamedTuple):
    """Growth per hour by least squares, and half of its 95 % interval."""

    per_hour: float
    half: float


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=150_000, help="running pods")
    parser.add_argument("--share", type=float, default=0.01, help="of the pods that is replaced per minute")
    parser.add_argument("--minutes", type=int, default=60)
    parser.add_argument("--warm-up", type=int, default=15, metavar="MINUTES", help="that the slopes leave out")
    add_option(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code, 3 when memory or latency grows."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.minutes - options.warm_up < 3:
        parser.error("--minutes: at least three more than --warm-up")
    scenario = load()[SCENARIO]
    params = {"nodes": options.nodes, "init": options.pods, "pods": 0, "rate": 0, "seconds": 0}
    workload = Workload(name="soak", params=params)
    paths = control_plane.executables()
    saved = SavedCluster.of(options.cluster, scenario, workload, paths)
    per_minute = max(1, round(options.pods * options.share))
    samples = asyncio.run(_run(scenario, workload, paths, saved, per_minute, options.minutes))
    slopes = {name: slope([sample[name] for sample in samples[options.warm_up :]]) for name in FIGURES}
    if options.json:
        print(
            json.dumps({"samples": samples, "slopes_per_hour": {k: s._asdict() for k, s in slopes.items()}}, indent=1)
        )
    else:
        print(_table(samples, slopes))
    return EXIT_GROWS if any(grows(slopes[name], none) for name, none in NONE.items()) else 0


def slope(values: Sequence[float]) -> Slope:
    """The line through values of successive minutes."""
    minutes = range(len(values))
    line, middle = statistics.linear_regression(minutes, values), statistics.mean(minutes)
    rest = sum((value - line.intercept - line.slope * minute) ** 2 for minute, value in enumerate(values))
    error = math.sqrt(rest / (len(values) - 2) / sum((minute - middle) ** 2 for minute in minutes))
    return Slope(60 * line.slope, 60 * _T95 * error)


def grows(of: Slope, none: float) -> bool:
    """Whether a slope is above what is taken for none, and its interval above zero."""
    return of.per_hour > none and of.per_hour > of.half


async def _run(
    scenario: Scenario, workload: Workload, paths: dict[str, Path], saved: SavedCluster, per_minute: int, minutes: int
) -> list[Sample]:
    samples: list[Sample] = []
    async with filled(scenario, workload, paths, saved) as cluster:
        with cluster.contestant(OURS) as contestant:
            soak = _Soak(cluster, contestant, per_minute)
            await soak.begin()
            for minute in range(minutes):
                samples.append(await soak.minute(minute))
                log(_line(samples[-1]))
    return samples


class _Soak:
    """The pods that are replaced, a minute at a time."""

    def __init__(self, cluster: FilledCluster, contestant: Contestant, per_minute: int) -> None:
        self._objects, self._seen = cluster.objects, cluster.seen
        self._contestant, self._per_minute = contestant, per_minute
        templates = cluster.scenario.templates
        running = next(
            operation
            for operation in cluster.operations
            if isinstance(operation, CreatePods) and operation.template == _TEMPLATE
        )
        template = pod_template(templates[_TEMPLATE], measured=True)
        self._render = Render(template, running, name="pod-$turn-$index")
        self._status = json.dumps({"status": templates[_TEMPLATE]["status"]}).encode()
        self._names = _shuffled(cluster.objects.placed)
        self._reports: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        """Have one pod placed, so that the start is over."""
        await self._objects.create_pods([self._pod(0, 0)])
        await self._contestant.wait_for_first_binding(self._seen)
        self._seen.on_bound = self._report

    async def minute(self, minute: int) -> Sample:
        """Replace as many pods as in each minute; returns its figures."""
        seen, contestant = self._seen, self._contestant
        pids = (contestant.process.pid, contestant.cluster.api_server.pid)
        seen.reset()
        used = [cpu_seconds(pid) for pid in pids]
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for index in range(self._per_minute):
                await asyncio.sleep(max(0.0, began + index * _MINUTE / self._per_minute - time.monotonic()))
                group.create_task(self._replace(minute + 1))
        if not await contestant.wait_for(seen, lambda: len(seen.bound) >= self._per_minute, FIRST_SECONDS):
            raise RuntimeError(f"minute {minute}: {len(seen.bound)} of {self._per_minute} pods were bound")
        await asyncio.gather(*self._reports)
        self._reports.clear()
        await asyncio.sleep(max(0.0, began + _MINUTE - time.monotonic()))
        waits = [1000 * (at - seen.created[name]) for name, at in seen.bound.items()]
        cpu, api_cpu = (1000 * (cpu_seconds(pid) - before) for pid, before in zip(pids, used, strict=True))
        return {
            "minute": minute,
            **sizes(contestant.process.pid),
            "p50": percentile(waits, 0.5),
            "p99": percentile(waits, 0.99),
            "cpu": cpu / self._per_minute,
            "api_cpu": api_cpu / self._per_minute,
        }

    async def _replace(self, turn: int) -> None:
        """Another pod of the same deployment, which the pod's number says."""
        name = self._names.popleft()
        await self._objects.delete_pod(name)
        await self._objects.create_pods([self._pod(turn, int(name.rpartition("-")[2]))])

    def _pod(self, turn: int, index: int) -> bytes:
        return self._render(index).replace(b"$turn", str(turn).encode())

    def _report(self, name: str) -> None:
        self._reports.append(asyncio.create_task(self._objects.report(name, self._status)))
        self._names.append(name)


def _shuffled(names: Sequence[str]) -> deque[str]:
    mixed = list(names)
    random.Random(_SEED).shuffle(mixed)
    return deque(mixed)


def _line(sample: Sample) -> str:
    figures = ", ".join(f"{name} {sample[name]:.4g}" for name in FIGURES)
    return f"minute {sample['minute'] + 1:>3.0f}: {figures}"


def _table(samples: Sequence[Sample], slopes: dict[str, Slope]) -> str:
    lines = [_line(sample) for sample in thinned(samples)]
    for name, unit in FIGURES.items():
        per_hour, half = slopes[name]
        lines.append(f"{name:<12} {per_hour:+8.3g} ({per_hour - half:+.3g} to {per_hour + half:+.3g}) per hour {unit}")
    return "\n".join(lines)
