"""The blocking client: warnings, dropped connections, one connection per thread."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from devcluster.pki import CertificateAuthority
from scheduler.kube.client import (
    ClientConfig,
    Conflict,
    ConnectionFailed,
    ResponseTooLarge,
    SyncClient,
    SyncConnection,
    TooManyRequests,
)
from tests.unit.scheduler.kube.fake_api import status_body


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    retry_after = ""

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.connections.append(self.client_address)
        server.paths.append(self.path)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        for warning in server.warnings:
            self.send_header("Warning", warning)
        self.end_headers()
        self.wfile.write(b"{}")
        self.close_connection = server.drops
        server.answered.set()

    def do_PATCH(self) -> None:
        cause = {"reason": "FieldManagerConflict", "message": 'conflict with "x"', "field": ".a"}
        body = status_body(409, "Conflict", details={"causes": [cause]})
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(409)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_DELETE(self) -> None:
        body = status_body(429, "TooManyRequests")
        self.send_response(429)
        for name, value in (("Retry-After", self.retry_after), ("Content-Length", str(len(body)))):
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        pass


class Server(ThreadingHTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.connections: list[tuple[str, int]] = []
        self.paths: list[str] = []
        self.warnings: list[str] = []
        self.drops = False
        self.answered = threading.Event()
        self.dropped = threading.Event()

    def shutdown_request(self, request: object) -> None:
        super().shutdown_request(request)  # type: ignore[arg-type] - a socket, as this is a TCP server
        self.dropped.set()

    @property
    def config(self) -> ClientConfig:
        return ClientConfig(server=f"http://127.0.0.1:{self.server_port}")


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as http_server:
        thread = threading.Thread(target=http_server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield http_server
        http_server.shutdown()
        thread.join()


def test_warnings_are_handed_on_unquoted(server: Server) -> None:
    server.warnings = ['299 - "v1 is deprecated"', '299 - "unknown field \\"spec.a\\""']
    connection = SyncConnection(server.config, timeout=5)
    warnings: list[str] = []
    connection.request("GET", "/x", on_warning=warnings.append)
    connection.close()
    assert warnings == ["v1 is deprecated", 'unknown field "spec.a"']


def test_who_asks_for_warnings_may_get_none(server: Server) -> None:
    warnings: list[str] = []
    with contextlib.closing(SyncConnection(server.config, timeout=5)) as connection:
        connection.request("GET", "/x", on_warning=warnings.append)
    assert warnings == []


def test_a_path_of_the_servers_address_stands_before_each_path(server: Server) -> None:
    config = ClientConfig(server=f"{server.config.server}/clusters/X/")
    with contextlib.closing(SyncConnection(config, timeout=5)) as connection:
        connection.get("/version")
    assert server.paths == ["/clusters/X/version"]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), ("", None), ("soon", None), ("-1", None), ("9" * 10, None), ("9" * 9, 999999999)],
)
def test_how_long_to_wait_is_told_where_the_server_says_it_in_seconds(
    server: Server, monkeypatch: pytest.MonkeyPatch, header: str, seconds: float | None
) -> None:
    monkeypatch.setattr(Handler, "retry_after", header)
    with (
        contextlib.closing(SyncConnection(server.config, timeout=5)) as connection,
        pytest.raises(TooManyRequests) as raised,
    ):
        connection.request("DELETE", "/x")
    assert raised.value.retry_after == seconds


def test_a_connection_that_the_server_closed_is_replaced(server: Server) -> None:
    connection = SyncConnection(server.config, timeout=5)
    connection.get("/x")
    connection.get("/x")
    assert len(set(server.connections)) == 1
    server.drops = True
    connection.get("/x")
    assert server.dropped.wait(5)
    connection.get("/x")
    connection.close()
    assert len(set(server.connections)) == 2


def test_an_answer_beyond_the_limit_is_refused(server: Server) -> None:
    connection = SyncConnection(server.config, timeout=5, max_bytes=1)
    with pytest.raises(ResponseTooLarge):
        connection.get("/x")


def test_a_refusal_names_its_causes(server: Server) -> None:
    connection = SyncConnection(server.config, timeout=5)
    with pytest.raises(Conflict) as raised:
        connection.request("PATCH", "/x", body={})
    connection.close()
    assert [(cause.field, cause.message) for cause in raised.value.causes] == [(".a", 'conflict with "x"')]


def test_every_thread_has_a_connection_of_its_own(server: Server) -> None:
    client = SyncClient(server.config, timeout=5)
    barrier = threading.Barrier(2)

    def work() -> None:
        client.request("GET", "/x")
        barrier.wait(5)
        client.request("GET", "/x")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client.close()
    assert len(server.connections) == 4
    assert len(set(server.connections)) == 2


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_server_that_says_nothing_is_described_by_how_long_it_was_waited_for(scheme: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        connection = SyncConnection(ClientConfig(server=address, insecure_skip_tls_verify=True), timeout=0.1)
        with pytest.raises(ConnectionFailed) as raised:
            connection.get("/version")
    missing = "connection" if scheme == "https" else "answer"
    assert str(raised.value) == f"GET /version: no {missing} within 0.1 s"


def test_a_server_whose_certificate_is_not_trusted_gets_nothing(tmp_path: Path) -> None:
    authority, strangers = CertificateAuthority("ours"), CertificateAuthority("strangers")
    serving = strangers.server("server", [], ["127.0.0.1"])
    (tmp_path / "ca").write_bytes(authority.pair.certificate)
    (tmp_path / "serving").write_bytes(serving.certificate + serving.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "serving")
    seen: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        with contextlib.suppress(OSError), accepted, context.wrap_socket(accepted, server_side=True) as secure:
            seen.append(secure.recv(100))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        address = f"https://127.0.0.1:{listener.getsockname()[1]}"
        connection = SyncConnection(ClientConfig(server=address, ca_file=tmp_path / "ca", token="canary"), timeout=5)
        with pytest.raises(ConnectionFailed) as refused:
            connection.get("/x")
        thread.join()
    assert "canary" not in str(refused.value)
    assert b"canary" not in b"".join(seen)


def test_over_tls_the_token_is_sent_with_every_request_of_the_connection(tmp_path: Path) -> None:
    authority = CertificateAuthority("ours")
    serving = authority.server("server", [], ["127.0.0.1"])
    (tmp_path / "ca").write_bytes(authority.pair.certificate)
    (tmp_path / "serving").write_bytes(serving.certificate + serving.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "serving")
    seen: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        accepted, _ = listener.accept()
        with context.wrap_socket(accepted, server_side=True) as secure:
            for _ in range(2):
                seen.append(secure.recv(4096))
                secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        address = f"https://127.0.0.1:{listener.getsockname()[1]}"
        connection = SyncConnection(ClientConfig(server=address, ca_file=tmp_path / "ca", token="canary"), timeout=5)
        assert [connection.get("/x"), connection.get("/x")] == [b"{}", b"{}"]
        connection.close()
        thread.join()
    assert all(b"\r\nAuthorization: Bearer canary\r\n" in request for request in seen)
