"""The daemon with NetworkOverhead, SySched and TopologicalSort: before their CRDs are there, when they come, and when
their objects change; and with NodeMetadata."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.apiclient import Api
from tests.conformance.controlplane import control_plane_running
from tests.conformance.schedulerplugins import install_crds
from tests.integration.scheduler.preemption import OURS, our_daemon
from tests.support.waiting import PATIENCE_SECONDS

Json = dict[str, Any]
GROUP, WORKLOAD = "appgroup.diktyo.x-k8s.io", "appgroup.diktyo.x-k8s.io.workload"
ZONE = "topology.kubernetes.io/zone"
PROFILE = {
    "plugins": {
        "queueSort": {"enabled": [{"name": "TopologicalSort"}], "disabled": [{"name": "PrioritySort"}]},
        "preFilter": {"enabled": [{"name": "NetworkOverhead"}]},
        "filter": {"enabled": [{"name": "NetworkOverhead"}]},
        "score": {
            "enabled": [
                {"name": name} for name in ("NetworkOverhead", "SySched", "PodState", "NodeResourcesAllocatable")
            ],
            "disabled": [{"name": "*"}],
        },
    },
    "pluginConfig": [{"name": "NetworkOverhead", "args": {"networkTopologyName": "costs"}}],
}

pytestmark = [pytest.mark.integration]


class LoggedScheduler:
    def __init__(self, api: Api, log: Path) -> None:
        self.api = api
        self.log = log

    async def pod(self, name: str, of: str, zone: str = "") -> None:
        """Create a pod of a workload, in a zone only where one is given."""
        await self.api.create(
            {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {"name": name, "namespace": "default", "labels": {GROUP: "shop", WORKLOAD: of}},
                "spec": {
                    "schedulerName": OURS,
                    "containers": [{"name": "c", "image": "registry.k8s.io/pause"}],
                    **({"nodeSelector": {ZONE: zone}} if zone else {}),
                },
            }
        )

    async def node_of(self, name: str, *, in_the_end: bool = False) -> str:
        """The node that a pod gets, at once or in the end; "" when it is rejected."""
        item = {"kind": "Pod", "metadata": {"name": name, "namespace": "default"}}
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            pod = await self.api.get(item)
            if pod["spec"].get("nodeName"):
                return str(pod["spec"]["nodeName"])
            if not in_the_end and any(
                condition["type"] == "PodScheduled" for condition in pod["status"].get("conditions") or []
            ):
                return ""
            await asyncio.sleep(0.05)
        raise AssertionError(self.log.read_text()[-3000:])

    async def until_logged(self, text: str, times: int) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.log.read_text().count(text) < times:
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            await asyncio.sleep(0.1)


def node(name: str, zone: str) -> Json:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {ZONE: zone}},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def workload(selector: str) -> Json:
    return {"kind": "Deployment", "name": selector, "selector": selector}


def app_group(limit: int) -> Json:
    dependency = {"workload": workload("db"), "maxNetworkCost": limit}
    return {
        "kind": "AppGroup",
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "numMembers": 2,
            "topologySortingAlgorithm": "KahnSort",
            "workloads": [{"workload": workload("cart"), "dependencies": [dependency]}, {"workload": workload("db")}],
        },
    }


def network_topology(cost: int) -> Json:
    origins = [{"origin": "z2", "costList": [{"destination": "z1", "networkCost": cost}]}]
    weights = [{"name": "UserDefined", "topologyList": [{"topologyKey": ZONE, "originList": origins}]}]
    return {
        "kind": "NetworkTopology",
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "metadata": {"name": "costs", "namespace": "default"},
        "spec": {"configmapName": "netperf", "weights": weights},
    }


async def test_a_node_is_preferred_by_its_annotation_as_that_is_now(tmp_path: Path) -> None:
    args = {"metadataKey": "example.com/since", "metadataSource": "Annotation", "metadataType": "Timestamp"}
    profile = {
        "plugins": {"score": {"enabled": [{"name": "NodeMetadata"}], "disabled": [{"name": "*"}]}},
        "pluginConfig": [{"name": "NodeMetadata", "args": {**args, "scoringStrategy": "Oldest"}}],
    }
    with control_plane_running() as plane, our_daemon(plane, tmp_path, profile) as log:
        api = Api(plane)
        stage = LoggedScheduler(api, log)
        try:
            for name, year in (("old", 2020), ("new", 2024)):
                item = node(name, "z1")
                item["metadata"]["annotations"] = {"example.com/since": f"{year}-01-01T00:00:00Z"}
                await api.create(item)
            await stage.pod("first", "db")
            assert await stage.node_of("first") == "old"
            path = "/api/v1/nodes/new"
            await api.call("PATCH", path, {"metadata": {"annotations": {"example.com/since": "2016-01-01T00:00:00Z"}}})
            # The watch brings it; until then pods go to the other node.
            number, chosen = 0, ""
            deadline = time.monotonic() + PATIENCE_SECONDS
            while chosen != "new" and time.monotonic() < deadline:
                number += 1
                await stage.pod(f"next-{number}", "db")
                chosen = await stage.node_of(f"next-{number}")
            assert chosen == "new"
        finally:
            await api.close()


async def test_pods_are_placed_without_the_crds_and_by_them_once_they_come(tmp_path: Path) -> None:
    with control_plane_running() as plane, our_daemon(plane, tmp_path, PROFILE) as log:
        api = Api(plane)
        stage = LoggedScheduler(api, log)
        try:
            for item in (node("near", "z1"), node("far", "z2")):
                await api.create(item)
            await stage.pod("db", "db", "z1")
            assert await stage.node_of("db") == "near"
            await stage.pod("early", "cart", "z2")
            assert await stage.node_of("early") == "far"
            await stage.until_logged("the API server does not serve the resource", 3)

            await install_crds(plane)
            await api.create(app_group(limit=10))
            await api.create(network_topology(cost=50))
            await stage.until_logged("the API server serves the resource now", 3)
            await stage.pod("late", "cart", "z2")
            assert await stage.node_of("late") == ""
            await stage.pod("free", "cart")
            assert await stage.node_of("free") == "near"

            path = "/apis/networktopology.diktyo.x-k8s.io/v1alpha1/namespaces/default/networktopologies/costs"
            await api.call("PATCH", path, {"spec": network_topology(cost=5)["spec"]})
            assert await stage.node_of("late", in_the_end=True) == "far"
        finally:
            await api.close()
