"""How a stack's cluster is reached from here: as the program's provider does, and with the same kubeconfig."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from scheduler.kube.client import ClientConfig, KubeError, SyncConnection
from secondary_scheduler.cli.connecting import load_connection, load_text
from secondary_scheduler.cli.fleet.events import one_line

_AGENT = "secondary-scheduler/fleet"


def client_config(kubeconfig: str | None, context: str | None) -> ClientConfig:
    """The connection of the stack's kubeconfig (content or path), or of $KUBECONFIG if the stack has none.

    Raises:
        KubeError: there is no kubeconfig, or it cannot be used.
    """
    if kubeconfig is None:
        return load_connection(None, context)
    # One line of JSON is content, too, and as a name too long to ask for.
    if "\n" not in kubeconfig and not kubeconfig.lstrip().startswith("{") and Path(kubeconfig).expanduser().is_file():
        return load_connection(Path(kubeconfig).expanduser(), context)
    return load_text(kubeconfig, context)


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
