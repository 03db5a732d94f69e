"""A rebalancer of the stack: the objects that the installation registers for it, its rights, and what is refused."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest
import yaml

import components
from scheduler.config import read_rebalance_settings
from secondary_scheduler.rebalancer.options import parse_options
from secondary_scheduler.rebalancer.status import Mode
from tests.components.graph import STATUS, Graph, Registered, register

IMAGE = "registry.example.com/secondary-scheduler/kube-scheduler:0.1.0"
NAME = "secondary-scheduler-rebalancer"
SETTINGS: dict[str, Any] = {
    "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 5}]}},
    "metricProvider": {"type": "Prometheus", "address": "https://prometheus.monitoring:9090"},
}
PREDICTIVE = {"mode": "Predictive", "evictionLimits": {"total": 3}}


def installed(rebalance: dict[str, Any], token: str = "", **options: Any) -> Graph:
    def program() -> None:
        args = components.SchedulerInstallationArgs(
            **{
                "image": IMAGE,
                "settings": SETTINGS,
                "operator_image": IMAGE,
                "rebalance": rebalance,
                "metric_access": components.MetricAccess(pulumi.Output.secret(token) if token else None),
                **options,
            }
        )
        components.SchedulerInstallation("mine", args)

    return register(program, config={}, preview=True, statuses=STATUS)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return installed(PREDICTIVE)


def named(graph: Graph, kind: str, name: str = NAME) -> Registered:
    (resource,) = [each for each in graph.of(kind) if each.object_name == name]
    return resource


def pod_of(graph: Graph) -> dict[str, Any]:
    spec: dict[str, Any] = named(graph, "Deployment").manifest["spec"]["template"]["spec"]
    return spec


@pytest.mark.parametrize("setting", [{}, {"mode": "Off"}])
def test_nothing_is_made_by_default(setting: dict[str, Any]) -> None:
    graph = installed(setting)
    assert not [each for each in graph.resources if "rebalancer" in f"{each.type} {each.name}".lower()]
    assert not [each for each in graph.objects if "pods/eviction" in str(each.manifest)]


@pytest.mark.parametrize("mode", ["manifests", "direct"])
def test_it_starts_after_the_scheduler_and_goes_before_it(mode: str) -> None:
    graph = installed(PREDICTIVE, mode=mode)
    (scheduler,) = graph.of("SecondaryScheduler") or [
        each for each in graph.of("Deployment") if each.object_name == "secondary-scheduler"
    ]
    deployment = named(graph, "Deployment")
    assert scheduler.urn in graph.before(deployment)
    for kind in ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "NetworkPolicy"):
        assert named(graph, kind).urn in graph.before(deployment)


def test_its_flags_are_those_that_the_program_takes(graph: Graph) -> None:
    (container,) = pod_of(graph)["containers"]
    assert container["image"] == IMAGE
    assert container["command"] == ["/bin/rebalancer"]
    options = parse_options(container["args"], {})
    assert (options.mode, options.name) == (Mode.PREDICTIVE, NAME)
    assert options.scheduler == ("$(POD_NAMESPACE)", "secondary-scheduler")
    assert {entry["name"] for entry in container["env"]} == {"POD_NAMESPACE", "POD_NAME", "POD_IP"}
    settings = named(graph, "ConfigMap", f"{NAME}-settings").manifest["data"]["rebalance.yaml"]
    assert read_rebalance_settings(yaml.safe_load(settings)).eviction_limits.total == 3


def test_it_mounts_the_schedulers_own_configuration(graph: Graph) -> None:
    (name,) = [
        each.object_name
        for each in graph.of("ConfigMap")
        if str(each.object_name).startswith("secondary-scheduler-config")
    ]
    volumes = {each["name"]: each for each in pod_of(graph)["volumes"]}
    assert volumes["etckubernetes"]["configMap"]["name"] == name


def test_it_may_read_and_evict_and_neither_bind_nor_delete(graph: Graph) -> None:
    rules = named(graph, "ClusterRole").manifest["rules"]
    granted = {(resource, verb) for rule in rules for resource in rule.get("resources", ()) for verb in rule["verbs"]}
    writes = {(resource, verb) for resource, verb in granted if verb not in ("get", "list", "watch")}
    assert writes == {
        ("pods/eviction", "create"),
        ("events", "create"),
        ("events", "patch"),
        ("tokenreviews", "create"),
        ("subjectaccessreviews", "create"),
    }
    assert {
        ("pods", "watch"),
        ("nodes", "watch"),
        ("poddisruptionbudgets", "watch"),
        ("deployments", "watch"),
    } <= granted
    assert ("secrets", "get") not in granted
    role = named(graph, "Role").manifest["rules"]
    for rule in role:
        if rule["resources"] in (["configmaps"], ["leases"]) and rule["verbs"] != ["create"]:
            assert rule["resourceNames"] in ([NAME], ["secondary-scheduler"])
    others = [each for each in graph.of("ClusterRoleBinding") if each.object_name != NAME]
    assert not [each for each in others if NAME in str(each.manifest)]


def test_the_api_server_refuses_its_evictions_of_other_schedulers_pods(graph: Graph) -> None:
    (policy,) = [each for each in graph.of("ValidatingAdmissionPolicy") if "evictions" in str(each.object_name)]
    (binding,) = [each for each in graph.of("ValidatingAdmissionPolicyBinding") if "evictions" in str(each.object_name)]
    spec = policy.manifest["spec"]
    (condition,) = spec["matchConditions"]
    assert f":openshift-secondary-scheduler-operator:{NAME}" in condition["expression"]
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert (rule["resources"], rule["operations"]) == (["pods/eviction"], ["CREATE"])
    (validation,) = spec["validations"]
    assert '["secondary-scheduler"]' in validation["expression"]
    assert binding.manifest["spec"]["policyName"] == policy.object_name
    assert binding.manifest["spec"]["validationActions"] == ["Deny"]
    # Before it runs, the policy is there.
    assert {policy.urn, binding.urn} <= set(graph.before(named(graph, "Deployment")))


def test_without_admission_policies_there_is_none() -> None:
    graph = installed(PREDICTIVE, objects=components.OptionalObjects(admission_policies=False))
    assert not graph.of("ValidatingAdmissionPolicy")
    assert named(graph, "Deployment")


def test_the_scheduler_may_not_evict(graph: Graph) -> None:
    holders = [each.object_name for each in graph.of("ClusterRole") if "pods/eviction" in str(each.manifest)]
    assert holders == [NAME]


def test_it_runs_restricted(graph: Graph) -> None:
    pod = pod_of(graph)
    assert pod["securityContext"]["runAsNonRoot"] is True
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    policy = named(graph, "NetworkPolicy").manifest["spec"]
    ports = {each["port"] for rule in policy["egress"] for each in rule["ports"]}
    assert {9090, 443, 53} <= ports


def test_the_token_of_the_source_is_mounted_and_the_role_of_its_own_account_is_bound() -> None:
    graph = installed(PREDICTIVE, token="canary-31415")
    volumes = {each["name"]: each for each in pod_of(graph)["volumes"]}
    (secret,) = [each for each in graph.of("Secret") if "canary-31415" in str(each.manifest)]
    assert secret.object_name in str(volumes["metric-credentials"])
    assert "canary-31415" not in str(named(graph, "Deployment").manifest)
    provider = {**SETTINGS["metricProvider"], "credentials": {"serviceAccount": {"clusterRole": "view-metrics"}}}
    graph = installed(PREDICTIVE, settings={**SETTINGS, "metricProvider": provider})
    subjects = [
        subject["name"]
        for each in graph.of("ClusterRoleBinding")
        if each.manifest["roleRef"]["name"] == "view-metrics"
        for subject in each.manifest["subjects"]
    ]
    assert sorted(subjects) == ["secondary-scheduler", NAME]


def test_a_change_of_what_may_be_moved_rolls_it_out() -> None:
    def annotations(setting: dict[str, Any]) -> dict[str, str]:
        template = named(installed(setting), "Deployment").manifest["spec"]["template"]
        return dict(template["metadata"]["annotations"])

    assert annotations(PREDICTIVE) != annotations({**PREDICTIVE, "minReplicas": 3})


@pytest.mark.parametrize(
    ("setting", "options", "words"),
    [
        ({"mode": "On"}, {}, "rebalance.mode"),
        ({"mode": "Automatic", "colour": "red"}, {}, "rebalance.colour"),
        ({"mode": "Automatic", "intervalSeconds": 1}, {}, "rebalance.intervalSeconds"),
        ({"mode": "Automatic", "thresholds": {"cpu": 90, "memory": 60}}, {}, "rebalance.thresholds.cpu"),
        ({"mode": "Automatic"}, {"settings": {}}, "needs a plugin that reads the nodes' load"),
        (
            {"mode": "Automatic"},
            {"image": "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"},
            "needs this project's scheduler",
        ),
    ],
)
def test_what_could_move_nothing_is_refused_in_the_preview(
    setting: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    with pytest.raises(pulumi.RunError, match=words.replace(".", r"\.")):
        installed(setting, **options)


def test_keys_that_have_no_effect_are_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda text, *_: warnings.append(text))
    installed({"minReplicas": 3})
    assert [text for text in warnings if "rebalance.mode" in text and "no effect" in text]
