"""One connection to an API server over HTTP/1.1: one request at a time, its answer whole or as a stream.

Each request is one write, and so mostly one TLS record and one packet. The two requests per pod were the larger part
of the scheduler's processor time with a general HTTP library (docs/adr/0031-our-own-http-connections.md).
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Final, NamedTuple, cast

from scheduler.kube.client.credentials import ResumingContext
from scheduler.kube.client.responses import AnswerParser, Head, MalformedAnswer

ERROR_BODY: Final = 64 << 10
"""So many bytes of a failure's body are read; of a longer one, nothing is kept."""
_HIGH_WATER: Final = 1 << 20
"""So much of a stream waits for its reader at most, then no more is read from the socket."""


class ConnectionClosed(Exception):
    """The connection ended before the answer was complete.

    Attributes:
        answered: the head of an answer had arrived.
    """

    def __init__(self, message: str, *, answered: bool) -> None:
        super().__init__(message)
        self.answered = answered


class HTTPAnswer(NamedTuple):
    """An answer with its whole body; `body` is None where it was too large. A redirect's body is not read."""

    status: int
    body: bytes | None
    retry_after: str


class Connection(asyncio.Protocol):
    """An open connection.

    Attributes:
        tls: the context that it was made with; a connection of an older one is not used again.
        idle_since: by the loop's clock, when the pool got it back.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: ssl.SSLContext | None) -> None:
        self.tls = tls
        self.idle_since = 0.0
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._aborted = False
        self._exchange: _Whole | Stream | None = None
        self._ended: asyncio.Future[None] = loop.create_future()

    @property
    def reusable(self) -> bool:
        """Whether another request can be sent: it is open, nothing is under way, and nothing came unasked."""
        return self._exchange is None and self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: bytes, *, timeout: float, limit: int) -> HTTPAnswer:
        """Send a request and read its answer, at most `limit` bytes of the body, of a failure's ERROR_BODY.

        Raises TimeoutError, ConnectionClosed, MalformedAnswer; the connection is closed then, and when the caller is
        cancelled.
        """
        exchange = _Whole(self._loop.create_future(), limit)
        self._begin(exchange, request)
        timer = self._loop.call_later(timeout, exchange.time_out)
        try:
            return await exchange.result
        except BaseException:
            self.abort()
            raise
        finally:
            timer.cancel()

    async def open(self, request: bytes, *, timeout: float, silence: float) -> Stream:
        """Send a request and wait for the head of its answer; the body comes by `read` of what is returned.

        Raises as `ask`. `timeout` spans all, `silence` the time between bytes. The connection ends with the stream:
        call its `stop`.
        """
        stream = Stream(self._loop, cast(asyncio.Transport, self._transport), timeout, silence)
        self._begin(stream, request)
        try:
            await stream.opened
        except BaseException:
            stream.stop()
            raise
        return stream

    def _begin(self, exchange: _Whole | Stream, request: bytes) -> None:
        transport = self._transport
        assert transport is not None
        assert self._exchange is None
        self._exchange = exchange
        if transport.is_closing():
            # Its end is known, but has not been told yet.
            exchange.lost(None)
        else:
            transport.write(request)

    def remember_session(self) -> None:
        """Let later connections with its TLS context resume its session; call it after an answer."""
        if isinstance(self.tls, ResumingContext) and self._transport is not None:
            self.tls.remember(self._transport.get_extra_info("ssl_object"))

    def abort(self) -> None:
        """Close it at once; what is under way fails. One that is being opened is closed when it is open."""
        self._aborted = True
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Wait for the end of a connection that was aborted."""
        await asyncio.shield(self._ended)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Of asyncio.Protocol."""
        self._transport = cast(asyncio.Transport, transport)
        if self._aborted:
            self.abort()

    def data_received(self, data: bytes) -> None:
        """Of asyncio.Protocol."""
        exchange = self._exchange
        if exchange is None:
            self.abort()  # Bytes that nobody asked for: what follows them would be taken for another's answer.
            return
        try:
            over = exchange.feed(data)
        except MalformedAnswer as error:
            exchange.fail(error)
            self.abort()
            return
        if over:
            self._exchange = None
            if not exchange.reusable:
                self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        """Of asyncio.Protocol."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.lost(error)
        if not self._ended.done():
            self._ended.set_result(None)


class _Whole:
    """An answer whose body is handed over in one piece."""

    __slots__ = ("_limit", "_parts", "_size", "parser", "result", "reusable")

    def __init__(self, result: asyncio.Future[HTTPAnswer], limit: int) -> None:
        self.parser = AnswerParser()
        self.result = result
        self.reusable = False
        self._limit = limit
        self._size = 0
        self._parts: list[bytes] = []

    def feed(self, data: bytes) -> bool:
        """Read bytes; returns whether the answer is over, be it that the rest is not wanted."""
        parser = self.parser
        part = parser.feed(data)
        head = parser.head
        if head is None:
            return False
        if part:
            self._size += len(part)
            self._parts.append(part)
        if parser.complete and self._size <= self._limit_of(head):
            self.reusable = head.reusable and not parser.surplus
            self._finish(head)
            return True
        if 300 <= head.status < 400:
            self._parts.clear()
            self._finish(head)
            return True
        if max(self._size, head.length or 0) > self._limit_of(head):
            self._answer(HTTPAnswer(head.status, None, head.retry_after))
            return True
        return False

    def _limit_of(self, head: Head) -> int:
        return self._limit if head.status < 300 else min(self._limit, ERROR_BODY)

    def _finish(self, head: Head) -> None:
        parts = self._parts
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._answer(HTTPAnswer(head.status, body, head.retry_after))

    def _answer(self, answer: HTTPAnswer) -> None:
        if not self.result.done():
            self.result.set_result(answer)

    def time_out(self) -> None:
        self.fail(TimeoutError())

    def fail(self, error: Exception) -> None:
        if not self.result.done():
            self.result.set_exception(error)

    def lost(self, error: Exception | None) -> None:
        head = self.parser.head
        if error is None and head is not None and self.parser.finish():
            self._finish(head)
        else:
            self.fail(_closed(error, answered=head is not None))


class Stream:
    """An answer whose body is handed over as it arrives."""

    reusable: Final = False

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, timeout: float, silence: float
    ) -> None:
        self.parser = AnswerParser()
        self.opened: asyncio.Future[None] = loop.create_future()
        self._loop = loop
        self._transport = transport
        self._parts: list[bytes] = []
        self._waiting = 0
        self._paused = False
        self._news: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._silence = silence
        self._heard = loop.time()
        self._deadline = loop.call_later(timeout, self._time_out)
        self._watchdog = loop.call_later(silence, self._check_silence)

    @property
    def head(self) -> Head:
        """The head of the answer."""
        return cast(Head, self.parser.head)

    async def read(self) -> bytes:
        """Return all that has arrived, waiting for the first byte of it; nothing at the end of the body.

        Raises TimeoutError, ConnectionClosed, MalformedAnswer.
        """
        while not self._parts:
            if self._error is not None:
                raise self._error
            if self.parser.complete:
                return b""
            self._news = self._loop.create_future()
            await self._news
        body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self._waiting = 0
        if self._paused:
            self._paused = False
            self._heard = self._loop.time()
            self._transport.resume_reading()
        return body

    def stop(self) -> None:
        """End the timers and the connection."""
        self._deadline.cancel()
        self._watchdog.cancel()
        self._transport.abort()

    def feed(self, data: bytes) -> bool:
        """Read bytes; returns whether the answer is over."""
        self._heard = self._loop.time()
        part = self.parser.feed(data)
        if part:
            self._parts.append(part)
            self._waiting += len(part)
            if self._waiting > _HIGH_WATER and not self._paused:
                self._paused = True
                self._transport.pause_reading()
        if self.parser.head is not None and not self.opened.done():
            self.opened.set_result(None)
        self._wake()
        return self.parser.complete

    def fail(self, error: Exception) -> None:
        """End it with an error, after what has arrived."""
        if self._error is None and not self.parser.complete:
            self._error = error
        if not self.opened.done():
            self.opened.set_exception(error)
        self._wake()

    def lost(self, error: Exception | None) -> None:
        """The connection has ended."""
        if error is not None or not self.parser.finish():
            self.fail(_closed(error, answered=self.parser.head is not None))
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def _time_out(self) -> None:
        self.fail(TimeoutError())

    def _check_silence(self) -> None:
        quiet = 0.0 if self._paused else self._loop.time() - self._heard
        if quiet >= self._silence:
            self.fail(TimeoutError(f"nothing arrived for {self._silence:g} s"))
        else:
            self._watchdog = self._loop.call_later(max(self._silence - quiet, 0.001), self._check_silence)


def _closed(error: Exception | None, *, answered: bool) -> ConnectionClosed:
    words = "the server closed the connection" + (" before the answer was complete" if answered else "")
    if error is not None:
        words += f": {error.strerror if isinstance(error, OSError) and error.strerror else error}"
    closed = ConnectionClosed(words, answered=answered)
    closed.__cause__ = error
    return closed
