"""WatcherSource against a fake load-watcher, and what its JSON may look like."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import ssl
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from devcluster.pki import CertificateAuthority
from scheduler.catalog import LoadOptions, PeaksArgs, TargetLoadPackingArgs
from scheduler.framework import NodeLoad
from scheduler.load import LoadError, LoadSettings, WatcherSource, load_settings, load_source, parse_watcher
from scheduler.load.figures import Metric, is_usable, load_of_metrics
from tests.unit.scheduler.load.fakes import FakeService, send, service
from tests.unit.scheduler.plugins.vectors import cases


@pytest.fixture
def watcher() -> Iterator[FakeService]:
    with service() as fake:
        yield fake


def source(watcher: FakeService, nodes: int | None = None, **settings: Any) -> WatcherSource:
    object_count = None if nodes is None else lambda: nodes
    return WatcherSource(LoadSettings(address=watcher.url, timeout_seconds=0.5, **settings), object_count=object_count)


def metric(kind: str, operator: str, value: Any) -> dict[str, Any]:
    return {"name": "n", "type": kind, "operator": operator, "rollup": "15m", "value": value}


def answer(*metrics: dict[str, Any], timestamp: float = 1000, end: float = 990) -> dict[str, Any]:
    return {
        "timestamp": timestamp,
        "window": {"duration": "15m", "start": end - 900, "end": end},
        "source": "Prometheus",
        "data": {"NodeMetricsMap": {"n1": {"metrics": list(metrics), "tags": {}, "metadata": {"dataCenter": ""}}}},
    }


def parsed(*metrics: dict[str, Any]) -> NodeLoad:
    return parse_watcher(json.dumps(answer(*metrics)).encode(), "w").loads["n1"]


def test_one_request_gives_all_figures_with_the_answers_own_times(watcher: FakeService) -> None:
    figures = (("CPU", "AVG", 10), ("CPU", "STD", 2.5), ("Memory", "AVG", 30), ("Memory", "STD", 4))
    watcher.json(answer(*(metric(*figure) for figure in figures)))
    reading = source(watcher).read()
    assert watcher.paths == ["/watcher"]
    load = reading.loads["n1"]
    assert (load.cpu_average, load.cpu_stddev, load.memory_average, load.memory_stddev) == (10, 2.5, 30, 4)
    assert (load.measured_at, reading.window_end) == (1000, 990)


def test_an_answer_of_no_named_type_is_read(watcher: FakeService) -> None:
    # What a handler in Go says that sets no header, as the load-watcher of upstream's own tests.
    body = json.dumps(answer(metric("CPU", "AVG", 10))).encode()
    watcher.answer = lambda handler: send(handler, body, content_type="text/plain; charset=utf-8")
    assert source(watcher).read().loads["n1"].cpu_average == 10


@pytest.mark.parametrize(
    ("metrics", "average", "first", "last"),
    [
        ([("CPU", "AVG", 1), ("CPU", "Latest", 2)], 1, 1, 2),
        ([("CPU", "Latest", 2), ("CPU", "AVG", 1)], 1, 2, 1),
        ([("CPU", "", 3), ("CPU", "Latest", 2)], 2, 2, 2),
        ([("CPU", "", 3)], 3, math.nan, math.nan),
        ([("CPU", "AVG", 1), ("CPU", "AVG", 5), ("cpu", "AVG", 9)], 5, 1, 5),
    ],
)
def test_of_several_averages_each_plugin_gets_the_one_it_reads_upstream(
    metrics: list[tuple[str, str, float]], average: float, first: float, last: float
) -> None:
    load = parsed(*(metric(*entry) for entry in metrics))
    assert (load.cpu_average, load.cpu_first, load.cpu_last) == pytest.approx((average, first, last), nan_ok=True)


@pytest.mark.parametrize("operator", ["STD", "P99"])
def test_a_type_without_average_is_listed_but_has_none(operator: str) -> None:
    load = parsed(metric("CPU", operator, 7))
    assert math.isnan(load.cpu_average)
    assert load.cpu_stddev == (7 if operator == "STD" else 0)
    assert math.isnan(load.memory_stddev)


@pytest.mark.parametrize("case", [*cases("trimaran_shared.json", "collector_metrics")])
def test_upstreams_collector_answer_is_read_whole(case: dict[str, Any], watcher: FakeService) -> None:
    watcher.json(case["watcher_response"])
    load = source(watcher).read().loads["node-1"]
    assert (load.cpu_average, load.cpu_stddev, load.memory_average, load.memory_stddev) == (80, 16, 25, 6.25)
    assert math.isnan(load.measured_at), "a timestamp of 0 says nothing"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1, 1e6])
def test_a_value_that_is_no_load_is_missing_and_counted_and_the_others_stand(
    watcher: FakeService, value: float
) -> None:
    watcher.json(answer(metric("CPU", "AVG", value), metric("Memory", "AVG", 5)))
    reading = source(watcher).read()
    assert math.isnan(reading.loads["n1"].cpu_average)
    assert reading.loads["n1"].memory_average == 5
    assert reading.rejected == {"watcher": 1}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data": None},
        {"data": {}},
        {"data": {"NodeMetricsMap": None}},
        {"data": {"nodemetricsmap": {"n1": {"metrics": [metric("CPU", "AVG", 1)]}}}},
        {"data": {"NodeMetricsMap": {"n1": None, "n2": {}, "n3": {"metrics": None}, "n4": {"metrics": []}}}},
        {"unknown": [1], "window": None, "timestamp": None, "data": {"NodeMetricsMap": {}}},
    ],
)
def test_absent_fields_are_neither_an_error_nor_a_load(body: dict[str, Any]) -> None:
    reading = parse_watcher(json.dumps(body).encode(), "w", now=7.0)
    assert (reading.loads, reading.window_end) == ({}, 7.0)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("97.66948968016497", 9766948968016497.0 / 1e14),
        ("97.66948968016497321", 97.66948968016497321),
        ("0.5", 0.5),
        ("1e-4", 1e-4),
        ("12.5e1", 125.0),
        ("7", 7.0),
    ],
)
def test_decimals_are_read_as_upstreams_reader_reads_them(text: str, value: float) -> None:
    body = json.dumps(answer(metric("CPU", "AVG", 1))).replace('"value": 1', f'"value": {text}').encode()
    assert parse_watcher(body, "w").loads["n1"].cpu_average == value


def test_null_is_zero_as_for_upstreams_reader() -> None:
    assert parsed(metric("CPU", "AVG", None)).cpu_average == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not JSON"),
        (b"<html>log in</html>", "not JSON"),
        (b"[" * 100_000, "more than 65536 bytes beside its samples"),
        (b"[" * 60_000, "Expected `object`, got `array`"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"timestamp": "1"}', "Expected `float | null`, got `str` - at `$.timestamp`"),
        (b'{"timestamp": 1e999}', "Number out of range - at `$.timestamp`"),
        (b'{"window": {"end": "1"}}', "got `str` - at `$.window.end`"),
        (b'{"window": {"start": "1"}}', "got `str` - at `$.window.start`"),
        (b'{"data": {"NodeMetricsMap": []}}', "Expected `object | null`, got `array` - at `$.data.NodeMetricsMap`"),
    ],
)
def test_an_answer_of_another_shape_says_where(watcher: FakeService, body: bytes, reason: str) -> None:
    watcher.answer = lambda handler: send(handler, body)
    with pytest.raises(LoadError) as caught:
        source(watcher).read()
    assert reason in str(caught.value)
    assert watcher.url in str(caught.value)
    assert len(str(caught.value)) < 400


GOOD = b'{"type":"Memory","operator":"AVG","value":5}'


@pytest.mark.parametrize(
    "wrong",
    [
        b"7",
        b'"CPU"',
        b"[]",
        b'{"type":1,"value":1}',
        b'{"operator":[],"value":1}',
        b'{"type":"CPU","operator":"AVG","value":"1"}',
        b'{"type":"CPU","operator":"AVG","value":true}',
        b'{"type":"CPU","operator":"AVG","value":[]}',
        b'{"type":"CPU","operator":"AVG","value":NaN}',
        b'{"type":"CPU","operator":"AVG","value":+Inf}',
        b'{"type":"CPU","operator":"AVG","value":1_0}',
        b'{"type":"CPU","operator":"AVG","value":1e999}',
        b'{"type":"CPU","operator":"AVG","value":' + b"9" * 5000 + b"}",
        rb'{"type":"\ud800","operator":"AVG","value":1}',
        b"[" * 20_000 + b"]" * 20_000,
        b'"' + b"x" * 70_000 + b'"',
    ],
)
@pytest.mark.usefixtures("no_collection")
def test_a_metric_of_another_form_costs_that_metric(wrong: bytes) -> None:
    metrics = b"[" + wrong + b"," + GOOD + b"]"
    body = b'{"timestamp":1,"data":{"NodeMetricsMap":{"n1":{"metrics":' + metrics + b"}}}}"
    reading = parse_watcher(body, "w")
    if len(wrong) > 65_536:
        assert (reading.loads, reading.rejected) == ({}, {"watcher": 1}), "it makes its node too large"
        return
    assert (reading.loads["n1"].memory_average, reading.rejected) == (5, {"watcher": 1})
    assert math.isnan(reading.loads["n1"].cpu_average)
    assert reading.reasons["watcher"]


@pytest.mark.parametrize(
    "wrong", [b'"n1":7', b'"n1":[]', b'"n1":{"metrics":{}}', b'"n1":{"metrics":5}', rb'"\ud800":{"metrics":[]}']
)
def test_a_node_of_another_form_costs_that_node(wrong: bytes) -> None:
    body = b'{"data":{"NodeMetricsMap":{' + wrong + b',"n2":{"metrics":[' + GOOD + b"]}}}}"
    reading = parse_watcher(body, "w")
    assert (set(reading.loads), reading.rejected) == ({"n2"}, {"watcher": 1})


NUMBERS = st.one_of(
    st.integers(-5, 200),
    st.floats(-1, 200),
    st.sampled_from([1e5, 1e300, 10**17, 10**30, 0.1, 33.333333333333336, 12.345678901234567]),
)
TYPES = st.sampled_from(["CPU", "Memory", "", None])
OPERATORS = st.sampled_from(["AVG", "STD", "Latest", "", None])
METRICS = st.fixed_dictionaries(
    {}, optional={"type": TYPES, "operator": OPERATORS, "value": NUMBERS, "name": st.text(), "more": st.none()}
)
NODES = st.fixed_dictionaries(
    {}, optional={"metrics": st.one_of(st.none(), st.lists(st.one_of(st.none(), METRICS))), "tags": st.just({})}
)


@given(
    st.dictionaries(st.text(max_size=4), st.one_of(st.none(), NODES)), st.integers(0, 2**40), st.sampled_from([None, 2])
)
def test_what_is_in_order_is_read_as_plain_json(nodes: dict[str, Any], timestamp: int, indent: int | None) -> None:
    document = {"timestamp": timestamp, "window": {"end": 9}, "data": {"NodeMetricsMap": nodes}, "source": "x"}
    reading = parse_watcher(json.dumps(document, indent=indent).encode(), "w")
    expected = {}
    for name, node in nodes.items():
        entries = [entry or {} for entry in ((node or {}).get("metrics") or [])]
        metrics = [
            Metric(entry.get("type") or "", entry.get("operator") or "", float(entry.get("value", 0)))
            for entry in entries
        ]
        usable = [metric for metric in metrics if is_usable(metric.value)]
        if usable:
            expected[name] = load_of_metrics(usable, float(timestamp) or math.nan)
    shown = [{name: f"{load}" for name, load in loads.items()} for loads in (reading.loads, expected)]
    assert shown[0] == shown[1] or all(_nearly(reading.loads[name], load) for name, load in expected.items())


def _nearly(load: NodeLoad, expected: NodeLoad) -> bool:
    """Upstream's reader of numbers may be one unit off in the last place."""
    pairs = zip(msgspec.structs.astuple(load), msgspec.structs.astuple(expected), strict=True)
    return all(left is right or left == pytest.approx(right, rel=1e-15, nan_ok=True) for left, right in pairs)


@pytest.mark.parametrize("status", [404, 500, 503])
def test_a_watcher_without_metrics_is_an_error_that_says_so(watcher: FakeService, status: int) -> None:
    watcher.json({}, status)
    with pytest.raises(LoadError, match=f"HTTP {status}"):
        source(watcher).read()


def test_a_huge_answer_is_cut_off(watcher: FakeService) -> None:
    watcher.answer = lambda handler: send(handler, b" " * 300_000)
    with pytest.raises(LoadError, match="larger than 264192 bytes"):
        source(watcher, nodes=1).read()


def test_a_small_answer_that_unpacks_to_a_huge_one_is_cut_off(watcher: FakeService) -> None:
    packed = gzip.compress(b" " * 5_000_000)

    def bomb(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Encoding", "gzip")
        handler.send_header("Content-Length", str(len(packed)))
        handler.end_headers()
        handler.wfile.write(packed)

    watcher.answer = bomb
    with pytest.raises(LoadError, match="larger than 264192 bytes"):
        source(watcher, nodes=1).read()


def test_an_answer_that_breaks_off_is_an_error(watcher: FakeService) -> None:
    def broken(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "2000")
        handler.end_headers()
        handler.wfile.write(b"{}")

    watcher.answer = broken
    with pytest.raises(LoadError, match="broke off"):
        source(watcher).read()


def test_a_slow_answer_ends_at_the_deadline(watcher: FakeService) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "2000")
        handler.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(2000):
                handler.wfile.write(b" ")
                time.sleep(0.05)

    watcher.answer = drip
    began = time.monotonic()
    with pytest.raises(LoadError):
        source(watcher).read()
    assert time.monotonic() - began < 50, "the whole answer takes 100 s"


def test_a_redirect_is_not_followed(watcher: FakeService) -> None:
    def away(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(302)
        handler.send_header("Location", "http://127.0.0.1:1/watcher")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    watcher.answer = away
    with pytest.raises(LoadError, match="redirected"):
        source(watcher).read()


def test_a_certificate_of_another_ca_is_refused_and_the_right_one_accepted(tmp_path: Path) -> None:
    right, wrong = CertificateAuthority("right"), CertificateAuthority("wrong")
    own = right.server("watcher", [], ["127.0.0.1"])
    files = {name: tmp_path / name for name in ("tls.crt", "tls.key", "right.crt", "wrong.crt")}
    contents = (own.certificate, own.key, right.pair.certificate, wrong.pair.certificate)
    for path, data in zip(files.values(), contents, strict=True):
        path.write_bytes(data)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["tls.crt"], files["tls.key"])
    with service(context) as fake:
        fake.json(answer(metric("CPU", "AVG", 1)))
        assert source(fake, ca_file=files["right.crt"]).read().loads["n1"].cpu_average == 1
        with pytest.raises(LoadError, match="TLS verification failed"):
            source(fake, ca_file=files["wrong.crt"]).read()


def test_peaks_and_the_others_name_the_same_watcher_by_the_same_key() -> None:
    packing = TargetLoadPackingArgs.model_validate({"watcherAddress": "http://w:2020/"})
    peaks = PeaksArgs.model_validate({"WatcherAddress": "http://w:2020"})
    assert packing.source_key() == peaks.source_key() == "watcher:http://w:2020"
    settings = load_settings(peaks, LoadOptions())
    assert settings == load_settings(packing, LoadOptions())
    assert load_source(peaks.source_key(), settings, None).describe() == "load-watcher http://w:2020"


def test_a_token_goes_to_a_watcher_over_tls_only() -> None:
    options = LoadOptions.model_validate({"tokenFile": "/run/token"})
    plain = PeaksArgs.model_validate({"WatcherAddress": "http://w:2020"})
    secure = PeaksArgs.model_validate({"WatcherAddress": "https://w:2020"})
    assert load_settings(plain, options).token_file is None
    assert load_settings(secure, options).token_file == Path("/run/token")
