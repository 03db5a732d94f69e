"""decide and explain: they agree, they are deterministic, they word failures as upstream does, and one bad plugin
costs one pod."""

import dataclasses
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.answers import MatrixNode, NodeRejection, Score
from scheduler.core import decide, explain
from scheduler.framework import Code, CycleState, NodeView, PodInfo, ProfileRunner, RowArray, Status, conclude
from scheduler.plugins import FACTORIES
from scheduler.state import ClusterState
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, container, load, node, only_scores, pod, runner
from tests.unit.scheduler.core.strategies import clusters, pods

WITH_LOAD = runner(
    {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 5}]}},
    {"TargetLoadPacking": {"watcherAddress": "http://watcher.test:2020"}},
)
DEFAULT = runner()


@settings(max_examples=tries(80), deadline=None)
@given(clusters(), pods("new"), st.lists(st.floats(0, 120), max_size=4), st.integers(0, 2**32))
def test_decide_picks_one_of_explains_best_nodes_for_the_same_total(
    state: ClusterState, info: PodInfo, loads: list[float], seed: int
) -> None:
    if loads:
        state.set_load(load({f"n{index}": value for index, value in enumerate(loads)}))
    snapshot = state.snapshot(NOW)
    placement = conclude(decide(snapshot, info, WITH_LOAD, random.Random(seed)))
    explanation = explain(snapshot, info, WITH_LOAD)
    assert placement.message == explanation.message
    assert placement.feasible == len(explanation.feasible)
    if placement.node is None:
        assert not explanation.best
        assert not any(explained.feasible for _, explained in explanation.nodes())
        return
    assert placement.node in explanation.best
    if placement.feasible > 1:
        assert placement.total == explanation.node(placement.node).total
        assert placement.best == len(explanation.best)
    for _, explained in explanation.nodes():
        assert explained.total == sum(score.weighted for score in explained.scores.values())
        assert all(0 <= score.normalized <= 100 for score in explained.scores.values())


def test_ties_are_broken_evenly_and_by_the_seed() -> None:
    state = cluster(*(node(f"n{index}") for index in range(4)))
    info = pod("p", container("100m"))
    rng = random.Random(7)
    counts = Counter(conclude(decide(state.snapshot(NOW), info, DEFAULT, rng)).node for _ in range(2000))
    assert len(counts) == 4
    assert all(400 < number < 600 for number in counts.values())
    again = [conclude(decide(state.snapshot(NOW), info, DEFAULT, random.Random(3))).node for _ in range(5)]
    assert len(set(again)) == 1


def test_a_single_feasible_node_is_not_scored_by_decide_but_explained() -> None:
    state = cluster(node("n0"), node("n1", unschedulable=True))
    placement = conclude(decide(state.snapshot(NOW), pod("p"), DEFAULT, random.Random(1)))
    assert (placement.node, placement.total, placement.evaluated, placement.feasible) == ("n0", 0, 2, 1)
    assert explain(state.snapshot(NOW), pod("p"), DEFAULT).node("n0").total > 0


@pytest.mark.parametrize(
    ("info", "message", "rejectors"),
    [
        pytest.param(
            pod("p", container("3")),
            "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, "
            "2 Insufficient cpu.",
            {"NodeResourcesFit", "NodeUnschedulable", "TaintToleration"},
            id="counts sorted as text",
        ),
        pytest.param(
            pod("p", container("3", "64Gi")),
            "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, "
            "2 Insufficient cpu, 2 Insufficient memory.",
            {"NodeResourcesFit", "NodeUnschedulable", "TaintToleration"},
            id="several reasons of one node",
        ),
        pytest.param(
            pod("p", nodeSelector={"zone": "none"}),
            "0/4 nodes are available: 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, "
            "2 node(s) didn't match Pod's node affinity/selector.",
            {"NodeAffinity", "NodeUnschedulable", "TaintToleration"},
            id="selector",
        ),
        pytest.param(
            pod(
                "p",
                container("3"),
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
                            ]
                        }
                    }
                },
            ),
            "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity].",
            {"NodeAffinity", "NodeResourcesFit"},
            id="nodes left out by PreFilter",
        ),
        pytest.param(
            pod(
                "p",
                affinity={
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchFields": [
                                        {"key": "metadata.name", "operator": "In", "values": ["n0"]},
                                        {"key": "metadata.name", "operator": "In", "values": ["n1"]},
                                    ]
                                }
                            ]
                        }
                    }
                },
            ),
            "0/4 nodes are available: pod affinity terms conflict.",
            {"NodeAffinity"},
            id="PreFilter rejection",
        ),
    ],
)
def test_failures_are_worded_as_upstream_words_them(info: PodInfo, message: str, rejectors: set[str]) -> None:
    state = cluster(
        node("n0", allocatable={"cpu": "2"}),
        node("n1", allocatable={"cpu": "2500m"}),
        node("n2", unschedulable=True),
        node("n3", taints=[("k", "v", "NoExecute")]),
    )
    placement = conclude(decide(state.snapshot(NOW), info, DEFAULT, random.Random(1)))
    assert placement.code is Code.UNSCHEDULABLE
    assert placement.message == message
    assert placement.rejectors == rejectors
    assert placement.node_codes(state.snapshot(NOW)).keys() == {"n0", "n1", "n2", "n3"}
    assert explain(state.snapshot(NOW), info, DEFAULT).message == message


def test_too_many_pods_and_requests_beyond_the_node_are_distinguished() -> None:
    state = cluster(
        node("full", allocatable={"pods": "1"}),
        node("small", allocatable={"cpu": "1"}),
        node("busy"),
        pods={"full": [pod("x")], "busy": [pod("y", container("3"))]},
    )
    snapshot = state.snapshot(NOW)
    placement = conclude(decide(snapshot, pod("p", container("2")), DEFAULT, random.Random(1)))
    assert placement.message == "0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu."
    assert placement.node_codes(snapshot) == {"full": 2, "small": 3, "busy": 2}


def test_no_nodes_is_an_error_without_a_rejector() -> None:
    placement = conclude(decide(ClusterState().snapshot(NOW), pod("p"), DEFAULT, random.Random(1)))
    assert (placement.code, placement.message) == (Code.ERROR, "no nodes available to schedule pods")
    assert not placement.rejectors


def test_a_nominated_node_is_taken_without_looking_further() -> None:
    state = cluster(node("n0"), node("n1"), node("n2"))
    info = pod("p", status={"nominatedNodeName": "n1"})
    placement = conclude(decide(state.snapshot(NOW), info, DEFAULT, random.Random(1)))
    assert (placement.node, placement.evaluated) == ("n1", 1)


def test_a_nominated_node_that_no_longer_fits_is_not_insisted_on() -> None:
    state = cluster(node("n0"), node("n1", unschedulable=True))
    info = pod("p", status={"nominatedNodeName": "n1"})
    assert conclude(decide(state.snapshot(NOW), info, DEFAULT, random.Random(1))).node == "n0"


def test_room_promised_to_a_pod_of_equal_or_higher_priority_is_left_alone() -> None:
    state = cluster(node("n0", allocatable={"cpu": "2"}))
    state.nominator.set(pod("promised", container("1500m"), priority=5), "n0")
    low, high = pod("low", container("1"), priority=5), pod("high", container("1"), priority=6)
    assert conclude(decide(state.snapshot(NOW), low, DEFAULT, random.Random(1))).message == (
        "0/1 nodes are available: 1 Insufficient cpu."
    )
    assert conclude(decide(state.snapshot(NOW), high, DEFAULT, random.Random(1))).node == "n0"


class Odd:
    """A score plugin that answers what the test wants."""

    name = "ImageLocality"
    answer: Any = None

    def __init__(self, args: Any, context: Any) -> None:
        pass

    def score(self, state: CycleState, info: PodInfo, view: NodeView, rows: RowArray) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return np.array([self.answer] * len(rows), dtype=np.int64)


def odd_profile(answer: Any) -> ProfileRunner:
    kind = type("OddPlugin", (Odd,), {"answer": answer})
    return ProfileRunner(runner(only_scores("ImageLocality")).effective, {**FACTORIES, "ImageLocality": kind})


@pytest.mark.parametrize(("answer", "total"), [(-(2**63), 0), (-1, 0), (101, 100), (2**62, 100), (55, 55)])
def test_a_score_out_of_range_is_clamped_and_counted(answer: int, total: int) -> None:
    state = cluster(node("n0"), node("n1"))
    placement = conclude(decide(state.snapshot(NOW), pod("p"), odd_profile(answer), random.Random(1)))
    assert placement.node is not None
    assert placement.total == total
    assert placement.counters.get("clamped_scores/ImageLocality", 0) == (0 if answer == total else 2)


def test_a_plugin_that_raises_costs_the_pod_this_attempt_only() -> None:
    state = cluster(node("n0"), node("n1"))
    profile = odd_profile(RuntimeError("boom"))
    placement = conclude(decide(state.snapshot(NOW), pod("p"), profile, random.Random(1)))
    assert (placement.node, placement.code) == (None, Code.ERROR)
    assert placement.message == 'running Score plugins: plugin "ImageLocality" failed with: boom'
    explanation = explain(state.snapshot(NOW), pod("p"), profile)
    assert explanation.message == placement.message


def test_without_score_plugins_every_node_counts_one() -> None:
    state = cluster(node("n0"), node("n1"))
    profile = runner({"score": {"disabled": [{"name": "*"}]}})
    assert conclude(decide(state.snapshot(NOW), pod("p"), profile, random.Random(1))).total == 1


def test_a_percentage_of_nodes_bounds_how_many_are_scored() -> None:
    state = cluster(*(node(f"n{index}") for index in range(400)))
    effective = dataclasses.replace(DEFAULT.effective, percentage_of_nodes_to_score=30)
    profile = ProfileRunner(effective, FACTORIES)
    placements = [conclude(decide(state.snapshot(NOW), pod("p"), profile, random.Random(seed))) for seed in range(40)]
    assert {placement.best for placement in placements} == {120}
    assert {placement.feasible for placement in placements} == {400}
    assert len({placement.node for placement in placements}) > 20, "the share is not always the same"
    assert conclude(decide(state.snapshot(NOW), pod("p"), DEFAULT, random.Random(1))).best == 400


def test_explain_has_all_nodes_the_best_or_none() -> None:
    state = cluster(
        node("n0"), node("n1"), node("n2", unschedulable=True), pods={"n0": [pod("x", container("2", "8Gi"))]}
    )
    state.set_load(load({"n0": 10.0}, age=40.0))
    explanation = explain(state.snapshot(NOW), pod("p", container("1", "1Gi")), DEFAULT)
    assert explanation.message is None
    full = {name: node.answer() for name, node in explanation.nodes()}
    assert list(full) == ["n0", "n1", "n2"]
    rejection = NodeRejection("NodeUnschedulable", "UnschedulableAndUnresolvable", ("node(s) were unschedulable",))
    assert full["n2"] == MatrixNode(feasible=False, filter=rejection, scores={}, total=0)
    assert full["n1"].scores["NodeResourcesFit"] == Score(raw=84, normalized=84, weighted=84)
    assert [name for name, _ in explanation.nodes(1)] == ["n1"] == list(explanation.best)
    assert list(explanation.nodes("none")) == []
    assert list(explanation.load_ages.values()) == [40.0]
    with pytest.raises(KeyError):
        explanation.node("n9")


def test_an_unreadable_preferred_term_is_an_error_as_upstream() -> None:
    term = {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Bad", "values": ["x"]}]}}
    info = pod("p", affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}})
    state = cluster(node("n0"), node("n1"))
    placement = conclude(decide(state.snapshot(NOW), info, DEFAULT, random.Random(1)))
    assert placement.code is Code.ERROR
    assert placement.message.startswith('running PreScore plugin "NodeAffinity": ')
    assert isinstance(DEFAULT.run_pre_enqueue(info), Status)
