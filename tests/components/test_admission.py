"""The admission policies: which repositories they name, and in which install modes they exist."""

from __future__ import annotations

import json

import pytest

from components.admission import BINDINGS_POLICY, IMAGES_POLICY, bindings_policy, images_policy, repository_of
from tests.components.graph import STATUS, Graph, run_program, stack_values


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("quay.io/team/scheduler:1", "quay.io/team/scheduler"),
        ("quay.io/team/scheduler@sha256:0", "quay.io/team/scheduler"),
        ("host:5000/scheduler:1@sha256:0", "host:5000/scheduler"),
        ("host:5000/scheduler", "host:5000/scheduler"),
        ("scheduler:1", "scheduler"),
    ],
)
def test_a_repository_is_an_image_without_tag_and_digest(image: str, repository: str) -> None:
    assert repository_of(image) == repository


def test_a_quote_in_a_repository_stays_text() -> None:
    (image, *_) = images_policy(['a"]) || true'])["validations"]
    assert json.dumps(['a"]) || true']) in image["expression"]


def test_the_operator_may_bind_the_schedulers_of_its_instances_only() -> None:
    (subjects, _) = bindings_policy("ns", "operator", [("ns", "cluster"), ("team", "gpu")])["validations"]
    assert '["ns/secondary-scheduler", "team/secondary-scheduler-gpu"]' in subjects["expression"]


@pytest.mark.parametrize(
    ("mode", "policies"),
    [("manifests", {IMAGES_POLICY, BINDINGS_POLICY}), ("direct", set()), ("none", set())],
)
def test_policies_come_with_an_operator(mode: str, policies: set[str], local_environment: None) -> None:
    graph = run_program({**stack_values("local"), "installMode": mode}, preview=False, statuses=STATUS)
    assert {each.object_name for each in graph.of("ValidatingAdmissionPolicy")} == policies
    assert {each.manifest["spec"]["policyName"] for each in graph.of("ValidatingAdmissionPolicyBinding")} == policies


def test_the_operator_reaches_dns_the_api_server_and_the_ports_of_the_stack(local_environment: None) -> None:
    values = {**stack_values("local"), "egressPorts": "[7443]"}
    policy = run_program(values, preview=False, statuses=STATUS).only("NetworkPolicy")
    assert policy.object_name == "secondary-scheduler-operator"
    spec = policy.manifest["spec"]
    assert spec["podSelector"] == {"matchLabels": {"name": "secondary-scheduler-operator"}}
    ports = {port["port"] for rule in spec["egress"] for port in rule["ports"]}
    assert ports == {53, 5353, 443, 6443, 8443, 16443, 7443}


@pytest.mark.parametrize("mode", ["manifests", "direct"])
def test_scheduler_and_operator_admit_the_namespaces_of_the_stack(mode: str, local_environment: None) -> None:
    values = {**stack_values("local"), "installMode": mode}
    named = {**values, "scrapeNamespaces": '["ops", "monitoring"]'}
    graph = run_program(named, preview=False, statuses=STATUS)
    rule, *of_replicas = graph.only("NetworkPolicy").manifest["spec"]["ingress"]
    assert len(of_replicas) == (mode == "direct"), "schedulers reach each other, and operators need not"
    (peer,) = rule["from"]
    (expression,) = peer["namespaceSelector"]["matchExpressions"]
    assert expression == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["monitoring", "ops"]}
    if mode == "manifests":
        assert graph.only("SecondaryScheduler").manifest["spec"]["scrapeNamespaces"] == ["monitoring", "ops"]
    graph = run_program(values, preview=False, statuses=STATUS)
    (rule,) = graph.only("NetworkPolicy").manifest["spec"]["ingress"]
    assert "from" not in rule
    assert "scrapeNamespaces" not in json.dumps([each.manifest for each in graph.of("SecondaryScheduler")])


def test_the_operator_reads_the_secrets_that_schedulers_mount_and_no_others(local_environment: None) -> None:
    usual = {"secondary-scheduler-serving-cert", "secondary-scheduler-metrics"}
    graph = run_program(stack_values("local"), preview=False, statuses=STATUS)
    assert secrets_that_are_read(graph) == [usual]
    assert "--secrets" not in json.dumps(graph.only("Deployment").manifest)
    others = {"operator": json.dumps({"instances": [{"namespace": "team-a", "name": "gpu"}]})}
    graph = run_program({**stack_values("local"), **others}, preview=False, statuses=STATUS)
    wanted = usual | {"secondary-scheduler-gpu-serving-cert", "secondary-scheduler-gpu-metrics"}
    assert secrets_that_are_read(graph) == [wanted, wanted]
    (container,) = graph.only("Deployment").manifest["spec"]["template"]["spec"]["containers"]
    assert f"--secrets={','.join(sorted(wanted))}" in container["args"]


def secrets_that_are_read(graph: Graph) -> list[set[str]]:
    """In each namespace of the operator's."""
    rules = [rule for role in graph.of("Role") for rule in role.manifest["rules"]]
    return [set(rule["resourceNames"]) for rule in rules if rule["resources"] == ["secrets"]]


def test_resources_reach_the_scheduler_with_and_without_an_operator(local_environment: None) -> None:
    wanted = {"limits": {"memory": "4Gi"}}
    values = {**stack_values("local"), "resources": json.dumps(wanted)}
    resource = run_program(values, preview=False, statuses=STATUS).only("SecondaryScheduler").manifest
    assert resource["spec"]["resources"] == wanted
    direct = (
        run_program({**values, "installMode": "direct"}, preview=False, statuses=STATUS).only("Deployment").manifest
    )
    assert direct["spec"]["template"]["spec"]["containers"][0]["resources"] == wanted


def test_a_stack_adds_repositories_or_leaves_the_policies_out(local_environment: None) -> None:
    values = {**stack_values("local"), "allowedImages": '["quay.io/team/other"]'}
    (policy,) = [
        each
        for each in run_program(values, preview=False, statuses=STATUS).of("ValidatingAdmissionPolicy")
        if each.object_name == IMAGES_POLICY
    ]
    assert "localhost/secondary-scheduler/kube-scheduler, quay.io/team/other" in json.dumps(policy.manifest)
    without = {**stack_values("local"), "optionalObjects": '{"admissionPolicies": false}'}
    assert not run_program(without, preview=False, statuses=STATUS).of("ValidatingAdmissionPolicy")
