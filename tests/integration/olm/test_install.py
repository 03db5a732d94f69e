"""The real Operator Lifecycle Manager installs our operator from the checked-in catalog.

Covers a CatalogSource by address, the InstallPlan, the ClusterServiceVersion whose Deployment runs on a real node, the
CRD, a SecondaryScheduler whose scheduler places a pod, whose rights are whose, an upgrade, and removal. The tests run
in order and share one cluster.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client as kubernetes, config as kubernetes_config
from kubernetes.client.exceptions import ApiException

from devcluster import ports, processes
from devcluster.cluster import LocalCluster
from devcluster.layout import Layout
from devcluster.progress import SilentReporter
from devcluster.services import olm as services
from devcluster.spec import ClusterSpec
from devcluster.toolchain.binaries import ensure
from scheduler.catalog import shipped_cluster_roles
from tests.support.cluster import BARE
from tests.support.waiting import eventually
from tools import olm_bundle
from tools.olm_bundle import CHANNEL, OUTPUT, PACKAGE, SCHEDULER_IMAGE, BundleRelease

pytestmark = [pytest.mark.integration]
# tests/e2e/test_olm_modes.py has the way through the real OLM in every run.
in_the_long_run = pytest.mark.slow

NAMESPACE = "openshift-secondary-scheduler-operator"
OLM = "operators.coreos.com"
OPERATOR = "operator.openshift.io"
DOCUMENTATION = OUTPUT.parents[1] / "docs/olm.md"
SECONDS = 90
RELEASE = BundleRelease()
NEWER = BundleRelease(version="99.0.0")
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: secondary-scheduler
"""


@dataclass
class Installed:
    """The cluster, and what a user would look at."""

    cluster: LocalCluster
    core: kubernetes.CoreV1Api
    apps: kubernetes.AppsV1Api
    custom: kubernetes.CustomObjectsApi
    rbac: kubernetes.RbacAuthorizationV1Api
    extensions: kubernetes.ApiextensionsV1Api

    @classmethod
    def on(cls, cluster: LocalCluster) -> Installed:
        api = kubernetes_config.new_client_from_config(str(cluster.kubeconfig))
        return cls(
            cluster,
            kubernetes.CoreV1Api(api),
            kubernetes.AppsV1Api(api),
            kubernetes.CustomObjectsApi(api),
            kubernetes.RbacAuthorizationV1Api(api),
            kubernetes.ApiextensionsV1Api(api),
        )

    def make(self, version: str, kind: str, plural: str, name: str, **content: Any) -> None:
        group = OPERATOR if kind == "SecondaryScheduler" else OLM
        body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name}, **content}
        self.custom.create_namespaced_custom_object(group, version, NAMESPACE, plural, body)

    def status(self, version: str, plural: str, name: str, group: str = OLM) -> dict[str, Any]:
        """Its status; empty while there is no such object."""
        try:
            obj = self.custom.get_namespaced_custom_object(group, version, NAMESPACE, plural, name)
        except ApiException as error:
            if error.status != 404:
                raise
            return {}
        status: dict[str, Any] = obj.get("status", {})
        return status

    def subscription_at_latest(self) -> dict[str, Any] | None:
        """Its status, once it has nothing left to do."""
        status = self.status("v1alpha1", "subscriptions", PACKAGE)
        return status if status.get("state") == "AtLatestKnown" else None

    def plan_is_complete(self) -> None:
        """Wait until the last InstallPlan has written everything."""
        name = self.status("v1alpha1", "subscriptions", PACKAGE)["installPlanRef"]["name"]
        eventually(lambda: self.status("v1alpha1", "installplans", name)["phase"] == "Complete", "the plan is complete")

    def succeeded(self, release: BundleRelease) -> bool:
        return self.status("v1alpha1", "clusterserviceversions", release.csv_name).get("phase") == "Succeeded"

    def ready(self, deployment: str) -> bool:
        try:
            return bool(self.apps.read_namespaced_deployment(deployment, NAMESPACE).status.ready_replicas)
        except ApiException as error:
            if error.status != 404:
                raise
            return False

    def pods_of_the_scheduler(self) -> set[str]:
        pods = self.core.list_namespaced_pod(NAMESPACE, label_selector="app=secondary-scheduler").items
        return {pod.metadata.name for pod in pods}

    def deployments(self) -> set[str]:
        return {each.metadata.name for each in self.apps.list_namespaced_deployment(NAMESPACE).items}

    def scheduler_roles(self) -> list[dict[str, Any]]:
        """The ClusterRoles that an installation ships."""
        roles = self.custom.list_cluster_custom_object("rbac.authorization.k8s.io", "v1", "clusterroles")["items"]
        return [role for role in roles if role["metadata"]["name"] in shipped_cluster_roles()]

    def rules_of_the_scheduler(self) -> dict[str, list[dict[str, Any]]]:
        return {role["metadata"]["name"]: role["rules"] for role in self.scheduler_roles()}

    def identities_of_the_roles(self) -> dict[str, str]:
        """What changes when a ClusterRole is deleted, even if it comes back."""
        return {role["metadata"]["name"]: role["metadata"]["uid"] for role in self.scheduler_roles()}

    def bound_roles(self) -> set[str]:
        return {binding.role_ref.name for binding in self.rbac.list_cluster_role_binding().items}


def expected_rules() -> dict[str, list[dict[str, Any]]]:
    return {name: [rule.to_dict() for rule in rules] for name, rules in shipped_cluster_roles().items()}


@pytest.fixture(scope="module")
def installed(cluster_state_root: Path) -> Iterator[Installed]:
    options = {**BARE, "real_nodes": 1, "default_scheduler": True}
    with LocalCluster(ClusterSpec(name="olm", state_root=cluster_state_root, olm=True, **options)) as cluster:
        installation = Installed.on(cluster)
        labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "audit", "warn")}
        installation.core.create_namespace({"metadata": {"name": NAMESPACE, "labels": labels}})
        installation.make("v1", "OperatorGroup", "operatorgroups", "group", spec={"targetNamespaces": [NAMESPACE]})
        source = {"sourceType": "grpc", "address": cluster.olm_catalog_address}
        installation.make("v1alpha1", "CatalogSource", "catalogsources", "ours", spec=source)
        wanted = {"name": PACKAGE, "channel": CHANNEL, "source": "ours", "sourceNamespace": NAMESPACE}
        installation.make("v1alpha1", "Subscription", "subscriptions", PACKAGE, spec=wanted)
        yield installation


@pytest.fixture
def newer_catalog(installed: Installed, tmp_path: Path) -> Iterator[str]:
    """Address of a catalog with a newer version."""
    opm = installed.cluster.binary("opm")
    olm_bundle.write(tmp_path, NEWER, opm)
    layout = Layout(tmp_path)
    for part in ("data", "logs"):
        (tmp_path / part).mkdir()
    allocated = ports.allocate(["opm"], {})
    service = services.opm(opm, layout, allocated, tmp_path / "catalog")
    record = processes.start(service, tmp_path)
    try:
        processes.wait_ready(service, record)
        yield f"127.0.0.1:{allocated['opm']}"
    finally:
        processes.stop([record])


@in_the_long_run
def test_the_subscription_ends_in_a_succeeded_version(installed: Installed) -> None:
    eventually(lambda: installed.succeeded(RELEASE), "the ClusterServiceVersion has succeeded")
    subscription = eventually(installed.subscription_at_latest, "the Subscription says so")
    assert subscription["installedCSV"] == RELEASE.csv_name
    name = subscription["installPlanRef"]["name"]
    eventually(
        lambda: installed.status("v1alpha1", "installplans", name)["phase"] == "Complete", "the InstallPlan is complete"
    )
    plan = installed.status("v1alpha1", "installplans", name)
    assert not plan.get("bundleLookups"), "nothing was left for a pod to unpack"
    assert installed.ready("secondary-scheduler-operator"), "its pod runs on the real node"
    crd = installed.extensions.read_custom_resource_definition("secondaryschedulers.operator.openshift.io")
    assert {each.type: each.status for each in crd.status.conditions}["Established"] == "True"


@in_the_long_run
def test_a_secondary_scheduler_becomes_a_scheduler_that_places_pods(installed: Installed) -> None:
    config_map = {"metadata": {"name": "configuration"}, "data": {"config.yaml": CONFIGURATION}}
    installed.core.create_namespaced_config_map(NAMESPACE, config_map)
    spec = {"schedulerConfig": "configuration", "schedulerImage": SCHEDULER_IMAGE}
    installed.make("v1", "SecondaryScheduler", "secondaryschedulers", "cluster", spec=spec)
    eventually(lambda: installed.ready("secondary-scheduler"), "the scheduler is ready")

    container = {"name": "c", "image": "localhost/secondary-scheduler/operator"}
    pod = {"metadata": {"name": "placed"}, "spec": {"schedulerName": "secondary-scheduler", "containers": [container]}}
    installed.core.create_namespaced_pod("default", pod)
    eventually(lambda: installed.core.read_namespaced_pod("placed", "default").spec.node_name, "the pod has a node")


@in_the_long_run
def test_the_scheduler_has_the_same_rights_as_after_an_install_from_manifests(installed: Installed) -> None:
    assert installed.rules_of_the_scheduler() == expected_rules()


@in_the_long_run
def test_both_olm_operators_use_their_own_identity(installed: Installed) -> None:
    created: dict[str, set[str]] = {"olm-operator": set(), "catalog-operator": set()}
    for line in installed.cluster.audit_log.read_text().splitlines():
        entry = json.loads(line)
        user, target = entry["user"]["username"], entry.get("objectRef", {})
        if user in created and entry["verb"] == "create" and target.get("namespace") == NAMESPACE:
            assert entry["responseStatus"]["code"] in (200, 201, 409)
            created[user].add(target["resource"])
    assert {"installplans", "clusterserviceversions", "serviceaccounts"} <= created["catalog-operator"]
    assert "deployments" in created["olm-operator"]


@in_the_long_run
def test_an_upgrade_keeps_the_scheduler_and_its_roles(installed: Installed, newer_catalog: str) -> None:
    """OLM deletes what bears the older version's name as its owner, while it still writes the newer one's objects: a
    ClusterRole with such labels is gone in some upgrades."""
    (before,) = installed.pods_of_the_scheduler()
    roles = installed.identities_of_the_roles()
    change = {"spec": {"address": newer_catalog}}
    installed.custom.patch_namespaced_custom_object(OLM, "v1alpha1", NAMESPACE, "catalogsources", "ours", change)
    eventually(lambda: installed.succeeded(NEWER), "the newer version has succeeded")
    eventually(
        lambda: not installed.status("v1alpha1", "clusterserviceversions", RELEASE.csv_name), "the older one is gone"
    )
    assert installed.ready("secondary-scheduler-operator")
    assert installed.pods_of_the_scheduler() == {before}
    installed.plan_is_complete()
    assert installed.identities_of_the_roles() == roles, "none was deleted, not even for a moment"
    assert installed.rules_of_the_scheduler() == expected_rules()


@in_the_long_run
def test_removal_leaves_the_crd_and_no_running_pod(installed: Installed) -> None:
    resources = installed.custom
    resources.delete_namespaced_custom_object(OPERATOR, "v1", NAMESPACE, "secondaryschedulers", "cluster")
    schedulers = (OPERATOR, "v1", NAMESPACE, "secondaryschedulers")
    eventually(lambda: not resources.list_namespaced_custom_object(*schedulers)["items"], "the resource is gone")
    assert installed.deployments() == {"secondary-scheduler-operator"}, "the operator took its scheduler away"
    roles = installed.identities_of_the_roles()
    for plural, name in (("subscriptions", PACKAGE), ("clusterserviceversions", NEWER.csv_name)):
        resources.delete_namespaced_custom_object(OLM, "v1alpha1", NAMESPACE, plural, name)
    eventually(lambda: not installed.deployments(), "the operator is gone")
    left = (OLM, "v1alpha1", NAMESPACE, "clusterserviceversions")
    eventually(lambda: not resources.list_namespaced_custom_object(*left)["items"], "OLM has cleaned up after it")
    assert installed.identities_of_the_roles() == roles, "OLM takes none of them for the version's, as in an upgrade"
    installed.extensions.read_custom_resource_definition("secondaryschedulers.operator.openshift.io")


@in_the_long_run
def test_leftover_roles_are_unbound_and_the_documented_command_deletes_them(
    installed: Installed,
) -> None:
    assert set(installed.identities_of_the_roles()) == set(shipped_cluster_roles())
    assert not installed.bound_roles() & set(shipped_cluster_roles())
    others = {role.metadata.name for role in installed.rbac.list_cluster_role().items} - set(shipped_cluster_roles())
    (command,) = [line.strip("`$ ") for line in DOCUMENTATION.read_text().splitlines() if "delete clusterroles" in line]
    program, *arguments = shlex.split(command)
    kubectl = ensure([program], SilentReporter())[program]
    options = ["--kubeconfig", str(installed.cluster.kubeconfig)]

    def deleted() -> bool:
        # OLM may still be writing roles of the version that it has just removed.
        subprocess.run([kubectl, *arguments, *options], check=True, capture_output=True)
        return {role.metadata.name for role in installed.rbac.list_cluster_role().items} == others

    eventually(deleted, "only roles of others are left", interval=1.0)


def test_opm_makes_the_checked_in_catalog_of_the_checked_in_bundle() -> None:
    opm = ensure(["opm"], SilentReporter())["opm"]
    checked_in = (OUTPUT / "catalog" / PACKAGE / "catalog.json").read_text()
    assert olm_bundle.catalog(opm, OUTPUT / "bundle", RELEASE) == checked_in, "run: make olm"
