"""Upstream's tests of the collector, of resource statistics and of the cache of assigned pods, by their effects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from scheduler.catalog import LoadOptions, TargetLoadPackingArgs
from scheduler.config import ConfigurationError, load_configuration
from scheduler.core import explain
from scheduler.framework import LoadReading
from scheduler.helpers.loadstats import MEGA, measured_upstream, resource_stats
from scheduler.kube.client import ClientConfig
from scheduler.kube.primitives.quantity import quantity_milli_value, quantity_value
from scheduler.load import LoadCollector, load_settings, load_source, match_nodes, parse_watcher
from scheduler.plugins.lowriskovercommitment import match_moments
from tests.unit.scheduler.core.builders import NOW, WATCHER, cluster, container, load, node, only_scores, pod, runner
from tests.unit.scheduler.load.fakes import FakeService, service
from tests.unit.scheduler.plugins import reference
from tests.unit.scheduler.plugins.vectors import cases

SHARED = "trimaran_shared.json"
PACKING = "TargetLoadPacking"


@pytest.fixture
def watcher() -> Iterator[FakeService]:
    with service() as fake:
        yield fake


def readings_of(case: dict[str, Any], watcher: FakeService) -> list[LoadReading]:
    """What a collector built from the case's args reads from its watcher."""
    args = json.loads(json.dumps(case["args"]).replace("<watcher-server>", watcher.url))
    watcher.json(case["watcher_response"])
    parsed = TargetLoadPackingArgs.model_validate(args)
    settings = load_settings(parsed, LoadOptions())
    source = load_source(parsed.source_key(), settings, ClientConfig(server="https://unused.invalid"))
    readings: list[LoadReading] = []
    collector = LoadCollector(source, refresh_seconds=1, max_age_seconds=1, on_reading=readings.append)
    collector.read_once()
    source.close()
    assert collector.status().consecutive_failures == 0
    return readings


@pytest.mark.parametrize("case", cases(SHARED, "collector_update"))
def test_a_collector_takes_an_answer(case: dict[str, Any], watcher: FakeService) -> None:
    (reading,) = readings_of(case, watcher)
    assert set(reading.loads) == set(case["watcher_response"]["data"]["NodeMetricsMap"])


@pytest.mark.parametrize("case", cases(SHARED, "collector_node_metrics"))
def test_a_node_has_the_metrics_of_its_name_and_of_no_other(case: dict[str, Any], watcher: FakeService) -> None:
    (reading,) = readings_of(case, watcher)
    wanted = case["input"]["node"]
    matched, _ = match_nodes(reading, lambda name: wanted if name == wanted else None)
    expected = case["expected"]["node_metrics"]
    if expected is None:
        assert matched.loads == {}
        return
    values = {(metric["type"], metric["operator"]): metric["value"] for metric in expected}
    node_load = matched.loads[wanted]
    assert {
        ("CPU", "AVG"): node_load.cpu_average,
        ("CPU", "STD"): node_load.cpu_stddev,
        ("Memory", "AVG"): node_load.memory_average,
        ("Memory", "STD"): node_load.memory_stddev,
    } == values


@pytest.mark.parametrize("case", cases(SHARED, "collector_construct"))
def test_a_source_is_accepted_or_refused_as_upstream_without_a_request(case: dict[str, Any]) -> None:
    args = json.loads(json.dumps(case["args"]).replace("<any-http-server>", "http://signalfx.test"))
    profile = {
        "schedulerName": "test",
        "plugins": only_scores(PACKING),
        "pluginConfig": [{"name": PACKING, "args": args}],
    }
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [profile],
    }
    text = msgspec.json.encode(document).decode()

    def built() -> None:
        configuration = load_configuration(text, source="test", allow_token_in_config_map=True)
        parsed: Any = configuration.profiles[0].args(PACKING)
        settings = load_settings(parsed, LoadOptions())
        load_source(parsed.source_key(), settings, ClientConfig(server="https://unused.invalid")).close()

    if case["expected"]["error"] is None:
        built()
    else:
        with pytest.raises(ConfigurationError) as refused:
            built()
        assert case["expected"]["error"] in str(refused.value)


@pytest.mark.parametrize("case", cases(SHARED, "create_resource_stats"))
def test_amounts_follow_from_the_listed_metrics(case: dict[str, Any]) -> None:
    inputs, expected = case["input"], case["expected"]
    answer = {"data": {"NodeMetricsMap": {"node0": {"metrics": inputs["metrics"]}}}}
    node_load = parse_watcher(json.dumps(answer).encode(), "w", now=NOW).loads["node0"]
    resource = inputs["resource"]
    figures = [np.array([getattr(node_load, f"{resource}_{figure}")]) for figure in ("average", "stddev")]
    seen = measured_upstream(*figures)
    assert bool(seen.known[0]) is expected["valid"]
    if not expected["valid"]:
        return
    allocatable = case["nodes"][0]["status"]["allocatable"][resource]
    request = inputs["pod_request"]
    capacity, amount = (
        (float(quantity_milli_value(allocatable)), float(request["milli_cpu"]))
        if resource == "cpu"
        else (quantity_value(allocatable) * MEGA, request["memory"] * MEGA)
    )
    stats = resource_stats(seen.average, seen.deviation, np.array([capacity]), amount)
    wanted = expected["resource_stats"]
    assert (stats.capacity[0], stats.request) == (wanted["capacity"], wanted["req"])
    assert (stats.used_average[0], stats.used_deviation[0]) == (wanted["used_avg"], wanted["used_stdev"])


@pytest.mark.parametrize("case", cases(SHARED, "assign_cache_cleanup"))
def test_the_pods_in_upstreams_cache_are_the_pods_that_count(case: dict[str, Any]) -> None:
    inputs = case["input"]
    state = cluster(node("n1", allocatable={"cpu": "100"}))
    state.set_load(load({"n1": 0.0}))
    ages = {
        cached["pod"]: 1e6 if cached["age_seconds"] is None else cached["age_seconds"] for cached in inputs["cached"]
    }
    if inputs["update_event_assigns_now"]:
        ages[inputs["update_event_assigns_now"]] = 0
    # Each pod by an amount of its own, so that the score tells which of them count.
    amounts = {name: 2000 * 2**index for index, name in enumerate(sorted(ages))}
    for name, age in ages.items():
        bound = pod(name, container(f"{amounts[name]}m", limits={"cpu": f"{amounts[name]}m"}))
        state.upsert_pod(msgspec.structs.replace(bound, node_name="n1"), NOW - age)
    scheduler = runner(only_scores(PACKING), {PACKING: {"watcherAddress": WATCHER}}, compatibility="upstream")
    raw = explain(state.snapshot(NOW), pod("p", container("0")), scheduler).node("n1").scores[PACKING].raw
    missing = sum(amounts[name] for name in case["expected"]["cache"])
    assert raw == reference.packing_score(100 * missing / 100_000, 40)


@pytest.mark.parametrize("case", cases("trimaran_lroc.json", "beta_print"))
def test_the_distribution_that_upstream_prints_is_fitted_from_its_moments(case: dict[str, Any]) -> None:
    first, second, _ = case["input"]["moments"]
    fit = match_moments(np.array([first]), np.array([second]))
    alpha, beta = float(fit.alpha[0]), float(fit.beta[0])
    variance = alpha * beta / ((alpha + beta) ** 2 * (alpha + beta + 1))
    printed = (
        f"BetaDistribution: alpha = {alpha:f}; beta = {beta:f}; mean = {alpha / (alpha + beta):f}; var = {variance:f};"
    )
    assert case["expected"]["text"].startswith(printed)
