"""Profiles of different minors decide differently on one snapshot where kube-scheduler does, and nowhere else.

The figures follow from upstream's formulas; `tests/conformance` compares with the real kube-scheduler of each minor.
"""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest

from scheduler.core import decide, explain, run_post_filters
from scheduler.framework import PodInfo, ProfileRunner, conclude
from scheduler.state import CODEC_OF_KIND, Snapshot
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner

VERSIONS = ("1.34", "1.35", "1.36", "1.37", "1.38")
HOST = "kubernetes.io/hostname"
RESTART = "RestartAllContainersOnContainerExits"
BALANCE = ([84, 93], [78, 71])
"""Of `new` and `old`, before 1.36 and since."""
RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}]


def on_node(name: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": HOST, "operator": "In", "values": [name]}]}]
    return {"required": {"nodeSelectorTerms": terms}}


def volume(node: str, size: str) -> tuple[str, dict[str, Any]]:
    spec = {
        "storageClassName": "local",
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "nodeAffinity": on_node(node),
    }
    return "PersistentVolume", {"metadata": {"name": f"of-{node}"}, "spec": spec, "status": {"phase": "Available"}}


OBJECTS = (
    (
        "StorageClass",
        {
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    ),
    (
        "PersistentVolumeClaim",
        {
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "storageClassName": "local",
                "resources": {"requests": {"storage": "10Gi"}},
                "accessModes": ["ReadWriteOnce"],
            },
        },
    ),
    volume("new", "20Gi"),
    volume("old", "100Gi"),
)


@pytest.fixture(scope="module")
def snapshot() -> Snapshot:
    """Two nodes with 4 CPUs and 16 GiB each: `new` declares a feature and is used unevenly, `old` has a batch pod."""
    new, old = msgspec.structs.replace(node("new"), declared_features=(RESTART,)), node("old")
    used = {"new": [pod("uneven", container("2", "1Gi"))], "old": [pod("batch", container("3", "12Gi"), priority=0)]}
    state = cluster(new, old, pods=used)
    for kind, item in OBJECTS:
        state.objects.upsert(kind, CODEC_OF_KIND[kind].decode(json.dumps(item).encode()))
    return state.snapshot(NOW)


@pytest.fixture(scope="module")
def profiles() -> dict[str, ProfileRunner]:
    return {version: runner(kubernetes=version) for version in VERSIONS}


def scores(snapshot: Snapshot, incoming: PodInfo, profile: ProfileRunner) -> dict[str, dict[str, int]]:
    """Normalized scores by node and plugin."""
    nodes = explain(snapshot, incoming, profile).nodes()
    return {
        name: {plugin: score.normalized for plugin, score in explained.scores.items()}
        for name, explained in nodes
        if explained.feasible
    }


def differing(snapshot: Snapshot, incoming: PodInfo, older: ProfileRunner, newer: ProfileRunner) -> set[str]:
    """Plugins whose scores differ between two profiles on any node."""
    first, second = scores(snapshot, incoming, older), scores(snapshot, incoming, newer)
    assert first.keys() == second.keys()
    plugins = {plugin for node in (*first.values(), *second.values()) for plugin in node}
    return {name for name in plugins if any(first[node].get(name) != second[node].get(name) for node in first)}


PAIRS = [("1.34", "1.35"), ("1.35", "1.36"), ("1.36", "1.37"), ("1.37", "1.38")]


@pytest.mark.parametrize(("older", "newer"), PAIRS)
def test_a_pod_that_asks_for_cpu_and_memory_is_balanced_in_another_way_from_1_36_on(
    snapshot: Snapshot, profiles: dict[str, ProfileRunner], older: str, newer: str
) -> None:
    incoming = pod("p", container("500m", "4Gi"))
    expected = {"NodeResourcesBalancedAllocation"} if newer == "1.36" else set()
    assert differing(snapshot, incoming, profiles[older], profiles[newer]) == expected
    balance = {
        version: [nodes[name]["NodeResourcesBalancedAllocation"] for name in ("new", "old")]
        for version in (older, newer)
        for nodes in [scores(snapshot, incoming, profiles[version])]
    }
    # On `new` the pod makes the use more even, from 78 to 84; on `old` less so, from 100 to 93.
    old, new = BALANCE
    assert balance == {version: old if version < "1.36" else new for version in (older, newer)}


@pytest.mark.parametrize(("older", "newer"), PAIRS)
def test_volumes_are_scored_from_1_37_on(
    snapshot: Snapshot, profiles: dict[str, ProfileRunner], older: str, newer: str
) -> None:
    incoming = pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
    expected = {"VolumeBinding"} if newer == "1.37" else set()
    assert differing(snapshot, incoming, profiles[older], profiles[newer]) == expected
    if newer == "1.37":
        shown = scores(snapshot, incoming, profiles[newer])
        assert (shown["new"]["VolumeBinding"], shown["old"]["VolumeBinding"]) == (50, 90)


def test_a_node_must_declare_what_a_pod_needs_from_1_36_on(
    snapshot: Snapshot, profiles: dict[str, ProfileRunner]
) -> None:
    incoming = pod("p", container("100m", restartPolicyRules=RULES))
    fitting = {version: set(scores(snapshot, incoming, profile)) for version, profile in profiles.items()}
    assert fitting == {version: {"new", "old"} if version < "1.36" else {"new"} for version in VERSIONS}


def test_a_pod_that_preempts_is_told_where_from_1_37_on(snapshot: Snapshot, profiles: dict[str, ProfileRunner]) -> None:
    incoming = pod("p", container("3500m"), priority=10, nodeSelector={HOST: "old"})
    reason = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector."
    for version, profile in profiles.items():
        placement = conclude(decide(snapshot, incoming, profile, random.Random(1)))
        outcome = conclude(run_post_filters(snapshot, placement, profile))
        assert [victim.name for victim in outcome.victims] == ["batch"]
        assert outcome.nominated_node == "old"
        addition = " preemption: found a potential placement for pod on node old, preempting 1 victims"
        assert outcome.message == reason + (addition if version >= "1.37" else "")


def test_images_of_volumes_count_from_1_36_on_and_raise_the_threshold_from_1_37_on(
    profiles: dict[str, ProfileRunner],
) -> None:
    held = cluster(node("with", images={"model:v1": 2000 << 20}), node("without")).snapshot(NOW)
    incoming = pod("p", container("100m"), volumes=[{"name": "v", "image": {"reference": "model:v1"}}])
    shown = {version: scores(held, incoming, profile)["with"]["ImageLocality"] for version, profile in profiles.items()}
    # Half of 2,000 MiB, as half of the nodes have it: of 1,000 MiB per container, then also per volume.
    assert shown == {"1.34": 0, "1.35": 0, "1.36": 100, "1.37": 49, "1.38": 49}


def test_resources_of_a_pod_as_a_whole_count_for_the_score_from_1_38_on(
    snapshot: Snapshot, profiles: dict[str, ProfileRunner]
) -> None:
    incoming = pod("p", container("100m", "1Gi"), resources={"requests": {"cpu": "1"}}, overhead={"cpu": "1"})
    for version, profile in profiles.items():
        # Of 4 CPUs, 2 are in use: 1,100m more, or 2, leave 900m or none. Of 16 GiB, 1 is in use: 14 are left.
        cpu, memory = (0 if version >= "1.38" else 22), 87
        assert scores(snapshot, incoming, profile)["new"]["NodeResourcesFit"] == (cpu + memory) // 2


def test_a_spread_constraint_with_an_empty_selector_counts_all_pods_from_1_38_on(
    profiles: dict[str, ProfileRunner],
) -> None:
    held = cluster(node("a"), node("b"), pods={"a": [pod("unlabelled")]}).snapshot(NOW)
    constraint = {"maxSkew": 1, "topologyKey": HOST, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    incoming = pod("p", container("100m"), topologySpreadConstraints=[constraint])
    fitting = {version: set(scores(held, incoming, profile)) for version, profile in profiles.items()}
    assert {version for version, nodes in fitting.items() if nodes == {"b"}} == {"1.38"}
    assert fitting["1.37"] == {"a", "b"}
