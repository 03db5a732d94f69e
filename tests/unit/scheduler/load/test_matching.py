"""Readings become load columns: instances matched to nodes, values with their age."""

from __future__ import annotations

import math

import pytest

from scheduler.catalog import LoadOptions, TargetLoadPackingArgs
from scheduler.load import InstanceLoad, LoadReading, load_settings, load_table, match_instances, window_seconds

NODES = {"n1": "n1", "10.0.0.2": "n2", "fd00::3": "n3"}


@pytest.mark.parametrize(
    ("instance", "node"),
    [
        ("n1", "n1"),
        ("10.0.0.2", "n2"),
        ("10.0.0.2:9100", "n2"),
        ("[fd00::3]:9100", "n3"),
        ("fd00::3", "n3"),
        ("stranger:9100", None),
    ],
)
def test_an_instance_is_matched_by_name_then_by_address_without_port(instance: str, node: str | None) -> None:
    load = InstanceLoad(cpu_average=10)
    matched, unmatched = match_instances(LoadReading({instance: load}, window_end=1), NODES.get)
    assert matched == ({node: load} if node else {})
    assert unmatched == ([] if node else [instance])


@pytest.mark.parametrize("order", [("n2", "10.0.0.2:9100"), ("10.0.0.2:9100", "n2")])
def test_the_series_under_a_nodes_name_wins_over_one_under_its_address(order: tuple[str, ...]) -> None:
    nodes = {**NODES, "n2": "n2"}
    loads = {"n2": InstanceLoad(cpu_average=10), "10.0.0.2:9100": InstanceLoad(cpu_average=90)}
    reading = LoadReading({name: loads[name] for name in order}, window_end=1)
    assert match_instances(reading, nodes.get) == ({"n2": loads["n2"]}, [])


def test_a_value_without_sample_time_is_as_old_as_the_window_end() -> None:
    loads = {"a": InstanceLoad(cpu_average=1, measured_at=90), "b": InstanceLoad(cpu_average=2)}
    table = load_table("Prometheus:x", LoadReading(loads, window_end=100), loads, window_seconds("5m"))
    assert table.nodes["a"].timestamp == 90
    assert table.nodes["b"].timestamp == 100
    assert (table.window_start, table.window_end) == (-200, 100)
    assert math.isnan(table.nodes["a"].memory_average)


@pytest.mark.parametrize(("window", "seconds"), [("15m", 900), ("1h30m", 5400), ("500ms", 0.5)])
def test_windows_are_promql_durations(window: str, seconds: float) -> None:
    assert window_seconds(window) == seconds


def test_tls_is_verified_unless_the_configuration_says_otherwise() -> None:
    provider = {"type": "Prometheus", "address": "https://p:9090"}
    verified = TargetLoadPackingArgs.model_validate({"metricProvider": provider})
    assert load_settings(verified, LoadOptions()).verify_tls
    skipped = TargetLoadPackingArgs.model_validate({"metricProvider": {**provider, "insecureSkipVerify": True}})
    assert not load_settings(skipped, LoadOptions()).verify_tls
