"""LowRiskOverCommitment: upstream's vectors, the beta distribution, the columns against a reference, `safe` mode."""

import functools
import json
import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.core import decide, explain
from scheduler.framework import CycleState, LoadReading, NodeLoad, PodInfo, Resources, conclude
from scheduler.helpers.loadstats import (
    ResourceStats,
    measured_upstream,
    resource_stats,
)
from scheduler.helpers.upstreamsums import upstream_amounts, upstream_limits, upstream_requests
from scheduler.kube.primitives.quantity import quantity_milli_value, quantity_value
from scheduler.load import parse_watcher
from scheduler.plugins import lowriskovercommitment as lroc_plugin
from scheduler.plugins.lowriskovercommitment import (
    limit_risk,
    load_risk,
    match_moments,
    max_variance,
    regularized_incomplete_beta,
    total_risk,
)
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod
from tests.unit.scheduler.plugins import reference_load as reference
from tests.unit.scheduler.plugins.vectors import cases, load_profile, loads, pod_of, profile_of, raw, state_of

NAME = "LowRiskOverCommitment"
FILE = "trimaran_lroc.json"
SHARED = "trimaran_shared.json"
profile = functools.partial(load_profile, NAME)


def column(*values: float) -> Any:
    return np.array([float(number) for number in values])


@pytest.mark.parametrize("case", cases(FILE, "plugin_score"))
def test_scores_are_upstreams(case: dict[str, Any]) -> None:
    explanation = explain(state_of(case).snapshot(NOW), pod_of(case["pod"]), profile_of(case))
    for name, expected in case["expected"]["scores"].items():
        assert explanation.node(name).scores[NAME].raw == expected


@pytest.mark.parametrize("case", cases(FILE, "plugin_construct"))
def test_the_plugin_is_built_without_asking_the_watcher(case: dict[str, Any]) -> None:
    assert NAME in profile_of(case).plugins


@pytest.mark.parametrize("case", cases(FILE, "compute_risk"))
def test_risks_are_upstreams(case: dict[str, Any]) -> None:
    inputs = case["input"]
    sums = {
        name.removeprefix("node_"): float(amounts["milli_cpu" if inputs["resource"] == "cpu" else "memory"])
        for name, amounts in inputs["node_requests_and_limits"].items()
    }
    answer = parse_watcher(json.dumps(case["watcher_response"]).encode(), "w", now=NOW)
    load = answer.loads[inputs["node"]]
    prefix = inputs["resource"]
    seen = measured_upstream(column(getattr(load, f"{prefix}_average")), column(getattr(load, f"{prefix}_stddev")))
    capacity = column(sums["capacity"])
    mu, sigma = resource_stats(seen.average, seen.deviation, capacity, 0.0).mu_sigma()
    by_limits = limit_risk(column(sums["request"]), column(sums["limit"]), capacity)
    requests, limits = column(sums["request_minus_pod"]), column(sums["limit_minus_pod"])
    by_load = load_risk(mu, sigma, requests, limits, capacity, window=case["args"]["smoothingWindowSize"])
    weight = case["args"]["riskLimitWeights"][inputs["resource"]]
    assert total_risk(weight, by_limits, by_load)[0] == case["expected"]["risk"]


@pytest.mark.parametrize("case", cases(FILE, "placement_sequence"))
def test_pods_go_where_upstreams_integration_test_has_them(case: dict[str, Any]) -> None:
    state, scheduler = state_of(case), profile_of(case)
    for index, fields in enumerate(case["pods"]):
        info = pod_of(fields, f"uid-new-{index}")
        chosen = conclude(decide(state.snapshot(NOW), info, scheduler, random.Random(index))).node
        assert chosen == case["expected"]["placements"][info.name]


@pytest.mark.parametrize("case", cases(FILE, "beta_match_moments"))
def test_moments_match_where_upstreams_do(case: dict[str, Any]) -> None:
    inputs = case["input"]
    assert bool(match_moments(column(inputs["m1"]), column(inputs["m2"])).valid[0]) is case["expected"]["ok"]


@pytest.mark.parametrize("case", cases(FILE, "beta_cdf"))
def test_distribution_function_is_upstreams(case: dict[str, Any]) -> None:
    inputs = case["input"]
    computed = regularized_incomplete_beta(column(inputs["alpha"]), column(inputs["beta"]), column(inputs["x"]))[0]
    assert np.nan_to_num(computed) == pytest.approx(case["expected"]["value"], abs=case["expected"]["tolerance"])


@pytest.mark.parametrize("case", cases(FILE, "beta_max_variance"))
def test_largest_variance_is_upstreams(case: dict[str, Any]) -> None:
    assert max_variance(column(case["input"]["m1"]))[0] == case["expected"]["value"]


@pytest.mark.parametrize("case", cases(FILE, "beta_new"))
def test_fits_have_the_moments_they_were_made_from(case: dict[str, Any]) -> None:
    if case["expected"]["valid"]:
        first, second, _ = case["expected"]["moments"]
        fit = match_moments(column(first), column(second))
        assert [fit.alpha[0], fit.beta[0]] == pytest.approx([case["input"]["alpha"], case["input"]["beta"]])
    else:
        computed = regularized_incomplete_beta(
            *(column(case["input"][name]) for name in ("alpha", "beta")), column(0.5)
        )
        assert math.isnan(computed[0])


@pytest.mark.parametrize("case", cases(SHARED, "effective_requests"))
def test_requests_of_a_pod_are_upstreams(case: dict[str, Any]) -> None:
    expected = case["expected"]
    assert _cpu_and_memory(upstream_requests(pod_of(case["pod"]).spec)) == (expected["milli_cpu"], expected["memory"])


@pytest.mark.parametrize("case", cases(SHARED, "effective_limits"))
def test_limits_of_a_pod_are_upstreams(case: dict[str, Any]) -> None:
    expected = case["expected"]
    assert _cpu_and_memory(upstream_limits(pod_of(case["pod"]).spec)) == (expected["milli_cpu"], expected["memory"])


def _cpu_and_memory(amounts: Resources) -> tuple[int, int]:
    return amounts.get("cpu", 0), amounts.get("memory", 0)


@pytest.mark.parametrize("case", cases(SHARED, "mu_sigma"))
def test_mean_and_deviation_are_upstreams(case: dict[str, Any]) -> None:
    stats = case["input"]["resource_stats"]
    used = [column(stats[name]) for name in ("capacity", "req", "used_avg", "used_stdev")]
    mu, sigma = ResourceStats(*used).mu_sigma()
    assert (mu[0], sigma[0]) == (case["expected"]["mu"], case["expected"]["sigma"])


@pytest.mark.parametrize("case", cases(SHARED, "node_requests_and_limits"))
def test_sums_per_node_are_upstreams(case: dict[str, Any]) -> None:
    state = state_of({**case, "watcher_http_status": 404})
    view, own, expected = state.snapshot(NOW), pod_of(case["pod"]), case["expected"]
    capacity = case["nodes"][0]["status"]["allocatable"]
    for resource, amount, key in (
        ("cpu", quantity_milli_value(capacity["cpu"]), "milli_cpu"),
        ("memory", quantity_value(capacity["memory"]), "memory"),
    ):
        request_of, limit_of = upstream_amounts(resource)
        requests, limits = view.summed(request_of)[0], view.summed(limit_of)[0]
        assert view.allocatable(resource)[0] == expected["node_capacity"][key] == amount
        assert min(requests, amount) == expected["node_request_minus_pod"][key]
        assert limits == expected["node_limit_minus_pod"][key]
        assert min(requests + request_of(own), amount) == expected["node_request"][key]
        assert limits + limit_of(own) == expected["node_limit"][key]


@settings(max_examples=tries(100), deadline=None)
@given(st.integers(1, 80), st.integers(1, 80), st.integers(1, 999))
def test_incomplete_beta_is_exact_for_whole_parameters(alpha: int, beta: int, x: int) -> None:
    share, tries = Fraction(x, 1000), alpha + beta - 1
    exact = sum(math.comb(tries, n) * share**n * (1 - share) ** (tries - n) for n in range(alpha, tries + 1))
    computed = regularized_incomplete_beta(column(alpha), column(beta), column(x / 1000))[0]
    assert computed == pytest.approx(float(exact), abs=2e-13)


@settings(max_examples=tries(60), deadline=None)
@given(st.floats(1e-3, 1e5), st.floats(1e-3, 1e5), st.floats(0, 1), st.floats(0, 1))
def test_incomplete_beta_rises_from_0_to_1_and_mirrors(alpha: float, beta: float, x: float, other: float) -> None:
    low, high = sorted((x, other))
    pair = (column(alpha, alpha, alpha, alpha), column(beta, beta, beta, beta))
    zero, below, above, all_of_it = regularized_incomplete_beta(*pair, column(0, low, high, 1))
    assert (zero, all_of_it) == (0.0, 1.0)
    assert -1e-12 <= below <= above + 1e-9
    mirrored = regularized_incomplete_beta(column(beta), column(alpha), column(1 - low))[0]
    if 1 - (1 - low) == low:
        assert below + mirrored == pytest.approx(1, abs=1e-8)


amount = st.sampled_from(["0", "100m", "500m", "1", "2", "7"])
size = st.sampled_from(["0", "1Mi", "1Gi", "4Gi", "15Gi"])
figure = st.one_of(st.just(math.nan), st.floats(0.1, 120), st.sampled_from([0.0, 1e-9, 1.0, 50.0, 100.0]))
node_load = st.builds(NodeLoad, cpu_average=figure, cpu_stddev=figure, memory_average=figure, memory_stddev=figure)
resources = st.tuples(amount, amount, size, size)


def sized(name: str, sizes: tuple[str, str, str, str]) -> PodInfo:
    cpu, cpu_limit, memory, memory_limit = sizes
    return pod(name, container(cpu, memory, limits={"cpu": cpu_limit, "memory": memory_limit}))


@settings(max_examples=tries(60), deadline=None)
@given(
    st.lists(st.tuples(st.one_of(st.none(), node_load), st.lists(resources, max_size=3)), min_size=1, max_size=5),
    resources,
    st.integers(1, 9),
    st.floats(0, 1),
    st.floats(0, 1),
)
def test_upstream_scores_equal_a_node_by_node_reference(
    nodes: list[Any], given_pod: tuple[str, str, str, str], window: int, cpu: float, memory: float
) -> None:
    names = [f"n{index}" for index in range(len(nodes))]
    state = cluster(
        *(node(name) for name in names),
        pods={
            name: [sized(f"{name}-{number}", sizes) for number, sizes in enumerate(pods)]
            for name, (_, pods) in zip(names, nodes, strict=True)
        },
    )
    state.set_load(loads({name: load for name, (load, _) in zip(names, nodes, strict=True) if load is not None}))
    info = sized("p", given_pod)
    weights = {"cpu": cpu, "memory": memory}
    scheduler = profile("upstream", smoothingWindowSize=window, riskLimitWeights=weights)
    view = state.snapshot(NOW)
    scores = scheduler.plugins[NAME].score(CycleState(), info, view, view.rows)
    for row, score in zip(view.rows, scores, strict=True):
        load = nodes[names.index(view.name(int(row)))][0]
        pods_on_node = view.pods_on(int(row))
        exact = reference.over_commitment(load, view.info(int(row)), pods_on_node, info, window, weights)
        # The two compute the distribution in different ways; what lies on a half may round to either side.
        assert abs(int(score) - exact) <= 0.5 + 1e-5


def test_cached_risks_never_survive_a_change() -> None:
    rng, state = random.Random(5), cluster(*(node(f"n{index}") for index in range(12)))
    kept = {mode: profile(mode) for mode in ("safe", "upstream")}
    info, placed = sized("probe", ("500m", "2", "1Gi", "4Gi")), []
    for step in range(60):
        if step % 10 == 0:
            table = {
                f"n{index}": NodeLoad(*(rng.uniform(0, 90) for _ in range(4)), measured_at=NOW)
                for index in range(12)
                if rng.random() < 0.9
            }
            state.set_load(loads(table))
        if placed and rng.random() < 0.3:
            state.remove_pod(placed.pop(rng.randrange(len(placed))))
        added = sized(f"p{step}", ("500m", "3", "1Gi", "8Gi"))
        state.upsert_pod(state.assume(added, f"n{rng.randrange(12)}", NOW))
        placed.append(added.uid)
        if step == 30:
            state.remove_node("n3")
            state.upsert_node(node("n12"))
        for mode, scheduler in kept.items():
            assert raw(state, info, scheduler) == raw(state, info, profile(mode))


def test_pods_without_requests_and_limits_are_not_ranked() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(loads({"a": NodeLoad(cpu_average=10)}))
    assert raw(state, pod("p"), profile()) == {"a": 0, "b": 0}


def test_without_load_limits_decide_in_safe_mode_and_the_node_is_last_upstream() -> None:
    bursting = pod("x", container("1", limits={"cpu": "9"}))
    state = cluster(node("measured"), node("calm"), node("tight"), pods={"tight": [bursting]})
    state.set_load(loads({"measured": NodeLoad(cpu_average=0, cpu_stddev=0, memory_average=0, memory_stddev=0)}))
    info = pod("p", container("1"))
    assert raw(state, info, profile()) == {"measured": 100, "calm": 100, "tight": 25}
    assert raw(state, info, profile("upstream")) == {"measured": 100, "calm": 0, "tight": 0}
    assert explain(state.snapshot(NOW), info, profile()).counters[f"load_absent/{NAME}"] == 2


def test_stale_load_leaves_the_plugin_out_in_safe_mode_and_counts_upstream() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(loads({"a": NodeLoad(cpu_average=20), "b": NodeLoad(cpu_average=60)}, age=301))
    info = pod("p", container("1"))
    assert raw(state, info, profile()) == {"a": None, "b": None}
    assert explain(state.snapshot(NOW), info, profile()).counters[f"load_left_out/{NAME}"] == 1
    assert None not in raw(state, info, profile("upstream")).values()


def test_pods_that_are_only_assumed_count_in_safe_mode() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(loads({name: NodeLoad(40, 20, 10, 5, measured_at=NOW) for name in "ab"}))
    # Requests next to nothing, so that what it is predicted to use is beyond what is requested on the node.
    first = sized("first", ("1500m", "4", "1Mi", "2Mi"))
    state.assume(first, "a", NOW)
    info = sized("p", ("100m", "4", "1Mi", "2Mi"))
    safe, upstream = raw(state, info, profile()), raw(state, info, profile("upstream"))
    assert safe["a"] < upstream["a"]
    assert safe["b"] == upstream["b"]


@pytest.mark.parametrize("mode", ["safe", "upstream"])
def test_precomputed_risks_are_used_and_change_no_score(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    sizes = (sized(f"x{index}", ("500m", "3", "1Gi", "6Gi")) for index in range(8))
    state = cluster(
        *(node(f"n{index}") for index in range(8)), pods={f"n{i}": [placed] for i, placed in enumerate(sizes)}
    )
    state.assume(sized("young", ("500m", "3", "1Gi", "6Gi")), "n1", NOW)
    info, plugin = sized("p", ("500m", "2", "1Gi", "4Gi")), profile(mode).plugins[NAME]
    worked: list[int] = []

    def counting(*args: Any, **more: Any) -> Any:
        worked.append(len(args[0]))
        return load_risk(*args, **more)

    monkeypatch.setattr(lroc_plugin, "load_risk", counting)

    def score() -> list[int]:
        view = state.snapshot(NOW)
        return plugin.score(CycleState(), info, view, view.rows).tolist()

    for _ in range(2):
        reading = loads({f"n{i}": NodeLoad(*(rng.uniform(5, 90) for _ in range(4)), measured_at=NOW) for i in range(8)})
        view = state.snapshot(NOW)
        work = plugin.prepare_load(view, state.lay_out_load(reading))
        before = [] if not worked else score()
        work()
        if before:
            assert score() == before, "the load that is still in force counts"
        state.set_load(reading)
        worked.clear()
        scores = score()
        assert worked == [], "nothing is left to be worked out"
        assert scores == profile(mode).plugins[NAME].score(CycleState(), info, state.snapshot(NOW), view.rows).tolist()
        worked.append(0)
    other = LoadReading({}, NOW, source="Prometheus:https://elsewhere")
    assert plugin.prepare_load(view, state.lay_out_load(other)) is None


def test_what_changes_between_precomputing_and_the_load_is_recomputed() -> None:
    state = cluster(*(node(f"n{index}") for index in range(4)))
    info, plugin = sized("p", ("500m", "2", "1Gi", "4Gi")), profile().plugins[NAME]
    reading = loads({f"n{index}": NodeLoad(60, 20, 50, 10, measured_at=NOW) for index in range(4)})
    view = state.snapshot(NOW)
    plugin.prepare_load(view, state.lay_out_load(reading))()
    state.assume(sized("late", ("1", "3", "1Gi", "6Gi")), "n2", NOW)
    state.set_load(reading)
    view = state.snapshot(NOW)
    scores = plugin.score(CycleState(), info, view, view.rows).tolist()
    assert scores == profile().plugins[NAME].score(CycleState(), info, view, view.rows).tolist()
    assert scores[2] != scores[0]
