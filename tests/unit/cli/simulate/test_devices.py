"""`simulate` with devices: claims of templates are made as by their controller; shared claims are allocated once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from secondary_scheduler.clustersnapshot.reading import RESOURCES
from tests.support.simulating import Bench, node, pod

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  pluginConfig:
  - name: SecondarySchedulerOptions
    args: {kubernetesVersion: "1.36"}
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, CONFIGURATION)


def dra(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


CLASS = dra("DeviceClass", "gpu", {"extendedResourceName": "example.com/gpu"})
DEVICES = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
TEMPLATE = dra("ResourceClaimTemplate", "one", {"spec": {"devices": DEVICES}}, namespace="default")


def devices_of(node_name: str, *names: str) -> dict[str, Any]:
    pool = {"name": node_name, "generation": 1, "resourceSliceCount": 1}
    devices = [{"name": name} for name in names]
    spec = {"driver": "gpu.example.com", "pool": pool, "nodeName": node_name, "devices": devices}
    return dra("ResourceSlice", f"slice-{node_name}", spec)


def using_template(name: str) -> dict[str, Any]:
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "one"}])


def test_a_template_gives_each_pod_a_claim_of_its_own(bench: Bench) -> None:
    new = [using_template(f"p{number}") for number in range(3)]
    result = bench.simulate(node("a"), node("b"), devices_of("a", "g0", "g1"), CLASS, TEMPLATE, *new)
    assert result.nodes == {"default/p0": "a", "default/p1": "a", "default/p2": None}
    assert "cannot allocate all claims" in result.decisions["default/p2"]["message"]
    assert "not read" not in result.err


def test_a_claim_that_the_controller_has_made_already_is_used(bench: Bench) -> None:
    created = dra(
        "ResourceClaim",
        "p0-gpu-xyz",
        {"devices": DEVICES},
        namespace="default",
        uid="c1",
        annotations={"resource.kubernetes.io/pod-claim-name": "gpu"},
        ownerReferences=[{"apiVersion": "v1", "kind": "Pod", "name": "p0", "uid": "u0", "controller": True}],
    )
    result = {"device": "g0", "driver": "gpu.example.com", "pool": "b", "request": "r"}
    created["status"] = {"allocation": {"devices": {"results": [result]}, "nodeSelector": selecting("b")}}
    new = using_template("p0")
    new["metadata"]["uid"] = "u0"
    objects = (node("a"), node("b"), devices_of("a", "g0"), devices_of("b", "g0"), CLASS, TEMPLATE, created)
    assert bench.simulate(*objects, new).nodes == {"default/p0": "b"}


def selecting(node_name: str) -> dict[str, Any]:
    field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    return {"nodeSelectorTerms": [{"matchFields": [field]}]}


def test_a_pod_without_its_template_waits(bench: Bench) -> None:
    result = bench.simulate(node("a"), devices_of("a", "g0"), CLASS, using_template("p"))
    assert result.nodes == {"default/p": None}
    assert "ResourceClaim not created yet" in result.decisions["default/p"]["message"]


def test_pods_share_a_claim_where_its_device_is(bench: Bench) -> None:
    shared = dra("ResourceClaim", "shared", {"devices": DEVICES}, namespace="default")
    new = [pod(f"p{number}", resourceClaims=[{"name": "c", "resourceClaimName": "shared"}]) for number in range(3)]
    result = bench.simulate(node("a"), node("b"), devices_of("b", "g0"), CLASS, shared, *new)
    assert set(result.nodes.values()) == {"b"}


def test_extended_resources_are_devices_where_a_node_has_none(bench: Bench) -> None:
    new = [pod(f"p{number}") for number in range(3)]
    for each in new:
        each["spec"]["containers"][0].setdefault("resources", {})["limits"] = {"example.com/gpu": "1"}
    result = bench.simulate(node("a"), devices_of("a", "g0", "g1"), CLASS, *new)
    assert result.nodes == {"default/p0": "a", "default/p1": "a", "default/p2": None}


def test_a_snapshot_holds_templates() -> None:
    assert "ResourceClaimTemplate" in {resource.kind for resource in RESOURCES}
