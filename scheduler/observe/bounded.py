"""The HTTP server of every port of ours: aiohttp behind an accept loop that keeps to limits.

asyncio's own accepts whoever comes, and takes 300 KiB for each before a byte has arrived. Here a connection that has
sent nothing is a socket and a few names; TLS and HTTP begin with its first byte. Imported where a server starts, as
aiohttp takes a sixth of a second.

How many connections a server holds, what it waits for on each, and which one goes when there are too many.

Knows no socket: a connection is closed by the function that it came with.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import enum
import errno
import functools
import socket
import ssl
import struct
import time
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.streams import EMPTY_PAYLOAD, StreamReader

from scheduler.connectionlimits import ConnectionLimits, client_of
from scheduler.observe.counted import CountedEvents, CountReport

_BACKLOG: Final = 4096
"""What Linux allows by default. Where the queue is full, a client waits for a second, until it sends its SYN again."""
_ACCEPTED_AT_ONCE: Final = 128
"""Between looks at connections that are open: a flood does not delay these."""
_BEGUN_AT_ONCE: Final = 16
"""As many of those begin TLS and HTTP meanwhile, which takes five times as long: the others wait, or go. So the queue
of those that are to be accepted moves on."""
_SWEEP_SECONDS: Final = 1.0
_FLOOD: Final = 256
"""Connections dropped: once no more are, the memory that they had goes back to the system."""
_BUFFER_BYTES: Final = 16 << 10
"""The largest record of TLS."""
_MAX_UNASKED: Final = 64 << 10
"""Bytes of a request's head, and of requests that come before the answer to the one before."""
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_RESET: Final = struct.pack("ii", 1, 0)
"""Of SO_LINGER: nothing of a connection stays in the kernel."""
_DROPPED, _MALFORMED = "connections dropped", "malformed requests"


@contextlib.asynccontextmanager
async def serving(
    application: web.Application,
    listeners: Sequence[socket.socket],
    *,
    limits: ConnectionLimits,
    report: CountReport,
    tls: ssl.SSLContext | None = None,
    count: Callable[[str], None] = lambda _: None,
    shutdown_seconds: float = 1.0,
) -> AsyncIterator[None]:
    """Serve an application while the context lasts; then answers that are under way are finished.

    Args:
        application: what is served.
        listeners: bound sockets; closed at the end.
        limits: of connections.
        report: gets counted lines about connections and requests that were not served.
        tls: to serve with; None for plain HTTP.
        count: gets the reason of each of them: a value of `Drop`.
        shutdown_seconds: for answers that are under way at the end.
    """
    # No access log: its lines would say who looked at what, and on some ports hold a token.
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=shutdown_seconds)
    await runner.setup()
    assert runner.server is not None
    server = _BoundedServer(runner.server, tls, limits, report, count)
    try:
        server.start(listeners)
        yield
    finally:
        server.stop_accepting()
        await runner.cleanup()
        await server.stop()


class _BoundedServer:
    """Accepts connections, and hands those that say something to aiohttp."""

    def __init__(
        self,
        server: web.Server,
        tls: ssl.SSLContext | None,
        limits: ConnectionLimits,
        report: CountReport,
        count: Callable[[str], None],
    ) -> None:
        self.connections = Connections(limits, self._note_drop)
        self._tls, self._count = tls, count
        self._events = CountedEvents(report)
        self._loop = asyncio.get_running_loop()
        # Nobody has to send us a compressed body, which may be a small one of a large text.
        self._new_handler = functools.partial(
            _Handler, self, server, loop=self._loop, access_log=None, auto_decompress=False
        )
        self._listeners: Sequence[socket.socket] = ()
        self._sweeping: asyncio.TimerHandle | None = None
        self._begun = 0
        self._dropped = self._dropped_before = 0
        self._answer = server.request_handler
        server.request_handler = self._answer_asked

    def start(self, listeners: Sequence[socket.socket]) -> None:
        """Accept connections."""
        self._listeners = listeners
        for listener in listeners:
            listener.setblocking(False)
            listener.listen(_BACKLOG)
            self._loop.add_reader(listener, self._accept, listener)
        self._sweep()

    def stop_accepting(self) -> None:
        """Refuse new connections; those that are open go on."""
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        if self._sweeping is not None:
            self._sweeping.cancel()

    async def stop(self) -> None:
        """Cut off who is still connected: a client may take its time to agree to the end of TLS."""
        self.connections.close_all()
        self._events.flush(everything=True)
        # What an abort closes is closed in the loop's next round.
        await asyncio.sleep(0)

    def note_malformed(self, connection: ClientConnection, reason: str) -> None:
        """Count a request that could not be read."""
        self._count(Drop.MALFORMED)
        self._events.note(_MALFORMED, connection.address, reason)

    def _note_drop(self, connection: ClientConnection, reason: Drop, words: str) -> None:
        self._dropped += 1
        self._count(reason)
        self._events.note(_DROPPED, connection.address, words)

    def _sweep(self) -> None:
        self._sweeping = self._loop.call_later(_SWEEP_SECONDS, self._sweep)
        self.connections.drop_overdue()
        self._events.flush()
        if self._dropped >= _FLOOD and self._dropped == self._dropped_before:
            self._dropped = 0
            _give_memory_back()
        self._dropped_before = self._dropped

    def _accept(self, listener: socket.socket) -> None:
        fresh: list[tuple[ClientConnection, socket.socket]] = []
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                break
            except OSError as error:
                if error.errno not in _NO_DESCRIPTOR:
                    raise
                # What goes may have been closed by the next look.
                if not self.connections.make_room(Drop.DESCRIPTORS, "no file descriptor is left"):
                    self._pause(listener)
                break
            connection = ClientConnection(address[0], functools.partial(_reset, accepted))
            wait = Wait.HANDSHAKE if self._tls is not None else Wait.FIRST_REQUEST
            if self.connections.enter(connection, wait):
                fresh.append((connection, accepted))
            else:
                _reset(accepted)
        # Last, as in a flood most of them are gone by now.
        for connection, accepted in fresh:
            descriptor = accepted.fileno()
            if descriptor >= 0:
                accepted.setblocking(False)
                connection.close = functools.partial(self._reset_silent, descriptor, accepted)
                self._loop.add_reader(descriptor, self._begin, connection, accepted)

    def _pause(self, listener: socket.socket) -> None:
        """Nobody can be accepted, though the socket says that somebody waits: look again in a second."""
        self._events.note("connections not accepted", "none", "no file descriptor is left")
        self._loop.remove_reader(listener)
        self._loop.call_later(_SWEEP_SECONDS, self._resume, listener)

    def _resume(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            self._loop.add_reader(listener, self._accept, listener)

    def _reset_silent(self, descriptor: int, accepted: socket.socket) -> None:
        self._loop.remove_reader(descriptor)
        _reset(accepted)

    def _begin(self, connection: ClientConnection, accepted: socket.socket) -> None:
        """The first byte has arrived, or the client has gone."""
        if self._begun >= _BEGUN_AT_ONCE and not self.connections.holds_few(connection):
            # The loop tells of it again.
            return
        if not self._begun:
            self._loop.call_soon(self._begin_more)
        self._begun += 1
        self._loop.remove_reader(accepted.fileno())
        try:
            gone = not accepted.recv(1, socket.MSG_PEEK)
        except OSError:
            gone = True
        if gone:
            self.connections.leave(connection)
            accepted.close()
            return
        handler = self._new_handler(connection)
        protocol = handler if self._tls is None else _Tls(self._loop, handler, self._tls)
        # As `connect_accepted_socket` does, but without a task: one that is dropped in between would keep all of this
        # in memory until the garbage collector runs.
        transport = self._loop._make_socket_transport(accepted, protocol)  # type: ignore[attr-defined]
        # What is read at once without TLS; 256 KiB otherwise.
        transport.max_size = _BUFFER_BYTES
        connection.close = transport.abort

    def _begin_more(self) -> None:
        self._begun = 0

    async def _answer_asked(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request, whose head has been read."""
        handler = request.protocol
        assert isinstance(handler, _Handler)
        handler.begin(request)
        return await self._answer(request)


def _give_memory_back() -> None:
    """Have the C library return what many connections had, where it knows how: it keeps it for the next ones."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _forget_frames(error: BaseException | None) -> None:
    """Let what a failed connection held go at once. Its frames hold the error, which holds them: that stays until the
    garbage collector runs, and a scheduler's hardly ever does."""
    if error is not None:
        error.__traceback__ = None


def _reset(accepted: socket.socket) -> None:
    with contextlib.suppress(OSError):
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    accepted.close()


class _Tls(SSLProtocol):
    """asyncio's TLS with a buffer of 16 KiB for a connection, instead of 256."""

    max_size = _BUFFER_BYTES

    def __init__(self, loop: asyncio.AbstractEventLoop, handler: _Handler, context: ssl.SSLContext) -> None:
        super().__init__(
            loop,
            handler,
            context,
            waiter=None,  # type: ignore[arg-type] # nobody waits, and an exception that nobody gets would be logged
            server_side=True,
            # After the look that drops the connection and counts it.
            ssl_handshake_timeout=SECONDS[Wait.HANDSHAKE] + 2,
            ssl_shutdown_timeout=SECONDS[Wait.HANDSHAKE],
        )
        self._handler = handler

    def connection_lost(self, exc: BaseException | None) -> None:
        """The socket is gone; where there was no handshake, asyncio does not tell aiohttp."""
        super().connection_lost(exc)
        self._handler.connection_lost(exc)
        _forget_frames(exc)

    def pause_writing(self) -> None:
        """The client does not read: aiohttp only hears of what has not been encrypted."""
        super().pause_writing()
        self._handler.note_unread(True)

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        self._handler.note_unread(False)


class _Handler(web.RequestHandler):
    """aiohttp's side of a connection, which tells what its client has to do next."""

    __slots__ = ("_answering", "_body", "_bounded", "_connection", "_unasked", "_unread")

    def __init__(
        self, bounded: _BoundedServer, manager: web.Server, connection: ClientConnection, **settings: Any
    ) -> None:
        super().__init__(manager, **settings)
        self._bounded, self._connection = bounded, connection
        self._answering = False
        self._body: StreamReader = EMPTY_PAYLOAD
        self._unasked = 0
        self._unread = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TLS is agreed on, where there is any."""
        super().connection_made(transport)
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=_MAX_UNASKED)
        self._bounded.connections.wait_for(self._connection, Wait.FIRST_REQUEST)

    def connection_lost(self, exc: BaseException | None) -> None:
        """The client has gone, or was sent away."""
        super().connection_lost(exc)
        self._bounded.connections.leave(self._connection)

    def data_received(self, data: bytes) -> None:
        """Take what the client sends, as long as it is not more than it was asked for."""
        if self._body.is_eof():
            self._unasked += len(data)
            if self._unasked > _MAX_UNASKED:
                words = f"more than {_MAX_UNASKED >> 10} KiB before an answer"
                self._bounded.connections.drop(self._connection, Drop.LARGE_HEAD, words)
                return
        super().data_received(data)

    def begin(self, request: web.BaseRequest) -> None:
        """A request's head has been read."""
        self._answering, self._body, self._unasked = True, request.content, 0
        self._show_wait()
        request.content.on_eof(self._show_wait)

    def log_access(self, request: web.BaseRequest, response: web.StreamResponse, time: float | None) -> None:
        """An answer has been written: here aiohttp would log it."""
        self._answering = False
        self._show_wait()

    def pause_writing(self) -> None:
        """The client does not read as fast as it is answered."""
        super().pause_writing()
        self._show_wait()

    def resume_writing(self) -> None:
        """It has read."""
        super().resume_writing()
        self._show_wait()

    def note_unread(self, unread: bool) -> None:
        """The socket takes no more for now, or takes more again."""
        self._unread = unread
        self._show_wait()

    def _show_wait(self) -> None:
        wait: Wait | None
        if self._unread or self.writing_paused:
            wait = Wait.READ
        elif not self._body.is_eof():
            wait = Wait.BODY
        else:
            wait = None if self._answering else Wait.NEXT_REQUEST
        if wait is not self._connection.wait:
            self._bounded.connections.wait_for(self._connection, wait)

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> web.StreamResponse:
        """Answer a request that cannot be read, without the traceback that aiohttp logs for each."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        self._bounded.note_malformed(self._connection, exc.message)
        _forget_frames(exc)
        response = web.Response(status=status, text=f"{status}: the request cannot be read\n")
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log a defect of ours with its traceback, and count what a client sent after a request's head."""
        error = kw.get("exc_info")
        if isinstance(error, web.RequestPayloadError | HttpProcessingError):
            self._bounded.note_malformed(self._connection, str(error))
        elif not (isinstance(error, ConnectionError) and self.transport is None):
            super().log_exception(*args, **kw)


_FEW: Final = 4
"""A kubelet or a Prometheus has no more connections to one port."""


class Wait(enum.Enum):
    """What the client of a connection has to do next."""

    HANDSHAKE = "no TLS handshake"
    FIRST_REQUEST = "no request"
    NEXT_REQUEST = "no further request"
    BODY = "no end of the request's body"
    READ = "the answer is not read"


SECONDS: Final = {
    Wait.HANDSHAKE: 5,
    Wait.FIRST_REQUEST: 10,
    # As Go's API machinery: Prometheus reads every 15 to 60 s.
    Wait.NEXT_REQUEST: 90,
    Wait.BODY: 30,
    Wait.READ: 30,
}
"""For how long. A byte now and then is no progress: the time counts from the step before."""


class Drop(enum.StrEnum):
    """Why a connection was not served to its end; a label of the metric."""

    ADDRESS = "address_limit"
    TOTAL = "total_limit"
    TIMEOUT = "timeout"
    LARGE_HEAD = "large_head"
    DESCRIPTORS = "no_descriptor"
    MALFORMED = "malformed"


class ClientConnection:
    """One connection, from the moment it is accepted. `close` ends it at once; its owner replaces it as it grows up."""

    __slots__ = ("address", "client", "close", "since", "wait")

    def __init__(self, address: str, close: Callable[[], None]) -> None:
        self.address, self.client, self.close = address, client_of(address), close
        self.wait: Wait | None = None
        """None while its request is being answered."""
        self.since = 0.0


class _Client:
    """The connections of one client: their number, and those that wait, in the order in which they began to."""

    __slots__ = ("number", "unproven", "waiting")

    def __init__(self) -> None:
        self.number = 0
        self.waiting: dict[ClientConnection, None] = {}
        self.unproven: dict[ClientConnection, None] = {}


class Connections:
    """The open connections of a port, within its limits.

    Where there are too many, one goes whose client keeps the server waiting: of the client with the most connections
    that have made no request yet, the oldest of these; where nobody has more than four, of the client with the most
    connections the one that waits longest. So whoever has few keeps them, and a newcomer has the time that its
    handshake takes, however many others come. An address beyond its own number gives up one of its own: those without
    a request first, as long as they are the larger half, for it may stand for several clients.
    A connection whose request is being answered never goes: where all are, the newcomer does.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        on_drop: Callable[[ClientConnection, Drop, str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_drop` is told of each connection that is not served to its end, with the reason in words."""
        self._limits, self._on_drop, self._clock = limits, on_drop, clock
        self._clients: dict[str, _Client] = {}
        self._open: set[ClientConnection] = set()

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, connection: ClientConnection, wait: Wait) -> bool:
        """Take in a new connection, for which another may have to go; False where none can."""
        client, (total, per_address) = self._clients.get(connection.client), self._limits
        if per_address is not None and client is not None and client.number >= per_address:
            reason, words = Drop.ADDRESS, f"more than {per_address} of one address"
            room = self._drop_one_of(client, reason, words)
        elif len(self._open) >= total:
            reason, words = Drop.TOTAL, f"more than {total} in all"
            room = self.make_room(reason, words)
        else:
            room = True
        if room:
            self._open.add(connection)
            self._clients.setdefault(connection.client, _Client()).number += 1
            self.wait_for(connection, wait)
        else:
            self._on_drop(connection, reason, words)
        return room

    def make_room(self, reason: Drop, words: str) -> bool:
        """Drop a connection, whosever it is; False where none waits for its client."""
        clients = [client for client in self._clients.values() if client.waiting]
        if not clients:
            return False
        chosen = max(clients, key=lambda client: len(client.unproven))
        if len(chosen.unproven) <= _FEW:
            chosen = max(clients, key=lambda client: client.number)
        return self._drop_one_of(chosen, reason, words)

    def holds_few(self, connection: ClientConnection) -> bool:
        """Tell whether its client has no more than a few connections."""
        client = self._clients.get(connection.client)
        return client is not None and client.number <= _FEW

    def wait_for(self, connection: ClientConnection, wait: Wait | None) -> None:
        """Note what its client has to do now; None: nothing, as the server is at work."""
        if connection not in self._open:
            return
        client = self._clients[connection.client]
        self._end_wait(client, connection)
        connection.wait, connection.since = wait, self._clock()
        if wait is not None:
            client.waiting[connection] = None
        if wait is Wait.HANDSHAKE or wait is Wait.FIRST_REQUEST:
            client.unproven[connection] = None

    def leave(self, connection: ClientConnection) -> None:
        """Forget a connection that has ended; one that is not known is no error."""
        if connection in self._open:
            self._open.discard(connection)
            client = self._clients[connection.client]
            self._end_wait(client, connection)
            client.number -= 1
            if not client.number:
                del self._clients[connection.client]

    def drop(self, connection: ClientConnection, reason: Drop, words: str) -> None:
        """End a connection that is not to be served any further; one that is not known is no error."""
        if connection in self._open:
            self._end(connection)
            self._on_drop(connection, reason, words)

    def drop_overdue(self) -> None:
        """End the connections whose clients have taken too long."""
        now = self._clock()
        for connection in list(self._open):
            wait = connection.wait
            if wait is None or now - connection.since < SECONDS[wait]:
                continue
            if wait is Wait.NEXT_REQUEST:
                # The usual end of a connection: nobody has to hear of it.
                self._end(connection)
            else:
                self.drop(connection, Drop.TIMEOUT, f"{wait.value} within {SECONDS[wait]} s")

    def close_all(self) -> None:
        """End every connection."""
        for connection in list(self._open):
            self._end(connection)

    def _drop_one_of(self, client: _Client, reason: Drop, words: str) -> bool:
        mostly_unproven = 2 * len(client.unproven) > client.number
        chosen = next(iter(client.unproven if mostly_unproven else client.waiting), None)
        if chosen is None:
            return False
        self.drop(chosen, reason, words)
        return True

    def _end(self, connection: ClientConnection) -> None:
        self.leave(connection)
        connection.close()

    def _end_wait(self, client: _Client, connection: ClientConnection) -> None:
        # What waits anew goes to the end: the order is that of the times.
        client.waiting.pop(connection, None)
        client.unproven.pop(connection, None)
