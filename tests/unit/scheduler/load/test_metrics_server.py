"""MetricsServerSource against a fake API server."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from scheduler.catalog import LoadOptions, TargetLoadPackingArgs
from scheduler.kube.client import ClientConfig
from scheduler.kube.client.sync import SyncConnection
from scheduler.load import LoadError, MetricsServerSource, load_settings, load_source
from tests.unit.scheduler.load.fakes import FakeService, send, service

AT = "2023-11-14T22:13:20Z"


@pytest.fixture
def api() -> Iterator[FakeService]:
    with service() as fake:
        yield fake


def source(api: FakeService, capacity: dict[str, tuple[int, int]] | None = None) -> MetricsServerSource:
    connection = SyncConnection(ClientConfig(server=api.url), timeout=0.5)
    return MetricsServerSource(connection, None if capacity is None else capacity.get)


def usage(name: str, cpu: Any = "250000000n", memory: Any = "1Gi", timestamp: Any = AT) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "timestamp": timestamp,
        "window": "20s",
        "usage": {"cpu": cpu, "memory": memory},
    }


def status(code: int, reason: str) -> dict[str, Any]:
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "said the fake"}


CAPACITY = {"n1": (4000, 8 << 30), "n2": (1000, 1 << 30)}


def test_usage_becomes_per_cent_of_capacity_with_its_own_time(api: FakeService) -> None:
    api.json({"items": [usage("n1"), usage("n2", "1", "512Mi")]})
    reading = source(api, CAPACITY).read()
    assert api.paths == ["/apis/metrics.k8s.io/v1beta1/nodes"]
    first, second = reading.loads["n1"], reading.loads["n2"]
    assert (first.cpu_average, first.memory_average) == (6.25, 12.5)
    assert (second.cpu_average, second.memory_average) == (100, 50)
    assert first.measured_at == 1_700_000_000
    assert math.isnan(first.cpu_stddev), "the metrics server knows no deviation, which is not the same as 0"


def test_nanocores_round_up_to_whole_millicores_as_upstream(api: FakeService) -> None:
    api.json({"items": [usage("n1", "1000001n")]})
    assert source(api, CAPACITY).read().loads["n1"].cpu_average == 100 * 2 / 4000


def test_without_known_capacities_the_nodes_are_listed_page_by_page(api: FakeService) -> None:
    def node(name: str) -> dict[str, Any]:
        return {"metadata": {"name": name}, "status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}

    pages = {
        None: {"metadata": {"continue": "more"}, "items": [node("n1")]},
        "more": {
            "metadata": {},
            "items": [node("n2"), {"metadata": {"name": "odd"}, "status": {"capacity": {"cpu": "x"}}}],
        },
    }

    def answer(handler: Any) -> None:
        parts = urlsplit(handler.path)
        token = parse_qs(parts.query).get("continue", [None])[0]
        items = {"items": [usage("n1"), usage("n2"), usage("odd")]}
        send(handler, json.dumps(items if "metrics" in parts.path else pages[token]).encode())

    api.answer = answer
    assert set(source(api).read().loads) == {"n1", "n2"}


def test_usage_of_a_node_that_is_gone_is_left_out(api: FakeService) -> None:
    api.json({"items": [usage("n1"), usage("gone")]})
    reading = source(api, CAPACITY).read()
    assert (set(reading.loads), reading.rejected) == ({"n1"}, {})


@pytest.mark.parametrize("cpu", ["", "x", "-1", "1_0", "\u0661", "1e30"])
def test_an_invalid_usage_is_missing_and_counted(api: FakeService, cpu: Any) -> None:
    api.json({"items": [usage("n1", cpu)]})
    reading = source(api, CAPACITY).read()
    assert math.isnan(reading.loads["n1"].cpu_average)
    assert reading.loads["n1"].memory_average == 12.5
    assert reading.rejected == {"usage": 1}
    assert repr(cpu) in reading.reasons["usage"]


@pytest.mark.parametrize(
    "wrong",
    [None, 7, [], {}, {"metadata": {"name": 5}}, usage("n2", cpu=None), usage("n2", cpu=[]), usage("n2", cpu="1" * 65)],
)
def test_an_item_of_another_form_costs_that_item(api: FakeService, wrong: Any) -> None:
    api.json({"items": [wrong, usage("n1")]})
    reading = source(api, CAPACITY).read()
    assert (set(reading.loads), reading.rejected) == ({"n1"}, {"usage": 1})


def test_an_answer_is_capped_by_the_nodes_and_not_by_their_labels(api: FakeService) -> None:
    """Each item has its node's labels, which are up to 2 KiB in clouds."""
    nodes = {f"n{number}": (4000, 8 << 30) for number in range(200)}
    items = [{**usage(name), "metadata": {"name": name, "labels": {"x": "y" * 3800}}} for name in nodes]
    connection = SyncConnection(ClientConfig(server=api.url), timeout=5)
    measured = MetricsServerSource(connection, nodes.get, object_count=lambda: len(nodes))
    api.json({"items": items})
    assert set(measured.read().loads) == set(nodes)
    api.json({"items": items * 2})
    with pytest.raises(LoadError, match="larger than 1081344 bytes"):
        measured.read()


def test_a_node_without_capacity_has_no_load(api: FakeService) -> None:
    api.json({"items": [usage("n1")]})
    assert source(api, {"n1": (0, 0)}).read().loads == {}


@pytest.mark.parametrize("timestamp", ["", "yesterday", None])
def test_an_invalid_time_is_unknown(api: FakeService, timestamp: Any) -> None:
    api.json({"items": [usage("n1", timestamp=timestamp)]})
    assert math.isnan(source(api, CAPACITY).read().loads["n1"].measured_at)


@pytest.mark.parametrize(
    ("code", "reason", "advice"),
    [
        (404, "NotFound", "is the metrics server installed"),
        (403, "Forbidden", "get and list of nodes in metrics.k8s.io"),
        (503, "ServiceUnavailable", "said the fake"),
        (401, "Unauthorized", "said the fake"),
    ],
)
def test_a_refusal_says_what_to_do(api: FakeService, code: int, reason: str, advice: str) -> None:
    api.json(status(code, reason), code)
    with pytest.raises(LoadError, match=advice):
        source(api, CAPACITY).read()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"items": 5}', b'{"items": [' + b"7," * 300_000 + b"7]}"])
def test_an_answer_of_another_shape_is_an_error(api: FakeService, body: bytes) -> None:
    api.answer = lambda handler: send(handler, body)
    with pytest.raises(LoadError, match="nodes: the answer cannot be used"):
        source(api, CAPACITY).read()


def test_an_unreachable_api_server_is_an_error(api: FakeService) -> None:
    api.close()
    with pytest.raises(LoadError, match="API server"):
        source(api, CAPACITY).read()


def test_the_default_provider_is_the_metrics_server_of_our_own_api_server(api: FakeService) -> None:
    args = TargetLoadPackingArgs.model_validate({})
    api.json({"items": [usage("n1")]})
    key = args.source_key()
    configured = load_source(key, load_settings(args, LoadOptions()), ClientConfig(server=api.url), CAPACITY.get)
    assert configured.read().loads["n1"].cpu_average == 6.25
