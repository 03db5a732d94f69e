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
from typing import Any

import structlog

from scheduler.catalog import HANDOVER_AUDIENCE
from scheduler.connectionlimits import DEFAULT_LIMITS, ConnectionLimits
from scheduler.observe.answers import EndpointSources

log = structlog.get_logger(component="serving")
_EVERY_ADDRESS = ("", "0.0.0.0", "::")  # noqa: S104 # what upstream's --bind-address means by them


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
        answers: EndpointSources,
        limits: ConnectionLimits = DEFAULT_LIMITS,
        on_serving: Callable[[], None] = lambda: None,
        on_drop: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Configure; nothing is bound or started yet.

        Args:
            address, port: where to listen; "" is every address.
            share_port: let other processes listen on it too.
            make_tls: called in the server's thread, as making a certificate takes a while.
            answers: what the endpoints answer from.
            limits: of connections.
            on_serving: called in the server's thread once requests are answered.
            on_drop: called there with the reason of each connection that is not served to its end.
        """
        self.port = port
        self._address, self._make_tls = address, make_tls
        self._share_port = share_port
        self._answers, self._limits = answers, limits
        self._on_serving, self._on_drop = on_serving, on_drop
        self._sockets: list[socket.socket] = []
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="serving", daemon=True)
        self.ended: Future[None] = Future()

    def bind(self) -> None:
        """Take the port.

        Raises:
            OSError: the address or port cannot be used.
        """
        try:
            self._sockets = bind(self._address, self.port, share_port=self._share_port)
        except OSError:
            self._close()
            raise

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
        from scheduler.observe.authorization import Authorizer
        from scheduler.observe.bounded import serving
        from scheduler.observe.endpoints import Endpoints

        client = self._answers.make_review_client()
        authorizer = Authorizer(client, *self._answers.review_seconds)
        handover = None
        source = self._answers.handover
        if source is not None:
            access = {"resourceAttributes": source.right()}
            handover = Authorizer(
                client, *self._answers.review_seconds, audience=HANDOVER_AUDIENCE, access=lambda _: access
            )
        application = Endpoints(self._answers, authorizer, handover).application()
        stopped = asyncio.create_task(self._stop.wait(), name="stop")
        followed = asyncio.create_task(self._answers.authorities.follow(), name="client authorities")
        try:
            async with serving(
                application,
                self._sockets,
                limits=self._limits,
                report=log.warning,
                tls=self._make_tls(),
                count=self._on_drop,
            ):
                self._on_serving()
                await asyncio.wait({stopped, followed}, return_when=asyncio.FIRST_EXCEPTION)
                if followed.done():
                    followed.result()
                await stopped
        finally:
            for task in (stopped, followed):
                task.cancel()
            await asyncio.gather(stopped, followed, return_exceptions=True)
            await client.close()


def bind(address: str, port: int, *, share_port: bool = False) -> list[socket.socket]:
    """Take a port; connections are refused until somebody listens.

    Args:
        address: of this machine, or a name of it; "", 0.0.0.0 and :: are all, of IPv4 and IPv6 alike, as in Go.
        port: 0 is a free one, which all sockets have then.
        share_port: let other processes listen on it too.

    Raises:
        OSError: the address or port cannot be used.
    """
    if address in _EVERY_ADDRESS and (dual_stack := _bind_dual_stack(port, share_port)) is not None:
        return [dual_stack]
    addresses = socket.getaddrinfo(address or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, _, _, _, (host, _, *scope) in addresses:
            number = port_of(sockets) if sockets else port
            sockets.append(_bound(family, (host, number, *scope), share_port=share_port, only_ipv6=True))
    except OSError:
        for listener in sockets:
            listener.close()
        raise
    return sockets


def port_of(sockets: list[socket.socket]) -> int:
    """Return the port that they have."""
    port: int = sockets[0].getsockname()[1]
    return port


def _bind_dual_stack(port: int, share_port: bool) -> socket.socket | None:
    """Take the port for IPv6 and IPv4 alike; None where this machine has no IPv6."""
    if not socket.has_dualstack_ipv6():
        return None
    try:
        return _bound(socket.AF_INET6, ("::", port), share_port=share_port, only_ipv6=False)
    except OSError as error:
        if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
            # The kernel knows IPv6, but it is switched off.
            return None
        raise


def _bound(family: int, address: Any, *, share_port: bool, only_ipv6: bool) -> socket.socket:
    try:
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0).lower()) from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(only_ipv6))
        listener.bind(address)
    except OSError as error:
        listener.close()
        reason = f"error while attempting to bind on address {address!r}: {os.strerror(error.errno or 0).lower()}"
        raise OSError(error.errno, reason) from error
    return listener
