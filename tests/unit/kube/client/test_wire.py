"""The connection pool against a server that says exactly what a test wants, byte by byte."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from secondary_scheduler.kube.client.wire import Answer, Endpoint, Lost, NeverSent, Pool, TooLong

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
REQUEST = b"GET /x HTTP/1.1\r\nHost: h\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def server(script: Script) -> AsyncIterator[Endpoint]:
    """Serve a script on each connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await script(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    running = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = running.sockets[0].getsockname()[1]
    try:
        yield Endpoint("127.0.0.1", port, None, None)
    finally:
        running.close()


def saying(*pieces: bytes, times: int = 1000) -> Script:
    """Answer each request with the same pieces, each in a packet of its own."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(times):
            await reader.readuntil(b"\r\n\r\n")
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)

    return script


async def ask(script: Script, *, limit: int = 1000, seconds: float = 5.0) -> Answer:
    pool = Pool(2, 60.0)
    async with server(script) as endpoint:
        try:
            return await pool.exchange(endpoint, REQUEST, time.monotonic() + seconds, limit)
        finally:
            pool.close()


@pytest.mark.parametrize(
    "text",
    [
        OK,
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\ncontent-LENGTH:  2 \r\nX: y\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1;x=y\r\nk\r\n0\r\nTrailer: t\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 3, 7, 4096])
async def test_an_answer_is_read_however_it_is_cut_into_packets(text: bytes, size: int) -> None:
    answer = await ask(saying(*(text[at : at + size] for at in range(0, len(text), size))))
    assert (answer.status, answer.body) == (200, b"ok")


async def test_an_answer_without_a_length_lasts_until_the_connection_ends() -> None:
    answer = await ask(saying(b"HTTP/1.1 404 Not Found\r\n\r\nno", b"thing", times=1))
    assert (answer.status, answer.body) == (404, b"nothing")


async def test_an_answer_that_can_have_no_body_is_complete_with_its_head() -> None:
    assert (await ask(saying(b"HTTP/1.1 204 No Content\r\n\r\n"))).status == 204


@pytest.mark.parametrize(
    "text",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 2OO OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nno header\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * (1 << 17),
    ],
)
async def test_what_is_no_answer_is_refused(text: bytes) -> None:
    with pytest.raises(Lost):
        await ask(saying(text))


@pytest.mark.parametrize(
    "text",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"x" * 2000,
        b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000,
    ],
)
async def test_a_body_beyond_the_limit_is_not_taken(text: bytes) -> None:
    with pytest.raises(TooLong) as caught:
        await ask(saying(text))
    assert caught.value.status == 200


async def test_a_connection_is_used_again() -> None:
    connections = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await saying(OK)(reader, writer)

    pool = Pool(2, 60.0)
    async with server(script) as endpoint:
        for _ in range(5):
            await pool.exchange(endpoint, REQUEST, time.monotonic() + 5, 1000)
        assert connections == 1
        # A rotated certificate is another endpoint.
        await pool.exchange(endpoint._replace(server_hostname="other"), REQUEST, time.monotonic() + 5, 1000)
        assert connections == 2
        pool.close()


async def test_a_connection_that_the_server_closes_or_that_idled_too_long_is_not_used_again() -> None:
    closing = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    for keep_alive, text in ((60.0, closing), (0.0, OK)):
        pool = Pool(1, keep_alive)
        async with server(saying(text)) as endpoint:
            for _ in range(3):
                answer = await pool.exchange(endpoint, REQUEST, time.monotonic() + 5, 1000)
                assert answer.body == b"ok"
            pool.close()


async def test_no_more_connections_than_allowed_and_nobody_is_forgotten() -> None:
    open_now = most = 0

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        try:
            await saying(OK)(reader, writer)
        finally:
            open_now -= 1

    pool = Pool(3, 60.0)
    async with server(script) as endpoint:
        deadline = time.monotonic() + 10
        answers = await asyncio.gather(*(pool.exchange(endpoint, REQUEST, deadline, 1000) for _ in range(50)))
        assert [one.body for one in answers] == [b"ok"] * 50
        assert most <= 3
        pool.close()


async def test_a_cancelled_exchange_frees_its_place_and_its_answer_reaches_nobody_else() -> None:
    asked = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await asyncio.sleep(0.05)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
        await saying(OK)(reader, writer)

    pool = Pool(1, 60.0)
    async with server(slow) as endpoint:
        first = asyncio.create_task(pool.exchange(endpoint, REQUEST, time.monotonic() + 5, 1000))
        second = asyncio.create_task(pool.exchange(endpoint, b"second" + REQUEST, time.monotonic() + 5, 1000))
        await asked.wait()
        first.cancel()
        asked.clear()
        assert (await second).body == b"wrong", "the second one's own connection, from its beginning"
        assert asked.is_set()
        pool.close()


async def test_silence_ends_at_the_deadline_as_lost() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    with pytest.raises(Lost, match="no answer in time"):
        await ask(silent, seconds=0.05)


async def test_waiting_for_a_busy_pool_ends_at_the_deadline_as_never_sent() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    pool = Pool(1, 60.0)
    async with server(silent) as endpoint:
        first = asyncio.create_task(pool.exchange(endpoint, REQUEST, time.monotonic() + 5, 1000))
        await asyncio.sleep(0.01)
        with pytest.raises(NeverSent, match="busy"):
            await pool.exchange(endpoint, REQUEST, time.monotonic() + 0.05, 1000)
        pool.close()
        with pytest.raises(Lost):
            await first


async def test_a_server_that_hangs_up_on_a_used_connection_is_told_apart() -> None:
    pool = Pool(1, 60.0)
    async with server(saying(OK, times=1)) as endpoint:
        await pool.exchange(endpoint, REQUEST, time.monotonic() + 5, 1000)
        [connection] = pool._idle
        # As if the server's end had not been noticed yet.
        with pytest.raises(Lost) as caught:
            await connection.exchange(REQUEST, time.monotonic() + 5, 1000)
        assert caught.value.unanswered
        pool.close()


async def test_a_half_answer_is_lost() -> None:
    with pytest.raises(Lost) as caught:
        await ask(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf", times=1))
    assert not caught.value.unanswered


async def test_nobody_listening_means_never_sent(unused_tcp_port: int) -> None:
    pool = Pool(1, 60.0)
    with pytest.raises(NeverSent):
        await pool.exchange(Endpoint("127.0.0.1", unused_tcp_port, None, None), REQUEST, time.monotonic() + 5, 10)
    pool.close()
    with pytest.raises(NeverSent, match="closed"):
        await pool.exchange(Endpoint("127.0.0.1", unused_tcp_port, None, None), REQUEST, time.monotonic() + 5, 10)
