"""The wall clock is set while pods wait, under a running daemon on a real API server: they are retried in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster.cluster import LocalCluster
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.integration]

NAMESPACE, NODE, ACCOUNT = "clocks", "clocks-node", "clocks-scheduler"
HOUR = 3600
RETRIED_WITHIN_SECONDS = 30
"""The longest backoff is 10 s; without a retry the test would wait for an hour."""


def eventually(check: Callable[[], Any], expectation: str, seconds: float = RETRIED_WITHIN_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {expectation}"
        time.sleep(0.05)


class Running:
    """The daemon, which may not bind at first, and the offset of its wall clock."""

    def __init__(self, core: Any, rights: Any, offset: Path, log: Path) -> None:
        self.core, self._rights, self._offset, self._log = core, rights, offset, log

    def set_clock(self, seconds: float) -> None:
        """Set the daemon's wall clock wrong by so much."""
        other = self._offset.with_suffix(".new")
        other.write_text(str(seconds))
        other.rename(self._offset)

    def create_pod(self, name: str, cpu: str) -> None:
        container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": "clocks", "containers": [container], "nodeSelector": {"clocks": "yes"}}
        self.core.create_namespaced_pod(NAMESPACE, {"metadata": {"name": name}, "spec": spec})

    def failures(self, pod: str) -> int:
        """How often an attempt at a pod failed."""
        records = [json.loads(line) for line in self._log.read_text().splitlines() if line.startswith("{")]
        wanted = ("Unable to schedule pod; no fit; waiting", f"{NAMESPACE}/{pod}")
        return sum((record.get("event"), record.get("pod")) == wanted for record in records)

    def node_of(self, pod: str) -> str | None:
        """Where a pod is bound."""
        name: str | None = self.core.read_namespaced_pod(pod, NAMESPACE).spec.node_name
        return name

    def allow_binding(self, allowed: bool) -> None:
        """Give the daemon the right to bind pods, or take it."""
        rules = [{"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}] if allowed else []
        self._rights.patch_cluster_role(f"{ACCOUNT}-binding", {"rules": rules})


def _grant(rights: Any, name: str, rules: list[dict[str, list[str]]]) -> None:
    rights.create_cluster_role({"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    rights.create_cluster_role_binding({"metadata": {"name": name}, "subjects": [subject], "roleRef": role})


def _kubeconfig(plane: LocalCluster, core: Any) -> str:
    token = core.create_namespaced_service_account_token(ACCOUNT, NAMESPACE, {"spec": {}}).status.token
    content = yaml.safe_load(plane.kubeconfig.read_text())
    for user in content["users"]:
        user["user"] = {"token": token}
    return yaml.safe_dump(content)


@pytest.fixture(scope="module")
def running(control_plane: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    directory = tmp_path_factory.mktemp("clocks")
    api = kubernetes_config.new_client_from_config(str(control_plane.kubeconfig))
    core, rights = kubernetes.CoreV1Api(api), kubernetes.RbacAuthorizationV1Api(api)
    core.create_namespace({"metadata": {"name": NAMESPACE}})
    core.create_namespaced_service_account(NAMESPACE, {"metadata": {"name": ACCOUNT}})
    amounts = {"cpu": "1", "memory": "16Gi", "pods": "110"}
    metadata = {"name": NODE, "labels": {"clocks": "yes"}}
    core.create_node({"metadata": metadata, "status": {"allocatable": amounts, "capacity": amounts}})
    core.patch_node(NODE, {"spec": {"taints": None}})
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    events = {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]}
    status = {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}
    _grant(rights, f"{ACCOUNT}-reading", [everything, events, status])
    _grant(rights, f"{ACCOUNT}-binding", [])
    eventually(lambda: core.list_namespaced_service_account(NAMESPACE).items[1:], "a ServiceAccount for pods", 20)
    kubeconfig, offset, config, log = (directory / name for name in ("kubeconfig", "offset", "config.yaml", "log"))
    kubeconfig.write_text(_kubeconfig(control_plane, core))
    offset.write_text("0")
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "profiles": [{"schedulerName": "clocks"}],
    }
    config.write_text(json.dumps(configuration))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    environment["FAULTS_SKEW"] = str(offset)
    command = [sys.executable, "-m", "tests.faults.debugged", f"--config={config}", "--secure-port=0"]
    command += ["--logging-format=json", "--pod-max-in-unschedulable-pods-duration=2s"]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, env=environment) as daemon:
        try:
            eventually(lambda: "caches are filled" in log.read_text() or daemon.poll() is not None, "it runs", 60)
            assert daemon.poll() is None, log.read_text()[-2000:]
            yield Running(core, rights, offset, log)
            assert daemon.poll() is None, log.read_text()[-2000:]
            assert "Traceback" not in log.read_text(), log.read_text()[-4000:]
        finally:
            daemon.terminate()
            daemon.wait(PATIENCE_SECONDS)
            core.delete_node(NODE)


@pytest.mark.parametrize("jump", [-HOUR, HOUR], ids=["an hour back", "an hour ahead"])
def test_a_pod_in_backoff_is_retried_though_the_wall_clock_is_set(running: Running, jump: int) -> None:
    name = f"backoff-{abs(jump)}-{'back' if jump < 0 else 'ahead'}"
    running.set_clock(0)
    running.allow_binding(False)
    running.create_pod(name, "100m")
    eventually(lambda: running.failures(name), "the Binding is refused")
    running.set_clock(jump)
    running.allow_binding(True)
    eventually(lambda: running.node_of(name) == NODE, f"{name} is retried and bound")


@pytest.mark.parametrize("jump", [-HOUR, HOUR], ids=["an hour back", "an hour ahead"])
def test_an_unschedulable_pod_is_retried_though_the_wall_clock_is_set(running: Running, jump: int) -> None:
    """After the two seconds that the daemon's flag says; no event helps it."""
    name = f"unschedulable-{abs(jump)}-{'back' if jump < 0 else 'ahead'}"
    running.set_clock(0)
    running.create_pod(name, "100")
    eventually(lambda: running.failures(name), "it fits nowhere")
    running.set_clock(jump)
    seen = running.failures(name)
    eventually(lambda: running.failures(name) >= seen + 2, f"{name} is retried")
