"""CPU time and memory of `simulate` and `plan` on a large snapshot: `python -m benchmarks plan`.

The snapshot has nodes of three sizes in three zones with their load, and pods of 200 classes without a node. `plan`
compares the default profile with one that scores by TargetLoadPacking. With `--over all` the same pods have a node.

`rebalance plan` has a snapshot of its own: pods that run, five times as many, and one node in a hundred overloaded.
Beside it, `plan --over all` with one configuration on both sides decides about each of these pods once per side.

Each command is a process of its own; the figures are what the kernel counted for it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import overloaded
from benchmarks.core import CLASSES, PROFILES
from benchmarks.harness.manifests import NOW, at, node, node_load, node_name, pod

_DIFFERENCES = 3
_OLD, _NEW = "default", "TargetLoadPacking"
_RUNNING = 5
"""So many times more pods run where `rebalance plan` is measured."""


class Cost(NamedTuple):
    """What a command took: seconds of CPU (user and system), seconds, MiB at most, and its exit code."""

    cpu: float
    wall: float
    memory: float
    code: int


def objects(nodes: int, pods: int, *, running: bool) -> Iterator[dict[str, Any]]:
    """The snapshot's objects; `running` pods have a node."""
    chance = random.Random(nodes)
    names = [node_name(number) for number in range(nodes)]
    yield from map(node, range(nodes))
    for number in range(pods):
        requests = {"cpu": f"{50 + 10 * (number % CLASSES)}m", "memory": f"{256 + number % CLASSES}Mi"}
        place = names[chance.randrange(nodes)] if running else ""
        item = pod(f"pod-{number:05d}", requests, namespace=f"team-{number % 20}", nodeName=place)
        item["metadata"]["creationTimestamp"] = at(NOW - pods + number)
        yield item
    yield node_load({name: chance.uniform(1, 60) for name in names})


def write_files(directory: Path, nodes: int, pods: int) -> None:
    """Write both configurations, and the snapshot with pods that wait and with pods that run."""
    for name in (_OLD, _NEW):
        head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n"
        (directory / f"{name}.yaml").write_text(f"{head}- {PROFILES[name].strip()}\n")
    for running in (False, True):
        with (directory / f"{'running' if running else 'pending'}.json").open("w") as file:
            file.writelines(f"{json.dumps(item)}\n" for item in objects(nodes, pods, running=running))
    (directory / "load-aware.yaml").write_text(overloaded.CONFIGURATION)
    with (directory / "overloaded.json").open("w") as file:
        items = overloaded.objects(nodes, _RUNNING * pods, max(nodes // 100, 1))
        file.writelines(f"{json.dumps(item)}\n" for item in items)


def measured(arguments: list[str], out: Path) -> Cost:
    """Run a command of the command line to its end."""
    started = time.monotonic()
    with out.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "secondary_scheduler.cli", *arguments], stdout=file, stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - started
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024, process.returncode)


def main(arguments: Sequence[str]) -> int:
    """Print one line per command.

    Raises:
        RuntimeError: a command failed.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks plan", description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as root:
        directory = Path(root)
        write_files(directory, options.nodes, options.pods)
        old, new = (str(directory / f"{name}.yaml") for name in (_OLD, _NEW))
        pending, running, busy = (str(directory / f"{name}.json") for name in ("pending", "running", "overloaded"))
        aware, running_pods = str(directory / "load-aware.yaml"), _RUNNING * options.pods
        print(f"{options.nodes:,} nodes, {options.pods:,} pods{'':<18}CPU s    wall s   memory MiB   exit code")
        for name, command in {
            "simulate, table": ["simulate", "--config", old, "--snapshot", pending],
            "simulate, json with scores of the best 5": [
                *("simulate", "--config", old, "--snapshot", pending, "-o", "json", "--detail", "top:5"),
            ],
            "plan, nothing changes": ["plan", "--old", old, "--new", old, "--snapshot", pending],
            "plan": ["plan", "--old", old, "--new", new, "--snapshot", pending],
            "plan -o json": ["plan", "--old", old, "--new", new, "--snapshot", pending, "-o", "json"],
            "plan --over all": ["plan", "--old", old, "--new", new, "--snapshot", running, "--over", "all"],
            f"rebalance plan, {running_pods:,} pods": ["rebalance", "plan", "--config", aware, "--snapshot", busy],
            f"plan --over all, {running_pods:,} pods, no change": [
                *("plan", "--old", aware, "--new", aware, "--snapshot", busy, "--over", "all"),
            ],
        }.items():
            cost = measured(command, directory / "out")
            print(f"{name:<42}{cost.cpu:7.1f}{cost.wall:10.1f}{cost.memory:13.0f}{cost.code:12}")
            if cost.code not in (0, _DIFFERENCES):
                raise RuntimeError(f"{name} failed")
    return 0
