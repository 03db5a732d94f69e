"""Gangs on a real API server with our daemon as a process, which a test may kill."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.apiclient import Api
from tests.conformance.controlplane import ControlPlane
from tests.support.waiting import PATIENCE_SECONDS

Json = dict[str, Any]
LABEL = "scheduling.x-k8s.io/pod-group"
SCHEDULER = "gangs"
_CRD = Path(__file__).parents[3] / "components/crds/scheduling.x-k8s.io_podgroups.yaml"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Daemon:
    """Our scheduler with Coscheduling; `qps` slows its bindings down."""

    def __init__(self, plane: ControlPlane, directory: Path, *, qps: int = 500, profiles: tuple[str, ...]) -> None:
        self._config = directory / "config.json"
        self._logs = directory
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        points = {
            "queueSort": {"enabled": [{"name": "Coscheduling"}], "disabled": [{"name": "*"}]},
            "multiPoint": {"enabled": [{"name": "Coscheduling"}]},
        }
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {"kubeconfig": str(plane.layout.kubeconfig), "qps": qps, "burst": qps},
            "profiles": [{"schedulerName": name, "plugins": points} for name in profiles],
        }
        self._config.write_text(json.dumps(configuration))

    def start(self) -> None:
        """Start it and wait until it schedules."""
        self._starts += 1
        log = self._logs / f"{self._starts}.log"
        environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
        command = [sys.executable, "-m", "scheduler", f"--config={self._config}", "--secure-port=0"]
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while "caches are filled" not in log.read_text():
            assert self._process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.05)

    def kill(self) -> None:
        """End it without any warning."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask it to end."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """What it has written since it was last started."""
        return (self._logs / f"{self._starts}.log").read_text()


@contextlib.contextmanager
def daemon_running(
    plane: ControlPlane, directory: Path, *, qps: int = 500, profiles: tuple[str, ...] = (SCHEDULER,)
) -> Iterator[Daemon]:
    """Run the daemon; in the end it must be alive and have raised nothing."""
    daemon = Daemon(plane, directory, qps=qps, profiles=profiles)
    daemon.start()
    try:
        yield daemon
        assert daemon.is_alive, daemon.log[-2000:]
        assert "Traceback" not in daemon.log, daemon.log[-4000:]
    finally:
        daemon.stop()


class Cluster:
    """What a test does to the API server, in a namespace of its own."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self.namespace = namespace

    async def prepare(self) -> None:
        """Make the namespace."""
        await self._api.create({"kind": "Namespace", "metadata": {"name": self.namespace}})

    async def clear(self) -> None:
        """Take pods, groups and nodes away."""
        await self._api.delete_all("Pod", self.namespace)
        with contextlib.suppress(Exception):
            await self._api.delete_all("PodGroup", self.namespace)
        await self._api.delete_all("Node")

    async def create_kind(self) -> None:
        """Install the CRD and wait until it is served."""
        await self._api.call("POST", _CRDS, yaml.safe_load(_CRD.read_text()))
        await self.until(self._is_served, "the PodGroup kind")

    async def _is_served(self) -> bool:
        with contextlib.suppress(Exception):
            await self._api.list_all("PodGroup", self.namespace)
            return True
        return False

    async def node(self, name: str, cpu: int, **labels: str) -> None:
        """Add a node."""
        resources = {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}
        status = {"capacity": resources, "allocatable": resources}
        await self._api.create({"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status})

    async def group(self, name: str, minimum: int, annotations: Mapping[str, str] | None = None) -> None:
        """Add a PodGroup; the kind, too, where no test before this one has."""
        if not await self._is_served():
            await self.create_kind()
        metadata = {"name": name, "namespace": self.namespace, "annotations": dict(annotations or {})}
        item = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": metadata,
            "spec": {"minMember": minimum},
        }
        await self._api.create(item)

    async def pods(self, group: str, count: int, *, scheduler: str = SCHEDULER, label: bool = True) -> None:
        """Add pods of one CPU each, `group-0` and so on."""
        for number in range(count):
            await self.member(f"{group}-{number}", group if label else "", scheduler=scheduler)

    async def member(self, name: str, group: str, *, scheduler: str = SCHEDULER) -> None:
        """Add a pod of one CPU."""
        metadata: Json = {"name": name, "namespace": self.namespace}
        if group:
            metadata["labels"] = {LABEL: group}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [container]}
        await self._api.create({"kind": "Pod", "metadata": metadata, "spec": spec})

    async def finish(self, group: str) -> None:
        """Let all pods of a group end."""
        for pod in await self._all():
            if pod["metadata"].get("labels", {}).get(LABEL) == group:
                await self._api.set_status({**pod, "kind": "Pod"}, {"phase": "Succeeded"})

    async def bound(self, group: str = "") -> int:
        """How many pods (of a group) have a node and have not ended."""
        return sum(
            1
            for pod in await self._all()
            if pod["spec"].get("nodeName")
            and pod["status"]["phase"] == "Pending"
            and group in ("", pod["metadata"].get("labels", {}).get(LABEL))
        )

    async def nodes(self, group: str) -> set[str]:
        """The nodes of a group's pods."""
        pods = [pod for pod in await self._all() if pod["metadata"].get("labels", {}).get(LABEL) == group]
        return {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}

    async def message(self, name: str) -> str:
        """Why a pod is not scheduled, as its condition says."""
        for pod in await self._all():
            if pod["metadata"]["name"] == name:
                for condition in pod["status"].get("conditions", ()):
                    if condition["type"] == "PodScheduled":
                        return str(condition.get("message", ""))
        return ""

    async def until(self, check: Any, awaited: str, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for something to become true."""
        deadline = time.monotonic() + seconds
        while not await check():
            assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {awaited}"
            await asyncio.sleep(0.05)

    async def _all(self) -> list[Json]:
        answer = await self._api.call("GET", f"/api/v1/namespaces/{self.namespace}/pods")
        return list(answer["items"])
