"""The budget of an attempt: a pod that is too much work is parked with a reason, by units that follow from the pod and
the snapshot, and no other pod is."""

import random
from typing import Any

import pytest

from scheduler.core import PREEMPTION_OVER_BUDGET, decide, explain, run_post_filters
from scheduler.core import budget as budgets
from scheduler.framework import Code, PodInfo
from scheduler.plugins import FACTORIES
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner
from tests.unit.scheduler.core.hostile import (
    HOST,
    MANY,
    ZONE,
    crowded,
    hostile,
    near,
    node_terms,
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


def test_a_pod_that_is_too_much_work_is_rejected_with_the_units_and_the_limit() -> None:
    state = crowded(50, 2 * MANY)
    placement = decide(state.snapshot(NOW), wide("hostile", TOO_MANY), DEFAULT, random.Random(1))
    assert (placement.node, placement.code) == (None, Code.UNSCHEDULABLE)
    assert placement.message == (
        "0/50 nodes are available: the pod is too much work for plugin InterPodAffinity: 3000000 units (terms x sets"
        " of pod labels to compare), at most 2000000 are done in one attempt; list fewer in the pod's spec."
    )
    assert placement.counters == {"over_budget/InterPodAffinity": 1}
    # No event wakes it: no plugin has registered any under this name.
    assert placement.rejectors == {"AttemptBudget"}
    assert not placement.rejectors & set(FACTORIES)
    outcome = run_post_filters(state.snapshot(NOW), placement, DEFAULT)
    assert (outcome.message, outcome.victims, outcome.nominated_node) == (placement.message, (), None)


def test_the_same_snapshot_parks_the_same_pod_and_explains_it_alike() -> None:
    state = crowded(50, 2 * MANY)
    messages = {
        decide(state.snapshot(NOW), wide("hostile", TOO_MANY), runner(), random.Random(n)).message for n in range(3)
    }
    frozen = state.snapshot(NOW, frozen=True)
    messages.add(decide(frozen, wide("hostile", TOO_MANY), DEFAULT, random.Random(1), from_scratch=True).message)
    messages.add(explain(state.snapshot(NOW), wide("hostile", TOO_MANY), DEFAULT).message)
    assert len(messages) == 1


def test_to_find_out_is_little_work() -> None:
    state = crowded(50, 2 * MANY)
    info = wide("hostile", TOO_MANY)
    assert work_of(state, info, DEFAULT) < 30 * info.spec.parts


@pytest.mark.parametrize("terms", [60, 200])
def test_a_pod_with_dozens_of_terms_is_placed(terms: int) -> None:
    state = crowded(50, 10 * MANY)
    placement = decide(state.snapshot(NOW), wide("legitimate", terms), DEFAULT, random.Random(1))
    assert placement.node is not None


def test_an_ordinary_pod_is_within_every_budget_of_a_huge_cluster() -> None:
    # What is not looked at closer: no budget may be below the most that such a pod can list, at 10,000 nodes.
    for plugin, budget in budgets._BUDGETS.items():
        if budget.formula.endswith("x nodes"):
            assert budget.limit > 256 * 10_000, plugin


CASES: dict[str, tuple[str, str | None]] = {
    "NodeAffinity": ("node selector expressions", None),
    "TaintToleration": ("tolerations", None),
    "NodePorts": ("host ports", None),
    "InterPodAffinity": ("values of a common key", None),
}


@pytest.mark.parametrize("plugin", CASES)
def test_every_plugin_has_a_budget_of_its_own(plugin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state = crowded(50, MANY)
    state.upsert_node(node("tainted", taints=[("k", "", "NoSchedule")]))
    info = hostile("hostile", CASES[plugin][0])
    budget = budgets._BUDGETS[plugin]
    monkeypatch.setattr(budgets, "_MOST_COMPARISONS", 0)
    units = budget.units(state.snapshot(NOW), info)
    assert units >= MANY
    for limit, parked in ((units, False), (units - 1, True)):
        monkeypatch.setitem(budgets._BUDGETS, plugin, budget._replace(limit=limit))
        placement = decide(state.snapshot(NOW), info, DEFAULT, random.Random(1))
        assert (f"over_budget/{plugin}" in placement.counters) is parked


def test_no_budget_counts_for_a_plugin_that_the_profile_does_not_have() -> None:
    state = crowded(50, 2 * MANY)
    disabled = {"multiPoint": {"disabled": [{"name": "InterPodAffinity"}]}}
    placement = decide(state.snapshot(NOW), wide("hostile", TOO_MANY), runner(disabled), random.Random(1))
    assert placement.node is not None


def test_preemption_is_not_tried_for_a_pod_whose_trials_would_be_too_much_work() -> None:
    room = {"cpu": "1", "pods": "100000"}
    state = cluster(node("n0", labels={ZONE: "z"}, allocatable=room))
    for index in range(20):
        state.upsert_pod(pod(f"low-{index}", container("40m"), nodeName="n0", priority=0))
    terms = required([selector(f"none-{n}") for n in range(MANY)], (HOST,))
    info = pod("high", container("500m"), priority=10, **terms)
    placement = decide(state.snapshot(NOW), info, DEFAULT, random.Random(1))
    outcome = run_post_filters(state.snapshot(NOW), placement, DEFAULT)
    assert outcome.victims, "20 pods are few"
    assert PREEMPTION_OVER_BUDGET not in placement.counters


def test_the_trials_of_preemption_have_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "_PREEMPTION", budgets._PREEMPTION._replace(limit=10 * MANY))
    state = cluster(node("n0", labels={ZONE: "z"}, allocatable={"cpu": "1", "pods": "1000"}))
    for index in range(20):
        state.upsert_pod(pod(f"low-{index}", container("40m"), nodeName="n0", priority=0))
    terms = required([selector(f"none-{n}") for n in range(MANY)], (HOST,))
    placement = decide(
        state.snapshot(NOW), pod("high", container("500m"), priority=10, **terms), DEFAULT, random.Random(1)
    )
    outcome = run_post_filters(state.snapshot(NOW), placement, DEFAULT)
    assert not outcome.victims
    assert outcome.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: the pod is too much work for plugin"
        " DefaultPreemption: 20000 units ((terms + constraints) x pods on nodes), at most 10000 are done in one"
        " attempt; list fewer in the pod's spec."
    )
    assert placement.counters[PREEMPTION_OVER_BUDGET] == 1


def test_node_terms_within_the_budget_still_decide() -> None:
    state = crowded(50, 100)
    terms = [selector(HOST, "In", f"n{index}") for index in range(300, 600)]
    placement = decide(state.snapshot(NOW), pod("nowhere", **node_terms(terms)), DEFAULT, random.Random(1))
    assert placement.message == "0/50 nodes are available: 50 node(s) didn't match Pod's node affinity/selector."
