"""Helm installs, upgrades, rolls back and uninstalls the rendered chart on a real cluster with a real node.

The tests run in order and share one cluster.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from scheduler.config import configuration_hash
from tests.integration.operator.support import Api
from tests.support.helming import Helm
from tests.support.rendering import PLAIN, Project
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

NS = "openshift-secondary-scheduler-operator"
RELEASE = "second"
CHANGED = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: secondary-scheduler
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources:
        - name: cpu
          weight: 3
"""
REFUSED = CHANGED.replace("MostAllocated", "Random")


class Installation:
    """The cluster, the chart, and what its user looks at."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        project = Project(directory)
        project.stack("plain")
        self.chart = directory / "chart"
        done = project.render("--stack", "plain", "--format", "helm", "--output-dir", str(self.chart))
        assert done.returncode == 0, done.stderr
        self.original = str(yaml.safe_load((self.chart / "values.yaml").read_text())["configuration"])
        self.helm = Helm(directory / "helm", cluster.kubeconfig)
        self.api = Api(cluster.kubeconfig, NS)
        self._directory = directory

    def upgrade(self, configuration: str) -> None:
        """Upgrade to another configuration; the rest of the values stays."""
        file = self._directory / "config.yaml"
        file.write_text(configuration)
        self.helm.done(
            "upgrade", RELEASE, str(self.chart), "--namespace", "default", "--set-file", f"configuration={file}"
        )

    def wait_until_it_runs(self, configuration: str) -> None:
        """Wait until the scheduler reports this configuration, and the rollout is over."""
        self.api.wait_for_hash(configuration_hash(configuration))
        self.api.wait_for("Progressing", "False")
        self.api.wait_for("Available", "True")
        self.api.wait_for("Degraded", "False")

    def place_a_pod(self, name: str) -> None:
        """Wait until the scheduler has given a pod a node, and delete it."""
        container = {
            "name": "c",
            "image": PLAIN["schedulerImage"],
            "command": ["/bin/kube-scheduler", "--version"],
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        spec = {
            "schedulerName": "secondary-scheduler",
            "restartPolicy": "Never",
            "containers": [container],
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        }
        self.api.create("pods", name, spec=spec)
        eventually(lambda: self.api.get("pods", name)["spec"].get("nodeName"), f"{name} is placed")
        self.api.delete("pods", name)

    def config_maps(self) -> set[str]:
        """The ConfigMaps with configurations that belong to the release."""
        return {
            item["metadata"]["name"]
            for item in self.api.items("configmaps")
            if item["metadata"].get("annotations", {}).get("meta.helm.sh/release-name") == RELEASE
            and "config.yaml" in item["data"]
        }

    def everywhere(self, kinds: str) -> list[str]:
        """Names of the installation's objects of a kind without a namespace."""
        path = f"/apis/{kinds}?labelSelector=app.kubernetes.io%2Fpart-of%3Dsecondary-scheduler"
        return [item["metadata"]["name"] for item in self.api.call("GET", path)["items"]]

    def namespaces(self) -> set[str]:
        """Names of all namespaces."""
        return {item["metadata"]["name"] for item in self.api.call("GET", "/api/v1/namespaces")["items"]}


@pytest.fixture(scope="module")
def installation(cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    spec = ClusterSpec(
        name="helm",
        state_root=cluster_state_root,
        nodes=0,
        kwok=False,
        prometheus=False,
        tools=False,
        real_nodes=1,
    )
    with LocalCluster(spec) as cluster:
        installed = Installation(cluster, tmp_path_factory.mktemp("helm"))
        with contextlib.closing(installed.api):
            yield installed


def test_install_starts_a_scheduler_that_places_pods(installation: Installation) -> None:
    printed = installation.helm.done("install", RELEASE, str(installation.chart), "--namespace", "default", "--wait")
    assert "wait --for=condition=Available secondaryscheduler/cluster" in printed
    installation.wait_until_it_runs(installation.original)
    installation.place_a_pod("first")


def test_an_upgrade_of_a_plugins_argument_is_rolled_out(installation: Installation) -> None:
    installation.upgrade(CHANGED)
    installation.wait_until_it_runs(CHANGED)
    installation.place_a_pod("second")
    assert installation.config_maps() == {f"secondary-scheduler-config-{configuration_hash(CHANGED)[:8]}"}


def test_an_argument_that_the_scheduler_refuses_leaves_the_one_before_running(installation: Installation) -> None:
    installation.upgrade(REFUSED)
    condition = installation.api.wait_for("Degraded", "True")
    assert "scoringStrategy" in condition["message"]
    assert installation.api.condition("Available")["status"] == "True"
    status = installation.api.get("secondaryschedulers", "cluster")["status"]
    assert status["configurationHash"] == configuration_hash(CHANGED)


def test_a_rollback_returns_to_the_first_configuration(installation: Installation) -> None:
    installation.helm.done("rollback", RELEASE, "1", "--namespace", "default", "--wait")
    installation.wait_until_it_runs(installation.original)
    installation.place_a_pod("third")
    history: list[dict[str, Any]] = json.loads(
        installation.helm.done("history", RELEASE, "--namespace", "default", "--output", "json")
    )
    assert [revision["status"] for revision in history][-1] == "deployed"
    assert len(history) == 4


def test_an_uninstall_leaves_the_definitions_and_nothing_else(installation: Installation) -> None:
    installation.helm.done("uninstall", RELEASE, "--namespace", "default", "--wait")
    eventually(lambda: NS not in installation.namespaces(), "the namespace is gone")
    for kinds in (
        "rbac.authorization.k8s.io/v1/clusterroles",
        "rbac.authorization.k8s.io/v1/clusterrolebindings",
        "scheduling.k8s.io/v1/priorityclasses",
        "admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    ):
        assert installation.everywhere(kinds) == [], kinds
    assert not installation.api.cluster_role_bindings()
    definitions = installation.everywhere("apiextensions.k8s.io/v1/customresourcedefinitions")
    assert definitions == ["secondaryschedulers.operator.openshift.io"]
