"""What the HTTPS server answers. Imported in its thread: aiohttp's server and the text format take a while.

`/healthz`, `/livez` and `/readyz` answer anybody; everything else wants a bearer token that the API server
authenticates (TokenReview) and authorises (SubjectAccessReview on the path), as upstream.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from scheduler.observe.answers import Answers, ReviewClient
from scheduler.observe.health import report

_CACHE_SECONDS = 10.0
_CACHE_ENTRIES = 256
log = structlog.get_logger(component="serving")


class Authorizer:
    """Asks the API server who a bearer token is and whether it may read a path; remembers for 10 s."""

    def __init__(self, client: ReviewClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, int]] = {}

    async def status(self, token: str, path: str) -> int:
        """HTTP status for the request: 200, 401 (unknown token) or 403 (not allowed)."""
        remembered = self._known.get((token, path))
        if remembered and remembered[0] > self._clock():
            return remembered[1]
        status = await self._review(token, path)
        if len(self._known) >= _CACHE_ENTRIES:
            self._known.clear()
        self._known[token, path] = (self._clock() + _CACHE_SECONDS, status)
        return status

    async def _review(self, token: str, path: str) -> int:
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = json.loads(await self._client.post("/apis/authentication.k8s.io/v1/tokenreviews", review))
        if not answer.get("status", {}).get("authenticated"):
            return 401
        user = answer["status"]["user"]
        access = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.get("username", ""),
                "groups": user.get("groups", []),
                "uid": user.get("uid", ""),
                "extra": user.get("extra") or {},
                "nonResourceAttributes": {"path": path, "verb": "get"},
            },
        }
        answer = json.loads(await self._client.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", access))
        return 200 if answer.get("status", {}).get("allowed") else 403


class Endpoints:
    """The handlers behind one server."""

    def __init__(self, answers: Answers, authorizer: Authorizer) -> None:
        self._answers = answers
        self._authorizer = authorizer

    def application(self) -> web.Application:
        """Return the application with its routes."""
        application = web.Application(middlewares=[self._guard()], client_max_size=64 * 1024)
        application.router.add_get("/{endpoint:healthz|livez|readyz}", self._health)
        application.router.add_get("/{endpoint:healthz|livez|readyz}/{check}", self._health)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/configz", self._show_configuration)
        return application

    def _guard(self) -> Any:
        @web.middleware
        async def guard(
            request: web.Request, handler: Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]
        ) -> web.StreamResponse:
            path = request.path
            if any(path == allowed or path.startswith(f"{allowed}/") for allowed in self._answers.always_allow):
                return await handler(request)
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not token:
                return web.Response(status=403, text=f"{path}: a bearer token is needed\n")
            try:
                status = await self._authorizer.status(token.strip(), path)
            except Exception as error:
                # Closed on every failure. The API server's text may be long, so it goes to the log.
                log.warning("token review failed", error=str(error)[:200])
                return web.Response(status=500, text="the API server could not review the token\n")
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
            endpoint, checks, exclude=request.query.getall("exclude", []), verbose="verbose" in request.query
        )
        return web.Response(status=200 if healthy else 500, text=body)

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self._answers.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _show_configuration(self, _: web.Request) -> web.Response:
        return web.json_response(self._answers.configz())


_REFUSED = {401: "known to the API server", 403: "allowed to read this"}
