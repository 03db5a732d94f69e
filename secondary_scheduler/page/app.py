"""The page's process: options, connections, and the servers."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from scheduler import __version__
from scheduler.config import ConfigurationError
from scheduler.kube.client import ClientConfig, ConfigError, KubeClient
from scheduler.observe import Authorizer
from secondary_scheduler.errors import CommandError, printable
from secondary_scheduler.page.options import PROGRAM, Options, parse_options
from secondary_scheduler.page.rights import AUDIENCE, access_to
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
    # Of its own, beside that of the snapshots: a flood of tokens is not to load the API server.
    async with KubeClient(api, user_agent=f"{PROGRAM}/{__version__} reviews", qps=20, burst=40) as reviews:
        access = access_to(options.config_map)
        site = PageSite(
            SharedScene(taker.take, _say),
            options.hosts,
            form_reviewer=Authorizer(reviews, audience=AUDIENCE, access=access),
            header_reviewer=Authorizer(reviews, access=access),
            say=_say,
        )
        await serve(site, options, _say)


def _say(text: str) -> None:
    for line in text.splitlines():
        sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.flush()
