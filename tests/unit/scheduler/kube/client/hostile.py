"""A server that answers with the bytes a test gives it, and whatever it likes to do to the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from scheduler.kube.client import ClientConfig

Script = Callable[["Visit"], Awaitable[None]]


class Visit:
    """One connection of a client."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self._reader = reader
        self._writer = writer

    async def request(self) -> bytes:
        """Read a request with its body. Raises IncompleteReadError where the client has closed the connection."""
        head = await self._reader.readuntil(b"\r\n\r\n")
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        body = await self._reader.readexactly(int(lengths[0].partition(b":")[2])) if lengths else b""
        return head + body

    async def send(self, data: bytes) -> None:
        """Write bytes and wait until they are on their way."""
        self._writer.write(data)
        await self._writer.drain()

    def abort(self) -> None:
        """End the connection with a reset."""
        self._writer.transport.abort()

    async def until_closed(self) -> None:
        """Wait until the client has closed the connection."""
        with suppress(ConnectionError):
            while await self._reader.read(1 << 16):
                pass


class HostileServer:
    """Runs a script for each connection, and closes it at the script's end."""

    def __init__(self) -> None:
        self.port = 0
        self.visits: list[Visit] = []
        self.requests: list[bytes] = []
        self.script: Script = self.answer_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    @property
    def config(self) -> ClientConfig:
        """The configuration of a client of this server."""
        return ClientConfig(server=f"http://127.0.0.1:{self.port}")

    def answer_all(self, data: bytes) -> Script:
        """Answer every request of a connection with the same bytes."""

        async def script(visit: Visit) -> None:
            while True:
                self.requests.append(await visit.request())
                await visit.send(data)

        return script

    def answer_once(self, data: bytes, *, then_wait: bool = False) -> Script:
        """Answer the first request of a connection, then close it, or wait until the client does."""

        async def script(visit: Visit) -> None:
            self.requests.append(await visit.request())
            await visit.send(data)
            if then_wait:
                await visit.until_closed()

        return script

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visit = Visit(len(self.visits), reader, writer)
        self.visits.append(visit)
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self.script(visit)
        writer.close()


@asynccontextmanager
async def hostile_server() -> AsyncIterator[HostileServer]:
    """Serve on a free port of this machine."""
    hostile = HostileServer()
    server = await asyncio.start_server(hostile._serve, "127.0.0.1", 0)
    hostile.port = server.sockets[0].getsockname()[1]
    try:
        yield hostile
    finally:
        server.close()
        for visit in hostile.visits:
            visit.abort()
        await server.wait_closed()
