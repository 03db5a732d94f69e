"""Live schedulers of several checkouts at the same time: `python -m benchmarks checkouts --before CHECKOUT ...`.

Each runs by the Python of its checkout's `.venv`. A row is all of them from start to end: processor time per pod,
from before the pods of a batch are created until their last Event is written, processor time from the start of the
process until `/readyz`, and the peak of its memory.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.engines import table
from benchmarks.race import cluster as servers
from benchmarks.race.cluster import RaceCluster
from benchmarks.race.contestants import add_checkouts, checkouts
from benchmarks.race.scenario import load
from benchmarks.sidebyside import Figures, Program, Size, samples
from devcluster.errors import DevClusterError
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.kube.client import KubeError

UNITS = {"placing": "us per pod", "ready": "ms until /readyz", "rss": "MiB at most"}


async def lives(
    options: argparse.Namespace, cluster: RaceCluster, roots: Mapping[str, Path]
) -> list[dict[str, Figures]]:
    """Run the lives; returns the figures of each, by the checkouts' names.

    Raises:
        RuntimeError: a process has ended, or pods were not placed in time.
    """
    size = Size(options.scenario, options.nodes, options.count, options.batches)
    programs = {name: Program(root) for name, root in roots.items()}
    done = []
    async for sample in samples(size, cluster, programs, options.lives):
        done.append(sample)
        line = ", ".join(f"{name} {figures['placing']:.0f} us" for name, figures in sample.items())
        print(f"  {len(done)}: {line}", file=sys.stderr, flush=True)
    return done


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks checkouts", description=__doc__)
    add_checkouts(parser)
    parser.add_argument("--scenario", default="SchedulingBasic", choices=sorted(load()), help="one without a watcher")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--count", type=int, default=300, help="pods of a batch for each")
    parser.add_argument("--batches", type=int, default=3, help="of a life, beside the first one, which does not count")
    parser.add_argument("--lives", type=int, default=6, help="at least 3")
    options = parser.parse_args(arguments)
    roots = checkouts(parser, options.before)
    if options.lives < 3 or load()[options.scenario].watcher:
        parser.error("at least 3 lives, and a scenario without a watcher")
    try:
        paths: dict[str, Path] = binaries.ensure(["etcd", "kube-apiserver"], SilentReporter())
        with servers.running(paths) as cluster:
            done = asyncio.run(lives(options, cluster, roots))
    except (DevClusterError, RuntimeError, KubeError) as error:
        print(f"benchmarks checkouts: {error}", file=sys.stderr)
        return 1
    print("\n".join(table(done, UNITS)))
    return 0
