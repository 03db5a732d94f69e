"""PreemptionToleration: whom a PriorityClass protects, from whom and for how long. Leaves out what it shares with
DefaultPreemption, and the real scheduler-plugins, which is asked in tests/conformance."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.framework import PodInfo, ProfileRunner
from scheduler.kube.model import PriorityClass
from scheduler.plugins.preemptiontoleration import MINIMUM, SECONDS, Policy, policy_of
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod
from tests.unit.scheduler.plugins.quotas import names, only, preempt, running

START = "0/1 nodes are available: 1 Insufficient cpu. "
NOBODY = f"{START}0/1 nodes are available: 1 No preemption victims found for incoming pod."


@pytest.fixture(scope="module")
def safe() -> ProfileRunner:
    return only("PreemptionToleration")


@pytest.fixture(scope="module")
def upstream() -> ProfileRunner:
    return only("PreemptionToleration", compatibility="upstream")


def priority_class(value: int = 10, **annotations: str) -> PriorityClass:
    keys = {"minimum": MINIMUM, "seconds": SECONDS}
    metadata = {"name": "protected", "annotations": {keys[key]: text for key, text in annotations.items()}}
    return msgspec.convert({"metadata": metadata, "value": value}, PriorityClass)


def scheduled(ago: int, status: str = "True") -> dict[str, Any]:
    moment = int(NOW - ago)
    clock = f"{moment // 3600 % 24:02}:{moment // 60 % 60:02}:{moment % 60:02}"
    condition = {"type": "PodScheduled", "status": status, "lastTransitionTime": f"2023-11-14T{clock}Z"}
    return {"conditions": [condition]}


def protected(status: dict[str, Any] | None = None) -> PodInfo:
    return running("v", "a", "3", 10, priorityClassName="protected", status=status or scheduled(100))


def world(victim: PodInfo, *classes: PriorityClass) -> ClusterState:
    state = cluster(node("n1", allocatable={"cpu": "4"}), pods={"n1": [victim]})
    for priority_class in classes:
        state.objects.upsert("PriorityClass", priority_class)
    return state


def incoming(priority: int = 50) -> PodInfo:
    return pod("p", container("2"), priority=priority)


@pytest.mark.parametrize(
    ("annotations", "spared"),
    [
        pytest.param({}, False, id="no policy"),
        pytest.param({"seconds": "3600"}, False, id="minimum is value + 1, which the preemptor has"),
        pytest.param({"minimum": "50", "seconds": "3600"}, False, id="the preemptor has the minimum"),
        pytest.param({"minimum": "51", "seconds": "3600"}, True, id="below the minimum, in time"),
        pytest.param({"minimum": "51", "seconds": "101"}, True, id="a second left"),
        pytest.param({"minimum": "51", "seconds": "100"}, False, id="time is up"),
        pytest.param({"minimum": "51"}, False, id="no time"),
        pytest.param({"minimum": "51", "seconds": "-1"}, True, id="for ever"),
        pytest.param({"minimum": "+51", "seconds": "+101"}, True, id="with signs"),
        pytest.param({"minimum": "51x", "seconds": "3600"}, False, id="minimum cannot be read"),
        pytest.param({"minimum": "51", "seconds": "1h"}, False, id="time cannot be read"),
        pytest.param({"minimum": "2147483648", "seconds": "-1"}, False, id="minimum beyond 32 bits"),
        pytest.param({"minimum": " 51", "seconds": "-1"}, False, id="a blank"),
        pytest.param({"minimum": "5_1", "seconds": "-1"}, False, id="an underscore"),
    ],
)
def test_a_class_protects_its_pods(
    safe: ProfileRunner, upstream: ProfileRunner, annotations: dict[str, str], spared: bool
) -> None:
    state = world(protected(), priority_class(**annotations))
    outcome = preempt(state, incoming(), safe)
    assert names(outcome.victims) == ([] if spared else ["v"])
    assert outcome.message == (NOBODY if spared else START.strip())
    assert names(preempt(state, incoming(), upstream).victims) == ([] if spared else ["v"])


@pytest.mark.parametrize(
    "status", [pytest.param({"conditions": []}, id="none"), pytest.param(scheduled(9000, "False"), id="not true")]
)
def test_a_pod_that_does_not_say_when_it_was_scheduled_is_spared(safe: ProfileRunner, status: dict[str, Any]) -> None:
    assert not preempt(world(protected(status), priority_class(minimum="99", seconds="1")), incoming(), safe).victims


def test_pods_without_a_class_are_not_protected(safe: ProfileRunner) -> None:
    assert names(preempt(world(running("v", "a", "3", 10)), incoming(), safe).victims) == ["v"]


def test_protection_is_no_matter_of_pods_of_the_same_priority(safe: ProfileRunner) -> None:
    assert not preempt(world(protected(), priority_class()), incoming(10), safe).victims


def test_only_the_unprotected_pods_of_a_node_go(safe: ProfileRunner) -> None:
    free = running("free", "a", "1", 10)
    state = world(protected(), priority_class(minimum="99", seconds="-1"))
    state.upsert_pod(msgspec.structs.replace(free, node_name="n1"))
    assert names(preempt(state, pod("p", container("1"), priority=50), safe).victims) == ["free"]
    assert not preempt(state, incoming(), safe).victims


def test_any_terminating_pod_of_lower_priority_on_the_nominated_node_is_waited_for(safe: ProfileRunner) -> None:
    gone = running("v", "a", "3", 10, metadata={"deletionTimestamp": "2023-11-14T22:00:00Z"})
    wanted = pod("p", container("2"), priority=50, status={"nominatedNodeName": "n1"})
    outcome = preempt(world(gone), wanted, safe)
    assert outcome.message == f"{START}not eligible due to a terminating pod on the nominated node."


def test_a_pod_that_must_not_preempt_does_not(safe: ProfileRunner) -> None:
    wanted = pod("p", container("2"), priority=50, preemptionPolicy="Never")
    assert preempt(world(protected()), wanted, safe).message == (f"{START}not eligible due to preemptionPolicy=Never.")


def test_the_search_ends_with_as_many_candidates_as_the_args_say() -> None:
    profile = only("PreemptionToleration", {"minCandidateNodesPercentage": 10, "minCandidateNodesAbsolute": 0})
    plugin = profile.plugins["PreemptionToleration"]
    assert plugin._candidates_wanted(200) == 20  # type: ignore[attr-defined]
    default = only("PreemptionToleration").plugins["PreemptionToleration"]
    assert [default._candidates_wanted(number) for number in (60, 200, 2000)] == [60, 100, 200]  # type: ignore[attr-defined]


# Repairs: the two modes side by side --------------------------------------------------------------------------------


def test_a_deleted_class_fails_upstream_and_protects_no_pod_here(safe: ProfileRunner, upstream: ProfileRunner) -> None:
    state = world(protected())
    assert preempt(state, incoming(), upstream).message == (
        f'{START}priorityclass.scheduling.k8s.io "protected" not found'
    )
    assert names(preempt(state, incoming(), safe).victims) == ["v"]


def test_a_time_of_centuries_is_over_upstream_and_long_here(safe: ProfileRunner, upstream: ProfileRunner) -> None:
    state = world(protected(), priority_class(minimum="99", seconds="9300000000"))
    assert names(preempt(state, incoming(), upstream).victims) == ["v"]
    assert not preempt(state, incoming(), safe).victims


def test_a_node_without_victims_is_named_by_upstream_and_counted_by_us(upstream: ProfileRunner) -> None:
    state = world(protected(), priority_class(minimum="99", seconds="-1"))
    assert preempt(state, incoming(), upstream).message == (
        f"{START}0/1 nodes are available: 1 No victims found on node n1 for preemptor pod p."
    )


# Policies -----------------------------------------------------------------------------------------------------------


def test_policies_as_upstreams_own_table_reads_them() -> None:
    assert policy_of(priority_class(1)) == Policy(2, 0)
    assert policy_of(priority_class(1, minimum="100", seconds="10")) == Policy(100, 10)
    assert policy_of(priority_class(1, minimum="100", seconds="-1")) == Policy(100, -1)
    for unreadable in ({"minimum": "a"}, {"seconds": "a"}):
        with pytest.raises(ValueError, match="'a' is not an integer"):
            policy_of(priority_class(1, **unreadable))
