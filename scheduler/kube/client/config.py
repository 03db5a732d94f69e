"""The API server's address and our credentials: from kubeconfig files, or from the files mounted into every pod.

Client plugins (exec, auth providers), impersonation and proxies in a kubeconfig are refused with a message. Ignoring
them would connect with other rights, or along another way, than the user expects.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from scheduler.kube.client.errors import ConfigError

SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
CONNECT_TIMEOUT: Final = 10.0
"""Seconds that connecting to the API server may take, as client-go's for the TLS handshake."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, kw_only=True)
class ClientConfig:
    """A connection to one API server. Files are named, not read: `Credentials` follows their rotation."""

    server: str
    """`https://host:port`, optionally with a path; http only without a token, or on this machine."""
    namespace: str = "default"
    """Of the kubeconfig's context, or of the pod."""
    ca_file: Path | None = None
    ca_data: bytes | None = field(default=None, repr=False)
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    cert_data: bytes | None = field(default=None, repr=False)
    key_data: bytes | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    """Preferred over `token` when both are set, as in client-go."""
    source: str = ""
    """Where this comes from, for messages."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.server)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"{self._where()}: server {self.server!r} is not a URL of the form https://host:port")
        if parts.username or parts.password:
            raise ConfigError(f"{self._where()}: a user name in the server's URL is not supported; use a token")
        if parts.scheme == "http" and (self.token or self.token_file) and parts.hostname not in _LOOPBACK:
            raise ConfigError(f"{self._where()}: refusing to send a token without TLS to {self.server}; use https://")
        if (self.cert_file or self.cert_data) and not (self.key_file or self.key_data):
            raise ConfigError(f"{self._where()}: a client certificate without its key")

    def _where(self) -> str:
        return self.source or "client configuration"

    @classmethod
    def load(
        cls,
        kubeconfig: Path | None = None,
        context: str | None = None,
        master: str | None = None,
        cluster: str | None = None,
    ) -> ClientConfig:
        """Find the configuration, as kubectl and client-go do.

        In this order: the given file; the pod's ServiceAccount; the files of $KUBECONFIG; ~/.kube/config.
        A given context or cluster skips the ServiceAccount. `master` replaces the server's address, and alone
        suffices; `cluster` replaces the cluster that the context names. Raise ConfigError, saying what was looked for,
        also if client-go would connect through a proxy that the environment names: that is not supported.
        """
        config = cls._find(kubeconfig, context, master, cluster)
        config.refuse_proxy()
        return config

    def with_token(self, token: str, source: str) -> ClientConfig:
        """Return the same connection for the owner of a token, with none of the credentials that this one has."""
        return replace(
            self,
            token=token,
            token_file=None,
            cert_file=None,
            cert_data=None,
            key_file=None,
            key_data=None,
            source=source,
        )

    def refuse_proxy(self) -> None:
        """Raise ConfigError if client-go would connect to this server through a proxy that the environment names."""
        if variable := proxy_variable(self.server, os.environ):
            host = urlsplit(self.server).hostname
            raise ConfigError(
                f"{variable} is set, and connecting to the API server through a proxy is not supported; if "
                f"{self.server} can be reached directly, add {host} to NO_PROXY"
            )

    @classmethod
    def _find(
        cls, kubeconfig: Path | None, context: str | None, master: str | None, cluster: str | None
    ) -> ClientConfig:
        config: ClientConfig | None = None
        if kubeconfig is not None:
            config = _from_files([kubeconfig], context, cluster)
        elif (
            context is None
            and cluster is None
            and os.environ.get("KUBERNETES_SERVICE_HOST")
            and (SERVICE_ACCOUNT / "token").exists()
        ):
            config = cls.in_cluster()
        else:
            listed = [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
            files = [path for path in (listed or [Path.home() / ".kube" / "config"]) if path.exists()]
            if files:
                config = _from_files(files, context, cluster)
        if config is not None:
            return replace(config, server=master) if master else config
        if master:
            return cls(server=master, source="--master")
        raise ConfigError(
            "no connection to a cluster is configured: not in a pod, and neither $KUBECONFIG nor ~/.kube/config names "
            "a file; give one with --kubeconfig"
        )

    @classmethod
    def parse(cls, text: str, *, context: str | None = None, cluster: str | None = None) -> ClientConfig:
        """Read the content of a kubeconfig; files that it names are relative to the working directory.

        Raise ConfigError, which never shows the content.
        """
        source = Path.cwd() / "kubeconfig"
        return _from_documents([(source, _parse(text.encode(), "the kubeconfig"))], context, cluster, "the kubeconfig")

    @classmethod
    def in_cluster(cls, root: Path | None = None) -> ClientConfig:
        """Build the configuration of a pod from its environment and ServiceAccount files (in `root`)."""
        root = root or SERVICE_ACCOUNT
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST", ""), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        if not host:
            raise ConfigError("not in a pod: KUBERNETES_SERVICE_HOST is not set")
        if not (root / "token").exists():
            raise ConfigError(f"in a pod, but {root / 'token'} is missing: automountServiceAccountToken may be off")
        namespace = root / "namespace"
        return cls(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            namespace=namespace.read_text().strip() if namespace.exists() else "default",
            ca_file=root / "ca.crt",
            token_file=root / "token",
            source="in-cluster configuration",
        )


def _from_files(files: list[Path], context: str | None, cluster_name: str | None) -> ClientConfig:
    documents = [(path, _read(path)) for path in files]
    return _from_documents(documents, context, cluster_name, ", ".join(str(path) for path in files))


def _from_documents(
    documents: list[tuple[Path, Mapping[str, Any]]], context: str | None, cluster_name: str | None, source: str
) -> ClientConfig:
    """Build the configuration from parsed kubeconfigs, each with its path; `where` names them in messages."""
    current = context or next(
        (str(document["current-context"]) for _, document in documents if document.get("current-context")), ""
    )
    if not current:
        raise ConfigError(f"{source}: no current-context; choose one with --context")
    chosen, _ = _entry(documents, "contexts", "context", current, source)
    cluster_name = cluster_name or str(chosen.get("cluster", ""))
    cluster, cluster_file = _entry(documents, "clusters", "cluster", cluster_name, source)
    user: Mapping[str, Any] = {}
    user_file = cluster_file
    if chosen.get("user"):
        user, user_file = _entry(documents, "users", "user", str(chosen["user"]), source)
    _refuse(cluster, ("proxy-url",), cluster_file)
    _refuse(user, ("exec", "auth-provider", "username", "password", "as", "as-groups", "as-uid"), user_file)
    if not cluster.get("server"):
        raise ConfigError(f"{cluster_file}: cluster {cluster_name!r} has no server")
    return ClientConfig(
        server=str(cluster["server"]).rstrip("/"),
        namespace=str(chosen.get("namespace") or "default"),
        ca_file=_path(cluster, "certificate-authority", cluster_file),
        ca_data=_data(cluster, "certificate-authority-data", cluster_file),
        insecure_skip_tls_verify=cluster.get("insecure-skip-tls-verify") is True,
        tls_server_name=str(cluster["tls-server-name"]) if cluster.get("tls-server-name") else None,
        cert_file=_path(user, "client-certificate", user_file),
        cert_data=_data(user, "client-certificate-data", user_file),
        key_file=_path(user, "client-key", user_file),
        key_data=_data(user, "client-key-data", user_file),
        token=str(user["token"]) if user.get("token") else None,
        token_file=_path(user, "tokenFile", user_file),
        source=source,
    )


def _read(path: Path) -> Mapping[str, Any]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    return _parse(content, str(path))


def _parse(content: bytes, source: str) -> Mapping[str, Any]:
    import yaml  # here, since a pod has no kubeconfig and need not load a YAML parser

    try:
        document = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        # The parser's own message may quote a line, and with it a token.
        mark = getattr(error, "problem_mark", None)
        raise ConfigError(f"{source}{f':{mark.line + 1}' if mark else ''}: not valid YAML") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{source}: not a kubeconfig file (no mapping at the top)")
    return document


def _entry(
    documents: list[tuple[Path, Mapping[str, Any]]], section: str, kind: str, name: str, source: str
) -> tuple[Mapping[str, Any], Path]:
    """Find a named entry; the first file that has it wins, as in kubectl."""
    options: list[str] = []
    for path, document in documents:
        entries = document.get(section) or ()
        for entry in entries if isinstance(entries, list) else ():
            if not isinstance(entry, dict):
                continue
            options.append(str(entry.get("name")))
            if entry.get("name") == name:
                content = entry.get(kind) or {}
                if not isinstance(content, dict):
                    raise ConfigError(f"{path}: {kind} {name!r} is not a mapping")
                return content, path
    raise ConfigError(f"{source}: no {kind} {name!r}; there are: {', '.join(sorted(options)) or 'none'}")


def _refuse(entry: Mapping[str, Any], keys: tuple[str, ...], path: Path) -> None:
    for key in keys:
        if entry.get(key):
            raise ConfigError(f"{path}: {key} is not supported; use a token, tokenFile or client certificate instead")


def _path(entry: Mapping[str, Any], key: str, base: Path) -> Path | None:
    return base.parent / str(entry[key]) if entry.get(key) else None


def _data(entry: Mapping[str, Any], key: str, path: Path) -> bytes | None:
    if not entry.get(key):
        return None
    try:
        return base64.b64decode(str(entry[key]), validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{path}: {key} is not valid base64") from None


def proxy_variable(server: str, environment: Mapping[str, str]) -> str | None:
    """Return the name of the variable whose proxy client-go would use for a server; None if it connects directly."""
    parts = urlsplit(server)
    name = "HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY"
    chosen = next((variable for variable in (name, name.lower()) if environment.get(variable)), None)
    if chosen is None:
        return None
    host, port = (parts.hostname or "").rstrip("."), parts.port or (443 if parts.scheme == "https" else 80)
    address = _ip(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return None
    exceptions = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    return None if any(_excepts(entry.strip().lower(), host, port) for entry in exceptions.split(",")) else chosen


def _excepts(entry: str, host: str, port: int) -> bool:
    if entry in ("", "*"):
        return entry == "*"
    address = _ip(host)
    try:
        network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        pass
    else:
        return address is not None and address in network
    name, colon, entry_port = entry.rpartition(":")
    if colon and entry_port.isdecimal():
        if int(entry_port) != port:
            return False
        entry = name.removeprefix("[").removesuffix("]")
    if address is not None:
        return address == _ip(entry)
    entry = entry.removeprefix("*")
    return host.endswith(entry) if entry.startswith(".") else host == entry or host.endswith(f".{entry}")


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
