"""What the HTTPS server answers. Imported in its thread: aiohttp's server and the text format take a while.

`/healthz`, `/livez` and `/readyz` answer anybody; everything else wants a client that may `get` the path
(SubjectAccessReview), known by a bearer token (TokenReview) or by a certificate, as upstream.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import structlog
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from scheduler.catalog import HANDOVER_PATH
from scheduler.observe.answers import EndpointSources
from scheduler.observe.authorization import TOO_MANY, Authorizer
from scheduler.observe.clients import user_of
from scheduler.observe.decisions import DecisionEndpoints, HandoverEndpoint, NodeLoadEndpoint
from scheduler.observe.health import FailureLog, HealthMetrics, report
from scheduler.observe.pages import DebugPage, ProcessStatus, flags_page
from scheduler.observe.pprof import ProfilingEndpoints
from scheduler.observe.resources import resource_metrics
from scheduler.observe.series import VisibleMetrics

log = structlog.get_logger(component="serving")


def _log_check(endpoint: str, check: str, reason: str | None) -> None:
    if reason is None:
        log.info("a health check passes again", endpoint=endpoint, check=check)
    else:
        log.warning("a health check fails", endpoint=endpoint, check=check, reason=reason[:1000])


class Endpoints:
    """The handlers behind one server."""

    def __init__(
        self, answers: EndpointSources, authorizer: Authorizer, handover_authorizer: Authorizer | None = None
    ) -> None:
        """`handover_authorizer` knows the tokens of the other replicas; needed with `answers.handover`."""
        self._answers = answers
        self._authorizer = authorizer
        self._handover_authorizer = handover_authorizer
        self._failures = FailureLog(_log_check)
        self._shown = VisibleMetrics(answers.registry, answers.disabled_metrics, answers.metric_levels)
        # Each holds all pods in memory once more.
        self._one_report = asyncio.Semaphore(1)
        self._health_metrics = HealthMetrics(answers.started)

    def application(self) -> web.Application:
        """Return the application with its routes."""
        application = web.Application(middlewares=[self._guard()], client_max_size=64 * 1024)
        application.router.add_get("/{endpoint:healthz|livez|readyz}", self._health)
        application.router.add_get("/{endpoint:healthz|livez|readyz}/{check}", self._health)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/metrics/resources", self._resources)
        application.router.add_get("/metrics/slis", self._slis)
        application.router.add_get("/configz", self._show_configuration)
        if self._answers.behaves_as:
            application.router.add_get("/statusz", self._statusz)
        if self._answers.flags is not None:
            application.router.add_get("/flagz", self._flagz)
        if self._answers.profiling:
            ProfilingEndpoints(self._answers).add_to(application)
        if self._answers.inspect is not None:
            DecisionEndpoints(self._answers).add_to(application)
        if self._answers.handover is not None:
            HandoverEndpoint(self._answers.handover, self._answers.gauges).add_to(application)
        if self._answers.node_loads is not None:
            NodeLoadEndpoint(self._answers).add_to(application)
        return application

    def _note_check(self, endpoint: str, check: str, reason: str | None) -> None:
        self._failures.note(endpoint, check, reason)
        self._health_metrics.note(endpoint, check, reason)

    def _guard(self) -> Any:
        @web.middleware
        async def guard(
            request: web.Request, handler: Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]
        ) -> web.StreamResponse:
            path = request.path
            # Whatever is open to others: its answer holds a credential.
            handover = self._handover_authorizer if path == HANDOVER_PATH else None
            authorizer = handover or self._authorizer
            if handover is None and any(_matches(path, allowed) for allowed in self._answers.always_allow):
                return await handler(request)
            user = None if handover is not None else user_of(request.get_extra_info("ssl_object"), time.time())
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            if user is None and (scheme.lower() != "bearer" or not token):
                return web.Response(status=403, text=f"{path}: a bearer token is needed\n")
            address = request.remote or ""
            try:
                if user is not None:
                    status = await authorizer.status_of_user(user, path, address)
                else:
                    status = await authorizer.status(token.strip(), path, address)
            except Exception as error:
                # Closed on every failure. The API server's text may be long, so it goes to the log.
                log.warning("token review failed", error=str(error)[:200])
                return web.Response(status=500, text="the API server could not review the token\n")
            if status == TOO_MANY:
                text = f"{path}: too many unknown tokens; try again\n"
                return web.Response(status=status, text=text, headers={"Retry-After": "5"})
            if status != 200 and user is not None:
                return web.Response(status=status, text=f"{path}: this user is not {_REFUSED[status]}\n")
            if status != 200:
                return web.Response(status=status, text=f"{path}: the token is not {_REFUSED[status]}\n")
            return await handler(request)

        return guard

    async def _health(self, request: web.Request) -> web.Response:
        endpoint = request.match_info["endpoint"]
        checks = self._answers.checks.of(endpoint) or {}
        only = request.match_info.get("check")
        if only is not None:
            if only not in checks:
                return web.Response(status=404, text=f"no check named {only[:80]}\n")
            checks = {only: checks[only]}
        healthy, body = report(
            endpoint,
            checks,
            exclude=request.query.getall("exclude", []),
            verbose="verbose" in request.query,
            # As upstream, a check that is asked for by name is not counted.
            note=self._failures.note if only is not None else self._note_check,
        )
        return web.Response(status=200 if healthy else 500, text=body)

    async def _metrics(self, _: web.Request) -> web.Response:
        await self._answers.gauges.wait()
        return web.Response(body=generate_latest(self._shown), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _resources(self, request: web.Request) -> web.StreamResponse:
        """Answer with the pods' resources, piece by piece."""
        async with self._one_report:
            try:
                pods = await self._answers.gauges.ask(self._answers.pod_resources)
            except TimeoutError:
                return web.Response(status=503, text="the scheduling loop is busy; try again\n")
            response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE_LATEST})
            await response.prepare(request)
            for piece in resource_metrics(pods):
                await response.write(piece.encode())
            return response

    async def _slis(self, _: web.Request) -> web.Response:
        return web.Response(body=self._health_metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _statusz(self, request: web.Request) -> web.Response:
        now = datetime.now(UTC)
        status = ProcessStatus(datetime.fromtimestamp(self._answers.started, UTC), self._answers.behaves_as)
        return _answer_page(status.page(request.headers.get("Accept", ""), now))

    async def _flagz(self, request: web.Request) -> web.Response:
        accept, text_only = request.headers.get("Accept", ""), self._answers.flags_as_text
        return _answer_page(flags_page(self._answers.flags or {}, accept, text_only=text_only))

    async def _show_configuration(self, _: web.Request) -> web.Response:
        return web.json_response(self._answers.configz())


def _matches(path: str, allowed: str) -> bool:
    """Whether a path is the one of a rule, or below one that ends in `*`, as upstream (authorization/path)."""
    return path.startswith(allowed[:-1]) if allowed.endswith("*") else path == allowed


def _answer_page(page: DebugPage) -> web.Response:
    headers = {"Content-Type": page.media_type, **({"Warning": page.warning} if page.warning else {})}
    return web.Response(status=page.status, body=page.text.encode(), headers=headers)


_REFUSED = {401: "known to the API server", 403: "allowed to read this"}
