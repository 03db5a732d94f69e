"""A recording extender: an HTTP server on this machine that answers as a test says, and keeps what it was asked."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Json = Any
Behavior = Callable[[str, Json], Json]
"""Returns the answer to a verb and a body: JSON, or a `web.Response`-making `Raw`."""


@dataclass(frozen=True)
class Raw:
    """An answer that is not JSON with status 200; `delay` seconds late."""

    status: int = 200
    body: bytes = b""
    delay: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)


class RecordingExtender:
    """What runs: `calls` are path and decoded body, in order."""

    def __init__(self, behavior: Behavior) -> None:
        self.behavior = behavior
        self.calls: list[tuple[str, Json]] = []
        self.content_types: list[str] = []
        self.encodings: list[str] = []
        self.port = 0
        self.scheme = "http"

    @property
    def url(self) -> str:
        """Its address, without a path."""
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def answer(self, request: web.Request) -> web.Response:
        """Record a call and answer it."""
        body = await request.json()
        self.calls.append((request.path, body))
        self.content_types.append(request.headers.get("Content-Type", ""))
        self.encodings.append(request.headers.get("Accept-Encoding", ""))
        verb = request.path.rsplit("/", 1)[1]
        answer = await asyncio.to_thread(self.behavior, verb, body)
        if isinstance(answer, Raw):
            await asyncio.sleep(answer.delay)
            return web.Response(status=answer.status, body=answer.body, headers=answer.headers)
        return web.json_response(answer)


@contextmanager
def extender_running(behavior: Behavior, context: ssl.SSLContext | None = None) -> Iterator[RecordingExtender]:
    """Serve on a thread of its own, by TLS if a context is given."""
    extender = RecordingExtender(behavior)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="extender", daemon=True)
    thread.start()
    application = web.Application(client_max_size=64 << 20)
    application.router.add_post("/{path:.*}", extender.answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)

    async def start() -> int:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port: int = runner.addresses[0][1]
        return port

    try:
        extender.port = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
        extender.scheme = "https" if context is not None else "http"
        yield extender
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
