"""What a broken or hostile server does to the client: its documented errors, and never a wait beyond the timeout."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler.kube import client as kube
from scheduler.kube.client import KubeClient
from scheduler.kube.client.connection import ERROR_BODY
from tests.unit.scheduler.kube.client.hostile import HostileServer, Visit, hostile_server

OK = b"HTTP/1.1 200 OK\r\n"
EMPTY = OK + b"Content-Length: 2\r\n\r\n{}"
IN_CHUNKS = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LONG = 3600.0
"""A timeout that no test waits for."""


async def read_stream(client: KubeClient, path: str, *, timeout: float = LONG, silence: float = LONG) -> bytes:
    """Read a stream to its end."""
    async with client.stream(path, timeout=timeout, silence=silence) as chunks:
        return b"".join([chunk async for chunk in chunks])


@pytest.fixture
async def server() -> AsyncIterator[HostileServer]:
    async with hostile_server() as hostile:
        yield hostile


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"\x15\x03\x01\x00\x02\x02\x28",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
        OK + b"Content-Length: two\r\n\r\n",
        OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        OK + b"X: " + b"y" * (1 << 20),
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        IN_CHUNKS + b"zz\r\n",
        IN_CHUNKS + b"1;" + b"e" * (1 << 20),
        IN_CHUNKS + b"2\r\n{} and more\r\n",
        IN_CHUNKS + b"0\r\n" + b"Trailer: x\r\n" * 20_000,
    ],
)
async def test_what_is_no_answer_fails_at_once_and_leaves_a_write_in_doubt(server: HostileServer, data: bytes) -> None:
    server.script = server.answer_once(data, then_wait=True)
    async with KubeClient(server.config, timeout=LONG, qps=0) as client:
        with pytest.raises(kube.ConnectionLost) as lost:
            await client.post("/binding", {})
        assert lost.value.outcome_unknown
        with pytest.raises(kube.ConnectionFailed) as failed:
            await client.get("/pod")
        assert not failed.value.outcome_unknown
        with pytest.raises(kube.ConnectionFailed):
            await read_stream(client, "/pods")
    assert len(server.visits) == 3, "no connection is used after that"


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        OK + b"Content-Length: 3\r\n\r\n{}",
        IN_CHUNKS + b"5\r\n{}",
        IN_CHUNKS + b"2\r\n{}\r\n",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\n{}",
    ],
)
async def test_an_answer_that_is_cut_short_leaves_a_write_in_doubt(server: HostileServer, data: bytes) -> None:
    server.script = server.answer_once(data)
    async with KubeClient(server.config, timeout=LONG, qps=0) as client:
        for method in ("POST", "PATCH"):
            with pytest.raises(kube.ConnectionLost, match="closed the connection"):
                await client.request(method, "/x", body={})
        with pytest.raises(kube.ConnectionFailed) as failed:
            await client.get("/x")
        assert not failed.value.outcome_unknown
    assert [request.split()[0] for request in server.requests[:2]] == [b"POST", b"PATCH"], "neither is sent twice"


@pytest.mark.parametrize(
    "data", [b"", b"HTTP/1.1 200 OK\r\n", OK + b"Content-Length: 9\r\n\r\n{", IN_CHUNKS + b"2\r\n{"]
)
async def test_a_server_that_stops_in_the_middle_costs_the_timeout_and_no_more(
    server: HostileServer, data: bytes
) -> None:
    async def script(visit: Visit) -> None:
        if b"/stop" not in await visit.request():
            await visit.send(EMPTY)
            await visit.request()
        await visit.send(data)
        await visit.until_closed()

    server.script = script
    async with KubeClient(server.config, qps=0) as client:
        await client.post("/first", {})
        with pytest.raises(kube.ConnectionLost, match="TimeoutError"):
            await client.post("/stop", {}, timeout=0.05)
        with pytest.raises(kube.ConnectionFailed):
            await read_stream(client, "/stop", silence=0.05)
        with pytest.raises(kube.ConnectionFailed):
            await read_stream(client, "/stop", timeout=0.05)


async def test_a_stream_that_goes_on_and_on_ends_with_its_timeout(server: HostileServer) -> None:
    async def drip(visit: Visit) -> None:
        await visit.request()
        await visit.send(IN_CHUNKS)
        while True:
            await visit.send(b"1\r\n\n\r\n")
            await asyncio.sleep(0)

    server.script = drip
    async with KubeClient(server.config, qps=0) as client:
        # On a machine that stands still, the time is over before there is a connection.
        with pytest.raises(kube.ConnectionFailed, match=r"TimeoutError|no connection within"):
            await read_stream(client, "/pods", timeout=0.1)


@pytest.mark.real_time
async def test_a_stream_is_read_no_faster_than_its_reader_takes_it(server: HostileServer) -> None:
    sent = 0

    async def flood(visit: Visit) -> None:
        nonlocal sent
        await visit.request()
        await visit.send(IN_CHUNKS)
        while True:
            await visit.send(b"10000\r\n" + b"x" * (1 << 16) + b"\r\n")
            sent += 1 << 16

    async def settled() -> int:
        before = -1
        while before != sent:
            before = sent
            await asyncio.sleep(0.1)
        return sent

    server.script = flood
    async with (
        KubeClient(server.config, qps=0) as client,
        client.stream("/pods", timeout=LONG, silence=LONG) as chunks,
    ):
        first = await settled()
        assert first < 64 << 20, "the rest stays with the server and in the sockets' buffers"
        received = 0
        while received < 4 * first:
            received += len(await anext(chunks))
        assert sent > first


async def test_what_came_before_a_stream_broke_is_delivered(server: HostileServer) -> None:
    received = asyncio.Event()

    async def script(visit: Visit) -> None:
        await visit.request()
        await visit.send(IN_CHUNKS + b"4\r\none\n\r\n")
        await received.wait()
        await visit.send(b"rubbish\r\n")
        await visit.until_closed()

    server.script = script
    async with (
        KubeClient(server.config, qps=0) as client,
        client.stream("/pods", timeout=LONG, silence=LONG) as chunks,
    ):
        assert await anext(chunks) == b"one\n"
        received.set()
        with pytest.raises(kube.ConnectionFailed, match="the size of a chunk cannot be read"):
            await anext(chunks)


async def test_a_stream_ends_as_the_server_ends_it(server: HostileServer) -> None:
    for ending in (IN_CHUNKS + b"4\r\none\n\r\n0\r\n\r\n", OK + b"\r\none\n", OK + b"Content-Length: 4\r\n\r\none\n"):
        server.script = server.answer_once(ending)
        async with (
            KubeClient(server.config, qps=0) as client,
            client.stream("/pods", timeout=LONG, silence=LONG) as chunks,
        ):
            assert b"".join([chunk async for chunk in chunks]) == b"one\n"


@pytest.mark.parametrize("framing", ["length", "chunks", "close"])
async def test_a_failure_with_an_endless_body_is_that_failure(server: HostileServer, framing: str) -> None:
    heads = {
        "length": b"HTTP/1.1 403 Forbidden\r\nContent-Length: 999999999\r\n\r\n",
        "chunks": b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n7fffffff\r\n",
        "close": b"HTTP/1.1 403 Forbidden\r\n\r\n",
    }

    async def endless(visit: Visit) -> None:
        await visit.request()
        await visit.send(heads[framing] + b"x" * (ERROR_BODY + 1))
        await visit.until_closed()

    server.script = endless
    async with KubeClient(server.config, timeout=LONG, qps=0) as client:
        with pytest.raises(kube.Forbidden) as refused:
            await client.post("/x", {})
        assert not refused.value.outcome_unknown
        with pytest.raises(kube.Forbidden):
            async with client.stream("/x", timeout=LONG, silence=LONG):
                pass


async def test_a_redirect_is_refused_without_its_body(server: HostileServer) -> None:
    server.script = server.answer_once(b"HTTP/1.1 307 Elsewhere\r\nContent-Length: 99\r\n\r\n", then_wait=True)
    async with KubeClient(server.config, timeout=LONG, qps=0) as client:
        with pytest.raises(kube.MalformedResponse, match="307: redirects are not followed"):
            await client.post("/x", {})
        with pytest.raises(kube.MalformedResponse, match="307: redirects are not followed"):
            async with client.stream("/x", timeout=LONG, silence=LONG):
                pass


@pytest.mark.parametrize("data", [b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 101, IN_CHUNKS + b"ffffffff\r\n" + b"x" * 101])
async def test_a_body_without_a_length_is_read_to_the_cap(server: HostileServer, data: bytes) -> None:
    server.script = server.answer_once(data, then_wait=True)
    async with KubeClient(server.config, timeout=LONG, max_bytes=100, qps=0) as client:
        with pytest.raises(kube.ResponseTooLarge, match="larger than 100 bytes"):
            await client.get("/x")


async def test_connections_are_used_again(server: HostileServer) -> None:
    async with KubeClient(server.config, qps=0) as client:
        for _ in range(5):
            assert await client.post("/x", {}) == b"{}"
    assert len(server.visits) == 1
    assert len(server.requests) == 5


@pytest.mark.parametrize(
    "data",
    [
        OK + b"Content-Length: 2\r\nConnection: close\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        EMPTY + b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nanother's",
    ],
)
async def test_a_connection_that_cannot_be_trusted_or_is_to_be_closed_is_not_used_again(
    server: HostileServer, data: bytes
) -> None:
    server.script = server.answer_once(data, then_wait=True)
    async with KubeClient(server.config, timeout=LONG, qps=0) as client:
        assert await client.post("/x", {}) == b"{}"
        assert await client.post("/x", {}) == b"{}"
    assert len(server.visits) == 2


async def test_bytes_that_nobody_asked_for_end_an_idle_connection(server: HostileServer) -> None:
    unasked = asyncio.Event()

    async def script(visit: Visit) -> None:
        server.requests.append(await visit.request())
        await visit.send(EMPTY)
        if visit.number == 0:
            await unasked.wait()
            await visit.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nanother's")
        await visit.until_closed()
        closed.set()

    closed = asyncio.Event()
    server.script = script
    async with KubeClient(server.config, timeout=LONG, qps=0) as client:
        assert await client.post("/x", {}) == b"{}"
        unasked.set()
        await closed.wait()
        assert await client.post("/x", {}) == b"{}"
    assert len(server.visits) == 2


@pytest.mark.parametrize(("method", "sent"), [("GET", 3), ("PUT", 3), ("DELETE", 3), ("POST", 2), ("PATCH", 2)])
async def test_a_connection_that_the_server_has_just_closed_repeats_what_does_no_harm_twice(
    server: HostileServer, method: str, sent: int
) -> None:
    async def script(visit: Visit) -> None:
        server.requests.append(await visit.request())
        await visit.send(EMPTY)
        server.requests.append(await visit.request())

    server.script = script
    async with KubeClient(server.config, timeout=LONG, qps=0) as client:
        assert await client.request(method, "/x", body=b"{}") == b"{}"
        if sent == 3:
            assert await client.request(method, "/x", body=b"{}") == b"{}"
        else:
            with pytest.raises(kube.ConnectionLost):
                await client.request(method, "/x", body=b"{}")
    assert len(server.requests) == sent


async def test_a_repetition_that_is_not_allowed_leaves_the_first_in_doubt(server: HostileServer) -> None:
    answers = [True, False]

    async def script(visit: Visit) -> None:
        server.requests.append(await visit.request())

    server.script = script
    async with KubeClient(server.config, timeout=LONG, qps=0) as client:
        with pytest.raises(kube.ConnectionLost) as lost:
            await client.delete("/x", allowed=lambda: answers.pop(0))
    assert lost.value.outcome_unknown
    assert len(server.requests) == 1


async def test_a_cancelled_request_takes_its_connection_with_it(server: HostileServer) -> None:
    async def script(visit: Visit) -> None:
        server.requests.append(await visit.request())
        if visit.number == 0:
            arrived.set()
            await visit.until_closed()
        await visit.send(EMPTY)
        await visit.until_closed()

    arrived = asyncio.Event()
    server.script = script
    async with KubeClient(server.config, timeout=LONG, qps=0) as client:
        asking = asyncio.create_task(client.post("/x", {}))
        await arrived.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await client.post("/x", {}) == b"{}"
    assert len(server.visits) == 2


async def test_closing_the_client_ends_what_is_under_way(server: HostileServer) -> None:
    arrived = asyncio.Semaphore(0)

    async def script(visit: Visit) -> None:
        request = await visit.request()
        await visit.send(IN_CHUNKS if b"/stream" in request else b"")
        arrived.release()
        await visit.until_closed()

    server.script = script
    client = KubeClient(server.config, timeout=LONG, qps=0)
    requests = client.get("/x"), client.post("/x", {}), read_stream(client, "/stream")
    tasks = [asyncio.create_task(request) for request in requests]
    for _ in tasks:
        await arrived.acquire()
    await client.close()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [kube.ConnectionFailed, kube.ConnectionLost, kube.ConnectionFailed]
    with pytest.raises(kube.KubeError, match="closed"):
        await client.get("/x")


async def test_a_request_is_one_piece_with_its_headers(server: HostileServer) -> None:
    config = kube.ClientConfig(server=f"http://127.0.0.1:{server.port}/clusters/a/", token="secret")
    async with KubeClient(config, user_agent="me/1", qps=0) as client:
        await client.post("/x", b"{}", {"dryRun": "All"})
        await client.get("/y")
        await client.request("POST", "/z")
    host = b"Host: 127.0.0.1:%d\r\n" % server.port
    common = host + b"User-Agent: me/1\r\nAccept: application/json\r\nAccept-Encoding: identity\r\n"
    common += b"Authorization: Bearer secret\r\n"
    assert server.requests == [
        b"POST /clusters/a/x?dryRun=All HTTP/1.1\r\n"
        + common
        + b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
        b"GET /clusters/a/y HTTP/1.1\r\n" + common + b"\r\n",
        b"POST /clusters/a/z HTTP/1.1\r\n" + common + b"Content-Length: 0\r\n\r\n",
    ]


@pytest.mark.parametrize("path", ["/a b", "/a\r\nHost: evil", "/a\x00", "/ä"])
async def test_a_path_cannot_smuggle_a_header_or_a_request(server: HostileServer, path: str) -> None:
    async with KubeClient(server.config, qps=0) as client:
        with pytest.raises(kube.ConnectionFailed, match="not sent") as refused:
            await client.post(path, {})
    assert not refused.value.outcome_unknown
    assert str(refused.value).isprintable()
    assert server.visits == []


async def test_a_token_that_is_no_header_is_refused_and_not_shown(server: HostileServer) -> None:
    config = kube.ClientConfig(server=f"http://127.0.0.1:{server.port}", token="canary-1\r\nX-Evil: 1")
    async with KubeClient(config, qps=0) as client:
        with pytest.raises(kube.ConfigError) as refused:
            await client.get("/x")
    assert "canary" not in str(refused.value)
    assert server.visits == []
