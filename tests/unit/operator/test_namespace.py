"""A namespace that is being deleted: what is in the cluster goes, and the instance is let go before its rights are."""

import pytest

from secondary_scheduler.operator.reconcile import ApiFailure, ObjectKey
from tests.unit.operator.builders import NS, OTHER_CONFIG, Instance, config_map, pod, scheduler

FORBIDDEN = ApiFailure(403, "forbidden")


@pytest.fixture
def world():
    return Instance(scheduler(), config_map()).start()


def go(world):
    """The namespace controller has not begun yet."""
    metadata = {"name": NS, "uid": "ns", "deletionTimestamp": world.now.strftime("%Y-%m-%dT%H:%M:%SZ")}
    world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})


def in_the_cluster(world):
    return {(key.kind, key.name) for key in world.objects if not key.namespace and key.kind != "Namespace"}


def test_a_namespace_that_stays_changes_nothing(world):
    world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS, "uid": "ns"}})
    assert world.plan().actions == ()


def test_the_scheduler_goes_first_then_its_rights_then_the_finalizer(world):
    world.put(pod({}))
    go(world)
    world.put(config_map(OTHER_CONFIG))
    world.settle()
    assert world.writes == [("delete", "Deployment")]
    assert world.condition("Degraded")[:2] == ("True", "NamespaceTerminating")
    assert world.condition("Progressing")[:2] == ("True", "Removing")
    assert world.events == [], "there can be no new Event"
    assert in_the_cluster(world)
    world.drop("Pod", "secondary-scheduler-abc")
    world.settle()
    assert in_the_cluster(world) == set()
    assert world.resource["metadata"]["finalizers"] == []
    assert {kind for verb, kind in world.writes if verb == "apply"} == set()
    world.writes.clear()
    world.settle()
    assert world.writes == [], "and it stays so"


def test_what_the_operator_may_no_longer_touch_is_left_to_the_namespace(world):
    go(world)
    world.delete()
    deployment = ObjectKey("Deployment", NS, "secondary-scheduler")
    world.observed_fields |= {"failures": {deployment: FORBIDDEN}}
    world.settle()
    assert deployment in world.objects
    assert in_the_cluster(world) == set()
    assert world.resource["metadata"]["finalizers"] == []


def test_an_operator_that_comes_when_its_rights_there_are_gone_lets_the_instance_go(world):
    go(world)
    world.delete()
    for key in [key for key in world.objects if key.namespace]:
        del world.objects[key]
    world.observed_fields |= {"unreadable": dict.fromkeys(("Deployment", "Lease", "Pod", "ConfigMap"), FORBIDDEN)}
    world.settle()
    assert in_the_cluster(world) == set()
    assert world.resource["metadata"]["finalizers"] == []


def test_bindings_that_cannot_be_read_keep_the_instance(world):
    go(world)
    world.observed_fields |= {"unreadable": {"ClusterRoleBinding": FORBIDDEN}}
    world.settle()
    assert world.resource["metadata"]["finalizers"]


def test_a_pod_on_a_dead_node_does_not_keep_the_namespace(world):
    world.put(pod({}))
    go(world)
    world.settle()
    assert world.plan().requeue_after == 60
    world.wait(61)
    world.settle()
    assert in_the_cluster(world) == set()
    assert world.resource["metadata"]["finalizers"] == []
