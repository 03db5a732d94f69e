"""Connections to a server by a client that sends bytes as they are."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl

from tests.support.waiting import PATIENCE_SECONDS

GARBAGE = b"\x00\x01garbage\r\n\r\n"
"""No request, in whichever way one reads it."""


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def answer(self) -> str:
        """The status and the body of the next answer."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            (length,) = (line for line in head.split("\r\n") if line.lower().startswith("content-length:"))
            body = await self.reader.readexactly(int(length.partition(":")[2]))
        return f"{head.split()[1]} {body.decode()}"

    async def ended(self) -> None:
        """Wait until the server has closed it."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            with contextlib.suppress(OSError):
                while await self.reader.read(1 << 16):
                    pass


async def connect(port: int, sent: bytes = b"", *, source: str = "127.0.0.1", tls: bool = True) -> Client:
    """Connect to a port of this machine from one of its addresses."""
    context = unchecked_tls() if tls else None
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, local_addr=(source, 0))
    writer.write(sent)
    return Client(reader, writer)


def unchecked_tls() -> ssl.SSLContext:
    """Of a client that believes every certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def send_garbage(port: int, number: int, *, tls: bool) -> list[bytes]:
    """Send `GARBAGE` over as many connections, one after the other; return the first line of each answer."""
    lines = []
    for _ in range(number):
        with contextlib.ExitStack() as stack:
            link = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS))
            if tls:
                link = stack.enter_context(unchecked_tls().wrap_socket(link))
            link.sendall(GARBAGE)
            lines.append(stack.enter_context(link.makefile("rb")).readline().strip())
    return lines
