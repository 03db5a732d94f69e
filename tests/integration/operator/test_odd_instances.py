"""Instances that are not what one expects: each is reported, and the others go on."""

import pytest

from scheduler.config import configuration_hash
from tests.support.waiting import eventually
from tests.unit.operator.builders import CONFIG, IMAGE

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("clean")]

# Of an instance that the install does not know.
REFUSED = (
    *("clusterrolebindings", "flowschemas", "leases", "networkpolicies", "rolebindings", "roles"),
    *("serviceaccounts", "services"),
)
"""Objects of instances that the installation does not name."""
LONG = "x" * 253
IDENTITY = {"apiVersion": "operator.openshift.io/v1", "kind": "SecondaryScheduler"}
SPEC = {"schedulerConfig": "config", "schedulerImage": IMAGE}


@pytest.fixture
def create(api, operator, kubelet):
    """Makes an instance of any name, and sees that it goes away completely."""
    names = []

    def make(name, **spec):
        names.append(name)
        api.create("secondaryschedulers", name, **IDENTITY, spec={**SPEC, **spec})

    yield make
    for name in names:
        api.delete("secondaryschedulers", name)
    eventually(lambda: not api.names("secondaryschedulers"), "instances gone")
    left = {name for kind in ("deployments", "services", "serviceaccounts") for name in api.names(kind)}
    assert not [name for name in left if name.startswith(("secondary-scheduler-x", "secondary-scheduler-other"))]


def condition(api, instance, condition_type):
    status = (api.get("secondaryschedulers", instance) or {}).get("status") or {}
    matching = [condition for condition in status.get("conditions") or [] if condition["type"] == condition_type]
    return matching[0] if matching else {"status": "", "reason": "", "message": ""}


def degraded(api, instance, reason):
    eventually(lambda: condition(api, instance, "Degraded")["reason"] == reason, f"{instance[:20]} is {reason}")
    return condition(api, instance, "Degraded")["message"]


def event_of(api, instance, reason):
    def found_event():
        return any(e["involvedObject"]["name"] == instance and e["reason"] == reason for e in api.items("events"))

    eventually(found_event, f"event {reason}")


def test_a_name_of_253_characters_is_reported_and_the_other_instance_runs(api, create):
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    create("cluster")
    api.wait_for_hash(configuration_hash(CONFIG))
    create(LONG)
    message = degraded(api, LONG, "SchedulerNameTaken")
    assert f"{api.namespace}/cluster" in message
    event_of(api, LONG, "SchedulerNameTaken")
    other = CONFIG.replace("schedulerName: secondary-scheduler", "schedulerName: long")
    api.create("configmaps", "other", data={"config.yaml": other})
    api.patch("secondaryschedulers", LONG, {"spec": {"schedulerConfig": "other"}})
    # The install gives rights to the bindings of one instance per namespace, and no more.
    assert "cannot be written" in degraded(api, LONG, "Forbidden")
    event_of(api, LONG, "Forbidden")
    assert api.condition("Degraded")["status"] == "False"
    assert api.condition("Available")["status"] == "True"
    api.delete("configmaps", "other")


def test_an_empty_spec_is_reported_with_everything_that_is_missing(api, create):
    create("other", schedulerConfig=None, schedulerImage=None)
    message = degraded(api, "other", "ConfigMapNotNamed")
    assert "spec.schedulerConfig is empty" in message
    assert "spec.schedulerImage is empty" in message
    event_of(api, "other", "ConfigMapNotNamed")
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    api.patch("secondaryschedulers", "other", {"spec": {"schedulerConfig": "config"}})
    assert "name the scheduler's image" in degraded(api, "other", "ImageMissing")
    event_of(api, "other", "ImageMissing")


def test_fields_that_the_crd_does_not_have_change_nothing_and_a_long_name_of_the_config_map_breaks_nothing(api, create):
    api.create("configmaps", LONG, data={"config.yaml": CONFIG})
    create("cluster", schedulerConfig=LONG, colour="blue", rollout={"canary": True, "speed": "fast"})
    api.wait_for_hash(configuration_hash(CONFIG))
    assert api.get("secondaryschedulers", "cluster")["spec"]["rollout"] == {"canary": True}
    assert api.condition("Degraded")["status"] == "False"
    api.delete("configmaps", LONG)


def test_arguments_that_are_the_operators_to_give_are_reported_and_what_runs_goes_on(api, create):
    api.create("configmaps", "config", data={"config.yaml": CONFIG})
    create("cluster")
    api.wait_for_hash(configuration_hash(CONFIG))
    before = api.get("deployments", "secondary-scheduler")["spec"]
    api.patch("secondaryschedulers", "cluster", {"spec": {"extraArgs": ["--leader-elect-resource-name=other"]}})
    assert "spec.extraArgs[0]: --leader-elect-resource-name" in degraded(api, "cluster", "SpecInvalid")
    event_of(api, "cluster", "SpecInvalid")
    api.delete("deployments", "secondary-scheduler")
    eventually(
        lambda: (api.get("deployments", "secondary-scheduler") or {}).get("spec") == before, "put right meanwhile"
    )
    api.wait_for("Available", "True")
