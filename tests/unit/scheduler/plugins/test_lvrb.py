"""LoadVariationRiskBalancing: upstream's vectors, the formula over columns, and where `safe` differs."""

import functools
import math
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.core import decide, explain
from scheduler.framework import CycleState, NodeLoad, conclude
from scheduler.helpers.loadstats import ResourceStats
from scheduler.helpers.upstreamsums import upstream_requests
from scheduler.plugins.loadvariationriskbalancing import balance_score
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod
from tests.unit.scheduler.plugins import reference_load as reference
from tests.unit.scheduler.plugins.vectors import cases, load_profile, loads, pod_of, profile_of, raw, state_of

NAME = "LoadVariationRiskBalancing"
FILE = "trimaran_lvrb.json"
MIB = 1024.0 * 1024.0
profile = functools.partial(load_profile, NAME)


@pytest.mark.parametrize("case", cases(FILE, "plugin_score"))
def test_scores_are_upstreams(case: dict[str, Any]) -> None:
    explanation = explain(state_of(case).snapshot(NOW), pod_of(case["pod"]), profile_of(case))
    for name, expected in case["expected"]["scores"].items():
        assert explanation.node(name).scores[NAME].raw == expected


@pytest.mark.parametrize("case", cases(FILE, "plugin_construct"))
def test_the_plugin_is_built_without_asking_the_watcher(case: dict[str, Any]) -> None:
    assert NAME in profile_of(case).plugins


@pytest.mark.parametrize("case", cases(FILE, "compute_score"))
def test_the_formula_is_upstreams(case: dict[str, Any]) -> None:
    inputs, stats = case["input"], case["input"]["resource_stats"]
    column = [np.array([float(stats[name])]) for name in ("capacity", "req", "used_avg", "used_stdev")]
    score = balance_score(ResourceStats(*column), inputs["margin"], inputs["sensitivity"])
    assert reference.half_away(score[0]) == case["expected"]["rounded_score"]


@pytest.mark.parametrize("case", cases(FILE, "placement_sequence"))
def test_pods_go_where_upstreams_integration_test_has_them(case: dict[str, Any]) -> None:
    state, scheduler = state_of(case), profile_of(case)
    for index, fields in enumerate(case["pods"]):
        info = pod_of(fields, f"uid-{index}")
        chosen = conclude(decide(state.snapshot(NOW), info, scheduler, random.Random(index))).node
        assert chosen == case["expected"]["placements"][info.name]
        state.upsert_pod(state.assume(info, chosen, NOW), NOW)


figure = st.one_of(st.just(math.nan), st.floats(0, 150), st.sampled_from([0.0, 100.0, 50.0]))
node_load = st.builds(NodeLoad, cpu_average=figure, cpu_stddev=figure, memory_average=figure, memory_stddev=figure)


@settings(max_examples=tries(60), deadline=None)
@given(
    st.lists(st.one_of(st.none(), node_load), min_size=1, max_size=6),
    st.sampled_from(["0", "100m", "1", "3999m", "9"]),
    st.sampled_from(["0", "1", "1Gi", "16Gi"]),
    st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0]),
    st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0, 7.5]),
)
def test_upstream_scores_equal_a_node_by_node_reference(
    values: list[NodeLoad | None], cpu: str, memory: str, margin: float, sensitivity: float
) -> None:
    state = cluster(*(node(f"n{index}") for index in range(len(values))))
    state.set_load(loads({f"n{index}": value for index, value in enumerate(values) if value is not None}))
    info = pod("p", container(cpu, memory))
    scheduler = profile("upstream", safeVarianceMargin=margin, safeVarianceSensitivity=sensitivity)
    request = upstream_requests(info.spec)
    expected = {
        f"n{index}": reference.balance_score(
            value,
            (4000.0, 16.0 * 1024.0),
            (float(request.get("cpu", 0)), request.get("memory", 0) / MIB),
            margin,
            sensitivity,
        )
        for index, value in enumerate(values)
    }
    # Every node is asked for by itself, as the pod may fit none.
    view = state.snapshot(NOW)
    scores = scheduler.plugins[NAME].score(CycleState(), info, view, view.rows)
    assert {view.name(int(row)): int(score) for row, score in zip(view.rows, scores, strict=True)} == expected


def test_the_worse_of_cpu_and_memory_counts_and_one_alone_suffices() -> None:
    state = cluster(node("both"), node("cpu"))
    state.set_load(
        loads({"both": NodeLoad(cpu_average=20, memory_average=80), "cpu": NodeLoad(cpu_average=20, cpu_stddev=10)})
    )
    assert raw(state, pod("p", container("0")), profile("upstream")) == {"both": 60, "cpu": 85}


def test_a_deviation_alone_looks_idle_upstream_and_is_missing_in_safe_mode() -> None:
    state = cluster(node("a"), node("odd"), pods={"odd": [pod("x", container("3"))]})
    state.set_load(loads({"a": NodeLoad(cpu_average=50), "odd": NodeLoad(cpu_stddev=10)}))
    info = pod("p", container("0"))
    assert raw(state, info, profile("upstream")) == {"a": 75, "odd": 95}
    # 3 of 4 cpus are requested.
    assert raw(state, info, profile()) == {"a": 75, "odd": 63}


def test_an_unknown_deviation_counts_as_the_mean_of_the_known_ones() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(loads({"a": NodeLoad(cpu_average=50, cpu_stddev=10), "b": NodeLoad(cpu_average=50)}))
    info = pod("p", container("0"))
    assert raw(state, info, profile()) == {"a": 70, "b": 70}
    assert raw(state, info, profile("upstream")) == {"a": 70, "b": 75}


def test_a_node_without_load_is_estimated_by_its_requests_in_safe_mode_and_is_0_upstream() -> None:
    state = cluster(node("measured"), node("new"), pods={"new": [pod("x", container("2"))]})
    state.set_load(loads({"measured": NodeLoad(cpu_average=50, cpu_stddev=0)}))
    info = pod("p", container("0"))
    assert raw(state, info, profile()) == {"measured": 75, "new": 75}
    assert explain(state.snapshot(NOW), info, profile()).counters[f"load_absent/{NAME}"] == 1
    assert raw(state, info, profile("upstream")) == {"measured": 75, "new": 0}


def test_stale_load_leaves_the_plugin_out_in_safe_mode_and_counts_upstream() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(loads({"a": NodeLoad(cpu_average=20), "b": NodeLoad(cpu_average=60)}, age=301))
    info = pod("p", container("0"))
    assert raw(state, info, profile()) == {"a": None, "b": None}
    assert raw(state, info, profile("upstream")) == {"a": 90, "b": 70}


def test_pods_that_are_only_assumed_count_in_safe_mode() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(loads({"a": NodeLoad(cpu_average=10), "b": NodeLoad(cpu_average=10)}))
    state.assume(pod("first", container("2")), "a", NOW)
    info = pod("p", container("0"))
    assert raw(state, info, profile()) == {"a": 70, "b": 95}
    assert raw(state, info, profile("upstream")) == {"a": 95, "b": 95}


@pytest.mark.parametrize("value", [math.inf, -math.inf, -3.0, math.nan])
def test_nonsense_is_as_good_as_missing(value: float) -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(loads({"a": NodeLoad(cpu_average=value), "b": NodeLoad(cpu_average=20)}))
    assert raw(state, pod("p", container("0")), profile())["a"] == 100, "nothing is requested there"


def test_two_profiles_keep_their_own_args() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(loads({name: NodeLoad(cpu_average=20, cpu_stddev=25) for name in "ab"}))
    info = pod("p", container("0"))
    plain, wide, keen = profile(), profile(safeVarianceMargin=2), profile(safeVarianceSensitivity=2)
    assert [raw(state, info, scheduler)["a"] for scheduler in (plain, wide, keen)] == [78, 65, 65]
