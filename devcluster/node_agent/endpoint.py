"""The parts of kubelet's API that the API server passes on: GET /containerLogs/NAMESPACE/POD/CONTAINER, which is behind
``kubectl logs``, and /portForward/NAMESPACE/POD for clients that speak WebSocket. ``kubectl exec`` and ``attach`` are
refused, with the reason.

Ports are forwarded by the subprotocol ``v4.channel.k8s.io``, one by each connection: a message begins with a channel, 0
for data and 1 for an error, and the first message of a channel has the port in it. kubectl speaks SPDY below its
WebSocket, which is not spoken here.

Only the API server may ask: it must show a client certificate of the cluster's authority whose group is system:masters
(``--kubelet-client-certificate``). Our own certificate is self-signed, as a kubelet's is by default.
"""

import asyncio
import contextlib
import json
import os
import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from aiohttp import WSMsgType, web

from devcluster.node_agent import logs
from devcluster.node_agent.containers import NodeRuntime
from devcluster.node_agent.pod import PodWorker
from devcluster.pki import CertificateAuthority

ALLOWED_GROUP = "system:masters"
FOLLOW_SECONDS = 0.25
CHUNK = 64 * 1024
_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = b"\x00", b"\x01"
_FORWARDED = 32 * 1024
"""Bytes of a message."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_UNSUPPORTED = ("timestamps", "sinceSeconds", "sinceTime")


class KubeletEndpoint:
    """Serves container logs and forwarded ports over TLS on the loopback address."""

    def __init__(self, host: str, client_ca: str, node: NodeRuntime, workers: Mapping[str, PodWorker]) -> None:
        """``client_ca``: PEM of the authority whose clients are let in; ``workers``: those of the node's pods, now."""
        self._host = host
        self._tls = _server_context(host, client_ca)
        self._node = node
        self._workers = workers
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Listen on a free port and return it."""
        app = web.Application()
        app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        for method in ("GET", "POST"):
            app.router.add_route(method, "/portForward/{namespace}/{pod}", self._forward)
            for command in ("exec", "attach"):
                app.router.add_route(method, f"/{command}/{{namespace}}/{{pod}}/{{container}}", self._refuse)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, 0, ssl_context=self._tls)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        _require_api_server(request)
        namespace, pod = request.match_info["namespace"], request.match_info["pod"]
        address = next((worker.address for worker in self._workers_of(namespace, pod)), "")
        return await _forward_port(request, address)

    def _workers_of(self, namespace: str, pod: str) -> list[PodWorker]:
        return [worker for worker in self._workers.values() if (worker.namespace, worker.name) == (namespace, pod)]

    async def _refuse(self, request: web.Request) -> web.StreamResponse:
        _require_api_server(request)
        command = request.path.split("/")[1]
        raise _refusal(f"this local cluster does not support kubectl {command}: kubectl logs shows what a pod wrote")

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        _require_api_server(request)
        source = (request.match_info["namespace"], request.match_info["pod"], request.match_info["container"])
        for option in _UNSUPPORTED:
            if request.query.get(option, "false") != "false":
                raise web.HTTPBadRequest(text=f"{option} is not supported: logs are kept without times\n")
        path = self._node.log_file(*source)
        if request.query.get("previous") == "true":
            path = logs.previous(path)
        if not all(_NAME.fullmatch(part) for part in source) or not _exists(path):
            raise web.HTTPNotFound(text=f"no log of container {source[2]} in pod {source[0]}/{source[1]}\n")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        follow = request.query.get("follow") == "true"
        with contextlib.suppress(ConnectionError):
            await self._copy(
                response, path, _number(request, "tailLines"), _number(request, "limitBytes"), source, follow
            )
        return response

    async def _copy(
        self,
        response: web.StreamResponse,
        path: Path,
        lines: int | None,
        limit: int | None,
        source: tuple[str, str, str],
        follow: bool,
    ) -> None:
        left = limit if limit is not None else -1
        namespace, pod, container = source
        decode = self._node.containers.log_decoder()
        with _open(path) as stream:
            if lines is not None:
                stream.seek(_start_of_tail(stream, lines))
            while True:
                # Asked before reading: what came last must not be missed.
                alive = follow and any(worker.runs(container) for worker in self._workers_of(namespace, pod))
                while left and (piece := stream.read(CHUNK)):
                    data = decode(piece)
                    data = data if left < 0 else data[:left]
                    left = left if left < 0 else left - len(data)
                    await response.write(data)
                if not alive or not left:
                    return
                await asyncio.sleep(FOLLOW_SECONDS)


def _exists(path: Path) -> bool:
    return path.exists()


def _open(path: Path) -> BinaryIO:
    return path.open("rb")


def _number(request: web.Request, name: str) -> int | None:
    text = request.query.get(name)
    if text is None:
        return None
    if not text.isdigit():
        raise web.HTTPBadRequest(text=f"{name} must be a number\n")
    return int(text)


def _start_of_tail(stream: BinaryIO, lines: int) -> int:
    """Where the last lines begin."""
    end = position = stream.seek(0, os.SEEK_END)
    tail = b""
    while position and tail.rstrip(b"\n").count(b"\n") < lines:
        step = min(CHUNK, position)
        position = stream.seek(position - step)
        tail = stream.read(step) + tail
    last = tail.splitlines(keepends=True)[-lines:] if lines else []
    return end - sum(len(line) for line in last)


def _require_api_server(request: web.Request) -> None:
    if ALLOWED_GROUP not in _groups(request):
        raise web.HTTPForbidden(text=f"a client certificate of group {ALLOWED_GROUP} is needed\n")


def _groups(request: web.Request) -> set[str]:
    certificate: dict[str, Any] = (request.transport.get_extra_info("peercert") if request.transport else None) or {}
    fields = [field for entry in certificate.get("subject", ()) for field in entry]
    return {value for name, value in fields if name == "organizationName"}


def _server_context(host: str, client_ca: str) -> ssl.SSLContext:
    pair = CertificateAuthority("node-agent").server("node-agent", ["localhost"], [host])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=client_ca)
    with tempfile.NamedTemporaryFile(suffix=".pem") as stream:  # ssl reads keys from files only; this one is 0600
        stream.write(pair.certificate + pair.key)
        stream.flush()
        context.load_cert_chain(stream.name)
    return context


def _refusal(message: str) -> web.HTTPException:
    """What the API server passes on to kubectl word for word: it decodes a Status, and loses any other text."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotImplemented", "code": 501}
    return web.HTTPNotImplemented(text=json.dumps({**status, "message": message}), content_type="application/json")


async def _forward_port(request: web.Request, address: str) -> web.StreamResponse:
    """Connect the caller with a port of a pod until one of them closes."""
    socket = web.WebSocketResponse(protocols=(_PROTOCOL,), max_msg_size=1 << 20)
    if not socket.can_prepare(request):
        raise _refusal(
            "this local cluster does not support kubectl port-forward: secondary-scheduler forwards the ports that it "
            "needs itself"
        )
    port = request.query.get("port", "")
    if not (port.isascii() and port.isdigit() and 0 < int(port[:6]) < 1 << 16):
        raise web.HTTPBadRequest(text="port: one number from 1 to 65535\n")
    namespace, pod = request.match_info["namespace"], request.match_info["pod"]
    if not address:
        raise web.HTTPNotFound(text=f"no pod {namespace}/{pod} runs on this node\n")
    await socket.prepare(request)
    number = int(port).to_bytes(2, "little")
    for channel in (_DATA, _ERROR):
        await socket.send_bytes(channel + number)
    try:
        reader, writer = await asyncio.open_connection(address, int(port))
    except OSError as error:
        await socket.send_bytes(_ERROR + f"port {port} of pod {namespace}/{pod}: {error.strerror or error}".encode())
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
        while data := await reader.read(_FORWARDED):
            await socket.send_bytes(_DATA + data)
    await socket.close()


async def _receive(socket: web.WebSocketResponse, writer: asyncio.StreamWriter) -> None:
    """What the caller writes, until it closes."""
    async for message in socket:
        if message.type is WSMsgType.BINARY and message.data[:1] == _DATA:
            writer.write(message.data[1:])
            with contextlib.suppress(OSError):
                await writer.drain()
