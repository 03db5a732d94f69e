"""A rule says of many nodes what it says of each alone, and what the plugin's filter or score says of them."""

import gc
import time
import weakref
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.catalog import descriptors
from scheduler.framework import (
    CycleState,
    FilterRule,
    ManyNodes,
    MonotonicSeconds,
    Nodes,
    OneNode,
    PodInfo,
    ProfileRunner,
    Reads,
    Rule,
    ScoreRule,
    SpecInfo,
    masks_of,
    scores_of,
)
from scheduler.helpers import KubeletRejections
from scheduler.state import ClusterState
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, WATCHER, cluster, container, load, node, pod, runner
from tests.unit.scheduler.core.strategies import clusters, pods

WEIGHTS = [{"name": "memory", "weight": 3}, {"name": "cpu", "weight": 2}]
LIMITED = {"preFilter": {"enabled": [{"name": "HighLoadFilter"}]}, "filter": {"enabled": [{"name": "HighLoadFilter"}]}}
LIMITS = {"usageThresholds": {"cpu": 60, "memory": 60}}
PROFILES = {
    "least": runner(),
    "least, 1.36": runner(kubernetes="1.36"),
    "least, weighted": runner(
        args={"NodeResourcesFit": {"scoringStrategy": {"type": "LeastAllocated", "resources": WEIGHTS}}}
    ),
    "most": runner(args={"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated", "resources": WEIGHTS}}}),
    "load": runner(
        {"score": {"enabled": [{"name": "TargetLoadPacking"}]}},
        {"TargetLoadPacking": {"watcherAddress": WATCHER, "targetUtilization": 55}},
    ),
    "load, full": runner(
        {"score": {"enabled": [{"name": "TargetLoadPacking"}]}},
        {"TargetLoadPacking": {"watcherAddress": WATCHER, "targetUtilization": 100}},
    ),
    "limit": runner(LIMITED, {"HighLoadFilter": {"watcherAddress": WATCHER, **LIMITS}}),
    "limit, closed": runner(LIMITED, {"HighLoadFilter": {"watcherAddress": WATCHER, "failOpen": False, **LIMITS}}),
}
SHARED = runner({"filter": {"enabled": [{"name": "SharedNodes"}]}})
CROWD = [pod(f"crowd-{index}") for index in range(25)]


def rule_of(nodes: OneNode, rule_of: Callable[[SpecInfo, Nodes], Rule | Reads], info: PodInfo) -> Rule | None:
    return nodes.record(rule_of, info.spec).rule


def check(profile: ProfileRunner, state: ClusterState, info: PodInfo) -> set[str]:
    """Compare each rule on every row alone, on some rows and on all, with `filter` and `score`; returns which rules
    there were."""
    view = state.snapshot(NOW)
    rows, compared = view.rows, set()
    single = OneNode(view)
    for plugin in profile.plugins.values():
        cycle, instance = CycleState(), cast(Any, plugin)
        if isinstance(plugin, FilterRule) and (in_numbers := rule_of(single, plugin.filter_rule, info)):
            verdicts = instance.filter(cycle, info, view, rows)
            rejected = [False] * len(rows) if verdicts is None else (verdicts.codes != 0).tolist()
            assert [any(in_numbers(row)) for row in rows.tolist()] == rejected
            assert all(type(failed) is bool for row in rows.tolist() for failed in in_numbers(row))
            for subset in (rows, rows[1:], rows[:0]):
                masks = np.array(masks_of(plugin.filter_rule, info.spec, view, subset)).any(axis=0)
                assert masks.tolist() == [any(in_numbers(row)) for row in subset.tolist()]
            compared.add(f"{plugin.name} filters")
        if isinstance(plugin, ScoreRule) and (rate := rule_of(single, plugin.score_rule, info)):
            scores = instance.score(cycle, info, view, rows).tolist()
            assert [int(rate(row)) for row in rows.tolist()] == scores
            for subset in (rows, rows[1:], rows[:0]):
                assert scores_of(plugin.score_rule, info.spec, view, subset).tolist() == [
                    int(rate(row)) for row in subset.tolist()
                ]
            compared.add(f"{plugin.name} scores")
    return compared


@pytest.mark.parametrize("name", sorted(PROFILES))
@settings(max_examples=tries(60), deadline=None)
@given(state=clusters(), info=pods("new"), loads=st.lists(st.floats(0, 140), min_size=4, max_size=4))
def test_on_any_cluster_they_agree(name: str, state: ClusterState, info: PodInfo, loads: list[float]) -> None:
    state.set_load(load({f"n{index}": value for index, value in enumerate(loads)}))
    check(PROFILES[name], state, info)


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_they_agree_where_more_is_counted_than_there_is(name: str) -> None:
    state = cluster(
        node("n0", allocatable={"cpu": "1", "memory": "2Gi"}), node("n1"), pods={"n0": CROWD, "n1": [pod("x")]}
    )
    state.set_load(load({"n0": 130.0, "n1": 20.0}))
    forms = check(PROFILES[name], state, pod("p", container("100m", "100Mi")))
    expected = {
        "ImageLocality scores",
        "NodeResourcesFit filters",
        "NodeResourcesFit scores",
        "NodeResourcesBalancedAllocation scores",
    }
    defaults = {descriptor.name for descriptor in descriptors() if descriptor.default}
    added = [plugin for plugin in PROFILES[name].plugins.values() if plugin.name not in defaults]
    expected |= {f"{plugin.name} filters" for plugin in added if isinstance(plugin, FilterRule)}
    expected |= {f"{plugin.name} scores" for plugin in added if isinstance(plugin, ScoreRule)}
    assert forms == expected


def test_on_shared_nodes_they_agree() -> None:
    theirs = pod("theirs", container("1"), schedulerName="default-scheduler")
    state = cluster(node("n0", allocatable={"cpu": "4"}), node("n1", allocatable={"cpu": "4"}), pods={"n0": [theirs]})
    state.objects.derived(KubeletRejections).note("n1", "OutOfmemory", MonotonicSeconds(time.monotonic()))
    for cpu, memory in (("1", None), ("2900m", None), ("1", "1Gi")):
        assert "SharedNodes filters" in check(SHARED, state, pod("p", container(cpu, memory)))


def test_a_node_without_cpu_or_memory_makes_the_table_incomplete_until_it_has_them() -> None:
    state = cluster(node("n0"), node("n1"))
    layout = state.table.layout
    state.upsert_node(node("n1", allocatable={"cpu": "0"}))
    assert not state.table.complete
    assert state.table.layout != layout
    state.upsert_node(node("n1"))
    assert state.table.complete
    state.upsert_node(node("n2", allocatable={"memory": "0"}))
    state.remove_node("n2")
    assert state.table.complete
    view = state.snapshot(NOW)
    assert view.complete
    assert view.allocatable("cpu")[view.rows].tolist() == [4000.0, 4000.0]


def test_readers_of_resources_that_only_pods_name_do_not_pile_up() -> None:
    view = cluster(node("n1")).snapshot(NOW)
    nodes = ManyNodes(view)
    seen: list[weakref.ref[Any]] = []

    def filter_rule(spec: SpecInfo, nodes: Nodes) -> Rule:
        readers = [nodes.requested(f"example.com/{len(seen)}-{index}") for index in range(100)]
        seen.append(weakref.ref(readers[0]))
        return lambda rows: [reader(rows) > 0 for reader in readers]

    rules = [nodes.record(filter_rule, pod("p").spec).rule for _ in range(50)]
    gc.collect()
    assert all(reader() for reader in seen), "rules that are in use keep theirs"
    assert all(not failed.any() for rule in rules if rule is not None for failed in rule(view.rows))
    rules.clear()
    gc.collect()
    assert sum(reader() is not None for reader in seen) <= 3
