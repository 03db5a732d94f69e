"""`python -m benchmarks rebalancing`: what makes an uneven cluster even, and at what price in evictions.

The same pods are placed on the same nodes for each contestant; what they use is not what they request, so that some
nodes are hot. The load of a node is what its pods use, as Prometheus and a metrics server show. Each contestant has the
same thresholds and limits. A round is 10 s and stands for 5 minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.harness.figures import markdown, report
from benchmarks.rebalancing.movers import IMAGE, PAIRS, Moving, Pair, Placing, RunSite
from benchmarks.rebalancing.placement import InitialPlacement, place_pods
from benchmarks.rebalancing.run import Pace, RunResult, run
from devcluster.cluster import LocalCluster
from devcluster.inventory import simulated_nodes
from devcluster.progress import SilentReporter
from devcluster.spec import ClusterSpec
from devcluster.toolchain import binaries

_REFUSED = 400


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks rebalancing", description=__doc__)
    parser.add_argument("--nodes", type=int, default=40, help="simulated, of three sizes (40)")
    parser.add_argument("--pods", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=24, help="at most (24)")
    parser.add_argument("--quiet", type=int, default=8, help="rounds without an eviction that end a run (8)")
    parser.add_argument(
        "--contestant",
        action="append",
        choices=list(PAIRS),
        help="may be repeated (all); the descheduler is built when it is missing",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    names = options.contestant or list(PAIRS)
    try:
        placement = place_pods(simulated_nodes(options.nodes), options.pods, options.seed)
    except ValueError as error:
        parser.error(str(error))
    results = compare([PAIRS[name] for name in names], placement, Pace(options.rounds, options.quiet))
    report(results, _line, table, options.json)
    return 0


def compare(pairs: Sequence[Pair], placement: InitialPlacement, pace: Pace) -> Iterator[RunResult]:
    """Run pairs one after the other on a cluster that is there for them, and yield what came of each.

    Raises:
        DevClusterError: something cannot be built, or the cluster does not start.
        RuntimeError: something has ended, or does not come.
    """
    placing = {pair.placing for pair in pairs}
    others = [pair for pair in pairs if pair.moving in (Moving.REQUESTS, Moving.PROMETHEUS)]
    names = ["kube-scheduler"] * (Placing.KUBE in placing) + ["descheduler"] * bool(others)
    paths = binaries.ensure(names, SilentReporter())
    program = {"executables": {"/bin/descheduler": [str(paths["descheduler"])]}} if others else {}
    with tempfile.TemporaryDirectory(prefix="rebalancing-") as root:
        spec = ClusterSpec(
            name="rebalancing",
            nodes=len(placement.nodes),
            real_nodes=int(bool(others)),
            pod_loads=True,
            default_scheduler=False,
            tools=False,
            state_root=Path(root),
            images={IMAGE: program} if program else {},
        )
        with LocalCluster(spec) as cluster:
            for pair in pairs:
                yield asyncio.run(run(pair, placement, RunSite(cluster, paths.get("kube-scheduler")), pace))


def _line(result: RunResult) -> str:
    when = f"balanced in round {result.balanced[0]}" if result.balanced else "not balanced"
    return f"{result.contestant}: {len(result.evictions)} evictions, {when}, {result.rounds} rounds"


def table(results: Sequence[RunResult]) -> list[str]:
    """Return a Markdown table with a row for each result."""
    rows = []
    for result in results:
        rounds, evictions = result.balanced or ("never", "never")
        refused = sum(count for code, count in result.answers.items() if code >= _REFUSED)
        before, after = result.before, result.after
        cells = [result.contestant, evictions, len(result.evictions), result.guarded]
        cells += [result.came_back, result.again, refused, f"{before.overloaded} → {after.overloaded}"]
        cells += [f"{before.stddev:.1f} → {after.stddev:.1f}", f"{before.largest:.0f} → {after.largest:.0f} %", rounds]
        rows.append(cells)
    headings = ["", "evictions until balanced", "in all", "of pods that had to stay", "back on the same node"]
    headings += [
        "evicted again",
        "refused",
        "overloaded nodes",
        "standard deviation",
        "largest",
        "rounds until balanced",
    ]
    return markdown(headings, rows)
