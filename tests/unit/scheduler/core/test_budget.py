"""The meter of an attempt: a pod that is too much work is parked with a reason, by units that follow from the snapshot,
and no other pod is."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.core import decide, decide_gang, explain, run_post_filters
from scheduler.framework import (
    GANG_UNITS,
    Code,
    CycleState,
    Gang,
    OverBudgetError,
    PodInfo,
    ProfileRunner,
    Work,
    conclude,
    cycle as meter,
)
from scheduler.plugins import FACTORIES
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner
from tests.unit.scheduler.core.hostile import (
    HOST,
    HOSTILE,
    MANY,
    ZONE,
    crowded,
    hostile,
    near,
    node_terms,
    ordinary,
    required,
    selector,
    work_of,
)

DEFAULT = runner()
TOO_MANY = 3 * MANY
"""Terms; 1,000 sets of labels are compared with each."""


def wide(name: str, terms: int, **words: Any) -> PodInfo:
    """A pod whose terms have to be compared with every set of labels."""
    conditions = [
        {
            "matchExpressions": [
                {"key": "app", "operator": "Exists"},
                {"key": "app", "operator": "NotIn", "values": [f"{n}"]},
            ]
        }
        for n in range(terms)
    ]
    return pod(name, container("10m"), **near(conditions), **words)


def limit(monkeypatch: pytest.MonkeyPatch, units: int) -> None:
    monkeypatch.setattr(meter, "ATTEMPT_UNITS", units)


def units_of(state: ClusterState, info: PodInfo, profile: ProfileRunner = DEFAULT) -> int:
    """What an attempt at a pod is charged with."""
    return conclude(decide(state.snapshot(NOW), info, profile, random.Random(1))).state.work.done


def test_a_pod_that_is_too_much_work_is_rejected_with_the_units_and_the_limit() -> None:
    state = crowded(50, 2 * MANY)
    placement = conclude(decide(state.snapshot(NOW), wide("hostile", TOO_MANY), DEFAULT, random.Random(1)))
    assert (placement.node, placement.code) == (None, Code.UNSCHEDULABLE)
    assert placement.message is not None
    assert placement.message.startswith(
        "0/50 nodes are available: the pod is too much work for plugin InterPodAffinity: 30"
    )
    assert placement.message.endswith(
        " units (terms x sets of pod labels to compare), at most 1000000 are done in one attempt; list"
        " fewer in the pod's spec and in the objects that it uses."
    )
    assert placement.counters == {"over_budget/InterPodAffinity": 1}
    # No event wakes it: no plugin has registered any under this name.
    assert placement.rejectors == {"AttemptBudget"}
    assert not placement.rejectors & set(FACTORIES)
    outcome = conclude(run_post_filters(state.snapshot(NOW), placement, DEFAULT))
    assert (outcome.message, outcome.victims, outcome.nominated_node) == (placement.message, (), None)


def test_the_same_snapshot_parks_the_same_pod_and_explains_it_alike() -> None:
    state = crowded(50, 2 * MANY)
    messages = {
        conclude(decide(state.snapshot(NOW), wide("hostile", TOO_MANY), runner(), random.Random(n))).message
        for n in range(3)
    }
    frozen = state.snapshot(NOW, frozen=True)
    messages.add(
        conclude(decide(frozen, wide("hostile", TOO_MANY), DEFAULT, random.Random(1), from_scratch=True)).message
    )
    messages.add(explain(state.snapshot(NOW), wide("hostile", TOO_MANY), DEFAULT).message)
    assert len(messages) == 1


def test_to_find_out_is_little_work() -> None:
    state = crowded(50, 2 * MANY)
    info = wide("hostile", TOO_MANY)
    assert work_of(state, info, DEFAULT) < 40 * info.spec.parts


@pytest.mark.parametrize("terms", [60, 200])
def test_a_pod_with_dozens_of_terms_is_placed(terms: int) -> None:
    state = crowded(50, 10 * MANY)
    placement = conclude(decide(state.snapshot(NOW), wide("legitimate", terms), DEFAULT, random.Random(1)))
    assert placement.node is not None


def test_an_ordinary_pod_is_charged_nothing() -> None:
    state = crowded(50, MANY)
    assert units_of(state, ordinary("o", 1)) == 0


CHARGED = {
    "keys that pods carry": "InterPodAffinity",
    "values of a common key": "InterPodAffinity",
    "required not": "InterPodAffinity",
    "constraints": "PodTopologySpread",
    "hard constraints": "PodTopologySpread",
    "node selector terms": "NodeAffinity",
    "node selector expressions": "NodeAffinity",
    "tolerations": "TaintToleration",
    "host ports": "NodePorts",
    "images": "ImageLocality",
    "resources": "NodeResourcesFit",
}
"""By what a pod lists, which plugin charges for it."""


@pytest.mark.parametrize("case", CHARGED)
def test_whoever_works_through_a_list_charges_for_it(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state = crowded(50, MANY)
    state.upsert_node(node("tainted", taints=[("k", "", "NoSchedule")]))
    alone = {CHARGED[case], "NodeResourcesFit"}
    points = {"multiPoint": {"disabled": [{"name": "*"}], "enabled": [{"name": each} for each in sorted(alone)]}}
    points["multiPoint"]["enabled"] += [{"name": "PrioritySort"}, {"name": "DefaultBinder"}]
    profile = runner(points)
    info = hostile("hostile", case)
    units = units_of(state, info, profile)
    assert units >= MANY
    for most, parked in ((units, False), (units - 1, True)):
        limit(monkeypatch, most)
        placement = conclude(decide(state.snapshot(NOW), info, profile, random.Random(1)))
        assert bool(placement.rejectors == {"AttemptBudget"}) is parked
    assert sum(f"over_budget/{plugin}" in placement.counters for plugin in alone) == 1


@pytest.mark.parametrize("case", HOSTILE)
def test_whatever_is_remembered_an_attempt_is_charged_the_same(case: str) -> None:
    state = crowded(50, MANY)
    profile, chance = runner(), random.Random(1)
    charged = {
        conclude(
            decide(
                state.snapshot(NOW),
                hostile(f"h{n}", case),
                profile if n else runner(),
                chance,
                from_scratch=bool(n % 2),
            )
        ).state.work.done
        for n in range(4)
    }
    assert len(charged) == 1


@pytest.mark.parametrize("most", [0, 1, 50, 10_000, 100_000])
def test_with_and_without_columns_the_same_attempts_are_given_up(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    state, profile = crowded(50, MANY), runner()
    pods = [*(ordinary(f"o{n}", n % 2) for n in range(6)), *(hostile(f"h-{case}", case) for case in HOSTILE)]
    limit(monkeypatch, most)
    for info in pods:
        quick = conclude(decide(state.snapshot(NOW), info, profile, random.Random(7)))
        slow = conclude(decide(state.snapshot(NOW), info, runner(), random.Random(7), from_scratch=True))
        assert (quick.node, quick.message, quick.rejectors) == (slow.node, slow.message, slow.rejectors)
        assert (explain(state.snapshot(NOW), info, profile).message is None) is (quick.node is not None)
        if quick.node is not None:
            state.assume(info, quick.node, NOW)


def test_a_plugin_that_the_profile_does_not_have_charges_nothing() -> None:
    state = crowded(50, 2 * MANY)
    disabled = {"multiPoint": {"disabled": [{"name": "InterPodAffinity"}]}}
    placement = conclude(decide(state.snapshot(NOW), wide("hostile", TOO_MANY), runner(disabled), random.Random(1)))
    assert placement.node is not None


# Preemption ---------------------------------------------------------------------------------------------------------


def full_node(pods: int) -> ClusterState:
    state = cluster(node("n0", labels={ZONE: "z"}, allocatable={"cpu": "1", "pods": "100000"}))
    for index in range(pods):
        state.upsert_pod(pod(f"low-{index}", container(f"{800 // pods}m"), nodeName="n0", priority=0))
    return state


def preemptor(terms: int) -> PodInfo:
    conditions = required([selector(f"none-{n}") for n in range(terms)], (HOST,))
    return pod("high", container("500m"), priority=10, **conditions)


def test_the_trials_of_preemption_are_part_of_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    state = full_node(20)
    placement = conclude(decide(state.snapshot(NOW), preemptor(MANY), DEFAULT, random.Random(1)))
    assert conclude(run_post_filters(state.snapshot(NOW), placement, DEFAULT)).victims, "20 pods are few"
    placement = conclude(decide(state.snapshot(NOW), preemptor(MANY), DEFAULT, random.Random(1)))
    placement.state.work.limit = placement.state.work.done + 40 * MANY
    outcome = conclude(run_post_filters(state.snapshot(NOW), placement, DEFAULT))
    assert (outcome.victims, outcome.nominated_node) == ((), None)
    assert outcome.over_budget == "DefaultPreemption"
    assert "1 Insufficient cpu. preemption: the pod is too much work for plugin DefaultPreemption: " in outcome.message
    assert "units (potential victims x (terms + constraints + PodDisruptionBudgets)), at most " in outcome.message


def test_candidates_that_were_found_in_time_are_used() -> None:
    state = full_node(20)
    for name in ("n1", "n2"):
        state.upsert_node(node(name, labels={ZONE: "z"}, allocatable={"cpu": "1", "pods": "100"}))
        state.upsert_pod(pod(f"on-{name}", container("800m"), nodeName=name, priority=0))
    spread = [{"maxSkew": 100, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}]
    info = pod("high", container("500m"), priority=10, topologySpreadConstraints=spread)
    nominated = set()
    for seed in range(10):
        placement = conclude(decide(state.snapshot(NOW), info, DEFAULT, random.Random(seed)))
        placement.state.work.limit = placement.state.work.done + 500
        outcome = conclude(run_post_filters(state.snapshot(NOW), placement, DEFAULT))
        nominated.add(outcome.nominated_node)
    # Where the full node is the first to be tried, nothing is found.
    assert nominated == {"n1", "n2", None}


def test_an_ordinary_preemption_is_charged_nothing() -> None:
    state = full_node(20)
    placement = conclude(
        decide(state.snapshot(NOW), pod("high", container("500m"), priority=10), DEFAULT, random.Random(1))
    )
    assert conclude(run_post_filters(state.snapshot(NOW), placement, DEFAULT)).victims
    assert placement.state.work.done == 0


# Gangs --------------------------------------------------------------------------------------------------------------


def members(count: int, cpu: str = "1m") -> list[PodInfo]:
    # Labels of their own: what one of them is told is not said to the others.
    return [pod(f"m{n}", container(cpu), labels={"own": f"{n}"}) for n in range(count)]


def gang_of(pods: Sequence[PodInfo], minimum: int) -> Gang:
    return Gang("default/gang", tuple(pods), minimum, 0, 60.0)


def test_a_gang_is_one_attempt() -> None:
    state = crowded(50, 10)
    pods = members(30)
    work = Work(20 * 200)
    gang = gang_of(pods, 30)
    decision = conclude(
        decide_gang(state.snapshot(NOW), gang, pods, lambda pod: DEFAULT, random.Random(1), 30, work=work)
    )
    assert decision.over_budget
    assert 20 < len(decision.placements) < 30, "it ends there"
    last = decision.placements[-1]
    assert last.node is None
    assert last.rejectors == {"AttemptBudget"}
    assert last.message is not None
    assert "the attempt is too much: " in last.message
    assert "(members of the gang x nodes), at most 4000 are done in one attempt" in last.message
    assert last.counters == {"over_budget/AttemptBudget": 1}


def test_a_gang_of_ten_thousand_is_within_its_limit() -> None:
    assert GANG_UNITS > 10_000 * (150 + 5_000 // 50)


# Plugins ------------------------------------------------------------------------------------------------------------


def test_what_is_shared_in_an_attempt_is_charged_for_once() -> None:
    work = Work(10)
    work.charge_once("a", 4, "as")
    work.charge_once("a", 4, "as")
    work.charge_once("b", 4, "bs")
    assert work.done == 8
    with pytest.raises(OverBudgetError) as raised:
        work.charge(3, "cs")
    assert (raised.value.units, raised.value.limit, raised.value.walked) == (11, 10, "cs")


def test_what_is_taken_back_can_be_charged_again() -> None:
    work = Work()
    work.charge_once("a", 4, "as")
    saved = work.save()
    work.charge_once("b", 4, "bs")
    work.restore(saved)
    work.charge_once("a", 4, "as")
    work.charge_once("b", 4, "bs")
    assert work.done == 8


def test_what_if_runs_count_for_their_attempt() -> None:
    state = CycleState()
    state.clone().work.charge(5, "as")
    assert state.work.done == 5


def test_node_terms_within_the_budget_still_decide() -> None:
    state = crowded(50, 100)
    terms = [selector(HOST, "In", f"n{index}") for index in range(300, 600)]
    placement = conclude(decide(state.snapshot(NOW), pod("nowhere", **node_terms(terms)), DEFAULT, random.Random(1)))
    assert placement.message == "0/50 nodes are available: 50 node(s) didn't match Pod's node affinity/selector."
