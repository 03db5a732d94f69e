"""The rebalancer that `spec.rebalance` asks for: when it comes and goes, what it may do, and what is said of it."""

import copy
import json
from typing import Any

import pytest

from scheduler.config import read_rebalance_settings, read_rebalancer_spec
from secondary_scheduler.operator.reconcile import ApiFailure
from secondary_scheduler.rebalancer.options import parse_options
from tests.unit.operator.builders import (
    CONFIG,
    FOREIGN_IMAGE,
    HASH,
    IMAGE,
    NS,
    OTHER_CONFIG,
    OTHER_HASH,
    Instance,
    config_map,
    key_of,
    pod,
    scheduler,
)

NAME = "secondary-scheduler-rebalancer"
ROLE = "secondary-scheduler:rebalancer"
POLICY = "secondary-scheduler-evictions"
PREDICTIVE: dict[str, Any] = {"mode": "Predictive", "evictionLimits": {"total": 3}, "thresholds": {"cpu": 40}}
PREDICTIVE["targetThresholds"] = {"cpu": 70}
OBJECTS = {
    ("ServiceAccount", NAME),
    ("ConfigMap", f"{NAME}-settings"),
    ("Role", NAME),
    ("RoleBinding", NAME),
    ("ClusterRoleBinding", ROLE),
    ("NetworkPolicy", NAME),
    ("Service", NAME),
    ("ValidatingAdmissionPolicy", POLICY),
    ("ValidatingAdmissionPolicyBinding", POLICY),
    ("Deployment", NAME),
}


def made(world: Instance) -> set[tuple[str, str]]:
    return {(key.kind, key.name) for key in world.objects if "rebalancer" in key.name or key.name == POLICY}


def running(rebalance: Any = PREDICTIVE, **spec: Any) -> Instance:
    """A scheduler that runs, and a rebalancer whose pods are there as far as one was made."""
    world = Instance(scheduler(rebalance=rebalance, **spec), config_map()).start()
    if key_of("Deployment", NAME) in world.objects:
        ready(world)
    return world


def ready(world: Instance) -> None:
    world.roll_out(operand=NAME, report=False)
    labels = world.get("Deployment", NAME)["spec"]["template"]["metadata"]["labels"]
    its_pod = pod({"phase": "Running"}, f"{NAME}-abc")
    its_pod["metadata"]["labels"] = labels
    world.put(its_pod)
    world.settle()


def container(world: Instance) -> dict[str, Any]:
    (only,) = world.get("Deployment", NAME)["spec"]["template"]["spec"]["containers"]
    return dict(only)


@pytest.mark.parametrize("rebalance", [None, {"mode": "Off"}, {"mode": "Off", "minReplicas": 3}])
def test_without_it_nothing_is_made_and_nothing_is_said(rebalance: Any) -> None:
    world = running(rebalance)
    assert made(world) == set()
    assert "rebalancer" not in world.resource["status"]
    types = {condition["type"] for condition in world.resource["status"]["conditions"]}
    assert not types & {"RebalancerReady", "Rebalancing"}


def test_it_comes_once_the_scheduler_runs() -> None:
    world = Instance(scheduler(rebalance=PREDICTIVE), config_map())
    world.settle()
    assert made(world) == set()
    assert world.condition("RebalancerReady")[:2] == ("False", "WaitingForScheduler")
    world.roll_out()
    world.settle()
    assert made(world) == OBJECTS
    assert world.condition("RebalancerReady")[:2] == ("False", "Starting")
    assert "settingsHash" not in world.resource["status"]["rebalancer"]
    ready(world)
    assert world.condition("RebalancerReady")[:2] == ("True", "AsExpected")
    expected = read_rebalancer_spec(PREDICTIVE).hash
    assert world.resource["status"]["rebalancer"] == {"mode": "Predictive", "settingsHash": expected}


def test_it_runs_as_the_program_would_run_it() -> None:
    world = running()
    options = parse_options(container(world)["args"], {})
    assert (container(world)["image"], options.name, options.mode) == (IMAGE, NAME, "Predictive")
    assert options.scheduler == ("$(POD_NAMESPACE)", "secondary-scheduler")
    settings = json.loads(world.get("ConfigMap", f"{NAME}-settings")["data"]["rebalance.yaml"])
    assert read_rebalance_settings(settings).eviction_limits.total == 3
    assert "mode" not in settings
    volumes = {each["name"]: each for each in world.get("Deployment", NAME)["spec"]["template"]["spec"]["volumes"]}
    assert volumes["etckubernetes"]["configMap"]["name"] == f"secondary-scheduler-active-{HASH}"


def test_the_policy_follows_the_names_of_the_configuration() -> None:
    world = running(rollout={"canary": False})
    (rule,) = world.get("ValidatingAdmissionPolicy", POLICY)["spec"]["validations"]
    assert '["secondary-scheduler"]' in rule["expression"]
    world.put(config_map(CONFIG.replace("schedulerName: secondary-scheduler", "schedulerName: other")))
    world.settle()
    (rule,) = world.get("ValidatingAdmissionPolicy", POLICY)["spec"]["validations"]
    assert '["other"]' in rule["expression"]
    binding = world.get("ValidatingAdmissionPolicyBinding", POLICY)["spec"]
    assert (binding["policyName"], binding["validationActions"]) == (POLICY, ["Deny"])


def test_it_has_no_rights_without_its_policy() -> None:
    world = Instance(scheduler(rebalance=PREDICTIVE), config_map()).start()
    named = ((obj["metadata"]["name"], obj) for obj in world.objects.values())
    world = Instance(world.resource, *(obj for name, obj in named if "rebalancer" not in name and name != POLICY))
    plan = world.plan()
    required = {action.key.kind: set(action.requires) for action in plan.actions if hasattr(action, "requires")}
    policies = {key_of(kind, POLICY) for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")}
    assert policies <= required["ClusterRoleBinding"]
    order = [str(action.key) for action in plan.actions]
    assert order.index(f"ValidatingAdmissionPolicy {POLICY}") < order.index(f"ClusterRoleBinding {ROLE}")
    deployments = [action for action in plan.actions if action.key == key_of("Deployment", NAME)]
    assert {*policies, key_of("ClusterRoleBinding", ROLE)} <= set(deployments[0].requires)  # type: ignore[union-attr]


def test_another_setting_rolls_it_out_and_leaves_the_scheduler_alone() -> None:
    world = running()
    before = copy.deepcopy(world.get("Deployment", "secondary-scheduler"))
    world.edit(rebalance={**PREDICTIVE, "minReplicas": 4})
    world.settle()
    assert world.get("Deployment", "secondary-scheduler") == before
    assert world.condition("RebalancerReady")[:2] == ("False", "Starting")
    assert world.condition("Progressing")[0] == "False"
    # What was in effect stays so until the new one runs.
    assert world.resource["status"]["rebalancer"]["settingsHash"] == read_rebalancer_spec(PREDICTIVE).hash
    ready(world)
    assert world.condition("RebalancerReady")[0] == "True"


def test_it_follows_the_revision_that_the_scheduler_runs() -> None:
    world = running()
    world.put(config_map(OTHER_CONFIG))
    world.settle()

    def mounted() -> str:
        volumes = world.get("Deployment", NAME)["spec"]["template"]["spec"]["volumes"]
        return str(next(each["configMap"]["name"] for each in volumes if each["name"] == "etckubernetes"))

    assert mounted() == f"secondary-scheduler-active-{HASH}", "the canary is still proving the other one"
    world.prove()
    world.settle()
    assert mounted() == f"secondary-scheduler-active-{OTHER_HASH}"
    world.roll_out()
    world.settle()
    # Its old pod still mounts the old one.
    assert made(world) >= OBJECTS
    assert key_of("ClusterRoleBinding", ROLE) in world.objects


@pytest.mark.parametrize("rebalance", [None, {"mode": "Off"}])
def test_it_goes_with_the_field_and_its_policy_goes_last(rebalance: Any) -> None:
    world = running()
    world.put({**config_map("{}", NAME), "data": {"status.json": "{}"}})
    world.edit(rebalance=rebalance)
    world.settle()
    # A pod is left, which may have been asked to end only.
    assert made(world) - {("Pod", f"{NAME}-abc"), ("ConfigMap", NAME)} == OBJECTS - {
        ("Deployment", NAME),
        ("ClusterRoleBinding", ROLE),
    }
    assert world.condition("RebalancerReady")[:2] == ("False", "Removing")
    world.drop("Pod", f"{NAME}-abc")
    world.settle()
    assert made(world) == {("ConfigMap", NAME)}, "its status stays: cooldowns and limits hold if it comes back"
    assert "rebalancer" not in world.resource["status"]


@pytest.mark.parametrize("way", ["deleted", "removed"])
def test_nothing_of_it_is_left_without_the_scheduler(way: str) -> None:
    world = running()
    world.put({**config_map("{}", NAME), "data": {"status.json": "{}"}})
    if way == "deleted":
        world.delete()
    else:
        world.edit(managementState="Removed")
    world.settle()
    assert key_of("ValidatingAdmissionPolicy", POLICY) in world.objects
    world.drop("Pod", f"{NAME}-abc")
    world.settle()
    assert made(world) == set()


def test_that_of_a_stack_is_let_go_first() -> None:
    """The stack deletes its objects at the end of the update, by their names."""
    foreign = {"metadata": {"name": NAME, "namespace": NS, "uid": "theirs", "labels": {"app": NAME}}, "spec": {}}
    world = Instance(scheduler(), config_map()).start()
    world.put({"apiVersion": "apps/v1", "kind": "Deployment", **copy.deepcopy(foreign)})
    world.put({"apiVersion": "v1", "kind": "ServiceAccount", **copy.deepcopy(foreign)})
    before = set(world.objects)
    world.edit(rebalance=PREDICTIVE)
    world.settle()
    assert set(world.objects) == before
    assert world.condition("RebalancerReady")[:2] == ("False", "HandingOver")
    # The update may go on, and delete them.
    assert world.resource["status"]["rebalancer"]["settingsHash"] == read_rebalancer_spec(PREDICTIVE).hash
    world.drop("Deployment", NAME)
    world.settle()
    assert set(world.objects) < before
    world.drop("ServiceAccount", NAME)
    world.settle()
    assert made(world) == OBJECTS


@pytest.mark.parametrize("way", ["off", "deleted"])
def test_that_of_a_stack_is_not_taken_away(way: str) -> None:
    world = Instance(scheduler(rebalance={"mode": "Off"}), config_map()).start()
    theirs = {"metadata": {"name": NAME, "namespace": NS, "uid": "theirs", "labels": {"app": NAME}}}
    world.put({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {}, **theirs}, config_map("{}", NAME))
    if way == "deleted":
        world.delete()
    world.settle()
    assert {("Deployment", NAME), ("ConfigMap", NAME)} <= made(world)


@pytest.mark.parametrize(
    ("rebalance", "spec", "reason", "words"),
    [
        ({"mode": "Predictive", "minReplicas": 0}, {}, "SettingsInvalid", "spec.rebalance.minReplicas: must be at"),
        ({"mode": "Predictive"}, {"schedulerImage": FOREIGN_IMAGE}, "NotPossible", "needs this project's scheduler"),
        ({"mode": "Predictive"}, {"configPolicy": "PassThrough"}, "NotPossible", "remove configPolicy PassThrough"),
    ],
)
def test_what_cannot_work_is_said_and_concerns_the_scheduler_in_nothing(
    rebalance: Any, spec: dict[str, Any], reason: str, words: str
) -> None:
    world = running(rebalance, **spec)
    status, actual, message = world.condition("RebalancerReady")
    assert (status, actual) == ("False", reason)
    assert words in message
    assert made(world) == set()
    assert world.condition("Available")[0] == "True"
    assert world.condition("Degraded")[0] == "False"
    assert [event for event in world.events if event[0].startswith("Rebalancer")] == []


def test_an_invalid_setting_leaves_the_running_one() -> None:
    world = running()
    world.edit(rebalance={"mode": "Predictive", "minReplicas": 0})
    world.settle()
    assert made(world) >= OBJECTS
    assert world.condition("RebalancerReady")[1] == "SettingsInvalid"
    assert [reason for reason, _ in world.events if reason == "RebalancerSettingsInvalid"]


def test_missing_rights_are_its_own_problem() -> None:
    world = Instance(scheduler(rebalance=PREDICTIVE), config_map())
    refused = ApiFailure(403, "attempting to grant RBAC permissions not currently held")
    world.observed_fields["failures"] = {key_of("ClusterRoleBinding", ROLE): refused}
    world.start()
    status, reason, message = world.condition("RebalancerReady")
    assert (status, reason) == ("False", "Forbidden")
    assert "operator.rebalancers" in message
    assert world.condition("Degraded")[0] == "False"


def test_without_the_kind_of_its_policy_it_runs_only_where_that_is_accepted() -> None:
    kinds = frozenset({"ServiceMonitor", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
    world = Instance(scheduler(rebalance=PREDICTIVE), config_map(), unserved=kinds).start()
    assert made(world) == set()
    assert world.condition("RebalancerReady")[1] == "PolicyNotServed"
    world.edit(without=["ValidatingAdmissionPolicy"])
    world.settle()
    assert made(world) == {each for each in OBJECTS if "Policy" not in each[0]} | {("NetworkPolicy", NAME)}


def test_optional_objects_go_where_they_are_not_wanted() -> None:
    world = running()
    world.edit(without=["ValidatingAdmissionPolicy", "NetworkPolicy"])
    world.settle()
    assert {kind for kind, _ in made(world) if "Policy" in kind} == set()


def test_its_ports_are_reached_from_the_namespaces_that_may_reach_the_schedulers() -> None:
    world = running(scrapeNamespaces=["monitoring"])
    policies = [world.get("NetworkPolicy", name)["spec"] for name in (NAME, "secondary-scheduler")]
    # A scheduler's replicas reach each other, too.
    assert [len(policy["ingress"]) for policy in policies] == [1, 2]
    peers = [policy["ingress"][0]["from"] for policy in policies]
    assert peers[0] == peers[1]
    assert "'values': ['monitoring']" in str(peers[0])
    world.edit(scrapeNamespaces=[])
    world.settle()
    (rule,) = world.get("NetworkPolicy", NAME)["spec"]["ingress"]
    assert "from" not in rule


def test_its_metrics_are_scraped_where_the_schedulers_are() -> None:
    world = Instance(scheduler(rebalance=PREDICTIVE), config_map(), unserved=frozenset()).start()
    ready(world)
    (port,) = world.get("Service", NAME)["spec"]["ports"]
    monitor = world.get("ServiceMonitor", NAME)["spec"]
    (endpoint,) = monitor["endpoints"]
    assert (endpoint["port"], endpoint["scheme"], endpoint["path"]) == (port["name"], "https", "/metrics")
    assert monitor["namespaceSelector"] == {"matchNames": [NS]}
    assert monitor["selector"]["matchLabels"].items() <= world.get("Service", NAME)["metadata"]["labels"].items()
    of_pods = world.get("Deployment", NAME)["spec"]["template"]["metadata"]["labels"]
    assert world.get("Service", NAME)["spec"]["selector"].items() <= of_pods.items()
    (health, metrics) = container(world)["ports"]
    assert (health["name"], metrics["containerPort"]) == ("health", port["targetPort"])
    # Nobody takes the one for the other.
    theirs = world.get("ServiceMonitor", "secondary-scheduler")["spec"]["selector"]["matchLabels"]
    assert theirs != monitor["selector"]["matchLabels"]
    world.edit(without=["ServiceMonitor"])
    world.settle()
    assert not world.names("ServiceMonitor")
    world.edit(without=[], rebalance=None)
    world.drop("Pod", f"{NAME}-abc")
    world.settle()
    assert NAME not in world.names("ServiceMonitor")
    assert made(world) == set()


def test_without_its_metrics_it_runs_all_the_same() -> None:
    world = Instance(scheduler(rebalance=PREDICTIVE), config_map(), unserved=frozenset())
    refused = ApiFailure(403, "it is forbidden")
    world.observed_fields["failures"] = {key_of("ServiceMonitor", NAME): refused}
    world.start()
    ready(world)
    assert world.condition("RebalancerReady")[1] != "Forbidden"
    assert world.get("Deployment", NAME)


def test_an_unmanaged_instance_keeps_what_it_has() -> None:
    world = running()
    world.edit(managementState="Unmanaged", rebalance=None)
    world.settle()
    assert made(world) >= OBJECTS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ("Unknown", "NotReported")),
        ("{", ("Unknown", "NotReported")),
        ("[" * 100_000, ("Unknown", "NotReported")),
        ('{"conditions": "none", "effectiveMode": {}}', ("Unknown", "NotReported")),
        ('{"conditions": [{"type": "Rebalancing", "status": "True", "reason": "Balanced"}]}', ("True", "Balanced")),
        ('{"conditions": [7, {"type": "Rebalancing", "status": "False", "reason": "noLoad"}]}', ("False", "noLoad")),
    ],
)
def test_its_own_condition_is_shown_whatever_is_in_its_status(text: str, expected: tuple[str, str]) -> None:
    world = running()
    world.put({**config_map("", NAME), "data": {"status.json": text}})
    world.settle()
    assert world.condition("Rebalancing")[:2] == expected


def test_the_mode_in_effect_is_shown() -> None:
    world = running({**PREDICTIVE, "mode": "Automatic"})
    world.put({**config_map("", NAME), "data": {"status.json": json.dumps({"effectiveMode": "Predictive"})}})
    world.settle()
    status = world.resource["status"]["rebalancer"]
    assert (status["mode"], status["effectiveMode"]) == ("Automatic", "Predictive")


def test_instances_have_their_own() -> None:
    world = Instance(scheduler(rebalance=PREDICTIVE), config_map())
    world.resource["metadata"]["name"] = "gpu"
    world.start_named("secondary-scheduler-gpu")
    own = "secondary-scheduler-gpu-rebalancer"
    assert key_of("Deployment", own) in world.objects
    assert f"{NS}.secondary-scheduler-gpu-evictions" in world.names("ValidatingAdmissionPolicy")
