"""Starting the daemon: everything else is imported while the first lists arrive from the API server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Final

import uvloop

from scheduler.clusterversion import followed_minor
from scheduler.config import Configuration
from scheduler.imports import import_numpy
from scheduler.kube.client import ClientConfig, KubeClient, PageReader
from scheduler.options import USER_AGENT, Options

_SWITCH_INTERVAL_SECONDS: Final = 0.0001
"""How long an import may keep the interpreter's lock from the event loop, which reads a page in some fifty pieces."""

Load = Callable[[int | None], Configuration]


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
        client_config,
        qps=connection.qps,
        burst=connection.burst,
        user_agent=f"{USER_AGENT}/scheduler",
        drop_managed_fields=options.feature_gates.get("ManagedFieldsOptOutClient", False),
    ) as client:
        nodes = PageReader(client, "/api/v1/nodes")
        # Terminal pods hold no resources; they arrive as deletions.
        pods = PageReader(client, "/api/v1/pods", {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"})
        try:
            for reader in (nodes, pods):
                reader.prefetch()
            election = options.leader_election(configuration.model)
            lease = (election.namespace, election.name) if election.enabled else None
            minor, _ = await asyncio.gather(followed_minor(client, lease), _import_daemon())
            from scheduler.daemon import Daemon

            loaded = configuration if minor is None else load(minor)
            return await Daemon(options, loaded, client, nodes=nodes, pods=pods).run()
        finally:
            nodes.close()
            pods.close()


def _import() -> None:
    import_numpy()
    import_module("scheduler.daemon")


async def _import_daemon() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL_SECONDS)
    try:
        await asyncio.to_thread(_import)
    finally:
        sys.setswitchinterval(before)
