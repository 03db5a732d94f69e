"""What a running rebalancer costs the scheduler: `python -m benchmarks beside`.

A live scheduler places pods that arrive at a steady rate, alternately with a rebalancer beside it and without. The
figure is its processor time (user and system) per pod, and the ratio of the two turns of a pair. The rebalancer makes
a round every ten seconds, thirty times as often as by default, on overloaded nodes; it evicts with dryRun, so that both
turns have the same pods.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.race import cluster as servers
from benchmarks.race import watcher
from benchmarks.race.cluster import RaceCluster
from benchmarks.race.contestants import BURST, QPS, ROOT
from benchmarks.race.scenario import Json
from benchmarks.race.usage import cpu_seconds
from benchmarks.rebalancing.contestants import OWN_NAMESPACE, REBALANCER, SCHEDULER, stand_in
from benchmarks.reporting import report
from benchmarks.sharing.kubelets import Kubelets, Outcome
from benchmarks.writes import apply, at_once
from devcluster import ports, processes
from devcluster.node_agent.admission import amounts
from devcluster.ports import LOOPBACK
from devcluster.probes import https_ok
from devcluster.processes import ProcessRecord, ServiceProcess
from devcluster.progress import SilentReporter
from devcluster.toolchain import binaries
from scheduler.kube.client import MERGE_PATCH, KubeClient, NotFound, api_path
from scheduler.kube.primitives import format_time

_PROFILE = "measured"
_STANDING, _ARRIVING = "standing", "arriving"
_ALLOCATABLE = {"cpu": "16", "memory": "64Gi", "pods": "250"}
_REQUESTS = {"cpu": "100m", "memory": "64Mi"}
_REPLICAS = 20
_HOT_SHARE = 20
"""Every so many nodes one is overloaded."""
_CREATORS = 16
_QUIET_SECONDS = 2.0
_PATIENCE_SECONDS = 90.0
_SETTINGS = {"intervalSeconds": 10, "consecutiveAbnormalities": 1, "minPodAgeSeconds": 0}


@dataclass
class Pair:
    """The two turns of a pair.

    Attributes:
        without, beside: processor time of the scheduler per pod, in microseconds.
        rounds: plans of the rebalancer in its turn, at least.
    """

    without: float
    beside: float
    rounds: int

    @property
    def ratio(self) -> float:
        """How much more a pod takes beside a rebalancer; 1 is nothing more."""
        return self.beside / self.without


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks beside", description=__doc__)
    parser.add_argument("--nodes", type=int, default=60)
    parser.add_argument("--standing", type=int, default=600, help="pods that are there, in ReplicaSets of 20")
    parser.add_argument("--pods", type=int, default=600, help="pods of a turn")
    parser.add_argument("--rate", type=int, default=40, help="of them a second")
    parser.add_argument("--pairs", type=int, default=10, help="at least 2")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results there")
    options = parser.parse_args(arguments)
    if options.pairs < 2 or options.nodes < _HOT_SHARE or options.pods < options.rate:
        parser.error(f"at least 2 pairs, {_HOT_SHARE} nodes, and pods for a second")
    return report("beside", _results(options), _line, summary, options.json)


def _line(pair: Pair) -> str:
    return f"{pair.without:.0f} us without, {pair.beside:.0f} us beside, {pair.rounds} rounds: {pair.ratio:.4f}"


def summary(pairs: Sequence[Pair]) -> list[str]:
    """Return what the pairs say together."""
    if len(pairs) < 2:
        return []
    ratios = [pair.ratio for pair in pairs]
    mean, error = statistics.fmean(ratios), statistics.stdev(ratios) / len(ratios) ** 0.5
    return [
        f"beside a rebalancer, processor time per pod is {100 * (mean - 1):+.1f} % (standard error {100 * error:.1f}, "
        f"median {100 * (statistics.median(ratios) - 1):+.1f} %), {len(pairs)} pairs; without it, "
        f"{statistics.fmean(pair.without for pair in pairs):.0f} us"
    ]


def _results(options: argparse.Namespace) -> Iterator[Pair]:
    paths = binaries.ensure(["etcd", "kube-apiserver"], SilentReporter())
    names = [f"node-{number:03d}" for number in range(options.nodes)]
    loads = {name: 92.0 if number % _HOT_SHARE == 0 else 25.0 for number, name in enumerate(names)}
    with servers.running(paths) as cluster, watcher.serving(loads) as address, asyncio.Runner() as runner:
        stage = _Stage(options, cluster, address, names)
        pairs = stage.pairs()
        try:
            while (pair := runner.run(_next(pairs))) is not None:
                yield pair
        finally:
            runner.run(pairs.aclose())


async def _next(pairs: AsyncGenerator[Pair, None]) -> Pair | None:
    return await anext(pairs, None)


class _Stage:
    def __init__(self, options: argparse.Namespace, cluster: RaceCluster, address: str, names: list[str]) -> None:
        self._options, self._cluster, self._names = options, cluster, names
        self._config = cluster.layout.config("beside.json")
        self._config.write_text(_configuration(cluster, address))

    async def pairs(self) -> AsyncGenerator[Pair, None]:
        options = self._options
        async with KubeClient(self._cluster.client_config(), qps=0, user_agent="beside", timeout=120) as client:
            self._client = client
            kubelets = Kubelets(client, dict.fromkeys(self._names, amounts(_ALLOCATABLE)), 1)
            await self._build()
            async with kubelets.working():
                with self._running(self._scheduler()) as scheduler:
                    await self._turn(scheduler, kubelets)  # everything is imported and compiled
                    for number in range(options.pairs):
                        # Who begins changes, so that a machine that becomes slower counts for both.
                        turns = [await self._both(scheduler, kubelets, beside=first) for first in _order(number)]
                        by_kind = dict(zip(_order(number), turns, strict=True))
                        yield Pair(by_kind[False][0], *by_kind[True])
                        self._cluster.require_alive()

    async def _both(self, scheduler: ProcessRecord, kubelets: Kubelets, *, beside: bool) -> tuple[float, int]:
        """Return microseconds per pod, and the rounds of the rebalancer meanwhile."""
        if not beside:
            return await self._turn(scheduler, kubelets), 0
        former = await self._last_plan()
        with self._running(self._rebalancer()):
            await self._planned_after(former)
            plans: set[str] = set()
            watching = asyncio.create_task(self._watch_plans(plans))
            try:
                micros = await self._turn(scheduler, kubelets)
            finally:
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
            return micros, len(plans) - 1

    async def _turn(self, scheduler: ProcessRecord, kubelets: Kubelets) -> float:
        """Let pods arrive, and take them away; returns the scheduler's processor time per pod in microseconds."""
        options, path = self._options, api_path("v1", "pods", namespace=_ARRIVING)
        before_all = kubelets.running()
        kubelets.outcomes.clear()
        began, before = time.monotonic(), cpu_seconds(scheduler.pid)
        async with asyncio.TaskGroup() as group:
            for number in range(options.pods):
                await asyncio.sleep(max(0.0, began + number / options.rate - time.monotonic()))
                group.create_task(self._create(f"pod-{number:05d}", _ARRIVING, schedulerName=_PROFILE))
        # By then the watch has shown all that arrived.
        await kubelets.quiet_for(_QUIET_SECONDS)
        await kubelets.settled(_PATIENCE_SECONDS)
        await kubelets.quiet_for(_QUIET_SECONDS)
        used = cpu_seconds(scheduler.pid) - before
        bound = kubelets.outcomes.get(_PROFILE, Outcome()).bound
        if bound != options.pods:
            raise RuntimeError(f"{bound} of {options.pods} pods got a node")
        await self._client.delete(path, None, timeout=120)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while kubelets.running() > before_all:
            if time.monotonic() > deadline:
                raise RuntimeError("the pods of a turn are still there")
            await kubelets.quiet_for(0.2)
        await kubelets.quiet_for(_QUIET_SECONDS)
        return float(used / options.pods * 1e6)

    async def _planned_after(self, former: str) -> None:
        """Wait for a plan of the rebalancer that is not the former one."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while await self._last_plan() in ("", former):
            if time.monotonic() > deadline:
                raise RuntimeError("the rebalancer makes no plan")
            await asyncio.sleep(0.5)
        stopped = (await self._status_of_rebalancer())["lastPlan"]["stopped"]
        if stopped:
            raise RuntimeError(f"the rebalancer plans nothing: {stopped[0]['message']}")

    async def _watch_plans(self, times: set[str]) -> None:
        while True:
            times.add(await self._last_plan())
            await asyncio.sleep(1)

    async def _last_plan(self) -> str:
        """When it was made; "" if there is none."""
        return str((((await self._status_of_rebalancer()).get("lastPlan")) or {}).get("time") or "")

    async def _status_of_rebalancer(self) -> dict[str, Any]:
        path = api_path("v1", "configmaps", namespace=OWN_NAMESPACE, name=REBALANCER)
        try:
            text = json.loads(await self._client.get(path))["data"]["status.json"]
        except NotFound:
            return {}
        return dict(json.loads(text))

    # Objects ----------------------------------------------------------------------------------------------------------

    async def _build(self) -> None:
        for name in (OWN_NAMESPACE, _STANDING, _ARRIVING):
            await self._client.post("/api/v1/namespaces", {"metadata": {"name": name}})
        ready = {"type": "Ready", "status": "True", "reason": "Played"}
        status = {"capacity": _ALLOCATABLE, "allocatable": _ALLOCATABLE, "conditions": [ready]}
        nodes = (
            self._client.post("/api/v1/nodes", {"metadata": {"name": name}, "status": status}) for name in self._names
        )
        await at_once(nodes, _CREATORS)
        for item in stand_in(self._names[1], self._config.read_text()):
            await apply(self._client, item, "beside")
        await self._status("deployments", OWN_NAMESPACE, SCHEDULER, updatedReplicas=1)
        workloads = [f"web-{number:03d}" for number in range(self._options.standing // _REPLICAS)]
        for workload in workloads:
            await self._workload(workload)

    async def _workload(self, name: str) -> None:
        """A ReplicaSet whose pods run; no controller is there to make them."""
        labels = {"app": name}
        container = {"name": "c", "image": "registry.example.com/shop/web:1", "resources": {"requests": _REQUESTS}}
        template = {"metadata": {"labels": labels}, "spec": {"schedulerName": _PROFILE, "containers": [container]}}
        spec = {"replicas": _REPLICAS, "selector": {"matchLabels": labels}, "template": template}
        kind = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
        replica_set = {**kind, "metadata": {"name": name, "namespace": _STANDING}, "spec": spec}
        created = await apply(self._client, replica_set, "beside")
        owner = {**kind, "name": name, "uid": created["metadata"]["uid"], "controller": True}
        await self._status("replicasets", _STANDING, name, readyReplicas=_REPLICAS)
        began = int(name.rpartition("-")[2])
        conditions = [{"type": kind, "status": "True"} for kind in ("Ready", "PodScheduled")]
        for number in range(_REPLICAS):
            pod, node = f"{name}-{number:02d}", self._names[(began + number) % len(self._names)]
            metadata = {"labels": labels, "ownerReferences": [owner]}
            await self._create(pod, _STANDING, metadata, schedulerName=_PROFILE, nodeName=node)
            status = {"phase": "Running", "startTime": format_time(datetime.now(UTC)), "conditions": conditions}
            path = f"{api_path('v1', 'pods', namespace=_STANDING)}/{pod}/status"
            await self._client.patch(path, {"status": status}, content_type=MERGE_PATCH)

    async def _create(self, name: str, namespace: str, metadata: Json | None = None, **spec: Any) -> None:
        container = {"name": "c", "image": "registry.example.com/shop/web:1", "resources": {"requests": _REQUESTS}}
        full = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
        body = {"metadata": {"name": name, **(metadata or {})}, "spec": full}
        await self._client.post(api_path("v1", "pods", namespace=namespace), body)

    async def _status(self, plural: str, namespace: str, name: str, **more: int) -> None:
        replicas = next(iter(more.values()))
        status = {"replicas": replicas, "availableReplicas": replicas, "observedGeneration": 1, **more}
        status["readyReplicas"] = replicas
        path = f"{api_path('apps/v1', plural, namespace=namespace, name=name)}/status"
        await self._client.patch(path, {"status": status}, content_type=MERGE_PATCH)

    # Processes --------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _running(self, service: ServiceProcess) -> Iterator[ProcessRecord]:
        record = processes.start(service, self._cluster.layout.root)
        try:
            processes.wait_ready(service, record)
            yield record
            servers.require_alive(record)
        finally:
            processes.stop([record])

    def _scheduler(self) -> ServiceProcess:
        port = ports.allocate(["scheduler"], {})["scheduler"]
        kubeconfig = self._cluster.layout.kubeconfig
        rights = [f"--{purpose}-kubeconfig={kubeconfig}" for purpose in ("authentication", "authorization")]
        argv = [sys.executable, "-m", "scheduler", f"--config={self._config}", f"--bind-address={LOOPBACK}"]
        return ServiceProcess(
            "measured-scheduler",
            [*argv, f"--secure-port={port}", *rights],
            ports=[port],
            env={"PYTHONPATH": str(ROOT)},
            ready=https_ok(port, "/readyz", None),
        )

    def _rebalancer(self) -> ServiceProcess:
        settings = self._cluster.layout.config("beside-settings.json")
        settings.write_text(json.dumps(_SETTINGS))
        argv = [sys.executable, "-m", "secondary_scheduler.rebalancer", "--mode=Predictive", f"--config={self._config}"]
        argv += [f"--settings={settings}", f"--kubeconfig={self._cluster.layout.kubeconfig}"]
        argv += [f"--bind-address={LOOPBACK}", f"--namespace={OWN_NAMESPACE}", f"--name={REBALANCER}"]
        argv += [f"--scheduler={OWN_NAMESPACE}/{SCHEDULER}", "--port=0", "--metrics-port=0"]
        return ServiceProcess(REBALANCER, argv, env={"PYTHONPATH": str(ROOT)})


def _order(number: int) -> tuple[bool, bool]:
    """Whether the rebalancer runs in the first and in the second turn of a pair."""
    return (False, True) if number % 2 == 0 else (True, False)


def _configuration(cluster: RaceCluster, address: str) -> str:
    load = {"refreshSeconds": 2, "window": "1s"}
    profile: Json = {
        "schedulerName": _PROFILE,
        "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 10}]}},
        "pluginConfig": [
            {"name": "TargetLoadPacking", "args": {"watcherAddress": address}},
            # A node that is younger than a window takes nothing, and these are.
            {"name": "SecondarySchedulerOptions", "args": {"load": load}},
        ],
    }
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(cluster.layout.kubeconfig), "qps": QPS, "burst": BURST},
            "leaderElection": {"leaderElect": True, "resourceNamespace": OWN_NAMESPACE, "resourceName": SCHEDULER},
            "profiles": [profile],
        }
    )
