"""Every column formula against the same rule written node by node, on random clusters and pods."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core import Explanation, explain
from scheduler.framework import PodInfo
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
        names = [term.node_names() for term in info.spec.required.terms]
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


@pytest.mark.parametrize("target", [1, 40, 50, 99, 100])
def test_packing_scores_are_the_references(target: int) -> None:
    import numpy as np

    from scheduler.plugins.targetloadpacking.formula import packing_score

    utilization = np.concatenate([np.linspace(0, 130, 2001), np.array([target - 1e-9, target, target + 1e-9, 100.0])])
    scores = packing_score(utilization, float(target))
    assert scores.tolist() == [reference.packing_score(float(percent), float(target)) for percent in utilization]
