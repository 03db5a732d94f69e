"""The asynchronous client: one connection pool, one token bucket, typed failures."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self
from urllib.parse import urlencode, urlsplit

import aiohttp
import msgspec
from yarl import URL

from secondary_scheduler.kube.client.config import ClientConfig
from secondary_scheduler.kube.client.credentials import Credentials
from secondary_scheduler.kube.client.errors import (
    KubeError,
    MalformedResponse,
    ResponseTooLarge,
    TooManyRequests,
    Unauthorized,
    api_error,
    connection_error,
)
from secondary_scheduler.kube.client.limiter import TokenBucket
from secondary_scheduler.kube.client.paths import JSON, MERGE_PATCH
from secondary_scheduler.kube.client.wire import Answer, Endpoint, Lost, NeverSent, Pool, TooLong

Body = bytes | Mapping[str, Any] | msgspec.Struct
Params = Mapping[str, str | int]
Observer = Callable[[str, int, float], None]
"""Called after each exchange with method, HTTP status (0 for none) and seconds."""

_CONNECTIONS: Final = 64
_KEEP_ALIVE: Final = 60.0
"""Below the API server's 90 s, so that the server is not the one to close a connection we are about to use."""
_CONNECT_TIMEOUT: Final = 10.0
_ERROR_BODY: Final = 64 << 10
_TARGET: Final = re.compile(r"/[!-~]*")


class KubeClient:
    """Requests to one API server, from one event loop.

    Every method raises a `KubeError`. A 401 is answered by reading the token file again and one more try; a 429 by
    waiting as long as the server asks, within the timeout. Nothing else is retried: after a failed write look at
    `outcome_unknown`. Redirects are not followed.
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

        `timeout` (seconds) spans a request with its retries, but not the wait for the rate limit. `max_bytes` caps
        the body of an answer.
        """
        self._credentials = Credentials(config)
        self._base = config.server.rstrip("/")
        self._server_hostname = config.tls_server_name
        self._limiter = TokenBucket(qps, burst)
        self._headers = {"User-Agent": user_agent, "Accept": JSON, "Accept-Encoding": "identity"}
        self._timeout = timeout
        self._max_bytes = max_bytes
        self._observer = observer
        parts = urlsplit(config.server)
        self._secure = parts.scheme == "https"
        self._prefix = parts.path.rstrip("/")
        self._host, self._port = parts.hostname or "", parts.port or (443 if self._secure else 80)
        headers = "".join(f"{name}: {value}\r\n" for name, value in self._headers.items())
        self._head = f" HTTP/1.1\r\nHost: {parts.netloc}\r\n{headers}"
        self._pool = Pool(_CONNECTIONS, _KEEP_ALIVE)
        self._endpoint = Endpoint(self._host, self._port, None, self._server_hostname)
        self._streams: aiohttp.ClientSession | None = None
        self._closed = False

    @property
    def config(self) -> ClientConfig:
        """The configuration this client was made with."""
        return self._credentials.config

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; the client cannot be used any more."""
        self._closed = True
        self._pool.close()
        if self._streams is not None:
            await self._streams.close()
        self._streams = None

    async def get(self, path: str, params: Params | None = None, *, timeout: float | None = None) -> bytes:
        """Read an object or a page of a list."""
        return await self.request("GET", path, params=params, timeout=timeout)

    async def post(self, path: str, body: Body, params: Params | None = None, *, timeout: float | None = None) -> bytes:
        """Create an object, or call a subresource such as binding."""
        return await self.request("POST", path, body=body, params=params, timeout=timeout)

    async def put(self, path: str, body: Body, params: Params | None = None, *, timeout: float | None = None) -> bytes:
        """Replace an object."""
        return await self.request("PUT", path, body=body, params=params, timeout=timeout)

    async def patch(
        self,
        path: str,
        body: Body,
        params: Params | None = None,
        *,
        content_type: str = MERGE_PATCH,
        timeout: float | None = None,
    ) -> bytes:
        """Change an object; `content_type` says which kind of patch (see `paths`)."""
        return await self.request("PATCH", path, body=body, params=params, content_type=content_type, timeout=timeout)

    async def delete(
        self, path: str, body: Body | None = None, params: Params | None = None, *, timeout: float | None = None
    ) -> bytes:
        """Delete an object; `body` may be DeleteOptions, with preconditions."""
        return await self.request("DELETE", path, body=body, params=params, timeout=timeout)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Body | None = None,
        params: Params | None = None,
        content_type: str = JSON,
        timeout: float | None = None,
    ) -> bytes:
        """Send one request and return the body of a 2xx answer."""
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        target = self._target(path, params)
        await self._limiter.acquire()
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        reread = False
        delay = 1.0
        while True:
            try:
                return await self._exchange(method, path, target, data, content_type, deadline)
            except Unauthorized:
                if reread or not self._credentials.reread():
                    raise
                reread = True
            except TooManyRequests as error:
                wait = (delay if error.retry_after is None else error.retry_after) + random.uniform(0.0, 0.25)
                delay *= 2
                if time.monotonic() + wait >= deadline:
                    raise
                await asyncio.sleep(wait)

    @asynccontextmanager
    async def stream(
        self, path: str, params: Params | None = None, *, timeout: float, silence: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a long answer and iterate over its chunks as they arrive.

        `timeout` ends it in any case, `silence` when nothing arrived for so long (both seconds): each as
        ConnectionFailed. Streams have connections of their own, outside the pool of 64.
        """
        url = self._url(path, params)
        await self._limiter.acquire()
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
                body = await self._error_body(response)
                raise _failure("GET", path, response.status, body, response.headers.get("Retry-After", ""))
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
        self, method: str, path: str, target: str, data: bytes | None, content_type: str, deadline: float
    ) -> bytes:
        started = time.monotonic()
        status = 0
        try:
            answer = await self._answer(method, self._message(method, target, data, content_type), deadline)
            status, headers, body = answer
        except NeverSent as error:
            raise connection_error(method, path, error, sent=False) from error
        except Lost as error:
            raise connection_error(method, path, error, sent=True) from error
        except TooLong as error:
            status, headers, body = error.status, {}, b""
            if 200 <= status < 300:
                limit = self._max_bytes
                raise ResponseTooLarge(f"{method} {path}: the answer is larger than {limit} bytes") from error
        finally:
            self._observe(method, status, started)
        if 200 <= status < 300:
            return body
        raise _failure(method, path, status, body, headers.get(b"retry-after", b"").decode("latin-1"))

    async def _answer(self, method: str, message: bytes, deadline: float) -> Answer:
        if self._closed:
            raise KubeError("the client is closed")
        if self._secure:
            tls = self._credentials.ssl_context()
            if tls is not self._endpoint.tls:
                self._endpoint = self._endpoint._replace(tls=tls)
        while True:
            try:
                return await self._pool.exchange(self._endpoint, message, deadline, self._max_bytes)
            except Lost as error:
                # The server had closed the connection before it heard of the request, most likely: a read is harmless
                # to repeat.
                if not error.unanswered or method != "GET":
                    raise

    def _message(self, method: str, target: str, data: bytes | None, content_type: str) -> bytes:
        authorization = self._credentials.authorization()
        text = f"{method} {target}{self._head}"
        if authorization is not None:
            text = f"{text}Authorization: {authorization}\r\n"
        if data is None:
            empty = "Content-Length: 0\r\n" if method in ("POST", "PUT", "PATCH") else ""
            return f"{text}{empty}\r\n".encode("latin-1")
        return f"{text}Content-Type: {content_type}\r\nContent-Length: {len(data)}\r\n\r\n".encode("latin-1") + data

    def _target(self, path: str, params: Params | None) -> str:
        target = f"{self._prefix}{path}?{urlencode(params)}" if params else self._prefix + path
        if not _TARGET.fullmatch(target):
            raise KubeError(f"{path[:200]!r} is no path of a URL")
        return target

    async def _error_body(self, response: aiohttp.ClientResponse) -> bytes:
        body = b""
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > _ERROR_BODY:
                break
        response.close()
        return body

    def _url(self, path: str, params: Params | None) -> URL:
        return URL(f"{self._base}{path}?{urlencode(params)}" if params else self._base + path, encoded=True)

    def _security(self) -> dict[str, Any]:
        """Options taken anew for each request, so that rotated tokens and certificates take effect."""
        headers = {}
        authorization = self._credentials.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        found: dict[str, Any] = {"headers": headers}
        if self._credentials.secure:
            found["ssl"] = self._credentials.ssl_context()
            if self._server_hostname is not None:
                found["server_hostname"] = self._server_hostname
        return found

    def _stream_session(self) -> aiohttp.ClientSession:
        if self._streams is None:
            self._streams = self._session()
        return self._streams

    def _session(self) -> aiohttp.ClientSession:
        if self._closed:
            raise KubeError("the client is closed")
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE),
            headers=self._headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    def _observe(self, method: str, status: int, started: float) -> None:
        if self._observer is not None:
            self._observer(method, status, time.monotonic() - started)


def _failure(method: str, path: str, status: int, body: bytes, retry_after: str) -> KubeError:
    """`retry_after` is the header's text; the API server never sends its date form."""
    if 300 <= status < 400:
        return MalformedResponse(f"{method} {path}: {status}: redirects are not followed")
    text = retry_after if retry_after.isascii() and retry_after.isdigit() and len(retry_after) < 10 else ""
    # At most five minutes are believed.
    seconds = min(float(text), 300.0) if text else None
    return api_error(method, path, status, body if len(body) <= _ERROR_BODY else b"", seconds)
