"""The asynchronous client: one connection pool, one token bucket, typed failures.

Why not an HTTP library: docs/adr/0031-our-own-http-connections.md.
"""

from __future__ import annotations

import asyncio
import random
import re
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, Self
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from scheduler.kube.client.config import ClientConfig
from scheduler.kube.client.connection import ERROR_BODY, Connection, ConnectionClosed, HTTPAnswer, Stream
from scheduler.kube.client.credentials import Credentials
from scheduler.kube.client.errors import (
    ConfigError,
    ConnectionFailed,
    KubeError,
    MalformedResponse,
    ResponseTooLarge,
    TooManyRequests,
    Unauthorized,
    WriteWithheld,
    api_error,
    connection_error,
    sanitize,
)
from scheduler.kube.client.paths import JSON, JSON_WITHOUT_MANAGED_FIELDS, MERGE_PATCH
from scheduler.kube.client.pool import ConnectionPool, NotConnected, ServerAddress
from scheduler.kube.client.responses import MalformedAnswer

_UNSAFE_IN_HEADER: Final = re.compile(r"[^\x20-\x7e]")


class RequestWriter:
    """Writes the requests of one client. What all have in common is put together once per credential."""

    def __init__(self, host: str, user_agent: str, *, accept: str = JSON) -> None:
        """Configure; `host` and `accept` are headers' values. Raise ConfigError where a value cannot be a header's."""
        self._common = (
            _header("Host", host)
            + _header("User-Agent", user_agent)
            + _header("Accept", accept)
            + _header("Accept-Encoding", "identity")
        )
        self._authorization: str | None = None
        self._headers = self._common

    def write(
        self,
        method: str,
        target: str,
        authorization: str | None,
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """Return a request in one piece. `target` is a path with its query, in the characters that a URL may have.

        Raise ConfigError for a credential that cannot be sent.
        """
        if authorization != self._authorization:
            self._headers = self._common + ("" if authorization is None else _header("Authorization", authorization))
            self._authorization = authorization
        if body is not None:
            head = (
                f"{method} {target} HTTP/1.1\r\n{self._headers}"
                f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            return head.encode("ascii") + body
        length = "" if method in ("GET", "HEAD", "DELETE") else "Content-Length: 0\r\n"
        return f"{method} {target} HTTP/1.1\r\n{self._headers}{length}\r\n".encode("ascii")


def _header(name: str, value: str) -> str:
    """Never shows the value, which may be a credential."""
    if _UNSAFE_IN_HEADER.search(value):
        raise ConfigError(f"the value of the header {name} has characters that cannot be sent")
    return f"{name}: {value}\r\n"


class TokenBucket:
    """Let `burst` calls through at once and `qps` a second in the long run, first come first served.

    `qps` of 0 or less means no limit, as a negative one in client-go. Each caller reserves its moment on arrival, so
    that callers keep their order and none polls.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = float(max(burst, 1))
        self._tokens = self._burst
        self._filled_at = time.monotonic()

    async def acquire(self) -> None:
        """Wait until the call may be made."""
        if self._qps <= 0:
            return
        now = time.monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
        self._tokens -= 1
        if self._tokens >= 0:
            return
        try:
            await asyncio.sleep(-self._tokens / self._qps)
        except asyncio.CancelledError:
            self._tokens += 1
            raise


Body = bytes | Mapping[str, Any] | msgspec.Struct
Params = Mapping[str, str | int]
Allowed = Callable[[], bool]
"""Whether a write may be sent; asked right before its first byte goes out."""


class RequestObserver(Protocol):
    """What a client tells of its requests, for metrics."""

    def waited(self, method: str, seconds: float) -> None:
        """A request waited so long for the rate limit."""

    def exchanged(self, method: str, status: int, seconds: float, sent: int, received: int) -> None:
        """A request was answered with an HTTP status, 0 for none, and so many bytes went to and fro; method WATCH
        stands for the begin of a stream."""


_CONNECTIONS: Final = 384
"""Each caller limits how many requests it has under way, to some dozens. This leaves room for requests that hang, so
that the others still find a connection."""
_OPENING: Final = 8
"""Connections that are opened at a time, for requests. Watches have no such limit: each needs one of its own."""
_REPEATED: Final = ("GET", "HEAD", "PUT", "DELETE")
"""Sent once more where the connection ends before an answer begins: mostly, the server has just closed it."""
_UNSAFE: Final = re.compile(r"[^\x21-\x7e]")
_FAILURES: Final = (ConnectionClosed, MalformedAnswer, OSError, TimeoutError)


class KubeClient:
    """Requests to one API server, from one event loop.

    Every method raises a `KubeError` on failure. After a 401 the token file is read again and the request repeated
    once; after a 429 it is repeated as soon as the server allows, within the timeout. Nothing else is retried: after a
    failed write, check `outcome_unknown`. Redirects are not followed.

    A write may come with `allowed`. It is asked last: after the waits for the rate limit and for a connection, and
    before each repetition. Where it says no, nothing is sent and WriteWithheld is raised.
    """

    def __init__(
        self,
        config: ClientConfig,
        *,
        qps: float = 50.0,
        burst: int = 100,
        user_agent: str = "secondary-scheduler",
        timeout: float = 30.0,
        max_bytes: int = 256 << 20,
        observer: RequestObserver | None = None,
        beside: KubeClient | None = None,
        drop_managed_fields: bool = False,
    ) -> None:
        """Configure; nothing is opened yet.

        `qps` and `burst` limit the rate of requests (0 or less: no limit), watches included. `timeout` (seconds) spans
        a request with its retries, but not the wait for the rate limit. `max_bytes` caps the body of an answer.
        `observer` is told of waits and exchanges, for metrics. `beside`: use the connections and credentials of another
        client with this configuration, which is closed after this one. `drop_managed_fields`: ask for answers without
        them, which Kubernetes 1.38 and later can give.
        """
        self._credentials: Credentials = Credentials(config) if beside is None else beside._credentials
        self._secure = self._credentials.secure
        address = ServerAddress.of(config.server, config.tls_server_name)
        self._prefix = address.prefix
        self._writer = RequestWriter(
            address.netloc, user_agent, accept=JSON_WITHOUT_MANAGED_FIELDS if drop_managed_fields else JSON
        )
        self._limiter = TokenBucket(qps, burst)
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._observer = observer
        self._owns_pool = beside is None
        self._pool: ConnectionPool = (
            ConnectionPool(address, limit=_CONNECTIONS, opening=_OPENING) if beside is None else beside._pool
        )
        self._streams = ConnectionPool(address, limit=None)
        self._closed = False

    @property
    def config(self) -> ClientConfig:
        """The configuration this client was made with."""
        return self._credentials.config

    def observe(self, observer: RequestObserver) -> None:
        """Tell an observer of all requests from now on."""
        self._observer = observer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; the client cannot be used any more."""
        self._closed = True
        if self._owns_pool:
            await self._pool.close()
        await self._streams.close()

    async def wait_for_rate(self) -> None:
        """Wait for the rate limit on behalf of a request that is to follow without delay, as `prepaid`."""
        await self._wait_for_turn("POST")

    async def _wait_for_turn(self, method: str) -> None:
        if self._observer is None:
            await self._limiter.acquire()
            return
        began = time.monotonic()
        await self._limiter.acquire()
        self._observer.waited(method, time.monotonic() - began)

    async def get(self, path: str, params: Params | None = None, *, timeout: float | None = None) -> bytes:
        """Read an object or a page of a list."""
        return await self.request("GET", path, params=params, timeout=timeout)

    async def post(
        self,
        path: str,
        body: Body,
        params: Params | None = None,
        *,
        timeout: float | None = None,
        allowed: Allowed | None = None,
        prepaid: bool = False,
        repeat: bool = True,
    ) -> bytes:
        """Create an object, or call a subresource such as binding; `repeat` as in `request`."""
        return await self.request(
            "POST", path, body=body, params=params, timeout=timeout, allowed=allowed, prepaid=prepaid, repeat=repeat
        )

    async def put(self, path: str, body: Body, params: Params | None = None, *, timeout: float | None = None) -> bytes:
        """Replace an object.

        A keep-alive connection that the server has just closed makes the client send a PUT twice; the second one may
        meet a Conflict with the first, so read the object back before believing one.
        """
        return await self.request("PUT", path, body=body, params=params, timeout=timeout)

    async def patch(
        self,
        path: str,
        body: Body,
        params: Params | None = None,
        *,
        content_type: str = MERGE_PATCH,
        timeout: float | None = None,
        allowed: Allowed | None = None,
    ) -> bytes:
        """Change an object; `content_type` says which kind of patch (see `paths`)."""
        return await self.request(
            "PATCH", path, body=body, params=params, content_type=content_type, timeout=timeout, allowed=allowed
        )

    async def delete(
        self,
        path: str,
        body: Body | None = None,
        params: Params | None = None,
        *,
        timeout: float | None = None,
        allowed: Allowed | None = None,
    ) -> bytes:
        """Delete an object; `body` may be DeleteOptions, with preconditions."""
        return await self.request("DELETE", path, body=body, params=params, timeout=timeout, allowed=allowed)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Body | None = None,
        params: Params | None = None,
        content_type: str = JSON,
        timeout: float | None = None,
        allowed: Allowed | None = None,
        prepaid: bool = False,
        repeat: bool = True,
    ) -> bytes:
        """Send one request and return the body of a 2xx answer.

        `body` is encoded as JSON unless it is bytes; `content_type` says which kind of patch it is (see `paths`).
        `timeout` (seconds) replaces the client's own. `prepaid`: the caller has waited for the rate limit
        (`wait_for_rate`). Without `repeat`, a 429 is raised at once: to an eviction it is the answer that a
        PodDisruptionBudget gives.
        """
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        target = self._target(method, path, params)
        if not prepaid:
            await self._wait_for_turn(method)
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        reread = False
        delay = 1.0
        while True:
            try:
                return await self._exchange(method, path, target, data, content_type, deadline, allowed)
            except Unauthorized:
                if reread or not self._credentials.reread():
                    raise
                reread = True
            except TooManyRequests as error:
                wait = (delay if error.retry_after is None else error.retry_after) + random.uniform(0.0, 0.25)
                delay *= 2
                if not repeat or time.monotonic() + wait >= deadline:
                    raise
                await asyncio.sleep(wait)

    @asynccontextmanager
    async def stream(
        self, path: str, params: Params | None = None, *, timeout: float, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a streamed answer and iterate over its chunks as they arrive.

        It ends with ConnectionFailed after `timeout` seconds in all, or `silence` seconds without data. Streams have
        connections of their own: watches must not use up the pool that requests wait for.
        """
        target = self._target("GET", path, params)
        await self._wait_for_turn("WATCH")
        started = time.monotonic()
        connection, stream = await self._open_stream(path, target, timeout, silence)
        self._observe("WATCH", stream.head.status, started)
        try:
            yield self._chunks(path, stream)
        finally:
            stream.stop()
            self._streams.release(connection)

    async def _open_stream(self, path: str, target: str, timeout: float, silence: float) -> tuple[Connection, Stream]:
        deadline = time.monotonic() + timeout
        reread = False
        while True:
            request = self._writer.write("GET", target, self._credentials.authorization())
            self._require_open()
            try:
                connection, stream = await self._begin_stream(request, deadline, silence)
            except (NotConnected, *_FAILURES) as error:
                raise connection_error("GET", path, error, sent=True) from error
            if stream.head.status == 200:
                return connection, stream
            try:
                answer = await _refusal(stream)
            except _FAILURES as error:
                raise connection_error("GET", path, error, sent=True) from error
            finally:
                self._streams.release(connection)
            failure = self._failure("GET", path, answer)
            if reread or not isinstance(failure, Unauthorized) or not self._credentials.reread():
                raise failure
            reread = True

    async def _begin_stream(self, request: bytes, deadline: float, silence: float) -> tuple[Connection, Stream]:
        """Send a request on the connection that a list has just left, which need not be kept for another, or on a new
        one; on a new one, too, where the server has just closed the other."""
        tls = self._tls()
        idle = self._streams.take_from(self._pool, tls)
        while True:
            connection = idle or await self._streams.open(tls, deadline)
            try:
                return connection, await connection.open(request, timeout=deadline - time.monotonic(), silence=silence)
            except BaseException as error:
                self._streams.release(connection)
                if idle is None or not isinstance(error, ConnectionClosed) or error.answered or self._closed:
                    raise
                idle = None

    async def _chunks(self, path: str, stream: Stream) -> AsyncIterator[bytes]:
        try:
            while chunk := await stream.read():
                yield chunk
        except _FAILURES as error:
            raise connection_error("GET", path, error, sent=True) from error

    async def _exchange(
        self,
        method: str,
        path: str,
        target: str,
        data: bytes | None,
        content_type: str,
        deadline: float,
        allowed: Allowed | None,
    ) -> bytes:
        started = time.monotonic()
        status = received = 0
        request = self._writer.write(method, target, self._credentials.authorization(), data, content_type)
        self._require_open()
        try:
            answer = await self._ask(method, path, request, deadline, allowed)
            status = answer.status
            if not 200 <= status < 300:
                raise self._failure(method, path, answer)
            if answer.body is None:
                too_large = ResponseTooLarge(f"{method} {path}: the answer is larger than {self._max_bytes} bytes")
                too_large.outcome_unknown = data is not None
                raise too_large
            received = len(answer.body)
            return answer.body
        except NotConnected as error:
            raise connection_error(method, path, error, sent=False) from error
        except _FAILURES as error:
            raise connection_error(method, path, error, sent=True) from error
        finally:
            self._observe(method, status, started, 0 if data is None else len(data), received)

    async def _ask(
        self, method: str, path: str, request: bytes, deadline: float, allowed: Allowed | None
    ) -> HTTPAnswer:
        """Send a request, and once more where that does no harm and the connection ended before an answer."""
        tls = self._tls()
        pool = self._pool
        lost: ConnectionClosed | None = None
        while True:
            try:
                connection = (pool.take(tls) if lost is None else None) or await pool.open(
                    tls, deadline, at_once=lost is not None
                )
            except NotConnected:
                if lost is not None:
                    raise lost from None
                raise
            try:
                if allowed is not None and not allowed():
                    if lost is not None:
                        raise lost
                    raise WriteWithheld(f"{method} {path}: not sent: this process may no longer write")
                return await connection.ask(request, timeout=deadline - time.monotonic(), limit=self._max_bytes)
            except ConnectionClosed as error:
                if lost is not None or error.answered or method not in _REPEATED or self._closed:
                    raise
                lost = error
            finally:
                pool.release(connection)

    def _failure(self, method: str, path: str, answer: HTTPAnswer) -> KubeError:
        if 300 <= answer.status < 400:
            return MalformedResponse(f"{method} {path}: {answer.status}: redirects are not followed")
        return api_error(method, path, answer.status, answer.body or b"", _retry_after(answer.retry_after))

    def _target(self, method: str, path: str, params: Params | None) -> str:
        target = f"{self._prefix}{path}?{urlencode(params)}" if params else self._prefix + path
        if _UNSAFE.search(target) is not None:
            raise ConnectionFailed(f"{method} {sanitize(path)}: not sent: this is no path of a URL")
        return target

    def _tls(self) -> ssl.SSLContext | None:
        """The context for the next request: rotated certificates take effect."""
        return self._credentials.ssl_context() if self._secure else None

    def _require_open(self) -> None:
        if self._closed:
            raise KubeError("the client is closed")

    def _observe(self, method: str, status: int, started: float, sent: int = 0, received: int = 0) -> None:
        if self._observer is not None:
            self._observer.exchanged(method, status, time.monotonic() - started, sent, received)


async def _refusal(stream: Stream) -> HTTPAnswer:
    """Read the answer to a stream that is not opened, and end it."""
    head = stream.head
    body = b""
    try:
        while not 300 <= head.status < 400 and len(body) <= ERROR_BODY and (part := await stream.read()):
            body += part
    finally:
        stream.stop()
    return HTTPAnswer(head.status, body if len(body) <= ERROR_BODY else None, head.retry_after)


def _retry_after(text: str) -> float | None:
    """Read Retry-After in seconds; the API server never sends the date form. At most five minutes are believed."""
    return min(float(text), 300.0) if text.isascii() and text.isdigit() and len(text) < 10 else None


_PATH: Final = "/version"


class _ServerVersion(Struct, rename="camel"):
    git_version: str


_decoder = msgspec.json.Decoder(_ServerVersion)


async def server_version(client: KubeClient, *, timeout: float) -> str:
    """Return the API server's version, such as `v1.36.3`; whoever is authenticated may read it (`system:discovery`).

    Raises:
        KubeError: there is no answer within `timeout` seconds, a refusal, or an answer without a version.
    """
    body = await client.get(_PATH, timeout=timeout)
    try:
        return _decoder.decode(body).git_version
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedResponse(f"GET {_PATH}: {error}") from error
