"""Clients that hold as many connections as they can, with bounds that are set low; the real sizes are measured by
`python -m benchmarks flood`."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from kubernetes import client as kubernetes, config as kubernetes_config

from benchmarks import flood
from devcluster.cluster import LocalCluster
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.integration]
LIMIT, MAX_OF_AN_ADDRESS = 40, 8
CONNECTIONS = 600


@pytest.fixture(scope="module")
def installation(
    control_plane: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[flood.FloodedInstallation]:
    api = kubernetes_config.new_client_from_config(str(control_plane.kubeconfig))
    with flood.metric_source() as source:
        yield flood.FloodedInstallation(control_plane.kubeconfig, tmp_path_factory.mktemp("flood"), source)
    core, rbac = kubernetes.CoreV1Api(api), kubernetes.RbacAuthorizationV1Api(api)
    rbac.delete_cluster_role_binding("flood")
    core.delete_node("flood")
    core.delete_namespace("flood")


def accepted(process: psutil.Process, server: flood.Flooded) -> int:
    """Connections that a server holds at the ports that are flooded; those that it opens itself do not count."""
    connections = process.net_connections("tcp")
    return sum(1 for each in connections if each.laddr.port in server.flooded and each.status != psutil.CONN_LISTEN)


@pytest.mark.parametrize("name", flood.SERVERS)
def test_clients_with_many_idle_connections_keep_nobody_out_and_cost_no_memory(
    installation: flood.FloodedInstallation, tmp_path: Path, name: str
) -> None:
    flags = [f"--max-connections={LIMIT}"]
    if name != "page":
        flags.append(f"--max-connections-per-address={MAX_OF_AN_ADDRESS}")
    server, log = installation.server(name, *flags), tmp_path / "log"
    with running(server, log) as process:
        asking = flood.asking(server, installation.token)
        flood.until_answered(asking, process, log)
        seen = psutil.Process(process.pid)
        memory = seen.memory_info().rss
        with flood.holding(server, CONNECTIONS, rate=CONNECTIONS) as clients:
            eventually(
                lambda: min(client["closed"] for client in clients) > CONNECTIONS, "their connections are closed"
            )
            for ask in asking.values():
                for _ in range(10):
                    ask()
            # Those that answer, and what is closed in this moment.
            assert accepted(seen, server) <= len(server.flooded) * (LIMIT + 20)
        if name == "scheduler":
            reason = 'secondary_scheduler_dropped_connections_total{reason="address_limit"}'
            assert counted(server, installation.token, reason) > CONNECTIONS
        eventually(lambda: accepted(seen, server) <= 2, "nothing of the connections is left")
        eventually(lambda: seen.memory_info().rss <= memory * 1.2, "their memory is given back")
    lines = log.read_text().splitlines()
    assert [line for line in lines if "connections dropped" in line]
    assert not [line for line in lines if "Traceback" in line]
    assert len(lines) < 60, "one line in 10 s, whatever happens"


@contextlib.contextmanager
def running(server: flood.Flooded, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output, subprocess.Popen(server.command, stdout=output, stderr=output) as process:
        try:
            yield process
            assert process.poll() is None, log.read_text()[-3000:]
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)


def counted(server: flood.Flooded, token: str, series: str) -> float:
    """The value of a series of the scheduler's."""
    text = flood.answer_to(server.questions["scrape"], token)
    return float(text.partition(f"{series} ")[2].split()[0])
