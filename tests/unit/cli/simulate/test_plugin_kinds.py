"""`snapshot` and `simulate` know the custom resources that NetworkOverhead, TopologicalSort and SySched read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.state import WATCHED_KINDS
from secondary_scheduler.clustersnapshot.reading import RESOURCES
from tests.support.simulating import Bench, node, pod

GROUP, WORKLOAD = "appgroup.diktyo.x-k8s.io", "appgroup.diktyo.x-k8s.io.workload"
ZONE = "topology.kubernetes.io/zone"
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins:
    queueSort:
      enabled: [{name: TopologicalSort}]
      disabled: [{name: PrioritySort}]
    preFilter:
      enabled: [{name: NetworkOverhead}]
    filter:
      enabled: [{name: NetworkOverhead}]
    score:
      enabled: [{name: NetworkOverhead}, {name: SySched}, {name: PodState}, {name: NodeResourcesAllocatable}]
      disabled: [{name: "*"}]
  pluginConfig:
  - name: NetworkOverhead
    args: {networkTopologyName: costs}
"""


def workload(selector: str) -> dict[str, Any]:
    return {"kind": "Deployment", "name": selector, "selector": selector}


APP_GROUP = {
    "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
    "kind": "AppGroup",
    "metadata": {"name": "shop", "namespace": "default"},
    "spec": {
        "numMembers": 2,
        "topologySortingAlgorithm": "KahnSort",
        "workloads": [
            {"workload": workload("cart"), "dependencies": [{"workload": workload("db"), "maxNetworkCost": 10}]},
            {"workload": workload("db")},
        ],
    },
    "status": {"topologyOrder": [{"workload": workload("cart"), "index": 2}, {"workload": workload("db"), "index": 1}]},
}
NETWORK_TOPOLOGY = {
    "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
    "kind": "NetworkTopology",
    "metadata": {"name": "costs", "namespace": "default"},
    "spec": {
        "configmapName": "netperf",
        "weights": [
            {
                "name": "UserDefined",
                "topologyList": [
                    {
                        "topologyKey": ZONE,
                        "originList": [{"origin": "z2", "costList": [{"destination": "z1", "networkCost": 50}]}],
                    }
                ],
            }
        ],
    },
}
SECCOMP_PROFILE = {
    "apiVersion": "security-profiles-operator.x-k8s.io/v1beta1",
    "kind": "SeccompProfile",
    "metadata": {"name": "all-syscalls", "namespace": "default"},
    "spec": {"defaultAction": "SCMP_ACT_ERRNO", "syscalls": [{"action": "SCMP_ACT_ALLOW", "names": ["read"]}]},
}
KINDS = {obj["kind"]: obj for obj in (APP_GROUP, NETWORK_TOPOLOGY, SECCOMP_PROFILE)}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, CONFIGURATION)


def member(name: str, of: str, created: str, **spec: Any) -> dict[str, Any]:
    return pod(name, meta={"labels": {GROUP: "shop", WORKLOAD: of}, "creationTimestamp": created}, **spec)


def zoned(name: str, zone: str) -> dict[str, Any]:
    manifest = node(name)
    manifest["metadata"]["labels"][ZONE] = zone
    return manifest


def test_simulate_decides_with_them_in_their_order(bench: Bench) -> None:
    pods = (member("cart", "cart", "2026-01-01T00:00:00Z"), member("db", "db", "2026-01-01T00:00:05Z"))
    result = bench.simulate(zoned("near", "z1"), zoned("far", "z2"), *KINDS.values(), *pods)
    assert result.code == 0, result.err
    assert list(result.decisions) == ["default/db", "default/cart"]
    # Wherever the database went, the cart follows: the way from z2 to z1 is too dear, the one back is not listed.
    assert result.nodes["default/cart"] == result.nodes["default/db"]
    assert "not read" not in result.err


def test_simulate_says_why_the_network_keeps_a_pod_off(bench: Bench) -> None:
    placed = member("db", "db", "2026-01-01T00:00:00Z", nodeName="near")
    new = member("cart", "cart", "2026-01-01T00:00:05Z", nodeSelector={ZONE: "z2"})
    result = bench.simulate(zoned("near", "z1"), zoned("far", "z2"), *KINDS.values(), placed, new)
    message = result.decisions["default/cart"]["message"]
    assert "1 node(s) exceeded more network cost limits of the pod's dependencies than they kept" in message


@pytest.mark.parametrize("without", [*KINDS, ""])
def test_simulate_does_without_what_is_missing(bench: Bench, without: str) -> None:
    objects = [obj for kind, obj in KINDS.items() if without and kind != without]
    pods = (member("cart", "cart", "2026-01-01T00:00:00Z"), member("db", "db", "2026-01-01T00:00:05Z"))
    result = bench.simulate(zoned("near", "z1"), zoned("far", "z2"), *objects, *pods)
    assert result.code == 0, result.err
    assert all(result.nodes.values())


@pytest.mark.parametrize("kind", KINDS)
def test_simulate_leaves_out_what_cannot_be_read(bench: Bench, kind: str) -> None:
    broken = KINDS[kind] | {"spec": "nonsense"}
    objects = [broken if name == kind else obj for name, obj in KINDS.items()]
    result = bench.simulate(zoned("near", "z1"), *objects, member("cart", "cart", "2026-01-01T00:00:00Z"))
    assert result.nodes == {"default/cart": "near"}
    assert f"{kind} default/{broken['metadata']['name']}" in result.err


@pytest.mark.parametrize("kind", KINDS)
def test_a_snapshot_holds_them_with_everything_that_is_read(kind: str) -> None:
    (resource,) = [resource for resource in RESOURCES if resource.kind == kind]
    (codec,) = [watched.codec for watched in WATCHED_KINDS.values() if watched.kind == kind]
    kept = resource.trim(KINDS[kind])
    assert codec.decode(msgspec.json.encode(kept)) == codec.decode(msgspec.json.encode(KINDS[kind]))
    assert resource.api_version == KINDS[kind]["apiVersion"]
