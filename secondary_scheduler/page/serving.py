"""The HTTPS servers of the page and of its probes, until a signal comes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
from collections.abc import Callable
from typing import Final

from aiohttp import web

from scheduler.observe import RefusedCallers, SelfSigned, follow_renewals, serving_context, stop_serving
from secondary_scheduler.page.options import Address, Options
from secondary_scheduler.page.site import PageSite, application

Say = Callable[[str], None]
_SHUTDOWN_SECONDS: Final = 1.0
_IDLE_SECONDS: Final = 15.0
"""How long a connection without a request stays."""


class ServingError(Exception):
    """One line: an address, a port or a certificate that cannot be used."""


def tls_of(options: Options, say: Say) -> ssl.SSLContext:
    """Return what to serve with: the files, followed as they are renewed, or a certificate of its own.

    Raises:
        ServingError: the files cannot be used.
    """

    def new_context() -> ssl.SSLContext:
        return serving_context(options.certificate, options.key, minimum="VersionTLS12")

    try:
        tls = new_context()
    except ValueError as error:
        raise ServingError(f"--tls-cert-file, --tls-private-key-file: {error}") from error
    files = [file for file in (options.certificate, options.key) if file is not None]
    if not files:
        SelfSigned(options.listen.host).use(tls)
        return tls

    def report(problem: str | None) -> None:
        say(f"the renewed certificate cannot be used: {problem}" if problem else "the certificate is renewed")

    follow_renewals(tls, files, new_context, report)
    return tls


async def serve(site: PageSite, options: Options, say: Say, stop: asyncio.Event | None = None) -> None:
    """Serve until SIGTERM, SIGINT or `stop`.

    Raises:
        ServingError: an address, a port or a file cannot be used.
    """
    stopped = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(RefusedCallers())
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    tls = tls_of(options, say)
    async with contextlib.AsyncExitStack() as stack:
        page = await _started(stack, application(site), "--listen", options.listen, tls)
        probes = await _started(stack, _probes(), "--probes", options.probes, tls)
        say(f"serving {', '.join(sorted(site.hosts))} on port {page}; probes on port {probes}")
        await stopped.wait()


async def _started(
    stack: contextlib.AsyncExitStack, app: web.Application, option: str, address: Address, tls: ssl.SSLContext
) -> int:
    """Start a server that ends with the stack; returns its port."""
    # No access log: who looked at what is nobody's business.
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=_SHUTDOWN_SECONDS,
        keepalive_timeout=_IDLE_SECONDS,
    )
    await runner.setup()
    stack.push_async_callback(stop_serving, runner)
    try:
        await web.TCPSite(runner, address.host or None, address.port, ssl_context=tls, backlog=64).start()
    except OSError as error:
        raise ServingError(f"{option} {address}: {error.strerror or error}") from error
    port: int = runner.addresses[0][1]
    return port


def _probes() -> web.Application:
    """Tell a kubelet that the loop answers, and nobody anything else."""

    async def well(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application(client_max_size=0)
    app.router.add_get("/livez", well)
    app.router.add_get("/readyz", well)
    return app
