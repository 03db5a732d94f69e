"""SignalFxSource against a fake SignalFx."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from scheduler.catalog import LoadOptions, TargetLoadPackingArgs
from scheduler.load import LoadError, LoadSettings, SignalFxSource, load_settings, load_source
from tests.unit.scheduler.load.fakes import FakeService, send, service


@pytest.fixture
def signalfx() -> Iterator[FakeService]:
    with service() as fake:
        yield fake


def source(fake: FakeService, **settings: Any) -> SignalFxSource:
    options = {"token": "PWNED", "credential_header": "X-SF-Token", "timeout_seconds": 0.5, **settings}
    return SignalFxSource(LoadSettings(address=fake.url, **options), 900.0)


def serve(fake: FakeService, points: dict[str, Any], hosts: dict[str, Any]) -> None:
    series = [{"id": name, "dimensions": {"host": host, "sf_metric": None}} for name, host in hosts.items()]

    def answer(handler: Any) -> None:
        body = {"data": points, "errors": []} if "timeserieswindow" in handler.path else {"results": series}
        send(handler, json.dumps(body).encode())

    fake.answer = answer


def test_the_mean_of_the_points_is_the_load_of_the_short_host_name(signalfx: FakeService) -> None:
    points = {
        "a": [[1_600_000_000_000, 80.0], [1_600_000_060_000, 90.0]],
        "b": [[1_600_000_000_000, 5.5]],
        "c": [[1, 2]],
    }
    serve(signalfx, points, {"a": "test1.dev.com", "b": "test2", "d": "without-points"})
    reading = source(signalfx, host_suffix=".dev.com", cluster="east").read()
    assert {name: load.cpu_average for name, load in reading.loads.items()} == {"test1": 85.0, "test2": 5.5}
    assert reading.loads["test1"].memory_average == 85.0
    assert reading.loads["test1"].measured_at == 1_600_000_060
    assert math.isnan(reading.loads["test1"].cpu_stddev)
    queries = [parse_qs(urlsplit(path).query) for path in signalfx.paths]
    assert [query["query"][0] for query in queries][::2] == [
        f'host:*.dev.com AND cluster:east AND sf_metric:"{metric}.utilization"' for metric in ("cpu", "memory")
    ]
    assert int(queries[0]["endMs"][0]) - int(queries[0]["startMs"][0]) == 900_000
    assert queries[0]["resolution"] == ["60000"]
    assert queries[1]["limit"] == ["10000"]
    assert {headers["X-SF-Token"] for headers in signalfx.headers} == {"PWNED"}
    assert not any("Authorization" in headers for headers in signalfx.headers)


@pytest.mark.parametrize("points", [[], [[1]], [[1, "x"]], [[1, -4.0]], [[1, math.nan]], None, "text", [None]])
def test_points_that_are_no_load_are_missing_and_counted(signalfx: FakeService, points: Any) -> None:
    serve(signalfx, {"a": points, "b": [[1000, 1.0]]}, {"a": "n1", "b": "n2"})
    reading = source(signalfx).read()
    assert set(reading.loads) == {"n2"}
    assert reading.rejected == {"cpu.utilization": 1, "memory.utilization": 1}


def test_names_of_another_shape_are_ignored(signalfx: FakeService) -> None:
    def answer(handler: Any) -> None:
        results = [
            None,
            {},
            {"dimensions": None},
            {"dimensions": {"host": 5}},
            {"id": "a", "dimensions": {"host": "n1"}},
        ]
        body = {"data": {"a": [[1, 2.0]]}} if "timeserieswindow" in handler.path else {"results": results}
        send(handler, json.dumps(body).encode())

    signalfx.answer = answer
    assert set(source(signalfx).read().loads) == {"n1"}


def test_a_figure_that_fails_leaves_the_other(signalfx: FakeService) -> None:
    def answer(handler: Any) -> None:
        if "memory" in handler.path:
            send(handler, b"{}", 500)
        elif "timeserieswindow" in handler.path:
            send(handler, b'{"data": {"a": [[1, 2.0]]}}')
        else:
            send(handler, b'{"results": [{"id": "a", "dimensions": {"host": "n1"}}]}')

    signalfx.answer = answer
    reading = source(signalfx).read()
    assert reading.loads["n1"].cpu_average == 2
    assert math.isnan(reading.loads["n1"].memory_average)
    assert "HTTP 500" in reading.problems[0]


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"data": []}'])
def test_an_answer_of_another_shape_is_an_error(signalfx: FakeService, body: bytes) -> None:
    signalfx.answer = lambda handler: send(handler, body)
    with pytest.raises(LoadError):
        source(signalfx).read()


def test_a_refused_token_is_named_but_not_shown(signalfx: FakeService) -> None:
    signalfx.json({}, 401)
    with pytest.raises(LoadError, match="HTTP 401") as caught:
        source(signalfx).read()
    assert "PWNED" not in str(caught.value)


def test_without_a_token_the_process_goes_on_and_the_status_says_so(signalfx: FakeService) -> None:
    with pytest.raises(LoadError, match="it needs a token"):
        source(signalfx, token=None).read()
    assert signalfx.paths == []


def test_filters_come_from_load_watchers_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALFX_HOST_NAME_SUFFIX", ".dev.com")
    monkeypatch.setenv("SIGNALFX_CLUSTER_NAME", "east")
    args = TargetLoadPackingArgs.model_validate({"metricProvider": {"type": "SignalFx"}})
    settings = load_settings(args, LoadOptions.model_validate({"tokenFile": "/run/token"}))
    assert (settings.address, settings.host_suffix, settings.cluster) == (
        "https://api.signalfx.com",
        ".dev.com",
        "east",
    )
    assert settings.token_file == Path("/run/token")
    assert load_source(args.source_key(), settings, None).describe() == "SignalFx https://api.signalfx.com"
