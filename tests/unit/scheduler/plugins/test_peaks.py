"""Peaks: upstream's vectors, its normalisation and power models, and where `safe` differs."""

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.core import decide, explain
from scheduler.framework import CycleState, LoadReading, NodeLoad, PodInfo, ProfileRunner, conclude
from scheduler.helpers.upstreamsums import upstream_quantity_of_cpu
from scheduler.plugins.peaks import VARIABLE, go_exp, normalize_scores
from scheduler.state import ClusterState
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, SOURCE, WATCHER, cluster, container, node, only_scores, pod, runner
from tests.unit.scheduler.plugins import reference_load as reference
from tests.unit.scheduler.plugins.vectors import cases, pod_of, profile_of, state_of

NAME = "Peaks"
FILE = "trimaran_peaks.json"
MODEL = {"k0": 471.7412504314313, "k1": -91.50493019588365, "k2": -0.07186049052516227}


def profile(compatibility: str = "safe", models: dict[str, Any] | None = None, **args: object) -> ProfileRunner:
    fields = {"WatcherAddress": WATCHER, **({} if models is None else {"NodePowerModel": models}), **args}
    return runner(only_scores(NAME), {NAME: fields}, compatibility=compatibility)


def loads(values: dict[str, float], *, age: float = 0.0) -> LoadReading:
    return LoadReading(
        {name: NodeLoad(cpu_average=percent) for name, percent in values.items()}, NOW - age, source=SOURCE
    )


def scores(state: ClusterState, info: PodInfo, scheduler: ProfileRunner) -> dict[str, int | None]:
    explanation = explain(state.snapshot(NOW), info, scheduler)
    return {
        name: explained.scores[NAME].normalized if NAME in explained.scores else None
        for name, explained in explanation.nodes()
    }


@pytest.fixture
def model_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "models.json"
    monkeypatch.setenv(VARIABLE, str(path))
    return path


@pytest.mark.parametrize("case", cases(FILE, "plugin_score"))
def test_raw_scores_are_upstreams(case: dict[str, Any], model_file: Path) -> None:
    model_file.write_text(json.dumps(case["power_model_file"]))
    view = state_of(case).snapshot(NOW)
    scores = profile_of(case).plugins[NAME].score(CycleState(), pod_of(case["pod"]), view, view.rows)
    for row, score in zip(view.rows, scores, strict=True):
        expected = case["expected"]["scores"][view.name(int(row))]
        assert int(score) == pytest.approx(expected, abs=case.get("tolerance", 0), rel=0)


@pytest.mark.parametrize("case", cases(FILE, "normalize_score"))
def test_normalisation_is_upstreams(case: dict[str, Any]) -> None:
    raw, expected = case["input"]["scores"], case["expected"]["scores"]
    computed = normalize_scores(np.array(list(raw.values()), dtype=np.int64))
    assert dict(zip(raw, computed.tolist(), strict=True)) == expected


@pytest.mark.parametrize("case", [case for case in cases(FILE, "plugin_construct") if case.values[0]["args"]])
def test_power_models_load_or_fail_as_upstreams(
    case: dict[str, Any], model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_file.write_text(json.dumps(case.get("power_model_file", {"node-1": MODEL})))
    expected = case["expected"]
    if "error_template" in expected:
        monkeypatch.setenv(VARIABLE, f"{model_file}/invalid")
        expected = {"error": expected["error_template"].replace("{NODE_POWER_MODEL}", f"{model_file}/invalid")}
    if expected.get("error"):
        with pytest.raises(ValueError) as caught:
            profile_of(case)
        assert expected["error"] in str(caught.value)
    else:
        assert NAME in profile_of(case).plugins


@pytest.mark.parametrize("case", cases(FILE, "placement_sequence"))
def test_pods_go_where_upstreams_integration_test_has_them(case: dict[str, Any], model_file: Path) -> None:
    model_file.write_text(json.dumps(case["power_model_file"]))
    state, scheduler = state_of(case), profile_of(case)
    for index, fields in enumerate(case["pods"]):
        info = pod_of(fields, f"uid-{index}")
        chosen = conclude(decide(state.snapshot(NOW), info, scheduler, random.Random(index))).node
        assert chosen == case["expected"]["placements"][info.name]
        state.upsert_pod(state.assume(info, chosen, NOW), NOW)


def test_powers_of_e_are_gos_to_the_last_bit() -> None:
    vectors = json.loads((Path(__file__).parents[3] / "conformance/vectors/go_exp.json").read_text())["cases"]
    inputs, expected = (
        np.array([int(vector[index], 16) for vector in vectors], dtype=np.uint64).view(np.float64) for index in (0, 1)
    )
    assert go_exp(inputs).tolist() == expected.tolist()
    assert np.exp(inputs).tolist() != expected.tolist(), "else there would be no need for it"
    beyond = go_exp(np.array([math.inf, -math.inf, 1000.0, -1000.0, 0.0]))
    assert beyond.tolist() == [math.inf, 0.0, math.inf, 0.0, 1.0]


@settings(max_examples=tries(60), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.one_of(st.none(), st.floats(0, 110)),
            st.one_of(st.none(), st.tuples(st.floats(-100, 100), st.floats(-0.2, 0.03))),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["0", "100m", "1", "3999m"]),
)
def test_upstream_scores_equal_a_node_by_node_reference(nodes: list[Any], cpu: str) -> None:
    names = [f"n{index}" for index in range(len(nodes))]
    models = {
        name: {"k0": 1.0, "k1": model[0], "k2": model[1]}
        for name, (_, model) in zip(names, nodes, strict=True)
        if model is not None
    }
    state = cluster(*(node(name) for name in names))
    state.set_load(loads({name: load for name, (load, _) in zip(names, nodes, strict=True) if load is not None}))
    scheduler = profile("upstream", {**models, "elsewhere": MODEL})
    info = pod("p", container(cpu))
    view, plugin, cycle = state.snapshot(NOW), scheduler.plugins[NAME], CycleState()
    scores = plugin.score(cycle, info, view, view.rows)
    expected = [
        reference.power_growth(load, models.get(name), 4000, upstream_quantity_of_cpu(info.spec))
        for name, (load, _) in zip(names, nodes, strict=True)
    ]
    order = [names.index(view.name(int(row))) for row in view.rows]
    for index, score in zip(order, scores.tolist(), strict=True):
        assert abs(score - expected[index]) <= max(4096, abs(expected[index]) * 1e-12)
    whole = plugin.normalize(cycle, info, view, view.rows, scores)
    assert whole.tolist() == reference.power_normalized(scores.tolist())


def test_a_hot_or_unmeasured_node_is_best_upstream_and_not_in_safe_mode() -> None:
    names = ("steep", "flat", "full", "new")
    state = cluster(*(node(name) for name in names), pods={"new": [pod("x", container("2"))]})
    state.set_load(loads({"steep": 5.0, "flat": 50.0, "full": 90.0}))
    models = dict.fromkeys(names, MODEL)
    info = pod("p", container("1"))
    upstream, safe = scores(state, info, profile("upstream", models)), scores(state, info, profile("safe", models))
    assert upstream["full"] == upstream["new"] == 100
    assert safe["full"] == 0
    # "new" runs at an estimated 50 %, exactly as "flat".
    assert safe["new"] == safe["flat"] == 100
    assert safe["steep"] == upstream["steep"] == 0


def test_a_node_without_a_model_is_best_upstream_and_average_in_safe_mode() -> None:
    state = cluster(*(node(name) for name in ("steep", "flat", "unknown")))
    state.set_load(loads({"steep": 0.0, "flat": 60.0, "unknown": 30.0}))
    models = {"steep": MODEL, "flat": MODEL}
    info = pod("p", container("1"))
    assert scores(state, info, profile("upstream", models))["unknown"] == 100
    assert scores(state, info, profile("safe", models)) == {"steep": 0, "flat": 100, "unknown": 50}


def test_the_models_of_the_file_are_lost_upstream_unless_the_args_hold_an_empty_map(model_file: Path) -> None:
    model_file.write_text(json.dumps({"a": MODEL, "b": MODEL}))
    state = cluster(node("a"), node("b"))
    state.set_load(loads({"a": 0.0, "b": 60.0}))
    info = pod("p", container("1"))
    assert scores(state, info, profile("upstream")) == {"a": 0, "b": 0}
    assert scores(state, info, profile("upstream", {})) == {"a": 0, "b": 100}
    assert scores(state, info, profile("safe")) == {"a": 0, "b": 100}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "json: cannot unmarshal array into Go value of type map[string]config.PowerModel"),
        ('{"a": {"k3": 1}}', 'json: unknown field "k3"'),
        ('{"a": {"k1": "1"}}', "json: cannot unmarshal string into Go struct field PowerModel.k1 of type float64"),
        ("{", "not JSON"),
    ],
)
def test_a_broken_model_file_is_refused(text: str, message: str, model_file: Path) -> None:
    model_file.write_text(text)
    with pytest.raises(ValueError) as caught:
        profile()
    assert message in str(caught.value)


def test_without_models_at_all_the_plugin_cannot_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(ValueError, match="open : no such file or directory"):
        profile()


def test_stale_load_leaves_the_plugin_out_in_safe_mode_and_counts_upstream() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(loads({"a": 20.0, "b": 60.0}, age=301))
    models = {"a": MODEL, "b": MODEL}
    info = pod("p", container("1"))
    assert scores(state, info, profile("safe", models)) == {"a": None, "b": None}
    assert scores(state, info, profile("upstream", models)) == {"a": 0, "b": 100}


def test_pods_that_are_only_assumed_count_in_safe_mode() -> None:
    state = cluster(node("a"), node("b"))
    state.set_load(loads({"a": 10.0, "b": 10.0}))
    state.assume(pod("first", container("2")), "a", NOW)
    models = {"a": MODEL, "b": MODEL}
    info = pod("p", container("1"))
    assert scores(state, info, profile("safe", models)) == {"a": 100, "b": 0}
    assert scores(state, info, profile("upstream", models)) == {"a": 100, "b": 100}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, 0, id="limits do not count"),
        pytest.param({"overhead": {"cpu": "1"}}, 0, id="overhead only beside a request"),
        pytest.param({"resources": {"requests": {"cpu": "3"}}}, 3000, id="the pod's own requests replace"),
        pytest.param({"resources": {"requests": {"memory": "1Gi"}}}, 0, id="also where they name no cpu"),
    ],
)
def test_request_that_peaks_looks_at_upstream(fields: dict[str, Any], expected: int) -> None:
    assert upstream_quantity_of_cpu(pod("p", container(limits={"cpu": "2"}), **fields).spec) == expected


def test_upstream_too_sidecars_run_beside_the_rest_and_overhead_is_added() -> None:
    sidecar = container("100m", name="side", restartPolicy="Always")
    info = pod("p", container("1"), initContainers=[sidecar, container("2", name="init")], overhead={"cpu": "10m"})
    assert upstream_quantity_of_cpu(info.spec) == 2110


def test_a_model_that_overflows_upstream_is_bounded_in_safe_mode() -> None:
    state = cluster(node("wild"), node("tame"))
    state.set_load(loads({"wild": 10.0, "tame": 10.0}))
    models = {"wild": {"k0": 0.0, "k1": 1e300, "k2": 9.0}, "tame": MODEL}
    result = scores(state, pod("p", container("1")), profile("safe", models))
    assert result == {"wild": 0, "tame": 100}
    upstream = scores(state, pod("p", container("1")), profile("upstream", models))
    assert upstream == {"wild": 100, "tame": 0}, "wrapped around, the largest growth looks like the smallest"
    assert math.isfinite(sum(value for value in result.values() if value is not None))
