"""A pod's way from its assignment to its removal, judged by what the agent asks of the API server."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from devcluster.node_agent.addresses import AddressPool
from devcluster.node_agent.containers import NodeRuntime
from devcluster.node_agent.events import PodEventRecorder
from devcluster.node_agent.images import ImageMap
from devcluster.node_agent.objects import DataKind, Obj
from devcluster.node_agent.pod import PodWorker
from devcluster.node_agent.probing import Prober
from devcluster.node_agent.process_containers import ProcessContainers
from devcluster.node_agent.sandbox.directory import DirectorySandbox

POD: Obj = {
    "metadata": {"name": "p", "namespace": "n", "uid": "u"},
    "spec": {
        "containers": [{"name": "c", "image": "example.com/none", "imagePullPolicy": "Never"}],
        "volumes": [{"name": "config", "configMap": {"name": "settings"}}],
    },
}
DELETED: Obj = {
    **POD,
    "metadata": {**POD["metadata"], "deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30},
}


class FakeApi:
    """Accepts everything and notes the deletions."""

    def __init__(self) -> None:
        self.deleted: list[dict[str, Any]] = []

    async def get(self, path: str) -> Obj:
        return {}

    async def create(self, path: str, body: Obj) -> Obj:
        return body

    async def patch(self, path: str, body: Obj) -> Obj:
        return body

    async def delete(self, path: str, options: dict[str, Any]) -> None:
        self.deleted.append(options)


class FakeStore:
    """Holds one ConfigMap, or nothing; ``asked`` is set by each question."""

    def __init__(self) -> None:
        self.config_map: Obj | None = None
        self.asked = asyncio.Event()

    async def follow(self, owner: str, namespace: str, references: Collection[tuple[DataKind, str]]) -> None:
        return

    def release(self, owner: str) -> None:
        return

    def get(self, kind: DataKind, namespace: str, name: str) -> Obj | None:
        self.asked.set()
        return self.config_map


class FakeRecorder(PodEventRecorder):
    """Notes reasons."""

    def __init__(self, api: FakeApi) -> None:
        super().__init__(api, "real-0", clock=lambda: 0.0)
        self.reasons: list[str] = []

    def _put(self, pod: Obj, kind: str, reason: str, message: str, container: str) -> None:
        self.reasons.append(reason)


def node(directory: Path, api: FakeApi, store: FakeStore, recorder: FakeRecorder) -> NodeRuntime:
    return NodeRuntime(
        name="real-0", host_ip="127.0.0.1", service_env={}, allocatable={}, state_dir=directory, api=api,
        recorder=recorder, containers=ProcessContainers(ImageMap({}), DirectorySandbox(directory), "0"),
        prober=Prober(), store=store, addresses=AddressPool("127.10.0.0/24"), clock=lambda: 0.0,
    )  # fmt: skip


@dataclass
class Waiting:
    """A pod whose ConfigMap was missing, and exists by now."""

    worker: PodWorker
    life: asyncio.Task[None]
    api: FakeApi
    recorder: FakeRecorder


async def waiting_for_a_volume(directory: Path, steps: int) -> Waiting:
    """`steps`: turns of the event loop from the moment that the ConfigMap was missed."""
    api, store = FakeApi(), FakeStore()
    recorder = FakeRecorder(api)
    worker = PodWorker(node(directory, api, store, recorder), POD)
    life = asyncio.create_task(worker.run())
    await store.asked.wait()
    for _ in range(steps):
        await asyncio.sleep(0)
    store.config_map = {"data": {"a": "1"}}
    return Waiting(worker, life, api, recorder)


STEPS = pytest.mark.parametrize("steps", range(6))
REMOVED = [{"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}}]


@STEPS
async def test_a_pod_deleted_while_it_waits_for_a_volume_is_removed_and_starts_nothing(
    tmp_path: Path, steps: int
) -> None:
    pod = await waiting_for_a_volume(tmp_path, steps)
    pod.worker.update(DELETED)
    async with asyncio.timeout(30):
        await pod.life
    assert (pod.api.deleted, pod.recorder.reasons) == (REMOVED, ["FailedMount"])


@STEPS
async def test_a_pod_deleted_in_the_moment_in_which_its_volume_appears_is_removed(tmp_path: Path, steps: int) -> None:
    pod = await waiting_for_a_volume(tmp_path, steps)
    pod.worker.data_changed("ConfigMap", "settings")
    pod.worker.update(DELETED)
    async with asyncio.timeout(30):
        await pod.life
    assert pod.api.deleted == REMOVED
