"""A live stack goes from one install mode to another: the old objects go, the new ones come, pods are placed after it.

The tests of this module run in order and share one cluster and one stack; each begins where the former one ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as kubernetes
from kubernetes import config as kubernetes_config

from secondary_scheduler.devcluster import environment
from secondary_scheduler.devcluster.cluster import Cluster, ClusterSpec
from secondary_scheduler.devcluster.demo.pulumi import Stack
from secondary_scheduler.devcluster.demo.workload import TAINT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CHECKOUT = Path(__file__).resolve().parents[2]
NAMESPACE = "openshift-secondary-scheduler-operator"
NAME = "secondary-scheduler"
OPERATOR = "secondary-scheduler-operator"
IMAGE = "localhost/secondary-scheduler/kube-scheduler:0.1.0"
ABSENT_IMAGE = "registry.invalid/secondary-scheduler/kube-scheduler:0.1.0"


class Live:
    """The stack `modes`, with settings of its own over those of stack `local`."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self._file = directory / "Pulumi.modes.yaml"
        self._environment = {
            **os.environ,
            **environment.variables(cluster.layout, cluster.prometheus_url, os.environ),
        }
        self.settings: dict[str, Any] = {}
        api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        self.core, self.apps = kubernetes.CoreV1Api(api), kubernetes.AppsV1Api(api)
        self.rbac, self.flow_control = kubernetes.RbacAuthorizationV1Api(api), kubernetes.FlowcontrolApiserverV1Api(api)
        Stack(CHECKOUT, "modes", self._environment).select()

    def run(self, *arguments: str, fails: bool = False, **settings: Any) -> str:
        """One command of the engine; settings given once stay."""
        self.settings |= settings
        stack_file = yaml.safe_load((CHECKOUT / "stacks" / "Pulumi.local.yaml").read_text())
        stack_file["config"] |= {f"secondary-scheduler:{key}": value for key, value in self.settings.items()}
        self._file.write_text(yaml.safe_dump(stack_file))
        common = ["--stack", "modes", "--config-file", str(self._file), "--non-interactive", "--color", "never"]
        done = subprocess.run(
            ["pulumi", *arguments, *common], cwd=CHECKOUT, env=self._environment,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode != 0) == fails, done.stdout
        return done.stdout

    def up(self, *, fails: bool = False, **settings: Any) -> str:
        return self.run("up", "--yes", "--skip-preview", fails=fails, **settings)

    def nothing_to_change(self) -> None:
        self.run("preview", "--expect-no-changes", "--diff")

    def output(self) -> dict[str, Any]:
        done = subprocess.run(
            ["pulumi", "stack", "output", "--stack", "modes", "--json"],
            cwd=CHECKOUT, env=self._environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def deployments(self) -> dict[str, Any]:
        return {one.metadata.name: one for one in self.apps.list_namespaced_deployment(NAMESPACE).items}

    def config_maps(self) -> set[str]:
        return {
            one.metadata.name
            for one in self.core.list_namespaced_config_map(NAMESPACE).items
            if one.metadata.name.startswith(f"{NAME}-config-")
        }

    def pods(self) -> set[str]:
        """The scheduler's pods that are not on their way out."""
        listed = self.core.list_namespaced_pod(NAMESPACE, label_selector=f"app={NAME}").items
        return {pod.metadata.name for pod in listed if pod.metadata.deletion_timestamp is None}

    def places_a_pod(self, name: str) -> None:
        container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
        spec = {
            "schedulerName": NAME, "nodeSelector": {"type": "kwok"}, "tolerations": [TAINT], "containers": [container],
        }  # fmt: skip
        self.core.create_namespaced_pod("default", {"metadata": {"name": name}, "spec": spec})
        eventually(lambda: self.core.read_namespaced_pod(name, "default").spec.node_name is not None, 20)


@pytest.fixture(scope="module")
def live(cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with Cluster(ClusterSpec(name="install-modes", nodes=3, state_root=cluster_state_root)) as cluster:
        yield Live(cluster, tmp_path_factory.mktemp("stack"))


def eventually(check: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"not within {seconds:g} s"
        time.sleep(0.2)


def test_direct_runs_the_scheduler_without_operator_crd_or_resource(live: Live) -> None:
    live.up(installMode="direct")
    assert set(live.deployments()) == {NAME}
    assert live.output()["scheduler"]["readyReplicas"] == 1
    assert live.output()["installation"] == {"mode": "direct", "operator": ""}
    definitions = kubernetes.ApiextensionsV1Api(live.core.api_client).list_custom_resource_definition().items
    assert "secondaryschedulers.operator.openshift.io" not in {one.metadata.name for one in definitions}
    live.places_a_pod("with-direct")
    live.nothing_to_change()


def test_a_new_configuration_replaces_the_map_once_it_runs(live: Live) -> None:
    before = live.config_maps()
    live.up(compatibility="upstream")
    after = live.config_maps()
    assert len(after) == 1
    assert not after & before
    assert all(len(name) <= 63 for name in after)
    (mounted,) = after
    volumes = live.deployments()[NAME].spec.template.spec.volumes
    assert mounted in {volume.config_map.name for volume in volumes if volume.config_map}


def test_a_gate_that_fails_leaves_the_former_map_and_the_former_pod(live: Live) -> None:
    before = live.config_maps()
    (pod,) = live.pods()
    for _ in range(2):  # the second finds the replacement of the map half done
        said = live.up(fails=True, compatibility="safe", schedulerImage=ABSENT_IMAGE, readySeconds=10)
        assert "ErrImagePull" in said or "ImagePullBackOff" in said
        assert before < live.config_maps()
        assert pod in live.pods()
    live.places_a_pod("with-the-former-pod")
    live.up(schedulerImage=IMAGE, readySeconds=180)
    assert not before & live.config_maps()
    assert pod not in live.pods()


def test_from_direct_to_manifests_in_one_update(live: Live) -> None:
    live.up(installMode="manifests")
    assert set(live.deployments()) == {NAME, OPERATOR}
    owners = live.deployments()[NAME].metadata.owner_references
    assert [owner.kind for owner in owners] == ["SecondaryScheduler"]
    live.places_a_pod("with-manifests")
    live.nothing_to_change()


def test_from_manifests_to_direct_in_one_update(live: Live) -> None:
    live.up(installMode="direct")
    assert set(live.deployments()) == {NAME}
    assert not live.deployments()[NAME].metadata.owner_references
    live.places_a_pod("with-direct-again")
    live.nothing_to_change()


def test_destroy_leaves_nothing(live: Live) -> None:
    live.run("destroy", "--yes", "--skip-preview")
    names = [one.metadata.name for one in live.core.list_namespace().items]
    assert NAMESPACE not in names
    left = [*live.rbac.list_cluster_role().items, *live.rbac.list_cluster_role_binding().items]
    left += live.flow_control.list_flow_schema().items
    assert not [one.metadata.name for one in left if one.metadata.name.startswith(NAME)]
