"""TargetLoadPacking beyond upstream's vectors: recent pods, stale and missing load, and where `safe` differs from
`upstream`."""

import functools

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.core import explain
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, container, load, node, pod
from tests.unit.scheduler.plugins import reference
from tests.unit.scheduler.plugins.vectors import load_profile, raw

NAME = "TargetLoadPacking"
profile = functools.partial(load_profile, NAME)


@pytest.mark.parametrize(
    ("containers", "overhead", "expected"),
    [
        pytest.param([container("200m", limits={"cpu": "1"})], None, 1000, id="limit wins over request"),
        pytest.param([container("200m", limits={"cpu": "0"})], None, 0, id="a limit of zero counts"),
        pytest.param([container("200m")], None, 300, id="request times multiplier"),
        pytest.param([container("1m")], None, 2, id="1.5 rounds away from zero"),
        pytest.param([container()], None, 1000, id="default request"),
        pytest.param([container("100m"), container()], {"cpu": "10m"}, 1160, id="sum with overhead"),
    ],
)
def test_predicted_use_of_a_pod(containers: list[dict], overhead: dict | None, expected: int) -> None:
    extra = {"overhead": overhead} if overhead else {}
    info = pod("p", *containers, initContainers=[container("4", name="init")], **extra)
    assert profile().plugins[NAME].predict(info.spec) == expected


def test_default_requests_without_cpu_mean_zero() -> None:
    assert profile(defaultRequests={"memory": "1Gi"}).plugins[NAME].predict(pod("p").spec) == 0


@settings(max_examples=tries(60), deadline=None)
@given(
    st.lists(st.floats(0, 110), min_size=2, max_size=5),
    st.sampled_from(["0", "100m", "1", "2", "3999m"]),
    st.integers(1, 100),
)
def test_scores_over_columns_equal_the_formula(values: list[float], cpu: str, target: int) -> None:
    state = cluster(*(node(f"n{index}") for index in range(len(values))))
    state.set_load(load({f"n{index}": value for index, value in enumerate(values)}))
    scheduler = profile(targetUtilization=target)
    info = pod("p", container(cpu))
    demand = scheduler.plugins[NAME].predict(info.spec)
    expected = {
        f"n{index}": reference.packing_score(100 * (value / 100 * 4000 + demand + 0) / 4000, target)
        for index, value in enumerate(values)
    }
    assert raw(state, info, scheduler) == expected


def test_a_pod_that_is_only_assumed_counts_in_safe_mode_and_not_upstream() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(load({"a": 10.0, "b": 10.0}))
    state.assume(pod("first", container("1")), "a", NOW)
    small = pod("p", container("0"))
    assert raw(state, small, profile())["a"] != raw(state, small, profile())["b"]
    upstream = raw(state, small, profile("upstream"))
    assert upstream["a"] == upstream["b"]


def test_pods_bound_long_before_a_restart_count_upstream_only() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(load({"a": 10.0, "b": 10.0}))
    old = msgspec.structs.replace(pod("old", container("1")), node_name="a", assigned_at=NOW - 3600)
    state.upsert_pod(old, observed_at=NOW)
    small = pod("p", container("0"))
    safe, upstream = raw(state, small, profile()), raw(state, small, profile("upstream"))
    assert safe["a"] == safe["b"]
    # Upstream takes every pod it lists at start for a new one: 10 % and 1500m more are beyond the target.
    assert upstream == {"a": 35, "b": safe["b"]}


@pytest.mark.parametrize("compatibility", ["safe", "upstream"])
def test_the_running_sum_equals_a_fresh_one_through_churn(compatibility: str) -> None:
    state = cluster(node("a"), node("b"))
    kept = profile(compatibility)
    small = pod("probe", container("0"))
    for step in range(60):
        name = "ab"[step % 2]
        info = pod(f"p{step}", container(f"{step}m"))
        assumed = state.assume(info, name, NOW + step)
        if step % 3 == 0:
            state.upsert_pod(assumed, NOW + step + 1)
        if step % 7 == 0:
            state.forget(info.uid) or state.remove_pod(info.uid)
        if step % 10 == 0:
            state.set_load(load({"a": 5.0, "b": 6.0}, age=-step))
        if step == 35:
            state.remove_node("b")
            state.upsert_node(node("c"))
            state.upsert_node(node("b"))
        assert raw(state, small, kept, NOW + step) == raw(state, small, profile(compatibility), NOW + step)


def test_pods_leave_the_sum_once_the_window_covers_them() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(load({"a": 10.0, "b": 10.0}))
    scheduler, small = profile(), pod("p", container("0"))
    state.assume(pod("first", container("1")), "a", NOW)
    assert len(set(raw(state, small, scheduler).values())) == 2
    state.set_load(load({"a": 10.0, "b": 10.0}, age=-59))
    assert len(set(raw(state, small, scheduler, NOW + 59).values())) == 2
    state.set_load(load({"a": 10.0, "b": 10.0}, age=-60))
    assert len(set(raw(state, small, scheduler, NOW + 60).values())) == 1


def test_members_of_a_gang_see_each_other() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(load({"a": 10.0, "b": 10.0}))
    overlay = state.snapshot(NOW).overlay()
    overlay.add_pod(pod("first", container("1")), 0)
    explanation = explain(overlay, pod("p", container("0")), profile())
    assert explanation.node("a").scores[NAME].raw == 35
    assert explanation.node("b").scores[NAME].raw == 55


def test_a_node_without_load_is_estimated_by_its_requests_in_safe_mode() -> None:
    state = cluster(node("measured"), node("new"), pods={"new": [pod("x", container("1"))]})
    state.set_load(load({"measured": 37.5}))
    # 1000m requested on 4000m, times 1.5: as if 37.5 % were measured.
    info = pod("p", container("0"))
    assert raw(state, info, profile()) == {"measured": 96, "new": 96}
    explanation = explain(state.snapshot(NOW), info, profile())
    assert explanation.counters[f"load_absent/{NAME}"] == 1
    assert raw(state, info, profile("upstream"))["new"] == 0


def test_stale_load_is_not_used_in_safe_mode_and_never_ages_upstream() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(load({"a": 20.0, "b": 90.0}, age=301))
    info = pod("p", container("100m"))
    assert raw(state, info, profile()) == {"a": None, "b": None}
    explanation = explain(state.snapshot(NOW), info, profile())
    assert explanation.counters == {f"load_stale/{NAME}": 2, f"load_left_out/{NAME}": 1}
    assert raw(state, info, profile("upstream"))["a"] > 0


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -1.0])
def test_nonsense_is_as_good_as_missing(value: float) -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(load({"a": value, "b": 20.0}))
    assert raw(state, pod("p", container("0")), profile())["a"] == 40, "idle by requests: the score of an empty node"


def test_without_any_load_the_plugin_is_left_out_in_safe_mode_and_zero_upstream() -> None:
    state = cluster(node("a"), node("b"))
    assert raw(state, pod("p"), profile()) == {"a": None, "b": None}
    assert raw(state, pod("p"), profile("upstream")) == {"a": 0, "b": 0}


def test_capacity_counts_and_not_allocatable() -> None:
    state = cluster(node("a", capacity={"cpu": "8"}), node("none", capacity={"cpu": "0"}))
    state.set_load(load({"a": 20.0, "none": 20.0}))
    assert raw(state, pod("p", container("0")), profile()) == {"a": 70, "none": 40}


def test_two_profiles_keep_their_own_targets() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(load({"a": 20.0, "b": 20.0}))
    low, high = profile(targetUtilization=20), profile(targetUtilization=80)
    info = pod("p", container("0"))
    assert (raw(state, info, low)["a"], raw(state, info, high)["a"]) == (100, 85)
