"""Checks that the kubeconfig belongs to the stack's cluster, without contacting the cluster."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from scheduler.catalog import SERVICE_ACCOUNT_DIRECTORY, Loc
from scheduler.config import Problem
from stacks.settings import ClusterSettings

KUBECONFIG_KEY = "kubeconfig"
_FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")
_LOG_IN = "log in again, for example with oc login, or use another one"


def check_kubeconfig(cluster: ClusterSettings, content: str | None, environment: Mapping[str, str]) -> list[Problem]:
    """Return what is wrong with the kubeconfig. Messages quote only names of contexts and addresses of servers.

    Args:
        cluster: the stack's settings of its cluster.
        content: of the encrypted key `kubeconfig`; None: the provider reads $KUBECONFIG or ~/.kube/config.
        environment: the environment variables of the `pulumi` process.
    """
    try:
        document, source = _read(content, environment)
        if document is None:
            return []  # in a pod, the provider uses the pod's own credentials
        return list(_check(_Kubeconfig(document, source), cluster))
    except _UnusableError as error:
        return [Problem((KUBECONFIG_KEY,), str(error))]


def context_of(cluster: ClusterSettings, content: str | None, environment: Mapping[str, str]) -> Context | None:
    """Return the context that the provider uses, its files as absolute paths; None if the kubeconfig has none.

    The arguments are those of `check_kubeconfig`, which says what is wrong.
    """
    try:
        document, source = _read(content, environment)
    except _UnusableError:
        return None
    if document is None:
        host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
        server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        authority = f"{SERVICE_ACCOUNT_DIRECTORY}/ca.crt"
        entry = {"server": server, "certificate-authority": authority}
        return Context("in-cluster", entry, {"tokenFile": f"{SERVICE_ACCOUNT_DIRECTORY}/token"})
    context = _Kubeconfig(document, source).context(cluster.context)
    return None if isinstance(context, str) else context


class _UnusableError(Exception):
    """The kubeconfig cannot be used; the text says why and what to do."""


def _check(kubeconfig: _Kubeconfig, cluster: ClusterSettings) -> Iterator[Problem]:
    location: Loc = ("cluster", "context") if cluster.context is not None else (KUBECONFIG_KEY,)
    context = kubeconfig.context(cluster.context)
    if isinstance(context, str):
        yield Problem(location, context)
        return
    server = str(context.cluster.get("server", ""))
    if cluster.server is not None and _host_and_port(server) != _host_and_port(cluster.server):
        than = f" than {cluster.cluster_identifier}" if cluster.cluster_identifier else ""
        yield Problem(
            ("cluster", "server"),
            f"{kubeconfig.source} points to another cluster{than}: its context "
            f'"{context.name}" is for {server or "no server"}, and this stack is for {cluster.server}; '
            "use the kubeconfig of this stack's cluster, or set cluster.context to its context",
        )
    expiry = _expiry_of(context.user)
    if expiry is not None and expiry < datetime.now(UTC):
        when = expiry.strftime("%Y-%m-%d %H:%M UTC")
        yield Problem(
            location, f'the credentials of context "{context.name}" in {kubeconfig.source} expired {when}; {_LOG_IN}'
        )


class Context:
    """A context of a kubeconfig, with the entries of its cluster and its user."""

    def __init__(self, name: str, cluster: Mapping[str, Any], user: Mapping[str, Any]) -> None:
        self.name = name
        self.cluster = cluster
        self.user = user


class _Kubeconfig:
    def __init__(self, document: Mapping[str, Any], source: str) -> None:
        self._document = document
        self.source = source

    def context(self, wanted: str | None) -> Context | str:
        """The wanted context, or the current one; a message if there is no such context."""
        name = wanted or self._document.get("current-context")
        names = sorted(self._named("contexts"))
        listed = ", ".join(names) or "none"
        if not name:
            return f"{self.source} has no current context; set cluster.context to one of: {listed}"
        context = self._named("contexts").get(str(name))
        if context is None:
            return f'there is no context "{name}" in {self.source}; it has: {listed}'
        cluster = self._named("clusters").get(str(context.get("cluster")))
        user = self._named("users").get(str(context.get("user")))
        if cluster is None or user is None:
            missing = "cluster" if cluster is None else "user"
            return f'the {missing} of context "{name}" is missing in {self.source}; {_LOG_IN}'
        return Context(str(name), cluster, user)

    def _named(self, kind: str) -> dict[str, Mapping[str, Any]]:
        """Clusters, users or contexts by name; the first of several with one name wins, as in kubectl."""
        entries: dict[str, Mapping[str, Any]] = {}
        for entry in self._document.get(kind) or ():
            if isinstance(entry, Mapping) and "name" in entry:
                inner = entry.get(kind.removesuffix("s"))
                entries.setdefault(str(entry["name"]), inner if isinstance(inner, Mapping) else {})
        return entries


def _read(content: str | None, environment: Mapping[str, str]) -> tuple[Mapping[str, Any] | None, str]:
    """The kubeconfig and its name for messages; None where the provider needs no kubeconfig."""
    if content is not None:
        return _parse(content, "the stack's kubeconfig"), "the stack's kubeconfig"
    paths = environment.get("KUBECONFIG", "")
    if not paths:
        default = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
        if not default.is_file():
            if environment.get("KUBERNETES_SERVICE_HOST"):
                return None, ""
            hint = "export KUBECONFIG, or: pulumi config set --secret kubeconfig < FILE"
            raise _UnusableError(f"missing: $KUBECONFIG is not set and {default} does not exist; {hint}")
        paths = str(default)
    files = [Path(part) for part in paths.split(os.pathsep) if part]
    existing = [file for file in files if file.is_file()]
    if not existing:
        raise _UnusableError(
            f"missing: the file {paths} ($KUBECONFIG) does not exist; export the path of your kubeconfig"
        )
    merged: dict[str, Any] = {"contexts": [], "clusters": [], "users": []}
    for file in existing:
        try:
            document = _parse(file.read_text(encoding="utf-8"), str(file))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise _UnusableError(f"cannot read {file} ($KUBECONFIG): {reason}") from None
        merged.setdefault("current-context", document.get("current-context"))
        for kind in ("contexts", "clusters", "users"):
            merged[kind] += [_with_paths(entry, file.parent) for entry in document.get(kind) or []]
    return merged, ", ".join(str(file) for file in existing)


def _with_paths(entry: Any, directory: Path) -> Any:
    """An entry whose files are relative to the folder of its kubeconfig, with absolute paths."""
    if not isinstance(entry, Mapping):
        return entry
    resolved = dict(entry)
    for kind in ("cluster", "user"):
        inner = entry.get(kind)
        if isinstance(inner, Mapping):
            files = {key: str(directory.absolute() / str(inner[key])) for key in _FILES if inner.get(key)}
            resolved[kind] = {**inner, **files}
    return resolved


def _parse(text: str, source: str) -> Mapping[str, Any]:
    try:
        document = yaml.load(text, yaml.CSafeLoader)
    except (yaml.YAMLError, ValueError):
        document = None  # the parser's message would quote the content
    if not isinstance(document, Mapping) or not isinstance(document.get("clusters"), list):
        raise _UnusableError(f"{source} is not a kubeconfig as kubectl and oc write it; use another file")
    return document


def _host_and_port(server: str) -> tuple[str, int]:
    url = urlsplit(server)
    try:
        return (url.hostname or "").lower(), url.port or 443
    except ValueError:
        return "", 0


def _expiry_of(user: Mapping[str, Any]) -> datetime | None:
    """When the user's token or certificate expires; None if that cannot be seen."""
    try:
        if isinstance(user.get("token"), str):
            payload = user["token"].split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            return datetime.fromtimestamp(claims["exp"], UTC)
        if isinstance(user.get("client-certificate-data"), str):
            return _expiry_of_certificate(base64.b64decode(user["client-certificate-data"]))
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, OSError, binascii.Error):
        return None  # an opaque token, or content that the provider will reject
    return None


def _expiry_of_certificate(pem: bytes) -> datetime:
    """When the first certificate expires (RFC 5280, 4.1): the second time in the fourth or fifth field.

    Parsed by hand, so that the program does not need a certificate library for one date."""
    body = pem.partition(b"-----BEGIN CERTIFICATE-----")[2].partition(b"-----END")[0]
    certificate = _der_elements(_der_elements(base64.b64decode(body))[0][1])[0][1]
    fields = _der_elements(certificate)
    has_version = fields[0][0] == 0xA0
    tag, end = _der_elements(fields[4 if has_version else 3][1])[1]
    text = end.decode("ascii").removesuffix("Z")
    if tag == 0x17:  # UTCTime has a two-digit year
        text = ("20" if int(text[:2]) < 50 else "19") + text
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _der_elements(data: bytes) -> list[tuple[int, bytes]]:
    """Tags and contents of consecutive DER elements."""
    elements = []
    while data:
        tag, length, start = data[0], data[1], 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(data[2:start], "big")
        elements.append((tag, data[start : start + length]))
        data = data[start + length :]
    return elements
