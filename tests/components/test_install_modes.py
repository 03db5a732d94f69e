"""What the program registers in each install mode, in preview and in update."""

from __future__ import annotations

import functools
import json
from typing import Any

import pulumi
import pytest

from scheduler import __version__
from scheduler.catalog import (
    BASE_CLUSTER_ROLE,
    GO_CLUSTER_ROLES,
    METRICS_READER_CLUSTER_ROLE,
    cluster_role_binding_name,
    static_cluster_roles,
)
from secondary_scheduler.operator.reconcile import ApiFailure
from tests.components.conftest import CANARY_TOKEN
from tests.components.graph import PROVIDER_TYPE, STATUS, Graph, Registered, clear_values, run_program, stack_values
from tests.unit.operator.builders import Instance, config_map, scheduler, secret

NAMESPACE = "openshift-secondary-scheduler-operator"
OURS = "secondary-scheduler-operator"
UPSTREAM = "openshift-secondary-scheduler-operator"
LEASE = "openshift-secondary-scheduler-operator-lock"
PLUGINS_IMAGE = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7"
WATCHER = {"watcherAddress": "https://load-watcher.monitoring.svc:2020"}
WATCHING = {"score": {"enabled": [{"name": "TargetLoadPacking", "weight": 10, "args": WATCHER}]}}
"""What a Go image needs to know nothing of the token."""
ADDRESS = {"catalog": {"address": "127.0.0.1:50051"}}
MODES: dict[str, dict[str, Any]] = {
    "manifests": {},
    "direct": {},
    "none": {},
    "olm": {},
    "catalog": {"operator": ADDRESS},
}
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"


@pytest.fixture(scope="module", params=[False, True], ids=["update", "preview"])
def preview(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module", params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def graph(mode: str, preview: bool, local_environment: None) -> Graph:
    return run(mode, preview=preview)


def run(mode: str, *, preview: bool = False, **settings: Any) -> Graph:
    """What the program registers. Tests leave it as it is: those with the same settings share one."""
    wanted = {**MODES[mode], **settings}
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in wanted.items()}
    return _run(json.dumps({"installMode": mode} | values), preview)


@functools.cache
def _run(values: str, preview: bool) -> Graph:
    return run_program(stack_values("local") | json.loads(values), preview=preview, statuses=STATUS)


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """What a run logs: it is not shared with a test that ran before."""
    _run.cache_clear()
    return caplog


def scheduler_of(graph: Graph) -> Registered:
    """The resource that the stack waits for last."""
    deployment = [each for each in graph.of("Deployment") if each.object_name == "secondary-scheduler"]
    return (deployment or graph.of("SecondaryScheduler"))[0]


def kinds(graph: Graph) -> set[str]:
    return {resource.type.rpartition(":")[2] for resource in graph.objects}


def test_every_object_belongs_to_a_component_whose_name_it_bears(graph: Graph) -> None:
    components = {resource.urn: resource for resource in graph.resources if ":components:" in resource.type}
    for resource in graph.objects:
        assert resource.name.startswith(f"{components[resource.parent].name}-")


def test_the_scheduler_comes_after_everything_and_so_is_destroyed_first(graph: Graph) -> None:
    last = scheduler_of(graph)
    assert {resource.urn for resource in graph.objects} - {last.urn} <= graph.before(last)


def test_objects_of_a_mode_depend_on_its_record_and_others_do_not(graph: Graph, mode: str) -> None:
    record = next(each for each in graph.of("ConfigMap") if each.object_name == "secondary-scheduler-installation")
    assert record.manifest["data"] == {"installMode": mode}
    assert record.manifest["immutable"] is True
    assert record.urn in scheduler_of(graph).property_dependencies["metadata"]
    kept = {"Namespace", "Secret", "ClusterRole", "PriorityClass", "ConfigMap"}
    for resource in graph.objects:
        if resource.type.rpartition(":")[2] in kept and not resource.name.startswith("secondary-scheduler-operator-"):
            assert record.urn not in resource.property_dependencies.get("metadata", ()), resource.name


def test_objects_that_an_operator_creates_too_are_deleted_with_the_mode(preview: bool, local_environment: None) -> None:
    graph = run("direct", preview=preview, replicas="2")
    record = next(each for each in graph.of("ConfigMap") if each.object_name == "secondary-scheduler-installation")
    operator_kinds = {"ServiceAccount", "Role", "RoleBinding", "ClusterRoleBinding", "Service", "Deployment"}
    operator_kinds |= {"PodDisruptionBudget", "NetworkPolicy", "FlowSchema"}
    owned = [each for each in graph.objects if each.type.rpartition(":")[2] in operator_kinds]
    assert {each.type.rpartition(":")[2] for each in owned} == operator_kinds
    for resource in owned:
        assert record.urn in resource.property_dependencies["metadata"], resource.name


def test_no_token_is_in_clear(graph: Graph) -> None:
    for inputs in [*(resource.inputs for resource in graph.resources), graph.outputs]:
        assert not [value for value in clear_values(inputs) if CANARY_TOKEN in str(value)]


def test_outputs_are_the_same_in_every_mode(graph: Graph, mode: str) -> None:
    assert set(graph.outputs) >= {"scheduler", "health", "profile"}
    assert set(graph.outputs["scheduler"]) == {"name", "namespace", "image", "readyReplicas", "schedulerNames"}
    assert graph.outputs["scheduler"]["name"] == "secondary-scheduler"
    assert graph.outputs["scheduler"]["namespace"] == NAMESPACE
    if mode in ("olm", "catalog"):
        assert graph.outputs["installation"] == {"mode": mode, "operator": graph.outputs["installation"]["operator"]}
    else:
        assert "installation" not in graph.outputs, "the stack file says it"


def test_without_an_operator_there_is_neither_crd_nor_resource(preview: bool, local_environment: None) -> None:
    graph = run("direct", preview=preview, operatorImage="")
    assert not {"CustomResourceDefinition", "SecondaryScheduler"} & kinds(graph)
    assert [each.object_name for each in graph.of("Deployment")] == ["secondary-scheduler"]


@pytest.mark.parametrize("image", [f"localhost/secondary-scheduler/kube-scheduler:{__version__}", PLUGINS_IMAGE])
@pytest.mark.parametrize("replicas", [1, 3])
def test_direct_has_the_contract_of_the_operators_deployment(
    image: str, replicas: int, local_environment: None
) -> None:
    """The operator, given the same configuration, makes the same container and the same rights."""
    plugins = {"plugins": WATCHING} if image == PLUGINS_IMAGE else {}
    graph = run("direct", schedulerImage=image, replicas=str(replicas), **plugins)
    ours = graph.only("Deployment").manifest["spec"]
    (content,) = [
        each.manifest["data"]["config.yaml"] for each in graph.of("ConfigMap") if "configuration" in each.name
    ]
    credentials = {"secretName": graph.only("Secret").object_name, "key": "token", "address": "https://127.0.0.1:9090"}
    resource = scheduler(
        schedulerImage=image,
        metricCredentials=credentials,
        priorityClassName="secondary-scheduler",
        logLevel="Normal",
        topology={"mode": "HighlyAvailable", "highlyAvailableTopology": {"maxReplicas": replicas}},
        configPolicy="PassThrough",
    )
    world = Instance(resource, config_map(content), secret(credentials["secretName"]))
    world.observed_fields["unreadable"] = {"Node": ApiFailure(403, "nodes is forbidden")}
    world.settle()
    upstream_spec = world.get("Deployment", "secondary-scheduler")["spec"]
    pod, other = ours["template"]["spec"], upstream_spec["template"]["spec"]
    assert pod["containers"] == other["containers"]
    assert {key: pod[key] for key in pod if key != "volumes"} == {key: other[key] for key in other if key != "volumes"}
    assert [volume["name"] for volume in pod["volumes"]] == [volume["name"] for volume in other["volumes"]]
    assert (ours["selector"], ours["strategy"], ours["replicas"]) == (
        upstream_spec["selector"], upstream_spec["strategy"], upstream_spec["replicas"],
    )  # fmt: skip
    for kind in ("ClusterRoleBinding", "Role", "RoleBinding", "Service", "NetworkPolicy", "FlowSchema"):
        assert {each.object_name for each in graph.of(kind)} == world.names(kind), kind
    assert graph.only("Role").manifest["rules"] == world.get("Role", "secondary-scheduler-operand")["rules"]
    for each in graph.of("ClusterRoleBinding"):
        assert each.manifest["roleRef"] == world.get("ClusterRoleBinding", each.object_name)["roleRef"]
    assert bool(graph.of("PodDisruptionBudget")) is (replicas > 1)


def test_direct_brings_the_roles_that_it_binds_and_no_others(preview: bool, local_environment: None) -> None:
    graph = run("direct", preview=preview)
    bound = {each.manifest["roleRef"]["name"] for each in graph.of("ClusterRoleBinding")}
    assert {each.object_name for each in graph.of("ClusterRole")} == {*bound, METRICS_READER_CLUSTER_ROLE}
    assert BASE_CLUSTER_ROLE in bound
    assert bound < set(static_cluster_roles())
    assert {each.object_name for each in graph.of("ClusterRoleBinding")} == {
        cluster_role_binding_name(role, NAMESPACE) for role in bound
    }


def test_direct_binds_a_go_image_to_the_clusters_own_roles_too(local_environment: None) -> None:
    graph = run("direct", schedulerImage=PLUGINS_IMAGE, plugins=WATCHING)
    assert {each.manifest["roleRef"]["name"] for each in graph.of("ClusterRoleBinding")} >= set(GO_CLUSTER_ROLES)
    assert not set(GO_CLUSTER_ROLES) & {each.object_name for each in graph.of("ClusterRole")}


def test_the_service_of_direct_waits_for_no_pod_since_the_pod_waits_for_it(local_environment: None) -> None:
    service = run("direct").only("Service")
    assert service.manifest["metadata"]["annotations"]["pulumi.com/skipAwait"] == "true"


def test_the_deployment_of_direct_changes_with_the_content_of_its_configuration(local_environment: None) -> None:
    graphs = [run("direct"), run("direct", compatibility="upstream")]
    mounted = []
    for graph in graphs:
        volumes = graph.only("Deployment").manifest["spec"]["template"]["spec"]["volumes"]
        (name,) = [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
        assert name in {each.object_name for each in graph.of("ConfigMap")}
        assert len(name) <= 63
        mounted.append(name)
    assert mounted[0] != mounted[1]


def test_with_an_existing_operator_only_the_resource_and_its_references_are_created(graph: Graph, mode: str) -> None:
    if mode == "none":
        assert kinds(graph) == {"ConfigMap", "Secret", "PriorityClass", "SecondaryScheduler"}


def test_upstreams_operator_there_already_gets_the_rights_of_plugins_and_a_gate_it_can_pass(
    preview: bool, local_environment: None
) -> None:
    graph = run("none", preview=preview, operator={"flavour": "upstream"})
    bound = {each.manifest["roleRef"]["name"] for each in graph.of("ClusterRoleBinding")}
    assert bound >= {BASE_CLUSTER_ROLE}
    assert not bound & set(GO_CLUSTER_ROLES), "which it binds itself"
    resource = graph.only("SecondaryScheduler").manifest
    assert set(resource["spec"]) == {"managementState", "schedulerConfig", "schedulerImage", "logLevel"}
    gate = json.loads(resource["metadata"]["annotations"]["pulumi.com/waitFor"])
    assert gate == ["jsonpath={.status.generations[0].lastGeneration}"]


@pytest.mark.parametrize("mode", ["none", "olm"])
def test_with_upstreams_operator_the_roll_out_of_this_map_is_waited_for_on_the_deployment_that_it_makes(
    mode: str, local_environment: None
) -> None:
    graph = run(mode, operator={"flavour": "upstream"}, readySeconds="77")
    deployment, resource = graph.only("Deployment"), graph.only("SecondaryScheduler")
    (adopting,) = [each for each in graph.resources if each.type == PROVIDER_TYPE and "adopting" in each.name]
    assert deployment.provider.startswith(adopting.urn)
    assert resource.urn in graph.before(deployment)
    assert deployment.retain_on_delete, "it goes with the resource"
    assert "spec" not in deployment.manifest, "it is its operator's"
    assert json.loads(deployment.manifest["metadata"]["annotations"]["pulumi.com/waitFor"]) == [
        f'jsonpath={{.spec.template.spec.volumes[?(@.configMap.name=="{resource.manifest["spec"]["schedulerConfig"]}")]'
        ".name}",
        f"jsonpath={{.spec.template.spec.containers[0].image}}=localhost/secondary-scheduler/kube-scheduler:{__version__}",
        "condition=Available",
        'jsonpath={.status.conditions[?(@.type=="Progressing")].reason}=NewReplicaSetAvailable',
    ]
    assert (deployment.timeouts["create"], deployment.timeouts["update"]) == ("77s", "77s")
    assert graph.outputs["scheduler"]["readyReplicas"] == 1


def test_a_preview_does_not_read_a_deployment_that_upstreams_operator_has_not_created(
    local_environment: None,
) -> None:
    values = stack_values("local") | {"installMode": "none", "operator": json.dumps({"flavour": "upstream"})}
    deployment = run_program(values, preview=True).only("Deployment")
    assert deployment.manifest["metadata"]["annotations"]["pulumi.com/waitFor"] == UNKNOWN


def test_olm_subscribes_to_upstreams_package_in_a_group_of_this_namespace(
    preview: bool, local_environment: None
) -> None:
    wanted = {"channel": "stable-1", "startingCSV": "secondaryscheduleroperator.v1.5.0", "approval": "Manual"}
    graph = run("olm", preview=preview, operator=wanted)
    assert graph.only("OperatorGroup").manifest["spec"] == {"targetNamespaces": [NAMESPACE]}
    assert graph.only("Subscription").manifest["spec"] == {
        "name": UPSTREAM,
        "channel": "stable-1",
        "source": "redhat-operators",
        "sourceNamespace": "openshift-marketplace",
        "installPlanApproval": "Manual",
        "startingCSV": "secondaryscheduleroperator.v1.5.0",
    }
    assert graph.only("OperatorGroup").urn in graph.before(graph.only("Subscription"))
    assert not graph.of("CatalogSource")
    assert not graph.of("CustomResourceDefinition")


@pytest.mark.parametrize(
    ("approval", "expected"),
    [
        ("Automatic", ["jsonpath={.status.state}=AtLatestKnown"]),
        ("Manual", []),
    ],
)
def test_olm_is_waited_for_step_by_step(approval: str, expected: list[str], local_environment: None) -> None:
    graph = run("olm", operator={"approval": approval})

    def gate(kind: str) -> list[str]:
        waits: list[str] = json.loads(graph.only(kind).manifest["metadata"]["annotations"]["pulumi.com/waitFor"])
        return waits

    begun = ["jsonpath={.status.installPlanRef.name}", "jsonpath={.status.currentCSV}"]
    assert gate("Subscription") == begun + expected
    assert gate("InstallPlan") == ["jsonpath={.status.phase}=Complete"]
    assert gate("ClusterServiceVersion") == ["jsonpath={.status.phase}=Succeeded"]
    plan, version = graph.only("InstallPlan"), graph.only("ClusterServiceVersion")
    assert (plan.object_name, version.object_name) == ("install-abcde", "operator.v1")
    assert graph.only("Subscription").urn in graph.before(plan)
    assert plan.urn in graph.before(version)
    assert version.urn in graph.before(graph.only("SecondaryScheduler"))


def test_only_objects_that_olm_creates_are_adopted(preview: bool, local_environment: None) -> None:
    graph = run("olm", preview=preview)
    providers = {each.name: each for each in graph.resources if each.type == PROVIDER_TYPE}
    assert set(providers) == {"cluster", "cluster-adopting"}
    assert providers["cluster-adopting"].inputs["upsertExistingObjects"] == "true"
    assert "upsertExistingObjects" not in providers["cluster"].inputs
    adopted = {r.manifest["kind"] for r in graph.objects if r.provider.startswith(providers["cluster-adopting"].urn)}
    assert adopted == {"InstallPlan", "ClusterServiceVersion", "Deployment"}
    retained = [each.manifest["kind"] for each in graph.objects if each.retain_on_delete]
    assert sorted(retained) == ["Deployment", "InstallPlan"]


def test_manual_approval_names_the_install_plan_to_approve(
    local_environment: None, logged: pytest.LogCaptureFixture
) -> None:
    pending = {**STATUS["Subscription"], "installedCSV": "operator.v0", "state": "UpgradePending"}
    values = stack_values("local") | {"installMode": "olm", "operator": json.dumps({"approval": "Manual"})}
    run_program(values, statuses={**STATUS, "Subscription": pending})
    (message,) = [text for text in logged.messages if "install-abcde" in text]
    assert "installs operator.v1 and waits for your approval" in message
    assert f"kubectl -n {NAMESPACE} patch installplan install-abcde" in message


def test_a_second_install_plan_of_the_installed_version_is_named_too(
    local_environment: None, logged: pytest.LogCaptureFixture
) -> None:
    waiting = {"type": "InstallPlanPending", "status": "True", "reason": "RequiresApproval"}
    values = stack_values("local") | {"installMode": "olm", "operator": json.dumps({"approval": "Manual"})}
    run_program(values, statuses={**STATUS, "Subscription": {**STATUS["Subscription"], "conditions": [waiting]}})
    assert [text for text in logged.messages if "install-abcde" in text]


@pytest.mark.parametrize("approval", ["Automatic", "Manual"])
def test_an_installed_version_needs_no_approval(
    approval: str, local_environment: None, logged: pytest.LogCaptureFixture
) -> None:
    run("olm", operator={"approval": approval})
    assert not [text for text in logged.messages if "install-abcde" in text]


@pytest.mark.parametrize(
    ("catalog", "expected"),
    [
        ({"address": "registry:50051"}, {"address": "registry:50051"}),
        (
            {"image": "quay.io/example/index:1"},
            {"image": "quay.io/example/index:1", "grpcPodConfig": {"securityContextConfig": "restricted"}},
        ),
    ],
    ids=["address", "image"],
)
def test_catalog_brings_its_source_and_subscribes_to_ours_from_it(
    catalog: dict[str, str], expected: dict[str, Any], preview: bool, local_environment: None
) -> None:
    graph = run("catalog", preview=preview, operator={"catalog": catalog})
    source, subscription = graph.only("CatalogSource"), graph.only("Subscription")
    assert {"sourceType": "grpc", **expected}.items() <= source.manifest["spec"].items()
    assert subscription.manifest["spec"]["name"] == OURS
    assert subscription.manifest["spec"]["source"] == source.object_name
    assert subscription.manifest["spec"]["sourceNamespace"] == NAMESPACE
    assert source.urn in graph.before(subscription)
    gate = source.manifest["metadata"]["annotations"]["pulumi.com/waitFor"]
    assert gate == "jsonpath={.status.connectionState.lastObservedState}=READY"


def test_optional_objects_can_be_switched_off(preview: bool, local_environment: None) -> None:
    nothing = dict.fromkeys(
        ("priorityClass", "networkPolicy", "flowSchemas", "serviceMonitor", "prometheusRule"), False
    )
    graph = run("direct", preview=preview, optionalObjects=nothing)
    optional = {"PriorityClass", "NetworkPolicy", "FlowSchema", "ServiceMonitor", "PrometheusRule"}
    assert not optional & kinds(graph)
    everything = run("direct", preview=preview, optionalObjects=dict.fromkeys(nothing, True))
    assert optional <= kinds(everything)
    assert "priorityClassName" not in graph.only("Deployment").manifest["spec"]["template"]["spec"]


def test_the_resource_lists_the_optional_objects_that_the_operator_must_not_create(local_environment: None) -> None:
    assert "without" not in run("manifests").only("SecondaryScheduler").manifest["spec"]
    nothing = {"networkPolicy": False, "flowSchemas": False, "serviceMonitor": False, "priorityClass": False}
    spec = run("manifests", optionalObjects=nothing).only("SecondaryScheduler").manifest["spec"]
    assert sorted(spec["without"]) == ["FlowSchema", "NetworkPolicy", "ServiceMonitor"]
    assert "priorityClassName" not in spec


@pytest.mark.parametrize("mode", ["manifests", "direct"])
def test_a_manual_installation_is_adopted_if_the_stack_asks_for_it(
    mode: str, preview: bool, local_environment: None, logged: pytest.LogCaptureFixture
) -> None:
    switches = {"upsertExistingObjects": "true"}
    refusing, adopting = run(mode, preview=preview), run(mode, preview=preview, adoptExisting="true")
    (before,), (after,) = (
        [each for each in graph.resources if each.type == PROVIDER_TYPE] for graph in (refusing, adopting)
    )
    assert not switches.keys() & before.inputs.keys()
    assert after.inputs == before.inputs | switches
    assert {each.urn for each in adopting.objects} == {each.urn for each in refusing.objects}
    assert [text for text in logged.messages if text.startswith("adoptExisting: ")]


FORCE = "pulumi.com/patchForce"
UNTUNED = {
    *("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "PriorityClass"),
}


def forced(graph: Graph) -> set[str]:
    return {
        f"{each.manifest['kind']}/{each.manifest['metadata']['name']}"
        for each in graph.objects
        if (each.manifest["metadata"].get("annotations") or {}).get(FORCE) == "true"
    }


@pytest.mark.parametrize("mode", ["manifests", "direct", "none"])
def test_what_nobody_tunes_is_applied_with_force_and_nothing_else(
    mode: str, preview: bool, local_environment: None
) -> None:
    graph = run(mode, preview=preview)
    expected = {
        f"{each.manifest['kind']}/{each.manifest['metadata']['name']}"
        for each in graph.objects
        if each.manifest["kind"] in UNTUNED
    }
    assert forced(graph) == expected
    assert not {name.partition("/")[0] for name in expected} - UNTUNED


@pytest.mark.parametrize(
    ("mode", "name"),
    [
        ("manifests", "Deployment/secondary-scheduler-operator"),
        ("manifests", "SecondaryScheduler/cluster"),
        ("direct", "Deployment/secondary-scheduler"),
        pytest.param("direct", "FlowSchema/secondary-scheduler-leases", id="named while the update runs"),
    ],
)
def test_conflicts_of_a_named_object_are_forced(
    mode: str, name: str, preview: bool, local_environment: None, logged: pytest.LogCaptureFixture
) -> None:
    before, after = run(mode, preview=preview), run(mode, preview=preview, forceConflicts=[name])
    assert forced(after) == forced(before) | {name}
    assert [text for text in logged.messages if text.startswith("forceConflicts: ")]


@pytest.mark.parametrize("name", ["Deployment/other", "secondaryscheduler/cluster"])
def test_conflicts_of_an_object_that_is_not_there_cannot_be_forced(name: str, local_environment: None) -> None:
    with pytest.raises(pulumi.RunError, match=f"forceConflicts: this stack has no {name}; it has ClusterRole/"):
        run("manifests", preview=True, forceConflicts=[name])


@pytest.mark.parametrize("stack", ["prod", "local"])
def test_whether_crds_are_kept_is_a_setting_and_no_matter_of_the_stacks_name(
    stack: str, preview: bool, local_environment: None
) -> None:
    for kept, switch in ((False, {}), (True, {"retainCrds": "true"})):
        graph = run_program(stack_values("local") | switch, stack=stack, preview=preview, statuses=STATUS)
        definition = graph.only("CustomResourceDefinition")
        assert definition.retain_on_delete is kept
        assert not definition.protect


UPSTREAM_IMAGE = "quay.io/openshift/secondary-scheduler-operator:4.20"


def test_manifests_install_upstreams_operator_by_its_image_with_its_rights(
    preview: bool, local_environment: None
) -> None:
    select = {"operator": {"flavour": "upstream"}, "operatorImage": UPSTREAM_IMAGE, "compatibilityCheck": "off"}
    graph = run("manifests", preview=preview, **select)
    operator, _ = sorted(graph.of("Deployment"), key=lambda each: "spec" not in each.manifest)
    pod = operator.manifest["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert (container["image"], container["command"], container["args"]) == (UPSTREAM_IMAGE, [OURS], ["operator"])
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    bound = {
        each.manifest["roleRef"]["name"]
        for each in graph.of("ClusterRoleBinding")
        if each.manifest["subjects"][0]["name"] == OURS
    }
    assert bound == {OURS, *GO_CLUSTER_ROLES}, "one may only pass on what one holds"
    (own,) = [each.manifest["rules"] for each in graph.of("ClusterRole") if each.object_name == OURS]
    written = {resource for rule in own if "create" in rule["verbs"] for resource in rule["resources"]}
    assert {"deployments", "serviceaccounts", "clusterrolebindings", "servicemonitors"} <= written
    assert "secrets" not in written
    assert not [rule for rule in own if "*" in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}]
    before = graph.before(operator)
    rights = [each for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding") for each in graph.of(kind)]
    assert {each.urn for each in rights if each.name.startswith("secondary-scheduler-operator-")} <= before
    assert graph.only("CustomResourceDefinition").urn in before
    assert operator.urn in graph.before(graph.only("SecondaryScheduler"))
    scheduler_roles = {
        each.manifest["roleRef"]["name"]
        for each in graph.of("ClusterRoleBinding")
        if each.manifest["subjects"][0]["name"] == "secondary-scheduler"
    }
    assert BASE_CLUSTER_ROLE in scheduler_roles, "which upstream's operator does not bind"


@pytest.mark.parametrize("mode", ["manifests", "direct", "none", "catalog"])
def test_a_namespace_of_its_own_is_everywhere(mode: str, local_environment: None) -> None:
    """Scheduler, operator, what refers to them, and the names of what has no namespace itself."""
    graph = run(mode, namespace="team-a")
    for resource in graph.objects:
        assert NAMESPACE not in json.dumps(resource.manifest).replace(LEASE, ""), resource.urn
        assert resource.manifest["metadata"].get("namespace", "team-a") == "team-a", resource.urn
    assert {item.object_name for item in graph.of("Namespace")} == ({"team-a"} if mode != "none" else set())
    assert graph.outputs["scheduler"]["namespace"] == "team-a"


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"namespace": "kube-system"}, "belongs to the cluster"),
        ({"namespace": "default"}, "belongs to the cluster"),
        ({"namespace": "Team"}, "is not the name of a namespace"),
        ({"namespace": "team", "operator": {"flavour": "upstream"}}, f"serves namespace {NAMESPACE} only"),
    ],
)
def test_a_namespace_that_cannot_be_the_stacks_is_refused(
    settings: dict[str, Any], wrong: str, local_environment: None
) -> None:
    with pytest.raises(pulumi.RunError, match=wrong):
        run("manifests", **settings)
