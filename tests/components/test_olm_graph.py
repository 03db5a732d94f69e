"""What the program registers with OLM, and with an existing operator: parents, order, secrets, roles."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from components.scheduler_roles import bundled_role
from scheduler.catalog import GO_CLUSTER_ROLES, METRICS_READER_CLUSTER_ROLE, shipped_cluster_roles
from tests.components.conftest import CANARY_TOKEN
from tests.components.graph import (
    PROVIDER_TYPE,
    STATUS,
    Graph,
    Registered,
    clear_values,
    is_secret,
    run_program,
    stack_values,
)

NAMESPACE = "openshift-secondary-scheduler-operator"
VARIANTS: dict[str, dict[str, Any]] = {
    "olm": {"installMode": "olm", "operator": {}},
    "olm-ours": {"installMode": "olm", "operator": {"flavour": "ours", "readySeconds": 77}},
    "catalog-image": {"installMode": "catalog", "operator": {"catalog": {"image": "quay.io/example/index:1"}}},
    "catalog-address": {
        "installMode": "catalog",
        "operator": {"catalog": {"address": "registry:50051"}, "readySeconds": 77},
    },
    "none": {"installMode": "none", "operator": {}},
}
THROUGH_OLM = [name for name in VARIANTS if name != "none"]
WITH_OUR_BUNDLE = ["olm-ours", "catalog-image", "catalog-address"]
PARENTS = {
    "Namespace": "Namespace",
    "CatalogSource": "CatalogSource",
    "OperatorGroup": "OlmOperator",
    "Subscription": "OlmOperator",
    "InstallPlan": "OlmOperator",
    "ClusterServiceVersion": "OlmOperator",
    "ClusterRole": "SchedulerRoles",
    "ClusterRoleBinding": "SchedulerRoles",
    "Secret": "MetricCredentials",
    "PriorityClass": "SchedulerPriority",
    "ValidatingAdmissionPolicy": "AdmissionPolicies",
    "NetworkPolicy": "OperatorNetwork",
    "ValidatingAdmissionPolicyBinding": "AdmissionPolicies",
    "SecondaryScheduler": "SecondaryScheduler",
    "Deployment": "OperandRollout",
}
ORDER = ["OperatorGroup", "Subscription", "InstallPlan", "ClusterServiceVersion", "SecondaryScheduler"]


@pytest.fixture(scope="module", params=[False, True], ids=["update", "preview"])
def preview(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def graphs(preview: bool, local_environment: None) -> dict[str, Graph]:
    return {name: run(settings, preview) for name, settings in VARIANTS.items()}


def run(settings: dict[str, Any], preview: bool) -> Graph:
    values = {key: value if isinstance(value, str) else json.dumps(value) for key, value in settings.items()}
    return run_program(stack_values("local") | values, preview=preview, statuses=STATUS)


def kind(resource: Registered) -> str:
    return resource.type.rpartition(":")[2]


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_object_has_the_component_of_its_purpose_for_a_parent(graphs: dict[str, Graph], variant: str) -> None:
    graph = graphs[variant]
    components = {each.urn: kind(each) for each in graph.resources if ":components:" in each.type}
    placed = {(kind(each), components[each.parent]) for each in graph.objects if kind(each) != "ConfigMap"}
    assert placed <= set(PARENTS.items())
    records = {components[each.parent] for each in graph.of("ConfigMap")}
    assert records == {"InstallationRecord", "SchedulerConfiguration"}


@pytest.mark.parametrize("variant", THROUGH_OLM)
def test_each_step_of_olm_waits_for_the_previous_one(graphs: dict[str, Graph], variant: str) -> None:
    graph = graphs[variant]
    for earlier, later in itertools.pairwise(ORDER):
        assert graph.only(earlier).urn in graph.before(graph.only(later)), (earlier, later)
    assert graph.only("Namespace").urn in graph.before(graph.only("OperatorGroup"))
    for role in [*graph.of("ClusterRole"), *graph.of("CatalogSource")]:
        assert role.urn in graph.before(graph.only("Subscription")), "OLM finds it there, and leaves before it"


@pytest.mark.parametrize("variant", ["olm", "none"])
def test_only_a_custom_catalogue_is_created(graphs: dict[str, Graph], variant: str) -> None:
    assert not graphs[variant].of("CatalogSource")
    assert graphs["catalog-image"].of("CatalogSource")
    assert graphs["catalog-address"].of("CatalogSource")


@pytest.mark.parametrize("variant", WITH_OUR_BUNDLE)
def test_the_roles_of_our_bundle_are_the_stacks_as_olm_writes_them(graphs: dict[str, Graph], variant: str) -> None:
    graph = graphs[variant]
    cluster_roles = {each.object_name: each.manifest for each in graph.of("ClusterRole")}
    assert cluster_roles == {name: bundled_role(name, rules) for name, rules in shipped_cluster_roles().items()}
    assert not graph.of("ClusterRoleBinding"), "the operator makes them"


def test_with_upstreams_operator_the_stack_makes_the_roles_of_the_plugins_and_binds_them(
    graphs: dict[str, Graph],
) -> None:
    graph = graphs["olm"]
    cluster_roles = {each.object_name for each in graph.of("ClusterRole")}
    assert {"secondary-scheduler:base", METRICS_READER_CLUSTER_ROLE} < cluster_roles < set(shipped_cluster_roles())
    assert {each.manifest["roleRef"]["name"] for each in graph.of("ClusterRoleBinding")} == cluster_roles - {
        METRICS_READER_CLUSTER_ROLE
    }
    assert not cluster_roles & set(GO_CLUSTER_ROLES)
    assert {
        each.manifest["metadata"]["labels"]["app.kubernetes.io/managed-by"] for each in graph.of("ClusterRole")
    } == {"pulumi"}


def test_a_switch_between_modes_keeps_the_roles_that_both_have(local_environment: None) -> None:
    """The same resource, under the same provider, with the same object's name: an update in place at most."""
    identities = {}
    for name, settings in {
        "manifests": {"installMode": "manifests"},
        "direct": {"installMode": "direct"},
        **VARIANTS,
    }.items():
        graph = run(settings, preview=False)
        identities[name] = {each.object_name: (each.urn, each.provider) for each in graph.of("ClusterRole")}
    every = identities["catalog-address"]
    for name in (*WITH_OUR_BUNDLE, "olm", "direct"):
        assert identities[name].items() <= every.items(), name
        assert identities[name]
    # With manifests the bundle does not bring the roles of plugins that are not enabled, nor does the stack.
    manifests = {name: identity for name, identity in identities["manifests"].items() if name in every}
    assert manifests.items() <= every.items()
    assert identities["direct"].keys() <= manifests.keys()
    assert not identities["none"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_token_is_a_secret_and_nowhere_in_clear(graphs: dict[str, Graph], variant: str) -> None:
    graph = graphs[variant]
    secret = graph.only("Secret")
    assert is_secret(secret.inputs["stringData"]) or all(is_secret(v) for v in secret.inputs["stringData"].values())
    assert {"data", "stringData"} <= secret.secret_outputs
    for inputs in [*(each.inputs for each in graph.resources), graph.outputs]:
        assert not [value for value in clear_values(inputs) if CANARY_TOKEN in str(value)]


@pytest.mark.parametrize("variant", THROUGH_OLM)
def test_how_long_olm_may_take_can_be_set(graphs: dict[str, Graph], variant: str) -> None:
    expected = {
        "olm": {"Subscription": "600s", "InstallPlan": "600s", "ClusterServiceVersion": "600s"},
        "catalog-image": {"CatalogSource": "300s", "Subscription": "600s"},
    }.get(variant, dict.fromkeys(("Subscription", "InstallPlan", "ClusterServiceVersion"), "77s"))
    graph = graphs[variant]
    for name, seconds in expected.items():
        assert graph.only(name).timeouts == {"create": seconds, "update": seconds, "delete": "3m"}, name


def test_approval_may_take_an_hour(local_environment: None) -> None:
    graph = run({"installMode": "olm", "operator": {"approval": "Manual"}}, preview=False)
    assert graph.only("InstallPlan").timeouts["create"] == "3600s"


def test_where_an_operator_is_there_nothing_of_olm_is_touched(graphs: dict[str, Graph]) -> None:
    graph = graphs["none"]
    assert not [each for each in graph.objects if "operators.coreos.com" in each.type]
    assert [each.name for each in graph.resources if each.type == PROVIDER_TYPE] == ["cluster"]
    assert not graph.of("Namespace"), "it is the operator's"
    for each in graph.objects:
        namespace = each.manifest["metadata"].get("namespace")
        assert namespace == NAMESPACE or kind(each) == "PriorityClass"
