"""`snapshot` and `simulate` know the custom resources that NetworkOverhead, TopologicalSort and SySched read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.plugins.noderesourcetopologymatch.fingerprint import fingerprint
from scheduler.plugins.noderesourcetopologymatch.placement import METADATA, VECTOR
from scheduler.state import WATCHED_KINDS
from secondary_scheduler.clustersnapshot.reading import RESOURCES
from tests.support.numaplacement import published_zones
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


METADATA_CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins: {score: {enabled: [{name: NodeMetadata}], disabled: [{name: "*"}]}}
  pluginConfig:
  - name: NodeMetadata
    args: {metadataKey: example.com/price, metadataSource: Annotation, metadataType: Number, scoringStrategy: Lowest}
"""


def test_simulate_prefers_nodes_by_their_annotation(tmp_path: Path) -> None:
    nodes = [node(name) for name in ("cheap", "dear", "unknown")]
    for manifest, price in zip(nodes, ("0x10p0", "20"), strict=False):
        manifest["metadata"]["annotations"] = {"example.com/price": price}
    result = Bench(tmp_path, METADATA_CONFIGURATION).simulate(*nodes, pod("p"))
    assert result.nodes == {"default/p": "cheap"}, result.err


@pytest.mark.parametrize("value", ["20", "-1.5", "2026-01-01T00:00:00Z", "2026-01-01 10:00:00.25 +0200"])
def test_a_snapshot_keeps_numbers_and_times_of_nodes_and_no_other_words(value: str) -> None:
    manifest = node("n1")
    manifest["metadata"]["annotations"] = {
        "example.com/price": value,
        "example.com/note": "x",
        "example.com/key": "1" * 41,
    }
    kept = {kind: resource.trim(manifest) for resource in RESOURCES if (kind := resource.kind) in ("Node", "Pod")}
    assert kept["Node"]["metadata"]["annotations"] == {"example.com/price": value}
    assert "annotations" not in kept["Pod"]["metadata"]


NUMA_CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins: {multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}}
  pluginConfig:
  - name: NodeResourceTopologyMatch
    args: {preemptionMode: MODE}
"""


@pytest.mark.parametrize("mode", ["Disabled", "Enabled"])
def test_simulate_preempts_in_a_numa_zone(tmp_path: Path, mode: str) -> None:
    amounts = {"cpu": "2", "memory": "1Gi"}
    container = {"name": "c", "resources": {"requests": amounts, "limits": amounts}}
    running = {name: pod(name, nodeName="n1", priority=1, containers=[container]) for name in ("here", "there")}
    for manifest in running.values():
        manifest["status"] = {"phase": "Running"}
    metadata, vectors = published_zones({("default", "here", "c"): 0, ("default", "there", "c"): 1}, 2)
    attributes = {
        "topologyManagerPolicy": "single-numa-node",
        "nodeTopologyPodsFingerprint": fingerprint(("default", name) for name in running),
        METADATA: metadata,
    }
    zones = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [
                {"name": "cpu", "capacity": "3", "allocatable": "3", "available": free},
                {"name": "memory", "capacity": "4Gi", "allocatable": "4Gi", "available": "1Gi"},
            ],
            "attributes": [{"name": VECTOR, "value": vectors[number]}] if number in vectors else [],
        }
        for number, free in enumerate(("0", "1"))
    ]
    topology = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"},
        "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
        "zones": zones,
    }
    larger = {"cpu": "3", "memory": "1Gi"}
    new = pod("new", priority=9, containers=[{"name": "c", "resources": {"requests": larger, "limits": larger}}])
    bench = Bench(tmp_path, NUMA_CONFIGURATION.replace("MODE", mode))
    result = bench.simulate(node("n1", cpu="16"), *running.values(), topology, new, arguments=("--preempt",))
    decision = result.decisions["default/new"]
    assert decision.get("victims", []) == (["default/there"] if mode == "Enabled" else []), result.err
