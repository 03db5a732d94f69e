"""The connections to one API server: kept for the next request, opened when there is none."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import time
from collections import deque
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import aiohappyeyeballs
from msgspec import Struct

from scheduler.kube.client.config import CONNECT_TIMEOUT
from scheduler.kube.client.connection import Connection
from scheduler.kube.client.errors import ConfigError

_FALLBACK_DELAY: Final = 0.25
"""Seconds after which the next address of the server's name is tried beside the first (RFC 8305)."""
_KEEP_ALIVE: Final = 60.0
"""Below the API server's 90 s, so that the server is not the one to close a connection we are about to use."""
_CLOSING: Final = 2.0


class NotConnected(Exception):
    """There is no connection; nothing was sent.

    Attributes:
        host: of the server.
        port: of the server.
        os_error: why, in the system's words.
    """

    def __init__(self, host: str, port: int, os_error: Exception) -> None:
        super().__init__(f"cannot connect to {host}:{port}: {os_error}")
        self.host = host
        self.port = port
        self.os_error = os_error


class ServerAddress(Struct, frozen=True):
    """Where an API server is.

    Attributes:
        netloc: host and port as in the URL.
        prefix: the path before those of the API, without a slash at its end.
        tls_name: the name that its certificate must have.
    """

    host: str
    port: int
    netloc: str
    prefix: str
    tls_name: str

    @classmethod
    def of(cls, server: str, tls_server_name: str | None) -> ServerAddress:
        """Read a server's URL, which ClientConfig has checked. Raise ConfigError for a host or port that cannot be."""
        parts = urlsplit(server)
        standard = 443 if parts.scheme == "https" else 80
        try:
            host = _ascii(parts.hostname or "")
            port = parts.port or standard
        except ValueError as error:
            raise ConfigError(f"server {server!r}: {error}") from error
        name = f"[{host}]" if ":" in host else host
        netloc = name if port == standard else f"{name}:{port}"
        return cls(host, port, netloc, parts.path.rstrip("/"), (tls_server_name or host).rstrip("."))

    async def connect(self, tls: ssl.SSLContext | None, seconds: float) -> Connection:
        """Open a connection, with TLS unless that is None. Raises NotConnected."""
        seconds = max(min(CONNECT_TIMEOUT, seconds), 0.0)
        try:
            async with asyncio.timeout(seconds):
                return await self._connect(tls)
        except TimeoutError:
            late = TimeoutError(f"no connection within {seconds:.3g} s")
            raise NotConnected(self.host, self.port, late) from None
        except (OSError, ValueError) as error:
            # ValueError: a host that is no name, such as one with a label of more than 63 characters.
            raise NotConnected(self.host, self.port, error) from error

    async def _connect(self, tls: ssl.SSLContext | None) -> Connection:
        loop = asyncio.get_running_loop()
        addresses = await loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        sock = await aiohappyeyeballs.start_connection(addresses, happy_eyeballs_delay=_FALLBACK_DELAY, loop=loop)
        connection = Connection(loop, tls)
        try:
            await loop.create_connection(
                lambda: connection,
                sock=sock,
                ssl=tls,
                server_hostname=self.tls_name if tls is not None else None,
            )
        except BaseException:
            # The socket is its transport's. Closed under it, its number would be that of another connection at once.
            connection.abort()
            raise
        return connection


class _Waiter(NamedTuple):
    """Who waits gets a connection, or None: the place to open one, which counts as taken."""

    tls: ssl.SSLContext | None
    place: asyncio.Future[Connection | None]


class ConnectionPool:
    """At most `limit` connections in use at a time (None: any number); they are given out in the order of arrival.

    Of these at most `opening` are being opened at a time (None: any number). Of a hundred requests at once the first
    would else wait for a hundred handshakes; as it is, those that wait go on with the connections of the first.

    Every connection that `take` or `open` returned is given back by `release`.
    """

    def __init__(self, address: ServerAddress, *, limit: int | None, opening: int | None = None) -> None:
        self._address = address
        self._limit = sys.maxsize if limit is None else limit
        self._max_opening = sys.maxsize if opening is None else opening
        self._in_use: set[Connection] = set()
        self._places_taken = 0
        self._opening = 0
        self._waiters: deque[_Waiter] = deque()
        self._idle: deque[Connection] = deque()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def in_use(self) -> int:
        """How many connections carry a request."""
        return len(self._in_use)

    def take(self, tls: ssl.SSLContext | None) -> Connection | None:
        """Return an idle connection with this TLS context; None if there is none, or the limit is reached."""
        if not self._idle or self._places_taken >= self._limit:
            return None
        return self.take_from(self, tls)

    def take_from(self, other: ConnectionPool, tls: ssl.SSLContext | None) -> Connection | None:
        """Take an idle connection over from a pool; None if there is none. The limit is not looked at."""
        oldest = asyncio.get_running_loop().time() - _KEEP_ALIVE
        while other._idle:
            # The one that was used last: the others grow old and are closed.
            connection = other._idle.pop()
            if connection.tls is tls and connection.idle_since > oldest and connection.reusable:
                self._places_taken += 1
                self._in_use.add(connection)
                return connection
            connection.abort()
        return None

    async def open(self, tls: ssl.SSLContext | None, deadline: float, *, at_once: bool = False) -> Connection:
        """Return a new connection, or the next that is free where that comes first or the limit is reached.

        `deadline` is a time of time.monotonic. `at_once`: whatever else is being opened. Raises NotConnected.
        """
        if self._places_taken < self._limit and (at_once or self._opening < self._max_opening):
            self._places_taken += 1
            self._opening += 1
        else:
            free = await self._wait_for_place(tls, deadline)
            if free is not None:
                return free
        try:
            connection = await self._address.connect(tls, deadline - time.monotonic())
        except BaseException:
            self._places_taken -= 1
            self._opening -= 1
            # Often all fail then, and each after seconds: one after the other they would miss their deadlines.
            self._serve_waiters(at_once=True)
            raise
        self._in_use.add(connection)
        self._opening -= 1
        self._serve_waiters()
        if self._closed:
            connection.abort()
        return connection

    async def _wait_for_place(self, tls: ssl.SSLContext | None, deadline: float) -> Connection | None:
        place: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiters.append(_Waiter(tls, place))
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await place
        except BaseException as error:
            if place.done() and not place.cancelled() and place.exception() is None:
                self._give_back(place.result())
            place.cancel()
            if isinstance(error, TimeoutError):
                late = TimeoutError("no connection became free in time")
                raise NotConnected(self._address.host, self._address.port, late) from None
            raise

    def _serve_waiters(self, *, at_once: bool = False) -> None:
        while self._waiters and self._places_taken < self._limit:
            waiter = self._waiters[0]
            connection = None
            if not waiter.place.done():
                connection = self.take(waiter.tls)
                if connection is None:
                    if not at_once and self._opening >= self._max_opening:
                        return
                    self._places_taken += 1
                    self._opening += 1
                waiter.place.set_result(connection)
            self._waiters.popleft()

    def _give_back(self, connection: Connection | None) -> None:
        if connection is not None:
            self.release(connection)
            return
        self._places_taken -= 1
        self._opening -= 1
        self._serve_waiters()

    def release(self, connection: Connection) -> None:
        """Give a connection back, whatever became of it."""
        self._in_use.discard(connection)
        if connection.reusable and not self._closed:
            loop = asyncio.get_running_loop()
            if not connection.idle_since:
                connection.remember_session()
            connection.idle_since = loop.time()
            self._idle.append(connection)
            if self._sweep is None:
                self._sweep = loop.call_later(_KEEP_ALIVE, self._close_old)
        else:
            connection.abort()
        self._places_taken -= 1
        self._serve_waiters()

    async def close(self) -> None:
        """Close all connections; what is under way fails."""
        self._closed = True
        if self._sweep is not None:
            self._sweep.cancel()
        for waiter in self._waiters:
            if not waiter.place.done():
                closed = ConnectionAbortedError("the client was closed")
                waiter.place.set_exception(NotConnected(self._address.host, self._address.port, closed))
        connections = [*self._idle, *self._in_use]
        self._idle.clear()
        for connection in connections:
            connection.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING):
                for connection in connections:
                    await connection.wait_closed()

    def _close_old(self) -> None:
        loop = asyncio.get_running_loop()
        while self._idle and self._idle[0].idle_since <= loop.time() - _KEEP_ALIVE:
            self._idle.popleft().abort()
        self._sweep = loop.call_later(_KEEP_ALIVE, self._close_old) if self._idle else None


def _ascii(host: str) -> str:
    return host if host.isascii() else host.encode("idna").decode("ascii")
