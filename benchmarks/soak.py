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
import contextlib
import json
import math
import random
import statistics
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.endurance import Sample, sizes, thinned
from benchmarks.race import cluster as servers, contestants
from benchmarks.race.cluster import RaceCluster
from benchmarks.race.contestants import OURS, Contestant
from benchmarks.race.kept import KeptCluster, add_option
from benchmarks.race.observe import Observer
from benchmarks.race.report import percentile
from benchmarks.race.scenario import CreatePods, Render, Scenario, Workload, load, resolved
from benchmarks.race.watcher import cpu_seconds
from benchmarks.race.world import World, pod_template
from devcluster.errors import DevClusterError
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.kube.client import KubeClient, KubeError

SCENARIO = "LargeCluster"
_FIRST_SECONDS = 120.0
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
    try:
        paths = binaries.ensure(["etcd", "kube-apiserver"], SilentReporter())
        kept = KeptCluster.of(options.cluster, scenario, workload, paths)
        with servers.running(paths, kept.data) as cluster:
            soak = _Soak(scenario, workload, cluster, max(1, round(options.pods * options.share)), kept)
            samples = asyncio.run(soak.run(paths, options.minutes))
    except (DevClusterError, RuntimeError, KubeError) as error:
        print(f"benchmarks soak: {error}", file=sys.stderr)
        return 1
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


class _Soak:
    def __init__(
        self,
        scenario: Scenario,
        workload: Workload,
        cluster: RaceCluster,
        per_minute: int,
        kept: KeptCluster,
    ) -> None:
        self._scenario, self._workload, self._cluster, self._kept = scenario, workload, cluster, kept
        self._per_minute = per_minute
        self._operations = resolved(scenario, workload)
        template = pod_template(scenario.templates[_TEMPLATE], measured=True)
        running = next(each for each in self._operations if isinstance(each, CreatePods) and each.template == _TEMPLATE)
        self._render = Render(template, running, name="pod-$turn-$index")
        self._status = json.dumps({"status": scenario.templates[_TEMPLATE]["status"]}).encode()
        self._names: deque[str] = deque()
        self._reports: list[asyncio.Task[None]] = []

    async def run(self, paths: dict[str, Path], minutes: int) -> list[Sample]:
        samples: list[Sample] = []
        async with KubeClient(self._cluster.client_config(), qps=0, user_agent="soak", timeout=300) as client:
            self._world = World(client, self._scenario, self._workload.params, self._operations)
            self._seen = Observer(client)
            await self._kept.fill(self._world, self._cluster)
            self._names = _shuffled(self._world.placed)
            async with self._seen.watch():
                contestant = contestants.start(OURS, self._scenario, self._cluster, paths, "")
                with contextlib.ExitStack() as stack:
                    stack.callback(contestants.stop, contestant)
                    await self._first()
                    self._seen.on_bound = self._report
                    for minute in range(minutes):
                        samples.append(await self._minute(minute, contestant))
                        print(f"  {_line(samples[-1])}", file=sys.stderr, flush=True)
        return samples

    async def _first(self) -> None:
        """One pod, so that the start is over."""
        await self._world.create_pods([self._pod(0, 0)])
        if not await self._seen.wait_for(lambda: bool(self._seen.bound), _FIRST_SECONDS):
            raise RuntimeError(f"no pod was bound in {_FIRST_SECONDS:.0f} s")

    async def _minute(self, minute: int, contestant: Contestant) -> Sample:
        seen, pids = self._seen, (contestant.process.pid, self._cluster.api_server.pid)
        seen.reset()
        used = [cpu_seconds(pid) for pid in pids]
        began = time.monotonic()
        async with asyncio.TaskGroup() as group:
            for index in range(self._per_minute):
                await asyncio.sleep(max(0.0, began + index * _MINUTE / self._per_minute - time.monotonic()))
                group.create_task(self._replace(minute + 1))
        if not await seen.wait_for(lambda: len(seen.bound) >= self._per_minute, _FIRST_SECONDS):
            contestants.require_alive(contestant)
            raise RuntimeError(f"minute {minute}: {len(seen.bound)} of {self._per_minute} pods were bound")
        await asyncio.gather(*self._reports)
        self._reports.clear()
        await asyncio.sleep(max(0.0, began + _MINUTE - time.monotonic()))
        waits = [1000 * (at - seen.created[name]) for name, at in seen.bound.items()]
        cpu, api_cpu = (1000 * (cpu_seconds(pid) - before) for pid, before in zip(pids, used, strict=True))
        return {
            "minute": minute,
            **sizes(contestant.process),
            "p50": percentile(waits, 0.5),
            "p99": percentile(waits, 0.99),
            "cpu": cpu / self._per_minute,
            "api_cpu": api_cpu / self._per_minute,
        }

    async def _replace(self, turn: int) -> None:
        """Another pod of the same deployment, which the pod's number says."""
        name = self._names.popleft()
        await self._world.delete_pod(name)
        await self._world.create_pods([self._pod(turn, int(name.rpartition("-")[2]))])

    def _pod(self, turn: int, index: int) -> bytes:
        return self._render(index).replace(b"$turn", str(turn).encode())

    def _report(self, name: str) -> None:
        self._reports.append(asyncio.create_task(self._world.report(name, self._status)))
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
