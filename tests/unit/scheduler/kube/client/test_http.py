"""The asynchronous client: credentials, failures, limits."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from scheduler.kube import client as kube
from scheduler.kube.client import ClientConfig, KubeClient, api_path
from scheduler.kube.client.http import RequestWriter, TokenBucket
from tests.unit.scheduler.kube.fake_api import FakeApi, answer, running, status_body

CANARY = "canary-7f3a9e"


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with running(FakeApi()) as fake:
        yield fake


async def test_bodies_are_encoded_and_parameters_sent(api: FakeApi) -> None:
    bodies: list[tuple[str, str, bytes]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        bodies.append((request.method, request.content_type, await request.read()))
        return web.json_response({"seen": dict(request.query)})

    api.handle = handle  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url), user_agent="me/1") as client:
        answered = await client.post("/x", {"a": 1}, {"dryRun": "All", "n": 2})
        assert json.loads(answered) == {"seen": {"dryRun": "All", "n": "2"}}
        await client.put("/x", b'{"raw":true}')
        await client.patch("/x", {"a": None}, content_type=kube.STRATEGIC_MERGE_PATCH)
        await client.delete("/x", {"preconditions": {"uid": "u"}})
        await client.delete("/x")
    assert [(method, kind) for method, kind, _ in bodies] == [
        ("POST", "application/json"),
        ("PUT", "application/json"),
        ("PATCH", "application/strategic-merge-patch+json"),
        ("DELETE", "application/json"),
        ("DELETE", "application/octet-stream"),
    ]
    assert msgspec.json.decode(bodies[2][2]) == {"a": None}
    assert bodies[4][2] == b""


@pytest.mark.parametrize(
    ("drop", "accept"), [(False, "application/json"), (True, "application/json;drop=metadata.managedFields")]
)
async def test_lists_and_watches_come_without_managed_fields_if_that_is_asked_for(
    api: FakeApi, drop: bool, accept: str
) -> None:
    headers: list[str] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        headers.append(request.headers["Accept"])
        return web.json_response({})

    api.handle = handle  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url), drop_managed_fields=drop) as client:
        await client.get("/api/v1/pods", {"limit": 1})
        async with client.stream("/api/v1/pods", {"watch": "true"}, timeout=5.0, silence=5.0) as chunks:
            assert [chunk async for chunk in chunks]
    assert headers == [accept, accept]


@pytest.mark.parametrize(
    ("code", "reason", "kind", "unknown"),
    [
        (400, "BadRequest", kube.BadRequest, False),
        (401, "Unauthorized", kube.Unauthorized, False),
        (403, "Forbidden", kube.Forbidden, False),
        (404, "NotFound", kube.NotFound, False),
        (409, "Conflict", kube.Conflict, False),
        (409, "AlreadyExists", kube.AlreadyExists, False),
        (410, "Expired", kube.Expired, False),
        (408, "Timeout", kube.ApiError, True),
        (422, "Invalid", kube.Invalid, False),
        (500, "InternalError", kube.ServerError, True),
        (504, "Timeout", kube.ServerError, True),
    ],
)
async def test_failures_have_a_type_and_say_whether_a_write_may_have_landed(
    api: FakeApi, code: int, reason: str, kind: type[kube.ApiError], unknown: bool
) -> None:
    async def fail(_: web.Request) -> web.StreamResponse:
        return web.Response(status=code, body=status_body(code, reason))

    api.handle = fail  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url)) as client:
        with pytest.raises(kind) as caught:
            await client.post("/api/v1/x", {})
        assert caught.value.outcome_unknown is unknown
        assert str(caught.value) == f"POST /api/v1/x: {code} {reason}: said the fake"
        with pytest.raises(kind) as caught:
            await client.get("/api/v1/x")
        assert not caught.value.outcome_unknown


async def test_a_foreign_answer_is_truncated_and_sanitized(api: FakeApi) -> None:
    async def html(_: web.Request) -> web.StreamResponse:
        return web.Response(status=502, body=b"<html>\x1b[31m\x00" + b"x" * 10_000)

    api.handle = html  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url)) as client:
        with pytest.raises(kube.ServerError) as caught:
            await client.get("/x")
    assert len(str(caught.value)) < 600
    assert str(caught.value).isprintable()


async def test_a_write_that_is_cut_after_sending_has_an_unknown_outcome_and_a_read_has_not(api: FakeApi) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        await request.read()
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    api.handle = cut  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url)) as client:
        with pytest.raises(kube.ConnectionLost) as caught:
            await client.post("/binding", {})
        assert caught.value.outcome_unknown
        with pytest.raises(kube.ConnectionFailed) as failed:
            await client.get("/pod")
        assert not failed.value.outcome_unknown


async def test_a_write_that_times_out_has_an_unknown_outcome(api: FakeApi) -> None:
    async def hang(_: web.Request) -> web.StreamResponse:
        await asyncio.sleep(3600)
        return web.Response()

    api.handle = hang  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url)) as client:
        with pytest.raises(kube.ConnectionLost, match="TimeoutError"):
            await client.post("/binding", {}, timeout=0.1)


async def test_a_refused_connection_has_a_known_outcome(unused_tcp_port: int) -> None:
    async with KubeClient(ClientConfig(server=f"http://127.0.0.1:{unused_tcp_port}")) as client:
        with pytest.raises(kube.ConnectionFailed) as caught:
            await client.post("/x", {})
        assert not caught.value.outcome_unknown


async def test_a_rotated_token_is_read_again_after_one_401(api: FakeApi, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    api.token = "old"
    async with KubeClient(ClientConfig(server=api.url, token_file=token)) as client:
        await client.get("/api/v1/pods")
        token.write_text("new\n")
        api.token = "new"
        await client.get("/api/v1/pods")
        assert api.tokens_seen == ["old", "old", "new"]
        api.token = "never"
        with pytest.raises(kube.Unauthorized):
            await client.get("/api/v1/pods")
        assert len(api.tokens_seen) == 5


async def test_a_watch_reads_a_rotated_token_too(api: FakeApi, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    api.token = "new"
    async with KubeClient(ClientConfig(server=api.url, token_file=token)) as client:
        with pytest.raises(kube.Unauthorized):
            async with client.stream("/api/v1/pods", {"watch": "true"}, timeout=5, silence=5):
                pass
        token.write_text("new")
        async with client.stream("/api/v1/pods", {"watch": "true"}, timeout=5, silence=5) as chunks:
            api.put("a")
            assert b'"a"' in await anext(chunks)


async def test_retry_after_is_obeyed_within_the_timeout(api: FakeApi) -> None:
    api.next_lists = [answer(429, "TooManyRequests", **{"Retry-After": "1"})]
    async with KubeClient(ClientConfig(server=api.url)) as client:
        started = time.monotonic()
        await client.get("/api/v1/pods")
        assert time.monotonic() - started >= 1.0
        api.next_lists = [answer(429, "TooManyRequests", **{"Retry-After": "9"})]
        with pytest.raises(kube.TooManyRequests) as caught:
            await client.get("/api/v1/pods", timeout=2)
        assert caught.value.retry_after == 9
        assert len(api.lists) == 3


@pytest.mark.parametrize("status", [300, 302, 399])
async def test_redirects_are_not_followed(api: FakeApi, status: int) -> None:
    async def redirect(request: web.Request) -> web.StreamResponse:
        api.tokens_seen.append(request.path)
        return web.Response(status=status, headers={"Location": "http://127.0.0.1:1/evil"})

    api.handle = redirect  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url, token="t")) as client:
        with pytest.raises(kube.MalformedResponse, match="redirects are not followed"):
            await client.get("/x")
    assert api.tokens_seen == ["/x"]


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_answer_beyond_the_cap_is_refused(api: FakeApi, chunked: bool) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        if chunked:
            response.enable_chunked_encoding()
        else:
            response.content_length = 1 << 20
        await response.prepare(request)
        for _ in range(16):
            await response.write(b"x" * (1 << 16))
        return response

    api.handle = flood  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url), max_bytes=100_000) as client:
        with pytest.raises(kube.ResponseTooLarge, match="larger than 100000 bytes"):
            await client.get("/x")


async def test_the_rate_is_limited_after_a_burst(api: FakeApi) -> None:
    async with KubeClient(ClientConfig(server=api.url), qps=50, burst=5) as client:
        started = time.monotonic()
        await asyncio.gather(*(client.get("/x") for _ in range(15)))
        assert time.monotonic() - started >= 0.19


async def test_callers_are_let_through_in_order_of_arrival() -> None:
    bucket, passed = TokenBucket(qps=5, burst=1), list[int]()

    async def call(number: int) -> None:
        await bucket.acquire()
        passed.append(number)

    await asyncio.gather(*(call(number) for number in range(5)))
    assert passed == [0, 1, 2, 3, 4]


async def test_a_cancelled_wait_returns_its_token() -> None:
    bucket = TokenBucket(qps=1, burst=1)
    await bucket.acquire()
    waiting = [asyncio.create_task(bucket.acquire()) for _ in range(200)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    started = time.monotonic()
    await bucket.acquire()
    assert time.monotonic() - started < 100, "the cancelled ones would have taken 200 s"


class Observed:
    """What a client tells of its requests; times are left out."""

    def __init__(self) -> None:
        self.waits: list[str] = []
        self.exchanges: list[tuple[str, int, int, int]] = []

    def waited(self, method: str, seconds: float) -> None:
        self.waits.append(method)

    def exchanged(self, method: str, status: int, seconds: float, sent: int, received: int) -> None:
        self.exchanges.append((method, status, sent, received))


async def test_the_observer_sees_every_exchange(api: FakeApi) -> None:
    observed = Observed()
    api.next_lists = [answer(404, "NotFound")]
    async with KubeClient(ClientConfig(server=api.url), observer=observed) as client:
        with pytest.raises(kube.NotFound):
            await client.get("/x")
        received = len(await client.get("/x"))
        await client.post("/x", b"four", allowed=lambda: True)
    assert observed.waits == ["GET", "GET", "POST"]
    assert [exchange[:2] for exchange in observed.exchanges] == [("GET", 404), ("GET", 200), ("POST", 200)]
    assert observed.exchanges[1][2:] == (0, received)
    assert observed.exchanges[2][2] == len(b"four")


async def test_no_error_and_no_representation_holds_the_token(api: FakeApi, unused_tcp_port: int) -> None:
    api.token = "another"
    config = ClientConfig(server=api.url, token=CANARY)
    assert CANARY not in repr(config)
    texts = []
    for server in (api.url, f"http://127.0.0.1:{unused_tcp_port}"):
        async with KubeClient(ClientConfig(server=server, token=CANARY)) as client:
            with pytest.raises(kube.KubeError) as caught:
                await client.post("/x", {})
            texts += [str(caught.value), repr(caught.value)]
    assert api.tokens_seen == [CANARY]
    assert not any(CANARY in text for text in texts)


async def test_a_closed_client_says_so(api: FakeApi) -> None:
    client = KubeClient(ClientConfig(server=api.url))
    await client.get("/x")
    await client.close()
    with pytest.raises(kube.KubeError, match="closed"):
        await client.get("/x")


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"api_version": "v1", "resource": "nodes"}, "/api/v1/nodes"),
        (
            {"api_version": "v1", "resource": "pods", "namespace": "a", "name": "b", "subresource": "binding"},
            "/api/v1/namespaces/a/pods/b/binding",
        ),
        (
            {"api_version": "rbac.authorization.k8s.io/v1", "resource": "clusterroles", "name": "a:b"},
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a:b",
        ),
        ({"api_version": "v1", "resource": "pods", "namespace": "a/../b"}, "/api/v1/namespaces/a%2F..%2Fb/pods"),
    ],
)
def test_paths(arguments: dict[str, str], path: str) -> None:
    assert api_path(**arguments) == path


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_cannot_leave_its_segment(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name"):
        api_path("v1", "pods", namespace="a", name=name)


async def test_leadership_that_is_lost_while_writes_wait_for_the_rate_limit_keeps_them_back(api: FakeApi) -> None:
    leading = True

    async def take(request: web.Request) -> web.StreamResponse:
        nonlocal leading
        api.requests.append(request)
        leading = False
        return web.json_response({})

    api.handle = take  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url), qps=4, burst=1) as client:
        writes = [client.post("/binding", {"number": number}, allowed=lambda: leading) for number in range(8)]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
    assert len(api.requests) == 1
    assert [type(outcome) for outcome in outcomes[1:]] == [kube.WriteWithheld] * 7
    assert not any(outcome.outcome_unknown for outcome in outcomes[1:])  # type: ignore[union-attr]


async def test_a_write_asks_for_permission_after_it_has_its_connection(api: FakeApi) -> None:
    """Also for a new connection, and for a request without a body of its own: not even its headers are sent."""
    connections_in_use: list[int] = []

    async def take(request: web.Request) -> web.StreamResponse:
        api.requests.append(request)
        return web.json_response({})

    def refuse() -> bool:
        connections_in_use.append(client._pool.in_use)
        return False

    api.handle = take  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url), qps=0) as client:
        for method in ("post", "patch"):
            with pytest.raises(kube.WriteWithheld):
                await getattr(client, method)("/x", {}, allowed=refuse)
        with pytest.raises(kube.WriteWithheld):
            await client.delete("/x", allowed=refuse)
        assert api.requests == []
        assert connections_in_use == [1, 1, 1]
        await client.delete("/x", allowed=lambda: True)
    assert [request.method for request in api.requests] == ["DELETE"]


async def test_a_repetition_asks_for_permission_again(api: FakeApi) -> None:
    answers = [True, False]

    async def busy(request: web.Request) -> web.StreamResponse:
        api.requests.append(request)
        return web.Response(status=429, body=status_body(429, "TooManyRequests"), headers={"Retry-After": "0"})

    api.handle = busy  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url)) as client:
        with pytest.raises(kube.WriteWithheld):
            await client.post("/x", {}, allowed=lambda: answers.pop(0))
    assert len(api.requests) == 1


async def test_a_write_whose_answer_is_too_large_has_an_unknown_outcome(api: FakeApi) -> None:
    async def long(_: web.Request) -> web.StreamResponse:
        return web.Response(status=201, body=b"x" * 100)

    api.handle = long  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url), max_bytes=10) as client:
        with pytest.raises(kube.ResponseTooLarge) as caught:
            await client.post("/x", {})
        assert caught.value.outcome_unknown
        with pytest.raises(kube.ResponseTooLarge) as caught:
            await client.get("/x")
        assert not caught.value.outcome_unknown


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_refused_connection_is_said_in_the_system_s_words(host: str) -> None:
    async with KubeClient(ClientConfig(server=f"https://{host}:9", insecure_skip_tls_verify=True)) as client:
        with pytest.raises(kube.ConnectionFailed) as failed:
            await client.get("/version")
    assert str(failed.value).startswith(f"GET /version: cannot connect to {host}:9: ")
    assert "onnect" in str(failed.value).rpartition(": ")[2]
    assert "ssl" not in str(failed.value).lower()


async def test_what_must_not_be_repeated_is_refused_at_once_when_the_server_is_busy(api: FakeApi) -> None:
    """To an eviction, 429 is the answer that a PodDisruptionBudget gives."""

    async def busy(request: web.Request) -> web.StreamResponse:
        api.requests.append(request)
        return web.Response(status=429, body=status_body(429, "TooManyRequests"), headers={"Retry-After": "0"})

    api.handle = busy  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url)) as client:
        with pytest.raises(kube.TooManyRequests):
            await client.post("/eviction", {}, repeat=False)
    assert len(api.requests) == 1


async def test_a_watch_whose_refusal_breaks_off_is_an_error_of_the_connection(api: FakeApi) -> None:
    async def broken(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=500, headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.close()
        return response

    api.handle = broken  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url)) as client:
        with pytest.raises(kube.ConnectionFailed, match=r"^GET /api/v1/pods: the server closed the connection"):
            async with client.stream("/api/v1/pods", {"watch": "true"}, timeout=5, silence=5):
                pass


async def test_a_watch_without_a_server_says_which_and_why(unused_tcp_port: int) -> None:
    async with KubeClient(ClientConfig(server=f"http://127.0.0.1:{unused_tcp_port}")) as client:
        with pytest.raises(kube.ConnectionFailed, match=r"^GET /api/v1/pods: cannot connect to .*[Rr]efused"):
            async with client.stream("/api/v1/pods", timeout=5, silence=5):
                pass


async def test_without_a_time_to_wait_a_busy_server_is_asked_again_after_one_second_then_two(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        if seconds >= 1.0:
            waits.append(seconds)
        await real(0)

    monkeypatch.setattr("scheduler.kube.client.http.asyncio.sleep", sleep)
    monkeypatch.setattr("scheduler.kube.client.http.random.uniform", lambda low, high: high)
    api.next_lists = [answer(429, "TooManyRequests"), answer(429, "TooManyRequests")]
    async with KubeClient(ClientConfig(server=api.url)) as client:
        await client.get("/api/v1/pods", timeout=30)
    assert waits == [1.25, 2.25]


def test_a_request_without_a_body_says_that_it_has_none() -> None:
    writer = RequestWriter("api.example", "me")
    common = "Host: api.example\r\nUser-Agent: me\r\nAccept: application/json\r\nAccept-Encoding: identity\r\n"
    assert writer.write("POST", "/x", None) == f"POST /x HTTP/1.1\r\n{common}Content-Length: 0\r\n\r\n".encode()
    for method in ("GET", "HEAD", "DELETE"):
        assert writer.write(method, "/x", None) == f"{method} /x HTTP/1.1\r\n{common}\r\n".encode()


async def test_where_a_kept_connection_is_lost_another_is_opened_at_once(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[bool] = []

    async def cut_once(request: web.Request) -> web.StreamResponse:
        if len(opened) == 1:
            assert request.transport is not None
            request.transport.abort()
        return web.Response(body=b"{}")

    api.handle = cut_once  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url)) as client:
        open_connection = client._pool.open

        async def note(*arguments: Any, at_once: bool = False) -> Any:
            opened.append(at_once)
            return await open_connection(*arguments, at_once=at_once)

        monkeypatch.setattr(client._pool, "open", note)
        await client.get("/x")
    assert opened == [False, True]


async def test_leadership_that_is_lost_before_a_repetition_leaves_the_outcome_open(api: FakeApi) -> None:
    """The server closed the connection without an answer: it may have taken the first one."""
    answers = [True, True, False]

    async def close(request: web.Request) -> web.StreamResponse:
        api.requests.append(request)
        if len(api.requests) > 1:
            assert request.transport is not None
            request.transport.close()
        return web.json_response({})

    api.handle = close  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url)) as client:
        await client.delete("/x", allowed=lambda: answers.pop(0))
        with pytest.raises(kube.ConnectionFailed) as caught:
            await client.delete("/x", allowed=lambda: answers.pop(0))
    assert caught.value.outcome_unknown
    assert (answers, len(api.requests)) == ([], 2)


@pytest.mark.parametrize("path", ["/x y", "/x\r\nHost: elsewhere", "/caf\u00e9"])
async def test_a_path_that_is_none_is_not_sent(api: FakeApi, path: str) -> None:
    async with KubeClient(ClientConfig(server=api.url)) as client:
        with pytest.raises(kube.ConnectionFailed, match="not sent: this is no path of a URL") as refused:
            await client.post(path, {})
    assert not refused.value.outcome_unknown
    assert api.requests == []


async def test_a_server_that_is_gone_before_a_repetition_leaves_the_outcome_open() -> None:
    """The connection ended without an answer, and no other one can be opened: it may have taken the first request."""

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        server.close()
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with KubeClient(ClientConfig(server=f"http://127.0.0.1:{port}")) as client:
        with pytest.raises(kube.ConnectionLost) as caught:
            await client.delete("/x")
    assert caught.value.outcome_unknown


async def test_a_request_whose_turn_was_waited_for_waits_no_more(api: FakeApi) -> None:
    async with KubeClient(ClientConfig(server=api.url), qps=0.001, burst=1) as client:
        await client.wait_for_rate()
        async with asyncio.timeout(30):
            await client.post("/x", {}, prepaid=True)
    assert len(api.requests) == 1


async def test_a_verb_hands_on_all_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above all `allowed`: a write that does not ask may be another leader's."""
    handed_on: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    async def take(_: KubeClient, *arguments: Any, **options: Any) -> bytes:
        handed_on.append((arguments, options))
        return b"{}"

    def allowed() -> bool:
        return True

    monkeypatch.setattr(KubeClient, "request", take)
    async with KubeClient(ClientConfig(server="http://127.0.0.1:1")) as client:
        body, params = {"a": 1}, {"n": 2}
        await client.post("/x", body, params, timeout=3.0, allowed=allowed, prepaid=True, repeat=False)
        await client.put("/x", body, params, timeout=3.0)
        await client.patch("/x", body, params, content_type="c", timeout=3.0, allowed=allowed)
        await client.delete("/x", body, params, timeout=3.0, allowed=allowed)
    common = {"body": body, "params": params, "timeout": 3.0}
    assert handed_on == [
        (("POST", "/x"), {**common, "allowed": allowed, "prepaid": True, "repeat": False}),
        (("PUT", "/x"), common),
        (("PATCH", "/x"), {**common, "content_type": "c", "allowed": allowed}),
        (("DELETE", "/x"), {**common, "allowed": allowed}),
    ]


async def test_the_configured_host_is_looked_up_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up: list[tuple[Any, ...]] = []

    async def look_up(host: Any, port: Any, **_: Any) -> Any:
        looked_up.append((host, port))
        raise OSError("no such host")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", look_up)
    async with KubeClient(ClientConfig(server="http://api.example:6443")) as client:
        with pytest.raises(kube.ConnectionFailed):
            await client.get("/x")
    assert set(looked_up) == {("api.example", 6443)}


async def test_a_write_that_is_withheld_says_which(api: FakeApi) -> None:
    async with KubeClient(ClientConfig(server=api.url)) as client:
        with pytest.raises(kube.WriteWithheld) as withheld:
            await client.post("/binding", {}, allowed=lambda: False)
    assert str(withheld.value) == "POST /binding: not sent: this process may no longer write"


async def test_a_watch_that_is_refused_says_which(api: FakeApi) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.Response(status=403, body=status_body(403, "Forbidden"))

    api.handle = refuse  # type: ignore[method-assign]
    async with running(api), KubeClient(ClientConfig(server=api.url)) as client:
        with pytest.raises(kube.Forbidden, match=r"^GET /api/v1/pods: "):
            async with client.stream("/api/v1/pods", timeout=5, silence=5):
                pass
