"""The server: one collector, and `/watcher` from what it read last."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import signal
import ssl
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from scheduler.connectionlimits import DEFAULT_LIMITS, ConnectionLimits
from scheduler.framework import LoadReading
from scheduler.kube.client import ClientConfig, KubeClient, KubeError, SyncConnection
from scheduler.load import (
    Collector,
    Known,
    LoadError,
    LoadSettings,
    LoadSource,
    LoadStatus,
    list_nodes,
    load_source,
    match_nodes,
    nodes_by_address,
    watcher_document,
    window_seconds,
)
from scheduler.observe import Authorizer, bind, in_words, port_of, serving
from secondary_scheduler.loadwatcher.errors import WatcherError
from secondary_scheduler.loadwatcher.listening import Listen

Say = Callable[[str], None]
Handler = Callable[[web.Request], Coroutine[Any, Any, web.StreamResponse]]
METRICS_SERVER = "KubernetesMetricsServer"
WATCHER_PATH = "/watcher"
_NODES_SECONDS = 60.0
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Access:
    """Who may read, and with which TLS files; without any setting everybody may."""

    token_file: Path | None = None
    token_review: bool = False
    client_ca_file: Path | None = None
    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None

    def tls(self) -> ssl.SSLContext | None:
        """Return the context to serve with; None for plain HTTP.

        Raises:
            WatcherError: a file cannot be used.
        """
        if self.tls_cert_file is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.tls_cert_file, self.tls_private_key_file)
            if self.client_ca_file is not None:
                context.load_verify_locations(self.client_ca_file)
                context.verify_mode = ssl.CERT_REQUIRED
        except OSError as error:
            files = ", ".join(map(str, (self.tls_cert_file, self.tls_private_key_file, self.client_ca_file)))
            raise WatcherError(f"TLS files {files}: {error.strerror or error}") from error
        return context


class NodeNamedSource:
    """A source whose loads are by node name: addresses are replaced by names, and what is not a node is left out.

    Lists the nodes once a minute. While the API server does not answer, the last list counts.
    """

    def __init__(self, source: Callable[[Known], LoadSource], connection: SyncConnection, say: Say) -> None:
        """`source` makes the source that is read, from how many nodes there are."""
        self._source, self._connection, self._say = source(self._node_count), connection, say
        self._nodes: dict[str, str] = {}
        self._count = 0
        self._listed_at = -float("inf")
        self._unmatched: frozenset[str] = frozenset()

    def describe(self) -> str:
        """Name the source that is read."""
        return self._source.describe()

    def close(self) -> None:
        """Close both connections."""
        self._source.close()
        self._connection.close()

    def read(self) -> LoadReading:
        """Read; see `LoadSource.read`."""
        self._list_nodes()
        reading = self._source.read()
        matched, unmatched = match_nodes(reading, self._nodes.get)
        new = frozenset(unmatched) - self._unmatched
        self._unmatched = frozenset(unmatched)
        if new:
            self._say(
                f"{len(unmatched)} series are left out: no node has that name or address, such as {min(new)[:80]}"
            )
        return matched

    def _list_nodes(self) -> None:
        if time.monotonic() - self._listed_at < _NODES_SECONDS:
            return
        try:
            nodes = list_nodes(self._connection.get)
            self._nodes = nodes_by_address((node.name, node.addresses) for node in nodes)
            self._count = len(nodes)
        except (KubeError, ValueError) as error:
            if not self._nodes:
                raise LoadError(f"nodes of the cluster: {error}") from error
            self._say(f"nodes of the cluster: {error}; continuing with the last list")
        self._listed_at = time.monotonic()

    def _node_count(self) -> int:
        return self._count


class WatcherService:
    """What the commands serve.

    `/watcher` is load-watcher's; `/watcher/health` is the health of the source; `/livez` and `/readyz` are for probes.
    Ready is who has served a load, also when the source fails later: clients then see that nothing is fresh, while
    without an endpoint they would keep what they read last.

    `api` is the cluster whose nodes the loads belong to; without it loads keep the source's names.
    """

    def __init__(
        self,
        key: str,
        settings: LoadSettings,
        api: ClientConfig | None,
        access: Access,
        limits: ConnectionLimits = DEFAULT_LIMITS,
    ) -> None:
        self._key, self._settings, self._api, self._access = key, settings, api, access
        self._limits = limits
        self._provider = key.partition(":")[0]
        self._reading: LoadReading | None = None
        self._ready = False
        self._stop = asyncio.Event()
        self._collector: Collector | None = None
        self._reported: tuple[bool, str] = (True, "")
        self._rejected: frozenset[str] = frozenset()
        self.port = 0

    async def run(self, listen: Listen, say: Say) -> None:
        """Serve until SIGTERM, SIGINT or `stop`.

        Raises:
            WatcherError: the address, the port or a file cannot be used.
        """
        tls = self._access.tls()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        collector = self._collector = self._new_collector(say)
        reviews = KubeClient(self._api, qps=20) if self._access.token_review and self._api is not None else None
        application = web.Application(middlewares=[self._guard(reviews)], client_max_size=64 * 1024)
        application.router.add_route("*", WATCHER_PATH, self._watcher)
        # Go clients append the path to an address that may end with a slash.
        application.router.add_route("*", "//watcher", self._watcher)
        application.router.add_route("*", f"{WATCHER_PATH}/health", self._health)
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/readyz", self._readyz)
        try:
            try:
                listeners = bind(listen.host, listen.port)
            except OSError as error:
                raise WatcherError(f"--listen {listen.host}:{listen.port}: {error.strerror or error}") from error
            async with serving(application, listeners, limits=self._limits, report=in_words(say), tls=tls):
                self.port = port_of(listeners)
                collector.start()
                scheme = "https" if tls else "http"
                host = f"[{listen.host}]" if ":" in listen.host else listen.host
                say(f"serving {collector.status().source} at {scheme}://{host}:{self.port}{WATCHER_PATH}")
                await self._stop.wait()
        finally:
            collector.request_stop()
            if reviews is not None:
                await reviews.close()

    def stop(self) -> None:
        """Stop serving."""
        self._stop.set()

    def _new_collector(self, say: Say) -> Collector:
        settings, api = self._settings, self._api
        if api is None:
            source = load_source(self._key, settings, ClientConfig(server="https://unused.invalid"))
        else:
            source = self._source_of_nodes(api, say)

        def show(status: LoadStatus) -> None:
            current = (status.fresh, status.message)
            if current != self._reported:
                self._reported = current
                say("load is fresh" if status.fresh else f"load is not fresh: {status.message}")

        def keep(reading: LoadReading) -> None:
            if reading.rejected.keys() - self._rejected:
                say(f"values that cannot be a load are left out: {reading.left_out}")
            self._rejected = frozenset(reading.rejected)
            self._reading = reading
            self._ready = self._ready or bool(reading.fresh_loads(time.time(), settings.max_age_seconds))

        return Collector(
            source,
            refresh_seconds=settings.refresh_seconds,
            max_age_seconds=settings.max_age_seconds,
            on_reading=keep,
            on_status=show,
        )

    def _source_of_nodes(self, api: ClientConfig, say: Say) -> LoadSource:
        if self._provider == METRICS_SERVER:
            # It names nodes already.
            return load_source(self._key, self._settings, api)
        connection = SyncConnection(api, timeout=self._settings.timeout_seconds)
        return NodeNamedSource(lambda known: load_source(self._key, self._settings, api, known=known), connection, say)

    async def _watcher(self, request: web.Request) -> web.Response:
        reading = self._reading
        if reading is None:
            return web.Response(status=500, content_type=_JSON)
        loads = reading.fresh_loads(time.time(), self._settings.max_age_seconds)
        host = request.query.get("host")
        if host is not None:
            if host not in loads:
                return web.Response(status=404, content_type=_JSON)
            loads = {host: loads[host]}
        document = watcher_document(
            loads,
            source=self._provider,
            window=self._settings.window,
            window_seconds=window_seconds(self._settings.window),
            end=reading.window_end,
            timestamp=reading.window_end,
            latest=self._provider == METRICS_SERVER,
        )
        body = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
        return web.Response(body=body, content_type=_JSON)

    async def _health(self, _: web.Request) -> web.Response:
        status = self._collector.status() if self._collector is not None else None
        healthy = status is not None and status.fresh and not status.consecutive_failures
        # The reason may name addresses: it goes to the log, not to clients.
        return web.Response(status=200 if healthy else 503)

    async def _livez(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _readyz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok") if self._ready else web.Response(status=503, text="no fresh load was read yet")

    def _guard(self, reviews: KubeClient | None) -> Any:
        authorizer = Authorizer(reviews) if reviews is not None else None

        @web.middleware
        async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
            if self._access.token_file is None and authorizer is None:
                return await handler(request)
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not token.strip():
                return web.Response(status=401, headers={"WWW-Authenticate": "Bearer"})
            status = 401
            if self._access.token_file is not None and self._matches_token_file(token.strip()):
                status = 200
            elif authorizer is not None:
                status = 503
                with contextlib.suppress(KubeError, OSError, ValueError):
                    status = await authorizer.status(token.strip(), WATCHER_PATH, request.remote or "")
            return await handler(request) if status == 200 else web.Response(status=status)

        return guard

    def _matches_token_file(self, token: str) -> bool:
        if self._access.token_file is None:
            return False
        try:
            # Read for each request: the token may be rotated.
            expected = self._access.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return False
        return bool(expected) and hmac.compare_digest(token.encode(), expected.encode())
