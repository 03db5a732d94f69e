"""Connections of a real server, by clients that do not behave."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import os
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from scheduler.connectionlimits import ConnectionLimits
from scheduler.observe import bind, bounded, port_of, serving
from scheduler.observe.bounded import SECONDS, Drop, Wait
from tests.support.rawclient import GARBAGE, Client, connect
from tests.support.waiting import eventually_on_loop
from tests.unit.scheduler.observe.ports import self_signed

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"


class Served:
    """A server, what it says and counts, and its clients. `/slow` is answered once `go_on` is set."""

    def __init__(self) -> None:
        self.port = 0
        self.tls = False
        self.go_on = asyncio.Event()
        self.slow = self.reading = 0
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.reasons: list[str] = []
        self.clients: list[Client] = []

    def report(self, event: str, /, **fields: Any) -> None:
        self.lines.append((event, fields))

    async def client(self, sent: bytes = b"", *, source: str = "127.0.0.1", tls: bool | None = None) -> Client:
        client = await connect(self.port, sent, source=source, tls=self.tls if tls is None else tls)
        self.clients.append(client)
        return client

    def application(self) -> web.Application:
        app = web.Application(client_max_size=1 << 20)

        async def answer(request: web.Request) -> web.Response:
            return web.Response(text="ok")

        async def slow(request: web.Request) -> web.Response:
            self.slow += 1
            await self.go_on.wait()
            return web.Response(text="at last")

        async def echo(request: web.Request) -> web.Response:
            self.reading += 1
            try:
                return web.Response(text=str(len(await request.read())))
            finally:
                self.reading -= 1

        async def large(request: web.Request) -> web.Response:
            return web.Response(body=b"x" * (32 << 20))

        async def fail(request: web.Request) -> web.Response:
            raise RuntimeError("a defect of ours")

        for path, handler in (("/", answer), ("/slow", slow), ("/large", large), ("/fail", fail)):
            app.router.add_get(path, handler)
        app.router.add_post("/", echo)
        return app


@contextlib.asynccontextmanager
async def served(limits: ConnectionLimits, *, tls: bool = False) -> AsyncIterator[Served]:
    server = Served()
    server.tls = tls
    context = self_signed() if tls else None
    listeners = bind("127.0.0.1", 0)
    async with serving(
        server.application(),
        listeners,
        limits=limits,
        report=server.report,
        tls=context,
        count=server.reasons.append,
    ):
        server.port = port_of(listeners)
        try:
            yield server
        finally:
            server.go_on.set()
            for client in server.clients:
                client.writer.transport.abort()


@pytest.fixture(params=[False, True], ids=["http", "https"])
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Served]:
    async with served(ConnectionLimits(20, 8), tls=request.param) as server:
        yield server


@pytest.fixture(autouse=True)
def frequent_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server looks for what is overdue without a second's wait."""
    monkeypatch.setattr(bounded, "_SWEEP_SECONDS", 0.05)


async def test_requests_on_one_connection_are_answered_one_after_the_other(server: Served) -> None:
    client = await server.client(GET * 3)
    assert [await client.answer() for _ in range(3)] == ["200 ok"] * 3
    client.writer.write(POST + b"Content-Length: 300000\r\n\r\n" + b"x" * 300_000 + GET)
    assert [await client.answer() for _ in range(2)] == ["200 300000", "200 ok"]
    assert server.reasons == []


async def test_one_address_with_many_silent_connections_keeps_nobody_out(server: Served) -> None:
    silent = [await server.client(source="127.0.0.2", tls=False) for _ in range(300)]
    assert await (await server.client(GET, source="127.0.0.2")).answer() == "200 ok"
    assert await (await server.client(GET)).answer() == "200 ok"
    for client in silent[:292]:
        await client.ended()
    assert server.reasons[:292] == [Drop.ADDRESS] * 292
    event, fields = server.lines[0]
    assert (event, fields["address"], fields["reason"]) == (
        "connections dropped",
        "127.0.0.2",
        "more than 8 of one address",
    )
    assert len(server.lines) == 1


async def test_many_addresses_with_finished_handshakes_keep_nobody_out(server: Served) -> None:
    for number in range(2, 12):
        for _ in range(8):
            await (await server.client(GET, source=f"127.0.0.{number}")).answer()
    assert await (await server.client(GET)).answer() == "200 ok"
    assert set(server.reasons) == {Drop.TOTAL}


async def test_an_answer_under_way_is_finished_and_others_are_refused() -> None:
    async with served(ConnectionLimits(2, 2)) as server:
        busy = [await server.client(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(2)]
        await eventually_on_loop(lambda: server.slow == 2, "both are being answered")
        # It may be reset before the client knows that it is connected.
        with contextlib.suppress(ConnectionError):
            await (await server.client(GET)).ended()
        assert server.reasons == [Drop.ADDRESS]
        server.go_on.set()
        assert [await client.answer() for client in busy] == ["200 at last"] * 2
        assert await (await server.client(GET)).answer() == "200 ok"


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (GET[:10], Wait.FIRST_REQUEST),
        (POST + b"Content-Length: 10\r\n\r\n12345", Wait.BODY),
        (b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", Wait.READ),
    ],
    ids=["head", "body", "unread"],
)
async def test_who_does_not_finish_what_it_began_is_dropped(
    server: Served, monkeypatch: pytest.MonkeyPatch, sent: bytes, words: Wait
) -> None:
    monkeypatch.setitem(SECONDS, words, 0.01)
    client = await server.client()
    if words is Wait.READ:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.writer.write(sent)
    await eventually_on_loop(lambda: server.reasons, "it is dropped")
    assert server.reasons == [Drop.TIMEOUT]
    assert server.lines[0][1]["reason"] == f"{words.value} within {SECONDS[words]} s"


async def test_who_sends_nothing_is_dropped(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SECONDS, Wait.HANDSHAKE if server.tls else Wait.FIRST_REQUEST, 0.01)
    await (await server.client(tls=False)).ended()
    assert server.reasons == [Drop.TIMEOUT]


async def test_a_byte_now_and_then_is_no_progress(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SECONDS, Wait.FIRST_REQUEST, 0.2)
    client = await server.client(b"GET / HTTP/1.1\r\nX: ")

    async def trickle() -> None:
        with contextlib.suppress(OSError):
            while True:
                client.writer.write(b"x")
                await asyncio.sleep(0.02)

    trickling = asyncio.create_task(trickle())
    await client.ended()
    trickling.cancel()
    assert server.reasons == [Drop.TIMEOUT]


async def test_a_connection_without_a_further_request_ends_and_nobody_hears_of_it(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SECONDS, Wait.NEXT_REQUEST, 0.01)
    client = await server.client(GET)
    assert await client.answer() == "200 ok"
    await client.ended()
    assert (server.reasons, server.lines) == ([], [])


MALFORMED = {
    "garbage": GARBAGE,
    "header": b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
    "long line": b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\n\r\n",
    "two lengths": POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
    "TLS over HTTP": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
    "version": b"GET / HTTP/9.9\r\n\r\n",
    "chunk": POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
}


@pytest.mark.parametrize("sent", MALFORMED.values(), ids=MALFORMED)
async def test_a_request_that_cannot_be_read_is_answered_with_400_and_counted(
    server: Served, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await (await server.client(sent)).answer()
    assert answer == "400 400: the request cannot be read\n"
    assert server.reasons == [Drop.MALFORMED]
    assert [event for event, _ in server.lines] == ["malformed requests"]
    assert not caplog.records, "nothing of aiohttp's own, with a traceback each"


async def test_a_hundred_malformed_requests_are_one_line(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(100):
        await (await server.client(MALFORMED["garbage"])).answer()
    assert server.reasons == [Drop.MALFORMED] * 100
    assert len(server.lines) == 1
    assert not caplog.records


async def test_a_body_that_cannot_be_read_to_its_end_is_dropped(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """aiohttp does not tell who reads it that there will be no more."""
    client = await server.client(POST + b"Transfer-Encoding: chunked\r\n\r\n")
    await eventually_on_loop(lambda: server.reading, "the body is read")
    client.writer.write(b"zz\r\n")
    monkeypatch.setitem(SECONDS, Wait.BODY, 0.01)
    await client.ended()
    assert server.reasons == [Drop.TIMEOUT]
    assert not caplog.records


async def test_a_client_that_goes_amid_its_body_is_nothing_to_log(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    client = await server.client(POST + b"Content-Length: 10\r\n\r\n1")
    await eventually_on_loop(lambda: server.reading, "the body is read")
    client.writer.transport.abort()
    await eventually_on_loop(lambda: not server.reading, "it has heard of it")
    assert await (await server.client(GET)).answer() == "200 ok"
    assert not caplog.records
    assert server.reasons == []


async def test_a_compressed_body_is_not_unpacked(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    client = await server.client(POST + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\n12345")
    assert await client.answer() == "200 5"
    assert not caplog.records


async def test_a_defect_of_ours_keeps_its_traceback(server: Served, caplog: pytest.LogCaptureFixture) -> None:
    assert (await (await server.client(b"GET /fail HTTP/1.1\r\nHost: x\r\n\r\n")).answer()).startswith("500")
    (record,) = caplog.records
    assert record.exc_info is not None
    assert "a defect of ours" in str(record.exc_info[1])
    assert server.reasons == []


LARGE_HEADER = b"X: %s\r\n" % (b"x" * 8000)


@pytest.mark.parametrize(
    "sent",
    [
        GET[:-2] + LARGE_HEADER * 9,
        b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" + (GET[:-2] + LARGE_HEADER + b"\r\n") * 20,
    ],
    ids=["one head", "pipelined requests"],
)
async def test_more_than_64_kib_before_an_answer_end_the_connection(server: Served, sent: bytes) -> None:
    await (await server.client(sent)).ended()
    assert server.reasons == [Drop.LARGE_HEAD]


@pytest.mark.parametrize("busy", [False, True])
async def test_where_no_descriptor_is_left_a_waiting_connection_gives_its_own(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, busy: bool
) -> None:
    real, failures = socket.socket.accept, 0

    def accept(listener: socket.socket) -> Any:
        nonlocal failures
        if failures < 3:
            failures += 1
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return real(listener)

    async with served(ConnectionLimits(20, 20)) as server:
        sent = b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n" if busy else b""
        others = [await server.client(sent) for _ in range(4)]
        await (await server.client(GET)).answer()
        if busy:
            await eventually_on_loop(lambda: server.slow == 4, "all are being answered")
        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "accept", accept)
            # Where nobody can go it is accepted later.
            assert await (await server.client(GET)).answer() == "200 ok"
        assert failures == 3
        assert server.reasons == ([Drop.DESCRIPTORS] * 3 if not busy else [Drop.DESCRIPTORS])
        assert (not others[3].reader.at_eof()) or busy
    assert {event for event, _ in server.lines} <= {"connections dropped", "connections not accepted"}
    assert not caplog.records


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Gets a number for each connection on which TLS begins."""
    numbers: list[int] = []

    class Counting(bounded._Tls):
        def __init__(self, *arguments: Any) -> None:
            numbers.append(len(numbers))
            super().__init__(*arguments)

    monkeypatch.setattr(bounded, "_Tls", Counting)
    return numbers


async def test_a_connection_that_has_sent_nothing_costs_no_tls(begun: list[int]) -> None:
    async with served(ConnectionLimits(50, 50), tls=True) as server:
        for _ in range(20):
            await server.client(tls=False)
        assert await (await server.client(GET)).answer() == "200 ok"
    assert begun == [0]


async def test_many_requests_of_one_address_at_once_are_all_answered() -> None:
    async with served(ConnectionLimits(100, 100), tls=True) as server:
        clients = await asyncio.gather(*(server.client(GET) for _ in range(60)))
        assert [await client.answer() for client in clients] == ["200 ok"] * 60


FAILING = {
    "no end of the handshake": (b"\x16\x03\x01\x02\x00\x01", False),
    "no handshake": (b"\x16\x03\x01\x00\x05hello world and more", False),
    "malformed": (MALFORMED["garbage"], True),
    "unread": (b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n", True),
}


@pytest.mark.parametrize(("sent", "tls"), FAILING.values(), ids=FAILING)
async def test_what_a_failed_connection_had_goes_without_the_garbage_collector(
    begun: list[int], sent: bytes, tls: bool
) -> None:
    """A scheduler's hardly runs, and a handshake that fails takes no time: thousands would fill the memory."""

    def kept() -> list[object]:
        return [each for each in gc.get_objects() if isinstance(each, bounded._Tls | bounded._Handler)]

    gc.collect()
    gc.disable()
    try:
        async with served(ConnectionLimits(20, 20), tls=True) as server:
            for _ in range(5):
                begun.clear()
                client = await server.client(sent, tls=tls)
                await eventually_on_loop(lambda: begun, "it has begun")
                client.writer.transport.abort()
                await eventually_on_loop(lambda: not kept(), "it is gone")
    finally:
        gc.enable()


async def test_memory_is_given_back_once_after_a_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    dropped_by_then: list[int] = []
    monkeypatch.setattr(bounded, "_FLOOD", 30)
    async with served(ConnectionLimits(20, 8)) as server:
        monkeypatch.setattr(bounded, "_give_memory_back", lambda: dropped_by_then.append(len(server.reasons)))
        for _ in range(40):
            await server.client()
        await eventually_on_loop(lambda: dropped_by_then, "it is given back")
        for _ in range(8):
            await server.client(source="127.0.0.2")
        # Less than a flood: the next one begins to be counted anew.
        await server.client(source="127.0.0.2")
        await eventually_on_loop(lambda: len(server.reasons) == 33, "one more is dropped")
        for _ in range(29):
            await server.client(source="127.0.0.2")
        await eventually_on_loop(lambda: len(dropped_by_then) == 2, "it is given back again")
    first, second = dropped_by_then
    assert first >= 30
    assert second - first >= 30
