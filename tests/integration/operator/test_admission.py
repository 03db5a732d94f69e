"""The shipped admission policies on a real API server: what somebody who may edit SecondarySchedulers cannot make the
operator run, and what the operator's ServiceAccount cannot bind."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.admission import BINDINGS_POLICY, IMAGES_POLICY, bindings_policy, images_policy
from scheduler.catalog import REBALANCER_CLUSTER_ROLE, cluster_role_binding_name
from scheduler.kube.client import Forbidden, KubeError
from tests.integration.operator.rights import Rights
from tests.integration.operator.support import Api
from tests.support.waiting import eventually

pytestmark = [pytest.mark.integration]

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
ALLOWED = "quay.io/team/scheduler"
REFUSED = (
    "clusterrolebindings",
    "deployments",
    "roles",
    "rolebindings",
    "serviceaccounts",
    "services",
    "networkpolicies",
)


def enforce(api: Api, name: str, spec: dict[str, Any]) -> None:
    """In this namespace only, as far as it has one: other modules share the API server."""
    metadata = {"metadata": {"name": name}}
    api.call("POST", f"{ADMISSION}/validatingadmissionpolicies", {**metadata, "spec": spec})
    selector = {"matchLabels": {"kubernetes.io/metadata.name": api.namespace}}
    scope = {"matchResources": {"namespaceSelector": selector}} if name == IMAGES_POLICY else {}
    binding = {"policyName": name, "validationActions": ["Deny"], **scope}
    api.call("POST", f"{ADMISSION}/validatingadmissionpolicybindings", {**metadata, "spec": binding})


def as_account(control_plane: Any, api: Api, account: str, directory: Path) -> Path:
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    answer = api.call("POST", api.path("serviceaccounts", account) + "/token", request)
    config = yaml.safe_load(Path(control_plane.kubeconfig).read_text())
    for user in config["users"]:
        user["user"] = {"token": answer["status"]["token"]}
    path = directory / account
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="module")
def policies(api: Api) -> Iterator[None]:
    specs = {
        IMAGES_POLICY: images_policy([f"{ALLOWED}:1"]),
        BINDINGS_POLICY: bindings_policy(api.namespace, "secondary-scheduler-operator", [(api.namespace, "cluster")]),
    }
    for name, spec in specs.items():
        enforce(api, name, spec)
    yield
    for name in specs:
        for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
            api.call("DELETE", f"{ADMISSION}/{plural}/{name}")


@pytest.fixture(scope="module")
def author(api: Api, control_plane: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """Somebody who may edit SecondarySchedulers and nothing else."""
    api.create("serviceaccounts", "author")
    rule = {"apiGroups": ["operator.openshift.io"], "resources": ["secondaryschedulers"], "verbs": ["*"]}
    api.create("roles", "author", rules=[rule])
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "author"}
    subject = {"kind": "ServiceAccount", "name": "author", "namespace": api.namespace}
    api.create("rolebindings", "author", roleRef=reference, subjects=[subject])
    with contextlib.closing(
        Api(as_account(control_plane, api, "author", tmp_path_factory.mktemp("author")), api.namespace)
    ) as author:
        yield author


def instance(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "operator.openshift.io/v1",
        "kind": "SecondaryScheduler",
        "metadata": {"name": "cluster"},
        "spec": {"managementState": "Managed", "schedulerConfig": "c", "schedulerImage": f"{ALLOWED}:2", **spec},
    }


def refusal(api: Api, body: dict[str, Any]) -> str:
    """Why an instance is refused; "" when it is not. Nothing is stored."""
    try:
        api.call("POST", api.path("secondaryschedulers") + "?dryRun=All", body)
    except KubeError as error:
        return str(error)
    return ""


HOSTILE = [
    ({"schedulerImage": "evil.example.com/scheduler:1"}, "spec.schedulerImage: is of no allowed repository"),
    ({"schedulerImage": f"{ALLOWED}-evil:1"}, "spec.schedulerImage: is of no allowed repository"),
    ({"schedulerImage": f"{ALLOWED}:5000/evil"}, "spec.schedulerImage: is of no allowed repository"),
    ({"command": ["/bin/sh", "-c", "cat /var/run/secrets/kubernetes.io/serviceaccount/token"]}, "spec.command: may be"),
    ({"env": [{"name": "PYTHONPATH", "value": "/etc/kubernetes"}]}, "spec.env: may be"),
    (
        {"metricCredentials": {"serviceAccount": {}, "address": "https://evil.example.com"}},
        "spec.metricCredentials.serviceAccount: without an audience",
    ),
    ({"rebalance": {"mode": "Automatic"}}, "spec.rebalance: may be set only by who may create pods/eviction"),
    ({"rebalance": {"mode": "Predictive"}}, "spec.rebalance: may be set only by who may create pods/eviction"),
    ({"rebalance": {"mode": "Off", "image": "evil.example.com/x:1"}}, "spec.rebalance.image: is of no allowed"),
    ({"extraArgs": ["--master=https://evil.example.com"]}, "spec.extraArgs: flags other than"),
    ({"extraArgs": ["--authorization-always-allow-paths=/metrics"]}, "spec.extraArgs: flags other than"),
]
HARMLESS: list[dict[str, Any]] = [
    {},
    {"metricCredentials": {"serviceAccount": {"audience": "prometheus"}, "address": "https://prometheus"}},
    {"metricCredentials": {"secretName": "token"}},
    {"rebalance": {"mode": "Off", "image": f"{ALLOWED}:2", "minReplicas": 3}},
    {"schedulerImage": ALLOWED},
    {"schedulerImage": f"{ALLOWED}@sha256:{'0' * 64}"},
    {"command": ["/bin/kube-scheduler"], "extraArgs": ["-v=4", "--logging-format=json"]},
]


@pytest.fixture(scope="module")
def enforced(author: Api, policies: None) -> None:
    """API servers take up a new policy after a while."""
    eventually(lambda: refusal(author, instance(schedulerImage="evil.example.com/x:1")), "the policy is enforced")


@pytest.mark.parametrize(("spec", "reason"), HOSTILE)
def test_who_may_edit_instances_runs_no_image_command_or_flag_of_his_own(
    author: Api, enforced: None, spec: dict[str, Any], reason: str
) -> None:
    assert reason in refusal(author, instance(**spec))


@pytest.mark.parametrize("spec", HARMLESS)
def test_allowed_repositories_and_harmless_flags_pass(author: Api, enforced: None, spec: dict[str, Any]) -> None:
    assert refusal(author, instance(**spec)) == ""


def test_who_may_evict_everywhere_may_have_the_operator_evict(
    api: Api, control_plane: Any, enforced: None, tmp_path: Path
) -> None:
    evictor = f"evictor-{api.namespace}"
    api.create("serviceaccounts", "evictor")
    rules = [
        {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
        {"apiGroups": ["operator.openshift.io"], "resources": ["secondaryschedulers"], "verbs": ["*"]},
    ]
    subject = {"kind": "ServiceAccount", "name": "evictor", "namespace": api.namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": evictor}
    metadata = {"metadata": {"name": evictor}}
    api.call("POST", f"{RBAC}/clusterroles", {**metadata, "rules": rules})
    api.call("POST", f"{RBAC}/clusterrolebindings", {**metadata, "roleRef": reference, "subjects": [subject]})
    try:
        with contextlib.closing(Api(as_account(control_plane, api, "evictor", tmp_path), api.namespace)) as account:
            body = instance(rebalance={"mode": "Automatic"})
            eventually(
                lambda: refusal(account, body) == "", "its rights hold", diagnosis=lambda: refusal(account, body)
            )
            assert "no allowed repository" in refusal(account, instance(rebalance={"mode": "Off", "image": "evil/x:1"}))
    finally:
        for plural in ("clusterrolebindings", "clusterroles"):
            api.call("DELETE", f"{RBAC}/{plural}/{evictor}")


def test_a_rebalancer_that_is_there_is_not_changed_by_who_may_not_evict(api: Api, author: Api, enforced: None) -> None:
    api.call("POST", api.path("secondaryschedulers"), instance(rebalance={"mode": "Predictive"}))
    author.patch("secondaryschedulers", "cluster", {"spec": {"logLevel": "Debug"}})
    with pytest.raises(KubeError, match=r"spec\.rebalance: may be set only by"):
        author.patch("secondaryschedulers", "cluster", {"spec": {"rebalance": {"mode": "Automatic"}}})
    # Taking it away needs no right.
    author.patch("secondaryschedulers", "cluster", {"spec": {"rebalance": None}})
    author.delete("secondaryschedulers", "cluster")


def test_who_may_change_the_policy_is_not_bound_by_it(api: Api, author: Api, enforced: None) -> None:
    body = instance(schedulerImage="quay.io/moved/scheduler:1", env=[{"name": "A", "value": "b"}])
    api.call("POST", api.path("secondaryschedulers"), body)
    # What stays as it was is not judged again: others may still change the rest, and delete the instance.
    author.patch("secondaryschedulers", "cluster", {"spec": {"logLevel": "Debug"}})
    with pytest.raises(KubeError, match=r"spec\.schedulerImage: is of no allowed repository"):
        author.patch("secondaryschedulers", "cluster", {"spec": {"schedulerImage": "evil.example.com/x:1"}})
    author.delete("secondaryschedulers", "cluster")
    assert api.get("secondaryschedulers", "cluster") is None


def test_the_operators_account_binds_nobody_but_its_schedulers(
    api: Api, rights: Rights, operator_kubeconfig: Path, policies: None
) -> None:
    """Under its RBAC it may bind these roles: only the policy says to whom."""
    with contextlib.closing(Api(operator_kubeconfig, api.namespace)) as stolen:

        def bind(role: str = "secondary-scheduler:base", **subject: str) -> None:
            name = cluster_role_binding_name(role, api.namespace)
            path = f"{RBAC}/clusterrolebindings/{name}?fieldManager=thief&force=true&dryRun=All"
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
            body = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": reference,
                "subjects": [subject],
            }
            stolen.call("PATCH", path, body, "application/apply-patch+yaml")

        def refused() -> bool:
            with contextlib.suppress(Forbidden):
                bind(kind="ServiceAccount", name="default", namespace=api.namespace)
                return False
            return True

        eventually(refused, "the policy is enforced")
        bind(kind="ServiceAccount", name="secondary-scheduler", namespace=api.namespace)
        for subject in (
            {"kind": "User", "name": "mallory", "apiGroup": "rbac.authorization.k8s.io"},
            {"kind": "Group", "name": "system:authenticated", "apiGroup": "rbac.authorization.k8s.io"},
            {"kind": "ServiceAccount", "name": "secondary-scheduler", "namespace": "kube-system"},
        ):
            with pytest.raises(Forbidden, match="the operator binds only the ServiceAccounts"):
                bind(**subject)
        rebalancer = {"kind": "ServiceAccount", "name": "secondary-scheduler-rebalancer", "namespace": api.namespace}
        bind(REBALANCER_CLUSTER_ROLE, **rebalancer)
        with pytest.raises(Forbidden, match="the operator binds only the ServiceAccounts"):
            bind(**rebalancer)
        with pytest.raises(Forbidden, match="the operator binds only the ServiceAccounts"):
            bind(REBALANCER_CLUSTER_ROLE, kind="ServiceAccount", name="secondary-scheduler", namespace=api.namespace)


@pytest.fixture(scope="module")
def rights(api: Api) -> Rights:
    return Rights(api, rebalancers=True)


def test_the_operators_account_writes_only_objects_of_its_schedulers(api: Api, operator_kubeconfig: Path) -> None:
    """By name: a namespace has other Deployments, Roles and ServiceAccounts too."""
    with contextlib.closing(Api(operator_kubeconfig, api.namespace)) as stolen:
        for resource in ("deployments", "roles", "rolebindings", "serviceaccounts", "services", "networkpolicies"):
            with pytest.raises(Forbidden):
                stolen.create(resource, "not-mine")
