"""`simulate` decides gangs as the scheduler does, and `snapshot` takes their PodGroups along."""

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
  plugins:
    queueSort: {enabled: [{name: Coscheduling}], disabled: [{name: "*"}]}
    multiPoint: {enabled: [{name: Coscheduling}]}
"""
LABEL = "scheduling.x-k8s.io/pod-group"


def group(name: str, minimum: int, created: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created},
        "spec": {"minMember": minimum},
    }


def member(name: str, of: str, cpu: str = "1500m") -> dict[str, Any]:
    manifest = pod(name, cpu=cpu)
    manifest["metadata"]["labels"] = {LABEL: of}
    return manifest


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, CONFIGURATION)


def test_a_gang_is_placed_as_a_whole_or_not_at_all(bench: Bench) -> None:
    nodes = [node(name, cpu="2") for name in ("n1", "n2", "n3")]
    gangs = [group("a", 2, "2026-01-02T00:00:00Z"), group("b", 3)]
    pods = [member(f"a-{number}", "a") for number in range(2)] + [member(f"b-{number}", "b") for number in range(3)]
    result = bench.simulate(*nodes, *gangs, *pods)
    # The older gang goes first and fills the room.
    assert {name for name, node_name in result.nodes.items() if node_name} == {
        "default/b-0",
        "default/b-1",
        "default/b-2",
    }
    message = result.decisions["default/a-0"]["message"]
    assert message == (
        "pod group default/a: 0 of 2 members fit, minMember is 2: 0/3 nodes are available: 3 Insufficient cpu."
    )


def test_room_for_a_part_of_a_gang_stays_free_for_others(bench: Bench) -> None:
    nodes = [node("n1", cpu="2"), node("n2", cpu="2")]
    pods = [member(f"a-{number}", "a") for number in range(3)]
    result = bench.simulate(*nodes, group("a", 3), *pods, pod("other", cpu="1500m"))
    assert {name for name, node_name in result.nodes.items() if node_name} == {"default/other"}
    decision = result.decisions["default/a-0"]
    assert decision["message"].startswith("pod group default/a: 2 of 3 members fit, minMember is 3: 0/2 nodes")
    # The matrix shows that this very member would fit.
    assert all(verdict["feasible"] for verdict in decision["nodes"].values())


def test_a_gang_with_a_topology_is_placed_in_one_domain_and_says_where_it_lacks_room(bench: Bench) -> None:
    def racked(name: str) -> dict[str, Any]:
        manifest = node(name, cpu="2")
        manifest["metadata"].setdefault("labels", {})["rack"] = name[0]
        return manifest

    needs_rack = {"secondary-scheduler.io/topology-required": "rack"}
    small, large = group("a", 3), group("b", 4)
    for gang in (small, large):
        gang["metadata"]["annotations"] = needs_rack
    nodes = [racked(name) for name in ("x1", "x2", "y1", "y2", "y3")]
    pods = [member(f"a-{number}", "a") for number in range(3)] + [member(f"b-{number}", "b") for number in range(4)]
    result = bench.simulate(*nodes, small, large, *pods)
    assert {name[0] for key, name in result.nodes.items() if key.startswith("default/a-") and name} == {"y"}
    assert not any(name for key, name in result.nodes.items() if key.startswith("default/b-"))
    message = result.decisions["default/b-0"]["message"]
    assert message.startswith("pod group default/b: 2 of 4 members fit in rack=x, the best of 2 such domains, ")


def test_a_gang_without_any_domain_says_why(bench: Bench) -> None:
    gang = group("a", 2)
    gang["metadata"]["annotations"] = {"secondary-scheduler.io/topology-required": "rack"}
    result = bench.simulate(node("n1"), gang, member("a-0", "a"), member("a-1", "a"))
    messages = {decision["message"] for decision in result.decisions.values()}
    assert messages == {"pod group default/a: no node has the label rack"}
    assert len(result.decisions) == 2


def test_bound_members_count(bench: Bench) -> None:
    bound = member("a-0", "a")
    bound["spec"]["nodeName"] = "n1"
    result = bench.simulate(node("n1", cpu="2"), node("n2", cpu="2"), group("a", 2), bound, member("a-1", "a"))
    assert result.nodes == {"default/a-1": "n2"}


def test_a_missing_group_is_said(bench: Bench) -> None:
    result = bench.simulate(node("n1", cpu="2"), member("a-0", "a"))
    assert "pod group default/a does not exist" in result.decisions["default/a-0"]["message"]


def test_the_snapshot_holds_pod_groups() -> None:
    (resource,) = [resource for resource in RESOURCES if resource.kind == "PodGroup"]
    assert (resource.api_version, resource.plural) == ("scheduling.x-k8s.io/v1alpha1", "podgroups")
    kept = resource.trim({**group("a", 2), "status": {"phase": "Pending"}})
    assert kept["spec"] == {"minMember": 2}


# PodGroups of Kubernetes itself ---------------------------------------------------------------------------------------

BUILT_IN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}
  pluginConfig:
  - name: SecondarySchedulerOptions
    args: {kubernetesVersion: "1.37"}
"""


def built_in_group(api_version: str = "scheduling.k8s.io/v1beta1") -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": {
            "schedulingPolicy": {"gang": {"minCount": 3}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
        },
    }


def built_in_member(name: str) -> dict[str, Any]:
    manifest = pod(name, cpu="1")
    manifest["spec"]["schedulingGroup"] = {"podGroupName": "g"}
    return manifest


def test_a_pod_group_of_kubernetes_itself_goes_to_one_rack(tmp_path: Path) -> None:
    nodes = [node("n1", cpu="2"), node("n2", cpu="4")]
    for rack, each in zip("ab", nodes, strict=True):
        each["metadata"]["labels"]["rack"] = rack
    members = [built_in_member(f"g-{number}") for number in range(3)]
    result = Bench(tmp_path, BUILT_IN).simulate(*nodes, built_in_group(), *members)
    assert result.nodes == {f"default/g-{number}": "n2" for number in range(3)}


def test_a_version_of_pod_groups_that_the_scheduler_does_not_read_is_named(tmp_path: Path) -> None:
    bench = Bench(tmp_path, BUILT_IN)
    result = bench.simulate(node("n1", cpu="4"), built_in_group("scheduling.k8s.io/v1alpha3"), built_in_member("g-0"))
    assert "1 PodGroup.scheduling.k8s.io/v1alpha3" in result.err
    assert not result.nodes["default/g-0"]


@pytest.mark.parametrize("version", ["v1alpha2", "v1beta1"])
def test_a_snapshot_takes_pod_groups_of_kubernetes_itself_along(version: str) -> None:
    (resource,) = [each for each in RESOURCES if each.api_version == f"scheduling.k8s.io/{version}"]
    manifest = built_in_group(f"scheduling.k8s.io/{version}")
    assert resource.trim(manifest) == manifest
