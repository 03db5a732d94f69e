"""Readiness probes on loopback, and waiting for whatever else."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

from devcluster.errors import ServiceError
from devcluster.ports import LOOPBACK
from devcluster.processes import Probe

_TIMEOUT_SECONDS = 2.0
_PAUSE_SECONDS = 0.2


def http_ok(port: int, path: str) -> Probe:
    """Succeeds when GET answers 200 in clear text."""
    return lambda: (
        _status(http.client.HTTPConnection(LOOPBACK, port, timeout=_TIMEOUT_SECONDS), path) == http.HTTPStatus.OK
    )


def unchecked_tls() -> ssl.SSLContext:
    """TLS to a component's self-signed certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def https_ok(port: int, path: str, authority: Path | None, *, older: str | None = None) -> Probe:
    """Succeeds when GET answers 200 over TLS; without an authority the certificate is not checked (a component's
    self-signed one). `older` is asked where the path is not served.
    """
    context = unchecked_tls() if authority is None else ssl.create_default_context(cafile=str(authority))

    def status(location: str) -> int | None:
        return _status(http.client.HTTPSConnection(LOOPBACK, port, timeout=_TIMEOUT_SECONDS, context=context), location)

    def probe() -> bool:
        answer = status(path)
        if answer == http.HTTPStatus.NOT_FOUND and older is not None:
            answer = status(older)
        return answer == http.HTTPStatus.OK

    return probe


def accepts(port: int) -> Probe:
    """Succeeds when a process accepts connections."""

    def probe() -> bool:
        try:
            socket.create_connection((LOOPBACK, port), timeout=_TIMEOUT_SECONDS).close()
        except OSError:
            return False
        return True

    return probe


def wait_until(done: Callable[[], bool], seconds: float, failure: Callable[[], str]) -> None:
    """Return once `done` is true. Raises ServiceError with the text of `failure` when time is up."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise ServiceError(failure())
        time.sleep(_PAUSE_SECONDS)


def _status(connection: http.client.HTTPConnection, path: str) -> int | None:
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
