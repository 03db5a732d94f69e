"""Health over HTTP for the kubelet, and metrics over HTTPS for who the API server lets read them.

The operator and the rebalancer serve these. Health says no more than a few words of what is wrong. Metrics name objects
of the cluster: they are guarded as the scheduler's are, by TokenReview and SubjectAccessReview.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, Protocol

import structlog
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from scheduler.connectionlimits import ConnectionLimits
from scheduler.observe import (
    Authorizer,
    ReviewClient,
    bind,
    port_of,
    serving,
    serving_context,
    use_self_signed,
)

log = structlog.stdlib.get_logger(__name__)

Check = Callable[[], str | None]
"""Returns None if all is well, else what is wrong in a few words."""


class Exposes(Protocol):
    """Metrics of a process."""

    def expose(self) -> bytes:
        """Return the text that Prometheus scrapes."""

    def count_drop(self, reason: str) -> None:
        """Count a connection that was not served to its end."""


class Ports(NamedTuple):
    """Where it serves: the ones chosen by the kernel for port 0."""

    health: int
    metrics: int


@contextlib.asynccontextmanager
async def serve(
    *,
    host: str,
    port: int,
    metrics_port: int,
    metrics: Exposes,
    healthy: Check,
    ready: Check,
    reviews: ReviewClient,
    limits: ConnectionLimits,
) -> AsyncIterator[Ports]:
    """Serve /healthz, /livez and /readyz on one port, and /metrics with a self-signed certificate on another.

    Each of them serves as many connections as `limits` says.

    Raises:
        OSError: a port cannot be used, or the certificate has nowhere to be loaded from.
    """
    tls = await asyncio.to_thread(_tls, host)

    @contextlib.asynccontextmanager
    async def served(app: web.Application, name: str, number: int, tls: ssl.SSLContext | None) -> AsyncIterator[int]:
        report = log.bind(port=name).warning
        listeners = bind(host, number)
        async with serving(app, listeners, limits=limits, report=report, tls=tls, count=metrics.count_drop):
            yield port_of(listeners)

    async with (
        served(_health_endpoints(healthy, ready), "health", port, None) as health_port,
        served(_metrics_endpoint(metrics, Authorizer(reviews)), "metrics", metrics_port, tls) as guarded_port,
    ):
        yield Ports(health_port, guarded_port)


def _tls(host: str) -> ssl.SSLContext:
    context = serving_context(None, None, minimum="VersionTLS12")
    use_self_signed(context, host)
    return context


def _health_endpoints(healthy: Check, ready: Check) -> web.Application:
    def answer(check: Check) -> Callable[[web.Request], object]:
        async def handler(_request: web.Request) -> web.Response:
            wrong = check()
            return web.Response(text=wrong or "ok", status=503 if wrong else 200)

        return handler

    app = web.Application()
    app.router.add_get("/healthz", answer(healthy))  # type: ignore[arg-type]
    app.router.add_get("/livez", answer(healthy))  # type: ignore[arg-type]
    app.router.add_get("/readyz", answer(ready))  # type: ignore[arg-type]
    return app


def _metrics_endpoint(metrics: Exposes, authorizer: Authorizer) -> web.Application:
    async def expose(request: web.Request) -> web.Response:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return web.Response(status=403, text="/metrics: a bearer token is needed\n")
        try:
            status = await authorizer.status(token.strip(), "/metrics", request.remote or "")
        except Exception as error:
            # Closed on every failure. The API server's text may be long, so it goes to the log.
            log.warning("token review failed", error=str(error)[:200])
            return web.Response(status=500, text="the API server could not review the token\n")
        if status != 200:
            return web.Response(status=status, text="/metrics: this token may not read it now\n")
        return web.Response(body=metrics.expose(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", expose)
    return app
