"""Starting the daemon: everything else is imported while the first lists arrive from the API server."""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Final

import uvloop

from scheduler.config import Configuration
from scheduler.kube.client import ClientConfig, KubeClient, PageReader
from scheduler.options import USER_AGENT, Options

_SWITCH_INTERVAL_SECONDS: Final = 0.0001
"""How long an import may keep the interpreter's lock from the event loop, which reads a page in some fifty pieces."""


def run_daemon(options: Options, configuration: Configuration, client_config: ClientConfig) -> int:
    """Run the daemon until a signal; returns the exit code.

    Raises:
        OSError: a port cannot be used, or the certificate for serving cannot be read.
        ValueError: a plugin refuses its args, or a flag for serving cannot be used.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(options, configuration, client_config))


async def _run(options: Options, configuration: Configuration, client_config: ClientConfig) -> int:
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
            await _import_daemon()
            from scheduler.daemon import Daemon

            return await Daemon(options, configuration, client, nodes=nodes, pods=pods).run()
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
