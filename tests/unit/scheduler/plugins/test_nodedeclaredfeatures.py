"""NodeDeclaredFeatures: which pods need a feature, which nodes they fit, and what wakes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler.core import explain
from scheduler.framework import Hint, node_update_events
from scheduler.helpers import reduce_node, reduce_pod
from scheduler.kube.model import decode_node, decode_pod
from scheduler.plugins.nodedeclaredfeatures import REASON, NodeDeclaredFeatures
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, runner

RESTART = "RestartAllContainersOnContainerExits"
HOST_NETWORK = "UserNamespacesHostNetworkSupport"
RULES = [{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}}]


def pod(**spec: Any) -> Any:
    document = {
        "metadata": {"name": "p", "namespace": "default", "uid": "p"},
        "spec": {"containers": [{"name": "c"}], **spec},
    }
    return reduce_pod(decode_pod(json.dumps(document).encode()))


def node(name: str, *features: str) -> Any:
    status = {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}, "declaredFeatures": list(features)}
    return reduce_node(decode_node(json.dumps({"metadata": {"name": name, "uid": name}, "status": status}).encode()))


@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ({}, set()),
        ({"containers": [{"name": "c", "restartPolicyRules": [{"action": "Restart"}]}]}, set()),
        ({"containers": [{"name": "c", "restartPolicyRules": RULES}]}, {RESTART}),
        ({"initContainers": [{"name": "i", "restartPolicyRules": RULES}]}, {RESTART}),
        ({"hostNetwork": True}, set()),
        ({"hostUsers": False}, set()),
        ({"hostNetwork": True, "hostUsers": True}, set()),
        ({"hostNetwork": True, "hostUsers": False}, {HOST_NETWORK}),
    ],
)
def test_needs_follow_from_the_spec(spec: dict[str, Any], needed: set[str]) -> None:
    assert pod(**spec).spec.features == needed


@pytest.mark.parametrize(
    ("version", "fitting"), [("1.35", ["all", "other", "none"]), ("1.36", ["all"]), ("1.37", ["all"])]
)
def test_a_node_must_declare_what_a_pod_needs_since_1_36(version: str, fitting: list[str]) -> None:
    state = ClusterState()
    for each in (node("all", HOST_NETWORK, RESTART), node("other", RESTART), node("none")):
        state.upsert_node(each)
    explanation = explain(state.snapshot(NOW), pod(hostNetwork=True, hostUsers=False), runner(kubernetes=version))
    assert [name for name, explained in explanation.nodes() if explained.feasible] == fitting
    if version != "1.35":
        assert REASON in str(explanation.node("none"))


def test_where_no_node_declares_it_the_message_says_so_in_upstreams_words() -> None:
    state = ClusterState()
    state.upsert_node(node("none"))
    explanation = explain(state.snapshot(NOW), pod(hostNetwork=True, hostUsers=False), runner(kubernetes="1.36"))
    assert f"1 {REASON}" in (explanation.message or "")


def test_a_node_that_declares_other_features_wakes_the_pod() -> None:
    waiting, hint = pod(hostNetwork=True, hostUsers=False), NodeDeclaredFeatures._node_changed
    assert hint(waiting, None, node("n")) is Hint.QUEUE
    assert hint(waiting, node("n"), node("n")) is Hint.SKIP
    assert hint(waiting, node("n"), node("n", HOST_NETWORK)) is Hint.QUEUE
    (event,) = node_update_events(node("n"), node("n", HOST_NETWORK))
    assert event.label == "NodeUpdateNodeDeclaredFeature"
