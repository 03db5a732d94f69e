"""Live schedulers of several checkouts at the same time: `python -m benchmarks checkouts --before CHECKOUT ...`.

Each runs by the Python of its checkout's `.venv` on one control plane, with a schedulerName of its own, and all see all
pods. The pods of a batch are for one after the other, so that all place theirs at the same time: whatever else the
machine does meets all alike. Processes of one program differ, too, so all are started anew after some batches. A life
of all is one row: processor time per pod from before the pods are created until their last Event is written, processor
time from the start of the process until `/readyz`, and the peak of its memory.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.engines import Figures, table
from benchmarks.race import cluster as servers
from benchmarks.race import contestants
from benchmarks.race.cluster import RaceCluster
from benchmarks.race.contestants import OURS, ROOT
from benchmarks.race.observe import Observer
from benchmarks.race.scenario import CreatePods, Workload, load, resolved
from benchmarks.race.usage import peak_memory, processor_seconds
from benchmarks.race.world import World
from benchmarks.rememberinglive import Stage
from devcluster import ports, processes
from devcluster.errors import DevClusterError
from devcluster.ports import LOOPBACK
from devcluster.probes import https_ok
from devcluster.processes import ProcessRecord, ServiceProcess
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.kube.client import KubeClient, KubeError

UNITS = {"placing": "us per pod", "ready": "ms until /readyz", "rss": "MiB at most"}
_VERBOSITY = "2"


def _service(name: str, root: Path, cluster: RaceCluster, configuration: dict[str, object]) -> ServiceProcess:
    file = cluster.layout.config(f"{name}.json")
    file.write_text(json.dumps(configuration), encoding="utf-8")
    port = ports.allocate([name], {})[name]
    argv = [contestants.interpreter(root), "-m", "scheduler", f"--config={file}", f"--bind-address={LOOPBACK}"]
    argv += [f"--secure-port={port}", f"-v={_VERBOSITY}"]
    ready = https_ok(port, "/readyz", None)
    return ServiceProcess(name, argv, ports=[port], env={"PYTHONPATH": str(root)}, ready=ready)


async def _life(stage: Stage, number: int, options: argparse.Namespace) -> dict[str, Figures]:
    """Return the figures of all schedulers that have just become ready; the first batch does not count."""
    ready = {name: 1000 * processor_seconds(record.pid) for name, record in stage.schedulers.items()}
    await stage.batch(f"warm-{number}", options.count)
    batches = [await stage.batch(f"batch-{number}-{index}", options.count) for index in range(options.batches)]
    return {
        name: {
            "placing": statistics.fmean(batch[name] for batch in batches),
            "ready": ready[name],
            "rss": peak_memory(record.pid) / 2**20,
        }
        for name, record in stage.schedulers.items()
    }


async def lives(
    options: argparse.Namespace, cluster: RaceCluster, roots: Mapping[str, Path]
) -> list[Mapping[str, Figures]]:
    """Run the lives; returns the figures of each, by the checkouts' names.

    Raises:
        RuntimeError: a process has ended, or pods were not placed in time.
    """
    scenario = load()[options.scenario]
    workload = Workload(name="lives", params={"nodes": options.nodes, "init": 0, "pods": 0, "rate": 0, "seconds": 0})
    operations = [
        operation
        for operation in resolved(scenario, workload)
        if not (isinstance(operation, CreatePods) and not operation.count)
    ]
    configuration = contestants.configuration(scenario, cluster.layout.kubeconfig, "")
    done: list[Mapping[str, Figures]] = []
    async with KubeClient(cluster.client_config(), qps=0, user_agent="checkouts", timeout=300) as client:
        world, seen = World(client, scenario, workload.params, operations), Observer(client)
        await world.build()
        names = list(roots)
        async with seen.watch():
            for number in range(options.lives):
                shift = number % len(names)
                with contextlib.ExitStack() as stack:
                    records = {}
                    for name in names[shift:] + names[:shift]:
                        profile = {**configuration["profiles"][0], "schedulerName": name}
                        service = _service(name, roots[name], cluster, {**configuration, "profiles": [profile]})
                        records[name] = _ready(stack, service, cluster)
                    figures = await _life(Stage(cluster, world, seen, records), number, options)
                done.append({name: figures[name] for name in names})
                line = ", ".join(f"{name} {of['placing']:.0f} us" for name, of in done[-1].items())
                print(f"  {len(done)}: {line}", file=sys.stderr, flush=True)
    return done


def _ready(stack: contextlib.ExitStack, service: ServiceProcess, cluster: RaceCluster) -> ProcessRecord:
    record = processes.start(service, cluster.layout.root)
    stack.callback(processes.stop, [record])
    processes.wait_ready(service, record)
    return record


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks checkouts", description=__doc__)
    parser.add_argument(
        "--before", type=Path, action="append", default=[], metavar="CHECKOUT", help="another checkout; may be repeated"
    )
    parser.add_argument("--scenario", default="SchedulingBasic", choices=sorted(load()), help="one without a watcher")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--count", type=int, default=300, help="pods of a batch for each")
    parser.add_argument("--batches", type=int, default=3, help="of a life, beside the first one, which does not count")
    parser.add_argument("--lives", type=int, default=6, help="at least 3")
    options = parser.parse_args(arguments)
    roots = {OURS: ROOT, **{path.resolve().name: path.resolve() for path in options.before}}
    if len(roots) <= len(options.before):
        parser.error(f"--before: the directories need names that differ, also from {OURS}")
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
