"""What remembering decisions costs live schedulers: `python -m benchmarks remembering-live`.

Two of our schedulers run on one control plane. One remembers its decisions and the other does not
(`--decision-history=0`); each has a schedulerName of its own, and both see all pods. The pods of a batch are for one
and the other alternately, so both place theirs at the same time: whatever else the machine does meets both alike.
(Taking turns, they differed by 17 % from pair to pair.) The figure is processor time per pod, from before the pods are
created until their last Event is written, and its ratio. Processes of one program differ, too (by their hash seeds and
where their memory lies), so both are started anew after some batches, and a life of both counts as one pair.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.race import cluster as servers
from benchmarks.race import contestants, watcher
from benchmarks.race.cluster import RaceCluster
from benchmarks.race.observe import Observer
from benchmarks.race.scenario import CreatePods, Json, Scenario, Workload, load, resolved
from benchmarks.race.usage import processor_seconds
from benchmarks.race.world import World, pod_template
from benchmarks.remembering import interval, summary
from devcluster import ports, processes
from devcluster.errors import DevClusterError
from devcluster.ports import LOOPBACK
from devcluster.processes import ProcessRecord, ServiceProcess
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.kube.client import KubeClient, KubeError

FLAGS: Mapping[str, tuple[str, ...]] = {"without": ("--decision-history=0",), "with": ()}
"""By schedulerName."""
_CLASSES = 20
_SECONDS = 300.0
"""For one batch: this is about processor time, and the machine may be busy."""
_SETTLE_SECONDS = 1.0
_VERBOSITY = "2"


@dataclass(frozen=True)
class Stage:
    """What is running."""

    cluster: RaceCluster
    world: World
    seen: Observer
    schedulers: Mapping[str, ProcessRecord]

    async def batch(self, tag: str, count: int) -> dict[str, float]:
        """Have both place so many pods each; returns processor time in microseconds per pod, by schedulerName.

        Raises:
            RuntimeError: a process has ended, or pods were not placed in time.
        """
        before = {name: processor_seconds(record.pid) for name, record in self.schedulers.items()}
        order = sorted(self.schedulers)
        await self.world.create_pods(
            json.dumps(pod(name, f"{tag}-{name}-{index}", index)).encode() for index in range(count) for name in order
        )
        total = count * len(order)
        await self._wait(lambda: len(self.seen.bound) >= total, f"{tag}: pods were not bound")
        await self._wait(lambda: len(self.seen.events) >= total, f"{tag}: Events were not written")
        used = {name: processor_seconds(record.pid) - before[name] for name, record in self.schedulers.items()}
        await self.world.clear()
        await self._wait(lambda: not self.seen.present, f"{tag}: pods are still there")
        # Both have seen them go before the next batch begins.
        await asyncio.sleep(_SETTLE_SECONDS)
        self.seen.reset()
        return {name: seconds / count * 1e6 for name, seconds in used.items()}

    async def _wait(self, condition: Callable[[], bool], problem: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while not await self.seen.wait_for(condition, 2.0):
            self.cluster.require_alive()
            for record in self.schedulers.values():
                servers.require_alive(record)
            if time.monotonic() > deadline:
                raise RuntimeError(f"{problem} in {_SECONDS:.0f} s")


def pod(scheduler_name: str, name: str, index: int) -> Json:
    """A pod for a scheduler, of one of twenty kinds."""
    requests = {"cpu": f"{1 + index % _CLASSES}m", "memory": f"{1 + index % _CLASSES}Mi"}
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests}}
    body = pod_template({"spec": {"schedulerName": scheduler_name, "containers": [container]}}, measured=True)
    body["metadata"]["name"] = name
    return body


def _start(
    name: str, scenario: Scenario, cluster: RaceCluster, address: str, options: argparse.Namespace
) -> ProcessRecord:
    layout = cluster.layout
    configuration = contestants.configuration(scenario, layout.kubeconfig, address)
    configuration["profiles"][0]["schedulerName"] = name
    file = layout.config(f"{name}.json")
    file.write_text(json.dumps(configuration), encoding="utf-8")
    port = ports.allocate([name], {})[name]
    argv = [sys.executable, "-m", "scheduler", f"--config={file}", f"--bind-address={LOOPBACK}"]
    argv += [f"--secure-port={port}", f"-v={_VERBOSITY}", *FLAGS[name]]
    argv.append(f"--decision-details={options.details}")
    environment = {"PYTHONPATH": str(options.checkout)}
    return processes.start(ServiceProcess(name, argv, ports=[port], env=environment), layout.root)


async def compare(options: argparse.Namespace, cluster: RaceCluster) -> list[dict[str, float]]:
    """Run the lives; returns microseconds per pod of each, by schedulerName."""
    scenario = load()[options.scenario]
    workload = Workload(name="pairs", params={"nodes": options.nodes, "init": 0, "pods": 0, "rate": 0, "seconds": 0})
    operations = [
        operation
        for operation in resolved(scenario, workload)
        if not (isinstance(operation, CreatePods) and not operation.count)
    ]
    async with (
        KubeClient(cluster.client_config(), qps=0, user_agent="remembering", timeout=300) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        world, seen = World(client, scenario, workload.params, operations), Observer(client)
        await world.build()
        loads = watcher.loads(world.nodes) if scenario.watcher else {}
        address = stack.enter_context(watcher.serving(loads)) if scenario.watcher else ""
        await stack.enter_async_context(seen.watch())
        pairs = []
        for number in range(options.pairs):
            schedulers = {}
            # Who is started first changes.
            for name in sorted(FLAGS, reverse=number % 2 == 0):
                schedulers[name] = _start(name, scenario, cluster, address, options)
                stack.callback(processes.stop, [schedulers[name]])
            pair = await _life(Stage(cluster, world, seen, schedulers), number, options)
            processes.stop(list(schedulers.values()))
            print(f"pair {number + 1}: {pair['without']:.0f} us without, {pair['with']:.0f} us with", flush=True)
            pairs.append(pair)
    return pairs


async def _life(stage: Stage, number: int, options: argparse.Namespace) -> dict[str, float]:
    """Return microseconds per pod from the start of both to their end, without the first batch."""
    await stage.batch(f"warm-{number}", options.count)
    batches = [await stage.batch(f"batch-{number}-{index}", options.count) for index in range(options.batches)]
    return {name: statistics.fmean(batch[name] for batch in batches) for name in FLAGS}


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
