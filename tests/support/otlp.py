"""A collector under test: an OTLP/HTTP receiver that keeps the spans it is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Receiver:
    """What a collector has taken.

    Attributes:
        spans: as OTLP's messages, in the order of their arrival.
        resources: attributes of those whose spans they are.
        headers: of each request.
        status: with which it answers.
    """

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.resources: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.status = 200
        self.address = ""

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """Take a request; returns the status of the answer."""
        self.headers.append(headers)
        if path != "/v1/traces":
            return 404
        if self.status == 200:
            request = ExportTraceServiceRequest()
            request.ParseFromString(body)
            for of_resource in request.resource_spans:
                self.resources.append(attributes_of(of_resource.resource))
                for of_scope in of_resource.scope_spans:
                    self.spans += of_scope.spans
        return self.status

    def attempts(self, namespace: str) -> list[Any]:
        """The roots of traces about pods of a namespace."""
        roots = [span for span in list(self.spans) if not span.parent_span_id]
        return [span for span in roots if attributes_of(span)["k8s.namespace.name"] == namespace]

    def children(self, root: Any) -> list[Any]:
        """The other spans of a trace."""
        return [span for span in list(self.spans) if span.parent_span_id == root.span_id]


def attributes_of(message: Any) -> dict[str, Any]:
    """The attributes of a span or resource."""
    return {pair.key: _value(pair.value) for pair in message.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, kind)


@contextmanager
def receiver_running() -> Iterator[Receiver]:
    """A receiver on a port of its own, without TLS."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    receiver.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
