"""Traces as OTLP over HTTP, by OpenTelemetry's own exporter. Imported by the thread that sends, and only where tracing
is on: the packages come with the extra `tracing`."""

from __future__ import annotations

import logging
import random
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from scheduler import __version__
from scheduler.observe.spans import AttributeValue, Span, Trace

_MAX_ANSWER: Final = 64 << 10
_SPAN_ID_BITS: Final = 64
_NANOSECONDS: Final = 1e9
_YIELD_AFTER: Final = 16
"""Spans that are made in one go, before the scheduling loop may have the interpreter."""


class ExportSession(requests.Session):
    """A session that follows no redirect, reads little, and knows how the last request ended.

    Attributes:
        problem: of the last request, without anything of its address or headers; "" where it was answered with 2xx.
    """

    def __init__(self) -> None:
        super().__init__()
        # A proxy or .netrc of the environment would see the credential.
        self.trust_env = False
        self.problem = ""

    def request(self, method: str | bytes, url: str | bytes, **kwargs: Any) -> requests.Response:  # type: ignore[override]
        """Send one request.

        Raises:
            requests.RequestException: it could not be sent, or was not answered in time.
        """
        kwargs.update(stream=True, allow_redirects=False)
        try:
            response = super().request(method, url, **kwargs)
            with response:
                # What a collector says is not needed; what is short is read, so that the connection can be used again.
                content = response.raw.read(_MAX_ANSWER + 1, decode_content=False)
                response._content = content if len(content) <= _MAX_ANSWER else b""
        except Exception as error:
            self.problem = type(error).__name__
            raise
        self.problem = "" if 200 <= response.status_code < 300 else f"HTTP {response.status_code}"
        return response


class OtlpSender:
    """Sends traces with an exporter (`scheduler.observe.spans.SpanSender`).

    Args:
        exporter: of OpenTelemetry.
        resource: whose spans they are.
        session: that the exporter uses, to know why it failed.
    """

    def __init__(self, exporter: SpanExporter, resource: Resource, session: ExportSession | None = None) -> None:
        self._exporter, self._resource, self._session = exporter, resource, session
        self._scope = InstrumentationScope("secondary-scheduler", __version__)

    def send(self, traces: Sequence[Trace]) -> str:
        """Send them and return "", or why they could not be sent."""
        spans: list[ReadableSpan] = []
        for trace in traces:
            if len(spans) % _YIELD_AFTER + len(trace.spans) > _YIELD_AFTER:
                time.sleep(0)
            spans += self._readable(trace)
        if self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            return (self._session.problem if self._session is not None else "") or "the exporter failed"
        # The exporter takes a redirect, which the session does not follow, for success.
        return self._session.problem if self._session is not None else ""

    def close(self) -> None:
        """Give up what is being sent."""
        self._exporter.shutdown()

    def _readable(self, trace: Trace) -> list[ReadableSpan]:
        root, *children = trace.spans
        parent = _context(trace.trace_id)
        return [
            self._span(trace, root, parent, None),
            *(self._span(trace, child, _context(trace.trace_id), parent) for child in children),
        ]

    def _span(self, trace: Trace, span: Span, context: SpanContext, parent: SpanContext | None) -> ReadableSpan:
        def wall(at: float) -> int:
            return trace.wall + int((at - trace.clock) * _NANOSECONDS)

        error = span.error
        return ReadableSpan(
            name=span.name,
            context=context,
            parent=parent,
            resource=self._resource,
            attributes=_encodable(span.attributes),
            events=[Event(event.name, timestamp=wall(event.at)) for event in span.events],
            status=Status(StatusCode.UNSET) if error is None else Status(StatusCode.ERROR, _text(error)),
            start_time=wall(span.began),
            end_time=wall(span.ended),
            instrumentation_scope=self._scope,
        )


def new_sender() -> OtlpSender:
    """Return the sender that the process's environment describes."""
    _silence()
    session = ExportSession()
    return OtlpSender(OTLPSpanExporter(session=session), own_resource(), session)


def own_resource() -> Resource:
    """Return what spans say about this process; OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have the last word."""
    own = {
        "service.name": "secondary-scheduler",
        "service.version": __version__,
        "service.instance.id": socket.gethostname(),
    }
    return Resource.create(own).merge(OTELResourceDetector().detect())


def _silence() -> None:
    """Keep OpenTelemetry from logging: its lines show headers that it cannot use, and addresses. What fails is told by
    the queue."""
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)


def _context(trace_id: int) -> SpanContext:
    span_id = random.getrandbits(_SPAN_ID_BITS) or 1
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _encodable(attributes: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
    return {
        key: _text(value)
        if isinstance(value, str)
        else value
        if isinstance(value, int | float)
        else [*map(_text, value)]
        for key, value in attributes.items()
    }


def _text(text: str) -> str:
    """Return text that can be written as UTF-8: one that cannot would lose all spans that are sent with it."""
    return text.encode(errors="replace").decode()
