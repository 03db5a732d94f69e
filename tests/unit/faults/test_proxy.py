"""The proxies of the fault tests, in front of a small server that answers as an API server does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp import web

from tests.faults import proxy as faults
from tests.faults.proxy import Hold, Proxy, Rule, Target
from tests.faults.tcp import TcpProxy

PODS = "/api/v1/namespaces/a/pods"
LINES = [json.dumps({"type": "ADDED", "object": {"number": number}}).encode() + b"\n" for number in range(4)]


class Upstream:
    """Records what arrives; a watch sends four lines and ends."""

    def __init__(self) -> None:
        self.arrived: list[str] = []
        self.url = ""

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.arrived.append(f"{request.method} {request.path}")
        if "watch" not in request.query_string:
            return web.json_response({"kind": "Status"}, status=201 if request.method == "POST" else 200)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for line in LINES:
            await response.write(line)
        return response


@asynccontextmanager
async def upstream_running() -> AsyncIterator[Upstream]:
    upstream = Upstream()
    runner = web.ServerRunner(web.Server(upstream.answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    upstream.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield upstream
    await runner.cleanup()


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with upstream_running() as running:
        yield running


@pytest.fixture
async def proxy(upstream: Upstream) -> AsyncIterator[Proxy]:
    async with Proxy(upstream.url, None) as running:
        yield running


@pytest.fixture
async def client(proxy: Proxy) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(proxy.url) as session:
        yield session


async def receive(client: aiohttp.ClientSession, received: list[bytes]) -> None:
    async with client.get(f"{PODS}?watch=true") as response:
        async for chunk in response.content.iter_any():
            received.append(chunk)


async def watched(client: aiohttp.ClientSession) -> bytes:
    received: list[bytes] = []
    await receive(client, received)
    return b"".join(received)


@pytest.mark.parametrize(
    ("method", "path", "target"),
    [
        ("GET", "/api/v1/pods?limit=5", ("list", "pods", "", "")),
        ("GET", "/api/v1/pods?watch=1", ("watch", "pods", "", "")),
        ("GET", "/api/v1/nodes/n1", ("get", "nodes", "", "n1")),
        ("POST", f"{PODS}/p/binding", ("create", "pods/binding", "a", "p")),
        ("PATCH", f"{PODS}/p/status", ("patch", "pods/status", "a", "p")),
        ("GET", "/api/v1/namespaces/a", ("get", "namespaces", "", "a")),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/a/leases/l", ("update", "leases", "a", "l")),
        ("GET", "/readyz", ("get", "", "", "")),
    ],
)
def test_a_request_line_is_read_as_the_audit_log_puts_it(
    method: str, path: str, target: tuple[str, str, str, str]
) -> None:
    parsed = Target.parse(method, path)
    assert (parsed.verb, parsed.resource, parsed.namespace, parsed.name) == target


async def test_what_no_rule_names_passes_unchanged(proxy: Proxy, client: aiohttp.ClientSession) -> None:
    proxy.add(Rule(faults.answer(500), verb="create"), Rule(faults.answer(500), name="other"))
    async with client.get(f"{PODS}/p") as response:
        assert (response.status, await response.json()) == (200, {"kind": "Status"})
    assert await watched(client) == b"".join(LINES)
    assert [(exchange.target.verb, exchange.status) for exchange in proxy.exchanges] == [("get", 200), ("watch", 200)]


async def test_a_rule_is_for_so_many_requests_after_so_many(proxy: Proxy, client: aiohttp.ClientSession) -> None:
    rule = proxy.add(Rule(faults.answer(429, retry_after=7), resource="pods", after=1, times=2))
    answers = []
    for _ in range(4):
        async with client.get(PODS) as response:
            answers.append((response.status, response.headers.get("Retry-After")))
    assert answers == [(200, None), (429, "7"), (429, "7"), (200, None)]
    assert (rule.seen, rule.used) == (4, 2)


async def test_rules_with_a_probability_repeat_with_the_seed() -> None:
    def applied(seed: int) -> list[bool]:
        proxy, rule = Proxy("http://127.0.0.1:1", None, seed=seed), Rule(faults.reset(), probability=0.5)
        return [rule.applies(Target("get", "pods"), "", proxy._random.random) for _ in range(20)]

    assert applied(3) == applied(3)
    assert applied(3) != applied(4)
    assert set(applied(3)) == {True, False}


async def test_an_answer_is_lost_after_the_request_took_effect(
    proxy: Proxy, client: aiohttp.ClientSession, upstream: Upstream
) -> None:
    proxy.add(Rule(faults.lose_answer(), verb="create", resource="pods/binding"))
    with pytest.raises(aiohttp.ClientError):
        await client.post(f"{PODS}/p/binding", json={})
    assert upstream.arrived == [f"POST {PODS}/p/binding"]


async def test_a_reset_reaches_nobody(proxy: Proxy, client: aiohttp.ClientSession, upstream: Upstream) -> None:
    proxy.add(Rule(faults.reset()))
    with pytest.raises(aiohttp.ClientError):
        await client.post(PODS, json={})
    assert upstream.arrived == []


async def test_a_held_request_is_forwarded_when_it_is_released_though_its_client_is_gone(
    proxy: Proxy, client: aiohttp.ClientSession, upstream: Upstream
) -> None:
    hold = Hold()
    proxy.add(Rule(hold, verb="create"))
    with pytest.raises(TimeoutError):
        await client.post(PODS, json={}, timeout=aiohttp.ClientTimeout(total=0.1))
    assert upstream.arrived == []
    hold.release()
    async with asyncio.timeout(5):
        while not upstream.arrived:  # noqa: ASYNC110 -- the other task is the server's
            await asyncio.sleep(0.01)
    assert (await hold.first()).target.verb == "create"


async def test_a_watch_is_cut_inside_a_line(proxy: Proxy, client: aiohttp.ClientSession) -> None:
    proxy.add(Rule(faults.cut_watch(after=2), verb="watch", times=1))
    received: list[bytes] = []
    with pytest.raises(aiohttp.ClientPayloadError):
        await receive(client, received)
    assert b"".join(received) == LINES[0] + LINES[1] + LINES[2][: len(LINES[2]) // 2]
    assert await watched(client) == b"".join(LINES)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (faults.swallow(lambda line: b"1" in line), [0, 2, 3]),
        (faults.swallow(times=3), [3]),
        (faults.duplicate(lambda line: b"2" in line), [0, 1, 2, 2, 3]),
        (faults.replay(every=3, lines=2), [0, 1, 2, 0, 1, 3]),
    ],
)
async def test_lines_of_a_watch_disappear_or_come_again(
    proxy: Proxy, client: aiohttp.ClientSession, action: faults.Action, expected: list[int]
) -> None:
    proxy.add(Rule(action, verb="watch"))
    assert await watched(client) == b"".join(LINES[number] for number in expected)


async def test_a_watch_ends_with_an_error_event(proxy: Proxy, client: aiohttp.ClientSession) -> None:
    proxy.add(Rule(faults.end_watch_with(410), verb="watch", times=1), Rule(faults.end_watch_with(500, after=1)))
    event = json.loads(await watched(client))
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    lines = (await watched(client)).splitlines(keepends=True)
    assert lines[0] == LINES[0]
    assert json.loads(lines[1])["object"]["code"] == 500


async def test_a_stalled_connection_waits_and_a_broken_one_fails(upstream: Upstream) -> None:
    port = int(upstream.url.rpartition(":")[2])
    async with TcpProxy(port) as tcp, aiohttp.ClientSession(f"http://127.0.0.1:{tcp.port}") as client:
        tcp.stall()
        request = asyncio.ensure_future(client.get(PODS))
        done, _ = await asyncio.wait([request], timeout=0.1)
        assert not done
        assert upstream.arrived == []
        tcp.resume()
        assert (await request).status == 200
        tcp.stall()
        request = asyncio.ensure_future(client.post(PODS))
        await asyncio.wait([request], timeout=0.05)
        tcp.reset_all()
        with pytest.raises(aiohttp.ClientError):
            await request
