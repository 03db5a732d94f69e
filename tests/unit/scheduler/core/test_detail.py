"""What is kept of an explanation."""

from __future__ import annotations

import msgspec
import numpy as np
from hypothesis import given, settings, strategies as st

from scheduler.core import detail_of, explain
from scheduler.state import ClusterState
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, SOURCE, cluster, container, load, node, pod, runner
from tests.unit.scheduler.core.strategies import clusters, pods

DEFAULT = runner()
WITH_LOAD = runner(
    {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 5}]}},
    {"TargetLoadPacking": {"watcherAddress": "http://watcher.test:2020"}},
)


def test_rejections_are_counted_by_plugin_and_reason_with_some_names() -> None:
    full = [node(f"full-{index}", allocatable={"cpu": "1", "memory": "1Gi"}) for index in range(5)]
    state = cluster(*full, node("closed", unschedulable=True))
    snapshot = state.snapshot(NOW)
    detail = detail_of(explain(snapshot, pod("p", container("2", "2Gi")), DEFAULT), snapshot, DEFAULT, None, 5)
    groups = [(group.plugin, group.reason, group.nodes, group.examples) for group in detail.rejected]
    names = ("full-0", "full-1", "full-2")
    assert groups == [
        ("NodeResourcesFit", "Insufficient cpu", 5, names),
        ("NodeResourcesFit", "Insufficient memory", 5, names),
        ("NodeUnschedulable", "node(s) were unschedulable", 1, ("closed",)),
    ]
    assert (detail.evaluated, detail.feasible, detail.nodes) == (6, 0, ())


def test_rejections_that_a_plugin_takes_back_are_kept_apart() -> None:
    enabled = {"enabled": [{"name": "HighLoadFilter"}]}
    limits = {"HighLoadFilter": {"watcherAddress": "http://watcher.test:2020", "usageThresholds": {"cpu": 50}}}
    limited = runner({"preFilter": enabled, "filter": enabled}, limits)
    state = cluster(node("n0"), node("n1"))
    state.set_load(load({"n0": 60.0, "n1": 70.0}))
    snapshot = state.snapshot(NOW)
    detail = detail_of(explain(snapshot, pod("p"), limited), snapshot, limited, "n0", 5)
    assert (detail.feasible, detail.rejected) == (2, ())
    [group] = detail.taken_back
    reason = "node predicted CPU utilization exceeds the HighLoadFilter threshold (60.0% to 70.0%, threshold 50%)"
    assert (group.plugin, group.reason, group.nodes, group.examples) == ("HighLoadFilter", reason, 2, ("n0", "n1"))


def test_a_rejection_for_all_nodes_is_one_group() -> None:
    state = cluster(node("n0"), node("n1"))
    snapshot = state.snapshot(NOW)
    wanted = pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}])
    detail = detail_of(explain(snapshot, wanted, DEFAULT), snapshot, DEFAULT, None, 5)
    assert [(group.nodes, group.examples) for group in detail.rejected] == [(2, ())]
    assert detail.rejected[0].reason == 'persistentvolumeclaim "missing" not found'


def test_scored_nodes_carry_the_load_that_plugins_saw_and_its_age() -> None:
    state = cluster(node("busy"), node("calm"))
    state.set_load(load({"busy": 80.0, "calm": 10.0}, age=20.0))
    snapshot = state.snapshot(NOW)
    detail = detail_of(explain(snapshot, pod("p", container("100m")), WITH_LOAD), snapshot, WITH_LOAD, "calm", 5)
    shown = {scored.name: (scored.chosen, scored.load[SOURCE].cpu, scored.load[SOURCE].age) for scored in detail.nodes}
    assert shown == {"calm": (True, 10.0, 20.0), "busy": (False, 80.0, 20.0)}


@settings(max_examples=tries(60), deadline=None)
@given(clusters(), pods("new"), st.integers(0, 6))
def test_the_best_nodes_are_kept_and_the_chosen_one(state: ClusterState, info: object, most: int) -> None:
    snapshot = state.snapshot(NOW)
    explanation = explain(snapshot, info, DEFAULT)  # type: ignore[arg-type]  # a strategy's
    everyone = dict(explanation.nodes())
    feasible = sorted((scored.total for scored in everyone.values() if scored.feasible), reverse=True)
    chosen = explanation.best[-1] if explanation.best else None
    detail = detail_of(explanation, snapshot, DEFAULT, chosen, most)
    totals = [scored.total for scored in detail.nodes]
    assert totals[:most] == feasible[:most]
    assert len(totals) <= most + 1
    assert [scored.name for scored in detail.nodes if scored.chosen] == ([chosen] if chosen else [])
    assert sum(group.nodes for group in detail.rejected) >= len(everyone) - len(feasible)


def test_a_filter_that_was_asked_with_and_without_nominated_pods_has_one_group_per_reason() -> None:
    small = {"cpu": "1", "memory": "4Gi", "pods": "10"}
    full, free = node("full", allocatable=small), node("free", allocatable=small)
    state = cluster(full, free, pods={"full": [pod("there", container("900m"))]})
    state.nominator.set(pod("important", container("900m"), priority=10), "free")
    snapshot = state.snapshot(NOW)
    detail = detail_of(explain(snapshot, pod("p", container("500m")), DEFAULT), snapshot, DEFAULT, None, 5)
    (group,) = detail.rejected
    assert (group.plugin, group.nodes, sorted(group.examples)) == ("NodeResourcesFit", 2, ["free", "full"])


UNREADABLE = {"matchExpressions": [{"key": "size", "operator": "Bad", "values": ["1"]}]}
BROKEN = {
    "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": UNREADABLE}]}
}


def test_what_a_score_plugin_cannot_read_keeps_no_pod_from_the_only_node_that_fits() -> None:
    snapshot = cluster(node("n0"), node("closed", unschedulable=True)).snapshot(NOW)
    detail = detail_of(explain(snapshot, pod("p", affinity=BROKEN), DEFAULT), snapshot, DEFAULT, "n0", 5)
    assert (detail.error, detail.feasible, [scored.name for scored in detail.nodes]) == (None, 1, ["n0"])


def test_an_error_is_told_instead_of_rejections() -> None:
    snapshot = cluster(node("n0"), node("n1")).snapshot(NOW)
    detail = detail_of(
        explain(snapshot, pod("p", container("1"), affinity=BROKEN), DEFAULT), snapshot, DEFAULT, None, 5
    )
    assert detail.error is not None
    assert "operator 'Bad'" in detail.error
    assert (detail.feasible, detail.shortage) == (0, None)


def test_of_a_pod_that_fits_where_it_is_nominated_no_other_node_is_said_to_be_unfit() -> None:
    snapshot = cluster(node("n0"), node("n1")).snapshot(NOW)
    nominated = msgspec.structs.replace(pod("p", container("1")), nominated_node="n1")
    explanation = explain(snapshot, nominated, DEFAULT)
    detail = detail_of(explanation, snapshot, DEFAULT, "n1", 5)
    assert (detail.nominated, [scored.name for scored in detail.nodes], detail.rejected) == (True, ["n1"], ())
    assert explanation.node("n0").rejection is None


@given(st.lists(st.integers(0, 6), min_size=1, max_size=30), st.integers(0, 8))
@settings(max_examples=tries(200))
def test_the_best_rows_are_those_of_a_stable_sort(totals: list[int], most: int) -> None:
    snapshot = cluster(*(node(f"n{index:02}") for index in range(len(totals)))).snapshot(NOW)
    explanation = explain(snapshot, pod("p"), DEFAULT)
    explanation.totals = np.array(totals)
    ordered = sorted(range(len(totals)), key=lambda index: -totals[index])
    assert explanation.best_rows(most).tolist() == [int(explanation.feasible[index]) for index in ordered[:most]]
