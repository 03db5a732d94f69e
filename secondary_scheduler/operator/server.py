"""Health and metrics over HTTP, for probes and scrapers inside the cluster. Nothing secret is served here."""

import contextlib
from collections.abc import AsyncIterator, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from secondary_scheduler.operator.metrics import Metrics

Check = Callable[[], str | None]
"""Returns None if all is well, else what is wrong in a few words."""


@contextlib.asynccontextmanager
async def serve(*, host: str, port: int, metrics: Metrics, healthy: Check, ready: Check) -> AsyncIterator[int]:
    """Serve /healthz, /readyz and /metrics; yields the port (the one chosen by the kernel for port 0)."""

    def answer(check: Check) -> Callable[[web.Request], object]:
        async def handler(_request: web.Request) -> web.Response:
            wrong = check()
            return web.Response(text=wrong or "ok", status=503 if wrong else 200)

        return handler

    async def expose(_request: web.Request) -> web.Response:
        return web.Response(body=metrics.expose(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/healthz", answer(healthy))  # type: ignore[arg-type]
    app.router.add_get("/livez", answer(healthy))  # type: ignore[arg-type]
    app.router.add_get("/readyz", answer(ready))  # type: ignore[arg-type]
    app.router.add_get("/metrics", expose)
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
