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
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness import control_plane
from benchmarks.harness.contestants import (
    OURS,
    PEER,
    ROOT,
    add_checkouts,
    checkouts,
    cpu_seconds,
    peak_memory,
)
from benchmarks.harness.figures import log, order_of, summary
from benchmarks.harness.filled import FilledCluster, filled
from benchmarks.harness.scenario import Workload, load
from benchmarks.race.rounds import PROBE_EVERY, liveness

SCENARIO = "FullCluster"
SCENARIOS = (SCENARIO, "SchedulingBasic", "TargetLoadPacking")
_DRAIN_SECONDS = 300.0
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
    add_checkouts(parser)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    params = {"nodes": options.nodes, "init": options.pods, "pods": options.drain or options.waiting}
    workload = Workload(name="start", params={**params, "rate": 0, "seconds": 0})
    roots = {PEER: ROOT, **checkouts(parser, options.before)}
    roots = {name: root for name, root in roots.items() if name not in (OURS, PEER) or options.only in (None, name)}
    runs = asyncio.run(_run(options.scenario, workload, roots, options.rounds, livez=bool(options.drain)))
    summaries = _summaries(runs)
    print(
        json.dumps({**params, "rounds": options.rounds, **summaries}, indent=1) if options.json else _table(summaries)
    )
    return 0


async def _run(
    name: str, workload: Workload, roots: dict[str, Path], rounds: int, *, livez: bool
) -> dict[str, list[Figures]]:
    scenario = load()[name]
    runs: dict[str, list[Figures]] = {role: [] for role in roots}
    async with filled(scenario, workload, control_plane.executables(scenario.peer)) as cluster:
        for number in range(rounds + 1):
            for role in order_of(roots, number + 1):
                figures = await _start(cluster, role, roots[role], f"{role}-{number}", livez=livez)
                if number:
                    runs[role].append(figures)
                log(f"{number} {role}: {_line(figures)}")
    return runs


async def _start(cluster: FilledCluster, role: str, root: Path, tag: str, *, livez: bool) -> Figures:
    seen = cluster.seen
    names = await cluster.objects.backlog(cluster.backlog, tag, int(cluster.backlog.count))
    await asyncio.sleep(_SETTLE_SECONDS)
    seen.reset()
    server = cluster.cluster.api_server.pid
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
        contestant = stack.enter_context(cluster.contestant(role, root))
        probes = await stack.enter_async_context(contestant.probing(PROBE_EVERY)) if livez else ()
        await contestant.wait_for_first_binding(seen)
        if not await contestant.wait_until_bound(seen, names, _DRAIN_SECONDS):
            raise RuntimeError(f"{role} bound {len(seen.bound)} of {len(names)} pods")
        figures |= liveness(probes)
        figures["rss"] = peak_memory(contestant.process.pid) / 2**20
    await cluster.clear()
    return figures


def _line(figures: Figures) -> str:
    return ", ".join(f"{figures[name]:.2f} {unit}" for name, unit in UNITS.items() if name in figures)


def _summaries(runs: dict[str, list[Figures]]) -> dict[str, dict[str, dict[str, float]]]:
    """Median, minimum and maximum of each figure, and of ours divided by another's in the same round."""
    summaries = {
        role: {name: summary([run[name] for run in each]) for name in UNITS if each and name in each[0]}
        for role, each in runs.items()
    }
    for other in (name for name in runs if name != OURS and OURS in runs):
        pairs = list(zip(runs[OURS], runs[other], strict=True))
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
