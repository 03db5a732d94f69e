"""Fresh, stale and absent load are three things, and the configuration says what stands in for the latter two."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler.config import ConfigurationError, load_configuration
from scheduler.core import explain
from scheduler.framework import LoadReading, NodeLoad, ProfileRunner
from scheduler.plugins import build_profile
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, SOURCE, WATCHER, cluster, container, node, only_scores, pod

PLUGINS = ("TargetLoadPacking", "LoadVariationRiskBalancing", "LowRiskOverCommitment", "Peaks")
MODEL = {"k0": 471.7, "k1": -91.5, "k2": -0.0719}
NODES = ("low", "high", "old", "new")
POD = pod("p", container("500m", "1Gi", limits={"cpu": "1", "memory": "2Gi"}))


def profile(plugin: str, **load: Any) -> ProfileRunner:
    args: dict[str, Any] = {"watcherAddress": WATCHER}
    if plugin == "Peaks":
        args = {"WatcherAddress": WATCHER, "NodePowerModel": dict.fromkeys(NODES, MODEL)}
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "test",
                "plugins": only_scores(plugin),
                "pluginConfig": [
                    {"name": plugin, "args": args},
                    {"name": "SecondarySchedulerOptions", "args": {"load": load}},
                ],
            }
        ],
    }
    text = msgspec.json.encode(document).decode()
    return build_profile(load_configuration(text, source="test", external_load=True).profiles[0])


def figures(average: float, age: float = 0.0) -> NodeLoad:
    return NodeLoad(average, 20.0, average, 20.0, NOW - age)


def world(loads: dict[str, NodeLoad] | None) -> ClusterState:
    size = container("3", "12Gi", limits={"cpu": "4", "memory": "16Gi"})
    state = cluster(*(node(name) for name in NODES), pods={name: [pod(f"on-{name}", size)] for name in ("old", "new")})
    if loads is not None:
        state.set_load(LoadReading(loads, NOW, source=SOURCE))
    return state


SOME_FRESH = {"low": figures(5), "high": figures(80), "old": figures(1, age=301)}


def outcome(state: ClusterState, scheduler: ProfileRunner, plugin: str) -> tuple[dict[str, int | None], dict[str, int]]:
    explanation = explain(state.snapshot(NOW), POD, scheduler)
    scores = {
        name: node.scores[plugin].normalized if plugin in node.scores else None for name, node in explanation.nodes()
    }
    return scores, dict(explanation.counters)


@pytest.mark.parametrize("plugin", PLUGINS)
def test_fresh_stale_and_absent_are_counted_apart(plugin: str) -> None:
    _, counters = outcome(world(SOME_FRESH), profile(plugin), plugin)
    assert counters == {f"load_stale/{plugin}": 1, f"load_absent/{plugin}": 1}


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize(("ahead", "stale"), [(60, 0), (61, 1), (1e9, 1)])
def test_load_from_the_future_is_stale(plugin: str, ahead: float, stale: int) -> None:
    loads = {**dict.fromkeys(NODES, figures(5)), "old": figures(1, age=-ahead)}
    _, counters = outcome(world(loads), profile(plugin), plugin)
    assert counters.get(f"load_stale/{plugin}", 0) == stale


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize(("field", "affected", "other"), [("whenStale", "old", "new"), ("whenAbsent", "new", "old")])
def test_a_node_that_is_left_out_gets_the_mean_of_the_others_and_one_that_is_estimated_its_requests(
    plugin: str, field: str, affected: str, other: str
) -> None:
    by_default, _ = outcome(world(SOME_FRESH), profile(plugin), plugin)
    left_out, _ = outcome(world(SOME_FRESH), profile(plugin, **{field: "leaveOut"}), plugin)
    assert by_default[affected] == by_default[other], "both are estimated, and request the same"
    assert left_out[other] == by_default[other]
    scored = [value for name, value in left_out.items() if name != affected and value is not None]
    # Peaks averages before it normalises, which may round differently.
    assert left_out[affected] == pytest.approx(sum(scored) / len(scored), abs=1)
    assert left_out[affected] not in (0, by_default[affected]), "neither a punishment nor the estimate"


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize(
    ("loads", "counter"),
    [
        pytest.param({name: figures(50, age=400) for name in NODES}, "load_stale", id="all stale"),
        pytest.param({}, "load_absent", id="an empty answer"),
        pytest.param(None, "load_absent", id="no answer yet"),
    ],
)
def test_with_nothing_fresh_the_plugin_is_left_out_or_all_are_estimated(
    plugin: str, loads: dict[str, NodeLoad] | None, counter: str
) -> None:
    scores, counters = outcome(world(loads), profile(plugin), plugin)
    assert set(scores.values()) == {None}
    assert counters == {f"{counter}/{plugin}": 4, f"load_left_out/{plugin}": 1}
    scores, counters = outcome(world(loads), profile(plugin, whenNoneFresh="requests"), plugin)
    assert None not in scores.values()
    assert scores["old"] == scores["new"] != scores["low"] == scores["high"], "two are empty, two are busy"
    assert counters == {f"{counter}/{plugin}": 4}


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_age_is_configurable_and_five_minutes_by_default(plugin: str) -> None:
    state = world({name: figures(40, age=299) for name in NODES})
    assert outcome(state, profile(plugin), plugin)[1] == {}
    strict = profile(plugin, maxAgeSeconds=298)
    assert outcome(state, strict, plugin)[1] == {f"load_stale/{plugin}": 4, f"load_left_out/{plugin}": 1}


def test_of_two_resources_the_one_without_load_is_left_out_alone() -> None:
    plugin = "LoadVariationRiskBalancing"
    loads = {"low": figures(5), "high": figures(80), "new": NodeLoad(cpu_average=10, measured_at=NOW)}
    scores, counters = outcome(world(loads), profile(plugin, whenAbsent="leaveOut"), plugin)
    # 10 % and half a cpu of four; the others' deviation of 20 %.
    assert scores["new"] == round((1 - (0.1 + 0.125 + 0.2) / 2) * 100)
    assert counters == {f"load_absent/{plugin}": 2}


def test_another_word_is_refused_with_its_field() -> None:
    with pytest.raises(ConfigurationError) as refused:
        profile("TargetLoadPacking", whenStale="ignore")
    assert "whenStale" in str(refused.value)
