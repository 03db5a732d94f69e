"""A rebalancer of the stack: what the operator is told about it, or the objects that the installation registers for it,
its rights, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pulumi
import pytest
import yaml

import components
from scheduler.catalog import REBALANCER_CLUSTER_ROLE
from scheduler.config import read_rebalance_settings, read_rebalancer_spec
from secondary_scheduler.rebalancer.options import parse_options
from secondary_scheduler.rebalancer.status import Mode
from tests.components import graph as graph_module
from tests.components.graph import Graph, Registered
from tests.components.installations import installation_graph, object_named, pod_spec_of

IMAGE = "registry.example.com/secondary-scheduler/kube-scheduler:0.1.0"
NAME = "secondary-scheduler-rebalancer"
SETTINGS: dict[str, Any] = {
    "plugins": {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 5}]}},
    "metricProvider": {"type": "Prometheus", "address": "https://prometheus.monitoring:9090"},
}
PREDICTIVE = {"mode": "Predictive", "evictionLimits": {"total": 3}}
BY_PROGRAM = {**PREDICTIVE, "runBy": "Program"}


def installed(rebalance: dict[str, Any], token: str = "", **options: Any) -> Graph:
    return installation_graph(
        token, **{"image": IMAGE, "settings": SETTINGS, "operator_image": IMAGE, "rebalance": rebalance, **options}
    )


@pytest.fixture(scope="module")
def graph() -> Graph:
    """The program creates it."""
    return installed(BY_PROGRAM)


@pytest.fixture(scope="module")
def operated() -> Graph:
    """Our operator runs it."""
    return installed(PREDICTIVE)


def named(graph: Graph, kind: str, name: str = NAME) -> Registered:
    return object_named(graph, kind, name)


def pod_of(graph: Graph) -> dict[str, Any]:
    return pod_spec_of(graph, NAME)


@pytest.mark.parametrize("setting", [{}, {"mode": "Off"}])
def test_nothing_is_made_by_default(setting: dict[str, Any]) -> None:
    graph = installed(setting)
    assert not [each for each in graph.resources if "rebalancer" in f"{each.type} {each.name}".lower()]
    assert not [each for each in graph.of("ClusterRole") if "pods/eviction" in str(each.manifest)]


@pytest.mark.parametrize("mode", ["manifests", "direct"])
def test_it_starts_after_the_scheduler_and_goes_before_it(mode: str) -> None:
    graph = installed(BY_PROGRAM, mode=mode)
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
    graph = installed(BY_PROGRAM, objects=components.OptionalObjects(admission_policies=False))
    assert not graph.of("ValidatingAdmissionPolicy")
    assert named(graph, "Deployment")


def test_its_metrics_have_a_service_that_selects_its_pods_only(graph: Graph) -> None:
    service = named(graph, "Service").manifest
    (port,) = service["spec"]["ports"]
    labels = named(graph, "Deployment").manifest["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    (container,) = pod_of(graph)["containers"]
    assert port["targetPort"] in {each["containerPort"] for each in container["ports"]}
    allowed = named(graph, "NetworkPolicy").manifest["spec"]["ingress"]
    assert port["targetPort"] in {each["port"] for rule in allowed for each in rule["ports"]}


@pytest.mark.parametrize(
    ("objects", "openshift", "scraped", "alerts"),
    [
        ({}, False, False, False),
        ({}, True, True, True),
        ({"prometheus_rule": True}, False, True, True),
        ({"service_monitor": True}, False, True, False),
        ({"prometheus_rule": True, "service_monitor": False}, False, False, False),
        ({"service_monitor": False}, True, False, False),
    ],
)
def test_it_is_scraped_and_has_alerts_as_the_setting_says(
    objects: dict[str, bool], openshift: bool, scraped: bool, alerts: bool
) -> None:
    graph = installed(BY_PROGRAM, objects=components.OptionalObjects(**objects), openshift=openshift, mode="direct")
    monitors = [each for each in graph.of("ServiceMonitor") if each.object_name == NAME]
    assert bool(monitors) is scraped
    for monitor in monitors:
        spec = monitor.manifest["spec"]
        service = named(graph, "Service").manifest
        assert spec["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
        assert spec["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]
    assert bool(alerts_about_it(graph)) is alerts


def alerts_about_it(graph: Graph) -> list[str]:
    groups = [group for each in graph.of("PrometheusRule") for group in each.manifest["spec"]["groups"]]
    return [rule["alert"] for group in groups for rule in group["rules"] if f'job="{NAME}"' in rule["expr"]]


def test_there_are_alerts_about_the_one_that_our_operator_runs_and_none_where_there_is_none() -> None:
    objects = components.OptionalObjects(prometheus_rule=True)
    assert "SecondarySchedulerRebalancerDown" in alerts_about_it(installed(PREDICTIVE, objects=objects))
    assert alerts_about_it(installed({}, objects=objects)) == []
    unscraped = components.OptionalObjects(prometheus_rule=True, service_monitor=False)
    graph = installed(PREDICTIVE, objects=unscraped)
    assert alerts_about_it(graph) == []
    assert "ServiceMonitor" in graph.only("SecondaryScheduler").manifest["spec"]["without"]


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


def test_its_ports_admit_the_namespaces_that_are_named() -> None:
    graph = installed(BY_PROGRAM, scrape_namespaces=["monitoring"])
    (rule,) = named(graph, "NetworkPolicy").manifest["spec"]["ingress"]
    assert {each["port"] for each in rule["ports"]} == {8080, 8443}
    assert "'values': ['monitoring']" in str(rule["from"])
    operator = named(graph, "NetworkPolicy", "secondary-scheduler-operator").manifest["spec"]
    assert [each["from"] for each in operator["ingress"]] == [rule["from"]]


def test_the_token_of_the_source_is_mounted_and_the_role_of_its_own_account_is_bound() -> None:
    graph = installed(BY_PROGRAM, token="canary-31415")
    volumes = {each["name"]: each for each in pod_of(graph)["volumes"]}
    (secret,) = [each for each in graph.of("Secret") if "canary-31415" in str(each.manifest)]
    assert secret.object_name in str(volumes["metric-credentials"])
    assert "canary-31415" not in str(named(graph, "Deployment").manifest)
    provider = {**SETTINGS["metricProvider"], "credentials": {"serviceAccount": {"clusterRole": "view-metrics"}}}
    graph = installed(BY_PROGRAM, settings={**SETTINGS, "metricProvider": provider})
    assert sorted(bound_to_view_metrics(graph)) == ["secondary-scheduler", NAME]
    # The operator may bind no such role.
    by_operator = installed(PREDICTIVE, settings={**SETTINGS, "metricProvider": provider})
    assert sorted(bound_to_view_metrics(by_operator)) == ["secondary-scheduler", NAME]
    names = [{each.object_name for each in one_way.of("ClusterRoleBinding")} for one_way in (graph, by_operator)]
    # A stack that hands over creates before it deletes.
    assert [name for name in names[0] & names[1] if "rebalancer" in name] == []


def bound_to_view_metrics(graph: Graph) -> list[str]:
    return [
        subject["name"]
        for each in graph.of("ClusterRoleBinding")
        if each.manifest["roleRef"]["name"] == "view-metrics"
        for subject in each.manifest["subjects"]
    ]


def test_a_change_of_what_may_be_moved_rolls_it_out() -> None:
    def annotations(setting: dict[str, Any]) -> dict[str, str]:
        template = named(installed({**setting, "runBy": "Program"}), "Deployment").manifest["spec"]["template"]
        return dict(template["metadata"]["annotations"])

    assert annotations(PREDICTIVE) != annotations({**PREDICTIVE, "minReplicas": 3})


@pytest.mark.parametrize(
    ("setting", "options", "words"),
    [
        ({"mode": "On"}, {}, "rebalance.mode"),
        ({"mode": "Automatic", "colour": "red"}, {}, "rebalance.colour"),
        ({"mode": "Automatic", "intervalSeconds": 1}, {}, "rebalance.intervalSeconds"),
        ({"mode": "Automatic", "runBy": "Operator"}, {"mode": "direct"}, "rebalance.runBy: must be Program"),
        ({"mode": "Automatic", "runBy": "Operator"}, {"upstream_operator": True}, "operator has no such field, so"),
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


def test_our_operator_is_told_what_may_be_moved(operated: Graph) -> None:
    scheduler = operated.only("SecondaryScheduler").manifest
    assert scheduler["spec"]["rebalance"] == PREDICTIVE
    assert not [each for each in operated.resources if each.type.endswith(":Rebalancer")]
    assert not [each for each in operated.of("Deployment") if each.object_name == NAME]
    expected = f"jsonpath={{.status.rebalancer.settingsHash}}={read_rebalancer_spec(PREDICTIVE).hash}"
    assert expected in json.loads(scheduler["metadata"]["annotations"]["pulumi.com/waitFor"])


def test_our_operator_gets_the_rights_for_a_rebalancer_only_where_there_is_one(operated: Graph) -> None:
    def rights(graph: Graph) -> list[dict[str, Any]]:
        (role,) = [each for each in graph.of("ClusterRole") if each.object_name == "secondary-scheduler-operator"]
        rules: list[dict[str, Any]] = role.manifest["rules"]
        return rules

    bindable = [rule["resourceNames"] for rule in rights(operated) if "bind" in rule["verbs"]]
    assert [REBALANCER_CLUSTER_ROLE in names for names in bindable] == [True]
    assert named(operated, "ClusterRole", REBALANCER_CLUSTER_ROLE)
    for without in (installed({}), installed(BY_PROGRAM)):
        assert not [rule for rule in rights(without) if REBALANCER_CLUSTER_ROLE in rule.get("resourceNames", ()) and
                    "bind" in rule["verbs"]]  # fmt: skip
        assert not [each for each in without.of("ClusterRole") if each.object_name == REBALANCER_CLUSTER_ROLE]
        policies = [rule["verbs"] for rule in rights(without) if "validatingadmissionpolicies" in rule["resources"]]
        assert sorted(policies) == [["delete"], ["list", "watch"]]
    shared = installed({}, rebalancers=True)
    assert REBALANCER_CLUSTER_ROLE in str(rights(shared))


def test_the_role_that_the_operator_binds_reads_and_evicts(operated: Graph) -> None:
    rules = named(operated, "ClusterRole", REBALANCER_CLUSTER_ROLE).manifest["rules"]
    granted = {(resource, verb) for rule in rules for resource in rule.get("resources", ()) for verb in rule["verbs"]}
    writes = {(resource, verb) for resource, verb in granted if verb not in ("get", "list", "watch")}
    assert writes == {
        ("pods/eviction", "create"),
        ("events", "create"),
        ("events", "patch"),
        ("tokenreviews", "create"),
        ("subjectaccessreviews", "create"),
    }
    assert not {resource for resource, _ in granted} & {"secrets", "configmaps", "pods/binding"}


def test_who_may_not_evict_may_not_have_the_operator_evict(operated: Graph) -> None:
    (policy,) = [each for each in operated.of("ValidatingAdmissionPolicy") if "images" in str(each.object_name)]
    rules = {each["message"]: each["expression"] for each in policy.manifest["spec"]["validations"]}
    (expression,) = [rules[text] for text in rules if text.startswith("spec.rebalance: may be set only by")]
    assert "subresource('eviction').check('create')" in expression


def test_an_image_of_the_rebalancers_own_is_allowed() -> None:
    image = "registry.example.com/other/operator:0.1.0"
    graph = installed({**PREDICTIVE, "image": image})
    assert graph.only("SecondaryScheduler").manifest["spec"]["rebalance"]["image"] == image
    (policy,) = [each for each in graph.of("ValidatingAdmissionPolicy") if "images" in str(each.object_name)]
    assert "registry.example.com/other/operator" in str(policy.manifest["spec"])


def test_without_admission_policies_the_operator_makes_none_either() -> None:
    graph = installed(PREDICTIVE, objects=components.OptionalObjects(admission_policies=False))
    assert "ValidatingAdmissionPolicy" in graph.only("SecondaryScheduler").manifest["spec"]["without"]
    plain = installed({}, objects=components.OptionalObjects(admission_policies=False))
    assert "without" not in plain.only("SecondaryScheduler").manifest["spec"]


@pytest.mark.parametrize("options", [{"mode": "direct"}, {"upstream_operator": True}])
def test_without_an_operator_of_ours_the_program_creates_it(options: dict[str, Any]) -> None:
    assert named(installed(PREDICTIVE, **options), "Deployment")


@pytest.mark.parametrize(
    ("field", "remedy"),
    [
        ("rebalance", r"rebalance\.runBy to Program"),
        ("scrapeNamespaces", "do without the setting"),
        ("priorityClassName", "do without the setting"),
    ],
)
def test_a_preview_refuses_what_the_clusters_crd_would_prune(
    field: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = graph_module.Engine.new_resource

    def pruned(engine: Any, args: Any) -> Any:
        name, state = answer(engine, args)
        if args.typ == "kubernetes:operator.openshift.io/v1:SecondaryScheduler":
            state["spec"] = {key: value for key, value in state["spec"].items() if key != field}
        return name, state

    monkeypatch.setattr(graph_module.Engine, "new_resource", pruned)
    message = rf"{field}: .* has no spec\.{field}, so the API server drops it: install .* or .*{remedy}"
    with pytest.raises(pulumi.RunError, match=message):
        installed(PREDICTIVE, mode="none", scrape_namespaces=["monitoring"])
