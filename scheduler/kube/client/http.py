"""The asynchronous client: one connection pool, one token bucket, typed failures."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Protocol, Self
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp.abc import AbstractStreamWriter
from yarl import URL

from scheduler.kube.client.config import ClientConfig
from scheduler.kube.client.credentials import Credentials
from scheduler.kube.client.errors import (
    ApiError,
    KubeError,
    MalformedResponse,
    ResponseTooLarge,
    TooManyRequests,
    Unauthorized,
    WriteWithheld,
    api_error,
    connection_error,
)
from scheduler.kube.client.limiter import TokenBucket
from scheduler.kube.client.paths import JSON, MERGE_PATCH

Body = bytes | Mapping[str, Any] | msgspec.Struct
Params = Mapping[str, str | int]
Allowed = Callable[[], bool]
"""Whether a write may be sent; asked right before its first byte goes out."""


class Observer(Protocol):
    """What a client tells of its requests, for metrics."""

    def waited(self, method: str, seconds: float) -> None:
        """A request waited so long for the rate limit."""

    def exchanged(self, method: str, status: int, seconds: float, sent: int, received: int) -> None:
        """A request was answered with an HTTP status, 0 for none, and so many bytes went to and fro; method WATCH
        stands for the begin of a stream."""


_CONNECTIONS: Final = 320
"""Each caller limits how many requests it has under way, to some dozens. This leaves room for requests that hang, so
that the others still find a connection."""
_KEEP_ALIVE: Final = 60.0
"""Below the API server's 90 s, so that the server is not the one to close a connection we are about to use."""
_CONNECT_TIMEOUT: Final = 10.0
_ERROR_BODY: Final = 64 << 10
_NEVER_SENT: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)


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
        observer: Observer | None = None,
    ) -> None:
        """Configure; nothing is opened yet.

        `qps` and `burst` limit the rate of requests (0 or less: no limit), watches included. `timeout` (seconds) spans
        a request with its retries, but not the wait for the rate limit. `max_bytes` caps the body of an answer.
        `observer` is told of waits and exchanges, for metrics.
        """
        self._credentials = Credentials(config)
        self._base = config.server.rstrip("/")
        self._server_hostname = config.tls_server_name
        self._limiter = TokenBucket(qps, burst)
        self._headers = {"User-Agent": user_agent, "Accept": JSON, "Accept-Encoding": "identity"}
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._observer = observer
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._closed = False

    @property
    def config(self) -> ClientConfig:
        """The configuration this client was made with."""
        return self._credentials.config

    def observe(self, observer: Observer) -> None:
        """Tell an observer of all requests from now on."""
        self._observer = observer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; the client cannot be used any more."""
        self._closed = True
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()
        self._requests = self._streams = None

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

        A keep-alive connection that the server has just closed makes the HTTP library send a PUT twice; the second one
        then meets a Conflict with the first, so read the object back before believing one.
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
        `timeout` (seconds) replaces the client's own. `allowed` needs a body: with its first byte the headers go out.
        `prepaid`: the caller has waited for the rate limit (`wait_for_rate`). Without `repeat`, a 429 is raised at
        once: to an eviction it is the answer that a PodDisruptionBudget gives.
        """
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        url = self._url(path, params)
        if not prepaid:
            await self._wait_for_turn(method)
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        reread = False
        delay = 1.0
        while True:
            try:
                content = data if allowed is None else _AllowedBody(data or b"{}", allowed)
                return await self._exchange(method, path, url, content, content_type, deadline)
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
        url = self._url(path, params)
        await self._wait_for_turn("WATCH")
        limits = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_TIMEOUT, sock_read=silence)
        started = time.monotonic()
        response = await self._open_stream(path, url, limits)
        self._observe("WATCH", response.status, started)
        try:
            yield self._chunks(path, response)
        finally:
            response.close()

    async def _open_stream(self, path: str, url: URL, limits: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        reread = False
        while True:
            session = self._stream_session()
            try:
                response = await session.get(url, allow_redirects=False, timeout=limits, **self._security())
                if response.status == 200:
                    return response
                raise await self._failure("GET", path, response)
            except Unauthorized:
                if reread or not self._credentials.reread():
                    raise
                reread = True
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise connection_error("GET", path, error, sent=True) from error

    async def _chunks(self, path: str, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise connection_error("GET", path, error, sent=True) from error

    async def _exchange(
        self,
        method: str,
        path: str,
        url: URL,
        data: bytes | _AllowedBody | None,
        content_type: str,
        deadline: float,
    ) -> bytes:
        started = time.monotonic()
        limits = aiohttp.ClientTimeout(total=max(deadline - started, 0.001), sock_connect=_CONNECT_TIMEOUT)
        options = self._security(content_type if data is not None else None)
        status = received = 0
        try:
            async with self._request_session().request(
                method, url, data=data, allow_redirects=False, timeout=limits, **options
            ) as response:
                status = response.status
                if 200 <= status < 300:
                    try:
                        answer = await self._body(method, path, response, self._max_bytes)
                        received = len(answer)
                        return answer
                    except ResponseTooLarge as error:
                        error.outcome_unknown = data is not None
                        raise
                raise await self._failure(method, path, response)
        except _NEVER_SENT as error:
            raise connection_error(method, path, error, sent=False) from error
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            if isinstance(data, _AllowedBody):
                if data.withheld:
                    raise WriteWithheld(f"{method} {path}: not sent: this process may no longer write") from error
                raise connection_error(method, path, error, sent=data.sent) from error
            raise connection_error(method, path, error, sent=True) from error
        finally:
            self._observe(method, status, started, _size(data), received)

    async def _failure(self, method: str, path: str, response: aiohttp.ClientResponse) -> KubeError:
        if 300 <= response.status < 400:
            return MalformedResponse(f"{method} {path}: {response.status}: redirects are not followed")
        try:
            body = await self._body(method, path, response, _ERROR_BODY)
        except ResponseTooLarge:
            body = b""
        error: ApiError = api_error(method, path, response.status, body, _retry_after(response))
        return error

    async def _body(self, method: str, path: str, response: aiohttp.ClientResponse, limit: int) -> bytes:
        length = response.content_length
        if length is not None and length <= limit:
            return await response.read()
        parts: list[bytes] = []
        size = 0
        if length is None:
            async for chunk in response.content.iter_any():
                size += len(chunk)
                if size > limit:
                    break
                parts.append(chunk)
            else:
                return b"".join(parts)
        response.close()
        raise ResponseTooLarge(f"{method} {path}: the answer is larger than {limit} bytes")

    def _url(self, path: str, params: Params | None) -> URL:
        return URL(f"{self._base}{path}?{urlencode(params)}" if params else self._base + path, encoded=True)

    def _security(self, content_type: str | None = None) -> dict[str, Any]:
        """Options computed for each request, so that rotated tokens and certificates take effect."""
        headers = {"Content-Type": content_type} if content_type is not None else {}
        authorization = self._credentials.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        options: dict[str, Any] = {"headers": headers}
        if self._credentials.secure:
            options["ssl"] = self._credentials.ssl_context()
            if self._server_hostname is not None:
                options["server_hostname"] = self._server_hostname
        return options

    def _request_session(self) -> aiohttp.ClientSession:
        if self._requests is None:
            self._requests = self._session(_CONNECTIONS)
        return self._requests

    def _stream_session(self) -> aiohttp.ClientSession:
        if self._streams is None:
            self._streams = self._session(0)
        return self._streams

    def _session(self, limit: int) -> aiohttp.ClientSession:
        if self._closed:
            raise KubeError("the client is closed")
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit, keepalive_timeout=_KEEP_ALIVE),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    def _observe(self, method: str, status: int, started: float, sent: int = 0, received: int = 0) -> None:
        if self._observer is not None:
            self._observer.exchanged(method, status, time.monotonic() - started, sent, received)


class _AllowedBody(aiohttp.BytesPayload):
    """A body that asks whether it may be sent. aiohttp keeps the headers back until the body's first byte, so a body
    that is refused leaves nothing on the wire.

    Attributes:
        sent: some of it may have gone out.
        withheld: it was refused.
    """

    def __init__(self, content: bytes, allowed: Allowed) -> None:
        super().__init__(content)
        self._allowed = allowed
        self.sent = False
        self.withheld = False

    def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> Coroutine[Any, Any, None]:
        """Write the body, unless it may not be sent."""
        if not self._allowed():
            self.withheld = True
            raise WriteWithheld("not allowed")
        self.sent = True
        return super().write_with_length(writer, content_length)


def _size(data: bytes | _AllowedBody | None) -> int:
    if data is None:
        return 0
    return len(data) if isinstance(data, bytes) else data.size or 0


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    """Read Retry-After in seconds; the API server never sends the date form. At most five minutes are believed."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), 300.0) if text.isascii() and text.isdigit() and len(text) < 10 else None
