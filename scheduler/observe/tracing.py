"""Whether attempts are traced, and how: by the environment variables that OpenTelemetry defines for every program.

Off unless they name a collector: programs of OpenTelemetry would else send to localhost. What they say wrongly is told
in one line and never ends the scheduler, as OpenTelemetry demands. OpenTelemetry itself is imported by the thread that
sends, before its first send (`scheduler.observe.otlp`).
"""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from scheduler.observe.spans import QueueLimits, SpanOutcome, SpanQueue, SpanSender

_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
_TRACES_ENDPOINT: Final = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_HEADERS: Final = ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS")
_PROTOCOL: Final = "http/protobuf"
_EXPORTER_MODULE: Final = "opentelemetry.exporter.otlp.proto.http"
_MAX_SPANS_WAITING: Final = 100_000
_TRACE_ID_BITS: Final = 128
_RATIO_BITS: Final = 64
"""As OpenTelemetry's TraceIdRatioBased, which compares the lower half of the ID."""


class Tracing(NamedTuple):
    """Tracing that is on.

    Attributes:
        endpoint: scheme, host and port of the collector; no path, and no credential.
        ratio: share of the attempts that are traced.
        queue: takes the traces.
        remarks: what the environment says wrongly and what is done instead, a line each.
    """

    endpoint: str
    ratio: float
    queue: SpanQueue
    remarks: tuple[str, ...]

    def sample(self) -> int | None:
        """Return the ID of a new trace, or None where this attempt is not traced."""
        trace_id = random.getrandbits(_TRACE_ID_BITS) or 1
        return trace_id if trace_id % (1 << _RATIO_BITS) < self.ratio * (1 << _RATIO_BITS) else None


class TracingRefused(ValueError):
    """Tracing is asked for and not possible; the text says why and what to do, in one line."""


def new_tracing(
    environment: Mapping[str, str],
    count: Callable[[SpanOutcome, int], None],
    new_sender: Callable[[], SpanSender] | None = None,
) -> Tracing | None:
    """Return what the environment asks for, or None where it asks for nothing. Nothing is sent yet.

    Args:
        environment: that of the process, which OpenTelemetry reads again when the first spans are sent.
        count: counts spans by what became of them.
        new_sender: makes what sends; None for OTLP over HTTP.

    Raises:
        TracingRefused: the endpoint cannot be used, or the extra is not installed.
    """
    name = next((name for name in (_TRACES_ENDPOINT, _ENDPOINT) if environment.get(name)), None)
    if name is None or _is_off(environment):
        return None
    endpoint = _checked(name, environment[name])
    _check_protocol(environment)
    if new_sender is None:
        if not _is_installed():
            raise TracingRefused(
                f"{name} is set, but the Python package 'opentelemetry-exporter-otlp-proto-http' is not installed; it "
                "comes with the extra 'tracing': pip install 'secondary-scheduler[tracing]'"
            )
        new_sender = _new_otlp_sender
    remarks: list[str] = []
    queue = SpanQueue(new_sender, _limits(environment, remarks), count)
    ratio = _ratio(environment, remarks)
    return Tracing(endpoint, ratio, queue, (*remarks, *_header_remarks(environment)))


def _is_off(environment: Mapping[str, str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return True
    exporters = environment.get("OTEL_TRACES_EXPORTER", "").strip().lower()
    return bool(exporters) and "otlp" not in exporters.split(",")


def _is_installed() -> bool:
    try:
        return importlib.util.find_spec(_EXPORTER_MODULE) is not None
    except ModuleNotFoundError:
        return False


def _new_otlp_sender() -> SpanSender:
    from scheduler.observe.otlp import new_sender

    return new_sender()


def _checked(name: str, address: str) -> str:
    """Return scheme, host and port of an endpoint: what else it has may be a credential, and is shown nowhere."""
    try:
        parts = urlsplit(address.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.scheme not in ("http", "https"):
        raise TracingRefused(f"{name}: not an address such as http://collector.monitoring:4318")
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}{'' if port is None else f':{port}'}"


def _check_protocol(environment: Mapping[str, str]) -> None:
    name = next((name for name in _PROTOCOLS if environment.get(name)), None)
    if name is not None and environment[name].strip().lower() != _PROTOCOL:
        raise TracingRefused(
            f"{name}: only {_PROTOCOL} is supported; set it, and the port where the collector takes HTTP (4318)"
        )


def _ratio(environment: Mapping[str, str], remarks: list[str]) -> float:
    """The share of attempts that the sampler takes. An attempt has no parent, so `parentbased_` changes nothing."""
    sampler = environment.get("OTEL_TRACES_SAMPLER", "").strip().lower().removeprefix("parentbased_") or "always_on"
    if sampler == "always_off":
        return 0.0
    if sampler == "traceidratio":
        try:
            ratio = float(environment.get("OTEL_TRACES_SAMPLER_ARG", "") or 1.0)
        except ValueError:
            ratio = -1.0
        if 0 <= ratio <= 1:
            return ratio
        remarks.append("OTEL_TRACES_SAMPLER_ARG: not a number from 0 to 1: every attempt is traced")
    elif sampler != "always_on":
        remarks.append("OTEL_TRACES_SAMPLER: only always_on, always_off and traceidratio are known: all are traced")
    return 1.0


def _limits(environment: Mapping[str, str], remarks: list[str]) -> QueueLimits:
    usual = QueueLimits()

    def number(name: str, default: int, limit: int) -> int:
        text = environment.get(name, "").strip()
        if not text:
            return default
        if text.isascii() and text.isdigit() and 1 <= int(text[:12]) <= limit:
            return int(text)
        remarks.append(f"{name}: not a number from 1 to {limit}: {default} is used")
        return default

    spans = number("OTEL_BSP_MAX_QUEUE_SIZE", usual.spans, _MAX_SPANS_WAITING)
    batch = number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", min(usual.batch, spans), spans)
    delay = number("OTEL_BSP_SCHEDULE_DELAY", int(usual.delay * 1000), 3_600_000)
    return QueueLimits(spans, batch, delay / 1000)


def _header_remarks(environment: Mapping[str, str]) -> Iterator[str]:
    """OpenTelemetry logs headers that it cannot read, with their values: it is silenced, so they are told here."""
    name = next((name for name in _HEADERS if environment.get(name)), None)
    entries = environment[name].split(",") if name is not None else []
    if not all(_is_header(entry) for entry in entries if entry.strip()):
        yield f"{name}: an entry is not NAME=VALUE, and is left out; write a comma between two, and values URL-encoded"


def _is_header(entry: str) -> bool:
    name, equals, _ = entry.partition("=")
    return bool(name.strip() and equals)
