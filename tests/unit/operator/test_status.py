"""What the status says beyond the four conditions: the last roll-out, warnings, and configurations handed on unseen."""

import pytest

from scheduler.config import configuration_hash, flavour_of
from secondary_scheduler.operator.reconcile.configuration import content_hash, unchecked
from secondary_scheduler.operator.reconcile.platform import kubernetes_mismatch
from tests.unit.operator.builders import (
    BAD_CONFIG,
    CONFIG,
    FOREIGN_IMAGE,
    HASH,
    IMAGE,
    OTHER_CONFIG,
    OTHER_HASH,
    Instance,
    config_map,
    scheduler,
)


def running(text=CONFIG, **spec):
    return Instance(scheduler(**spec), config_map(text)).start()


def last(world):
    return world.resource["status"]["lastRollout"]


def outcome(world):
    return last(world)["outcome"], world.condition("Upgradeable")[:2]


def test_a_roll_out_is_reported_from_its_beginning_to_its_end():
    world = Instance(scheduler(), config_map())
    world.settle()
    assert outcome(world) == ("InProgress", ("False", "RollingOut"))
    world.wait(5)
    world.roll_out()
    world.settle()
    assert outcome(world) == ("Succeeded", ("True", "AsExpected"))
    assert last(world) | {"message": ""} == {
        "configurationHash": HASH,
        "image": IMAGE,
        "outcome": "Succeeded",
        "message": "",
        "time": "2026-11-21T12:00:05Z",
    }


def test_a_canary_is_part_of_the_roll_out_and_its_failure_the_end():
    world = running()
    world.put(config_map(OTHER_CONFIG))
    world.settle()
    assert outcome(world) == ("InProgress", ("False", "RollingOut"))
    assert last(world)["configurationHash"] == OTHER_HASH
    world.wait(181)
    world.settle()
    assert outcome(world) == ("CanaryFailed", ("False", "CanaryFailed"))
    assert "not proven within 180 s" in last(world)["message"]
    world.put(config_map(CONFIG))
    world.settle()
    assert outcome(world) == ("Succeeded", ("True", "AsExpected"))


def test_going_back_is_a_failure_though_the_former_one_runs():
    world = running(rollout={"canary": False})
    world.edit(schedulerImage=IMAGE.replace("0.1.0", "0.2.0"))
    world.settle()
    world.wait(181)
    world.settle()
    world.roll_out()
    world.settle()
    assert outcome(world) == ("RolledBack", ("False", "RolledBack"))
    assert last(world)["image"].endswith("0.2.0")


@pytest.mark.parametrize("state", ["Unmanaged", "Removed"])
def test_where_nothing_is_decided_the_last_roll_out_stays_reported(state):
    world = running()
    before = last(world)
    world.wait(100)
    world.edit(managementState=state)
    world.settle()
    assert last(world) == before
    assert world.condition("Upgradeable")[0] == "True"


def test_a_bad_configuration_is_no_roll_out():
    world = running()
    before = last(world)
    world.put(config_map(BAD_CONFIG))
    world.settle()
    assert last(world) == before


PLUGINS = "registry.k8s.io/scheduler-plugins/kube-scheduler:v0."


@pytest.mark.parametrize(
    ("image", "minor", "warned"),
    [
        (f"{PLUGINS}33.5", 34, False),
        (f"{PLUGINS}34.7", 34, False),
        (f"{PLUGINS}35.7", 34, True),
        (f"{PLUGINS}29.8", 34, True),
        (IMAGE, 34, False),
        (IMAGE, 31, True),
        (IMAGE, 37, True),
        ("example.com/mine:1", 40, False),
        (f"{PLUGINS}35.7", None, False),
        ("", 34, False),
    ],
)
def test_an_image_of_another_kubernetes_is_a_warning_and_no_more(image, minor, warned):
    assert bool(kubernetes_mismatch(image, flavour_of(image), minor)) is warned


def test_warnings_stand_in_the_condition_and_block_nothing():
    world = Instance(scheduler(schedulerImage=FOREIGN_IMAGE), config_map(), kubernetes_minor=36).start()
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("False", "AsExpected")
    assert "is built for Kubernetes 1.34, and this cluster runs 1.36" in message
    assert world.condition("Available")[0] == "True"


@pytest.mark.parametrize(
    ("spec", "keys"),
    [
        ("{leaderElect: false}", "leaderElection.leaderElect in config.yaml has"),
        ("{leaseDuration: 60s, renewDeadline: 10s}", "leaderElection.leaseDuration in config.yaml has"),
        ("{leaseDuration: 60s, resourceName: x}", "leaderElection.leaseDuration, leaderElection.resourceName in"),
        ("{leaderElect: true, leaseDuration: 15s}", ""),
        ("{leaseDuration: 0.25m}", ""),
    ],
)
def test_keys_that_the_flags_overrule_are_named(spec, keys):
    world = running(CONFIG + f"leaderElection: {spec}\n")
    message = world.condition("Degraded")[2]
    assert keys in message
    assert ("no effect" in message) is bool(keys)
    assert world.condition("Degraded")[0] == "False"


def test_timings_that_cannot_be_read_are_no_reason_to_stop():
    world = running(CONFIG + "leaderElection: {leaseDuration: 60s}\n", leaderElection={"retryPeriod": "soon"})
    assert world.condition("Degraded")[0] == "False"


class TestPassThrough:
    def test_hands_on_what_would_be_refused(self):
        world = running(BAD_CONFIG, configPolicy="PassThrough")
        copy = world.get("ConfigMap", f"secondary-scheduler-active-{configuration_hash(BAD_CONFIG)}")
        assert copy["data"]["config.yaml"] == BAD_CONFIG
        assert world.condition("Degraded")[0] == "False"
        assert world.resource["status"]["schedulerNames"] == ["secondary-scheduler"]

    def test_binds_the_roles_of_the_plugins_that_are_named_or_enabled_by_default(self):
        world = running(BAD_CONFIG, configPolicy="PassThrough")
        bindings = world.names("ClusterRoleBinding")
        assert "secondary-scheduler:plugin:targetloadpacking" in bindings
        assert "secondary-scheduler:plugin:volumebinding" in bindings
        assert "secondary-scheduler:plugin:coscheduling" not in bindings

    def test_still_proves_what_has_profiles(self):
        world = running(configPolicy="PassThrough")
        world.put(config_map(BAD_CONFIG))
        world.settle()
        assert world.condition("Progressing")[1] == "Proving"
        world.prove()
        world.settle()
        world.roll_out()
        world.settle()
        assert world.resource["status"]["configurationHash"] == configuration_hash(BAD_CONFIG)

    def test_takes_what_is_not_even_yaml(self):
        world = running("a: [1", configPolicy="PassThrough")
        assert world.resource["status"]["configurationHash"] == content_hash("a: [1")
        assert unchecked("a: [1").scheduler_names == ()
        world.put(config_map("a: [2"))
        world.settle()
        world.roll_out()
        world.settle()
        assert world.resource["status"]["configurationHash"] == content_hash("a: [2")

    def test_withdrawn_keeps_what_runs(self):
        world = running(BAD_CONFIG, configPolicy="PassThrough")
        before = world.get("Deployment", "secondary-scheduler")
        world.edit(configPolicy="Validate")
        world.settle()
        assert world.condition("Degraded")[1] == "ConfigInvalid"
        assert world.get("Deployment", "secondary-scheduler") == before
