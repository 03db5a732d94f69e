"""Every column formula against the same rule written node by node, on random clusters and pods."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.core import Explanation, explain
from scheduler.framework import PodInfo
from scheduler.plugins.targetloadpacking import PackingScores, packing_score
from scheduler.state import ClusterState
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, only_scores, runner
from tests.unit.scheduler.core.strategies import clusters, pods
from tests.unit.scheduler.plugins import reference

DEFAULT = runner()
SHAPES = {"rising": ((0, 0), (100, 10)), "falling": ((0, 10), (33, 7), (100, 1)), "hill": ((10, 3), (50, 9), (77, 0))}


def matrix(
    state: ClusterState, info: PodInfo, profile: object = DEFAULT
) -> tuple[Explanation, list[tuple[str, list[PodInfo]]]]:
    snapshot = state.snapshot(NOW)
    return explain(snapshot, info, profile), [(name, list(state.pods_on(name))) for name in state.node_names]


@settings(max_examples=tries(60), deadline=None)
@given(clusters(), pods("new"))
def test_the_first_rejection_of_every_node_is_the_references(state: ClusterState, info: PodInfo) -> None:
    explanation, nodes = matrix(state, info)
    only = None
    if info.spec.required is not None and info.spec.required.terms:
        names = [term.names for term in info.spec.required.terms]
        if all(name is not None for name in names):
            only = frozenset().union(*names)
    for name, bound in nodes:
        node = state.node(name)
        explained = explanation.node(name)
        if only is not None and name not in only:
            assert not explained.feasible
            assert explained.rejection.plugin == "NodeAffinity"
            continue
        expected = reference.first_rejection(info, node, bound)
        actual = (
            None
            if explained.rejection is None
            else (explained.rejection.plugin, int(explained.rejection.code), frozenset(explained.rejection.reasons))
        )
        assert actual == expected
        assert explained.feasible is (expected is None)


@settings(max_examples=tries(40), deadline=None)
@given(clusters(), pods("new"), st.sampled_from(["LeastAllocated", "MostAllocated", *SHAPES]))
def test_fit_scores_are_the_references(state: ClusterState, info: PodInfo, kind: str) -> None:
    shape = SHAPES.get(kind, ())
    strategy = "RequestedToCapacityRatio" if shape else kind
    weights = {"cpu": 3, "memory": 1, "example.com/gpu": 5}
    profile = fit_profile(strategy, weights, shape)
    explanation, nodes = matrix(state, info, profile)
    for name, bound in nodes:
        explained = explanation.node(name)
        if explained.feasible:
            expected = reference.fit_score(info, state.node(name), bound, strategy, weights, shape)
            assert explained.scores["NodeResourcesFit"].raw == expected


def fit_profile(strategy: str, weights: dict[str, int], shape: tuple[tuple[int, int], ...]) -> object:
    scoring: dict[str, object] = {
        "type": strategy,
        "resources": [{"name": name, "weight": weight} for name, weight in weights.items()],
    }
    if shape:
        scoring["requestedToCapacityRatio"] = {"shape": [{"utilization": x, "score": y} for x, y in shape]}
    return runner(only_scores("NodeResourcesFit"), {"NodeResourcesFit": {"scoringStrategy": scoring}})


@settings(max_examples=tries(40), deadline=None)
@pytest.mark.parametrize("version", ["1.35", "1.36"])
@given(clusters(), pods("new"), st.sampled_from([("cpu", "memory"), ("cpu", "memory", "example.com/gpu"), ("cpu",)]))
def test_balanced_scores_are_the_references(
    version: str, state: ClusterState, info: PodInfo, resources: tuple[str, ...]
) -> None:
    args = {"resources": [{"name": name, "weight": 1} for name in resources]}
    name = "NodeResourcesBalancedAllocation"
    explanation, nodes = matrix(state, info, runner(only_scores(name), {name: args}, kubernetes=version))
    wanted = reference.balanced_score if version == "1.35" else reference.change_of_balance
    skipped = not any(info.spec.requests.get(resource, 0) for resource in resources)
    for node_name, bound in nodes:
        explained = explanation.node(node_name)
        if explained.feasible:
            expected = wanted(info, state.node(node_name), bound, resources)
            assert (explained.scores[name].raw if name in explained.scores else None) == (None if skipped else expected)


@settings(max_examples=tries(40), deadline=None)
@given(clusters(), pods("new"))
def test_taint_and_affinity_scores_are_the_references(state: ClusterState, info: PodInfo) -> None:
    explanation, nodes = matrix(state, info)
    feasible = [name for name, _ in nodes if explanation.node(name).feasible]
    if not feasible:
        return
    taints = {name: reference.taint_score(info, state.node(name)) for name in feasible}
    affinity = {
        name: sum(term.weight for term in info.spec.preferred if term.term.matches(name, state.node(name).labels))
        for name in feasible
    }
    most_taints, most_affinity = max(taints.values()), max(affinity.values())
    for name in feasible:
        scores = explanation.node(name).scores
        assert scores["TaintToleration"].raw == taints[name]
        assert scores["TaintToleration"].normalized == (
            100 if most_taints == 0 else 100 - 100 * taints[name] // most_taints
        )
        assert scores["TaintToleration"].weighted == 3 * scores["TaintToleration"].normalized
        if info.spec.preferred:
            expected = 0 if most_affinity == 0 else 100 * affinity[name] // most_affinity
            assert scores["NodeAffinity"].normalized == expected
        else:
            assert "NodeAffinity" not in scores


TARGETS = st.one_of(st.sampled_from([1.0, 40.0, 50.0, 99.0, 100.0]), st.floats(0.5, 100.0))


@settings(max_examples=tries(40), deadline=None)
@given(TARGETS, st.lists(st.floats(0.0, 1e9), max_size=5))
def test_packing_scores_are_the_references(target: float, more: list[float]) -> None:
    even = np.linspace(0, 130, 2001)
    # The utilisations where the curve makes a step, and the numbers right beside them.
    halves, slope = np.arange(0.5, 100.0), (100.0 - target) / target
    steps = np.concatenate([(halves - target) / slope, 100.0 - halves * slope]) if slope else even
    steps = np.concatenate([steps[(steps >= 0.0) & (steps < 200.0)], [target, 100.0, *more]])
    around = [np.nextafter(steps, side) for side in (0.0, np.inf)]
    utilization = np.concatenate([even, np.arange(0.0, 101.0, 1 / 64), steps, *around])
    wanted = [reference.packing_score(float(percent), target) for percent in utilization]
    assert packing_score(utilization, target).tolist() == wanted
    scores = PackingScores(target)(utilization)
    assert scores.dtype == np.int64
    assert scores.tolist() == wanted


def test_packing_scores_of_what_is_no_utilization_are_those_of_the_formula() -> None:
    for odd in ([], [3.0, 41.0], [-1.0, 3.0], [np.inf, 2.0]):
        utilization = np.array(odd * 1000)
        assert PackingScores(40.0)(utilization).tolist() == packing_score(utilization, 40.0).tolist()
