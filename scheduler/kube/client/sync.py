"""Blocking connections for threads that must not share an event loop: the Lease, above all."""

from __future__ import annotations

import http.client
import re
import select
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from scheduler.kube.client.config import CONNECT_TIMEOUT, ClientConfig
from scheduler.kube.client.credentials import Credentials
from scheduler.kube.client.errors import (
    MalformedResponse,
    ResponseTooLarge,
    Unauthorized,
    api_error,
    connection_error,
)
from scheduler.kube.client.paths import JSON

_MAX_BYTES: Final = 8 << 20
_WARNING: Final = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


class SyncConnection:
    """One kept-alive connection, for one thread. Raises the same errors as KubeClient; only a 401 is tried again."""

    def __init__(
        self,
        config: ClientConfig,
        *,
        timeout: float,
        user_agent: str = "secondary-scheduler",
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        """Configure; nothing is opened yet.

        `timeout` (seconds) is that of each wait on the socket, not of the whole exchange; connecting, with the
        handshake, takes `CONNECT_TIMEOUT` per step at most. `max_bytes` caps the body of an answer.
        """
        self._credentials = Credentials(config)
        self._timeout = timeout
        self._connect_timeout = min(timeout, CONNECT_TIMEOUT)
        self._max_bytes = max_bytes
        self._user_agent = user_agent
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Close the connection. The next request opens a new one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> bytes:
        """Read an object."""
        return self.request("GET", path, params=params)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | Mapping[str, Any] | None = None,
        params: Mapping[str, str | int] | None = None,
        content_type: str = JSON,
        on_warning: Callable[[str], None] | None = None,
    ) -> bytes:
        """Send one request and return the body of a 2xx answer.

        `body` is encoded as JSON unless it is bytes; `content_type` says which kind of patch it is (see `paths`).
        `on_warning` gets the server's warnings, such as those of deprecated versions and unknown fields.
        """
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        try:
            content, warnings = self._exchange(method, path, data, params, content_type)
        except Unauthorized:
            if not self._credentials.reread():
                raise
            content, warnings = self._exchange(method, path, data, params, content_type)
        if on_warning is not None:
            for text in _WARNING.findall(", ".join(warnings)):
                on_warning(text.replace('\\"', '"'))
        return content

    def _exchange(
        self, method: str, path: str, data: bytes | None, params: Mapping[str, str | int] | None, content_type: str
    ) -> tuple[bytes, list[str]]:
        """Send the request once; return the body and the Warning headers of the answer."""
        headers = {"Accept": JSON, "User-Agent": self._user_agent}
        if data is not None:
            headers["Content-Type"] = content_type
        authorization = self._credentials.authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        prefix = urlsplit(self._credentials.config.server).path.rstrip("/")
        target = f"{prefix}{path}" + (f"?{urlencode(params)}" if params else "")
        sent = False
        try:
            connection = self._open()
            sent = True
            connection.request(method, target, body=data, headers=headers)
            response = connection.getresponse()
            content = response.read(self._max_bytes + 1)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise connection_error(method, path, self._in_words(error, sent), sent=sent) from error
        if len(content) > self._max_bytes:
            self.close()
            raise ResponseTooLarge(f"{method} {path}: the answer is larger than {self._max_bytes} bytes")
        if response.will_close:
            self.close()
        if 300 <= response.status < 400:
            raise MalformedResponse(f"{method} {path}: {response.status}: redirects are not followed")
        if not 200 <= response.status < 300:
            text = response.headers.get("Retry-After", "")
            retry_after = float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
            raise api_error(method, path, response.status, content, retry_after)
        return content, response.headers.get_all("Warning", [])

    def _in_words(self, error: Exception, connected: bool) -> Exception:
        """The error; for a wait that ended, how long it was, where the libraries quote their own source."""
        if not isinstance(error, TimeoutError) or error.errno is not None:
            return error
        return TimeoutError(
            f"no answer within {self._timeout:g} s"
            if connected
            else f"no connection within {self._connect_timeout:g} s"
        )

    def _open(self) -> http.client.HTTPConnection:
        if self._connection is not None and self._connection.sock is not None:
            # The server closes idle connections. A write sent into a closed one would fail with an unknown outcome.
            if not _is_readable(self._connection.sock):
                return self._connection
            self.close()
        config = self._credentials.config
        parts = urlsplit(config.server)
        host = parts.hostname or ""
        if not self._credentials.secure:
            plain = http.client.HTTPConnection(host, parts.port or 80, timeout=self._connect_timeout)
            plain.connect()
            plain.sock.settimeout(self._timeout)
            self._connection = plain
            return plain
        context = self._credentials.ssl_context()
        secure = http.client.HTTPSConnection(host, parts.port or 443, timeout=self._timeout, context=context)
        # As HTTPSConnection.connect, but with the name to verify taken from tls-server-name where it is given.
        raw = socket.create_connection((host, parts.port or 443), self._connect_timeout)
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            secure.sock = context.wrap_socket(raw, server_hostname=config.tls_server_name or host)
            secure.sock.settimeout(self._timeout)
        except BaseException:
            raw.close()
            raise
        self._connection = secure
        return secure


class SyncClient:
    """A connection per thread, for work that many threads share. Raises the same errors as SyncConnection."""

    def __init__(self, config: ClientConfig, *, timeout: float, **options: Any) -> None:
        """Configure; `timeout` and the further options are those of SyncConnection."""
        self.config: Final = config
        self._options = {"timeout": timeout, **options}
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[SyncConnection] = []

    def request(self, method: str, path: str, **options: Any) -> bytes:
        """Send one request on the connection of the calling thread; the options are those of SyncConnection."""
        connection: SyncConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = SyncConnection(self.config, **self._options)
            with self._lock:
                self._connections.append(connection)
        return connection.request(method, path, **options)

    def close(self) -> None:
        """Close the connections of all threads. No request may be under way."""
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.close()


def _is_readable(sock: socket.socket) -> bool:
    """Whether the server sent something without a request: in practice, that it closed the connection."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
