"""Several SecondarySchedulers side by side: names that never meet, and scheduler names that must not."""

import re

import pytest

from scheduler.catalog import LOAD_WATCHER_SUFFIX, OPERATOR_NAMESPACE, operand_name, page_name, rebalancer_name
from secondary_scheduler.operator.reconcile import ObjectKey
from secondary_scheduler.operator.reconcile.names import names_of
from tests.unit.operator.builders import CONFIG, HASH, NS, Instance, config_map, scheduler

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
NAMED_OTHERWISE = CONFIG.replace("schedulerName: secondary-scheduler", "schedulerName: batch")


def instance(name, namespace=NS, created="2026-11-21T10:00:00Z", **spec):
    resource = scheduler(**spec)
    resource["metadata"] |= {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": created}
    return resource


def created_names(world):
    return {(key.kind, key.name) for key in world.applied}


def test_the_instance_of_upstream_keeps_upstreams_names():
    names = names_of(OPERATOR_NAMESPACE, "cluster")
    assert names.operand == "secondary-scheduler"
    assert names.lease_role == "secondary-scheduler-operand"
    assert names.metrics_service == "metrics"
    assert names.serving_cert_secret == "secondary-scheduler-serving-cert"
    assert names.cluster_role_binding("secondary-scheduler:base") == "secondary-scheduler:base"


@pytest.mark.parametrize("name", ["gpu", "a.b", "operator", "x" * 253, "a" + "-" * 60 + "b", "metrics", "active"])
def test_names_derived_from_an_instance_fit_wherever_they_are_used(name):
    names = names_of("team-a", name)
    for derived in (names.operand, names.metrics_service, names.serving_cert_secret, names.lease_role):
        assert DNS_LABEL.fullmatch(derived), derived
    assert len(names.active_config_map("0" * 16)) <= 63
    assert names.operand != "secondary-scheduler-operator"
    assert len(names.canary) <= 63
    assert len(names.canary_config_map("0" * 16)) <= 63


def test_no_two_instances_share_a_name():
    keys = [("ns", "cluster"), ("ns", "gpu"), ("ns", "gpu.x"), ("ns", "gpu-x"), ("ns", "x" * 100), ("ns", "x" * 101)]
    keys += [
        ("ns", "canary"),
        ("ns", "gpu-canary"),
        ("other", "cluster"),
        (OPERATOR_NAMESPACE, "cluster"),
        (OPERATOR_NAMESPACE, "gpu"),
    ]
    bindings = {names_of(*key).cluster_role_binding("secondary-scheduler:base") for key in keys}
    assert len(bindings) == len(keys)
    operands = {(key[0], name) for key in keys for name in (names_of(*key).operand, names_of(*key).canary)}
    assert len(operands) == 2 * len(keys), "neither does one with the canary of another"


def test_no_scheduler_is_named_like_a_companion_of_another():
    companions = ("canary", "rebalancer", "page", "load-watcher")
    instances = ["cluster", "gpu", *companions, *(f"gpu-{each}" for each in companions)]
    schedulers = [operand_name(each) for each in instances]
    named = [*schedulers, *(of(each) for of in (rebalancer_name, page_name) for each in schedulers)]
    named += [f"{each}{LOAD_WATCHER_SUFFIX}" for each in schedulers]
    named += [names_of(NS, each).canary for each in instances]
    assert sorted(named) == sorted(set(named))


def test_another_name_is_another_scheduler_with_its_own_objects():
    world = Instance(instance("gpu"), config_map(NAMED_OTHERWISE)).start_named("secondary-scheduler-gpu")
    kinds = created_names(world)
    assert {
        ("Deployment", "secondary-scheduler-gpu"),
        ("ServiceAccount", "secondary-scheduler-gpu"),
        ("Service", "secondary-scheduler-gpu-metrics"),
        ("Role", "secondary-scheduler-gpu-operand"),
        ("ClusterRoleBinding", f"secondary-scheduler:{NS}:secondary-scheduler-gpu:base"),
    } <= kinds
    deployment = world.get("Deployment", "secondary-scheduler-gpu")
    arguments = deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--leader-elect-resource-name=secondary-scheduler-gpu" in arguments
    assert deployment["spec"]["selector"]["matchLabels"] == {"app": "secondary-scheduler-gpu"}
    assert world.condition("Available")[0] == "True"


def test_deleting_one_instance_leaves_the_objects_of_the_other():
    world = Instance(instance("cluster"), config_map()).start()
    first = dict(world.objects)
    world.resource = instance("gpu", created="2026-11-21T11:00:00Z")
    world.put(config_map(NAMED_OTHERWISE))
    world.settle()
    world.delete()
    for _ in range(5):
        world.execute(world.plan())
    assert set(first) - set(world.objects) == set()
    assert not [key for key in world.objects if "gpu" in key.name]


def test_a_scheduler_name_belongs_to_the_older_instance():
    older = instance("cluster")
    world = Instance(instance("gpu", created="2026-11-21T11:00:00Z"), config_map(), others=(older,))
    world.settle()
    status, reason, message = world.condition("Degraded")
    assert (status, reason) == ("True", "SchedulerNameTaken")
    assert f"{NS}/cluster" in message
    assert '"secondary-scheduler"' in message
    assert ObjectKey("Deployment", NS, "secondary-scheduler-gpu") not in world.objects


def test_whoever_serves_a_name_keeps_it_though_another_is_older():
    older = instance("cluster", created="2026-11-21T09:00:00Z")
    world = Instance(instance("gpu"), config_map()).start_named("secondary-scheduler-gpu")
    assert world.resource["status"]["schedulerNames"] == ["secondary-scheduler"]
    world.observed_fields = {"others": (older,)}
    world.settle()
    assert world.condition("Degraded")[0] == "False"
    # And the older one is told.
    other = Instance(older, config_map(), others=(world.resource,))
    other.settle()
    assert other.condition("Degraded")[1] == "SchedulerNameTaken"


def test_a_running_scheduler_goes_on_when_its_next_configuration_takes_a_foreign_name():
    world = Instance(instance("gpu"), config_map(NAMED_OTHERWISE)).start_named("secondary-scheduler-gpu")
    running = world.resource["status"]["configurationHash"]
    served = instance("cluster", created="2026-11-21T09:00:00Z") | {
        "status": {"schedulerNames": ["secondary-scheduler"]}
    }
    world.observed_fields = {"others": (served,)}
    world.put(config_map())
    world.settle()
    assert world.condition("Degraded")[1] == "SchedulerNameTaken"
    assert world.resource["status"]["configurationHash"] == running != HASH


@pytest.mark.parametrize(
    "change", [{"spec": {"managementState": "Removed"}}, {"metadata": {"deletionTimestamp": "2026-11-21T11:00:00Z"}}]
)
def test_an_instance_that_gives_up_its_scheduler_gives_up_the_name(change):
    older = instance("cluster")
    for part, fields in change.items():
        older[part] |= fields
    world = Instance(instance("gpu", created="2026-11-21T11:00:00Z"), config_map(), others=(older,))
    world.settle()
    assert world.condition("Degraded")[0] == "False"
