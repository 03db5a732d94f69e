"""Whether attempts are traced, and what becomes of spans that cannot be sent."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest
from structlog.testing import capture_logs

from scheduler.observe.spans import QueueLimits, Span, SpanOutcome, SpanQueue, SpanSender, Trace
from scheduler.observe.tracing import Tracing, TracingRefused, new_tracing
from tests.support.waiting import eventually

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
ADDRESS = "http://user:s3cret@collector.example:4318/base?api-key=s3cret"


class Sender:
    """Remembers what is sent; `problems` are its next answers, and `gate` holds it back."""

    def __init__(self) -> None:
        self.sent: list[Trace] = []
        self.problems: list[str | Exception] = []
        self.gate = threading.Event()
        self.gate.set()
        self.arrived = threading.Event()
        self.closed = False

    def send(self, traces: Sequence[Trace]) -> str:
        self.arrived.set()
        assert self.gate.wait(60)
        problem = self.problems.pop(0) if self.problems else ""
        if isinstance(problem, Exception):
            raise problem
        if not problem:
            self.sent += traces
        return problem

    def close(self) -> None:
        self.closed = True


class Counts(Counter[str]):
    """Spans by what became of them."""

    def add(self, outcome: SpanOutcome, count: int) -> None:
        self[outcome] += count


@pytest.fixture
def sender() -> Iterator[Sender]:
    sender = Sender()
    yield sender
    sender.gate.set()


def trace(number: int, spans: int = 1) -> Trace:
    return Trace(number, 0.0, 0, [Span("SchedulingAttempt", 0.0, 1.0, {})] * spans)


def asked(environment: Mapping[str, str], sender: SpanSender | None = None) -> Tracing | None:
    return new_tracing(environment, Counts().add, lambda: sender or Sender())


def on(**environment: str) -> Tracing:
    tracing = asked({ENDPOINT: ADDRESS, **environment})
    assert tracing is not None
    return tracing


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {ENDPOINT: ""},
        {ENDPOINT: ADDRESS, "OTEL_SDK_DISABLED": "true"},
        {ENDPOINT: ADDRESS, "OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_SAMPLER": "always_on", "OTEL_SERVICE_NAME": "x"},
    ],
)
def test_nothing_is_traced_unless_a_collector_is_named(environment: dict[str, str]) -> None:
    assert asked(environment) is None


def test_what_is_shown_of_the_endpoint_is_no_credential() -> None:
    assert on().endpoint == "http://collector.example:4318"
    assert (
        on(OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="https://[2001:db8::1]:443/v1/traces").endpoint
        == "https://[2001:db8::1]:443"
    )


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({ENDPOINT: "s3cret-collector:4317"}, f"{ENDPOINT}: not an address such as http://collector.monitoring:4318"),
        ({ENDPOINT: "http://[s3cret"}, f"{ENDPOINT}: not an address such as http://collector.monitoring:4318"),
        ({ENDPOINT: "http://s3cret:port"}, f"{ENDPOINT}: not an address such as http://collector.monitoring:4318"),
        (
            {ENDPOINT: ADDRESS, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL: only http/protobuf is supported; "
            "set it, and the port where the collector takes HTTP (4318)",
        ),
    ],
)
def test_an_endpoint_that_cannot_be_used_is_told_in_one_line_without_its_value(
    environment: dict[str, str], expected: str
) -> None:
    with pytest.raises(TracingRefused) as refused:
        asked(environment)
    assert str(refused.value) == expected


def test_a_missing_extra_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "opentelemetry"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(TracingRefused) as refused:
        new_tracing({ENDPOINT: ADDRESS}, Counts().add)
    assert str(refused.value) == (
        f"{ENDPOINT} is set, but the Python package 'opentelemetry-exporter-otlp-proto-http' is not installed; it "
        "comes with the extra 'tracing': pip install 'secondary-scheduler[tracing]'"
    )


@pytest.mark.parametrize(
    ("environment", "ratio", "remark"),
    [
        ({}, 1.0, ""),
        ({"OTEL_TRACES_SAMPLER": "parentbased_always_on"}, 1.0, ""),
        ({"OTEL_TRACES_SAMPLER": "always_off"}, 0.0, ""),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, 0.25, ""),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"}, 1.0, "OTEL_TRACES_SAMPLER_ARG"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}, 1.0, "OTEL_TRACES_SAMPLER_ARG"),
        ({"OTEL_TRACES_SAMPLER": "jaeger_remote"}, 1.0, "OTEL_TRACES_SAMPLER: only"),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "-1"}, 1.0, "OTEL_BSP_MAX_QUEUE_SIZE: not a number from 1 to 100000"),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "api-key=x, a=b%20c,"}, 1.0, ""),
        ({"OTEL_EXPORTER_OTLP_HEADERS": "a=b,s3cret"}, 1.0, "OTEL_EXPORTER_OTLP_HEADERS: an entry is not NAME=VALUE"),
    ],
)
def test_samplers_sizes_and_headers_that_are_not_understood_are_told_and_replaced(
    environment: dict[str, str], ratio: float, remark: str
) -> None:
    tracing = on(**environment)
    assert tracing.ratio == ratio
    assert [line.startswith(remark) for line in tracing.remarks] == [True] * bool(remark)
    assert "s3cret" not in str(tracing.remarks)


def test_the_ratio_is_the_share_of_attempts_that_are_traced() -> None:
    tracing = on(OTEL_TRACES_SAMPLER="traceidratio", OTEL_TRACES_SAMPLER_ARG="0.25")
    sampled = sum(tracing.sample() is not None for _ in range(20_000))
    assert 4_500 < sampled < 5_500
    assert len({on().sample() for _ in range(100)}) == 100
    assert on(OTEL_TRACES_SAMPLER="always_off").sample() is None


def test_a_full_queue_drops_what_comes_last_and_counts_it_without_waiting(sender: Sender) -> None:
    counts = Counts()
    queue = SpanQueue(lambda: sender, QueueLimits(spans=10, batch=4, delay=3600), counts.add)
    sender.gate.clear()
    queue.start()
    for number in range(2):
        queue.offer(trace(number, spans=2))
    assert sender.arrived.wait(60)
    for number in range(2, 10):
        queue.offer(trace(number, spans=3))
    assert counts == {"queue_full": 5 * 3}
    sender.gate.set()
    queue.close(60)
    assert [sent.trace_id for sent in sender.sent] == [0, 1, 2, 3, 4]
    assert counts == {"queue_full": 15, "exported": 4 + 9}
    assert sender.closed


def test_failures_are_counted_and_told_once_until_spans_are_exported_again(sender: Sender) -> None:
    counts = Counts()
    sender.problems = ["HTTP 503", ValueError("s3cret"), "ConnectionError"]
    queue = SpanQueue(lambda: sender, QueueLimits(spans=100, batch=1, delay=3600), counts.add)
    with capture_logs() as lines:
        queue.start()
        for number in range(4):
            queue.offer(trace(number))
        eventually(lambda: counts.total() == 4, "all were tried")
        queue.close(60)
    assert counts == {"export_failed": 3, "exported": 1}
    assert [(line["log_level"], line.get("reason")) for line in lines] == [("warning", "HTTP 503"), ("info", None)]


def test_a_sender_that_cannot_be_made_costs_spans_and_nothing_else() -> None:
    counts = Counts()

    def fail() -> SpanSender:
        raise ModuleNotFoundError("s3cret")

    queue = SpanQueue(fail, QueueLimits(spans=100, batch=1, delay=3600), counts.add)
    with capture_logs() as lines:
        queue.start()
        queue.offer(trace(1))
        eventually(lambda: counts["export_failed"] == 1, "it was tried")
        queue.close(60)
    assert [line["reason"] for line in lines] == ["ModuleNotFoundError"]


def test_what_waits_is_sent_at_the_end_but_for_no_longer_than_allowed(sender: Sender) -> None:
    counts = Counts()
    queue = SpanQueue(lambda: sender, QueueLimits(spans=100, batch=50, delay=3600), counts.add)
    queue.start()
    queue.offer(trace(1))
    queue.close(60)
    assert counts == {"exported": 1}
    stuck = Sender()
    stuck.gate.clear()
    queue = SpanQueue(lambda: stuck, QueueLimits(spans=100, batch=50, delay=3600), counts.add)
    queue.start()
    queue.offer(trace(2))
    queue.close(0.05)
    assert stuck.closed
    stuck.gate.set()
