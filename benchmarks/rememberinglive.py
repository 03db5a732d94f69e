"""What remembering decisions costs live schedulers: `python -m benchmarks remembering-live`.

Two of our schedulers run on one control plane. One remembers its decisions and the other does not
(`--decision-history=0`); each has a schedulerName of its own, and both see all pods. They take turns with a batch of
pods, and who begins changes from pair to pair. The figure is processor time per pod of the one whose turn it is, from
before the pods are created until their last Event is written, and its ratio, pair by pair.
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

    async def turn(self, name: str, tag: str, count: int) -> float:
        """Have a scheduler place a batch; returns its processor time in microseconds per pod.

        Raises:
            RuntimeError: a process has ended, or pods were not placed in time.
        """
        scheduler = self.schedulers[name]
        before = processor_seconds(scheduler.pid)
        await self.world.create_pods(json.dumps(pod(name, f"{tag}-{index}", index)).encode() for index in range(count))
        await self._wait(lambda: len(self.seen.bound) >= count, f"{tag}: pods were not bound")
        await self._wait(lambda: len(self.seen.events) >= count, f"{tag}: Events were not written")
        used = processor_seconds(scheduler.pid) - before
        await self.world.clear()
        await self._wait(lambda: not self.seen.present, f"{tag}: pods are still there")
        # The other one has seen them go, too, before its turn begins.
        await asyncio.sleep(_SETTLE_SECONDS)
        self.seen.reset()
        return used / count * 1e6

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


def _start(name: str, scenario: Scenario, cluster: RaceCluster, address: str, root: Path) -> ProcessRecord:
    layout = cluster.layout
    configuration = contestants.configuration(scenario, layout.kubeconfig, address)
    configuration["profiles"][0]["schedulerName"] = name
    file = layout.config(f"{name}.json")
    file.write_text(json.dumps(configuration), encoding="utf-8")
    port = ports.allocate([name], {})[name]
    argv = [sys.executable, "-m", "scheduler", f"--config={file}", f"--bind-address={LOOPBACK}"]
    argv += [f"--secure-port={port}", f"-v={_VERBOSITY}", *FLAGS[name]]
    environment = {"PYTHONPATH": str(root)}
    return processes.start(ServiceProcess(name, argv, ports=[port], env=environment), layout.root)


async def compare(options: argparse.Namespace, cluster: RaceCluster) -> list[dict[str, float]]:
    """Run the pairs; returns microseconds per pod, by schedulerName."""
    scenario = load()[options.scenario]
    workload = Workload(name="pairs", params={"nodes": options.nodes, "init": 0, "pods": 0, "rate": 0, "seconds": 0})
    operations = [
        operation
        for operation in resolved(scenario, workload)
        if not (isinstance(operation, CreatePods) and not operation.count)
    ]
    pairs = []
    async with (
        KubeClient(cluster.client_config(), qps=0, user_agent="remembering", timeout=300) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        world, seen = World(client, scenario, workload.params, operations), Observer(client)
        await world.build()
        loads = watcher.loads(world.nodes) if scenario.watcher else {}
        address = stack.enter_context(watcher.serving(loads)) if scenario.watcher else ""
        schedulers = {}
        for name in FLAGS:
            schedulers[name] = _start(name, scenario, cluster, address, options.checkout)
            stack.callback(processes.stop, [schedulers[name]])
        await stack.enter_async_context(seen.watch())
        stage = Stage(cluster, world, seen, schedulers)
        for name in FLAGS:
            await stage.turn(name, f"warm-{name}", options.count)
        for number in range(options.pairs):
            # Who begins changes: what the first leaves to the second counts for both.
            order = sorted(FLAGS, reverse=number % 2 == 0)
            pair = {name: await stage.turn(name, f"{name}-{number}", options.count) for name in order}
            print(f"pair {number + 1}: {pair['without']:.0f} us without, {pair['with']:.0f} us with", flush=True)
            pairs.append(pair)
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
    parser.add_argument("--count", type=int, default=500, help="pods of a batch")
    parser.add_argument("--pairs", type=int, default=12, help="at least 3")
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
