"""A reverse proxy in front of a real API server that breaks the requests a test names, one rule at a time.

    async with Proxy.of(plane) as proxy:
        proxy.add(Rule(lose_answer(), verb="create", resource="pods/binding", times=1))
        start_scheduler(proxy.write_kubeconfig(directory / "kubeconfig"))

Clients speak plain HTTP to it on the loopback; it speaks TLS to the API server, with one user's certificate. The first
rule that matches a request decides it; a request without one passes. What is forwarded reaches the API server even when
the client has long hung up. `Proxy.exchanges` lists every request, for bounds on rates.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import ssl
import struct
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from socket import SO_LINGER, SOL_SOCKET
from typing import Any, Protocol, Self
from urllib.parse import parse_qs, unquote, urlsplit

import aiohttp
import yaml
from aiohttp import web

from devcluster.layout import Layout

_HOP_BY_HOP = frozenset(
    {"host", "connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "content-length"}
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_MAX_LINE_LENGTH = 64 << 20


class Plane(Protocol):
    """A running control plane: LocalCluster, or the one of the conformance tests."""

    @property
    def layout(self) -> Layout:
        """Where its certificates are."""

    @property
    def api_server(self) -> str:
        """`https://host:port`."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a request is about, as an audit log would put it."""

    verb: str
    """get, list, watch, create, update, patch, delete; of a path outside the API, the method in lower case."""
    resource: str
    """Plural, with the subresource: `pods`, `pods/binding`; empty outside the API."""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @classmethod
    def parse(cls, method: str, path_and_query: str) -> Target:
        """Read a request line."""
        parts = urlsplit(path_and_query)
        segments = [unquote(part) for part in parts.path.split("/") if part]
        prefix = {"api": 2, "apis": 3}.get(segments[0], 0) if segments else 0
        rest = segments[prefix:] if prefix else []
        if not rest:
            return cls(method.lower(), "", path=parts.path)
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
            namespace, rest = rest[1], rest[2:]
        name = rest[1] if len(rest) > 1 else ""
        resource = "/".join([rest[0], *rest[2:]])
        verb = _VERBS.get(method, "get" if name else "list")
        if method == "GET" and parse_qs(parts.query).get("watch", ["0"])[0] in ("1", "true"):
            verb = "watch"
        return cls(verb, resource, namespace, name, parts.path)


@dataclass(slots=True)
class Exchange:
    """One request on its way; actions decide what becomes of it."""

    proxy: Proxy
    request: web.Request
    target: Target
    body: bytes
    started: float = field(default_factory=time.monotonic)
    """Monotonic seconds."""
    status: int = 0
    """What the client was sent; 0 for nothing."""
    upstream_status: int = 0
    """What the API server answered; 0 when it was not asked, or has not answered yet."""
    path: str = ""
    """Path and query that the API server is asked for instead of the request's, where it is set."""
    ended: bool = False

    @property
    def agent(self) -> str:
        """Who asks, in its own words."""
        return self.request.headers.get("User-Agent", "")

    async def send(self, status: int, body: bytes, headers: Mapping[str, str]) -> web.StreamResponse:
        """Answer the client without the API server."""
        self.status = status
        return web.Response(status=status, body=body, headers=dict(headers))

    def reset(self) -> None:
        """Break the client's connection with RST, so that it learns of it at once."""
        transport = self.request.transport
        if transport is None:
            return
        sock = transport.get_extra_info("socket")
        with contextlib.suppress(OSError):
            sock.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()

    async def forward(self, edit: Edit | None = None) -> web.StreamResponse:
        """Send the request on and the answer back; `edit` sees each line of a watch."""
        async with self._upstream() as answer:
            if self.target.verb == "watch" and answer.status == 200:
                return await self._stream(answer, edit or Edit())
            return await self.send(answer.status, await answer.read(), _passed_on(answer.headers))

    async def apply(self) -> int:
        """Send the request on and keep the answer; returns its status."""
        async with self._upstream() as answer:
            await answer.read()
            return self.upstream_status

    @contextlib.asynccontextmanager
    async def _upstream(self) -> Any:
        headers = {name: value for name, value in self.request.headers.items() if name.lower() not in _HOP_BY_HOP}
        # Whatever credentials the client shows, the certificate counts.
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        if self.proxy.user:
            headers["Impersonate-User"] = self.proxy.user
            if self.proxy.groups:
                headers["Impersonate-Group"] = self.proxy.groups[0]
        url = self.proxy.upstream + (self.path or self.request.raw_path)
        async with self.proxy.session.request(
            self.request.method, url, data=self.body or None, headers=headers, allow_redirects=False
        ) as answer:
            self.upstream_status = answer.status
            yield answer

    async def _stream(self, answer: aiohttp.ClientResponse, edit: Edit) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
        await response.prepare(self.request)
        self.status = answer.status
        try:
            if "json" not in answer.headers.get("Content-Type", ""):
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
            else:
                await self._copy_lines(answer, response, edit)
            await response.write_eof()
        except _CutError:
            if self.request.transport is not None:
                self.request.transport.close()
        return response

    @staticmethod
    async def _copy_lines(answer: aiohttp.ClientResponse, response: web.StreamResponse, edit: Edit) -> None:
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            assert len(rest) < _MAX_LINE_LENGTH
            for line in lines:
                for written in edit.line(line + b"\n"):
                    await response.write(written)
                if edit.ended:
                    raise _CutError


class _CutError(Exception):
    """A watch ends without an end."""


class Edit:
    """What becomes of the lines of a watch; this one passes all of them on. One per watch."""

    ended = False
    """Whether the connection ends after what the last call returned, without the end that HTTP wants."""

    def line(self, line: bytes) -> list[bytes]:
        """Return what is written for a line, which ends with a newline."""
        return [line]


Action = Callable[[Exchange], Awaitable[web.StreamResponse]]
Predicate = Callable[[bytes], bool]
"""Whether a line of a watch is meant."""


@dataclass
class Rule:
    """Which requests an action is for. All conditions that are set must hold."""

    action: Action
    verb: str = ""
    """One or several, separated by `|`."""
    resource: str = ""
    """Plural, with the subresource: `pods/binding`; several separated by `|`."""
    name: str = ""
    """Regular expression for the object's whole name."""
    namespace: str = ""
    agent: str = ""
    """Part of the User-Agent."""
    times: int | None = None
    """How many requests it is for; None for all."""
    after: int = 0
    """How many matching requests pass before the first."""
    probability: float = 1.0
    """Of the rest, drawn with the proxy's seed."""
    seen: int = 0
    """Matching requests so far."""
    used: int = 0
    """How many of them the action was for."""

    def applies(self, target: Target, agent: str, draw: Callable[[], float]) -> bool:
        """Whether the action is for this request; counts it."""
        matches = (
            (not self.verb or target.verb in self.verb.split("|"))
            and (not self.resource or target.resource in self.resource.split("|"))
            and (not self.name or re.fullmatch(self.name, target.name) is not None)
            and (not self.namespace or target.namespace == self.namespace)
            and self.agent in agent
        )
        if not matches:
            return False
        self.seen += 1
        if self.seen <= self.after or (self.times is not None and self.used >= self.times):
            return False
        if self.probability < 1 and draw() >= self.probability:
            return False
        self.used += 1
        return True


class Proxy:
    """The proxy; it listens as long as the block. Rules may come and go meanwhile.

    Args:
        upstream: address of the API server; may be changed while it runs, as a failover does.
        tls: with the certificate of the user in whose name requests arrive.
        seed: of the rules that apply with a probability.
        user: whom the API server is to take the requests for, by impersonation; empty for the certificate's own.
        groups: of that user.
    """

    def __init__(
        self, upstream: str, tls: ssl.SSLContext | None, *, seed: int = 0, user: str = "", groups: tuple[str, ...] = ()
    ) -> None:
        self.upstream = upstream.rstrip("/")
        self.rules: list[Rule] = []
        self.exchanges: list[Exchange] = []
        self.user = user
        self.groups = groups
        self._tls = tls
        self._random = random.Random(seed)
        self._session: aiohttp.ClientSession | None = None
        self._runner: web.ServerRunner | None = None
        self._port = 0
        self._tasks: set[asyncio.Task[Any]] = set()

    @classmethod
    def of(cls, plane: Plane, *, seed: int = 0, user: str = "", groups: tuple[str, ...] = ("system:masters",)) -> Proxy:
        """In front of a control plane, with the administrator's certificate: as the administrator, or a user."""
        tls = ssl.create_default_context(cafile=str(plane.layout.pki("ca.crt")))
        tls.load_cert_chain(str(plane.layout.pki("admin.crt")), str(plane.layout.pki("admin.key")))
        return cls(plane.api_server, tls, seed=seed, user=user, groups=groups)

    @property
    def url(self) -> str:
        """Its own address."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def session(self) -> aiohttp.ClientSession:
        """Connections to the API server."""
        assert self._session is not None, "the proxy is not running"
        return self._session

    def add(self, *rules: Rule) -> Rule:
        """Add rules after the present ones; returns the last, whose counters a test may want."""
        self.rules.extend(rules)
        return rules[-1]

    def remove(self, *rules: Rule) -> None:
        """Take rules away; requests that they hold stay held."""
        for rule in rules:
            self.rules.remove(rule)

    @contextlib.contextmanager
    def broken_by(self, *rules: Rule) -> Any:
        """Rules for the time of a block."""
        self.add(*rules)
        try:
            yield rules[-1]
        finally:
            self.remove(*rules)

    def write_kubeconfig(self, path: Path, **user: str) -> Path:
        """Write a kubeconfig that leads here; `user` is its user's entry, for a token."""
        cluster = {"name": "proxy", "cluster": {"server": self.url}}
        context = {"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [cluster],
            "users": [{"name": "proxy", "user": user}],
            "contexts": [context],
            "current-context": "proxy",
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def count(self, verb: str = "", resource: str = "", *, since: float = 0.0) -> int:
        """How many requests there were, from a monotonic moment on."""
        return sum(
            exchange.started >= since
            and verb in ("", exchange.target.verb)
            and resource in ("", exchange.target.resource)
            for exchange in self.exchanges
        )

    def reset_all(self) -> None:
        """Break every request that is under way, watches included."""
        for exchange in self.exchanges:
            exchange.reset()

    def forget_ended(self) -> None:
        """Keep only the exchanges that are under way: of hours, all are too many."""
        self.exchanges = [exchange for exchange in self.exchanges if not exchange.ended]

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(ssl=True if self._tls is None else self._tls, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=aiohttp.ClientTimeout(total=None), auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(), read_bufsize=1 << 20,
        )  # fmt: skip
        server = web.Server(self._handle)
        self._runner = web.ServerRunner(server, access_log=None, shutdown_timeout=0.2)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.reset_all()
        waiting = set(self._tasks)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if self._runner is not None:
            await self._runner.cleanup()
        await self.session.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        target = Target.parse(request.method, request.raw_path)
        exchange = Exchange(self, request, target, body)  # type: ignore[arg-type]
        self.exchanges.append(exchange)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        rule = next((rule for rule in self.rules if rule.applies(target, exchange.agent, self._random.random)), None)
        try:
            return await (rule.action(exchange) if rule else exchange.forward())
        except (aiohttp.ClientError, OSError):
            # The API server is away, or the client is: there is nobody to be answered.
            exchange.reset()
            return web.Response(status=502)
        finally:
            exchange.ended = True


def delay(seconds: float, then: Action | None = None) -> Action:
    """Let a request wait before it is forwarded, or before another action."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        await asyncio.sleep(seconds)
        return await (then or Exchange.forward)(exchange)

    return act


def lose_answer() -> Action:
    """Forward a request, which takes effect, and break the connection instead of answering."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        await exchange.apply()
        exchange.reset()
        return web.Response(status=502)

    return act


class Hold:
    """Keep requests until `release`; then they are forwarded, whether their client still waits or not.

    Used as an action: `Rule(hold := Hold(), verb="create", resource="pods/binding")`.
    """

    def __init__(self) -> None:
        self._released = asyncio.Event()
        self._arrived = asyncio.Event()
        self.held: list[Exchange] = []

    def release(self) -> None:
        """Forward what is held, and hold nothing any more."""
        self._released.set()

    async def first(self, seconds: float = 30.0) -> Exchange:
        """Wait for a request to be held; returns the first."""
        async with asyncio.timeout(seconds):
            await self._arrived.wait()
        return self.held[0]

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        self.held.append(exchange)
        self._arrived.set()
        await self._released.wait()
        return await exchange.forward()


def reset() -> Action:
    """Break the connection; nothing reaches the API server."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        exchange.reset()
        return web.Response(status=502)

    return act


def answer(status: int, message: str = "injected", *, reason: str = "", retry_after: int | None = None) -> Action:
    """Answer with a Status of Kubernetes; nothing reaches the API server."""
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": status}
    if reason:
        body["reason"] = reason
    headers = {"Content-Type": "application/json"} | ({} if retry_after is None else {"Retry-After": str(retry_after)})
    return answer_bytes(status, _json(body), headers)


def answer_bytes(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> Action:
    """Answer with anything; nothing reaches the API server."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        return await exchange.send(status, body, headers or {"Content-Type": "application/json"})

    return act


def login_page() -> Action:
    """Answer 200 with HTML, as a captive portal or a proxy that wants a login does."""
    return answer_bytes(200, b"<!DOCTYPE html><html><body>Log in</body></html>", {"Content-Type": "text/html"})


def edit_watch(make: Callable[[], Edit]) -> Action:
    """Forward a watch and edit its lines."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        return await exchange.forward(make())

    return act


def cut_watch(after: int = 0, at: float = 0.5) -> Action:
    """End a watch inside a line: after so many whole ones, that share of the next."""

    class Cut(Edit):
        def __init__(self) -> None:
            self.lines = 0

        def line(self, line: bytes) -> list[bytes]:
            self.lines += 1
            if self.lines <= after:
                return [line]
            self.ended = True
            return [line[: max(1, int(len(line) * at))]]

    return edit_watch(Cut)


def swallow(meant: Predicate = lambda line: True, times: int | None = None) -> Action:
    """Let lines of a watch disappear; by default all, bookmarks too: the watch is open and silent."""
    left = [times]

    class Swallow(Edit):
        def line(self, line: bytes) -> list[bytes]:
            if not meant(line) or left[0] == 0:
                return [line]
            if left[0] is not None:
                left[0] -= 1
            return []

    return edit_watch(Swallow)


def duplicate(meant: Predicate = lambda line: True, copies: int = 2) -> Action:
    """Repeat lines of a watch at once."""

    class Duplicate(Edit):
        def line(self, line: bytes) -> list[bytes]:
            return [line] * (copies if meant(line) else 1)

    return edit_watch(Duplicate)


def replay(every: int = 5, lines: int = 20) -> Action:
    """Send the last lines of a watch once more after every few: old versions after new ones."""

    class Replay(Edit):
        def __init__(self) -> None:
            self.past: list[bytes] = []
            self.count = 0

        def line(self, line: bytes) -> list[bytes]:
            self.count += 1
            again = self.past[-lines:] if self.count % every == 0 else []
            self.past = [*self.past[-lines:], line]
            return [line, *again]

    return edit_watch(Replay)


def end_watch_with(status: int, reason: str = "Expired", after: int = 0) -> Action:
    """End a watch with an ERROR event, as the API server does for a version that is too old (HTTP status 200)."""
    failure = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status, "reason": reason}
    line = _json({"type": "ERROR", "object": failure | {"message": "injected"}}) + b"\n"

    async def act(exchange: Exchange) -> web.StreamResponse:
        if after:
            return await exchange.forward(EndsWith())
        return await exchange.send(200, line, {"Content-Type": "application/json"})

    class EndsWith(Edit):
        def __init__(self) -> None:
            self.lines = 0

        def line(self, passed: bytes) -> list[bytes]:
            self.lines += 1
            if self.lines == after:
                return [passed, line]
            return [passed]

    return act


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP | {"date", "server"}}
