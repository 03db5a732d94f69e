"""The pool of connections: its limit, their order, their age, and what changes with a certificate."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator

import pytest

from scheduler.kube.client import ConfigError, ConnectionFailed, KubeClient, KubeError, pool
from scheduler.kube.client.connection import Connection
from scheduler.kube.client.pool import ConnectionPool, NotConnected, ServerAddress
from tests.unit.scheduler.kube.client.hostile import HostileServer, Visit, hostile_server


@pytest.fixture
async def server() -> AsyncIterator[HostileServer]:
    async with hostile_server() as hostile:
        yield hostile


def later() -> float:
    return time.monotonic() + 3600


async def test_at_the_limit_callers_get_the_connection_in_the_order_of_their_arrival(server: HostileServer) -> None:
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=1)
    first = await connections.open(None, later())
    served: list[int] = []

    async def use(number: int) -> None:
        assert connections.take(None) is None
        connection = await connections.open(None, later())
        served.append(number)
        assert connections.in_use == 1
        await asyncio.sleep(0)
        connections.release(connection)

    users = [asyncio.create_task(use(number)) for number in range(5)]
    await asyncio.sleep(0)
    connections.release(first)
    await asyncio.gather(*users)
    assert served == [0, 1, 2, 3, 4]
    assert len(server.visits) == 1
    await connections.close()


async def test_who_no_longer_waits_keeps_nobody_from_a_connection(server: HostileServer) -> None:
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=1)
    first = await connections.open(None, later())
    with pytest.raises(NotConnected, match="no connection became free in time"):
        await connections.open(None, time.monotonic())
    waiting = [asyncio.create_task(connections.open(None, later())) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    connections.release(first)
    waiting[1].cancel()  # it has been given the slot, and cannot use it any more
    second = await waiting[2]
    assert [task.cancelled() for task in waiting] == [True, True, False]
    connections.release(second)
    third = connections.take(None)
    assert third is second
    connections.release(second)
    await connections.close()


class Gate:
    """Connections are there once the test lets them: `ServerAddress.connect` waits for it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        connect = ServerAddress.connect

        async def gated(address: ServerAddress, tls: ssl.SSLContext | None, seconds: float) -> Connection:
            opened = asyncio.get_running_loop().create_future()
            self.waiting.append(opened)
            await opened
            return await connect(address, tls, seconds)

        monkeypatch.setattr(ServerAddress, "connect", gated)

    @staticmethod
    def let(waiting: list[asyncio.Future[None]]) -> None:
        for opened in waiting:
            opened.set_result(None)

    async def reached(self, number: int) -> None:
        """So many have been started, and no more are to come."""
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(self.waiting) == number


async def test_of_many_requests_at_once_those_that_wait_go_on_with_the_connections_of_the_first(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=None, opening=2)
    requests = [asyncio.create_task(connections.open(None, later())) for _ in range(5)]
    await gate.reached(2)
    gate.waiting[0].set_result(None)
    first = await requests[0]
    await gate.reached(3)
    connections.release(first)
    assert await requests[3] is first
    connections.release(first)
    assert await requests[4] is first
    gate.let(gate.waiting[1:])
    others = [await requests[number] for number in (1, 2)]
    assert len({first, *others}) == connections.in_use == 3
    await gate.reached(3)
    for connection in (first, *others):
        connections.release(connection)
    assert connections.in_use == 0
    await connections.close()


async def test_who_needs_a_new_connection_waits_for_no_other(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=None, opening=1)
    requests = [asyncio.create_task(connections.open(None, later(), at_once=True)) for _ in range(3)]
    await gate.reached(3)
    gate.let(gate.waiting)
    for connection in await asyncio.gather(*requests):
        connections.release(connection)
    await connections.close()


async def test_when_one_cannot_be_opened_all_that_wait_try_at_once(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=None, opening=1)
    requests = [asyncio.create_task(connections.open(None, later())) for _ in range(4)]
    await gate.reached(1)
    gate.waiting[0].set_exception(NotConnected("host", 1, OSError("gone")))
    await gate.reached(4)
    gate.let(gate.waiting[1:])
    with pytest.raises(NotConnected, match="gone"):
        await requests[0]
    opened_now = await asyncio.gather(*requests[1:])
    assert connections.in_use == 3
    for connection in opened_now:
        connections.release(connection)
    await connections.close()


async def test_who_no_longer_waits_gives_back_the_place_to_open_a_connection(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch)
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=1, opening=1)
    requests = [asyncio.create_task(connections.open(None, later())) for _ in range(3)]
    await gate.reached(1)
    gate.waiting[0].set_result(None)
    first = await requests[0]
    first.abort()
    connections.release(first)
    requests[1].cancel()  # it has been given the place, and cannot use it any more
    await gate.reached(2)
    gate.waiting[1].set_result(None)
    connection = await requests[2]
    assert requests[1].cancelled()
    connections.release(connection)
    assert connections.take(None) is connection
    connections.release(connection)
    await connections.close()


async def test_a_refused_connection_leaves_its_place_to_the_next(unused_tcp_port: int) -> None:
    connections = ConnectionPool(ServerAddress.of(f"http://127.0.0.1:{unused_tcp_port}", None), limit=1)
    for _ in range(3):
        with pytest.raises(NotConnected, match=r"cannot connect to 127\.0\.0\.1"):
            await connections.open(None, later())
    assert connections.in_use == 0
    await connections.close()


async def test_the_connection_that_was_used_last_is_used_first(server: HostileServer) -> None:
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=None)
    opened = [await connections.open(None, later()) for _ in range(2)]
    for connection in opened:
        connections.release(connection)
    assert connections.take(None) is opened[1]
    connections.release(opened[1])
    await connections.close()


async def test_a_connection_that_was_idle_for_long_is_closed(
    server: HostileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = asyncio.Event()

    async def script(visit: object) -> None:
        await server.visits[-1].until_closed()
        closed.set()

    server.script = script
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=None)
    connection = await connections.open(None, later())
    connections.release(connection)
    monkeypatch.setattr(pool, "_KEEP_ALIVE", -1.0)
    assert connections.take(None) is None
    await closed.wait()
    closed.clear()
    monkeypatch.setattr(pool, "_KEEP_ALIVE", 0.01)
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=None)
    connections.release(await connections.open(None, later()))
    await closed.wait()  # without another request
    await connections.close()


async def test_a_connection_of_an_older_certificate_is_not_used_again(server: HostileServer) -> None:
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=None)
    connections.release(await connections.open(None, later()))
    assert connections.take(ssl.create_default_context()) is None
    assert connections.take(None) is None, "it was closed"
    await connections.close()


async def test_closing_ends_the_wait_for_a_connection(server: HostileServer) -> None:
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=1)
    await connections.open(None, later())
    waiting = asyncio.create_task(connections.open(None, later()))
    await asyncio.sleep(0)
    await connections.close()
    with pytest.raises(NotConnected, match="the client was closed"):
        await waiting


async def test_a_server_that_does_not_speak_tls_is_named_with_the_reason(server: HostileServer) -> None:
    async def script(visit: object) -> None:
        await server.visits[-1].send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await server.visits[-1].until_closed()

    server.script = script
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=1)
    with pytest.raises(NotConnected, match=f"cannot connect to 127.0.0.1:{server.port}: .*SSL"):
        await connections.open(ssl.create_default_context(), later())
    await connections.close()


async def test_a_server_that_is_silent_in_the_handshake_costs_the_timeout(server: HostileServer) -> None:
    async def script(visit: object) -> None:
        await server.visits[-1].until_closed()

    server.script = script
    connections = ConnectionPool(ServerAddress.of(server.config.server, None), limit=1)
    with pytest.raises(NotConnected, match="no connection within"):
        await connections.open(ssl.create_default_context(), time.monotonic() + 0.1)
    await connections.close()


@pytest.mark.parametrize(
    ("server", "address"),
    [
        ("https://10.0.0.1", ServerAddress("10.0.0.1", 443, "10.0.0.1", "", "10.0.0.1")),
        ("https://10.0.0.1:6443/", ServerAddress("10.0.0.1", 6443, "10.0.0.1:6443", "", "10.0.0.1")),
        ("http://localhost:80/a/b/", ServerAddress("localhost", 80, "localhost", "/a/b", "localhost")),
        ("https://[fd00::1]:6443", ServerAddress("fd00::1", 6443, "[fd00::1]:6443", "", "fd00::1")),
        (
            "https://API.example.com.:443",
            ServerAddress("api.example.com.", 443, "api.example.com.", "", "api.example.com"),
        ),
        (
            "https://bücher.example",
            ServerAddress("xn--bcher-kva.example", 443, "xn--bcher-kva.example", "", "xn--bcher-kva.example"),
        ),
    ],
)
def test_addresses(server: str, address: ServerAddress) -> None:
    assert ServerAddress.of(server, None) == address
    assert ServerAddress.of(server, "other.example").tls_name == "other.example"


@pytest.mark.parametrize("server", ["https://host:99999", "https://host:port", f"https://{'ä' * 80}.example"])
def test_an_address_that_cannot_be_is_refused(server: str) -> None:
    with pytest.raises(ConfigError, match="server"):
        ServerAddress.of(server, None)


async def test_a_client_beside_another_uses_its_connections_and_leaves_them_open(server: HostileServer) -> None:
    async with KubeClient(server.config, user_agent="first") as first:
        async with KubeClient(server.config, user_agent="second", beside=first) as second:
            await first.post("/a", {})
            await second.post("/b", {})
        await first.post("/c", {})
        with pytest.raises(KubeError, match="closed"):
            await second.post("/d", {})
    assert len(server.visits) == 1
    assert [request.split()[1] for request in server.requests] == [b"/a", b"/b", b"/c"]
    assert [b"User-Agent: second" in request for request in server.requests] == [False, True, False]


async def read(client: KubeClient) -> bytes:
    async with client.stream("/watch", timeout=60, silence=60) as chunks:
        return b"".join([chunk async for chunk in chunks])


async def test_a_watch_goes_on_with_the_connection_of_the_list(server: HostileServer) -> None:
    async with KubeClient(server.config) as client:
        await client.get("/list")
        assert await read(client) == b"{}"
        await client.get("/list")
    assert [request.split()[1] for request in server.requests] == [b"/list", b"/watch", b"/list"]
    assert len(server.visits) == 2, "the connection ended with the watch"


async def test_a_watch_has_a_new_connection_where_the_server_has_closed_the_one_of_the_list(
    server: HostileServer,
) -> None:
    answer_all = server.script

    async def script(visit: Visit) -> None:
        if visit.number:
            await answer_all(visit)
            return
        await visit.request()
        await visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        await visit.request()

    server.script = script
    async with KubeClient(server.config) as client:
        await client.get("/list")
        assert await read(client) == b"{}"
    assert [request.split()[1] for request in server.requests] == [b"/watch"]


async def test_a_watch_that_a_new_connection_loses_fails(server: HostileServer) -> None:
    async def script(visit: Visit) -> None:
        await visit.request()

    server.script = script
    async with KubeClient(server.config) as client:
        with pytest.raises(ConnectionFailed):
            await read(client)
    assert len(server.visits) == 1
