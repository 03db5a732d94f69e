"""CapacityScheduling: who is rejected for which quota, and who has to go. Leaves out the real scheduler-plugins,
which is asked in tests/conformance."""

from __future__ import annotations

import dataclasses
import random
import re

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.catalog import ActionType
from scheduler.core import decide
from scheduler.framework import ClusterEvent, Hint, PodInfo, ProfileRunner, conclude
from scheduler.state import ClusterState
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod
from tests.unit.scheduler.plugins.quotas import (
    attempt,
    budget,
    names,
    only,
    preempt,
    quota,
    running,
    with_quotas,
)

HIGH, MID, LOW = 100, 50, 10
OVER_MAX = "0/1 nodes are available: Pod a/p is rejected in PreFilter because ElasticQuota a is more than Max. "
OVER_MIN = (
    "0/1 nodes are available: Pod a/p is rejected in PreFilter because total ElasticQuota used is more than min. "
)


def words(message: str) -> str:
    """A message without the amounts that upstream's lacks."""
    return re.sub(r" \([^()]*\)", "", message)


@pytest.fixture(scope="module")
def safe() -> ProfileRunner:
    return only("CapacityScheduling")


@pytest.fixture(scope="module")
def upstream() -> ProfileRunner:
    return only("CapacityScheduling", compatibility="upstream")


def wide(name: str = "n1") -> ClusterState:
    return cluster(node(name, allocatable={"cpu": "100", "memory": "100Gi", "example.com/gpu": "9"}))


def incoming(cpu: str = "2", memory: str | None = None, *, priority: int = HIGH, **fields: object) -> PodInfo:
    return pod("p", container(cpu, memory), namespace="a", priority=priority, **fields)


def placed(state: ClusterState, *pods: PodInfo, on: str = "n1") -> ClusterState:
    for running_pod in pods:
        state.upsert_pod(msgspec.structs.replace(running_pod, node_name=on))
    return state


# PreFilter ----------------------------------------------------------------------------------------------------------


def test_a_namespace_without_a_quota_is_free(safe: ProfileRunner) -> None:
    state = with_quotas(wide(), quota("b", {"cpu": "1"}, {"cpu": "1"}))
    assert attempt(state, incoming("90"), safe).node == "n1"


def test_the_limit_is_exact_to_the_last_millicpu(safe: ProfileRunner) -> None:
    state = with_quotas(placed(wide(), running("r", "a", "1500m", LOW)), quota("a", {"cpu": "9"}, {"cpu": "3"}))
    assert attempt(state, incoming("1500m"), safe).node == "n1"
    refused = attempt(state, incoming("1501m"), safe)
    assert words(refused.message) == OVER_MAX.strip()
    assert refused.rejectors == {"CapacityScheduling"}


def test_what_all_guarantee_together_may_be_borrowed_and_no_more(safe: ProfileRunner) -> None:
    state = with_quotas(placed(wide(), running("r", "b", "1", LOW)), quota("a", {"cpu": "1"}), quota("b", {"cpu": "4"}))
    assert attempt(state, incoming("4"), safe).node == "n1"
    assert words(attempt(state, incoming("4001m"), safe).message) == OVER_MIN.strip()


@pytest.mark.parametrize(
    ("most", "wanted", "fits"),
    [
        pytest.param({"cpu": "4"}, {"cpu": "1"}, True, id="named"),
        pytest.param({"cpu": "4"}, {"cpu": "1", "memory": "1"}, False, id="memory left out says 0"),
        pytest.param({"cpu": "4"}, {"cpu": "1", "ephemeral-storage": "1"}, False, id="storage left out says 0"),
        pytest.param({"cpu": "4"}, {"cpu": "1", "example.com/gpu": "3"}, True, id="others left out are unlimited"),
        pytest.param({"cpu": "4", "example.com/gpu": "2"}, {"example.com/gpu": "3"}, False, id="others named"),
        pytest.param({}, {"cpu": "1"}, False, id="empty"),
        pytest.param(None, {"cpu": "1", "memory": "1", "example.com/gpu": "3"}, True, id="none"),
    ],
)
def test_what_a_limit_says_of_a_resource(
    safe: ProfileRunner, upstream: ProfileRunner, most: dict[str, str] | None, wanted: dict[str, str], fits: bool
) -> None:
    everything = {"cpu": "90", "memory": "90Gi", "ephemeral-storage": "90Gi", "example.com/gpu": "9"}
    roomy = cluster(node("n1", allocatable={**everything}))
    state = with_quotas(roomy, quota("a", everything, most))
    asking = pod("p", container(requests=wanted), namespace="a")
    for profile in (safe, upstream):
        assert attempt(state, asking, profile).node == ("n1" if fits else None)


@pytest.mark.parametrize("least", [None, {}, {"memory": "1Gi"}])
def test_a_guarantee_that_names_no_cpu_guarantees_none(safe: ProfileRunner, least: dict[str, str] | None) -> None:
    state = with_quotas(wide(), quota("a", least, None))
    assert words(attempt(state, incoming("1m"), safe).message) == OVER_MIN.strip()


def test_a_resource_that_no_quota_guarantees_is_rejected(safe: ProfileRunner) -> None:
    state = with_quotas(wide(), quota("a", {"cpu": "9"}))
    wanted = pod("p", container("1", requests={"example.com/gpu": "1"}), namespace="a")
    assert words(attempt(state, wanted, safe).message) == OVER_MIN.strip()


def test_pods_chosen_a_moment_ago_count(safe: ProfileRunner) -> None:
    state = with_quotas(wide(), quota("a", {"cpu": "9"}, {"cpu": "3"}))
    first = incoming("2")
    state.assume(msgspec.structs.replace(first, uid="other", name="q", key="a/q"), "n1", NOW)
    assert attempt(state, first, safe).node is None
    state.forget("other")
    assert attempt(state, first, safe).node == "n1"


def test_members_decided_together_count_for_each_other(safe: ProfileRunner) -> None:
    state = with_quotas(wide(), quota("a", {"cpu": "9"}, {"cpu": "3"}))
    first, second = (pod(f"g{number}", container("2"), namespace="a") for number in range(2))
    overlay = state.snapshot(NOW).overlay()
    placement = conclude(decide(overlay, first, safe, random.Random(1)))
    assert placement.node
    overlay.add_pod(first, overlay.row(placement.node))
    assert conclude(decide(overlay, second, safe, random.Random(1))).node is None


def test_a_quota_that_comes_later_counts_the_pods_that_were_there(safe: ProfileRunner) -> None:
    state = placed(wide(), running("r", "a", "2", LOW))
    assert attempt(state, incoming("2"), safe).node == "n1"
    with_quotas(state, quota("a", {"cpu": "9"}, {"cpu": "3"}))
    assert attempt(state, incoming("2"), safe).node is None
    state.objects.remove("ElasticQuota", "a", "q")
    assert attempt(state, incoming("2"), safe).node == "n1"


def test_of_several_quotas_the_oldest_counts(safe: ProfileRunner) -> None:
    state = with_quotas(
        wide(),
        quota("a", {"cpu": "9"}, {"cpu": "9"}, name="a-young", at="2023-02-01T00:00:00Z"),
        quota("a", {"cpu": "9"}, {"cpu": "1"}, name="z-old", at="2023-01-01T00:00:00Z"),
    )
    assert attempt(state, incoming("2"), safe).node is None


@pytest.mark.parametrize(
    ("namespace", "priority", "nominated_node", "fits"),
    [
        pytest.param("a", HIGH, "n1", False, id="as important, same namespace"),
        pytest.param("a", LOW, "n1", True, id="less important"),
        pytest.param("a", HIGH, "gone", True, id="on a node that is gone"),
        pytest.param("b", HIGH, "n1", True, id="of another namespace: not its limit"),
    ],
)
def test_nominated_pods_count_against_the_limit(
    safe: ProfileRunner, namespace: str, priority: int, nominated_node: str, fits: bool
) -> None:
    state = with_quotas(wide(), quota("a", {"cpu": "9"}, {"cpu": "3"}), quota("b", {"cpu": "9"}))
    promised = pod("promised", container("2"), namespace=namespace, priority=priority)
    state.nominator.set(promised, nominated_node)
    assert attempt(state, incoming("2"), safe).node == ("n1" if fits else None)


@pytest.mark.parametrize(("used", "fits"), [("1", False), ("3", True)])
def test_nominated_pods_of_others_count_while_these_keep_within_their_guarantee(
    safe: ProfileRunner, used: str, fits: bool
) -> None:
    state = with_quotas(wide(), quota("a", {"cpu": "4"}), quota("b", {"cpu": "2"}))
    placed(state, running("r", "b", used, LOW))
    state.nominator.set(pod("promised", container("3"), namespace="b", priority=LOW), "n1")
    assert (attempt(state, incoming("3"), safe).node is not None) == fits


def test_a_pods_own_nomination_does_not_count_twice(safe: ProfileRunner) -> None:
    state = with_quotas(wide(), quota("a", {"cpu": "9"}, {"cpu": "3"}))
    state.nominator.set(incoming("2"), "n1")
    assert attempt(state, incoming("2"), safe).node == "n1"


# What a pod counts as: the two modes side by side -------------------------------------------------------------------


def test_sidecars_count_beside_the_containers_only_in_safe_mode(safe: ProfileRunner, upstream: ProfileRunner) -> None:
    state = with_quotas(wide(), quota("a", {"cpu": "9"}, {"cpu": "3"}))
    sidecar = {**container("2"), "restartPolicy": "Always"}
    wanted = pod("p", container("2"), namespace="a", initContainers=[sidecar])
    assert attempt(state, wanted, upstream).node == "n1"
    assert attempt(state, wanted, safe).node is None


def test_init_containers_and_overhead_count_as_upstream_adds_them_up(
    safe: ProfileRunner, upstream: ProfileRunner
) -> None:
    wanted = pod(
        "p", container("1"), container("1"), namespace="a", initContainers=[container("3")], overhead={"cpu": "500m"}
    )
    for most, fits in (("3500m", True), ("3499m", False)):
        state = with_quotas(wide(), quota("a", {"cpu": "9"}, {"cpu": most}))
        for profile in (safe, upstream):
            assert (attempt(state, wanted, profile).node is not None) == fits


def test_resources_of_the_pod_as_a_whole_count_only_in_safe_mode(safe: ProfileRunner, upstream: ProfileRunner) -> None:
    state = with_quotas(wide(), quota("a", {"cpu": "9"}, {"cpu": "3"}))
    wanted = pod("p", container("1"), namespace="a", resources={"requests": {"cpu": "4"}})
    assert attempt(state, wanted, upstream).node == "n1"
    assert attempt(state, wanted, safe).node is None


def test_a_pod_resized_in_place_counts_as_it_is_only_in_safe_mode(safe: ProfileRunner, upstream: ProfileRunner) -> None:
    state = with_quotas(wide(), quota("a", {"cpu": "9"}, {"cpu": "4"}))
    placed(state, msgspec.structs.replace(running("r", "a", "1", LOW), requests={"cpu": 3000}))
    assert attempt(state, incoming("2"), upstream).node == "n1"
    assert attempt(state, incoming("2"), safe).node is None


# PostFilter ---------------------------------------------------------------------------------------------------------


def full(*pods: PodInfo, cpu: str = "3") -> ClusterState:
    return placed(cluster(node("n1", allocatable={"cpu": cpu})), *pods)


def test_above_its_min_a_namespace_preempts_its_own_pods_of_lower_priority(safe: ProfileRunner) -> None:
    state = full(running("mine", "a", "1", MID), running("r1", "b", "1", LOW), running("r2", "b", "1", LOW))
    with_quotas(state, quota("a", {"cpu": "1"}, {"cpu": "4"}), quota("b", {"cpu": "4"}, {"cpu": "4"}))
    outcome = preempt(state, incoming("1"), safe)
    assert (outcome.nominated_node, names(outcome.victims)) == ("n1", ["mine"])


def test_within_its_min_a_namespace_preempts_borrowers_of_any_priority(safe: ProfileRunner) -> None:
    state = full(running("mine", "a", "1", LOW), running("r1", "b", "1", 900), running("r2", "b", "1", 800))
    with_quotas(state, quota("a", {"cpu": "3"}, {"cpu": "4"}), quota("b", {"cpu": "1"}, {"cpu": "4"}))
    outcome = preempt(state, incoming("1", priority=0), safe)
    assert names(outcome.victims) == ["r2"], "the less important one, and no more than was borrowed"


def test_a_namespace_within_its_min_has_no_victims(safe: ProfileRunner) -> None:
    state = full(running("r1", "b", "1", LOW), running("r2", "b", "2", LOW))
    with_quotas(state, quota("a", {"cpu": "2"}), quota("b", {"cpu": "3"}))
    outcome = preempt(state, incoming("1"), safe)
    assert words(outcome.message) == (
        "0/1 nodes are available: 1 Insufficient cpu. "
        "0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )
    assert outcome.nominated_node == ""


def test_without_a_quota_pods_preempt_pods_of_lower_priority_without_one(safe: ProfileRunner) -> None:
    state = full(running("r1", "b", "1", LOW), running("free", "c", "1", MID), running("top", "c", "1", 900))
    with_quotas(state, quota("b", {"cpu": "9"}))
    outcome = preempt(state, pod("p", container("1"), namespace="d", priority=HIGH), safe)
    assert names(outcome.victims) == ["free"]


def test_a_pod_rejected_by_its_max_may_preempt_in_its_namespace(safe: ProfileRunner) -> None:
    state = with_quotas(
        placed(wide(), running("r1", "a", "2", LOW), running("r2", "a", "1", MID)),
        quota("a", {"cpu": "1"}, {"cpu": "4"}),
        quota("b", {"cpu": "90"}),
    )
    outcome = preempt(state, incoming("2"), safe)
    assert words(outcome.message) == OVER_MAX.strip()
    assert (outcome.nominated_node, names(outcome.victims)) == ("n1", ["r1"]), "the more important one may stay"


def test_victims_that_do_not_bring_the_quota_below_its_limit_are_spared(safe: ProfileRunner) -> None:
    state = with_quotas(
        placed(wide(), running("r1", "a", "1", LOW), running("r2", "a", "3", HIGH)),
        quota("a", {"cpu": "1"}, {"cpu": "4"}),
        quota("b", {"cpu": "90"}),
    )
    outcome = preempt(state, incoming("2"), safe)
    assert words(outcome.message) == f"{OVER_MAX}0/1 nodes are available: 1 global quota max exceeded."
    assert not outcome.victims


def test_a_pod_that_must_not_preempt_does_not(safe: ProfileRunner) -> None:
    state = with_quotas(full(running("r1", "b", "3", LOW)), quota("a", {"cpu": "3"}), quota("b", {"cpu": "0"}))
    outcome = preempt(state, incoming("1", preemptionPolicy="Never"), safe)
    assert outcome.message.endswith(" not eligible due to preemptionPolicy=Never.")
    assert outcome.nominated_node is None


@pytest.mark.parametrize(
    ("leaving", "quotas", "waits"),
    [
        pytest.param(("a", LOW), {"a": "9"}, True, id="less important, same namespace"),
        pytest.param(("a", HIGH), {"a": "9"}, False, id="as important"),
        pytest.param(("b", 900), {"a": "9", "b": "1"}, True, id="of a borrower"),
        pytest.param(("b", LOW), {"a": "9", "b": "9"}, False, id="of a namespace within its guarantee"),
        pytest.param(("b", LOW), {"a": "1", "b": "1"}, False, id="of a borrower, but the pod borrows itself"),
        pytest.param(("b", LOW), {"a": "9"}, False, id="without a quota"),
        pytest.param(("b", LOW), {}, True, id="nobody has a quota"),
        pytest.param(("b", LOW), {"b": "1"}, False, id="only the other has a quota"),
    ],
)
def test_a_pod_waits_for_terminating_pods_that_make_room_for_it(
    safe: ProfileRunner, leaving: tuple[str, int], quotas: dict[str, str], waits: bool
) -> None:
    namespace, priority = leaving
    gone = running("gone", namespace, "3", priority, metadata={"deletionTimestamp": "2023-11-14T22:00:00Z"})
    state = with_quotas(full(gone), *(quota(name, {"cpu": least}) for name, least in quotas.items()))
    outcome = preempt(state, incoming("2", status={"nominatedNodeName": "n1"}), safe)
    waiting = outcome.message.endswith(" not eligible due to a terminating pod on the nominated node.")
    assert waiting == waits


# Repairs: the two modes side by side --------------------------------------------------------------------------------


def test_a_node_without_victims_is_named_by_upstream_and_counted_by_us(
    safe: ProfileRunner, upstream: ProfileRunner
) -> None:
    state = cluster(node("n1", allocatable={"cpu": "1"}), node("n2", allocatable={"cpu": "1"}))
    placed(state, running("r1", "b", "1", HIGH), on="n1")
    placed(state, running("r2", "b", "1", HIGH), on="n2")
    start = "0/2 nodes are available: 2 Insufficient cpu. 0/2 nodes are available: "
    # A pod that is larger than a node would not be tried there.
    wanted = incoming("500m", priority=LOW)
    assert preempt(state, wanted, safe).message == f"{start}2 No preemption victims found for incoming pod."
    assert preempt(state, wanted, upstream).message == (
        f"{start}1 No victims found on node n1 for preemptor pod p, 1 No victims found on node n2 for preemptor pod p."
    )


def test_no_pod_is_evicted_for_quota_that_a_nominated_pod_will_use(
    safe: ProfileRunner, upstream: ProfileRunner
) -> None:
    state = with_quotas(
        placed(wide(), running("r1", "a", "2", LOW)), quota("a", {"cpu": "9"}, {"cpu": "4"}), quota("b", {"cpu": "90"})
    )
    state.nominator.set(pod("first", container("3"), namespace="a", priority=HIGH), "n1")
    # With the nominated pod the limit leaves 1: whoever goes, this one is refused all the same.
    state.objects.upsert("ElasticQuota", quota("a", {"cpu": "1"}, {"cpu": "4"}))
    wanted = incoming("2")
    assert names(preempt(state, wanted, upstream).victims) == ["r1"]
    outcome = preempt(state, wanted, safe)
    assert words(outcome.message) == f"{OVER_MAX}0/1 nodes are available: 1 global quota max exceeded."
    assert not outcome.victims


def test_upstream_stumbles_over_a_pod_that_neither_fits_nor_leaves_room_in_the_quota(
    safe: ProfileRunner, upstream: ProfileRunner
) -> None:
    state = with_quotas(
        full(running("r1", "a", "2", LOW), cpu="3"), quota("a", {"cpu": "1"}, {"cpu": "4"}), quota("b", {"cpu": "90"})
    )
    state.upsert_node(node("n2", allocatable={"cpu": "1"}))
    state.nominator.set(pod("first", container("3"), namespace="a", priority=HIGH), "n2")
    wanted = incoming("2")
    assert preempt(state, wanted, upstream).message.endswith("no corresponding pod r1 in pods of node n1")
    outcome = preempt(state, wanted, safe)
    assert outcome.message.endswith("1 No preemption victims found for incoming pod, 1 global quota max exceeded.")


def test_a_pdb_violation_counts_also_for_a_victim_of_the_quota(safe: ProfileRunner, upstream: ProfileRunner) -> None:
    # Two nodes with room: only the quota makes pods go. The pod of n1 breaks a budget, that of n2 is more important.
    state = wide("n1")
    state.upsert_node(node("n2", allocatable={"cpu": "100", "memory": "100Gi"}))
    placed(state, running("broken", "a", "2", LOW, labels={"app": "x"}), on="n1")
    placed(state, running("plain", "a", "2", MID), on="n2")
    with_quotas(state, quota("a", {"cpu": "1"}, {"cpu": "4"}), quota("b", {"cpu": "90"}))
    state.objects.upsert("PodDisruptionBudget", budget("x", "a", 0, "x"))
    assert names(preempt(state, incoming("2"), upstream).victims) == ["broken"]
    assert names(preempt(state, incoming("2"), safe).victims) == ["plain"]


def test_on_many_nodes_the_search_ends_with_enough_candidates(safe: ProfileRunner, upstream: ProfileRunner) -> None:
    state = cluster(*(node(f"n{number}", allocatable={"cpu": "1"}) for number in range(400)))
    for number in range(400):
        priority = LOW if number == 7 else MID
        placed(state, running(f"r{number}", "b", "1", priority, age=100 + number), on=f"n{number}")
    with_quotas(state, quota("a", {"cpu": "400"}), quota("b", {"cpu": "1"}))
    chosen = [preempt(state, incoming("1"), upstream, seed).nominated_node for seed in range(3)]
    assert chosen == ["n7"] * 3, "upstream looks at all nodes"
    assert {preempt(state, incoming("1"), safe, seed).nominated_node for seed in range(6)} != {"n7"}


# Waking -------------------------------------------------------------------------------------------------------------


def test_what_may_make_room_wakes_a_pod(safe: ProfileRunner, upstream: ProfileRunner) -> None:
    def wakes(profile: ProfileRunner, event: ClusterEvent, old: object = None, new: object = None) -> bool:
        registrations = [
            registration
            for registration in profile.hint_registrations()["CapacityScheduling"]
            if event.matches(registration)
        ]
        return any(
            registration.hint is None or registration.hint(incoming(), old, new) is Hint.QUEUE
            for registration in registrations
        )

    before, after = quota("a", {"cpu": "1"}), quota("a", {"cpu": "2"})
    reported = msgspec.structs.replace(before, status=msgspec.structs.replace(before.status, used={"cpu": "1"}))
    for profile in (safe, upstream):
        assert wakes(profile, ClusterEvent("AssignedPod", ActionType.DELETE))
        assert wakes(profile, ClusterEvent("ElasticQuota", ActionType.ADD), None, before)
        assert wakes(profile, ClusterEvent("ElasticQuota", ActionType.UPDATE), before, after)
        assert wakes(profile, ClusterEvent("ElasticQuota", ActionType.DELETE), before, None)
    assert wakes(upstream, ClusterEvent("ElasticQuota", ActionType.UPDATE), before, reported)
    assert not wakes(safe, ClusterEvent("ElasticQuota", ActionType.UPDATE), before, reported)
    assert wakes(safe, ClusterEvent("AssignedPod", ActionType.UPDATE_POD_SCALE_DOWN))


# Properties ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Example:
    state: ClusterState
    incoming: PodInfo


@st.composite
def examples(draw: st.DrawFn) -> Example:
    number = draw(st.integers(1, 4))
    state = cluster(*(node(f"n{index}", allocatable={"cpu": str(draw(st.integers(2, 6)))}) for index in range(number)))
    for index in range(draw(st.integers(0, 4 * number))):
        pod_on_node = running(
            f"p{index}",
            draw(st.sampled_from("abc")),
            f"{draw(st.integers(1, 20))}00m",
            draw(st.integers(0, 4)) * 10,
            age=1000 + index,
        )
        placed(state, pod_on_node, on=f"n{draw(st.integers(0, number - 1))}")
    for name in "ab":
        if draw(st.booleans()):
            least = {"cpu": str(draw(st.integers(0, 6)))}
            most = {"cpu": str(draw(st.integers(1, 9)))} if draw(st.booleans()) else None
            with_quotas(state, quota(name, least, most))
    wanted = pod(
        "incoming",
        container(f"{draw(st.integers(5, 40))}00m"),
        namespace=draw(st.sampled_from("abc")),
        priority=draw(st.integers(0, 5)) * 10,
    )
    return Example(state, wanted)


@settings(max_examples=tries(150), deadline=None)
@given(examples())
def test_the_pod_fits_on_the_node_once_the_victims_are_deleted(safe: ProfileRunner, example: Example) -> None:
    state, wanted = example.state, example.incoming
    if attempt(state, wanted, safe).node is not None:
        return
    outcome = preempt(state, wanted, safe)
    if not outcome.nominated_node:
        return
    for victim in outcome.victims:
        same = victim.namespace == wanted.namespace
        has_quota = state.objects.in_namespace("ElasticQuota", wanted.namespace)
        assert victim.priority < wanted.priority or (has_quota and not same)
        state.remove_pod(victim.uid)
    snapshot = state.snapshot(NOW)
    again = conclude(decide(snapshot, wanted, safe, random.Random(0)))
    # Other nodes may have become feasible too, by the quota alone.
    assert again.node is not None
    code = safe.plugins["NodeResourcesFit"]
    assert code is not None
    row = snapshot.row(outcome.nominated_node)
    free = snapshot.allocatable("cpu")[row] - snapshot.requested("cpu")[row]
    assert free >= wanted.requests["cpu"]
