"""Pods that are resized in place, on a real API server: what they request counts from then on, and what the kubelet has
granted for as long as it is more. There is no kubelet: the tests write its words."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.apiclient import Api
from tests.conformance.controlplane import ControlPlane
from tests.integration.scheduler.preemption import OURS, our_daemon
from tests.support.waiting import eventually_async

pytestmark = [pytest.mark.integration, pytest.mark.slow]

Json = dict[str, Any]
NODE, NAMESPACE = "resizing", "default"


class OneNode:
    """One node of one CPU."""

    def __init__(self, api: Api) -> None:
        self.api = api

    async def prepare(self) -> None:
        amounts = {"cpu": "1", "memory": "8Gi", "pods": "20"}
        status = {"capacity": amounts, "allocatable": amounts}
        await self.api.create({"kind": "Node", "metadata": {"name": NODE}, "status": status})

    async def pod(self, name: str, cpu: str) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": "4"}}}
        await self.api.create(
            {
                "kind": "Pod",
                "metadata": {"name": name, "namespace": NAMESPACE},
                "spec": {"schedulerName": OURS, "containers": [container], "terminationGracePeriodSeconds": 0},
            }
        )

    async def resize(self, name: str, cpu: str) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": "4"}}}
        await self.api.call("PATCH", f"{self._path(name)}/resize", {"spec": {"containers": [container]}})

    async def kubelet_says(self, name: str, allocated: str, in_effect: str, **condition: str) -> None:
        """A kubelet's words about a resize: of the container, and why it has not been carried out."""
        status = {
            "name": "c", "image": "i", "imageID": "i", "ready": True, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "allocatedResources": {"cpu": allocated},
            "resources": {"requests": {"cpu": in_effect}},
        }  # fmt: skip
        conditions = [{"type": "PodResizePending", "status": "True", **condition}] if condition else []
        body = {"status": {"phase": "Running", "containerStatuses": [status], "conditions": conditions}}
        await self.api.call("PATCH", f"{self._path(name)}/status", body)

    async def placed(self, name: str) -> None:
        async def has_node() -> bool:
            return bool((await self.api.call("GET", self._path(name)))["spec"].get("nodeName"))

        await eventually_async(has_node, f"{name} gets the node")

    async def refused(self, name: str) -> None:
        async def is_refused() -> bool:
            pod = await self.api.call("GET", self._path(name))
            conditions = pod["status"].get("conditions") or []
            return any("Insufficient cpu" in condition.get("message", "") for condition in conditions)

        await eventually_async(is_refused, f"{name} has no room")

    def _path(self, name: str) -> str:
        return f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"


@pytest.fixture
async def stage(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[OneNode]:
    api = Api(plane)
    stage = OneNode(api)
    await stage.prepare()
    with our_daemon(plane, tmp_path):
        yield stage
        await api.delete_all("Pod", NAMESPACE)
        await api.delete_all("Node")
    await api.close()


async def test_what_a_resized_pod_requests_counts_at_once_and_its_shrinking_wakes_a_pod_that_waits(
    stage: OneNode,
) -> None:
    await stage.pod("grows", "300m")
    await stage.placed("grows")
    await stage.resize("grows", "700m")
    await stage.pod("waits", "500m")
    await stage.refused("waits")
    await stage.resize("grows", "400m")
    await stage.placed("waits")


async def test_what_is_in_effect_counts_until_the_kubelet_has_taken_it_back(stage: OneNode) -> None:
    await stage.pod("shrinks", "800m")
    await stage.placed("shrinks")
    await stage.kubelet_says("shrinks", "800m", "800m")
    await stage.resize("shrinks", "200m")
    await stage.pod("waits", "500m")
    await stage.refused("waits")
    await stage.kubelet_says("shrinks", "200m", "200m")
    await stage.placed("waits")


async def test_a_deferred_resize_holds_its_room_and_an_infeasible_one_does_not(stage: OneNode) -> None:
    await stage.pod("grows", "300m")
    await stage.placed("grows")
    await stage.resize("grows", "900m")
    await stage.kubelet_says("grows", "300m", "300m", reason="Deferred")
    await stage.pod("waits", "500m")
    await stage.refused("waits")
    await stage.kubelet_says("grows", "300m", "300m", reason="Infeasible")
    await stage.placed("waits")


async def test_a_pod_that_waits_and_is_made_smaller_gets_the_node(stage: OneNode) -> None:
    await stage.pod("fills", "600m")
    await stage.placed("fills")
    await stage.pod("waits", "600m")
    await stage.refused("waits")
    await stage.resize("waits", "300m")
    await stage.placed("waits")
