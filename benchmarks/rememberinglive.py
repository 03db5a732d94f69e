"""What remembering decisions costs live schedulers: `python -m benchmarks remembering-live`.

Two of our schedulers place their pods at the same time. One remembers its decisions and the other does not
(`--decision-history=0`). The figure is processor time per pod, from before the pods of a batch are created until their
last Event is written, and its ratio. (Taking turns, they differed by 17 % from pair to pair.)
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.race import cluster as servers
from benchmarks.race import contestants
from benchmarks.race.cluster import RaceCluster
from benchmarks.race.scenario import load
from benchmarks.remembering import interval, summary
from benchmarks.sidebyside import Program, Size, samples
from devcluster.errors import DevClusterError
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.kube.client import KubeError

FLAGS: Mapping[str, tuple[str, ...]] = {"with": (), "without": ("--decision-history=0",)}
"""By schedulerName."""


async def compare(options: argparse.Namespace, cluster: RaceCluster) -> list[dict[str, float]]:
    """Run the pairs; returns microseconds per pod of each, by schedulerName."""
    details = f"--decision-details={options.details}"
    programs = {name: Program(options.checkout, (*flags, details)) for name, flags in FLAGS.items()}
    size = Size(options.scenario, options.nodes, options.count, options.batches)
    pairs = []
    async for sample in samples(size, cluster, programs, options.pairs):
        pair = {name: figures["placing"] for name, figures in sample.items()}
        pairs.append(pair)
        print(f"pair {len(pairs)}: {pair['without']:.0f} us without, {pair['with']:.0f} us with", flush=True)
    return pairs


def report(pairs: Sequence[Mapping[str, float]]) -> str:
    """Return the medians, the difference and the ratio, each with its interval."""
    medians = {name: statistics.median(pair[name] for pair in pairs) for name in FLAGS}
    mean, half = interval([pair["with"] - pair["without"] for pair in pairs])
    return (
        f"{medians['without']:.0f} us per pod without and {medians['with']:.0f} us with the history (medians); the "
        f"difference is {mean:+.1f} us (95 %: {mean - half:+.1f} to {mean + half:+.1f} us)\n"
        + summary([pair["with"] / pair["without"] for pair in pairs])
    )


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks remembering-live", description=__doc__)
    parser.add_argument("--scenario", default="TargetLoadPacking", choices=sorted(load()))
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--count", type=int, default=300, help="pods of a batch for each of the two")
    parser.add_argument("--batches", type=int, default=3, help="of a pair, beside the first one, which does not count")
    parser.add_argument("--pairs", type=int, default=12, help="at least 3")
    parser.add_argument("--details", default="1", help="the schedulers' --decision-details")
    parser.add_argument(
        "--checkout", type=Path, default=contestants.ROOT, help="where the schedulers' program is; this one"
    )
    options = parser.parse_args(arguments)
    try:
        paths: dict[str, Path] = binaries.ensure(["etcd", "kube-apiserver"], SilentReporter())
        with servers.running(paths) as cluster:
            pairs = asyncio.run(compare(options, cluster))
    except (DevClusterError, RuntimeError, KubeError) as error:
        print(f"benchmarks remembering-live: {error}", file=sys.stderr)
        return 1
    print(report(pairs))
    return 0
