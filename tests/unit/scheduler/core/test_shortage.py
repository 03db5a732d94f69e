"""What a pod lacks where only room is missing."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given, settings

from scheduler.answers import NodeShortage
from scheduler.core import decide, find_shortage
from scheduler.framework import PodInfo, conclude
from scheduler.state import ClusterState
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner
from tests.unit.scheduler.core.strategies import clusters, pods

DEFAULT = runner()


def test_the_nodes_that_lack_least_are_named_with_what_they_lack() -> None:
    running = {
        "half": [pod("a", container("2500m", "1Gi"))],
        "nearly": [pod("b", container("2100m"))],
        "full": [pod("c", container("4", "16Gi"))],
    }
    nodes = [node(name) for name in running]
    closed = node("closed", unschedulable=True)
    small = node("small", allocatable={"cpu": "1"})
    state = cluster(*nodes, closed, small, pods=running)
    shortage = find_shortage(state.snapshot(NOW), pod("p", container("2", "2Gi")), DEFAULT)
    assert shortage is not None
    assert (shortage.nodes, shortage.too_small) == (4, 1)
    assert shortage.nearest == (
        NodeShortage("nearly", {"cpu": "100m"}),
        NodeShortage("half", {"cpu": "500m"}),
        NodeShortage("full", {"cpu": "2", "memory": "2Gi"}),
    )


def test_a_pod_that_other_plugins_reject_everywhere_lacks_no_room() -> None:
    state = cluster(node("n0", unschedulable=True), node("n1", labels={"zone": "a"}))
    wanted = pod("p", container("100"), nodeSelector={"zone": "b"})
    assert find_shortage(state.snapshot(NOW), wanted, DEFAULT) is None
    assert find_shortage(state.snapshot(NOW), pod("q"), DEFAULT) is None


@settings(max_examples=tries(60), deadline=None)
@given(clusters(), pods("new"))
def test_a_pod_that_asks_for_as_much_less_fits_on_the_node_that_is_named(state: ClusterState, info: PodInfo) -> None:
    snapshot = state.snapshot(NOW)
    before = conclude(decide(snapshot, info, DEFAULT, random.Random(1)))
    shortage = find_shortage(snapshot, info, DEFAULT)
    if before.node is not None or shortage is None:
        return
    for lacking in shortage.nearest:
        row = snapshot.row(lacking.node)
        free = {name: int((snapshot.allocatable(name) - snapshot.requested(name))[row]) for name in info.spec.requests}
        reduced = {name: min(amount, max(0, free[name])) for name, amount in info.spec.requests.items()}
        spec = msgspec.structs.replace(info.spec, requests=reduced, class_key=b"reduced")
        smaller = msgspec.structs.replace(info, spec=spec, requests=reduced)
        placed = conclude(decide(snapshot, smaller, DEFAULT, random.Random(1), from_scratch=True))
        assert placed.node is not None
