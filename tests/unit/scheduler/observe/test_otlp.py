"""Traces as OpenTelemetry's spans: with its exporter in memory, and with the real one on a fake connection."""

from __future__ import annotations

import gzip
import io
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from urllib3 import HTTPResponse

from scheduler.observe.otlp import ExportSession, OtlpSender, new_sender, own_resource
from scheduler.observe.spans import Span, SpanEvent, Trace

SECRET = "s3cret"
TRACE = Trace(
    trace_id=7,
    clock=100.0,
    wall=1_700_000_000_000_000_000,
    spans=[
        Span("SchedulingAttempt", 100.0, 101.5, {"k8s.pod.name": "p", "attempt": 2, "rejected_by": ["A", "B"]}),
        Span("BindingCycle", 100.5, 101.5, {"text": "\ud800 \x1b[2J"}, [SpanEvent("PreBind", 101.0)], "it failed"),
    ],
)


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    """The library's logger as it was before."""
    library = logging.getLogger("opentelemetry")
    level = library.level
    yield
    library.setLevel(level)


def exported(*traces: Trace) -> tuple[ReadableSpan, ...]:
    exporter = InMemorySpanExporter()
    assert OtlpSender(exporter, own_resource()).send(traces) == ""
    return exporter.get_finished_spans()


def test_children_name_the_root_and_times_are_those_of_the_wall_clock() -> None:
    root, child = exported(TRACE)
    assert root.context is not None
    assert child.context is not None
    assert root.context.trace_id == child.context.trace_id == 7
    assert root.parent is None
    assert child.parent is not None
    assert child.parent.span_id == root.context.span_id != child.context.span_id
    assert (root.start_time, root.end_time) == (TRACE.wall, TRACE.wall + 1_500_000_000)
    assert (child.start_time, child.end_time) == (TRACE.wall + 500_000_000, TRACE.wall + 1_500_000_000)
    assert [(event.name, event.timestamp) for event in child.events] == [("PreBind", TRACE.wall + 1_000_000_000)]
    assert root.attributes == {"k8s.pod.name": "p", "attempt": 2, "rejected_by": ["A", "B"]}
    assert (root.status.status_code, child.status.status_code) == (StatusCode.UNSET, StatusCode.ERROR)
    assert child.status.description == "it failed"


def test_the_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_resource().attributes["service.name"] == "secondary-scheduler"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=prod")
    attributes = own_resource().attributes
    assert (attributes["service.name"], attributes["k8s.cluster.name"]) == ("mine", "prod")


def test_an_exporter_that_fails_is_a_problem() -> None:
    class Failing(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            return SpanExportResult.FAILURE

    assert OtlpSender(Failing(), own_resource()).send([TRACE]) == "the exporter failed"


class Collector:
    """What answers in place of a connection."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, status: int = 200, error: Exception | None = None) -> None:
        self.bodies: list[Any] = []
        self.headers: list[Any] = []
        self._status, self._error = status, error
        self.answer, self.encoding = b"x" * 200_000, "identity"
        monkeypatch.setattr(requests.adapters.HTTPAdapter, "send", self._send)

    def _send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:
        if self._error is not None:
            raise self._error
        self.bodies.append(request.body)
        self.headers.append(request.headers)
        response = requests.Response()
        response.status_code, response.reason = self._status, SECRET
        response.headers["Location"] = "http://elsewhere.example/"
        response.raw = HTTPResponse(
            io.BytesIO(self.answer), headers={"Content-Encoding": self.encoding}, preload_content=False
        )
        response.request = request
        return response


@pytest.fixture
def sender(monkeypatch: pytest.MonkeyPatch) -> OtlpSender:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://u:{SECRET}@collector.example?key={SECRET}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api-key={SECRET},{SECRET}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    return new_sender()


def test_the_headers_of_the_environment_are_sent(sender: OtlpSender, monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector(monkeypatch)
    assert sender.send([TRACE]) == ""
    assert collector.headers[0]["api-key"] == SECRET
    assert b"SchedulingAttempt" in collector.bodies[0]
    assert b"\x1b[2J" in collector.bodies[0], "text with a lone surrogate is sent all the same"


@pytest.mark.parametrize(("size", "kept"), [(64 << 10, 64 << 10), ((64 << 10) + 1, 0)])
def test_an_answer_is_kept_as_a_whole_or_not_at_all(monkeypatch: pytest.MonkeyPatch, size: int, kept: int) -> None:
    Collector(monkeypatch).answer = b"x" * size
    with ExportSession() as session:
        assert len(session.post("http://collector.example").content) == kept


def test_an_answer_is_not_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    collector = Collector(monkeypatch)
    collector.answer, collector.encoding = gzip.compress(b"x" * 1_000_000), "gzip"
    with ExportSession() as session:
        assert session.post("http://collector.example").content == collector.answer


@pytest.mark.parametrize("status", [300, 302, 401, 404, 503])
def test_other_answers_are_problems_and_redirects_are_not_followed(
    sender: OtlpSender, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    collector = Collector(monkeypatch, status)
    assert sender.send([TRACE]) == f"HTTP {status}"
    assert {headers["api-key"] for headers in collector.headers} == {SECRET}
    assert SECRET not in caplog.text


@pytest.mark.parametrize("error", [requests.ConnectionError(SECRET), requests.exceptions.InvalidHeader(SECRET)])
def test_a_collector_that_cannot_be_reached_is_told_without_addresses_and_headers(
    sender: OtlpSender, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    Collector(monkeypatch, error=error)
    assert sender.send([TRACE]) == type(error).__name__
    assert SECRET not in caplog.text


def test_the_library_would_log_headers_if_it_were_not_silenced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"a=b,{SECRET}")
    OTLPSpanExporter(session=ExportSession())
    assert SECRET in caplog.text
    caplog.clear()
    new_sender()
    assert SECRET not in caplog.text
