"""A soak: pods and gangs come, are bound and go while nodes are replaced; nothing in the scheduler may grow with them.

Every batch brings names, labels and gangs that were never there before, of pods that are otherwise alike: what is kept
of each sort of pod has a bound of its own (16 MiB for columns alone), which the warm-up shall fill. Between batches,
when nothing is left to do, memory, descriptors, threads, series in /metrics and the log are measured; a figure that
grows has a slope over the pods that is above zero by more than its confidence interval.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import random
import ssl
import statistics
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from devcluster import ports
from tests.conformance.apiclient import Api
from tests.faults.fits import GROUP_LABEL
from tests.faults.plane import FaultPlane
from tests.faults.stage import GANGS

Json = dict[str, Any]
PLANE_FLAGS = ("--etcd-compaction-interval=1m", "--audit-policy-file=", "--audit-log-path=", "--event-ttl=1m")
"""Nobody reads the past here, and 100,000 pods have much of it."""
_NAMESPACE = "soak"
_NODES, _CPU = 40, "16"
BATCH = 250
_SORTS = 40
"""Of pods: as many Deployments, say. Caches keep something of each."""
_PATIENCE_SECONDS = 300.0
_WARM_UP = 0.2
"""Share of the samples that are left out: caches fill, the allocator takes its pools."""
_LEAST_SAMPLES = 8


@dataclass(frozen=True)
class Slope:
    """How a figure changes with each 1,000 pods."""

    per_thousand: float
    margin: float
    """Half of the interval that holds the true value in 95 of 100 soaks."""
    mean: float

    @property
    def grows(self) -> bool:
        """Whether it is above zero beyond doubt."""
        return self.per_thousand > self.margin

    def row(self) -> Json:
        """As JSON."""
        return {"per_1000_pods": round(self.per_thousand, 3), "margin": round(self.margin, 3),
                "mean": round(self.mean, 3), "grows": self.grows}  # fmt: skip


def slope(pods: Sequence[float], values: Sequence[float]) -> Slope:
    """The least squares' slope. What one sample has in common with the next makes the interval wider: for the number of
    samples, that of independent ones counts."""
    fit = statistics.linear_regression(pods, values)
    rest = [value - fit.slope * at - fit.intercept for at, value in zip(pods, values, strict=True)]
    spread = sum((at - statistics.fmean(pods)) ** 2 for at in pods)
    total = sum(each * each for each in rest)
    follows = sum(a * b for a, b in itertools.pairwise(rest)) / total if total else 0.0
    likeness = min(max(follows, 0.0), 0.99)
    independent = max(len(pods) * (1 - likeness) / (1 + likeness), 3.0)
    freedom = independent - 2  # two parameters were fitted
    student = 1.96 + 2.4 / freedom + 8.3 / freedom**3  # Student's quantile to a hundredth
    error = math.sqrt(total / (len(pods) - 2) / spread * len(pods) / independent)
    return Slope(fit.slope * 1000, student * error * 1000, statistics.fmean(values))


def slopes(samples: Sequence[Mapping[str, float]]) -> dict[str, Slope]:
    """Of every figure, without the warm-up. Empty when there are too few samples."""
    steady = samples[math.ceil(len(samples) * _WARM_UP) :]
    if len(steady) < _LEAST_SAMPLES:
        return {}
    pods = [sample["pods"] for sample in steady]
    figures = [name for name in steady[0] if name not in ("pods", "seconds")]
    return {name: slope(pods, [sample[name] for sample in steady]) for name in figures}


class Soak:
    """The scheduler under test, alone on its control plane, and what it is made to do."""

    def __init__(self, plane: FaultPlane, directory: Path, seed: int, batch: int = BATCH) -> None:
        """`batch`: pods between two replaced nodes; fewer show sooner what a node or a pod that fits nowhere leaves."""
        self._plane = plane
        self._at_once = batch
        self._draw = random.Random(seed)
        self._directory = directory
        self._log = directory / "soak.log"
        self._port = ports.allocate(["scheduler"], {})["scheduler"]
        self._sorts = [self._new_sort(number) for number in range(_SORTS)]
        self._nodes: list[str] = []
        self._made_nodes = 0
        self._process: asyncio.subprocess.Process | None = None
        self._last_log = 0
        self.samples: list[dict[str, float]] = []

    async def run(self, pods: int, minutes: float = 0.0) -> AsyncIterator[dict[str, float]]:
        """Bring so many pods, or as many as fit in the time; yields a sample after each batch.

        Raises:
            AssertionError: the scheduler ended, or pods that fit were not bound.
        """
        api = Api(self._plane)
        started, done = time.monotonic(), 0
        try:
            await api.create({"kind": "Namespace", "metadata": {"name": _NAMESPACE}})
            for _ in range(_NODES):
                await self._add_node(api)
            await self._start()
            while done < pods and not (minutes and time.monotonic() - started > minutes * 60):
                count = min(self._at_once, pods - done)
                await self._batch(api, done, count)
                done += count
                self.samples.append(await self._sample(done, count, time.monotonic() - started))
                yield self.samples[-1]
        finally:
            await self._end()
            await api.close()

    async def _start(self) -> None:
        config = self._directory / "soak.json"
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(self._plane.layout.kubeconfig), "qps": 1000, "burst": 1000},
            "profiles": [{"schedulerName": _NAMESPACE, **GANGS}],
        }
        config.write_text(json.dumps(configuration))
        flags = [f"--config={config}", "--bind-address=127.0.0.1", f"--secure-port={self._port}"]
        flags += ["--authorization-always-allow-paths=/metrics", "--logging-format=json"]
        with self._log.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "scheduler", *flags, stdout=output, stderr=output
            )

    async def _end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()

    async def _add_node(self, api: Api) -> None:
        name = f"node-{self._made_nodes}"
        self._made_nodes += 1
        amounts = {"cpu": _CPU, "memory": "64Gi", "pods": "250"}
        labels = {"kubernetes.io/hostname": name, "zone": str(self._made_nodes % 3)}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        await api.create({"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status})
        self._nodes.append(name)

    async def _batch(self, api: Api, done: int, count: int) -> None:
        """Pods come and are bound, a node comes, all pods go, a node goes."""
        members = 4
        gang = f"gang-{done}"
        version = "scheduling.x-k8s.io/v1alpha1"
        metadata = {"name": gang, "namespace": _NAMESPACE}
        spec = {"minMember": members, "scheduleTimeoutSeconds": 60}
        await api.create({"apiVersion": version, "kind": "PodGroup", "metadata": metadata, "spec": spec})
        pods = [self._pod(f"pod-{done + number}", gang if number < members else "") for number in range(count)]
        # One that fits nowhere, with selectors that no other pod has: it must leave nothing behind.
        pods.append(self._hopeless(f"hopeless-{done}"))
        await asyncio.gather(*map(api.create, pods))
        await self._until_bound(api, 1)
        await self._add_node(api)
        await api.delete_all("Pod", _NAMESPACE)
        await api.delete_all("PodGroup", _NAMESPACE)
        await api.delete({"kind": "Node", "metadata": {"name": self._nodes.pop(self._draw.randrange(_NODES))}})

    def _new_sort(self, number: int) -> Json:
        app, cpu = f"app-{number}", f"{self._draw.choice((50, 100, 200))}m"
        amounts = {"cpu": cpu, "memory": "64Mi"}
        container = {"name": "c", "image": f"image-{number}", "resources": {"requests": amounts}}
        spec: Json = {"schedulerName": _NAMESPACE, "containers": [container]}
        if number % 8 == 0:
            constraint = {"maxSkew": 5, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
            spec["topologySpreadConstraints"] = [constraint | {"labelSelector": {"matchLabels": {"app": app}}}]
        return {"labels": {"app": app}, "spec": spec}

    def _pod(self, name: str, gang: str) -> Json:
        sort = self._draw.choice(self._sorts)
        labels = {**sort["labels"], "instance": name}
        if gang:
            labels[GROUP_LABEL] = gang
        metadata = {"name": name, "namespace": _NAMESPACE, "labels": labels}
        return {"kind": "Pod", "metadata": metadata, "spec": dict(sort["spec"])}

    def _hopeless(self, name: str) -> Json:
        item = self._pod(name, "")
        expressions = [{"key": f"only-for-{name}", "operator": "Exists"}]
        term = {"topologyKey": "zone", "labelSelector": {"matchExpressions": expressions}}
        item["spec"]["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        return item

    async def _until_bound(self, api: Api, waiting: int) -> None:
        """Wait until no more pods than that are without a node."""
        path = f"/api/v1/namespaces/{_NAMESPACE}/pods?fieldSelector=spec.nodeName%3D&limit={waiting + 1}"
        started = time.monotonic()
        while len((await api.call("GET", path))["items"]) > waiting:
            assert self._process is not None
            assert self._process.returncode is None, self._log.read_text(errors="replace")[-1500:]
            assert time.monotonic() - started < _PATIENCE_SECONDS, "pods that fit are not bound"
            await asyncio.sleep(0.1)

    async def _sample(self, done: int, count: int, seconds: float) -> dict[str, float]:
        assert self._process is not None
        process = psutil.Process(self._process.pid)
        text = await self._metrics()
        log = self._log.stat().st_size
        sample = {
            "pods": float(done),
            "seconds": seconds,
            "resident_bytes": float(process.memory_info().rss),
            "descriptors": float(process.num_fds()),
            "threads": float(process.num_threads()),
            "series": float(sum(bool(line) and not line.startswith("#") for line in text.splitlines())),
            "log_bytes_per_pod": (log - self._last_log) / count,
        }
        self._last_log = log
        return sample

    async def _metrics(self) -> str:
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://127.0.0.1:{self._port}/metrics", ssl=tls) as answer,
        ):
            assert answer.status == 200, answer.status
            return await answer.text()
