"""How a stack's cluster is reached from here: as the program's provider does, and with the same kubeconfig."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from scheduler.kube.client import ClientConfig, ConfigError, KubeError, SyncConnection
from secondary_scheduler.cli.fleet.events import one_line

_AGENT = "secondary-scheduler/fleet"


@contextlib.contextmanager
def client_config(kubeconfig: str | None, context: str | None) -> Iterator[ClientConfig]:
    """The connection of the stack's kubeconfig (content or path), or of $KUBECONFIG if the stack has none.

    Raises:
        KubeError: there is no kubeconfig, or it cannot be used.
    """
    with tempfile.TemporaryDirectory(prefix="fleet-") as directory:
        file = _file(kubeconfig, Path(directory))
        yield _configuration(file, context)


@contextlib.contextmanager
def connection(config: ClientConfig, timeout: float) -> Iterator[SyncConnection]:
    """A connection for one thread; `timeout` (seconds) is that of each wait for the server."""
    opened = SyncConnection(config, timeout=timeout, user_agent=_AGENT)
    try:
        yield opened
    finally:
        opened.close()


def connection_problem(config: ClientConfig, timeout: float) -> str:
    """One line about why the cluster does not answer; empty if it does."""
    try:
        with connection(config, timeout) as cluster:
            cluster.get("/version")
    except KubeError as error:
        return f"{config.server} does not answer: {one_line(str(error)).removeprefix('GET /version: ')}"
    return ""


def _file(kubeconfig: str | None, directory: Path) -> Path | None:
    if kubeconfig is None:
        # Only what is named; several files, or none, are found and merged by the client.
        named = os.environ.get("KUBECONFIG", "")
        return Path(named) if named and os.pathsep not in named else None
    if "\n" not in kubeconfig and Path(kubeconfig).expanduser().is_file():
        return Path(kubeconfig).expanduser()
    file = directory / "kubeconfig"
    file.touch(mode=0o600)
    file.write_text(kubeconfig, encoding="utf-8")
    return file


def _configuration(file: Path | None, context: str | None) -> ClientConfig:
    try:
        return ClientConfig.load(file, context)
    except ConfigError:
        if file is None or not file.is_file() or not _uses_exec_plugin(file):
            raise
        return _configuration_by_plugin(file, context)


def _uses_exec_plugin(file: Path) -> bool:
    """Whether a user of the kubeconfig is known to the cluster by a program's answer, as those of EKS, GKE and AKS."""
    document = yaml.safe_load(file.read_bytes())
    users = document.get("users") if isinstance(document, dict) else None
    return any("exec" in (user.get("user") or {}) for user in users or () if isinstance(user, dict))


def _configuration_by_plugin(file: Path, context: str | None) -> ClientConfig:
    # Here, since it takes a second and few need it.
    from kubernetes import client
    from kubernetes import config as kubernetes_config

    loaded: Any = client.Configuration()
    try:
        kubernetes_config.load_kube_config(str(file), context, client_configuration=loaded)
    except Exception as error:
        raise ConfigError(f"{file}: {one_line(str(error))}") from None
    authorization = str(loaded.api_key.get("authorization", ""))
    return ClientConfig(
        server=str(loaded.host).rstrip("/"),
        ca_file=Path(loaded.ssl_ca_cert) if loaded.ssl_ca_cert else None,
        insecure_skip_tls_verify=not loaded.verify_ssl,
        tls_server_name=loaded.tls_server_name or None,
        cert_file=Path(loaded.cert_file) if loaded.cert_file else None,
        key_file=Path(loaded.key_file) if loaded.key_file else None,
        token=authorization.removeprefix("Bearer ") or None,
        source=str(file),
    )
