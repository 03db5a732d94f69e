"""A question to a scheduler through a forwarded port: who gets which token, and what a tunnel that fails comes to."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from devcluster.pki import CertificateAuthority
from scheduler.kube.client import ClientConfig
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.clusterstatus import schedulerclient
from secondary_scheduler.clusterstatus.schedulerclient import NoSuchPodError, SchedulerPod

TUNNEL = "/api/v1/namespaces/ns/pods/leader/portforward"


class Cluster:
    """An API server that forwards a port to a scheduler in memory, which answers with `answer` over TLS."""

    def __init__(self, directory: Path) -> None:
        serving = CertificateAuthority("the pod's own").server("scheduler", [], [])
        (directory / "serving").write_bytes(serving.certificate + serving.key)
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(directory / "serving")
        self.url = ""
        self.status = 101
        self.problem = b""
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
        self.tunnels: list[tuple[str, str | None]] = []
        self.questions: list[bytes] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._forward)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        try:
            yield
        finally:
            await runner.cleanup()

    def config(self, token: str | None = "the-users") -> ClientConfig:
        return ClientConfig(server=f"{self.url}/", token=token)

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        self.tunnels.append((request.path_qs, request.headers.get("Authorization")))
        if self.status != 101:
            return web.Response(status=self.status)
        tunnel = web.WebSocketResponse(protocols=("v4.channel.k8s.io",))
        await tunnel.prepare(request)
        for channel in (0, 1):
            await tunnel.send_bytes(bytes([channel]) + b"\x53\x28")
        if self.problem:
            await tunnel.send_bytes(b"\x01" + self.problem)
            return tunnel
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        server = self.tls.wrap_bio(incoming, outgoing, server_side=True)
        async for message in tunnel:
            if message.type is not aiohttp.WSMsgType.BINARY:
                break
            assert message.data[0] == 0
            incoming.write(message.data[1:])
            with contextlib.suppress(ssl.SSLWantReadError):
                server.do_handshake()
                self.questions.append(server.read(4096))
                server.write(self.answer)
            if outgoing.pending:
                await tunnel.send_bytes(b"\x00" + outgoing.read())
        return tunnel


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path)
    async with cluster.running():
        yield cluster


def header(question: bytes) -> list[bytes]:
    return [line for line in question.split(b"\r\n") if line.startswith(b"Authorization:")]


async def test_the_users_token_opens_the_tunnel_and_is_shown_to_the_scheduler(cluster: Cluster) -> None:
    answer = await SchedulerPod(cluster.config(), "ns", "leader", 10259).get("/debug/queue", {"limit": "5"})
    assert (answer.status, answer.body, answer.asker) == (200, b"{}", "this user")
    assert cluster.tunnels == [(f"{TUNNEL}?ports=10259", "Bearer the-users")]
    (question,) = cluster.questions
    assert question.startswith(b"GET /debug/queue?limit=5 HTTP/1.1\r\n")
    assert header(question) == [b"Authorization: Bearer the-users"]


async def test_the_scheduler_sees_the_accounts_token_and_the_api_server_the_users(cluster: Cluster) -> None:
    asker = cluster.config().with_token("the-accounts", "ServiceAccount ns/on-call")
    answer = await SchedulerPod(cluster.config(), "ns", "leader", 10259, asker).get("/debug/queue", {})
    assert (answer.status, answer.asker) == (200, "ServiceAccount ns/on-call")
    assert [authorization for _, authorization in cluster.tunnels] == ["Bearer the-users"]
    (question,) = cluster.questions
    assert question.startswith(b"GET /debug/queue HTTP/1.1\r\n")
    assert header(question) == [b"Authorization: Bearer the-accounts"]


async def test_without_a_token_no_header_is_sent(cluster: Cluster) -> None:
    await SchedulerPod(cluster.config(None), "ns", "leader", 10259).get("/debug/queue", {})
    assert [authorization for _, authorization in cluster.tunnels] == [None]
    assert header(cluster.questions[0]) == []


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (404, NoSuchPodError, "^pod ns/leader does not exist$"),
        (
            403,
            CommandError,
            r"^pod ns/leader: the API server does not let this user forward ports there \(403\); ",
        ),
        (500, CommandError, "^pod ns/leader: the API server answers 500 to the forwarding of a port$"),
    ],
)
async def test_a_tunnel_that_is_refused_says_what_is_missing(
    cluster: Cluster, status: int, error: type[Exception], says: str
) -> None:
    cluster.status = status
    with pytest.raises(error, match=says):
        await SchedulerPod(cluster.config(), "ns", "leader", 10259).get("/debug/queue", {})


async def test_an_api_server_that_is_not_there_is_said_without_the_token() -> None:
    config = ClientConfig(server="http://127.0.0.1:9", token="canary")
    with pytest.raises(
        CommandError, match=r"^pod ns/leader: port 10259 cannot be reached: GET /api/.*refused"
    ) as failed:
        await SchedulerPod(config, "ns", "leader", 10259).get("/debug/queue", {})
    assert "canary" not in str(failed.value)


async def test_what_the_kubelet_says_of_the_port_is_the_reason(cluster: Cluster) -> None:
    cluster.problem = b"connection refused in the pod\x1b[31m"
    with pytest.raises(CommandError, match=r"^pod ns/leader port 10259: connection refused in the pod") as failed:
        await SchedulerPod(cluster.config(), "ns", "leader", 10259).get("/debug/queue", {})
    assert "\x1b" not in str(failed.value)


async def test_an_answer_beyond_the_limit_is_refused(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedulerclient, "_MAX_BYTES", 1)
    with pytest.raises(CommandError, match="the answer is larger than 0 MiB"):
        await SchedulerPod(cluster.config(), "ns", "leader", 10259).get("/debug/queue", {})
