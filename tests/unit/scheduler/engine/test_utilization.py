"""What the gauges say about how full nodes are."""

from __future__ import annotations

import math

import pytest

from scheduler.engine.loadfeeds import SourceNodeLoads, show_requested
from scheduler.framework import LoadReading, NodeLoad
from scheduler.observe import Metrics
from scheduler.state import ClusterState
from tests.unit.scheduler.engine.pods import node_info, pod_info

SOURCE = "Prometheus:http://p"
NOW, MAX_AGE = 1000.0, 300.0
REQUESTED, LOAD = "secondary_scheduler_nodes_requested_ratio", "secondary_scheduler_nodes_load_ratio"


def shown(metrics: Metrics, name: str, **labels: str) -> list[float]:
    values = [
        metrics.registry.get_sample_value(name, {**labels, "quantile": each}) for each in ("0.1", "0.5", "0.9", "1")
    ]
    return [math.nan if value is None else value for value in values]


def full_by_tenths() -> ClusterState:
    """Eleven nodes with 10 CPUs, whose pods request 0 to 10 of them."""
    state = ClusterState()
    for number in range(11):
        state.upsert_node(node_info(f"n{number}", cpu="10"))
        state.upsert_pod(pod_info(f"p{number}", node=f"n{number}", cpu=str(number)))
    return state


def test_requests_are_shown_as_shares_at_quantiles_of_the_nodes() -> None:
    metrics = Metrics()
    show_requested(full_by_tenths(), metrics.nodes_requested, NOW)
    assert shown(metrics, REQUESTED, resource="cpu") == pytest.approx([0.1, 0.5, 0.9, 1.0])


def test_nodes_that_have_none_of_a_resource_do_not_count_and_without_nodes_there_is_no_figure() -> None:
    metrics, state = Metrics(), ClusterState()
    state.upsert_node(node_info("none", cpu="0"))
    show_requested(state, metrics.nodes_requested, NOW)
    assert all(math.isnan(value) for value in shown(metrics, REQUESTED, resource="cpu"))
    state.upsert_node(node_info("half", cpu="2"))
    state.upsert_pod(pod_info("p", node="half", cpu="1"))
    show_requested(state, metrics.nodes_requested, NOW)
    assert shown(metrics, REQUESTED, resource="cpu") == [0.5] * 4


def test_of_the_measured_loads_the_fresh_ones_count() -> None:
    metrics, state = Metrics(), full_by_tenths()
    loads = {f"n{number}": NodeLoad(cpu_average=number * 10.0, measured_at=NOW) for number in range(10)}
    stale = NodeLoad(cpu_average=100.0, memory_average=50.0, measured_at=NOW - 2 * MAX_AGE)
    state.set_load(LoadReading({**loads, "n10": stale}, NOW, source=SOURCE))
    for source in (SOURCE, "never read"):
        SourceNodeLoads(state, source, MAX_AGE).show(metrics.nodes_load, NOW)
    assert shown(metrics, LOAD, source=SOURCE, resource="cpu") == pytest.approx([0.09, 0.45, 0.81, 0.9])
    assert all(math.isnan(value) for value in shown(metrics, LOAD, source=SOURCE, resource="memory"))
