"""Commands log in to a real API server with a program, as a kubeconfig of EKS, GKE or AKS has them do."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster.cluster import LocalCluster
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.scheduler.load.fakes import service

pytestmark = [pytest.mark.integration]
# It answers as `aws eks get-token` does, with the token of an account that may read everything.
PLUGIN = """#!/bin/sh
echo called >> {directory}/calls
printf '{{"apiVersion": "client.authentication.k8s.io/v1beta1", "kind": "ExecCredential", "status": '
printf '{{"expirationTimestamp": "2099-01-01T00:00:00Z", "token": "%s"}}}}' "$(cat {directory}/token)"
"""


@pytest.fixture(scope="module")
def kubeconfig(control_plane: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A kubeconfig whose user is known by a program's answer."""
    directory = tmp_path_factory.mktemp("logins")
    core = kubernetes.CoreV1Api(kubernetes_config.new_client_from_config(str(control_plane.kubeconfig)))
    rbac = kubernetes.RbacAuthorizationV1Api(core.api_client)
    core.create_namespace({"metadata": {"name": "logins"}})
    core.create_namespaced_service_account("logins", {"metadata": {"name": "reader"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = core.create_namespaced_service_account_token("reader", "logins", request).status.token
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": "logins"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "logins-reader"}
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]
    rbac.create_cluster_role({"metadata": {"name": "logins-reader"}, "rules": rules})
    rbac.create_cluster_role_binding({"metadata": {"name": "logins-reader"}, "subjects": [subject], "roleRef": role})
    core.create_node({"metadata": {"name": "logins-1"}})
    core.patch_node_status("logins-1", {"status": {"addresses": [{"type": "InternalIP", "address": "10.9.8.7"}]}})

    (directory / "token").write_text(token)
    plugin = directory / "get-token"
    plugin.write_text(PLUGIN.format(directory=directory))
    plugin.chmod(0o700)
    document = yaml.safe_load(control_plane.kubeconfig.read_text())
    login = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": str(plugin), "interactiveMode": "Never"}
    for user in document["users"]:
        user["user"] = {"exec": login}
    file = directory / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    yield file
    core.delete_node("logins-1")


def run(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "secondary_scheduler.cli", *arguments, f"--kubeconfig={kubeconfig}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    token = kubeconfig.with_name("token").read_text()
    assert token not in done.stdout + done.stderr
    assert kubeconfig.with_name("calls").exists(), "the program was asked"
    return done


def test_snapshot(kubeconfig: Path) -> None:
    done = run(kubeconfig, "snapshot")
    assert done.returncode == 0, done.stderr
    names = {item["metadata"]["name"] for item in json.loads(done.stdout)["items"] if item["kind"] == "Node"}
    assert "logins-1" in names


def test_version(kubeconfig: Path) -> None:
    done = run(kubeconfig, "version", "--all-namespaces", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kubernetes"].startswith("v1.34.")


def test_preflight(kubeconfig: Path) -> None:
    with service() as source:
        source.json({"status": "success", "data": {"resultType": "vector", "result": []}})
        done = run(kubeconfig, "preflight", f"--address={source.url}", "-o", "json")
    (checked,) = json.loads(done.stdout)["sources"]
    assert (checked["checks"][0]["name"], checked["checks"][0]["status"]) == ("cluster", "ok"), done.stdout


def test_a_login_that_has_ended_is_one_line(kubeconfig: Path) -> None:
    plugin = kubeconfig.with_name("get-token")
    text = plugin.read_text()
    plugin.write_text("#!/bin/sh\necho 'token expired, run: cloud login' >&2; exit 1\n")
    try:
        done = run(kubeconfig, "version")
    finally:
        plugin.write_text(text)
    assert done.returncode == 1
    assert "token expired, run: cloud login" in done.stderr
    assert done.stderr.count("\n") == 1
