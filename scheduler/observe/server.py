"""The HTTPS server in a thread and event loop of its own: a busy scheduling loop never delays a probe."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

import structlog

from scheduler.observe.answers import Answers

if TYPE_CHECKING:
    from aiohttp.web import AppRunner

log = structlog.get_logger(component="serving")

_SAID_AGAIN_SECONDS: Final = 60.0
_EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 # upstream's default


class RefusedCallers:
    """Handles what a loop with a server reports: callers that cannot be accepted are logged once a minute.

    Where no descriptor is left, asyncio logs a traceback for each of its attempts, a hundred a second: idle callers
    would fill the disk with it.
    """

    def __init__(self) -> None:
        self._said_at = -_SAID_AGAIN_SECONDS

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log what a loop hands to its exception handler."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)):
            loop.default_exception_handler(context)
        elif loop.time() - self._said_at >= _SAID_AGAIN_SECONDS:
            self._said_at = loop.time()
            log.error("callers cannot be served: no file descriptor is left", reason=error.strerror)


async def stop_serving(runner: AppRunner) -> None:
    """Stop serving, as `runner.cleanup()`, and cut off who is connected.

    aiohttp only asks a TLS connection to close: asyncio then waits for the caller to agree, and where the loop ends
    before that, the socket stays open until the garbage collector finds it.
    """
    connections = runner.server.connections if runner.server is not None else []
    transports = [connection.transport for connection in connections if connection.transport is not None]
    await runner.cleanup()
    for transport in transports:
        transport.abort()
    # What an abort closes is closed in the loop's next round.
    await asyncio.sleep(0)


class Server:
    """The HTTPS server.

    `bind` takes the port, which refuses connections until the thread that `start` begins is ready to answer them.
    `stop` returns when it has ended. `ended` gets the exception that ends the thread before.
    """

    def __init__(
        self,
        *,
        address: str,
        port: int,
        share_port: bool = False,
        make_tls: Callable[[], ssl.SSLContext],
        answers: Answers,
        on_serving: Callable[[], None] = lambda: None,
    ) -> None:
        """Configure; nothing is bound or started yet.

        Args:
            address, port: where to listen; "" is every address.
            share_port: let other processes listen on it too.
            make_tls: called in the server's thread, as making a certificate takes a while.
            answers: what the endpoints answer from.
            on_serving: called in the server's thread once requests are answered.
        """
        self.port = port
        self._address, self._make_tls = address, make_tls
        self._share_port = share_port
        self._answers, self._on_serving = answers, on_serving
        self._sockets: list[socket.socket] = []
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(RefusedCallers())
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="serving", daemon=True)
        self.ended: Future[None] = Future()

    def bind(self) -> None:
        """Take the port.

        Raises:
            OSError: the address or port cannot be used.
        """
        try:
            if self._address in _EVERY_ADDRESS and self._bind_dual_stack():
                return
            addresses = socket.getaddrinfo(
                self._address or None, self.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            for family, _, _, _, address in addresses:
                self._listen(family, address, only_ipv6=True)
        except OSError:
            self._close()
            raise

    def _bind_dual_stack(self) -> bool:
        """Take the port for IPv6 and IPv4 alike, as Go does for 0.0.0.0; return whether this machine has IPv6."""
        if not socket.has_dualstack_ipv6():
            return False
        try:
            self._listen(socket.AF_INET6, ("::", self.port), only_ipv6=False)
        except OSError as error:
            if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                # The kernel knows IPv6, but it is switched off.
                return False
            raise
        return True

    def _listen(self, family: int, address: Any, *, only_ipv6: bool) -> None:
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0).lower()) from error
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self._share_port:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(only_ipv6))
            listener.bind(address)
        except OSError as error:
            listener.close()
            reason = f"error while attempting to bind on address {address!r}: {os.strerror(error.errno or 0).lower()}"
            raise OSError(error.errno, reason) from error
        self._sockets.append(listener)

    def start(self) -> None:
        """Start the thread that answers; returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Stop serving."""
        # It may be at its end already, with its loop closed.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.is_alive():
            self._thread.join(timeout=5)
        self._close()

    def _close(self) -> None:
        for listener in self._sockets:
            listener.close()
        if self._thread.ident is None:
            # Never started: the thread closes its loop itself.
            self._loop.close()

    def _serve(self) -> None:
        try:
            # At its end the runner cancels callers that are in the middle of a handshake, and closes the loop.
            with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
                runner.run(self._run())
        except Exception as error:
            self._close()
            self.ended.set_exception(error)
        finally:
            self._close()

    async def _run(self) -> None:
        from aiohttp import web

        from scheduler.observe.authorization import Authorizer
        from scheduler.observe.endpoints import Endpoints

        client = self._answers.make_review_client()
        authorizer = Authorizer(client, *self._answers.review_seconds)
        application = Endpoints(self._answers, authorizer).application()
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await runner.setup()
        stopped = asyncio.create_task(self._stop.wait(), name="stop")
        followed = asyncio.create_task(self._answers.authorities.follow(), name="client authorities")
        try:
            tls = self._make_tls()
            for listener in self._sockets:
                await web.SockSite(runner, listener, ssl_context=tls).start()
            self._on_serving()
            await asyncio.wait({stopped, followed}, return_when=asyncio.FIRST_EXCEPTION)
            if followed.done():
                followed.result()
            await stopped
        finally:
            for task in (stopped, followed):
                task.cancel()
            await asyncio.gather(stopped, followed, return_exceptions=True)
            await stop_serving(runner)
            await client.close()
