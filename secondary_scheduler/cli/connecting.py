"""How a command reaches a cluster, with every login that a kubeconfig may name.

Plain kubeconfigs (token, tokenFile, client certificate) are read by our own client, which follows files that are
rotated. A user whom a program or an identity provider vouches for (`exec` of EKS, GKE, AKS and OIDC; `auth-provider`)
goes through the official client's loader. It takes a second to import, and the daemon never needs it: its kubeconfig
names files. And how it asks a scheduler as a ServiceAccount, for those whom the API server knows by a certificate: a
scheduler in a pod does not know who signs these, but has tokens reviewed (docs/adr/0025).
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from scheduler.kube.client import (
    ClientConfig,
    ConfigError,
    Forbidden,
    KubeError,
    NotFound,
    SyncConnection,
    request_token,
)
from secondary_scheduler.cli.errors import CommandError, InputError, printable
from secondary_scheduler.files import MAX_TEXT, read_bytes

_LOGINS = ("exec", "auth-provider")
_IMPERSONATION = ("as", "as-groups", "as-uid", "as-user-extra")
_RENEW_SECONDS = 30.0
"""Pause between looks at a login's expiry. The official loader asks again five minutes before it."""


def load_connection(kubeconfig: Path | None, context: str | None) -> ClientConfig:
    """Find the connection as kubectl does: the file, else $KUBECONFIG, else ~/.kube/config, else the pod's account.

    A login program is run. What it vouches for is not renewed: see `renewed_connection`.

    Raises:
        ConfigError: there is none, or it cannot be used.
    """
    login = _login(kubeconfig, context)
    return login.config() if isinstance(login, _Login) else login


@contextlib.contextmanager
def renewed_connection(kubeconfig: Path | None, context: str | None) -> Iterator[ClientConfig]:
    """As `load_connection`, for a process that runs longer than a login is valid: the token is renewed in a file.

    Raises:
        ConfigError: there is no connection, or it cannot be used.
    """
    login = _login(kubeconfig, context)
    if not isinstance(login, _Login):
        yield login
        return
    with login.renewing() as config:
        yield config


def load_text(text: str, context: str | None) -> ClientConfig:
    """As `load_connection`, from the content of a kubeconfig.

    Raises:
        ConfigError: it cannot be used; the message never shows the content.
    """
    with tempfile.TemporaryDirectory(prefix="kubeconfig-") as directory:
        file = Path(directory) / "kubeconfig"
        file.touch(mode=0o600)
        file.write_text(text, encoding="utf-8")
        login = _login(file, context)
        return login.config() if isinstance(login, _Login) else login


def context_names() -> list[str]:
    """The contexts that `--context` may name.

    Raises:
        ConfigError: a kubeconfig cannot be read.
    """
    documents = (_document(file) for file in _files(None))
    entries = (entry for document in documents for entry in document.get("contexts") or () if isinstance(entry, dict))
    return [str(entry.get("name")) for entry in entries]


class _Login:
    """A connection whose user is known by the answer of a program or an identity provider."""

    def __init__(
        self, files: Sequence[Path], context: str, namespace: str, user: str, method: Mapping[str, Any]
    ) -> None:
        self._namespace = namespace
        # Here, since it takes a second and few need it.
        from kubernetes import client, config as kubernetes_config

        self._source = os.pathsep.join(map(str, files))
        self._loaded: Any = client.Configuration()
        errors = _RootErrors()
        # The loader logs why a login failed, and returns without one.
        with errors.collected():
            try:
                kubernetes_config.load_kube_config(self._source, context, client_configuration=self._loaded)
            except Exception as error:
                errors.lines.append(str(error) or type(error).__name__)
        # Not through the client's accessor, which would run the program again for a token that expires soon.
        self._token = _bare(self._loaded.api_key.get("authorization"))
        if errors.lines or not (self._token or self._loaded.cert_file):
            reason = " ".join("; ".join(errors.lines).split()) or "the login gave neither a token nor a certificate"
            raise ConfigError(printable(f"{self._source}: user {user!r}: {reason}{_advice(method)}"))

    def config(self, token_file: Path | None = None) -> ClientConfig:
        """The connection; with its token in a file if one is given."""
        loaded = self._loaded
        config = ClientConfig(
            server=str(loaded.host).rstrip("/"),
            namespace=self._namespace,
            ca_file=Path(loaded.ssl_ca_cert) if loaded.ssl_ca_cert else None,
            insecure_skip_tls_verify=not loaded.verify_ssl,
            tls_server_name=loaded.tls_server_name or None,
            cert_file=Path(loaded.cert_file) if loaded.cert_file else None,
            key_file=Path(loaded.key_file) if loaded.key_file else None,
            token=None if token_file else self._token or None,
            token_file=token_file,
            source=self._source,
        )
        config.refuse_proxy()
        return config

    @contextlib.contextmanager
    def renewing(self) -> Iterator[ClientConfig]:
        """The connection, with the token in a file that a thread keeps valid."""
        if not self._token:
            yield self.config()  # a certificate: the official loader renews tokens only
            return
        with tempfile.TemporaryDirectory(prefix="login-") as directory:
            file = Path(directory) / "token"
            _write_secret(file, self._token)
            stopped = threading.Event()

            def renew(last: str) -> None:
                while not stopped.wait(_RENEW_SECONDS):
                    # An answer that fails is logged by the loader; the last token counts until the next try.
                    with _RootErrors().collected(), contextlib.suppress(Exception):
                        token = _bare(self._loaded.get_api_key_with_prefix("authorization"))
                        if token and token != last:
                            _write_secret(file, token)
                            last = token

            thread = threading.Thread(target=renew, args=(self._token,), name="login", daemon=True)
            thread.start()
            try:
                yield self.config(file)
            finally:
                stopped.set()
                thread.join()


class _RootErrors(logging.Handler):
    """Collects what this thread logs with the root logger itself, where the official client reports failed logins."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []
        # Other threads may log in at the same time: a fleet's stacks do.
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if self._is_about_login(record):
            self.lines.append(record.getMessage())

    def _is_about_login(self, record: logging.LogRecord) -> bool:
        return record.name == "root" and record.thread == self._thread

    @contextlib.contextmanager
    def collected(self) -> Iterator[None]:
        """Collect within the block; nothing of it is printed."""
        root = logging.getLogger()
        others = list(root.handlers)

        def passes(record: logging.LogRecord) -> bool:
            return not self._is_about_login(record)

        for handler in others:
            handler.addFilter(passes)
        root.addHandler(self)
        try:
            yield
        finally:
            root.removeHandler(self)
            for handler in others:
                handler.removeFilter(passes)


def _login(kubeconfig: Path | None, context: str | None) -> _Login | ClientConfig:
    files = _files(kubeconfig)
    if not files:
        return ClientConfig.load(None, context)
    documents = [_document(file) for file in files]
    current = context or next(
        (str(document["current-context"]) for document in documents if document.get("current-context")), ""
    )
    chosen = _named(documents, "contexts", "context", current)
    name = str(chosen.get("user") or "")
    user = _named(documents, "users", "user", name)
    cluster = _named(documents, "clusters", "cluster", str(chosen.get("cluster") or ""))
    if not any(user.get(key) for key in _LOGINS):
        # With a context our client does not take a pod's own account first, and neither does kubectl.
        return ClientConfig.load(kubeconfig, current or None)
    paths = ", ".join(map(str, files))
    for key in _IMPERSONATION:
        if user.get(key):
            raise ConfigError(f"{paths}: user {name!r}: {key} (impersonation) is not supported; use a user of its own")
    if cluster.get("proxy-url"):
        raise ConfigError(f"{paths}: proxy-url is not supported; use a network from which the API server is reached")
    return _Login(files, current, str(chosen.get("namespace") or "default"), name, user)


def _files(kubeconfig: Path | None) -> list[Path]:
    if kubeconfig is not None:
        return [kubeconfig]
    paths = [Path(path) for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    return [path for path in (paths or [Path.home() / ".kube" / "config"]) if path.exists()]


def _document(file: Path) -> Mapping[str, Any]:
    """Read a kubeconfig; a message never shows its content."""
    try:
        document = yaml.safe_load(read_bytes(file, limit=MAX_TEXT))
    except InputError as error:
        raise ConfigError(str(error)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        raise ConfigError(f"{file}{f':{mark.line + 1}' if mark else ''}: not valid YAML") from None
    if not isinstance(document, dict):
        raise ConfigError(f"{file}: not a kubeconfig file (no mapping at the top)")
    return document


def _named(documents: Sequence[Mapping[str, Any]], section: str, kind: str, name: str) -> Mapping[str, Any]:
    """The entry of that name in the first file that has it; empty if none has, which our client then reports."""
    for document in documents:
        entries = document.get(section)
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(kind), dict):
                return dict(entry[kind])
    return {}


def _advice(method: Mapping[str, Any]) -> str:
    login = method.get("exec")
    hint = login.get("installHint") if isinstance(login, dict) else None
    return f" ({' '.join(str(hint).split())})" if hint else ""


def _bare(authorization: object) -> str:
    """The token of an Authorization header."""
    return str(authorization or "").removeprefix("Bearer ").strip()


def _write_secret(file: Path, text: str) -> None:
    """Replace the file in one step; only its owner can read it."""
    fresh = file.with_suffix(".new")
    fresh.touch(mode=0o600)
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(file)


_VALID_SECONDS = 600
"""The shortest that the API server issues."""
_TIMEOUT = 15.0


def asking_as(config: ClientConfig, account: str | None) -> ClientConfig | None:
    """Return the connection with a token of a ServiceAccount, for what goes to the scheduler itself; None without one.

    Args:
        config: of the user, who needs `create` on `serviceaccounts/token`.
        account: `NAME`, of the context's namespace, or `NAMESPACE/NAME`.

    Raises:
        CommandError: there is no token to be had.
    """
    if account is None:
        return None
    place, _, name = account.rpartition("/")
    namespace = place or config.namespace
    connection = SyncConnection(config, timeout=_TIMEOUT, user_agent="secondary-scheduler/token")
    try:
        token = request_token(connection, namespace, name, _VALID_SECONDS)
    except NotFound as error:
        raise CommandError(f"--as-service-account: there is no ServiceAccount {namespace}/{name}") from error
    except Forbidden as error:
        needs = f"this user needs create on serviceaccounts/token for {name} in namespace {namespace}"
        raise CommandError(f"--as-service-account {account}: {needs}") from error
    except KubeError as error:
        raise CommandError(printable(f"--as-service-account {account}: {error}")) from error
    finally:
        connection.close()
    return config.with_token(token, f"ServiceAccount {namespace}/{name}")
