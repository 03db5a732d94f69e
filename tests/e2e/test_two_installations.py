"""Two installations in one program of somebody else's, on one cluster: made, unchanged, one taken away, destroyed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster import environment
from devcluster.cluster import LocalCluster
from devcluster.demo.workload import TAINT
from devcluster.spec import ClusterSpec
from scheduler import __version__
from tests.support.live_stack import CHECKOUT
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

USUAL, OTHER = "openshift-secondary-scheduler-operator", "batch-scheduling"
PROGRAM = f"""
import sys

sys.path.insert(0, {str(CHECKOUT)!r})

import pulumi

import components

CONFIGURATION = '''
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: %s
'''
config = pulumi.Config()
cluster = components.ClusterProvider("cluster", cluster_identifier="local")
on_cluster = pulumi.ResourceOptions(providers=[cluster])
common = {{
    "image": "localhost/secondary-scheduler/kube-scheduler:{__version__}",
    "operator_image": "localhost/secondary-scheduler/operator:{__version__}",
}}
first = components.SchedulerInstallation(
    "usual",
    components.SchedulerInstallationArgs(configuration=CONFIGURATION % "usual-scheduler", **common),
    on_cluster,
)
pulumi.export("usual", first.ready_replicas)
if mode := config.get("second"):
    second = components.SchedulerInstallation(
        "batch",
        components.SchedulerInstallationArgs(
            configuration=CONFIGURATION % "batch-scheduler", mode=mode, namespace={OTHER!r}, beside=first, **common
        ),
        on_cluster,
    )
    pulumi.export("batch", second.ready_replicas)
"""


class Program:
    """A project of its own, with a stack on the cluster."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self._directory = directory
        self._environment = {**os.environ, **environment.variables(cluster.layout, None, os.environ)}
        (directory / "Pulumi.yaml").write_text("name: platform\nruntime: python\n")
        (directory / "__main__.py").write_text(PROGRAM)
        api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        self.core, self.rbac = kubernetes.CoreV1Api(api), kubernetes.RbacAuthorizationV1Api(api)
        self.before = self.scheduling_roles()
        self.run("stack", "init", "platform")

    def run(self, *arguments: str) -> str:
        command = ["pulumi", *arguments, "--non-interactive"]
        if arguments[0] != "stack":
            command += ["--stack", "platform"]
        done = subprocess.run(
            command, cwd=self._directory, env=self._environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def places_a_pod(self, scheduler: str) -> None:
        container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "100m"}}}
        spec = {
            "schedulerName": scheduler, "nodeSelector": {"type": "kwok"}, "tolerations": [TAINT],
            "containers": [container],
        }  # fmt: skip
        created = self.core.create_namespaced_pod("default", {"metadata": {"generateName": "pod-"}, "spec": spec})
        name = created.metadata.name
        eventually(lambda: self.core.read_namespaced_pod(name, "default").spec.node_name is not None)

    def scheduling_roles(self) -> set[str]:
        """Names of the ClusterRoles and bindings about scheduling, the cluster's own among them."""
        lists = (self.rbac.list_cluster_role(), self.rbac.list_cluster_role_binding())
        names = {item.metadata.name for listed in lists for item in listed.items}
        return {name for name in names if "scheduler" in name}


@pytest.fixture(scope="module")
def program(cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    spec = ClusterSpec(name="two-installations", nodes=2, prometheus=False, state_root=cluster_state_root)
    with LocalCluster(spec) as cluster:
        yield Program(cluster, tmp_path_factory.mktemp("program"))


@pytest.mark.parametrize("mode", ["manifests", "direct"])
def test_a_second_scheduler_comes_and_goes_beside_the_first(program: Program, mode: str) -> None:
    program.run("config", "set", "second", mode)
    program.run("up", "--yes", "--skip-preview")
    for scheduler in ("usual-scheduler", "batch-scheduler"):
        program.places_a_pod(scheduler)
    program.run("preview", "--expect-no-changes")
    program.run("config", "rm", "second")
    program.run("up", "--yes", "--skip-preview")
    assert OTHER not in {item.metadata.name for item in program.core.list_namespace().items}
    program.places_a_pod("usual-scheduler")
    program.run("preview", "--expect-no-changes")


def test_two_are_destroyed_together_and_leave_nothing(program: Program) -> None:
    program.run("config", "set", "second", "manifests")
    program.run("up", "--yes", "--skip-preview")
    assert program.scheduling_roles() > program.before
    program.run("destroy", "--yes", "--skip-preview")
    assert program.scheduling_roles() == program.before
    assert not {USUAL, OTHER} & {item.metadata.name for item in program.core.list_namespace().items}
