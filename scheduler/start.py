"""Starting the daemon: everything else is imported while the first lists arrive from the API server."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Final

import structlog
import uvloop

from scheduler.catalog import minor_of
from scheduler.config import Configuration
from scheduler.kube.client import ApiError, ClientConfig, KubeClient, KubeError, PageReader, server_version
from scheduler.options import USER_AGENT, Options

_SWITCH_INTERVAL_SECONDS: Final = 0.0001
"""How long an import may keep the interpreter's lock from the event loop, which reads a page in some fifty pieces."""
_VERSION_SECONDS, _RETRY_SECONDS = 3.0, 0.25
"""How long the start waits for the cluster's version. Usually the answer comes while the daemon is imported."""

Load = Callable[[int | None], Configuration]
log = structlog.get_logger(component="app")


def run_daemon(options: Options, configuration: Configuration, load: Load, client_config: ClientConfig) -> int:
    """Run the daemon until a signal; returns the exit code.

    Args:
        options: the command line.
        configuration: as loaded without knowing the cluster's version.
        load: loads it for a minor version of the cluster.
        client_config: how to reach the API server.

    Raises:
        ConfigurationError: the configuration is not valid for the cluster's version.
        OSError: a port cannot be used, or the certificate for serving cannot be read.
        ValueError: a plugin refuses its args, or a flag for serving cannot be used.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(options, configuration, load, client_config))


async def _run(options: Options, configuration: Configuration, load: Load, client_config: ClientConfig) -> int:
    connection = configuration.model.client_connection
    async with KubeClient(
        client_config, qps=connection.qps, burst=connection.burst, user_agent=f"{USER_AGENT}/scheduler"
    ) as client:
        nodes = PageReader(client, "/api/v1/nodes")
        # Terminal pods hold no resources; they arrive as deletions.
        pods = PageReader(client, "/api/v1/pods", {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"})
        try:
            for reader in (nodes, pods):
                reader.prefetch()
            minor, _ = await asyncio.gather(_cluster_minor(client), _import_daemon())
            from scheduler.daemon import Daemon

            loaded = configuration if minor is None else load(minor)
            return await Daemon(options, loaded, client, nodes=nodes, pods=pods).run()
        finally:
            nodes.close()
            pods.close()


async def _import_daemon() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    try:
        await asyncio.to_thread(import_module, "scheduler.daemon")
    finally:
        sys.setswitchinterval(before)


async def _cluster_minor(client: KubeClient) -> int | None:
    """Return the minor version of the cluster's Kubernetes 1.x; None where it cannot be had in time."""
    deadline = time.monotonic() + _VERSION_SECONDS
    while True:
        try:
            version = await server_version(client, timeout=max(deadline - time.monotonic(), 0.1))
            break
        except KubeError as error:
            if isinstance(error, ApiError) or time.monotonic() + _RETRY_SECONDS > deadline:
                log.warning("the cluster's version cannot be read", reason=str(error))
                return None
            await asyncio.sleep(_RETRY_SECONDS)
    minor = minor_of(version)
    if minor is None:
        log.warning("the cluster's version is not one of Kubernetes 1.x", version=version[:100])
    return minor
