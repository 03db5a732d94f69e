"""Writes requests over HTTP/1.1 as bytes."""

from __future__ import annotations

import re
from typing import Final

from scheduler.kube.client.errors import ConfigError
from scheduler.kube.client.paths import JSON

_UNSAFE: Final = re.compile(r"[^\x20-\x7e]")


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
    if _UNSAFE.search(value):
        raise ConfigError(f"the value of the header {name} has characters that cannot be sent")
    return f"{name}: {value}\r\n"
