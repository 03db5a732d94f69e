"""Schedulers of ours that place their pods at the same time, so that whatever else the machine does meets all alike.

They run on one control plane, each with a schedulerName of its own, and all see all pods. The pods of a batch are for
one after the other. Processes of one program differ, too (by their hash seeds and where their memory lies), so all are
restarted after some batches, and these are one sample.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.race import cluster as servers
from benchmarks.race import contestants, watcher
from benchmarks.race.cluster import RaceCluster
from benchmarks.race.observe import Observer
from benchmarks.race.scenario import Json, Workload, load, resolved
from benchmarks.race.usage import peak_memory, processor_seconds
from benchmarks.race.world import World, pod_template
from devcluster import ports, processes
from devcluster.ports import LOOPBACK
from devcluster.probes import https_ok
from devcluster.processes import ProcessRecord, ServiceProcess
from scheduler.kube.client import KubeClient

Figures = dict[str, float]
"""By what is measured: `placing` (microseconds of processor time per pod), `ready` (milliseconds of it until
`/readyz`), `rss` (MiB at most)."""
_CLASSES = 20
_SECONDS = 300.0
"""For one batch: this is about processor time, and the machine may be busy."""
_SETTLE_SECONDS = 1.0
_VERBOSITY = "2"


@dataclass(frozen=True)
class Program:
    """A checkout, whose own Python runs it where it has one, and flags."""

    root: Path
    flags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Size:
    """How much is measured: the scenario's name, its nodes, pods of a batch for each, and batches of a sample beside
    the first one, which does not count."""

    scenario: str
    nodes: int
    count: int
    batches: int


async def samples(
    size: Size, cluster: RaceCluster, programs: Mapping[str, Program], number: int
) -> AsyncIterator[dict[str, Figures]]:
    """Yield so many samples: the figures of each program, by its schedulerName.

    Raises:
        RuntimeError: a process has ended, or pods were not placed in time.
    """
    scenario = load()[size.scenario]
    workload = Workload(name="batches", params={"nodes": size.nodes, "init": 0, "pods": 0, "rate": 0, "seconds": 0})
    operations = resolved(scenario, workload)
    async with (
        KubeClient(cluster.client_config(), qps=0, user_agent="sidebyside", timeout=300) as client,
        contextlib.AsyncExitStack() as stack,
    ):
        world, seen = World(client, scenario, workload.params, operations), Observer(client)
        await world.build()
        loads = watcher.loads(world.nodes) if scenario.watcher else {}
        address = stack.enter_context(watcher.serving(loads)) if scenario.watcher else ""
        await stack.enter_async_context(seen.watch())
        configuration = contestants.configuration(scenario, cluster.layout.kubeconfig, address)
        names = list(programs)
        for index in range(number):
            shift = index % len(names)  # who is started first changes
            with contextlib.ExitStack() as started:
                records = {}
                for name in names[shift:] + names[:shift]:
                    service = _service(name, programs[name], cluster, configuration)
                    records[name] = processes.start(service, cluster.layout.root)
                    started.callback(processes.stop, [records[name]])
                    processes.wait_ready(service, records[name])
                figures = await _sample(_Stage(cluster, world, seen, records), index, size)
            yield {name: figures[name] for name in names}


def _service(name: str, program: Program, cluster: RaceCluster, configuration: Json) -> ServiceProcess:
    file = cluster.layout.config(f"{name}.json")
    profile = {**configuration["profiles"][0], "schedulerName": name}
    file.write_text(json.dumps({**configuration, "profiles": [profile]}), encoding="utf-8")
    port = ports.allocate([name], {})[name]
    argv = [contestants.interpreter(program.root), "-m", "scheduler", f"--config={file}", f"--bind-address={LOOPBACK}"]
    argv += [f"--secure-port={port}", f"-v={_VERBOSITY}", *program.flags]
    environment = {"PYTHONPATH": str(program.root)}
    return ServiceProcess(name, argv, ports=[port], env=environment, ready=https_ok(port, "/readyz", None))


@dataclass(frozen=True)
class _Stage:
    """What is running."""

    cluster: RaceCluster
    world: World
    seen: Observer
    schedulers: Mapping[str, ProcessRecord]

    async def batch(self, tag: str, count: int) -> Figures:
        """Have each place so many pods; returns processor time in microseconds per pod, by schedulerName."""
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
        # All have seen them go before the next batch begins.
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


async def _sample(stage: _Stage, number: int, size: Size) -> dict[str, Figures]:
    """Return the figures of schedulers that have just become ready; the first batch does not count."""
    ready = {name: 1000 * processor_seconds(record.pid) for name, record in stage.schedulers.items()}
    await stage.batch(f"warm-{number}", size.count)
    batches = [await stage.batch(f"batch-{number}-{index}", size.count) for index in range(size.batches)]
    return {
        name: {
            "placing": statistics.fmean(batch[name] for batch in batches),
            "ready": ready[name],
            "rss": peak_memory(record.pid) / 2**20,
        }
        for name, record in stage.schedulers.items()
    }


def pod(scheduler_name: str, name: str, index: int) -> Json:
    """A pod for a scheduler, of one of twenty kinds."""
    requests = {"cpu": f"{1 + index % _CLASSES}m", "memory": f"{1 + index % _CLASSES}Mi"}
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests}}
    body = pod_template({"spec": {"schedulerName": scheduler_name, "containers": [container]}}, measured=True)
    body["metadata"]["name"] = name
    return body
