"""TLS sessions: which connections resume one, and that certificates count as without."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from devcluster.pki import CertificateAuthority
from scheduler.kube.client import ClientConfig
from scheduler.kube.client.connection import Connection
from scheduler.kube.client.credentials import Credentials
from scheduler.kube.client.http import RequestWriter
from scheduler.kube.client.pool import ConnectionPool, NotConnected, ServerAddress
from tests.support.clock import Clock


class Server:
    """Answers whatever it is asked; notes of each connection whether it resumed a session, and whose it is."""

    def __init__(self, authority: CertificateAuthority, directory: Path) -> None:
        self.directory = directory
        self.port = 0
        self.resumed: list[bool] = []
        self.users: list[str] = []
        self.write("ca", authority.pair.certificate)
        self.issue(authority, "one")
        serving = authority.server("server", [], ["127.0.0.1"])
        self.write("serving", serving.certificate + serving.key)

    def write(self, name: str, content: bytes) -> None:
        (self.directory / name).write_bytes(content)

    def issue(self, authority: CertificateAuthority, user: str) -> None:
        pair = authority.client(user)
        self.write("client", pair.certificate)
        self.write("key", pair.key)

    @property
    def config(self) -> ClientConfig:
        return ClientConfig(
            server=f"https://127.0.0.1:{self.port}",
            ca_file=self.directory / "ca",
            cert_file=self.directory / "client",
            key_file=self.directory / "key",
        )

    @asynccontextmanager
    async def running(self, **settings: Any) -> AsyncIterator[None]:
        """Serve with ticket keys of its own, on the port of the time before."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.directory / "serving")
        context.load_verify_locations(self.directory / "ca")
        context.verify_mode = ssl.CERT_REQUIRED
        for name, value in settings.items():
            setattr(context, name, value)
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=context)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = writer.get_extra_info("ssl_object")
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                self.resumed.append(connection.session_reused)
                subject = connection.getpeercert()["subject"]
                self.users.append(dict(part[0] for part in subject)["commonName"])
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()


@pytest.fixture
def authority() -> CertificateAuthority:
    return CertificateAuthority("test")


@pytest.fixture
def server(authority: CertificateAuthority, tmp_path: Path) -> Server:
    return Server(authority, tmp_path)


async def ask(connections: ConnectionPool, tls: ssl.SSLContext) -> None:
    """Ask on a new connection, which is closed afterwards."""
    connection = await connections.open(tls, time.monotonic() + 60)
    request = RequestWriter("server", "test").write("GET", "/", None)
    assert (await connection.ask(request, timeout=60, limit=100)).status == 200
    connections.release(connection)
    connection.abort()


@asynccontextmanager
async def client(server: Server) -> AsyncIterator[ConnectionPool]:
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=None)
    try:
        yield connections
    finally:
        await connections.close()


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_later_connections_resume_a_session_as_the_same_user(server: Server, version: ssl.TLSVersion) -> None:
    async with server.running(maximum_version=version), client(server) as connections:
        tls = Credentials(server.config).ssl_context()
        for _ in range(4):
            await ask(connections, tls)
    assert server.resumed == [False, True, True, True]
    assert server.users == ["one"] * 4


async def test_a_rotated_client_certificate_is_shown(server: Server, authority: CertificateAuthority) -> None:
    clock = Clock()
    async with server.running(), client(server) as connections:
        credentials = Credentials(server.config, clock)
        await ask(connections, credentials.ssl_context())
        server.issue(authority, "two")
        clock.now += 2
        for _ in range(2):
            await ask(connections, credentials.ssl_context())
    assert server.resumed == [False, False, True]
    assert server.users == ["one", "two", "two"]


async def test_a_server_is_checked_against_a_rotated_authority(server: Server) -> None:
    clock = Clock()
    async with server.running(), client(server) as connections:
        credentials = Credentials(server.config, clock)
        await ask(connections, credentials.ssl_context())
        server.write("ca", CertificateAuthority("another").pair.certificate)
        clock.now += 2
        with pytest.raises(NotConnected, match="certificate verify failed"):
            await ask(connections, credentials.ssl_context())


async def test_a_server_that_knows_the_session_no_longer_is_shown_the_certificate(server: Server) -> None:
    tls = None
    for _ in range(2):  # with ticket keys of its own each time
        async with server.running(), client(server) as connections:
            tls = tls or Credentials(server.config).ssl_context()
            for _ in range(2):
                await ask(connections, tls)
    assert server.resumed == [False, True, False, True]
    assert server.users == ["one"] * 4


async def test_a_server_without_tickets_is_shown_the_certificate_each_time(server: Server) -> None:
    async with server.running(num_tickets=0), client(server) as connections:
        tls = Credentials(server.config).ssl_context()
        for _ in range(3):
            await ask(connections, tls)
    assert server.resumed == [False] * 3


async def test_who_goes_away_as_the_handshake_ends_leaves_no_other_a_closed_socket(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next connection gets the number of the first one's socket: the event loop must not take it for that one."""
    opening: list[asyncio.Task[Connection]] = []
    connection_made = Connection.connection_made

    def cancel(connection: Connection, transport: asyncio.BaseTransport) -> None:
        connection_made(connection, transport)
        opening.pop().cancel()

    async with server.running():
        address, tls = ServerAddress.of(server.config.server, None), Credentials(server.config).ssl_context()
        with monkeypatch.context() as patched:
            patched.setattr(Connection, "connection_made", cancel)
            opening.append(asyncio.create_task(address.connect(tls, 60)))
            with pytest.raises(asyncio.CancelledError):
                await opening[0]
        async with client(server) as connections:
            for _ in range(3):
                await ask(connections, tls)
