"""A Prometheus over HTTPS that can be broken in every way a test wants, while its clients keep their address."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import math
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from devcluster.pki import KeyPair

Handler = BaseHTTPRequestHandler
Answer = Callable[["BreakablePrometheus", Handler, str], None]
MEGABYTE = 1024 * 1024


class BreakablePrometheus:
    """Answers instant queries for `loads` (node to CPU share) by `answer`, to whoever shows `token`.

    `seen` counts requests, `sent` bytes of the last answer that was streamed.
    """

    def __init__(self, pair: KeyPair, directory: Path, token: str, host: str = "127.0.0.1") -> None:
        self.token = token
        self.loads: dict[str, float] = {}
        self.sample_age = 0.0
        self.answer: Answer = whole
        self.location = ""
        self.seen = self.sent = 0
        self.authorizations: set[str | None] = set()
        self._directory = directory
        self._host, self._port = host, 0
        self._server: ThreadingHTTPServer | None = None
        self.present(pair)
        self.start()

    @property
    def url(self) -> str:
        """Its address; stays the same through `stop` and `start`."""
        return f"https://{self._host}:{self._port}"

    def present(self, pair: KeyPair) -> None:
        """Show this certificate to connections from now on."""
        files = self._directory / f"{id(self)}.crt", self._directory / f"{id(self)}.key"
        files[0].write_bytes(pair.certificate)
        files[1].write_bytes(pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*files)
        self._tls = context

    def start(self) -> None:
        """Listen."""
        fake = self

        class Requests(Handler):
            def do_GET(self) -> None:
                fake.seen += 1
                fake.authorizations.add(self.headers.get("Authorization"))
                if self.headers.get("Authorization") != f"Bearer {fake.token}":
                    send(self, b"no", status=401, content_type="text/plain")
                    return
                fake.answer(fake, self, parse_qs(urlsplit(self.path).query).get("query", [""])[0])

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self) -> tuple[Any, Any]:
                connection, address = super().get_request()
                # The handshake belongs in the handler's thread: a client that breaks it off must not end the server.
                return fake._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False), address

            def handle_error(self, *_: object) -> None:
                """Clients that hang up are what the tests are about."""

        self._server = Server((self._host, self._port), Requests)
        self._port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def vector(self, query: str) -> bytes:
        """The answer to a query."""
        now = time.time()

        def sample(node: str, value: float, **labels: str) -> dict[str, Any]:
            return {"metric": {"instance": node, **labels}, "value": [now, number(value)]}

        share = 0.02 if "stddev" in query else 1.0
        result = [sample(node, value * share) for node, value in self.loads.items()]
        if "label_replace" in query:
            times = {"secondary_scheduler_stat": "sample_time"}
            result += [sample(node, now - self.sample_age, **times) for node in self.loads]
        return json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()

    def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def repair(self) -> None:
        """Answer as a Prometheus should."""
        self.answer, self.sample_age = whole, 0.0
        if self._server is None:
            self.start()


def send(handler: Handler, body: bytes, status: int = 200, content_type: str = "application/json", **more: str) -> None:
    """Write a whole answer."""
    handler.send_response(status)
    for name, value in {"Content-Type": content_type, "Content-Length": str(len(body)), **more}.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def number(value: float) -> str:
    """Write a number as Prometheus does."""
    if math.isnan(value):
        return "NaN"
    return str(value) if math.isfinite(value) else f"{'+' if value > 0 else '-'}Inf"


def whole(fake: BreakablePrometheus, handler: Handler, query: str) -> None:
    """All loads, and in the first query the times of their samples."""
    send(handler, fake.vector(query))


def drip(fake: BreakablePrometheus, handler: Handler, query: str) -> None:
    """A byte now and then, for longer than anybody should wait."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(300):
            handler.wfile.write(b" ")
            time.sleep(0.1)


def huge(fake: BreakablePrometheus, handler: Handler, query: str) -> None:
    """200 MB, as fast as they are taken."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", str(200 * MEGABYTE))
    handler.end_headers()
    fake.sent = 0
    with contextlib.suppress(OSError):
        for _ in range(200):
            handler.wfile.write(b" " * MEGABYTE)
            fake.sent += MEGABYTE


@functools.cache
def packed_bomb() -> bytes:
    """400 KB that unpack to 400 MB; packing them takes seconds."""
    return gzip.compress(b" " * (400 * MEGABYTE), 9)


def bomb(fake: BreakablePrometheus, handler: Handler, query: str) -> None:
    """What fills the memory of whoever unpacks it."""
    send(handler, packed_bomb(), Content_Encoding="gzip")


def login_page(fake: BreakablePrometheus, handler: Handler, query: str) -> None:
    """What a single sign-on in front of it answers."""
    send(handler, b"<html><form>Log in</form></html>", content_type="text/html; charset=utf-8")


def lists(fake: BreakablePrometheus, handler: Handler, query: str) -> None:
    """As many empty lists as fit."""
    send(handler, b'{"data":{"resultType":"vector","result":[' + b"[]," * 85_000 + b"[]]}}")


def brackets(fake: BreakablePrometheus, handler: Handler, query: str) -> None:
    """Deeper than anybody reads."""
    send(handler, b'{"data":{"resultType":"vector","result":[' + b"[" * 250_000)


_MALFORMED = (
    *(b"7", b"null", b"[]", b'{"metric":[1],"value":[1,"1"]}', b'{"metric":{"instance":5},"value":[1,"1"]}'),
    *(rb'{"metric":{"instance":"\ud800"},"value":[1,"1"]}', b'{"metric":{"instance":"x"},"value":[1,"1_0"]}'),
    *(b"[" * 20_000 + b"]" * 20_000, b'"' + b"x" * 70_000 + b'"'),
)
MALFORMED = len(_MALFORMED)
"""Samples of `beside_malformed_ones` that are none."""


def beside_malformed_ones(fake: BreakablePrometheus, handler: Handler, query: str) -> None:
    """All loads, after samples that are none."""
    head, samples, rest = fake.vector(query).partition(b'"result": [')
    send(handler, head + samples + b",".join(_MALFORMED) + b"," + rest)


def elsewhere(fake: BreakablePrometheus, handler: Handler, query: str) -> None:
    """A redirect to another host."""
    send(handler, b"", status=302, Location=fake.location)
