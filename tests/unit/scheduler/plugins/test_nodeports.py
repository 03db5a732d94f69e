"""Host ports: which are in each other's way, where, and what wakes a pod that waits for one."""

import pytest

from scheduler.framework import Hint
from tests.unit.scheduler.core.builders import cluster, container, node, pod, runner
from tests.unit.scheduler.plugins.storage import answers

REASON = "node(s) didn't have free ports for the requested pod ports"
PLUGIN = runner().plugins["NodePorts"]


def with_port(name, port=8080, protocol="TCP", ip="", **fields):
    entry = {"containerPort": 80, "hostPort": port, "protocol": protocol, "hostIP": ip}
    return pod(name, container(ports=[entry]), **fields)


@pytest.mark.parametrize(
    ("used", "wanted", "conflict"),
    [
        (("TCP", ""), ("TCP", ""), True),
        (("TCP", ""), ("TCP", "0.0.0.0"), True),
        (("TCP", "0.0.0.0"), ("TCP", "10.0.0.1"), True),
        (("TCP", "10.0.0.1"), ("TCP", ""), True),
        (("TCP", "10.0.0.1"), ("TCP", "10.0.0.1"), True),
        (("TCP", "10.0.0.1"), ("TCP", "10.0.0.2"), False),
        (("TCP", ""), ("UDP", ""), False),
    ],
)
def test_one_port_cannot_be_used_twice_at_one_address(used, wanted, conflict):
    state = cluster(node("n"), pods={"n": [with_port("there", 8080, *used)]})
    answer = answers(state, with_port("new", 8080, *wanted))
    assert answer == ({"n": ("NodePorts", "UNSCHEDULABLE", (REASON,))} if conflict else {})


def test_other_numbers_are_free():
    state = cluster(node("n"), pods={"n": [with_port("there", 8080)]})
    assert answers(state, with_port("new", 8081)) == {}


def test_only_nodes_with_a_conflict_are_rejected():
    state = cluster(node("a"), node("b"), pods={"a": [with_port("there")], "b": [pod("other")]})
    assert answers(state, with_port("new")) == {"a": ("NodePorts", "UNSCHEDULABLE", (REASON,))}


def test_a_sidecar_keeps_its_port_and_an_init_container_frees_it():
    port = [{"containerPort": 80, "hostPort": 9000}]
    sidecar = pod("sidecar", initContainers=[container(ports=port, restartPolicy="Always")])
    initial = pod("initial", initContainers=[container(ports=port)])
    state = cluster(node("a"), node("b"), pods={"a": [sidecar], "b": [initial]})
    assert set(answers(state, with_port("new", 9000))) == {"a"}


def test_pods_without_host_ports_are_not_looked_at():
    explanation_state = cluster(node("n"), pods={"n": [with_port("there")]})
    assert answers(explanation_state, pod("new", container(ports=[{"containerPort": 8080}]))) == {}


@pytest.mark.parametrize(
    ("left", "hint"),
    [
        (with_port("old", nodeName="n"), Hint.QUEUE),
        (with_port("old", status={"nominatedNodeName": "n"}), Hint.QUEUE),
        (with_port("old"), Hint.SKIP),
        (with_port("old", 8081, nodeName="n"), Hint.SKIP),
        (pod("old", nodeName="n"), Hint.SKIP),
    ],
    ids=["assigned", "nominated", "waiting", "another port", "no port"],
)
def test_a_pod_that_leaves_wakes_those_who_wait_for_its_port(left, hint):
    registration = PLUGIN.events_to_register()[0]
    assert registration.hint(with_port("new"), left, None) is hint


def test_every_new_node_wakes():
    registration = PLUGIN.events_to_register()[1]
    assert (registration.resource, registration.hint) == ("Node", None)
