"""A fake HTTP service in this process: answers each request as a test says, and remembers what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


class FakeService:
    """Serves GET by `answer`; `paths` and `headers` are those of the requests so far."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Answer = lambda handler: send(handler, b"{}")
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.paths.append(self.path)
                fake.headers.append(dict(self.headers))
                fake.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """A client that hangs up in the middle is what some tests are about."""

        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if tls is not None:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        scheme = "https" if tls is not None else "http"
        self.url = f"{scheme}://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def json(self, body: Any, status: int = 200) -> None:
        """Answer everything with a JSON document; NaN is written bare, as Go's load-watcher writes it."""
        encoded = json.dumps(body).encode()
        self.answer = lambda handler: send(handler, encoded, status)

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@contextmanager
def service(tls: ssl.SSLContext | None = None) -> Iterator[FakeService]:
    """A fake service for a while."""
    fake = FakeService(tls)
    try:
        yield fake
    finally:
        fake.close()


def send(
    handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, content_type: str = "application/json"
) -> None:
    """Write a whole answer."""
    handler.send_response(status)
    handler.send_header("Content-Type", content_type)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)
