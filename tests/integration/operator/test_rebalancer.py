"""The rebalancer of `spec.rebalance` under the operator's real rights: it comes, changes and goes with the field."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.catalog import REBALANCER_CLUSTER_ROLE, cluster_role_binding_name, eviction_policy_name
from scheduler.config import read_rebalancer_spec
from scheduler.kube.client import NotFound
from tests.integration.operator.rights import Rights
from tests.integration.operator.support import Api, Operator, TestKubelet
from tests.support.waiting import eventually
from tests.unit.operator.builders import CONFIG, IMAGE

pytestmark = [pytest.mark.integration]

NAME = "secondary-scheduler-rebalancer"
PREDICTIVE = {"mode": "Predictive", "minReplicas": 3}
_NAMESPACED = ("deployments", "services", "serviceaccounts", "roles", "rolebindings", "networkpolicies")
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"


@pytest.fixture(scope="module")
def rights(api: Api) -> Rights:
    """Without those that it has for the status of groups: it reads pods for that, too."""
    return Rights(api, rebalancers=True, status_of=())


@pytest.fixture(scope="module")
def operator(api: Api, operator_kubeconfig: Path) -> Iterator[Operator]:
    log = operator_kubeconfig.parent / "operator.log"
    operator = Operator(operator_kubeconfig, api.namespace, log, "--status-of", "none")
    operator.start()
    operator.wait_until_leading()
    yield operator
    assert operator.end() == 0


def create(api: Api, **spec: Any) -> None:
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    identity = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
    full = {"schedulerConfig": "config", "schedulerImage": IMAGE, **spec}
    api.create("secondaryschedulers", "cluster", **identity, spec=full)


def policy_path(api: Api, plural: str) -> str:
    return f"{_ADMISSION}/{plural}/{eviction_policy_name(api.namespace)}"


def existing(api: Api) -> set[str]:
    """Kinds of the rebalancer's objects that there are."""
    present = {resource for resource in _NAMESPACED if api.get(resource, NAME) is not None}
    if api.get("configmaps", f"{NAME}-settings") is not None:
        present.add("configmaps")
    for plural in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
        with contextlib.suppress(NotFound):
            api.call("GET", policy_path(api, plural))
            present.add(plural)
    if cluster_role_binding_name(REBALANCER_CLUSTER_ROLE, api.namespace) in api.cluster_role_bindings():
        present.add("clusterrolebindings")
    return present


ALL = {
    *_NAMESPACED,
    *("configmaps", "clusterrolebindings", "validatingadmissionpolicies", "validatingadmissionpolicybindings"),
}


def test_it_comes_changes_and_goes_with_its_field(
    api: Api, operator: Operator, kubelet: TestKubelet, clean: None
) -> None:
    create(api, rebalance=PREDICTIVE)
    api.wait_for("RebalancerReady", "True")
    assert existing(api) == ALL
    status = api.get("secondaryschedulers", "cluster")["status"]
    assert status["rebalancer"] == {"mode": "Predictive", "settingsHash": read_rebalancer_spec(PREDICTIVE).hash}
    policy = api.call("GET", policy_path(api, "validatingadmissionpolicies"))["spec"]
    assert f"system:serviceaccount:{api.namespace}:{NAME}" in policy["matchConditions"][0]["expression"]
    generation = api.get("deployments", "secondary-scheduler")["metadata"]["generation"]

    changed = {"mode": "Automatic", "minReplicas": 4}
    api.patch("secondaryschedulers", "cluster", {"spec": {"rebalance": changed}})

    def in_effect() -> bool:
        now = api.get("secondaryschedulers", "cluster")["status"]["rebalancer"]
        return bool(now.get("settingsHash") == read_rebalancer_spec(changed).hash)

    eventually(in_effect, "the change is in effect")
    settings = json.loads(api.get("configmaps", f"{NAME}-settings")["data"]["rebalance.yaml"])
    assert settings == {"minReplicas": 4}
    (container,) = api.get("deployments", NAME)["spec"]["template"]["spec"]["containers"]
    assert "--mode=Automatic" in container["args"]

    api.patch("secondaryschedulers", "cluster", {"spec": {"rebalance": None}})
    eventually(lambda: not existing(api), "all of it gone", diagnosis=lambda: existing(api))
    eventually(lambda: not api.condition("RebalancerReady"), "nothing more is said of it")
    assert "rebalancer" not in api.get("secondaryschedulers", "cluster")["status"]
    assert api.get("deployments", "secondary-scheduler")["metadata"]["generation"] == generation
    assert api.condition("Available")["status"] == "True"


def test_without_the_field_nothing_is_made(api: Api, operator: Operator, kubelet: TestKubelet, clean: None) -> None:
    create(api)
    api.wait_for("Available", "True")
    api.wait_for("Progressing", "False")
    assert existing(api) == set()
    assert not api.condition("RebalancerReady")


def test_what_others_change_or_delete_comes_back(
    api: Api, operator: Operator, kubelet: TestKubelet, clean: None
) -> None:
    create(api, rebalance=PREDICTIVE)
    api.wait_for("RebalancerReady", "True")
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        api.call("DELETE", policy_path(api, plural))
    api.delete("roles", NAME)
    api.patch("configmaps", f"{NAME}-settings", {"data": {"rebalance.yaml": '{"minReplicas": 1}'}})
    eventually(lambda: existing(api) == ALL, "all of it back", diagnosis=lambda: existing(api))

    def restored() -> bool:
        text = api.get("configmaps", f"{NAME}-settings")["data"]["rebalance.yaml"]
        return bool(json.loads(text) == {"minReplicas": 3})

    eventually(restored, "the settings are back")


def test_it_goes_with_the_instance(api: Api, operator: Operator, kubelet: TestKubelet, clean: None) -> None:
    create(api, rebalance=PREDICTIVE)
    api.wait_for("RebalancerReady", "True")
    api.create("configmaps", NAME, data={"status.json": "{}"})
    api.delete("secondaryschedulers", "cluster")
    eventually(lambda: api.get("secondaryschedulers", "cluster") is None, "instance gone")
    eventually(lambda: not existing(api), "all of it gone", diagnosis=lambda: existing(api))
    assert api.get("configmaps", NAME) is None


def test_the_one_of_a_stack_goes_first(api: Api, operator: Operator, kubelet: TestKubelet, clean: None) -> None:
    labels = {"app": NAME}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "rebalancer", "image": IMAGE}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    api.create("deployments", NAME, apiVersion="apps/v1", kind="Deployment", spec=spec)
    api.create("serviceaccounts", NAME)
    theirs = {resource: api.get(resource, NAME)["metadata"]["uid"] for resource in ("deployments", "serviceaccounts")}
    create(api, rebalance=PREDICTIVE)
    api.wait_for("RebalancerReady", "False", "HandingOver")
    assert {resource: api.get(resource, NAME)["metadata"]["uid"] for resource in theirs} == theirs
    for resource in theirs:
        api.delete(resource, NAME)
    api.wait_for("RebalancerReady", "True")
    assert existing(api) == ALL


def test_a_setting_that_the_schema_cannot_judge_is_reported(
    api: Api, operator: Operator, kubelet: TestKubelet, clean: None
) -> None:
    create(api, rebalance={**PREDICTIVE, "podSelector": {"matchLabels": {"not a label": "x"}}})
    condition = api.wait_for("RebalancerReady", "False", "SettingsInvalid")
    assert "spec.rebalance.podSelector" in condition["message"]
    api.wait_for("Available", "True")
    assert existing(api) == set()
