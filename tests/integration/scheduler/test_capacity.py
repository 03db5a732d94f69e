"""Quotas and protected classes with our daemon on a real API server: the CRD comes when the daemon runs already; pods
wait for room in their quota and get it, are taken back from borrowers, and are spared where their class says so.

There is no kubelet: pods are deleted without grace.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.plugins.preemptiontoleration import MINIMUM, SECONDS
from tests.conformance.apiclient import Api
from tests.conformance.capacity import QUOTA_CRD
from tests.conformance.controlplane import ControlPlane, control_plane_running
from tests.conformance.schedulerplugins import install_crds
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.integration]

Json = dict[str, Any]
_NUMBERS = itertools.count()


def _profile(name: str, plugin: str) -> Json:
    plugins = {
        "multiPoint": {"enabled": [{"name": plugin}]},
        "postFilter": {"enabled": [{"name": plugin}], "disabled": [{"name": "*"}]},
    }
    return {"schedulerName": name, "plugins": plugins}


@contextlib.contextmanager
def _daemon(plane: ControlPlane, directory: Path) -> Iterator[None]:
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(plane.layout.kubeconfig)},
        "profiles": [_profile("quotas", "CapacityScheduling"), _profile("tolerant", "PreemptionToleration")],
    }
    config, log = directory / "config.yaml", directory / "log"
    config.write_text(json.dumps(configuration))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    command = [sys.executable, "-m", "scheduler", f"--config={config}", "--secure-port=0"]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as daemon:
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while "caches are filled" not in log.read_text():
                assert daemon.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < deadline, log.read_text()[-2000:]
                time.sleep(0.1)
            yield
            assert daemon.poll() is None, log.read_text()[-2000:]
            assert "Traceback" not in log.read_text(), log.read_text()[-4000:]
        finally:
            daemon.terminate()


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane_running() as plane, _daemon(plane, tmp_path_factory.mktemp("daemon")):
        asyncio.run(install_crds(plane, [QUOTA_CRD]))
        yield plane


class QuotaNamespaces:
    """One node, and two namespaces of the test's own."""

    def __init__(self, api: Api) -> None:
        self.api = api
        number = next(_NUMBERS)
        self.mine, self.theirs = f"mine-{number}", f"theirs-{number}"
        self.node = f"node-{number}"

    async def prepare(self, cpu: str) -> None:
        for namespace in (self.mine, self.theirs):
            await self.api.create({"kind": "Namespace", "metadata": {"name": namespace}})
        resources = {"cpu": cpu, "memory": "8Gi", "pods": "20"}
        status = {"capacity": resources, "allocatable": resources}
        labels = {"kubernetes.io/hostname": self.node}
        await self.api.create({"kind": "Node", "metadata": {"name": self.node, "labels": labels}, "status": status})

    async def quota(self, namespace: str, least: str, most: str) -> None:
        item = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "quota", "namespace": namespace},
            "spec": {"min": {"cpu": least}, "max": {"cpu": most}},
        }
        await self.api.create(item)

    async def change_quota(self, namespace: str, most: str) -> None:
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas/quota"
        await self.api.call("PATCH", path, {"spec": {"max": {"cpu": most}}})

    async def pod(self, namespace: str, name: str, cpu: str, *, scheduler: str = "quotas", klass: str = "") -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
        spec = {
            "schedulerName": scheduler,
            "containers": [container],
            "terminationGracePeriodSeconds": 0,
            "priorityClassName": klass,
            "nodeSelector": {"kubernetes.io/hostname": self.node},
        }
        await self.api.create({"kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec})

    async def bound(self, namespace: str, name: str, seconds: float = PATIENCE_SECONDS) -> None:
        async with asyncio.timeout(seconds):
            while not (await self._read(namespace, name))["spec"].get("nodeName"):  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    async def refused(self, namespace: str, name: str, seconds: float = PATIENCE_SECONDS) -> str:
        """Wait until a pod has been rejected; return what it was told."""
        async with asyncio.timeout(seconds):
            while True:
                for condition in (await self._read(namespace, name)).get("status", {}).get("conditions", []):
                    if condition["type"] == "PodScheduled" and condition["status"] == "False":
                        return str(condition["message"])
                await asyncio.sleep(0.05)

    async def quota_is_followed(self, namespace: str) -> None:
        """Wait until the daemon knows a quota: the kind is new, and looked for every few seconds."""
        for number in itertools.count():
            name = f"probe-{number}"
            await self.pod(namespace, name, "1000")
            message = await self.refused(namespace, name)
            await self.api.delete({"kind": "Pod", "metadata": {"name": name, "namespace": namespace}})
            if "is more than Max" in message:
                return
            await asyncio.sleep(0.2)

    async def names(self, namespace: str) -> set[str]:
        return {item["metadata"]["name"] for item in await self.api.list_all("Pod", namespace)}

    async def _read(self, namespace: str, name: str) -> Json:
        return await self.api.get({"kind": "Pod", "metadata": {"name": name, "namespace": namespace}})


@pytest.fixture
async def world(plane: ControlPlane) -> AsyncIterator[QuotaNamespaces]:
    api = Api(plane)
    world = QuotaNamespaces(api)
    try:
        yield world
        for namespace in (world.mine, world.theirs):
            for kind in ("Pod", "ElasticQuota"):
                await api.delete_all(kind, namespace)
        await api.delete({"kind": "Node", "metadata": {"name": world.node}})
    finally:
        await api.close()


async def test_a_pod_waits_for_room_in_its_quota_and_gets_it(world: QuotaNamespaces) -> None:
    await world.prepare("20")
    await world.quota(world.mine, "5", "3")
    await world.quota_is_followed(world.mine)
    await world.pod(world.mine, "one", "2")
    await world.bound(world.mine, "one")
    await world.pod(world.mine, "two", "2")
    start = f"0/1 nodes are available: Pod {world.mine}/two is rejected in PreFilter because"
    assert (await world.refused(world.mine, "two")).startswith(
        f"{start} ElasticQuota {world.mine} is more than Max (cpu: 2 requested, 2 used, max 3)."
    )
    await world.change_quota(world.mine, "4")
    await world.bound(world.mine, "two")
    await world.pod(world.mine, "three", "2")
    await world.refused(world.mine, "three")
    await world.api.delete({"kind": "Pod", "metadata": {"name": "one", "namespace": world.mine}})
    await world.bound(world.mine, "three")


async def test_what_was_borrowed_is_taken_back(world: QuotaNamespaces) -> None:
    await world.prepare("4")
    await world.quota(world.mine, "2", "4")
    await world.quota(world.theirs, "2", "4")
    for namespace in (world.mine, world.theirs):
        await world.quota_is_followed(namespace)
    for number in range(4):
        await world.pod(world.theirs, f"borrower-{number}", "1")
        await world.bound(world.theirs, f"borrower-{number}")
    await world.pod(world.mine, "owner", "2")
    await world.bound(world.mine, "owner")
    assert len(await world.names(world.theirs)) == 2, "no more went than had to"
    await world.pod(world.mine, "more", "1")
    assert "total ElasticQuota used is more than min" in await world.refused(world.mine, "more")
    assert len(await world.names(world.theirs)) == 2, "they are within their guarantee now"


async def test_a_protected_pod_is_spared_and_another_goes(world: QuotaNamespaces) -> None:
    await world.prepare("2")
    for name, value, policy in (
        ("urgent", 100, {}),
        ("spared", 10, {MINIMUM: "1000", SECONDS: "-1"}),
        ("ordinary", 10, {}),
    ):
        metadata = {"name": f"{name}-{world.mine}", "annotations": policy}
        await world.api.create({"kind": "PriorityClass", "metadata": metadata, "value": value})
    await asyncio.sleep(1)
    for name in ("spared", "ordinary"):
        await world.pod(world.mine, name, "1", scheduler="tolerant", klass=f"{name}-{world.mine}")
        await world.bound(world.mine, name)
    await world.pod(world.mine, "urgent", "1", scheduler="tolerant", klass=f"urgent-{world.mine}")
    await world.bound(world.mine, "urgent")
    assert await world.names(world.mine) == {"spared", "urgent"}
    await world.pod(world.mine, "second", "1", scheduler="tolerant", klass=f"urgent-{world.mine}")
    assert "No preemption victims found for incoming pod" in await world.refused(world.mine, "second")
