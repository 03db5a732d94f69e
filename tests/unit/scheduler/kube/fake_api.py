"""An API server in the test's own event loop, whose every answer a test can write itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
WatchScript = Callable[[web.Request, web.StreamResponse], Awaitable[None]]


def status_body(code: int, reason: str, message: str = "said the fake", **fields: Any) -> bytes:
    failure = {"kind": "Status", "metadata": {}, "status": "Failure", "code": code, "reason": reason}
    return json.dumps({**failure, "message": message, **fields}).encode()


def answer(code: int, reason: str, **headers: str) -> Handler:
    """An answer with a failure."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response(status=code, body=status_body(code, reason), headers=headers)

    return handler


def line(kind: str, obj: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"


class FakeApi:
    """One collection of objects at any path, with lists in pages and watches.

    `next_lists` and `next_watches` are used up one per request; without one, lists are answered from the objects and
    watches stream what `put` and `remove` do.
    """

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[str, dict[str, Any]] = {}
        self.requests: list[web.Request] = []
        self.next_lists: list[Handler] = []
        self.next_watches: list[WatchScript] = []
        self.token: str | None = None
        self.tokens_seen: list[str] = []
        self.url = ""
        self.opened = asyncio.Event()
        """Set whenever a watch without a script has been opened."""
        self._queues: list[asyncio.Queue[bytes]] = []

    def put(self, name: str, **extra: Any) -> dict[str, Any]:
        self.version += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.objects[name] = {
            "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "resourceVersion": str(self.version)},
            **extra,
        }
        self.send(line(kind, self.objects[name]))
        return self.objects[name]

    def remove(self, name: str, *, silently: bool = False) -> None:
        self.version += 1
        gone = self.objects.pop(name)
        gone["metadata"]["resourceVersion"] = str(self.version)
        if not silently:
            self.send(line("DELETED", gone))

    def go_back(self, version: int, *names: str) -> None:
        """Have an older version and these objects only, as a restored store does; watches hear nothing of it."""
        self.version = version
        self.objects = {name: self.objects[name] for name in names}

    def bookmark(self) -> None:
        self.version += 1
        self.send(line("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}}))

    def send(self, data: bytes) -> None:
        for queue in self._queues:
            queue.put_nowait(data)

    def close_watches(self) -> None:
        """End the open watches as the server does when their time is up."""
        self.send(b"")

    @property
    def lists(self) -> list[web.Request]:
        return [request for request in self.requests if "watch" not in request.query and request.method == "GET"]

    @property
    def watches(self) -> list[web.Request]:
        return [request for request in self.requests if "watch" in request.query]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        seen = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.tokens_seen.append(seen)
        if self.token is not None and seen != self.token:
            return web.Response(status=401, body=status_body(401, "Unauthorized"))
        if "watch" in request.query:
            return await self._watch(request)
        if self.next_lists:
            return await self.next_lists.pop(0)(request)
        return self._page(request)

    def _page(self, request: web.Request) -> web.Response:
        names = sorted(self.objects)
        start = int(request.query.get("continue", "0"))
        end = start + int(request.query.get("limit", "1000000"))
        meta = {"resourceVersion": str(self.version)}
        if end < len(names):
            meta["continue"] = str(end)
        return web.json_response({"metadata": meta, "items": [self.objects[name] for name in names[start:end]]})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        if self.next_watches:
            await self.next_watches.pop(0)(request, response)
            return response
        await response.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._queues.append(queue)
        self.opened.set()
        try:
            while data := await queue.get():
                await response.write(data)
            return response
        finally:
            self._queues.remove(queue)


@asynccontextmanager
async def running(api: FakeApi) -> AsyncIterator[FakeApi]:
    """Serve on a free port of this machine."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield api
    finally:
        await runner.cleanup()
