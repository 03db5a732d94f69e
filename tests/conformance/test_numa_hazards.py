"""What the real scheduler-plugins 0.34.7 does with nodes and pods that ours places: it ends, or fails the pod."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from tests.conformance.apiclient import Api
from tests.conformance.case import BOUND, ERROR, Case, Json
from tests.conformance.controlplane import ControlPlane
from tests.conformance.numa_running import RESERVING, OursWithZones, install, scheduler_plugins_running
from tests.conformance.oracle import NoVerdict, oracle_of
from tests.conformance.profiles import scheduler_name

pytestmark = [pytest.mark.integration, pytest.mark.slow]
WHOLE = {"cpu": "4", "memory": "4Gi"}


def node(name: str) -> Json:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def topology(name: str, numbers: tuple[int, ...], cpu: str, **attributes: str) -> Json:
    values = {"topologyManagerPolicy": "single-numa-node", **attributes}
    amounts = {"cpu": cpu, "memory": "8Gi"}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name},
        "attributes": [{"name": key, "value": value} for key, value in values.items()],
        "zones": [
            {
                "name": f"node-{number}",
                "type": "Node",
                "resources": [
                    {"name": key, "capacity": amount, "allocatable": amount, "available": amount}
                    for key, amount in amounts.items()
                ],
            }
            for number in numbers
        ],
    }


def case(profile: str, containers: list[Json], *topologies: Json, **spec: Any) -> Case:
    body = {
        "containers": [
            {
                "name": f"c{index}",
                "image": "i",
                "resources": {"requests": amounts, "limits": amounts} if amounts else {},
            }
            for index, amounts in enumerate(containers)
        ],
        **spec,
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "namespace": "default"}, "spec": body}
    nodes = [node(topology["metadata"]["name"]) for topology in topologies]
    return Case(0, ("hazard",), f"numa-{profile}", (*nodes, *topologies), (pod,))


TWO = {"cpu": "2", "memory": "1Gi"}
GOOD = topology("good", (0, 1), "4")
TWICE = topology("odd", (0, 0), "4")
TWICE["zones"][1]["resources"][0]["available"] = "1"
BY_ITSELF = {"resources": {"requests": WHOLE, "limits": WHOLE}}
HAZARDS: dict[str, tuple[Case, str]] = {
    "numbers with gaps": (case("default", [TWO], topology("odd", (1, 5), "4"), GOOD), ""),
    "zone 64": (case("default", [TWO], topology("odd", (0, 64), "4"), GOOD), ""),
    "a container without requests": (case("default", [TWO, {}], topology("odd", (0,), "4"), GOOD, **BY_ITSELF), ""),
    "a single request": (
        case("balanced", [{"cpu": "2"}], topology("odd", (0,), "4"), GOOD, **BY_ITSELF),
        "returns an invalid score",
    ),
    "more zones than allowed for": (
        case(
            "zones",
            [{"cpu": "10", "memory": "1Gi"}],
            topology("odd", (0, 1, 2), "4", topologyManagerPolicy="restricted", topologyManagerMaxNUMANodes="2"),
            topology("other", (0, 1, 2), "4", topologyManagerPolicy="restricted"),
        ),
        "returns an invalid score -25",
    ),
    "a zone listed twice": (
        case("default", [{"cpu": "3", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}], TWICE, GOOD),
        "exceeds NUMA 0 availability",
    ),
}


@pytest.mark.parametrize("name", HAZARDS)
async def test_the_real_plugin_ends_or_fails_the_pod_and_ours_places_it(plane: ControlPlane, name: str) -> None:
    hazard, message = HAZARDS[name]
    api = Api(plane)
    try:
        await install(api)
        with scheduler_plugins_running(plane) as real:
            async with oracle_of(real) as oracle:
                if message:
                    (answered,) = await oracle.ask(hazard)
                    assert answered.answer.outcome == ERROR
                    assert message in answered.answer.message
                else:
                    with pytest.raises(NoVerdict, match="has ended"):
                        await oracle.ask(hazard)
                    assert "panic:" in real.log.read_text()
        for kind, namespace in (("Pod", "default"), ("Node", ""), ("NodeResourceTopology", "")):
            await api.delete_all(kind, namespace)
    finally:
        await api.close()
    pod = hazard.pods[0] | {"spec": hazard.pods[0]["spec"] | {"schedulerName": scheduler_name(hazard.profile)}}
    assert OursWithZones().ask(pod, hazard.objects).outcome == BOUND


async def test_without_the_crd_the_real_scheduler_does_not_start_where_it_is_to_resync(
    plane: ControlPlane,
) -> None:
    api = Api(plane)
    try:
        await install(api)
        name = "noderesourcetopologies.topology.node.k8s.io"
        await api.call("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        await asyncio.sleep(1)
        with scheduler_plugins_running(plane, RESERVING) as real:
            deadline = time.monotonic() + 30
            while real.alive() and time.monotonic() < deadline:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            assert not real.alive()
            assert "NodeResourceTopology" in real.log.read_text()
    finally:
        await api.close()
