"""`snapshot` and `simulate` know ElasticQuotas and what PriorityClasses say about preemption."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.plugins.preemptiontoleration import MINIMUM, SECONDS
from scheduler.state import WATCHED_KINDS
from secondary_scheduler.clustersnapshot.reading import RESOURCES
from tests.support.simulating import Bench, node, pod

CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  plugins:
    multiPoint:
      enabled: [{name: PLUGIN}]
    postFilter:
      enabled: [{name: PLUGIN}]
      disabled: [{name: "*"}]
"""


_KEYS = {"minimum": MINIMUM, "seconds": SECONDS}


@pytest.fixture
def quotas(tmp_path: Path) -> Bench:
    return Bench(tmp_path, CONFIGURATION.replace("PLUGIN", "CapacityScheduling"))


@pytest.fixture
def tolerant(tmp_path: Path) -> Bench:
    return Bench(tmp_path, CONFIGURATION.replace("PLUGIN", "PreemptionToleration"))


def quota(namespace: str, least: str, most: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": least}, "max": {"cpu": most}},
        "status": {"used": {"cpu": "1"}},
    }


def priority_class(name: str, value: int, **policy: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "annotations": {_KEYS[key]: text for key, text in policy.items()}},
        "value": value,
    }


def test_pods_of_one_run_count_against_their_quota(quotas: Bench) -> None:
    new = [pod(f"p{number}", cpu="2", namespace="a") for number in range(2)]
    result = quotas.simulate(node("n1", cpu="9"), quota("a", "9", "3"), *new)
    assert sorted(map(str, result.nodes.values())) == ["None", "n1"]
    assert "because ElasticQuota a is more than Max" in result.out
    assert "not read" not in result.err


def test_what_was_borrowed_is_taken_back_with_preempt(quotas: Bench) -> None:
    placed = [pod(f"r{number}", cpu="1", namespace="b", nodeName="n1") for number in range(3)]
    objects = (node("n1", cpu="3"), quota("a", "2", "3"), quota("b", "1", "3"), *placed)
    new = pod("p", cpu="1", namespace="a")
    assert quotas.simulate(*objects, new).nodes == {"a/p": None}
    done = quotas.simulate(*objects, new, arguments=("--preempt",)).decisions["a/p"]
    assert done["node"] == "n1"
    assert [victim.partition("/")[0] for victim in done["victims"]] == ["b"]


def test_a_protected_pod_stays_with_preempt(tolerant: Bench) -> None:
    high = priority_class("high", 100)
    spared = priority_class("spared", 1, minimum="1000", seconds="-1")
    new = pod("p", cpu="3", priorityClassName="high")
    for klass, expected in ((spared, None), (priority_class("spared", 1), "n1")):
        placed = pod("r", cpu="3", nodeName="n1", priorityClassName="spared")
        result = tolerant.simulate(node("n1"), high, klass, placed, new, arguments=("--preempt",))
        assert result.nodes["default/p"] == expected


@pytest.mark.parametrize("obj", [quota("a", "1", "2"), priority_class("c", 7, minimum="9", seconds="60")])
def test_a_snapshot_holds_what_is_read_of_them(obj: dict[str, Any]) -> None:
    (resource,) = [resource for resource in RESOURCES if resource.kind == obj["kind"]]
    (codec,) = [watched.codec for watched in WATCHED_KINDS.values() if watched.kind == obj["kind"]]
    kept = resource.trim(obj)
    assert codec.decode(msgspec.json.encode(kept)) == codec.decode(msgspec.json.encode(obj))


def test_a_quota_that_cannot_be_read_is_left_out_and_reported(quotas: Bench) -> None:
    broken = quota("a", "1", "a lot")
    result = quotas.simulate(node("n1"), broken, pod("p", cpu="1", namespace="a"))
    assert result.nodes == {"a/p": "n1"}
    assert "ElasticQuota a/quota" in result.err
