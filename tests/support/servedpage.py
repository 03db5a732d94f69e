"""The page in the cluster over TLS on this machine, with a made-up cluster and a fake API server behind it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from aiohttp import web

from scheduler.catalog import CredentialRules
from secondary_scheduler.page.options import Address, Options
from secondary_scheduler.page.rights import ConfigMapName
from secondary_scheduler.page.serving import tls_of
from secondary_scheduler.page.sharing import SharedScene
from secondary_scheduler.page.site import PageSite, application
from secondary_scheduler.views.scenes import Scene
from tests.support.visiting import FakeReviewer

_SECONDS = 60
TOKEN = "a-token-for-this-page"
"""Of who may get nodes and list the pods of `shop`."""


@contextlib.contextmanager
def served_page(scene: Scene) -> Iterator[str]:
    """Serve a scene from a thread; yields the address, without a path."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="page")
    thread.start()
    rights = frozenset({"nodes", "pods/shop"})
    lines: list[str] = []
    site = PageSite(
        SharedScene(lambda: scene, lines.append),
        frozenset({"127.0.0.1"}),
        FakeReviewer(**{TOKEN: rights}),
        FakeReviewer(),
        lines.append,
    )
    listen = Address("127.0.0.1", 0)
    rules = CredentialRules(directory=None)
    options = Options(
        Path("config.yaml"), ConfigMapName("scheduling", "config"), site.hosts, listen, listen, None, None, rules, None
    )
    runner = web.AppRunner(application(site), access_log=None, handle_signals=False)

    def run(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(_SECONDS)

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls_of(options, lines.append)).start()

    try:
        run(start())
        yield f"https://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        run(runner.cleanup())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_SECONDS)
        loop.close()
    assert lines == []
