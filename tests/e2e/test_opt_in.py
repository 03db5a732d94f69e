"""A profile is renamed and its stack destroyed while opted-in pods are made: each of them finds a scheduler."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client as kubernetes

from devcluster.cluster import LocalCluster
from devcluster.demo.workload import TAINT
from devcluster.spec import ClusterSpec
from scheduler import __version__
from tests.e2e.test_guides import POLICIES
from tests.support.live_stack import Live
from tests.support.waiting import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]
OUR_IMAGE = f"localhost/secondary-scheduler/kube-scheduler:{__version__}"
PAUSE_SECONDS = 0.2
"""Between two pods: some are made at every step of an update."""


@pytest.fixture(scope="module")
def cluster(cluster_state_root: Path) -> Iterator[LocalCluster]:
    spec = ClusterSpec(
        name="opt-in-stack",
        nodes=10,
        state_root=cluster_state_root,
        api_server_flags=POLICIES,
    )
    with LocalCluster(spec) as cluster:
        yield cluster


@pytest.fixture
def live(cluster: LocalCluster, tmp_path: Path) -> Iterator[Live]:
    stack = Live(cluster, tmp_path, "opted", only_own=True)
    stack.settings = {
        "schedulerImage": OUR_IMAGE,
        "cluster": {"clusterIdentifier": "opted", "kubernetesVersion": "1.34"},
        "optIn": {"mechanism": "policy"},
    }
    yield stack
    stack.close()


@contextlib.contextmanager
def pods_being_made(core: kubernetes.CoreV1Api, namespace: str) -> Iterator[None]:
    """Pods without a schedulerName, one after another, until the block ends."""
    ended = threading.Event()
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1m"}}}
    spec = {"nodeSelector": {"type": "kwok"}, "tolerations": [TAINT], "containers": [container]}
    errors: list[Exception] = []

    def make() -> None:
        while not ended.wait(PAUSE_SECONDS):
            try:
                core.create_namespaced_pod(namespace, {"metadata": {"generateName": "p-"}, "spec": spec})
            except Exception as error:
                errors.append(error)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(PATIENCE_SECONDS)
    assert not errors


def schedulers(core: kubernetes.CoreV1Api, namespace: str, *, placed: bool) -> Counter[str]:
    """How many pods name which scheduler, of those that have a node or of those that have none."""
    pods = core.list_namespaced_pod(namespace).items
    return Counter(pod.spec.scheduler_name for pod in pods if (pod.spec.node_name is not None) == placed)


def test_no_pod_is_left_with_a_name_that_nobody_serves(live: Live, cluster: LocalCluster) -> None:
    core = live.core
    live.up()
    core.create_namespace({"metadata": {"name": "shop", "labels": {"secondary-scheduler.io/pods": "true"}}})
    eventually(lambda: core.list_namespaced_service_account("shop").items, "the ServiceAccount that pods need")
    command = ["secondary-scheduler", "opt-in", "check", "-n", "shop", "--wait", "60", "-o", "json"]
    command += ["--kubeconfig", str(cluster.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["reason"] == "moved"
    with pods_being_made(core, "shop"):
        eventually(lambda: schedulers(core, "shop", placed=True)["secondary-scheduler"] > 5)
        live.up(schedulerName="renamed")
        eventually(lambda: schedulers(core, "shop", placed=True)["renamed"] > 5)
        live.nothing_to_change()
        live.run("destroy", "--yes", "--skip-preview")
        seen = schedulers(core, "shop", placed=True).total()
        eventually(lambda: schedulers(core, "shop", placed=True).total() > seen + 5)
    eventually(
        lambda: not schedulers(core, "shop", placed=False),
        "every pod has a node",
        diagnosis=lambda: schedulers(core, "shop", placed=False),
    )
    assert schedulers(core, "shop", placed=True)["default-scheduler"] > 0
