"""The nodes' load in a snapshot: what the source says, and a line about what of it cannot be a load."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from scheduler.load import LoadError, parse_watcher
from secondary_scheduler.clustersnapshot.measuring import LoadOrigin, read_load_document
from tests.unit.scheduler.load.fakes import FakeService, send, service

NAMES = {"n1": "n1", "10.0.0.1": "n1", "n2": "n2"}


@pytest.fixture
def source() -> Iterator[FakeService]:
    with service() as fake:
        yield fake


def watcher(source: FakeService) -> LoadOrigin:
    return LoadOrigin(None, source.url, None, None, "15m")


def answered(body: bytes, source: FakeService) -> None:
    source.answer = lambda handler: send(handler, body)


def test_the_answer_of_a_load_watcher_means_the_same_in_a_snapshot(source: FakeService) -> None:
    metrics = [
        {"name": "a", "type": "CPU", "operator": "Latest", "rollup": "15m", "value": 33.333333333333336},
        {"name": "b", "type": "CPU", "operator": "AVG", "rollup": "15m", "value": 12},
        {"name": "c", "type": "Memory", "operator": "STD", "rollup": "15m", "value": 2.5},
    ]
    window = {"duration": "15m", "start": 100, "end": 1000}
    nodes = {"n1": {"metrics": metrics, "tags": {}, "metadata": {}}}
    body = json.dumps({"timestamp": 1010, "window": window, "source": "Prometheus", "data": {"NodeMetricsMap": nodes}})
    answered(body.encode(), source)
    messages: list[str] = []
    document = read_load_document(watcher(source), NAMES, messages.append)
    assert (document["timestamp"], document["window"], document["source"]) == (1010, window, "Prometheus")
    assert parse_watcher(json.dumps(document).encode(), "s") == parse_watcher(body.encode(), "w")
    assert messages == []


def test_what_cannot_be_a_load_is_left_out_and_said(source: FakeService) -> None:
    wrong = b'{"type":"CPU","operator":"AVG","value":NaN},7,{"type":"Memory","operator":"AVG","value":5}'
    answered(b'{"timestamp":1010,"data":{"NodeMetricsMap":{"n1":{"metrics":[' + wrong + b"]}}}}", source)
    messages: list[str] = []
    document = read_load_document(watcher(source), NAMES, messages.append)
    assert document["data"]["NodeMetricsMap"] == {
        "n1": {"metrics": [{"type": "Memory", "operator": "AVG", "value": 5.0}]}
    }
    assert len(messages) == 1
    assert messages[0].startswith("left out values that cannot be a load: watcher: 2 (not JSON")


def test_an_answer_is_capped_by_the_nodes(source: FakeService) -> None:
    answered(b" " * 270_000, source)
    with pytest.raises(LoadError, match="larger than 266240 bytes, which is the most for 2 nodes"):
        read_load_document(watcher(source), NAMES, lambda _: None)


def test_series_of_prometheus_get_the_nodes_names(source: FakeService) -> None:
    samples = (
        b'{"metric":{"instance":"10.0.0.1:9100"},"value":[1000,"0.5"]}',
        b'{"metric":{"instance":"n2"},"value":[1000,"1_0"]}',
    )
    answered(b'{"data":{"resultType":"vector","result":[' + b",".join(samples) + b"]}}", source)
    messages: list[str] = []
    document = read_load_document(LoadOrigin(source.url, None, None, None, "15m"), NAMES, messages.append)
    assert set(document["data"]["NodeMetricsMap"]) == {"n1"}
    assert "'1_0' is not a number as Prometheus writes it" in messages[0]
