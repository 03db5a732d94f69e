"""A running scheduler, asked through the API server: a request to a port of its pod (`pods/portforward`).

The way in was chosen in docs/adr/0025: it works with every login, needs no Service and no route to the pod, and nothing
of it can break the cluster. The tunnel leads to the pod that the API server knows by this name, so the certificate in
it, which is self-signed by default, need not be verified. Inside, the caller is known by its own token or certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec

from scheduler import __version__
from scheduler.answers import API_VERSION, Document
from scheduler.kube.client import ClientConfig, Credentials, api_path, connection_error
from secondary_scheduler.errors import CommandError, printable

_PROTOCOL = "v4.channel.k8s.io"
_DATA, _ERROR = 0, 1
_CONNECT_SECONDS, _ANSWER_SECONDS = 15.0, 30.0
_MAX_BYTES = 16 << 20
"""Bytes of an answer; 500 decisions have some 4 MiB."""
_CHUNK = 64 << 10


D = TypeVar("D", bound=Document)


class _Head(msgspec.Struct, rename="camel"):
    api_version: str
    scheduler_version: str = ""


class SchedulerAnswer(NamedTuple):
    """An HTTP answer; `asker` is who asked, as a message has it."""

    status: int
    body: bytes
    asker: str = "this user"

    @property
    def reason(self) -> str:
        """What a refusal says, in one line."""
        return printable(self.body[:300].decode("utf-8", "replace").strip())

    @property
    def is_unknown_user(self) -> bool:
        """Whether the scheduler does not know the caller, so that no right would help."""
        return self.status == 401 or "bearer token is needed" in self.reason

    def refusal(self, right: str, absent: str) -> str:
        """Say what a status other than 200 means: `right` is what the caller needs, `absent` why a path may not be
        served; "" for either if nothing is to be said. It begins with the status."""
        reason = self.reason
        advice = ""
        if self.status == 403 and right:
            advice = f"; {self.asker} needs {right}"
        elif self.status == 404 and absent:
            advice = f"; {absent}"
        if "bearer token is needed" in reason:
            needs = f" (it needs {right})" if right else ""
            advice = (
                "; it does not know the client certificate of this kubeconfig's user: name a ServiceAccount with "
                f"--as-service-account{needs}, or use a user with a token"
            )
        return f"{self.status}: {reason}{advice}"


def read_answer(body: bytes, form: type[D], place: str) -> D:
    """Return what a scheduler answered.

    Args:
        body: of its answer.
        form: which answer it is.
        place: who gave it, such as `shop/scheduler-1`.

    Raises:
        CommandError: it is not a scheduler's of this project, or of a version whose answers have another form.
    """
    try:
        head = msgspec.json.decode(body, type=_Head)
        ours = head.api_version.startswith(f"{API_VERSION.partition('/')[0]}/")
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        ours = False
    if not ours:
        raise CommandError(f"{place}: the answer is not a scheduler's of this project")
    try:
        return msgspec.json.decode(body, type=form)
    except msgspec.ValidationError as error:
        version = head.scheduler_version or "a version before 0.2.0"
        raise CommandError(
            printable(
                f"{place}: the scheduler is {version}, this is {__version__} and cannot read its answer ({error}): use "
                "the command line of the scheduler's version"
            )
        ) from error


class NoSuchPodError(CommandError):
    """The pod does not exist, or no longer."""


class RefusedAnswerError(CommandError):
    """The scheduler answers something else than 200.

    Attributes:
        answer: what.
    """

    def __init__(self, text: str, answer: SchedulerAnswer) -> None:
        self.answer = answer
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class SchedulerPod:
    """A scheduler that can be asked.

    Attributes:
        config: of who forwards a port of the pod.
        port: its `--secure-port`.
        asker: whose token it sees, and whom a message names by its `source`; None: of `config`.
        is_ours: whether it has decisions to show.
    """

    config: ClientConfig
    namespace: str
    name: str
    port: int
    asker: ClientConfig | None = None
    is_ours: bool = True

    @property
    def place(self) -> str:
        """Its namespace and name."""
        return f"{self.namespace}/{self.name}"

    async def ask(self, path: str, query: Mapping[str, str], form: type[D], right: str, absent: str = "") -> D:
        """Return an answer.

        Args:
            path: on its port.
            query: of the request.
            form: of the answer.
            right: what the asker needs, in words, such as `to get pods in namespace shop`.
            absent: why the path may not be served.

        Raises:
            RefusedAnswerError: it answers with another status than 200.
            CommandError: the API server refuses the tunnel, the pod does not answer, or something else.
        """
        answer = await self.get(path, query)
        if answer.status != 200:
            raise RefusedAnswerError(f"{self.place} answers {answer.refusal(right, absent)}", answer)
        return read_answer(answer.body, form, self.place)

    async def get(self, path: str, query: Mapping[str, str]) -> SchedulerAnswer:
        """GET a path.

        Raises:
            NoSuchPodError: there is no such pod.
            CommandError: the API server refuses the tunnel, or the pod does not answer.
        """
        config = self.config
        target = f"{path}?{urlencode(query)}" if query else path
        credentials = Credentials(config)
        tunnelled = api_path("v1", "pods", namespace=self.namespace, name=self.name, subresource="portforward")
        authorization = credentials.authorization()
        headers = {"Authorization": authorization} if authorization else {}
        pod = f"pod {self.place}"
        try:
            async with (
                aiohttp.ClientSession() as session,
                asyncio.timeout(_CONNECT_SECONDS + _ANSWER_SECONDS),
                session.ws_connect(
                    f"{config.server.rstrip('/')}{tunnelled}?ports={self.port}",
                    protocols=(_PROTOCOL,),
                    headers=headers,
                    max_msg_size=1 << 20,
                    server_hostname=config.tls_server_name,
                    ssl=credentials.ssl_context() if credentials.secure else True,
                ) as tunnel,
            ):
                answer = await _exchange(tunnel, self.asker or config, f"{pod} port {self.port}", target)
                return answer if self.asker is None else answer._replace(asker=self.asker.source)
        except aiohttp.WSServerHandshakeError as error:
            if error.status == 404:
                raise NoSuchPodError(f"{pod} does not exist") from error
            raise CommandError(_refusal(error.status, self.namespace, pod)) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            reason = connection_error("GET", tunnelled, error, sent=True)
            raise CommandError(printable(f"{pod}: port {self.port} cannot be reached: {reason}")) from error


def _refusal(status: int, namespace: str, place: str) -> str:
    if status in (401, 403):
        return (
            f"{place}: the API server does not let this user forward ports there ({status}); it needs get and create "
            f"on pods/portforward in namespace {namespace}"
        )
    return f"{place}: the API server answers {status} to the forwarding of a port"


async def _exchange(
    tunnel: aiohttp.ClientWebSocketResponse, config: ClientConfig, place: str, target: str
) -> SchedulerAnswer:
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    ours.settimeout(_ANSWER_SECONDS)
    problems: list[str] = []
    pumps = [asyncio.create_task(_send(theirs, tunnel)), asyncio.create_task(_receive(tunnel, theirs, problems))]
    try:
        return await asyncio.to_thread(_ask, ours, config, target)
    except (OSError, http.client.HTTPException) as error:
        reason = "; ".join(problems) or str(error) or type(error).__name__
        raise CommandError(printable(f"{place}: {reason}")) from error
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        theirs.close()
        ours.close()


async def _send(source: socket.socket, tunnel: aiohttp.ClientWebSocketResponse) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, _CHUNK):
        await tunnel.send_bytes(bytes([_DATA]) + data)


async def _receive(tunnel: aiohttp.ClientWebSocketResponse, sink: socket.socket, problems: list[str]) -> None:
    loop = asyncio.get_running_loop()
    begun: set[int] = set()
    try:
        async for message in tunnel:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            channel, data = message.data[0], message.data[1:]
            if channel not in begun:
                begun.add(channel)  # the first message of a channel repeats the port
            elif channel == _DATA:
                await loop.sock_sendall(sink, data)
            elif channel == _ERROR:
                problems.append(data.decode("utf-8", "replace"))
                return
    finally:
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def _ask(raw: socket.socket, config: ClientConfig, target: str) -> SchedulerAnswer:
    """Speak HTTPS over a connected socket; called in a thread."""
    inside = replace(
        config,
        server="https://scheduler",
        ca_file=None,
        ca_data=None,
        tls_server_name=None,
        insecure_skip_tls_verify=True,
    )
    credentials = Credentials(inside)
    with credentials.ssl_context().wrap_socket(raw) as secure:
        connection = http.client.HTTPConnection("scheduler")
        connection.sock = secure
        authorization = credentials.authorization()
        connection.request("GET", target, headers={"Authorization": authorization} if authorization else {})
        response = connection.getresponse()
        body = response.read(_MAX_BYTES + 1)
        if len(body) > _MAX_BYTES:
            raise http.client.HTTPException(f"the answer is larger than {_MAX_BYTES >> 20} MiB")
        return SchedulerAnswer(response.status, body)
