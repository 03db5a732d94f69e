"""The HTTPS servers of the page and of its probes, until a signal comes."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from scheduler.observe import SelfSigned, bind, follow_renewals, in_words, port_of, serving, serving_context
from secondary_scheduler.page.options import Address, Options
from secondary_scheduler.page.site import PageSite, application

Say = Callable[[str], None]


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
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    tls = tls_of(options, say)

    @contextlib.asynccontextmanager
    async def served(app: web.Application, option: str, address: Address) -> AsyncIterator[int]:
        try:
            listeners = bind(address.host, address.port)
        except OSError as error:
            raise ServingError(f"{option} {address}: {error.strerror or error}") from error
        async with serving(app, listeners, limits=options.limits, report=in_words(say), tls=tls):
            yield port_of(listeners)

    async with (
        served(application(site), "--listen", options.listen) as page,
        served(_probes(), "--probes", options.probes) as probes,
    ):
        say(f"serving {', '.join(sorted(site.hosts))} on port {page}; probes on port {probes}")
        await stopped.wait()


def _probes() -> web.Application:
    """Tell a kubelet that the loop answers, and nobody anything else."""

    async def well(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    app = web.Application(client_max_size=0)
    app.router.add_get("/livez", well)
    app.router.add_get("/readyz", well)
    return app
