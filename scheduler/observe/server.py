"""HTTPS endpoints in a thread and event loop of their own: a busy scheduling loop never delays a probe.

`/healthz`, `/livez` and `/readyz` answer anybody; everything else wants a bearer token that the API server
authenticates (TokenReview) and authorises (SubjectAccessReview on the path), as upstream.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import structlog
from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from scheduler.observe.health import HealthChecks, report

_CACHE_SECONDS = 10.0
_CACHE_ENTRIES = 256
log = structlog.get_logger(component="serving")


class ReviewClient(Protocol):
    """The part of the API client that reviews need."""

    async def post(self, path: str, body: dict[str, Any]) -> bytes:
        """POST a JSON object and return the answer's body."""
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


class Authorizer:
    """Asks the API server who a bearer token is and whether it may read a path; remembers for 10 s."""

    def __init__(self, client: ReviewClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._known: dict[tuple[str, str], tuple[float, int]] = {}

    async def status(self, token: str, path: str) -> int:
        """HTTP status for the request: 200, 401 (unknown token) or 403 (not allowed)."""
        found = self._known.get((token, path))
        if found and found[0] > self._clock():
            return found[1]
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


class Server:
    """The HTTPS server; `start` returns when it listens, `stop` when it has ended."""

    def __init__(
        self,
        *,
        address: str,
        port: int,
        tls: ssl.SSLContext,
        checks: HealthChecks,
        registry: CollectorRegistry,
        make_review_client: Callable[[], ReviewClient],
        configz: Callable[[], dict[str, Any]],
        always_allow: tuple[str, ...],
    ) -> None:
        self._address, self._port, self._tls = address, port, tls
        self._checks, self._registry, self._configz = checks, registry, configz
        self._make_review_client = make_review_client
        self._always_allow = always_allow
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._failure: OSError | None = None
        self._done: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._serve, name="serving", daemon=True)

    def start(self) -> None:
        """Start to serve.

        Raises:
            OSError: the address or port cannot be used.
        """
        self._thread.start()
        self._listening.wait(timeout=10)
        if self._failure:
            raise self._failure

    def stop(self) -> None:
        """Stop serving."""
        done = self._done
        if done and self._thread.is_alive():
            self._loop.call_soon_threadsafe(done.set)
            self._thread.join(timeout=5)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._run())
        except OSError as error:
            self._failure = error
        finally:
            self._listening.set()
            self._loop.close()

    async def _run(self) -> None:
        self._done = asyncio.Event()
        client = self._make_review_client()
        authorizer = Authorizer(client)
        application = web.Application(middlewares=[self._guard(authorizer)], client_max_size=64 * 1024)
        application.router.add_get("/{endpoint:healthz|livez|readyz}", self._health)
        application.router.add_get("/{endpoint:healthz|livez|readyz}/{check}", self._health)
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/configz", self._show_configuration)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._address, self._port, ssl_context=self._tls).start()
            self._listening.set()
            await self._done.wait()
        finally:
            await runner.cleanup()
            await client.close()

    def _guard(self, authorizer: Authorizer) -> Any:
        @web.middleware
        async def guard(
            request: web.Request, handler: Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]
        ) -> web.StreamResponse:
            path = request.path
            if any(path == allowed or path.startswith(f"{allowed}/") for allowed in self._always_allow):
                return await handler(request)
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not token:
                return web.Response(status=403, text=f"{path}: a bearer token is needed\n")
            try:
                status = await authorizer.status(token.strip(), path)
            except Exception as error:
                # Whatever went wrong, nobody gets in; the API server's own text may be long and is in the log.
                log.warning("token review failed", error=str(error)[:200])
                return web.Response(status=500, text="the API server could not be asked about the token\n")
            if status != 200:
                return web.Response(status=status, text=f"{path}: the token is not {_REFUSED[status]}\n")
            return await handler(request)

        return guard

    async def _health(self, request: web.Request) -> web.Response:
        endpoint = request.match_info["endpoint"]
        checks = self._checks.of(endpoint) or {}
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
        return web.Response(body=generate_latest(self._registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _show_configuration(self, _: web.Request) -> web.Response:
        return web.json_response(self._configz())


_REFUSED = {401: "known to the API server", 403: "allowed to read this"}
