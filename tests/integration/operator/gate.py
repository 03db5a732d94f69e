"""A proxy before the API server that ends the operator in the middle of a write of its own."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from aiohttp import web

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length"}
_OWN_LEASE = "openshift-secondary-scheduler-operator-lock"


class Gate:
    """Forwards every request. Writes are counted from `arm` on; its own Lease's are none of them."""

    def __init__(self, server: str, certificate_authority: str) -> None:
        self._server = server
        self._trust = ssl.create_default_context(cadata=certificate_authority)
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._kills: dict[int, bool] = {}
        self._kill: Callable[[], None] = lambda: None
        self._writes = 0
        self.killed = 0
        """How often the operator was ended."""
        self.url = ""

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def aim(self, kill: Callable[[], None]) -> None:
        """How the operator that runs now is ended."""
        self._kill = kill

    def arm(self, kills: Mapping[int, bool]) -> None:
        """End it at these writes, counted from now: before the server sees the write, or (True) after it did."""
        self._writes, self.killed, self._kills = 0, 0, dict(kills)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self._serve())
        self._loop.run_forever()
        self._loop.run_until_complete(runner.cleanup())

    async def _serve(self) -> web.AppRunner:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{path:.*}", self._forward)
        app.cleanup_ctx.append(self._session_of)
        runner = web.AppRunner(app, shutdown_timeout=0.5, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        self._started.set()
        return runner

    async def _session_of(self, _app: web.Application) -> Any:
        connector = aiohttp.TCPConnector(ssl=self._trust, limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as self._session:
            yield

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        after = self._due(request)
        if after is False:
            return self._end(request)
        headers = {name: text for name, text in request.headers.items() if name.lower() not in _HOP_BY_HOP}
        timeout = aiohttp.ClientTimeout(total=None)
        async with self._session.request(
            request.method,
            f"{self._server}{request.raw_path}",
            data=await request.read() or None,
            headers=headers,
            timeout=timeout,
        ) as answer:
            if after is True:
                await answer.read()
                return self._end(request)
            kept = {name: text for name, text in answer.headers.items() if name.lower() not in _HOP_BY_HOP}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            with contextlib.suppress(ConnectionError, aiohttp.ClientError):
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
            return response

    def _due(self, request: web.Request) -> bool | None:
        """Whether the operator ends at this request: not at all, before, or after the server has seen it."""
        if request.method in ("GET", "HEAD") or _OWN_LEASE in request.path:
            return None
        if request.method == "POST" and request.path.endswith("/leases"):
            return None
        self._writes += 1
        return self._kills.pop(self._writes, None)

    def _end(self, request: web.Request) -> web.StreamResponse:
        self.killed += 1
        self._kill()
        transport = request.transport
        if transport is not None:
            transport.close()
        return web.Response(status=503)
