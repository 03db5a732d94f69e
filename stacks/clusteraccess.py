"""Reads of the stack's cluster in a preview, with the kubeconfig that the provider uses.

The program's environment has no client of Kubernetes: that of `scheduler.kube.client` needs msgspec, and the provider
offers programs no reads that may fail. So this is the least that asks a few questions within seconds.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stacks.kubeconfig import Context

_MAX_BYTES = 8 << 20
_UNSUPPORTED_USER = ("auth-provider", "as", "as-groups", "as-uid")
_UNSUPPORTED_CLUSTER = ("proxy-url", "tls-server-name")


class NotAsked(Exception):
    """The cluster, or one thing in it, cannot be read; the text says why, and holds no credential."""


class Late(NotAsked):
    """The cluster does not answer in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it does not answer within {seconds:g} s")


class ClusterReader:
    """Reads of one API server that end at a deadline."""

    def __init__(self, context: Context, seconds: float) -> None:
        """Prepare; nothing is sent yet. `seconds` limits all reads together.

        Raises:
            NotAsked: the kubeconfig says something that these reads do not know.
        """
        self._seconds, self._deadline = seconds, time.monotonic() + seconds
        unsupported = [key for key in _UNSUPPORTED_USER if context.user.get(key)]
        unsupported += [key for key in _UNSUPPORTED_CLUSTER if context.cluster.get(key)]
        if unsupported:
            raise NotAsked(f"a kubeconfig with {unsupported[0]} is not read here")
        self._url = urlsplit(str(context.cluster.get("server", "")))
        host = self._url.hostname
        if self._url.scheme not in ("http", "https") or not host:
            raise NotAsked("its kubeconfig has no address")
        if self._url.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
            raise NotAsked("it is reached through a proxy")
        try:
            user = self._authenticated(context.user)
            self._authorization = _authorization(user)
            self._tls = _tls(context.cluster, user) if self._url.scheme == "https" else None
        except (OSError, ValueError) as error:
            raise NotAsked(f"its credentials cannot be read: {_reason(error)}") from None

    def get(self, path: str) -> Mapping[str, Any] | None:
        """Read an object or a list; None if there is no such object.

        Raises:
            NotAsked: it is not answered in time, or the server refuses.
        """
        connection = self._connection()
        headers = {"Accept": "application/json", "User-Agent": "secondary-scheduler-preview"}
        if self._authorization:
            headers["Authorization"] = self._authorization
        try:
            connection.request("GET", self._url.path.rstrip("/") + path, headers=headers)
            with connection.getresponse() as answer:
                content = answer.read(_MAX_BYTES + 1)
        except TimeoutError:
            raise Late(self._seconds) from None
        except (OSError, http.client.HTTPException) as error:
            raise NotAsked(_reason(error)) from None
        finally:
            connection.close()
        if answer.status == 404:
            return None
        if answer.status != 200 or len(content) > _MAX_BYTES:
            raise NotAsked(_refusal(path, answer.status))
        try:
            document = json.loads(content)
        except ValueError:
            document = None
        if not isinstance(document, Mapping):
            raise NotAsked(f"{path} is not answered as Kubernetes does")
        return document

    def _left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise Late(self._seconds)
        return left

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=self._left())
        return http.client.HTTPSConnection(host, port, timeout=self._left(), context=self._tls)

    def _authenticated(self, user: Mapping[str, Any]) -> Mapping[str, Any]:
        """The user with the credentials of its plugin, which the provider runs, too."""
        plugin = user.get("exec")
        if not isinstance(plugin, Mapping):
            return user
        version = str(plugin.get("apiVersion") or "client.authentication.k8s.io/v1")
        info = {"apiVersion": version, "kind": "ExecCredential", "spec": {"interactive": False}}
        named = {str(each["name"]): str(each["value"]) for each in plugin.get("env") or () if isinstance(each, Mapping)}
        command = [str(plugin.get("command") or ""), *(str(argument) for argument in plugin.get("args") or ())]
        try:
            done = subprocess.run(
                command,
                env={**os.environ, **named, "KUBERNETES_EXEC_INFO": json.dumps(info)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=self._left(),
                check=True,
            )
            status = json.loads(done.stdout)["status"]
        except subprocess.SubprocessError:
            raise NotAsked(f"{command[0]} gives no credentials") from None
        except (ValueError, KeyError, TypeError):
            raise NotAsked(f"{command[0]} gives no ExecCredential") from None
        data = {
            "client-certificate-data": status.get("clientCertificateData"),
            "client-key-data": status.get("clientKeyData"),
        }
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items() if value}
        return {"token": status.get("token"), **encoded}


def _authorization(user: Mapping[str, Any]) -> str:
    token = user.get("token")
    if not token and user.get("tokenFile"):
        token = Path(str(user["tokenFile"])).read_text(encoding="utf-8").strip()
    if token:
        return f"Bearer {token}"
    if user.get("username"):
        pair = f"{user['username']}:{user.get('password', '')}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"
    return ""


def _tls(cluster: Mapping[str, Any], user: Mapping[str, Any]) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority")
    tls = ssl.create_default_context(cadata=authority.decode("ascii") if authority else None)
    # Authorities of clusters often lack what RFC 5280 asks of them, and Go does not.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if cluster.get("insecure-skip-tls-verify") is True:
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    certificate, key = _content(user, "client-certificate"), _content(user, "client-key")
    if certificate and key:
        # The library reads them from a file only. mkstemp makes one that nobody else may read.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            tls.load_cert_chain(file.name)
    return tls


def _content(entry: Mapping[str, Any], key: str) -> bytes:
    """What stands in the kubeconfig itself, or in a file that it names."""
    if data := entry.get(f"{key}-data"):
        return base64.b64decode(str(data))
    file = entry.get(key)
    return Path(str(file)).read_bytes() if file else b""


def _refusal(path: str, status: int) -> str:
    match status:
        case 401:
            return "it does not accept the credentials"
        case 403:
            return f"there is no right to read {path.partition('?')[0]}"
    return f"{path.partition('?')[0]} is answered with status {status}"


def _reason(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split())[:200] or type(error).__name__
