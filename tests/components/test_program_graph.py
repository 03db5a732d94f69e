"""What the whole program registers for the two stacks of the repository, in preview and in update."""

from __future__ import annotations

import base64
import json
from typing import Any

import pulumi
import pytest

import components
from components.crd import SECONDARY_SCHEDULERS
from components.scheduler_configuration import CONFIGURATION_KEY
from scheduler import __version__
from scheduler.catalog import (
    BASE_CLUSTER_ROLE,
    GO_CLUSTER_ROLES,
    INSTANCE_NAME,
    OPERAND,
    REBALANCER_CLUSTER_ROLE,
    cluster_role_binding_name,
    cluster_role_name,
    plugin_rules,
    shipped_cluster_roles,
    static_cluster_roles,
)
from scheduler.config import configuration_hash, load_configuration
from secondary_scheduler.operator.reconcile import names
from tests.components.conftest import CANARY_TOKEN, KUBECONFIG_TEXT
from tests.components.graph import PROVIDER_TYPE, Graph, Registered, clear_values, is_secret, run_program, stack_values

NAMESPACE = "openshift-secondary-scheduler-operator"
OPERATOR = "secondary-scheduler-operator"
CLUSTER_SCOPED = {
    "Namespace",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "PriorityClass",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
OUR_IMAGE = f"registry.example.com/secondary-scheduler/kube-scheduler:{__version__}"
READY = {"readyReplicas": 1, "configurationHash": "set by the operator"}


# Tests only read what a run registers, so they share the runs.
@pytest.fixture(scope="module", params=[False, True], ids=["update", "preview"])
def preview(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module", params=["local", "openshift-prod"])
def stack(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def graph(stack: str, preview: bool, local_environment: None) -> Graph:
    return run_program(stack_values(stack), stack=stack, preview=preview, status=READY)


@pytest.fixture(scope="module")
def local(preview: bool, local_environment: None) -> Graph:
    return run_program(stack_values("local"), preview=preview, status=READY)


@pytest.fixture(scope="module")
def production(preview: bool) -> Graph:
    return run_program(stack_values("openshift-prod"), stack="openshift-prod", preview=preview, status=READY)


def test_every_object_belongs_to_a_component_and_bears_its_name(graph: Graph) -> None:
    components = {resource.urn: resource for resource in graph.resources if ":components:" in resource.type}
    assert len(graph.objects) >= 12
    for resource in graph.objects:
        parent = components[resource.parent]
        assert resource.name.startswith(f"{parent.name}-")


def test_every_object_goes_through_the_stacks_one_provider(graph: Graph) -> None:
    (provider,) = [resource for resource in graph.resources if resource.type == PROVIDER_TYPE]
    assert {resource.provider for resource in graph.objects} == {f"{provider.urn}::{provider.name}-id"}


def test_provider_is_bound_to_the_cluster_identifier_and_not_to_a_path_of_this_machine(local: Graph) -> None:
    (provider,) = [resource for resource in local.resources if resource.type == PROVIDER_TYPE]
    assert provider.inputs == {"clusterIdentifier": "local", "enableSecretMutable": "true"}


def test_without_an_identifier_the_cluster_is_known_by_the_stacks_name_and_the_preview_says_so(
    local_environment: None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    graph = run_program({"schedulerImage": OUR_IMAGE}, stack="prod-eu", preview=True, status=READY)
    (provider,) = [resource for resource in graph.resources if resource.type == PROVIDER_TYPE]
    assert provider.inputs["clusterIdentifier"] == "prod-eu"
    (line,) = [text for text in caplog.messages if "clusterIdentifier" in text]
    assert 'it is the stack\'s name, "prod-eu"; set it before you rename the stack' in line
    operator = next(each for each in graph.of("Deployment") if each.object_name == OPERATOR)
    (container,) = operator.manifest["spec"]["template"]["spec"]["containers"]
    assert container["image"] == OUR_IMAGE.replace("kube-scheduler", "operator")


def test_every_name_and_namespace_is_explicit_and_not_guessed_by_the_provider(graph: Graph) -> None:
    for resource in graph.objects:
        metadata = resource.manifest["metadata"]
        kind = resource.manifest["kind"]
        assert metadata["name"], resource.urn
        assert metadata.get("namespace") == (None if kind in CLUSTER_SCOPED else NAMESPACE), resource.urn


def test_type_tokens_are_those_of_the_kubernetes_sdk(graph: Graph) -> None:
    for resource in graph.objects:
        version, kind = resource.manifest["apiVersion"], resource.manifest["kind"]
        assert resource.type == f"kubernetes:{'core/v1' if version == 'v1' else version}:{kind}"


def test_scheduler_comes_after_everything_and_so_is_destroyed_first(graph: Graph) -> None:
    scheduler = graph.only("SecondaryScheduler")
    others = {resource.urn for resource in graph.objects} - {scheduler.urn}
    assert others <= graph.before(scheduler)
    assert not [resource.name for resource in graph.objects if scheduler.urn in graph.before(resource)]


def test_operator_starts_after_its_rights_and_its_crd(graph: Graph) -> None:
    before = graph.before(graph.only("Deployment"))
    rights = [r for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding") for r in graph.of(kind)]
    needed = [r for r in rights if r.name.startswith("secondary-scheduler-operator-")] + graph.of(
        "CustomResourceDefinition"
    )
    assert {resource.urn for resource in needed} <= before


def test_namespaced_objects_come_after_their_namespace(graph: Graph) -> None:
    namespace = graph.only("Namespace")
    for resource in graph.objects:
        if "namespace" in resource.manifest["metadata"]:
            assert namespace.urn in graph.before(resource), resource.urn


def test_crd_is_done_when_it_is_served(graph: Graph) -> None:
    annotations = graph.only("CustomResourceDefinition").manifest["metadata"]["annotations"]
    assert annotations["pulumi.com/waitFor"] == "condition=Established"


def test_scheduler_is_done_when_the_operator_is_with_exactly_this_configuration(graph: Graph) -> None:
    scheduler, config_map = graph.only("SecondaryScheduler"), configuration(graph)
    digest = configuration_hash(config_map.manifest["data"]["config.yaml"])
    gate = json.loads(scheduler.manifest["metadata"]["annotations"]["pulumi.com/waitFor"])
    assert gate == [
        "condition=Available",
        "condition=Progressing=False",
        f"jsonpath={{.status.lastRollout.configurationHash}}={digest}",
        f"jsonpath={{.status.lastRollout.image}}={scheduler.manifest['spec']['schedulerImage']}",
    ]
    # A candidate has 180 s, and so has the roll-out of one replica.
    assert (scheduler.timeouts["create"], scheduler.timeouts["update"]) == ("180s", "360s")


def test_config_map_is_named_after_its_content_and_wired_into_the_scheduler(graph: Graph) -> None:
    config_map = configuration(graph)
    content = config_map.manifest["data"]["config.yaml"]
    assert config_map.object_name == f"secondary-scheduler-config-{configuration_hash(content)[:8]}"
    assert len(config_map.object_name) <= 63
    # As its resource, so that the former one is still known where an update has failed, and can be gone back to.
    assert config_map.name == f"secondary-scheduler-configuration-configmap-{configuration_hash(content)[:8]}"
    assert config_map.manifest["immutable"] is True
    assert graph.only("SecondaryScheduler").manifest["spec"]["schedulerConfig"] == config_map.object_name


def test_the_configuration_follows_from_the_settings(local: Graph) -> None:
    content = configuration(local).manifest["data"]["config.yaml"]
    profile = load_configuration(content, source="test").profile("secondary-scheduler")
    weights = {plugin["name"]: plugin["weight"] for plugin in profile.summary()["score"]}
    assert weights["TargetLoadPacking"] == 10
    assert not {"NodeResourcesFit", "NodeResourcesBalancedAllocation"} & set(weights)
    assert profile.options.load.token_file == "/var/run/secrets/secondary-scheduler/metrics/token"
    assert profile.options.load.ca_file == "/var/run/secrets/secondary-scheduler/metrics/ca.crt"


def test_scheduler_resource_sets_nothing_that_its_operator_owns(graph: Graph) -> None:
    manifest = graph.only("SecondaryScheduler").manifest
    assert manifest["metadata"]["name"] == "cluster"
    assert "status" not in manifest
    assert set(manifest["spec"]) <= {
        "managementState", "schedulerConfig", "schedulerImage", "logLevel", "metricCredentials", "priorityClassName",
    }  # fmt: skip


def test_token_is_in_the_secret_and_there_only_encrypted(local: Graph) -> None:
    secret = local.only("Secret")
    assert secret.manifest["stringData"]["token"] == CANARY_TOKEN
    assert is_secret(secret.inputs["stringData"])
    assert secret.secret_outputs >= {"data", "stringData"}
    hidden = {CANARY_TOKEN, base64.b64encode(CANARY_TOKEN.encode()).decode()}
    for inputs in [*(resource.inputs for resource in local.resources), local.outputs]:
        for value in clear_values(inputs):
            assert not any(text in str(value) for text in hidden)


def test_scheduler_refers_to_the_secret_by_name_and_key(local: Graph) -> None:
    reference = local.only("SecondaryScheduler").manifest["spec"]["metricCredentials"]
    token_for = {"address": "https://127.0.0.1:9090"}
    assert reference == {"secretName": local.only("Secret").object_name, "key": "token", **token_for}


def test_token_under_an_encrypted_key_of_the_stack_is_a_secret_too(preview: bool) -> None:
    values = stack_values("openshift-prod")
    provider = json.loads(values["metricProvider"])
    provider["credentials"] = {"token": {"secretKey": "prometheusToken"}}
    values |= {"metricProvider": json.dumps(provider), "prometheusToken": CANARY_TOKEN}
    graph = run_program(values, encrypted={"prometheusToken"}, stack="openshift-prod", preview=preview, status=READY)
    assert graph.only("Secret").manifest["stringData"] == {"token": CANARY_TOKEN}
    assert not [value for r in graph.resources for value in clear_values(r.inputs) if CANARY_TOKEN in str(value)]


def test_kubeconfig_of_the_stack_is_a_secret_input_of_the_provider(preview: bool) -> None:
    values = stack_values("openshift-prod") | {"kubeconfig": KUBECONFIG_TEXT}
    graph = run_program(values, encrypted={"kubeconfig"}, stack="openshift-prod", preview=preview, status=READY)
    (provider,) = [resource for resource in graph.resources if resource.type == PROVIDER_TYPE]
    assert is_secret(provider.inputs["kubeconfig"])


def test_on_openshift_the_schedulers_own_account_reads_the_metrics_and_no_secret_exists(production: Graph) -> None:
    assert not production.of("Secret")
    assert production.only("SecondaryScheduler").manifest["spec"]["metricCredentials"] == {
        "serviceAccount": {}, "address": "https://thanos-querier.openshift-monitoring.svc:9091",
    }  # fmt: skip
    binding = next(
        b for b in production.of("ClusterRoleBinding") if b.name.endswith("metric-credentials-binding")
    ).manifest
    assert binding["roleRef"]["name"] == "cluster-monitoring-view"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "secondary-scheduler", "namespace": NAMESPACE}]


def test_an_existing_secret_is_referenced_and_not_created(preview: bool) -> None:
    values = stack_values("openshift-prod")
    provider = json.loads(values["metricProvider"])
    provider["credentials"] = {"existingSecret": {"name": "thanos", "key": "bearer", "caKey": "ca.crt"}}
    values["metricProvider"] = json.dumps(provider)
    graph = run_program(values, stack="openshift-prod", preview=preview, status=READY)
    assert not graph.of("Secret")
    assert graph.only("SecondaryScheduler").manifest["spec"]["metricCredentials"] == {
        "secretName": "thanos", "key": "bearer", "address": "https://thanos-querier.openshift-monitoring.svc:9091",
    }  # fmt: skip
    assert "/var/run/secrets/secondary-scheduler/metrics/bearer" in configuration(graph).manifest["data"]["config.yaml"]


def test_production_protects_objects_whose_deletion_cascades(production: Graph, local: Graph) -> None:
    kept = {"Namespace", "CustomResourceDefinition", "SecondaryScheduler"}
    assert {resource.manifest["kind"] for resource in production.objects if resource.protect} == kept
    assert [r.manifest["kind"] for r in production.objects if r.retain_on_delete] == ["CustomResourceDefinition"]
    assert not [resource for resource in local.resources if resource.protect or resource.retain_on_delete]


def test_crds_that_enabled_plugins_read_are_served_before_the_scheduler_starts(preview: bool) -> None:
    graph = run_program(gang_values(), stack="openshift-prod", preview=preview, status=READY)
    scheduler = graph.only("SecondaryScheduler")
    crd = next(c for c in graph.of("CustomResourceDefinition") if c.object_name == "podgroups.scheduling.x-k8s.io")
    assert crd.urn in graph.before(scheduler)
    assert crd.manifest["metadata"]["annotations"]["pulumi.com/waitFor"] == "condition=Established"
    assert crd.protect
    assert crd.retain_on_delete
    assert [c.object_name for c in graph.of("CustomResourceDefinition")].count(crd.object_name) == 1


def test_crds_of_plugins_are_left_to_others_where_the_stack_says_so(preview: bool) -> None:
    values = gang_values() | {"installPluginCrds": "false"}
    graph = run_program(values, stack="openshift-prod", preview=preview, status=READY)
    assert graph.only("CustomResourceDefinition").object_name == SECONDARY_SCHEDULERS


def gang_values() -> dict[str, str]:
    values = stack_values("openshift-prod")
    plugins = json.loads(values["plugins"])
    plugins["multiPoint"] = {"enabled": [{"name": "Coscheduling"}], "disabled": ["PrioritySort"]}
    return values | {"plugins": json.dumps(plugins)}


def test_operator_may_bind_exactly_the_static_roles_and_those_of_the_go_scheduler(graph: Graph) -> None:
    static = {
        role.object_name for role in graph.of("ClusterRole") if role.object_name.startswith("secondary-scheduler:")
    }
    assert static < set(shipped_cluster_roles())
    static &= set(static_cluster_roles())
    assert {
        BASE_CLUSTER_ROLE,
        *(n for n in [cluster_role_name("TargetLoadPacking")] if plugin_rules("TargetLoadPacking")),
    } <= static
    (bind,) = [rule for rule in rules(graph.of("ClusterRole"), OPERATOR) if "bind" in rule["verbs"]]
    assert bind == {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"],
        "resourceNames": sorted({*static_cluster_roles(), *GO_CLUSTER_ROLES}),
        "verbs": ["bind"],
    }


def test_operator_has_no_wildcard_and_outside_its_namespace_writes_by_name_or_a_status_only(graph: Graph) -> None:
    for rule in rules([*graph.of("ClusterRole"), *graph.of("Role")], OPERATOR):
        assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
    for rule in rules(graph.of("ClusterRole"), OPERATOR):
        reads = set(rule["verbs"]) == {"list", "watch"}
        # `cluster` is the SecondaryScheduler, whose finalizer outlives the operator's Role when the namespace goes.
        known = ("cluster",) if rule["apiGroups"] == ["operator.openshift.io"] else ()
        named = all(name.startswith("secondary-scheduler") or name in known for name in rule.get("resourceNames", [""]))
        binds = rule["verbs"] == ["bind"]
        reviews = rule["verbs"] == ["create"] and set(rule["resources"]) < {"tokenreviews", "subjectaccessreviews"}
        statuses = all(resource.endswith("/status") for resource in rule["resources"])
        assert reads or named or binds or reviews or statuses, rule


def operator_arguments(graph: Graph) -> list[str]:
    (container,) = graph.only("Deployment").manifest["spec"]["template"]["spec"]["containers"]
    return list(container.get("args", []))


def test_operator_keeps_only_the_status_that_plugins_of_the_stack_read(preview: bool, local: Graph) -> None:
    assert operator_arguments(local) == ["--status-of=none"]
    assert not [rule for rule in rules(local.of("ClusterRole"), OPERATOR) if "pods" in rule["resources"]]
    gangs = run_program(gang_values(), stack="openshift-prod", preview=preview, status=READY)
    assert operator_arguments(gangs) == ["--status-of=podgroups"]
    statuses = [resource for rule in rules(gangs.of("ClusterRole"), OPERATOR) for resource in rule["resources"]]
    assert "podgroups/status" in statuses
    assert "elasticquotas/status" not in statuses


OPERANDS = ("secondary-scheduler", "secondary-scheduler-batch", "secondary-scheduler-gpu")


@pytest.mark.usefixtures("local_environment")
def test_operator_gets_flags_and_rights_for_the_further_instances_of_the_settings(preview: bool) -> None:
    others = [{"namespace": "team-a"}, {"namespace": "team-a", "name": "gpu"}, {"name": "batch"}]
    values = stack_values("openshift-prod") | {"operator": json.dumps({"instances": others})}
    graph = run_program(values, stack="openshift-prod", preview=preview, status=READY)
    namespaces, secrets = operator_arguments(graph)
    assert namespaces == "--watch-namespaces=team-a"
    suffixes = ("metrics", "serving-cert")
    names = [f"{name}-{suffix}" for name in OPERANDS for suffix in suffixes]
    assert secrets == "--secrets=" + ",".join(sorted(names))
    roles = {role.manifest["metadata"]["namespace"]: role.manifest["rules"] for role in graph.of("Role")}
    leases = {
        namespace: {
            name
            for rule in bound
            if rule["resources"] == ["leases"] and "delete" in rule["verbs"]
            for name in rule.get("resourceNames", [])
        }
        for namespace, bound in roles.items()
    }
    operands = {
        NAMESPACE: ("secondary-scheduler", "secondary-scheduler-batch"),
        "team-a": ("secondary-scheduler", "secondary-scheduler-gpu"),
    }
    assert leases == {
        namespace: {name + suffix for name in names for suffix in ("", "-canary", "-rebalancer")}
        for namespace, names in operands.items()
    }
    everywhere = rules(graph.of("ClusterRole"), OPERATOR)
    (bindings,) = [r for r in everywhere if r["resources"] == ["clusterrolebindings"] and "create" in r["verbs"]]
    assert set(bindings["resourceNames"]) == {
        cluster_role_binding_name(role, namespace, name)
        # A rebalancer's may be taken away by any operator; who may not run one may not bind its role.
        for role in (*static_cluster_roles(), *GO_CLUSTER_ROLES, REBALANCER_CLUSTER_ROLE)
        for namespace, names in operands.items()
        for name in names
    }
    (bound,) = [rule for rule in everywhere if rule["verbs"] == ["bind"]]
    assert REBALANCER_CLUSTER_ROLE not in bound["resourceNames"]
    (namespaces,) = [rule for rule in everywhere if rule["resources"] == ["namespaces"]]
    assert namespaces["resourceNames"] == [NAMESPACE, "team-a"]
    assert {(b.manifest["metadata"]["namespace"]) for b in graph.of("RoleBinding")} == {NAMESPACE, "team-a"}


def test_operator_pod_is_restricted_and_probed(graph: Graph, stack: str) -> None:
    pod = graph.only("Deployment").manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    # OpenShift picks the user, and refuses any other.
    assert ("runAsUser" in pod["securityContext"]) is (stack == "local")
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {container[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")} == {
        8080
    }


def test_objects_are_labelled_but_pods_and_selectors_are_not(graph: Graph, stack: str) -> None:
    for resource in graph.objects:
        labels = resource.manifest["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "secondary-scheduler"
        assert labels["app.kubernetes.io/instance"] == stack
    spec = graph.only("Deployment").manifest["spec"]
    assert (
        spec["selector"]["matchLabels"]
        == spec["template"]["metadata"]["labels"]
        == {"name": "secondary-scheduler-operator"}
    )


def test_outputs_report_deployment_and_profile(local: Graph) -> None:
    assert local.outputs["scheduler"] == {
        "name": "secondary-scheduler",
        "namespace": NAMESPACE,
        "image": f"localhost/secondary-scheduler/kube-scheduler:{__version__}",
        "readyReplicas": 1,
        "schedulerNames": ["secondary-scheduler"],
    }
    profile = local.outputs["profile"]
    assert profile["schedulerName"] == "secondary-scheduler"
    assert profile == {
        "schedulerName": "secondary-scheduler",
        "scorePlugins": {"TargetLoadPacking": 10, "NodeResourcesFit": 0, "NodeResourcesBalancedAllocation": 0},
        "pluginArgs": {"TargetLoadPacking": {"targetUtilization": 50, "defaultRequests": {"cpu": "500m"}}},
        "configurationHash": configuration_hash(configuration(local).manifest["data"]["config.yaml"]),
    }
    assert "profiles" not in local.outputs


def test_health_is_that_of_the_resource_without_messages_and_times(local_environment: None) -> None:
    conditions = [
        {"type": "Available", "status": "True", "reason": "Running", "message": "1 of 1"},
        {"type": "LoadDataFresh", "status": "False", "reason": "Unreachable", "message": "connection refused"},
    ]
    rollout = {"outcome": "Succeeded", "image": "a:1", "configurationHash": "ab", "time": "2026-11-22T00:00:00Z"}
    status = READY | {"conditions": conditions, "lastRollout": rollout}
    assert run_program(stack_values("local"), status=status).outputs["health"] == {
        "conditions": {"Available": "True"},
        "LoadDataFresh": "False",
        "lastRollout": {"outcome": "Succeeded", "image": "a:1", "configurationHash": "ab"},
    }


def test_fewer_replicas_than_wanted_are_an_output_and_a_warning(
    local_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, *_: warnings.append(message))
    condition = {"type": "Available", "status": "True", "reason": "FewerReplicas"}
    condition["message"] = "1 of 2 wanted: one suitable node; 1 of 1 replicas are available"
    outputs = run_program(stack_values("local"), status=READY | {"conditions": [condition]}).outputs
    assert outputs["health"]["replicas"] == "1 of 2 wanted: one suitable node"
    assert [line for line in warnings if line.startswith("replicas:")] == [
        "replicas: 1 of 2 wanted: one suitable node; add nodes, or lower replicas"
    ]


REJECTED = READY | {
    "conditions": [{"type": "Degraded", "status": "True", "reason": "CanaryFailed", "message": "a:2 was rejected: …"}],
    "lastRollout": {"outcome": "CanaryFailed", "image": "a:2", "message": "no plugin Gone"},
}


def test_what_the_operator_rejected_fails_the_update_with_its_reason(local_environment: None) -> None:
    with pytest.raises(pulumi.RunError, match=r"is degraded, CanaryFailed: no plugin Gone\. .*pulumi up --refresh$"):
        run_program(stack_values("local"), status=REJECTED)


def test_a_scheduler_that_runs_degraded_fails_the_update(local_environment: None) -> None:
    condition = {"type": "Degraded", "status": "True", "reason": "SecretMissing", "message": "no Secret metrics"}
    with pytest.raises(pulumi.RunError, match=r"is degraded, SecretMissing: no Secret metrics\."):
        run_program(stack_values("local"), status=READY | {"conditions": [condition]})


def test_a_preview_after_a_rejection_warns_only_as_the_next_update_may_be_the_cure(
    local_environment: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    warnings: list[str] = []
    monkeypatch.setattr(pulumi.log, "warn", lambda message, *_: warnings.append(message))
    run_program(stack_values("local"), status=REJECTED, preview=True)
    assert [line for line in warnings if "is degraded, CanaryFailed: no plugin Gone" in line]


def test_only_the_roles_of_enabled_plugins_are_created_unless_the_operator_serves_others(
    local_environment: None,
) -> None:
    alone = {role.object_name for role in run_program(stack_values("local"), status=READY).of("ClusterRole")}
    assert cluster_role_name("TargetLoadPacking") in alone
    assert cluster_role_name("Coscheduling") not in alone
    shared = stack_values("local") | {"operator": json.dumps({"instances": [{"namespace": "team-a"}]})}
    # Whether the operator may run rebalancers is another setting.
    assert set(shipped_cluster_roles()) - {REBALANCER_CLUSTER_ROLE} <= {
        role.object_name for role in run_program(shared, status=READY).of("ClusterRole")
    }


def test_controller_and_program_agree_on_names(local: Graph) -> None:
    assert components.SCHEDULER_NAME == OPERAND
    assert CONFIGURATION_KEY == names.CONFIG_KEY
    assert local.only("SecondaryScheduler").object_name == INSTANCE_NAME
    content = configuration(local).manifest["data"][names.CONFIG_KEY]
    assert f"tokenFile: {names.METRIC_CREDENTIALS_DIRECTORY}/token" in content


def test_health_and_ready_replicas_are_unknown_while_the_scheduler_does_not_exist(local_environment: None) -> None:
    outputs = run_program(stack_values("local"), preview=True, status=None).outputs
    assert outputs["scheduler"]["readyReplicas"] == UNKNOWN
    assert outputs["health"] == UNKNOWN


def configuration(graph: Graph) -> Registered:
    """The ConfigMap with the scheduler's configuration."""
    (config_map,) = [
        candidate for candidate in graph.of("ConfigMap") if CONFIGURATION_KEY in candidate.manifest["data"]
    ]
    return config_map


def rules(roles: list[Registered], name: str) -> list[dict[str, Any]]:
    return [rule for role in roles if role.object_name == name for rule in role.manifest["rules"]]


UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"
