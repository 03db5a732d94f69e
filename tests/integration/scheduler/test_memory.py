"""The daemon with 1,000 nodes stays small: the target is 120 MB resident."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster.cluster import LocalCluster
from tests.support.cluster import BARE
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.integration]

NODES = 1000
LIMIT = 120 * 1000 * 1000


def create_nodes(cluster: LocalCluster) -> None:
    core = kubernetes.CoreV1Api(kubernetes_config.new_client_from_config(str(cluster.kubeconfig)))
    resources = {"cpu": "16", "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}

    def create(number: int) -> None:
        name = f"node-{number:04d}"
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
        images = [{"names": [f"registry.example/app-{index}:1"], "sizeBytes": 50_000_000} for index in range(30)]
        status = {"allocatable": resources, "capacity": resources, "conditions": [ready], "images": images}
        core.create_node({"metadata": {"name": name, "labels": labels}, "status": status})

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(create, range(NODES)))


@pytest.mark.slow
def test_with_a_thousand_nodes_it_takes_less_than_120_mb(
    make_cluster: Callable[..., LocalCluster], tmp_path: Path
) -> None:
    cluster = make_cluster(**BARE)
    create_nodes(cluster)
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"resourceName": "memory-test", "resourceNamespace": "default"},
        "clientConnection": {"kubeconfig": str(cluster.kubeconfig)},
        "profiles": [{"schedulerName": "secondary-scheduler"}],
    }
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(configuration))
    log = tmp_path / "log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    command = [sys.executable, "-m", "scheduler", f"--config={config}", "--secure-port=0"]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as daemon:
        try:
            deadline = time.monotonic() + PATIENCE_SECONDS
            while f"nodes={NODES}" not in log.read_text() or "became leader" not in log.read_text():
                assert daemon.poll() is None, log.read_text()[-2000:]
                assert time.monotonic() < deadline, log.read_text()[-2000:]
                time.sleep(0.2)
            time.sleep(1)
            assert psutil.Process(daemon.pid).memory_info().rss < LIMIT
        finally:
            daemon.terminate()
    assert daemon.returncode == 0, "told to stop, it gives the Lease back and exits with 0"
    coordination = kubernetes.CoordinationV1Api(kubernetes_config.new_client_from_config(str(cluster.kubeconfig)))
    assert not coordination.read_namespaced_lease("memory-test", "default").spec.holder_identity
