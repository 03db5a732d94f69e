"""A blocking connection for threads that must not share an event loop: the Lease, above all."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec

from scheduler.kube.client.config import ClientConfig
from scheduler.kube.client.credentials import Credentials
from scheduler.kube.client.errors import (
    MalformedResponse,
    ResponseTooLarge,
    Unauthorized,
    api_error,
    connection_error,
)
from scheduler.kube.client.paths import JSON

_MOST_BYTES: Final = 8 << 20


class SyncConnection:
    """One kept-alive connection, for one thread. Raises the same errors as KubeClient; only a 401 is tried again.

    `timeout` (seconds) is that of each wait on the socket, not of the whole exchange.
    """

    def __init__(self, config: ClientConfig, *, timeout: float, user_agent: str = "secondary-scheduler") -> None:
        self._credentials = Credentials(config)
        self._timeout = timeout
        self._user_agent = user_agent
        self._connection: http.client.HTTPConnection | None = None

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
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
    ) -> bytes:
        """Send one request and return the body of a 2xx answer."""
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        try:
            return self._exchange(method, path, data, params, content_type)
        except Unauthorized:
            if not self._credentials.reread():
                raise
        return self._exchange(method, path, data, params, content_type)

    def _exchange(
        self, method: str, path: str, data: bytes | None, params: Mapping[str, str | int] | None, content_type: str
    ) -> bytes:
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
            content = response.read(_MOST_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise connection_error(method, path, error, sent=sent) from error
        if len(content) > _MOST_BYTES:
            self.close()
            raise ResponseTooLarge(f"{method} {path}: the answer is larger than {_MOST_BYTES} bytes")
        if response.will_close:
            self.close()
        if 300 <= response.status < 400:
            raise MalformedResponse(f"{method} {path}: {response.status}: redirects are not followed")
        if not 200 <= response.status < 300:
            text = response.headers.get("Retry-After", "")
            retry_after = float(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
            raise api_error(method, path, response.status, content, retry_after)
        return content

    def _open(self) -> http.client.HTTPConnection:
        if self._connection is not None and self._connection.sock is not None:
            return self._connection
        config = self._credentials.config
        parts = urlsplit(config.server)
        host = parts.hostname or ""
        if not self._credentials.secure:
            plain = http.client.HTTPConnection(host, parts.port or 80, timeout=self._timeout)
            plain.connect()
            self._connection = plain
            return plain
        context = self._credentials.ssl_context()
        secure = http.client.HTTPSConnection(host, parts.port or 443, timeout=self._timeout, context=context)
        # As HTTPSConnection.connect, but with the name to verify taken from tls-server-name where it is given.
        raw = socket.create_connection((host, parts.port or 443), self._timeout)
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            secure.sock = context.wrap_socket(raw, server_hostname=config.tls_server_name or host)
        except BaseException:
            raw.close()
            raise
        self._connection = secure
        return secure
