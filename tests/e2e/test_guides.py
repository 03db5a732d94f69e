"""The commands of README, guides and pages, as they stand there, in the order in which a reader of several would follow
them, in the environment that they have the reader make (tests/support/reader.py).

Substituted are addresses and file names of the reader's own. The images of the pages are known to the local nodes; the
cluster has what the pages take for granted (namespaces, the account whose token Prometheus accepts). Blocks that need
what no test has say so; docs/guides/README.md lists them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from kubernetes import client as kubernetes, config as kubernetes_config

from devcluster.cluster import LocalCluster
from devcluster.progress import SilentReporter
from devcluster.spec import ClusterSpec
from devcluster.toolchain.binaries import ensure
from tests.support.jobcontrollers import JobControllers
from tests.support.pages import HELM, INSTALL, JOURNEYS, LEAVE, File, followed
from tests.support.reader import Reader
from tests.support.surroundings import IMAGES, FakeVirtController, Monitoring, look_like_openshift
from tests.support.waiting import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

ON_A_CLUSTER = [journey for journey in JOURNEYS if journey not in ("files", "from-0.1", "plugin", "tutorial")]
STEPS = [(journey, step) for journey in ON_A_CLUSTER for step in JOURNEYS[journey]]
BEGIN_IN_A_CLONE = ("by-hand", "helm", "readme")
"""Journeys whose first page takes a clone with its environment for granted."""
# As move-workloads.md says for a policy that writes the scheduler's name.
POLICIES = (
    "--feature-gates=MutatingAdmissionPolicy=true",
    "--runtime-config=admissionregistration.k8s.io/v1beta1=true",
)


class Journey:
    """A reader with a clone, a shell and a cluster."""

    def __init__(self, name: str, cluster: LocalCluster, directory: Path) -> None:
        self.name = name
        self.api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        self.core = kubernetes.CoreV1Api(self.api)
        self.monitoring = Monitoring(cluster, self.api)
        self.virtualisation = FakeVirtController(self.api)
        self.job_controllers = JobControllers(self.api)
        self._authority = cluster.prometheus_ca_file.read_text()
        if name == "openshift":
            look_like_openshift(self.api, self.monitoring, self._authority)
        self.before = self.cluster_scoped()
        values = {
            "https://prometheus.example.com": self.monitoring.address,
            "/path/to/secondary-scheduler/policy": "policy",
            "'prod-*'": "'prod*'",
        }
        self.reader = Reader(directory, values, {"KUBECONFIG": str(cluster.kubeconfig)})
        if name == "helm":
            (directory / "bin" / "helm").symlink_to(ensure(["helm"], SilentReporter())["helm"])
        if name in BEGIN_IN_A_CLONE:
            self.reader.clone()
        for namespace in ("monitoring", "shop"):
            self.core.create_namespace({"metadata": {"name": namespace}})
        self.core.create_namespaced_service_account("monitoring", {"metadata": {"name": "prometheus-reader"}})

    def close(self) -> None:
        self.job_controllers.close()
        self.virtualisation.close()
        self.monitoring.close()

    def follow(self, step: str) -> None:
        for name, prepare in FILES.items():
            if step == name:
                prepare(self)
        self.reader.shell.before["export PROMETHEUS_CA"] = self._write_authority
        self.reader.follow(self.name, step)
        self.before |= KEPT.get(step, set())

    def write(self, files: Mapping[str, str]) -> None:
        """Files that a page takes for granted, in the reader's directory."""
        for name, text in files.items():
            path = self.reader.shell.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def _write_authority(self, directory: Path) -> None:
        (directory / "prometheus-ca.crt").write_text(self._authority)

    def write_what_load_takes_for_granted(self) -> None:
        """A configuration of the reader's own, a token that Prometheus accepts, and its CA."""
        provider = {"type": "Prometheus", "address": self.monitoring.address}
        profile = {
            "schedulerName": "mine",
            "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking"}]}},
            "pluginConfig": [{"name": "TargetLoadPacking", "args": {"metricProvider": provider}}],
        }
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [profile],
        }
        request = {"spec": {"expirationSeconds": 3600}}
        token = self.core.create_namespaced_service_account_token("prometheus-reader", "monitoring", request)
        self.write(
            {"config.yaml": yaml.safe_dump(configuration), "token": token.status.token, "ca.crt": self._authority}
        )

    def write_plain_stack_file(self) -> None:
        """What describes an installation that somebody made by hand: the guide's stack without a source of load."""
        parts = [part for block in followed("kubernetes", INSTALL) for part in block.content]
        (file,) = [part for part in parts if isinstance(part, File) and part.path.startswith("stacks/")]
        content = yaml.safe_load(file.content)
        for key in ("metricProvider", "protect"):
            del content["config"][f"secondary-scheduler:{key}"]
        self.write({file.path: yaml.safe_dump(content)})

    def move_web(self) -> None:
        """A workload that the scheduler places: the Deployment of move-workloads.md."""
        apps = kubernetes.AppsV1Api(self.api)
        template = {"spec": {"schedulerName": "secondary-scheduler"}}
        apps.patch_namespaced_deployment("web", "shop", {"spec": {"template": template}})

        def is_moved() -> bool:
            pods = self.core.list_namespaced_pod("shop", label_selector="app=web").items
            return all(pod.spec.scheduler_name == "secondary-scheduler" and pod.spec.node_name for pod in pods)

        eventually(is_moved, "the workload is placed by the scheduler")

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


FILES: dict[str, Callable[[Journey], None]] = {
    LEAVE: Journey.move_web,
    "docs/load.md": Journey.write_what_load_takes_for_granted,
    "docs/render.md": Journey.write_plain_stack_file,
    HELM: Journey.write_plain_stack_file,
}
"""What a page takes for granted, by its name."""
KEPT = {
    "docs/operating.md": {"V1ClusterRoleBinding/scheduler-metrics-reader"},
    "docs/status.md": {"V1ClusterRole/scheduler-status", "V1ClusterRoleBinding/scheduler-status"},
}
"""What a page makes for the cluster's Prometheus or for people, which stays when the installation is removed."""


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


@pytest.mark.parametrize(("name", "step"), STEPS, ids=[f"{name}-{Path(step).stem}" for name, step in STEPS])
def test_every_command_of_a_page_does_what_the_page_shows(
    on_journey: Callable[[str], Journey], name: str, step: str
) -> None:
    journey = on_journey(name)
    accepted = len(journey.monitoring.accepted)
    journey.follow(step)
    if step.endswith("rotate-the-token.md"):
        # Preflight shows the first two as well; the third is known to the scheduler only.
        monitoring, deadline = journey.monitoring, time.monotonic() + 150
        while len(monitoring.accepted) < accepted + 3:
            assert time.monotonic() < deadline, "the new token is not used"
            time.sleep(1)
        assert monitoring.refused == 0
    if step.endswith("remove.md"):
        assert journey.cluster_scoped() == journey.before
