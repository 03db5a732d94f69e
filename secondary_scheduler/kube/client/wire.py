"""HTTP/1.1 for small requests by the thousand: a pool of kept-alive connections, one write and one parse per exchange.

A general HTTP library spends most of a scheduler's processor time on what an API server never sends: cookies,
redirects, compression, charsets. Here an exchange is one buffer out and one answer in. What cannot be understood is
refused and its connection closed; nothing is guessed.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from typing import Final, NamedTuple, cast

HANDSHAKE_SECONDS: Final = 10.0
_LONGEST_HEAD: Final = 64 << 10
_LONGEST_CHUNK_LINE: Final = 256
_NO_BODY: Final = (204, 304)


class Answer(NamedTuple):
    """A complete answer; header names in lower case."""

    status: int
    headers: dict[bytes, bytes]
    body: bytes


class WireError(Exception):
    """No complete answer."""


class NeverSent(WireError):
    """The request did not leave this process."""


class Lost(WireError):
    """The request may have reached the server. `unanswered`: not a byte came back on a connection used before, as when
    the server had just closed it."""

    def __init__(self, text: str, *, unanswered: bool = False) -> None:
        super().__init__(text)
        self.unanswered = unanswered


class TooLong(WireError):
    """The answer's body is longer than the caller takes. The status is that of the answer."""

    def __init__(self, status: int) -> None:
        super().__init__("the answer is too long")
        self.status = status


class Endpoint(NamedTuple):
    """Where to connect, and how. Another context (a rotated certificate) means other connections."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    server_hostname: str | None


class Pool:
    """Connections to one server, at most `limit` at a time; the last one used is used first."""

    def __init__(self, limit: int, keep_alive: float) -> None:
        """`keep_alive` is how long, in seconds, an idle connection is trusted to be open still."""
        self._limit = limit
        self._keep_alive = keep_alive
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._reserved = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed = False

    async def exchange(self, endpoint: Endpoint, request: bytes, deadline: float, limit: int) -> Answer:
        """Send a request and return the answer.

        Args:
            deadline: `time.monotonic()` at which it is given up.
            limit: the most bytes of a body that are taken.

        Raises:
            NeverSent: no connection in time.
            Lost: sent, or a part of it, and no complete answer in time.
            TooLong: the body is longer than `limit`.
        """
        connection = await self._take(endpoint, deadline)
        try:
            return await connection.exchange(request, deadline, limit)
        finally:
            self._give_back(connection)

    def close(self) -> None:
        """Close all connections; exchanges under way end as Lost."""
        self._closed = True
        for connection in list(self._open):
            connection.close()
        self._idle.clear()
        while self._waiting:
            self._wake()

    async def _take(self, endpoint: Endpoint, deadline: float) -> _Connection:
        while not self._closed:
            oldest = time.monotonic() - self._keep_alive
            while self._idle:
                connection = self._idle.pop()
                if connection.usable(endpoint, oldest):
                    return connection
                self._drop(connection)
            if len(self._open) + self._reserved < self._limit:
                return await self._connect(endpoint, deadline)
            await self._wait(deadline)
        raise NeverSent("the client is closed")

    async def _connect(self, endpoint: Endpoint, deadline: float) -> _Connection:
        self._reserved += 1
        left = min(HANDSHAKE_SECONDS, deadline - time.monotonic())
        try:
            async with asyncio.timeout(max(left, 0.0)):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: _Connection(endpoint),
                    endpoint.host,
                    endpoint.port,
                    ssl=endpoint.tls,
                    server_hostname=(endpoint.server_hostname or endpoint.host) if endpoint.tls is not None else None,
                )
        except TimeoutError as error:
            self._wake()
            raise NeverSent(f"no connection to {endpoint.host}:{endpoint.port} in {max(left, 0.0):.1f} s") from error
        except OSError as error:
            self._wake()
            text = f"cannot connect to {endpoint.host}:{endpoint.port}: {error}"
            raise NeverSent(text) from error
        except BaseException:
            self._wake()
            raise
        finally:
            self._reserved -= 1
        if self._closed:
            connection.close()
            raise NeverSent("the client is closed")
        self._open.add(connection)
        return connection

    async def _wait(self, deadline: float) -> None:
        """Until a connection is given back."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            async with asyncio.timeout(max(deadline - time.monotonic(), 0.0)):
                await future
        except TimeoutError as error:
            raise NeverSent("all connections were busy all the time") from error
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._wake()
            raise

    def _give_back(self, connection: _Connection) -> None:
        if connection.reusable and not self._closed:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            self._drop(connection)
        self._wake()

    def _drop(self, connection: _Connection) -> None:
        self._open.discard(connection)
        connection.close()

    def _wake(self) -> None:
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(None)
                return


class _Connection(asyncio.Protocol):
    """One connection, one exchange at a time."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[Answer] | None = None
        self._parser = _Parser(0)
        self._used = False
        self.reusable = False
        """Open, and between two exchanges."""
        self.idle_since = 0.0

    def usable(self, endpoint: Endpoint, oldest: float) -> bool:
        """Whether it may be used for one more exchange."""
        known = self._endpoint
        return self.reusable and self.idle_since > oldest and (known is endpoint or known == endpoint)

    async def exchange(self, request: bytes, deadline: float, limit: int) -> Answer:
        """See `Pool.exchange`; the connection is closed unless the answer came in full and in time."""
        transport, loop = self._transport, self._loop
        if transport is None or transport.is_closing():
            raise NeverSent("the connection was closed")
        self.reusable = False
        self._parser = _Parser(limit)
        future = self._future = loop.create_future()
        timer = loop.call_later(max(deadline - time.monotonic(), 0.0), self._expire)
        try:
            transport.write(request)
            answer: Answer = await future
        finally:
            timer.cancel()
            self._future = None
        self._used = True
        if self._parser.keep_alive and not transport.is_closing():
            self.reusable = True
        return answer

    def close(self) -> None:
        """Close at once; an exchange under way is Lost."""
        self.reusable = False
        if self._transport is not None:
            self._transport.abort()
        self._fail(Lost("the client was closed"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none of asyncio's classes.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        future = self._future
        if future is None or future.done():
            # Nobody asked.
            self.close()
            return
        try:
            answer = self._parser.feed(data)
        except WireError as error:
            self._fail(error)
            self.close()
            return
        if answer is not None:
            future.set_result(answer)

    def eof_received(self) -> None:
        """The server will send no more: `connection_lost` follows."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.reusable = False
        answer = self._parser.end() if exc is None and self._future is not None else None
        if answer is not None and self._future is not None and not self._future.done():
            self._future.set_result(answer)
            return
        unanswered = self._used and not self._parser.started
        self._fail(Lost(str(exc) if exc else "the server closed the connection", unanswered=unanswered))

    def _expire(self) -> None:
        self._fail(Lost("no answer in time"))
        self.close()

    def _fail(self, error: WireError) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_exception(error)


class _Parser:
    """Reads one answer."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self._parts: list[bytes] = []
        self._size = 0
        self._left = 0
        self._status = 0
        self._headers: dict[bytes, bytes] = {}
        self._read = self._head
        self.keep_alive = False
        self.started = False

    def feed(self, data: bytes) -> Answer | None:
        """Take what arrived; returns the answer when it is complete. Raises WireError."""
        self.started = True
        return self._read(self._rest + data if self._rest else data)

    def end(self) -> Answer | None:
        """The connection has ended: returns the answer if its body lasted until then."""
        return self._answer(b"") if self._read == self._until_closed else None

    def _head(self, data: bytes) -> Answer | None:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if len(data) > _LONGEST_HEAD:
                raise Lost("the head of the answer does not end")
            self._rest = data
            return None
        lines = data[:end].split(b"\r\n")
        status = lines[0].split(b" ", 2)
        if len(status) < 2 or not status[0].startswith(b"HTTP/1.") or not (status[1].isdigit() and len(status[1]) == 3):
            raise Lost("the answer is not HTTP")
        self._status = int(status[1])
        headers: dict[bytes, bytes] = {}
        for line in lines[1:]:
            name, colon, value = line.partition(b":")
            if not colon:
                raise Lost("a header of the answer is none")
            headers[name.lower()] = value.strip()
        self._rest, rest = b"", data[end + 4 :]
        if self._status < 200:
            return self._head(rest) if rest else None
        self._headers = headers
        closes = headers.get(b"connection", b"").lower() == b"close" or status[0] == b"HTTP/1.0"
        return self._begin(rest, closes)

    def _begin(self, rest: bytes, closes: bool) -> Answer | None:
        """Find out how the body ends, and read on."""
        headers = self._headers
        self.keep_alive = not closes
        if self._status in _NO_BODY:
            self._read = self._fixed
            return self._fixed(rest)
        if b"transfer-encoding" in headers:
            if headers[b"transfer-encoding"].lower() != b"chunked":
                raise Lost("the answer has an unknown transfer encoding")
            self._read = self._chunks
            return self._chunks(rest)
        length = headers.get(b"content-length")
        if length is None:
            self.keep_alive = False
            self._read = self._until_closed
            return self._until_closed(rest) if rest else None
        if not length.isdigit() or len(length) > 18:
            raise Lost("the answer has a length that is none")
        self._left = int(length)
        if self._left > self._limit:
            raise TooLong(self._status)
        self._read = self._fixed
        return self._fixed(rest)

    def _fixed(self, data: bytes) -> Answer | None:
        self._left -= len(data)
        if self._left < 0:
            raise Lost("the answer is longer than it says")
        self._parts.append(data)
        if self._left:
            return None
        return self._answer(b"".join(self._parts) if len(self._parts) > 1 else data)

    def _until_closed(self, data: bytes) -> Answer | None:
        self._add(data)
        return None

    def _chunks(self, data: bytes) -> Answer | None:
        at = 0
        while True:
            if self._left > 0:
                part = data[at : at + self._left]
                self._add(part)
                self._left -= len(part)
                at += len(part)
                if self._left:
                    self._rest = b""
                    return None
                # The line end behind the chunk's data.
                self._left = -2
            if self._left == -2:
                if len(data) - at < 2:
                    break
                if data[at : at + 2] != b"\r\n":
                    raise Lost("a chunk of the answer is longer than it says")
                at += 2
                self._left = 0
            end = data.find(b"\r\n", at)
            if end < 0:
                if len(data) - at > _LONGEST_CHUNK_LINE:
                    raise Lost("a chunk of the answer has no length")
                break
            size = _chunk_size(data[at:end])
            at = end + 2
            if size == 0:
                self._read = self._trailer
                return self._trailer(data[at:])
            self._left = size
        self._rest = data[at:]
        return None

    def _trailer(self, data: bytes) -> Answer | None:
        """The end of the last chunk: an empty line, after headers that nobody needs."""
        while True:
            end = data.find(b"\r\n")
            if end == 0:
                if len(data) > 2:
                    raise Lost("the answer is longer than it says")
                return self._answer(b"".join(self._parts))
            if end < 0:
                if len(data) > _LONGEST_HEAD:
                    raise Lost("the trailer of the answer does not end")
                self._rest = data
                return None
            data = data[end + 2 :]

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            raise TooLong(self._status)
        self._parts.append(part)

    def _answer(self, body: bytes) -> Answer:
        if self._read == self._until_closed:
            body = b"".join(self._parts)
        return Answer(self._status, self._headers, body)


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    if not digits or len(digits) > 15:
        raise Lost("a chunk of the answer has no length")
    try:
        return int(digits, 16)
    except ValueError as error:
        raise Lost("a chunk of the answer has no length") from error
