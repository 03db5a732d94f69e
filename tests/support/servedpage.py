"""The page in the cluster over TLS on this machine, with a made-up cluster and a fake API server behind it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

from scheduler.catalog import CredentialRules
from scheduler.connectionlimits import ConnectionLimits
from scheduler.observe import bind, in_words, port_of, serving
from secondary_scheduler.page.app import serve, tls_of
from secondary_scheduler.page.options import ListenAddress, PageOptions
from secondary_scheduler.page.rights import NamespacedName
from secondary_scheduler.page.sharing import SharedPageModel
from secondary_scheduler.page.site import PageSite, application
from secondary_scheduler.views.pagemodels import PageModel
from tests.support.visiting import FakeReviewer

_SECONDS = 60
_LIMITS = ConnectionLimits(per_address=None)
TOKEN = "a-token-for-this-page"
"""Of who may get nodes and list the pods of `shop`."""


def page_options(*, limits: ConnectionLimits = _LIMITS, certificate: Path | None = None) -> PageOptions:
    """Options of a page on free ports of this machine, whose certificate and key are in one file, or its own."""
    listen = ListenAddress("127.0.0.1", 0)
    return PageOptions(
        config=Path("config.yaml"),
        config_map=NamespacedName("scheduling", "config"),
        lease=None,
        hosts=frozenset({"127.0.0.1"}),
        listen=listen,
        probes=listen,
        limits=limits,
        certificate=certificate,
        key=certificate,
        rules=CredentialRules(directory=None),
        kubeconfig=None,
    )


@contextlib.asynccontextmanager
async def page_process(
    site: PageSite, lines: list[str], limits: ConnectionLimits = _LIMITS
) -> AsyncIterator[tuple[int, int]]:
    """Serve a site as the process does; yields the ports of page and probes. `lines` get what it says."""
    started, stop = asyncio.Event(), asyncio.Event()

    def say(line: str) -> None:
        lines.append(line)
        started.set()

    serving_page = asyncio.create_task(serve(site, page_options(limits=limits), say, stop))
    serving_page.add_done_callback(lambda _: started.set())
    await started.wait()
    if serving_page.done():
        serving_page.result()
    page, probes = (int(word.strip(";")) for word in lines[-1].split() if word.strip(";").isdigit())
    try:
        yield page, probes
    finally:
        stop.set()
        await serving_page


@contextlib.contextmanager
def served_page(page_model: PageModel) -> Iterator[str]:
    """Serve a page model from a thread; yields the address, without a path."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="page")
    thread.start()
    rights = frozenset({"nodes", "pods/shop"})
    lines: list[str] = []
    site = PageSite(
        SharedPageModel(lambda: page_model, lines.append),
        frozenset({"127.0.0.1"}),
        FakeReviewer(**{TOKEN: rights}),
        FakeReviewer(),
        lines.append,
    )
    options = page_options()
    stack = contextlib.AsyncExitStack()
    listeners = bind("127.0.0.1", 0)

    def run(work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(_SECONDS)

    try:
        run(
            stack.enter_async_context(
                serving(
                    application(site),
                    listeners,
                    limits=options.limits,
                    report=in_words(lines.append),
                    tls=tls_of(options, lines.append),
                )
            )
        )
        yield f"https://127.0.0.1:{port_of(listeners)}"
    finally:
        run(stack.aclose())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_SECONDS)
        loop.close()
    assert lines == []
