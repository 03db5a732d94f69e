"""Advice about series that are missing, and about the label that names the nodes."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

import pytest

from scheduler.load import LoadSettings, PrometheusSource
from secondary_scheduler.cli.preflight import series
from tests.unit.scheduler.load.fakes import FakeService, send, service


def prometheus(fake: FakeService, names: dict[str, list[dict[str, str]]]) -> PrometheusSource:
    """A Prometheus with these series (labels by name); it answers queries that hold a name."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        query = parse_qs(urlsplit(handler.path).query)["query"][0]
        if query.startswith("count by (__name__)"):
            samples = [{"__name__": name} for name in names]
        else:
            samples = [labels for name, label_sets in names.items() if name in query for labels in label_sets]
        result = [{"metric": labels, "value": [0, "0.5"]} for labels in samples]
        send(handler, json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode())

    fake.answer = answer
    return PrometheusSource(LoadSettings(address=fake.url))


@pytest.mark.parametrize(
    ("name", "figure", "query"),
    [
        (
            "instance:node_cpu_utilisation:rate5m",
            "cpu_average",
            "load.queries.cpuAverage: avg_over_time(instance:node_cpu_utilisation:rate5m[$window])",
        ),
        (
            "node_cpu_seconds_total",
            "cpu_stddev",
            'load.queries.cpuStddev: stddev_over_time((1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}'
            "[5m])))[$window:30s])",
        ),
        (
            "node_memory_MemAvailable_bytes",
            "memory_average",
            "load.queries.memoryAverage: avg_over_time((1 - node_memory_MemAvailable_bytes / "
            "node_memory_MemTotal_bytes)[$window:30s])",
        ),
        ("up", "cpu_average", "is node-exporter installed"),
    ],
)
def test_the_advice_for_missing_series_is_a_query_for_existing_ones(name: str, figure: str, query: str) -> None:
    with service() as fake:
        assert query in series.advice(prometheus(fake, {name: []}), figure)


def test_the_label_with_the_nodes_names_may_be_on_other_series() -> None:
    own = [{"instance": "10.0.0.1:9100", "job": "x"}]
    with service() as fake:
        source = prometheus(fake, {"instance:node_cpu:ratio": own, "kube_node_info": [{"node": "n1", "instance": "i"}]})
        assert series.label_with(source, {"n1"}) == "node"
        assert series.label_with(prometheus(fake, {"instance:node_cpu:ratio": own}), {"n1"}) is None
