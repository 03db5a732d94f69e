"""From a kubeconfig (a path or its content) to what a connection needs."""

import base64
import binascii
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object


class KubeconfigError(Exception):
    """The kubeconfig cannot be used; the message says why, and never shows its content."""


@dataclass(frozen=True)
class Connection:
    """How to reach and authenticate to one cluster. `base` is the directory that relative file names belong to."""

    server: str
    cluster: Object
    user: Object
    namespace: str
    base: Path

    def ssl_context(self) -> ssl.SSLContext:
        """TLS with the cluster's authority and the user's certificate. Raises KubeconfigError."""
        try:
            context = ssl.create_default_context()
            authority = self._pem("certificate-authority", self.cluster)
            if authority is not None:
                context = ssl.create_default_context(cadata=authority)
            if self.cluster.get("insecure-skip-tls-verify"):
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            certificate, key = self._pem("client-certificate", self.user), self._pem("client-key", self.user)
            if certificate is not None and key is not None:
                self._load_identity(context, certificate, key)
        except (OSError, ssl.SSLError, binascii.Error, ValueError) as error:
            raise KubeconfigError(f"its certificates cannot be used: {error}") from error
        return context

    def token(self) -> str | None:
        """The bearer token, read anew from its file each time: it may be rotated."""
        file = self.user.get("tokenFile")
        if file:
            try:
                return (self.base / os.path.expanduser(str(file))).read_text().strip()
            except OSError as error:
                raise KubeconfigError(f"tokenFile cannot be read: {error}") from error
        token = self.user.get("token")
        return str(token) if token else None

    def _pem(self, name: str, section: Object) -> str | None:
        if section.get(f"{name}-data"):
            return base64.b64decode(section[f"{name}-data"]).decode()
        if section.get(name):
            return (self.base / os.path.expanduser(str(section[name]))).read_text()
        return None

    @staticmethod
    def _load_identity(context: ssl.SSLContext, certificate: str, key: str) -> None:
        # ssl reads certificates from files only; this one is private and gone as soon as it has been read.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write(f"{certificate}\n{key}\n")
            file.flush()
            context.load_cert_chain(file.name)


def load(path_or_content: str | None) -> tuple[Object, Path]:
    """Parse a kubeconfig given as a path, as content, or not at all ($KUBECONFIG, then ~/.kube/config).

    Returns it with the directory that its relative file names belong to. Raises KubeconfigError.
    """
    given = path_or_content or _default_path()
    path = Path(os.path.expanduser(given)) if "\n" not in given and len(given) < 4096 else None
    base = Path.cwd()
    try:
        if path is not None and path.is_file():
            given, base = path.read_text(), path.resolve().parent
        parsed = yaml.safe_load(given)
    except OSError as error:
        raise KubeconfigError(f"cannot be read: {error}") from error
    except yaml.YAMLError as error:
        raise KubeconfigError("is neither an existing file nor YAML") from error
    if not isinstance(parsed, dict):
        raise KubeconfigError("is neither an existing file nor the content of a kubeconfig")
    return parsed, base


def _default_path() -> str:
    listed = [entry for entry in os.environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    return next((entry for entry in listed if Path(entry).is_file()), listed[0] if listed else "~/.kube/config")


def connection(path_or_content: str | None, *, context: str | None = None, cluster: str | None = None) -> Connection:
    """The connection of the current context, or of the given context or cluster. Raises KubeconfigError."""
    parsed, base = load(path_or_content)
    chosen = _context(parsed, context)
    cluster_name = cluster or str(chosen.get("cluster", ""))
    found = _named(parsed, "clusters", "cluster", cluster_name)
    if found is None or not found.get("server"):
        raise KubeconfigError(f"has no cluster {cluster_name!r} with a server")
    user = _named(parsed, "users", "user", str(chosen.get("user", ""))) or {}
    for method in ("exec", "auth-provider"):
        if method in user:
            raise KubeconfigError(f"authenticates by {method}, which only the official provider can do; use a token")
    return Connection(str(found["server"]).rstrip("/"), found, user, str(chosen.get("namespace") or "default"), base)


def active_cluster(path_or_content: Any, *, context: str | None, cluster: str | None) -> Object | None:
    """The cluster section in force, or None where there is none to be found (then nothing is known to have changed)."""
    if not isinstance(path_or_content, str) or not path_or_content:
        return None
    try:
        parsed, _ = load(path_or_content)
        name = cluster or str(_context(parsed, context).get("cluster", ""))
        return _named(parsed, "clusters", "cluster", name)
    except KubeconfigError:
        return None


def _context(parsed: Object, wanted: str | None) -> Object:
    name = wanted or str(parsed.get("current-context") or "")
    found = _named(parsed, "contexts", "context", name)
    if found is None:
        what = f"no context {name!r}" if name else "no current-context"
        raise KubeconfigError(f"has {what}")
    return found


def _named(parsed: Object, section: str, field: str, name: str) -> Object | None:
    for entry in parsed.get(section) or ():
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(field), dict):
            value: Object = entry[field]
            return value
    return None
