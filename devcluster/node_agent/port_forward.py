"""The part of kubelet's API behind ``pods/portforward``, for clients that speak WebSocket: /portForward/NAMESPACE/POD.

Subprotocol ``v4.channel.k8s.io`` with one port: each message begins with a channel, 0 for data and 1 for an error, and
the first message of a channel has the port in it. kubectl speaks SPDY below its WebSocket, which is not spoken here.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable

from aiohttp import WSMsgType, web

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = b"\x00", b"\x01"
CHUNK = 32 * 1024

AddressOf = Callable[[str, str], str]
"""The address of a pod by namespace and name; "" where none of this name runs here."""


def refusal(message: str) -> web.HTTPException:
    """What the API server passes on to kubectl word for word: it decodes a Status, and loses any other text."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotImplemented", "code": 501}
    return web.HTTPNotImplemented(text=json.dumps({**status, "message": message}), content_type="application/json")


async def forward(request: web.Request, address_of: AddressOf) -> web.StreamResponse:
    """Connect the caller with a port of a pod until one of them closes."""
    socket = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=1 << 20)
    if not socket.can_prepare(request):
        raise refusal(
            "this local cluster does not support kubectl port-forward: secondary-scheduler forwards the ports that it "
            "needs itself"
        )
    port = request.query.get("port", "")
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16):
        raise web.HTTPBadRequest(text="port: one number from 1 to 65535\n")
    namespace, pod = request.match_info["namespace"], request.match_info["pod"]
    address = address_of(namespace, pod)
    if not address:
        raise web.HTTPNotFound(text=f"no pod {namespace}/{pod} runs on this node\n")
    await socket.prepare(request)
    number = int(port).to_bytes(2, "little")
    for channel in (DATA, ERROR):
        await socket.send_bytes(channel + number)
    try:
        reader, writer = await asyncio.open_connection(address, int(port))
    except OSError as error:
        await socket.send_bytes(ERROR + f"port {port} of pod {namespace}/{pod}: {error.strerror or error}".encode())
        await socket.close()
        return socket
    sending = asyncio.create_task(_send(reader, socket))
    try:
        await _receive(socket, writer)
    finally:
        sending.cancel()
        writer.close()
        with contextlib.suppress(asyncio.CancelledError, OSError):
            await sending
    return socket


async def _send(reader: asyncio.StreamReader, socket: web.WebSocketResponse) -> None:
    """What the pod writes, until it closes."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK):
            await socket.send_bytes(DATA + data)
    await socket.close()


async def _receive(socket: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """What the caller writes, until it closes."""
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data[:1] == DATA:
            writer.write(message.data[1:])
            with contextlib.suppress(OSError):
                await writer.drain()
