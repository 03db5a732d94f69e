"""The page's process: options, connections, and the servers."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Sequence

from scheduler import __version__
from scheduler.config import ConfigurationError
from scheduler.kube.client import ClientConfig, ConfigError, EtcdRestore, KubeClient, LeasePoll
from scheduler.observe import Authorizer
from secondary_scheduler.errors import CommandError, printable
from secondary_scheduler.page.options import PROGRAM, Options, parse_options
from secondary_scheduler.page.rights import AUDIENCE, access_to
from secondary_scheduler.page.running import RunningScheduler
from secondary_scheduler.page.serving import ServingError, serve
from secondary_scheduler.page.sharing import SharedScene
from secondary_scheduler.page.site import PageSite
from secondary_scheduler.page.taking import Taker

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


async def _run(options: Options, api: ClientConfig, taker: Taker) -> None:
    scenes = SharedScene(taker.take, _say)
    async with (
        # Of its own, beside that of the snapshots: a flood of tokens is not to load the API server.
        KubeClient(api, user_agent=f"{PROGRAM}/{__version__} reviews", qps=20, burst=40) as reviews,
        _running_scheduler(options, api) as running,
        _followed_lease(options, api, scenes),
    ):
        access = access_to(options.config_map, options.lease)
        site = PageSite(
            scenes,
            options.hosts,
            form_reviewer=Authorizer(reviews, audience=AUDIENCE, access=access),
            header_reviewer=Authorizer(reviews, access=access),
            say=_say,
            running=running,
        )
        await serve(site, options, _say)


@contextlib.asynccontextmanager
async def _running_scheduler(options: Options, api: ClientConfig) -> AsyncIterator[RunningScheduler | None]:
    """What visitors can ask; None where the Lease of the scheduler is not known."""
    if options.lease is None:
        yield None
        return
    # With a budget of its own: visitors that ask are not to hold up the reviews.
    async with KubeClient(api, user_agent=f"{PROGRAM}/{__version__} leader", qps=10, burst=20) as client:
        yield RunningScheduler(api, options.lease, client)


@contextlib.asynccontextmanager
async def _followed_lease(options: Options, api: ClientConfig, scenes: SharedScene) -> AsyncIterator[None]:
    """Drop what was read whenever the cluster goes back to an older state."""
    if options.lease is None:
        yield
        return

    def drop(restore: EtcdRestore) -> None:
        hint = "; the API server has not noticed: restart kube-apiserver" if restore.unnoticed else ""
        _say(f"the cluster went back to an older state: {restore.sign}; what was read before is dropped{hint}")
        scenes.drop()

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
