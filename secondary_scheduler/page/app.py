"""The page's process: options, connections, and the servers."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Callable, Sequence

from aiohttp import web

from scheduler import __version__
from scheduler.config import ConfigurationError
from scheduler.kube.client import ClientConfig, ConfigError, EtcdRestore, KubeClient, LeasePoll
from scheduler.observe import Authorizer, SelfSigned, bind, follow_renewals, in_words, port_of, serving, serving_context
from secondary_scheduler.errors import CommandError, printable
from secondary_scheduler.page.options import PROGRAM, ListenAddress, PageOptions, parse_options
from secondary_scheduler.page.rights import AUDIENCE, access_to
from secondary_scheduler.page.running import LeadingScheduler
from secondary_scheduler.page.sharing import SharedPageModel, Taker
from secondary_scheduler.page.site import PageSite, application

Say = Callable[[str], None]


class ServingError(Exception):
    """One line: an address, a port or a certificate that cannot be used."""


def tls_of(options: PageOptions, say: Say) -> ssl.SSLContext:
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


async def serve(site: PageSite, options: PageOptions, say: Say, stop: asyncio.Event | None = None) -> None:
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
    async def served(app: web.Application, option: str, address: ListenAddress) -> AsyncIterator[int]:
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


EXIT_OK, EXIT_ERROR, EXIT_INVALID = 0, 1, 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal (0), or until it cannot go on (1); 4 if the configuration is not valid."""
    options = parse_options(sys.argv[1:] if arguments is None else arguments)
    try:
        api = ClientConfig.load(options.kubeconfig)
        taker = Taker(api, options.config, options.rules, _say)
        # At the start, as nobody looks at the log of a page that shows nothing.
        taker.configured()
    except ConfigError as error:
        _say(str(error))
        return EXIT_ERROR
    except (ConfigurationError, CommandError) as error:
        _say(str(error))
        return EXIT_INVALID
    try:
        asyncio.run(_run(options, api, taker))
    except ServingError as error:
        _say(str(error))
        return EXIT_ERROR
    return EXIT_OK


async def _run(options: PageOptions, api: ClientConfig, taker: Taker) -> None:
    page_models = SharedPageModel(taker.take, _say)
    async with (
        # Of its own, beside that of the snapshots: a flood of tokens is not to load the API server.
        KubeClient(api, user_agent=f"{PROGRAM}/{__version__} reviews", qps=20, burst=40) as reviews,
        _running_scheduler(options, api) as running,
        _followed_lease(options, api, page_models),
    ):
        access = access_to(options.config_map, options.lease)
        site = PageSite(
            page_models,
            options.hosts,
            form_reviewer=Authorizer(reviews, audience=AUDIENCE, access=access),
            header_reviewer=Authorizer(reviews, access=access),
            say=_say,
            running=running,
        )
        await serve(site, options, _say)


@contextlib.asynccontextmanager
async def _running_scheduler(options: PageOptions, api: ClientConfig) -> AsyncIterator[LeadingScheduler | None]:
    """What visitors can ask; None where the Lease of the scheduler is not known."""
    if options.lease is None:
        yield None
        return
    # With a budget of its own: visitors that ask are not to hold up the reviews.
    async with KubeClient(api, user_agent=f"{PROGRAM}/{__version__} leader", qps=10, burst=20) as client:
        yield LeadingScheduler(api, options.lease, client)


@contextlib.asynccontextmanager
async def _followed_lease(options: PageOptions, api: ClientConfig, page_models: SharedPageModel) -> AsyncIterator[None]:
    """Drop what was read whenever the cluster goes back to an older state."""
    if options.lease is None:
        yield
        return

    def drop(restore: EtcdRestore) -> None:
        hint = "; the API server has not noticed: restart kube-apiserver" if restore.unnoticed else ""
        _say(f"the cluster went back to an older state: {restore.sign}; what was read before is dropped{hint}")
        page_models.drop()

    lease = (options.lease.namespace, options.lease.name)
    async with KubeClient(api, user_agent=f"{PROGRAM}/{__version__} lease", qps=1, burst=5) as client:
        poll = asyncio.create_task(LeasePoll(client, [lease], drop).run(), name="lease")
        try:
            yield
        finally:
            poll.cancel()
            await asyncio.gather(poll, return_exceptions=True)


def _say(text: str) -> None:
    for line in text.splitlines():
        sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.flush()
