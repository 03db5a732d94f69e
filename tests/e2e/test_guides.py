"""The commands of the guides, as they stand there, in the order in which a reader of several of them would follow them.

Substituted is the address of Prometheus only. The images of the guides are known to the local nodes; the cluster has
what the guides take for granted (namespaces, the account whose token Prometheus accepts). Blocks that need what a local
cluster does not have are told in the guides, and `tests/unit/docs` has their list.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kubernetes import client as kubernetes
from kubernetes import config as kubernetes_config

from devcluster.cluster import LocalCluster
from devcluster.spec import ClusterSpec
from tests.support.fleet import Fleet
from tests.support.guides import OTHERS, Shell, blocks, guide_names
from tests.support.surroundings import IMAGES, FakeVirtController, Monitoring, look_like_openshift

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

JOURNEYS = {
    "openshift": ("install-on-openshift", "remove"),
    "kubernetes": (
        "install-on-kubernetes",
        "change-a-plugin-arg",
        "rotate-the-token",
        "upgrade",
        "roll-back",
        "move-workloads",
        "remove",
    ),
}
STEPS = [(journey, guide) for journey, guides in JOURNEYS.items() for guide in guides]
# As move-workloads.md says for a policy that writes the scheduler's name.
POLICIES = (
    "--feature-gates=MutatingAdmissionPolicy=true",
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
)


class Journey:
    """A reader with a clone, a shell and a cluster."""

    def __init__(self, name: str, cluster: LocalCluster, directory: Path) -> None:
        self.api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        self.core = kubernetes.CoreV1Api(self.api)
        self.monitoring = Monitoring(cluster, self.api)
        self.virtualisation = FakeVirtController(self.api)
        self.before = self.cluster_scoped()
        git = {
            f"GIT_{role}_{field}": value
            for role in ("AUTHOR", "COMMITTER")
            for field, value in (("NAME", "reader"), ("EMAIL", "reader@example.com"))
        }
        fleet = Fleet.of_this_project(directory, {"KUBECONFIG": str(cluster.kubeconfig), "COLUMNS": "160", **git})
        self.root = fleet.root
        (self.root / "prometheus-ca.crt").write_text(cluster.prometheus_ca_file.read_text())
        for command in (
            ("git", "init", "--quiet", "--initial-branch=main"),
            ("git", "add", "--all"),
            ("git", "commit", "--quiet", "--message=As cloned"),
        ):
            subprocess.run(command, cwd=self.root, env=fleet.environment, check=True)
        values = {"https://prometheus.example.com": self.monitoring.address}
        self.shell = Shell(self.root, fleet.environment, values, directory / "shell")
        if name == "openshift":
            look_like_openshift(self.api, self.monitoring, cluster.prometheus_ca_file.read_text())
            self.before = self.cluster_scoped()
        for namespace in ("monitoring", "shop"):
            self.core.create_namespace({"metadata": {"name": namespace}})
        self.core.create_namespaced_service_account("monitoring", {"metadata": {"name": "prometheus-reader"}})

    def close(self) -> None:
        self.virtualisation.close()
        self.monitoring.close()

    def follow(self, guide: str) -> None:
        for block in blocks(guide):
            if not block.needs:
                self.shell.follow(block)

    def cluster_scoped(self) -> set[str]:
        """What an installation makes outside its namespace."""
        rbac, extensions = kubernetes.RbacAuthorizationV1Api(self.api), kubernetes.ApiextensionsV1Api(self.api)
        lists = (
            rbac.list_cluster_role(),
            rbac.list_cluster_role_binding(),
            extensions.list_custom_resource_definition(),
            kubernetes.SchedulingV1Api(self.api).list_priority_class(),
            kubernetes.FlowcontrolApiserverV1Api(self.api).list_flow_schema(),
        )
        return {f"{type(item).__name__}/{item.metadata.name}" for objects in lists for item in objects.items}


@pytest.fixture(scope="module")
def on_journey(
    cluster_state_root: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Journey]]:
    """The journey of that name: it begins, with a cluster, when it is first asked for, and ends when another begins."""
    current: dict[str, Journey] = {}
    with contextlib.ExitStack() as stack:

        def begin(name: str) -> Journey:
            if name not in current:
                stack.close()
                current.clear()
                spec = ClusterSpec(
                    name=f"guides-{name}",
                    nodes=3,
                    real_nodes=2,
                    state_root=cluster_state_root,
                    images=IMAGES,
                    api_server_flags=POLICIES,
                )
                cluster = stack.enter_context(LocalCluster(spec))
                current[name] = Journey(name, cluster, tmp_path_factory.mktemp("guides"))
                stack.callback(current[name].close)
            return current[name]

        yield begin


@pytest.mark.parametrize(("name", "guide"), STEPS)
def test_every_command_of_a_guide_does_what_the_guide_shows(
    on_journey: Callable[[str], Journey], name: str, guide: str
) -> None:
    journey = on_journey(name)
    accepted = len(journey.monitoring.accepted)
    journey.follow(guide)
    if guide == "rotate-the-token":
        # Preflight shows the first two as well; the third is known to the scheduler only.
        monitoring, deadline = journey.monitoring, time.monotonic() + 150
        while len(monitoring.accepted) < accepted + 3:
            assert time.monotonic() < deadline, "the new token is not used"
            time.sleep(1)
        assert monitoring.refused == 0
    if guide == "remove":
        assert journey.cluster_scoped() == journey.before


def test_no_guide_is_left_out() -> None:
    assert {guide for _, guide in STEPS} | set(OTHERS) >= set(guide_names())
