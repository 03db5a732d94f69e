"""A TCP proxy: stalls and resets below any protocol, for what terminates TLS itself."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from socket import SO_LINGER, SOL_SOCKET
from typing import Self

_CHUNK = 64 << 10


class TcpProxy:
    """Passes connections on to a port of the loopback as long as the block; `stall`, `refuse` and `reset_all` break
    them. Its address stays the same. With `tls` it terminates TLS in front of what speaks none; a certificate that is
    loaded into it later is shown to later connections."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._upstream = port
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.clients: dict[int, bytes] = {}
        """By the port from which a connection goes on: the certificate (DER) that its client showed, where `tls` asks
        for one and it did."""
        self.refusing = False
        """Whether new connections are reset."""
        self.port = 0

    def stall(self) -> None:
        """Pass no byte on, in either direction, and break nothing: what a hung peer or a silent network looks like."""
        self._flowing.clear()

    def resume(self) -> None:
        """Let bytes flow again, those that waited first."""
        self._flowing.set()

    def reset_all(self) -> None:
        """Break every connection with RST."""
        for writer in list(self._writers):
            _reset(writer)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.reset_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # aborted transports close in the next turn of the loop

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.refusing:
            _reset(writer)
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            _reset(writer)
            return
        self._writers |= {writer, far_writer}
        if self._tls is not None:
            shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            self.clients[far_writer.get_extra_info("sockname")[1]] = shown or b""
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._copy(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while chunk := await source.read(_CHUNK):
                await self._flowing.wait()
                sink.write(chunk)
                await sink.drain()
            with contextlib.suppress(OSError):
                # TLS has no half-closed connections.
                sink.write_eof() if sink.can_write_eof() else sink.close()
        except OSError:
            _reset(sink)


def _reset(writer: asyncio.StreamWriter) -> None:
    # A TLS connection that is closed already has no socket to ask for.
    with contextlib.suppress(OSError, AttributeError):
        writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
