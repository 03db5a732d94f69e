"""`python -m benchmarks start`: time from process start to the first binding, for us and kube-scheduler in turn.

The cluster is full: nodes with pods on them, and a few pending pods. Both schedulers get the same configuration on the
same API server. The order changes from round to round, and a first round is not counted. With `--drain`, that many pods
are pending, and our /livez is probed while they are placed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.race import cluster as servers, contestants, watcher
from benchmarks.race.cluster import RaceCluster
from benchmarks.race.contestants import OURS, PEER, Contestant
from benchmarks.race.observe import Observer
from benchmarks.race.report import percentile, summary
from benchmarks.race.rounds import liveness
from benchmarks.race.scenario import CreatePods, Operation, Scenario, Workload, load, resolved
from benchmarks.race.watcher import cpu_seconds, peak_memory
from benchmarks.race.world import World
from devcluster import processes
from devcluster.errors import DevClusterError
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.kube.client import KubeClient, KubeError

SCENARIO = "FullCluster"
SCENARIOS = (SCENARIO, "SchedulingBasic", "TargetLoadPacking")
BEFORE = "before"
_FIRST_SECONDS, _DRAIN_SECONDS = 120.0, 300.0
_SETTLE_SECONDS = 1.0
UNITS = {
    "seconds": "s to the first binding",
    "cpu": "s of processor time by then",
    "api_cpu": "s of the API server's by then",
    "rss": "MiB at most",
    "livez_p99": "ms",
    "livez_max": "ms",
}
RATIOS = ("seconds", "cpu", "api_cpu", "rss")
Figures = dict[str, float]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks start", description=__doc__)
    parser.add_argument("--scenario", choices=SCENARIOS, default=SCENARIO, help="of the race: its pods and plugins")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=30000, help="pods that are already on nodes")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, not counting a first one to warm up")
    parser.add_argument("--waiting", type=int, default=20, help="pending pods")
    parser.add_argument(
        "--drain", type=int, default=0, metavar="PODS", help="pending pods; also probe /livez while they are placed"
    )
    parser.add_argument("--only", choices=(OURS, PEER), help="start only this one")
    parser.add_argument(
        "--before", type=Path, metavar="CHECKOUT", help="also start ours from this checkout, to compare"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(arguments)
    scenario = load()[options.scenario]
    params = {"nodes": options.nodes, "init": options.pods, "pods": options.drain or options.waiting}
    workload = Workload(name="start", params={**params, "rate": 0, "seconds": 0})
    roots = {role: contestants.ROOT for role in (OURS, PEER) if options.only in (None, role)}
    if options.before:
        roots[BEFORE] = options.before.resolve()
    try:
        paths = binaries.ensure(["etcd", "kube-apiserver", scenario.peer], SilentReporter())
        with servers.running(paths) as cluster:
            stage = _Stage(scenario, workload, cluster, paths, livez=bool(options.drain))
            runs = asyncio.run(stage.run(roots, options.rounds))
    except (DevClusterError, RuntimeError, KubeError) as error:
        print(f"benchmarks start: {error}", file=sys.stderr)
        return 1
    summaries = _summaries(runs)
    print(
        json.dumps({**params, "rounds": options.rounds, **summaries}, indent=1) if options.json else _table(summaries)
    )
    return 0


class _Stage:
    def __init__(
        self, scenario: Scenario, workload: Workload, cluster: RaceCluster, paths: dict[str, Path], *, livez: bool
    ) -> None:
        self._scenario, self._cluster, self._paths = scenario, cluster, paths
        self._params = workload.params
        self._operations: list[Operation] = resolved(scenario, workload)
        self._backlog = next(
            operation for operation in self._operations if isinstance(operation, CreatePods) and operation.measured
        )
        self._livez = livez
        self._watcher = ""

    async def run(self, roots: dict[str, Path], rounds: int) -> dict[str, list[Figures]]:
        runs: dict[str, list[Figures]] = {role: [] for role in roots}
        async with KubeClient(self._cluster.client_config(), qps=0, user_agent="start", timeout=300) as client:
            self._world = World(client, self._scenario, self._params, self._operations)
            self._seen = Observer(client)
            await self._world.build()
            async with self._seen.watch(), contextlib.AsyncExitStack() as stack:
                if self._scenario.watcher:
                    self._watcher = stack.enter_context(watcher.serving(watcher.loads(self._world.nodes)))
                for number in range(rounds + 1):
                    for role in roots if number % 2 == 0 else reversed(roots):
                        figures = await self._start(role, roots[role], f"{role}-{number}")
                        if number:
                            runs[role].append(figures)
                        print(f"  {number} {role}: {_line(figures)}", file=sys.stderr, flush=True)
        return runs

    async def _start(self, role: str, root: Path, tag: str) -> Figures:
        seen = self._seen
        names = set(await self._world.backlog(self._backlog, tag, int(self._backlog.count)))
        await asyncio.sleep(_SETTLE_SECONDS)
        seen.reset()
        server = self._cluster.api_server.pid
        figures: Figures = {}

        def first_bound(_: str) -> None:
            if not figures:
                figures["seconds"] = time.monotonic() - started
                figures["cpu"] = cpu_seconds(contestant.process.pid)
                figures["api_cpu"] = cpu_seconds(server) - server_before

        seen.on_bound = first_bound
        async with contextlib.AsyncExitStack() as stack:
            server_before = cpu_seconds(server)
            started = time.monotonic()
            known_as = OURS if role == BEFORE else role
            contestant = contestants.start(known_as, self._scenario, self._cluster, self._paths, self._watcher, root)
            stack.callback(contestants.stop, contestant)
            probe = await stack.enter_async_context(liveness(contestant, self._livez))
            await self._wait_until_bound(contestant, names)
            if probe:
                figures |= {"livez_p99": 1000 * percentile(probe, 0.99), "livez_max": 1000 * max(probe)}
            figures["rss"] = peak_memory(contestant.process.pid) / 2**20
        await self._world.clear()
        if not await seen.wait_for(lambda: not seen.present, _FIRST_SECONDS):
            raise RuntimeError(f"{len(seen.present)} pods are still there {_FIRST_SECONDS:.0f} s after their deletion")
        return figures

    async def _wait_until_bound(self, contestant: Contestant, names: set[str]) -> None:
        seen = self._seen
        if not await seen.wait_for(lambda: bool(seen.bound), _FIRST_SECONDS):
            contestants.require_alive(contestant)
            log = processes.last_lines(contestant.process.log)
            raise RuntimeError(f"{contestant.role} bound no pod in {_FIRST_SECONDS:.0f} s: {log}")
        if not await seen.wait_for(lambda: names <= seen.bound.keys(), _DRAIN_SECONDS):
            raise RuntimeError(f"{contestant.role} bound {len(seen.bound)} of {len(names)} pods")


def _line(figures: Figures) -> str:
    return ", ".join(f"{figures[name]:.2f} {unit}" for name, unit in UNITS.items() if name in figures)


def _summaries(runs: dict[str, list[Figures]]) -> dict[str, dict[str, dict[str, float]]]:
    """Median, minimum and maximum of each figure, and of ours divided by the peer's in the same round."""
    summaries = {
        role: {name: summary([run[name] for run in each]) for name in UNITS if each and name in each[0]}
        for role, each in runs.items()
    }
    for other in (PEER, BEFORE):
        pairs = list(zip(runs.get(OURS, ()), runs.get(other, ()), strict=False))
        if pairs:
            summaries[f"ours/{other}"] = {name: summary([a[name] / b[name] for a, b in pairs]) for name in RATIOS}
    return summaries


def _table(summaries: dict[str, dict[str, dict[str, float]]]) -> str:
    lines = []
    for role, figures in summaries.items():
        for name, each in figures.items():
            unit = f"times as many {UNITS[name]}" if "/" in role else UNITS[name]
            lines.append(f"{role:<11} {each['median']:>8g} ({each['min']:g} to {each['max']:g}) {unit}")
    return "\n".join(lines)
