"""What somebody changed by hand is named with its manager and the command that puts it back."""

from __future__ import annotations

import json
import shlex
from copy import deepcopy
from typing import Any

import pytest

from components.drift import FORCED_TYPES
from scheduler.kube.client.errors import api_error
from secondary_scheduler.cli.fleet import drift
from secondary_scheduler.cli.fleet.drift import DriftCheck, StackObject, drift_of, objects_of
from secondary_scheduler.cli.fleet.results import Drift, DriftKind
from tests.support.pages import CHECKOUT

OURS = "pulumi-kubernetes-1234abcd"
ROLE: dict[str, Any] = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "secondary-scheduler:base", "labels": {"of": "us"}},
    "rules": [
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    ],
}
CONTAINER: dict[str, Any] = {
    "name": "operator",
    "image": "example.com/operator:1",
    "env": [{"name": "NAME", "value": "1"}],
    "resources": {"requests": {"cpu": "0.1"}},
}
DEPLOYMENT: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "operator", "namespace": "n"},
    "spec": {"replicas": 1, "hostNetwork": False, "template": {"spec": {"containers": [CONTAINER]}}},
}
RESOURCES = {"ClusterRole": "clusterroles.rbac.authorization.k8s.io", "Deployment": "deployments.apps"}


def entry(manager: str, fields: Any, operation: str = "Update", **more: Any) -> dict[str, Any]:
    return {"manager": manager, "operation": operation, "fieldsV1": fields, "time": "2026-11-22T10:00:00Z", **more}


def live_of(inputs: dict[str, Any], *entries: dict[str, Any]) -> dict[str, Any]:
    live = deepcopy(inputs)
    live["metadata"]["managedFields"] = [entry(OURS, {"f:rules": {}, "f:spec": {"f:replicas": {}}}, "Apply"), *entries]
    return live


def found(inputs: dict[str, Any], live: dict[str, Any] | None) -> list[Drift]:
    return drift_of("prod", StackObject(inputs, OURS, RESOURCES[inputs["kind"]]), live)


def patch_of(drift: Drift) -> list[dict[str, Any]]:
    words = shlex.split(drift.repair)
    assert words[0] == "kubectl"
    operations: list[dict[str, Any]] = json.loads(words[words.index("-p") + 1])
    return operations


def test_an_object_that_is_as_the_stack_left_it_has_not_drifted() -> None:
    live = live_of(DEPLOYMENT)
    del live["spec"]["hostNetwork"]
    container = live["spec"]["template"]["spec"]["containers"][0]
    container |= {"resources": {"requests": {"cpu": "100m"}}, "terminationMessagePath": "/dev/termination-log"}
    live["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "1"}
    assert found(DEPLOYMENT, live) == []
    assert found(ROLE, live_of(ROLE)) == []


def test_an_appended_rule_is_found_and_taken_off_by_the_command() -> None:
    extra = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
    live = live_of(ROLE, entry("kubectl-patch", {"f:rules": {}}))
    live["rules"].append(extra)
    (only,) = found(ROLE, live)
    assert (only.object, only.change, only.manager) == (
        "ClusterRole secondary-scheduler:base",
        DriftKind.ADDED,
        "kubectl-patch",
    )
    assert only.field == f"rules[2] {json.dumps(extra)}"
    assert patch_of(only) == [
        {"op": "test", "path": "/rules/2", "value": extra},
        {"op": "remove", "path": "/rules/2"},
    ]
    assert only.repair.startswith("kubectl patch clusterroles.rbac.authorization.k8s.io secondary-scheduler:base ")


def test_a_verb_that_was_added_to_a_rule_is_found() -> None:
    live = live_of(ROLE, entry("Mozilla", {"f:rules": {}}))
    live["rules"][0]["verbs"].append("delete")
    (only,) = found(ROLE, live)
    assert (only.field, only.manager) == ('rules[0].verbs[2] "delete"', "Mozilla")
    assert patch_of(only)[-1] == {"op": "remove", "path": "/rules/0/verbs/2"}


def test_a_rule_that_was_put_in_front_moves_no_other() -> None:
    live = live_of(ROLE)
    live["rules"].insert(0, {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})
    (only,) = found(ROLE, live)
    assert patch_of(only)[-1] == {"op": "remove", "path": "/rules/0"}


def test_an_appended_variable_is_named_without_its_value() -> None:
    live = live_of(DEPLOYMENT)
    variables = live["spec"]["template"]["spec"]["containers"][0]["env"]
    variables += [{"name": "TOKEN", "value": "canary-31415"}, {"name": "LOG", "value": "2"}]
    first, second = found(DEPLOYMENT, live)
    assert first.field == "spec.template.spec.containers[operator].env[TOKEN]"
    assert second.field.endswith("env[LOG]")
    assert "canary" not in first.line() + second.line()
    assert [(each["op"], each["path"].rpartition("/env/")[2]) for each in patch_of(first)] == [
        ("test", "2/name"),
        ("remove", "2"),
        ("test", "1/name"),
        ("remove", "1"),
    ], "one command for the object, from the end of the list"
    assert first.repair == second.repair


@pytest.mark.parametrize(
    ("manager", "more", "repair"),
    [
        ("kubectl-patch", {}, "pulumi up --stack prod --refresh --yes --skip-preview"),
        ("kubectl", {"operation": "Apply"}, "pulumi up --stack prod --refresh --yes --skip-preview"),
        ("Mozilla", {}, ""),
        ("kubectl", {"subresource": "scale"}, ""),
        ("argocd-controller", {"operation": "Apply"}, ""),
    ],
)
def test_who_changed_a_deployment_decides_what_puts_it_back(manager: str, more: dict[str, Any], repair: str) -> None:
    live = live_of(DEPLOYMENT, {**entry(manager, {"f:spec": {"f:replicas": {}}}), **more})
    live["spec"]["replicas"] = 3
    (only,) = found(DEPLOYMENT, live)
    assert (only.object, only.field, only.change) == ("Deployment n/operator", "spec.replicas", DriftKind.CHANGED)
    assert only.manager.startswith(manager)
    if repair:
        assert only.repair == repair
    else:
        assert only.repair.startswith("kubectl -n n patch deployments.apps operator --type json -p ")
        assert patch_of(only) == [{"op": "replace", "path": "/spec/replicas", "value": 1}]


@pytest.mark.parametrize("manager", ["kubectl-edit", "Mozilla", "argocd-controller"])
def test_a_changed_rule_is_force_conflicts_by_an_ordinary_update_whoever_changed_it(manager: str) -> None:
    live = live_of(ROLE, entry(manager, {"f:rules": {}}))
    live["rules"][1]["verbs"] = ["delete"]
    (only,) = found(ROLE, live)
    assert (only.field, only.manager) == ("rules[1].verbs[0]", manager)
    assert only.repair == "pulumi up --stack prod --refresh"


def test_fields_and_objects_that_are_gone_are_named() -> None:
    live = live_of(DEPLOYMENT)
    del live["spec"]["template"]["spec"]["containers"][0]["env"]
    (only,) = found(DEPLOYMENT, live)
    assert (only.change, only.field) == (DriftKind.REMOVED, "spec.template.spec.containers[operator].env")
    assert patch_of(only)[0]["op"] == "add"
    (gone,) = found(ROLE, None)
    assert (gone.field, gone.change, gone.repair) == ("", DriftKind.DELETED, "pulumi up --stack prod --refresh")


def test_labels_count_and_the_servers_own_fields_do_not() -> None:
    live = live_of(ROLE)
    live["metadata"] |= {"uid": "u", "labels": {"of": "them", "more": "x"}}
    assert [each.field for each in found(ROLE, live)] == ["metadata.labels.of"]


def test_secret_values_are_neither_compared_nor_shown() -> None:
    mark = {"4dabf18193072939515e22adb298388d": "1b47061264138c4ac30d75fd1eb44270", "ciphertext": "v1:x"}
    inputs = deepcopy(DEPLOYMENT)
    inputs["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"] = mark
    live = live_of(DEPLOYMENT)
    assert found(inputs, live) == []


def test_the_objects_that_are_force_conflicts_are_those_of_the_program() -> None:
    kinds = {f"kubernetes:{group or 'core'}/v1:{kind}" for group, kind in drift._FORCED}
    assert kinds == FORCED_TYPES


@pytest.mark.parametrize("mode", ["manifests", "direct", "catalog", "olm", "none-upstream"])
def test_objects_that_a_server_has_completed_have_not_drifted(mode: str) -> None:
    state = json.loads((CHECKOUT / "tests/data/stacks-e845042" / f"{mode}.json").read_text())
    compared = 0
    for inputs, manager in objects_of(state["deployment"]["resources"]):
        live = next(each["outputs"] for each in state["deployment"]["resources"] if each.get("inputs") is inputs)
        assert drift_of("prod", StackObject(inputs, manager, "things"), live) == [], inputs["metadata"]["name"]
        compared += 1
    assert compared > 5


class Cluster:
    """Answers for the paths that it has."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self._answers = answers

    def get(self, path: str) -> bytes:
        if path not in self._answers:
            raise api_error("GET", path, 404, b"{}")
        return json.dumps(self._answers[path]).encode()


def test_the_check_reads_each_object_of_the_state_where_the_server_has_it() -> None:
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    kinds = [
        {"kind": "ClusterRole", "name": "clusterroles", "namespaced": False},
        {"kind": "Role", "name": "roles", "namespaced": True},
    ]
    live = live_of(ROLE, entry("Mozilla", {"f:rules": {}}))
    live["rules"][1]["verbs"] = ["delete"]
    role = {**ROLE, "kind": "Role", "metadata": {"name": "r", "namespace": "n"}}
    state = [
        {"type": "pulumi:pulumi:Stack", "inputs": {}},
        {"type": "kubernetes:rbac.authorization.k8s.io/v1:ClusterRole", "inputs": ROLE, "outputs": {}},
        {"type": "kubernetes:rbac.authorization.k8s.io/v1:Role", "inputs": role, "outputs": {}},
        {"type": "kubernetes:rbac.authorization.k8s.io/v1:Role", "inputs": role, "outputs": {}, "delete": True},
        {"type": "kubernetes:apps/v1:Deployment", "inputs": DEPLOYMENT, "outputs": {}},
    ]
    cluster = Cluster({rbac: {"resources": kinds}, f"{rbac}/clusterroles/secondary-scheduler:base": live})
    drift, problems = DriftCheck("prod", cluster).run(state)  # type: ignore[arg-type]  # a fake
    assert problems == []
    assert [(each.object, each.change) for each in drift] == [
        ("ClusterRole secondary-scheduler:base", DriftKind.CHANGED),
        ("Role n/r", DriftKind.DELETED),
        ("Deployment n/operator", DriftKind.DELETED),
    ]
