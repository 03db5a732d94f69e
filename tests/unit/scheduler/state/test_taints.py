"""The classes of taints are those that nodes have, however often taints change."""

from __future__ import annotations

import random

from scheduler.core import decide
from scheduler.framework import NodeInfo, PodInfo, ProfileRunner, conclude
from scheduler.state import NodeTable, Snapshot
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner

PROFILE, OTHER_PROFILE = runner(), runner()
TAINT_SETS: list[list[tuple[str, str, str]]] = [
    [],
    [("dedicated", "a", "NoSchedule")],
    [("dedicated", "b", "NoSchedule")],
    [("dedicated", "b", "NoExecute"), ("spot", "", "PreferNoSchedule")],
    [("spot", "", "PreferNoSchedule")],
]


def marked(name: str, number: int) -> NodeInfo:
    """A node that an autoscaler has marked at a time of its own."""
    return node(name, taints=[("DeletionCandidateOfClusterAutoscaler", str(number), "PreferNoSchedule")])


def classes_by_node(table: NodeTable) -> dict[str, object]:
    column = table.taints.column
    return {name: column.classes[int(column.codes[row])] for name, row in table.row_of.items()}


def taints_by_node(table: NodeTable) -> dict[str, object]:
    return {name: info.taints for name, row in table.row_of.items() if (info := table.infos[row]) is not None}


def decision(view: Snapshot, incoming: PodInfo, profile: ProfileRunner) -> tuple[object, ...]:
    placement = conclude(decide(view, incoming, profile, random.Random(0)))
    return placement.node, placement.total, placement.feasible, placement.best, placement.message


def test_taints_with_a_value_of_their_own_each_time_leave_no_classes_behind() -> None:
    table = NodeTable()
    most = 0
    for number in range(10_000):
        table.set_node(marked(f"n{number % 7}", number))
        most = max(most, len(table.taints.column.classes))
    assert most <= 9
    assert classes_by_node(table) == taints_by_node(table)


def test_nodes_that_come_and_go_leave_no_classes_behind() -> None:
    table = NodeTable()
    for number in range(10_000):
        table.set_node(marked(f"n{number}", number))
        if number >= 5:
            table.remove_node(f"n{number - 5}")
    assert len(table.taints.column.classes) <= 6
    assert classes_by_node(table) == taints_by_node(table)


def test_a_copy_keeps_its_classes_when_the_table_drops_them() -> None:
    table = NodeTable()
    for number in range(4):
        table.set_node(marked(f"n{number}", number))
    twin = table.copy()
    before = classes_by_node(twin)
    table.set_node(node("n1"))
    table.remove_node("n0")
    assert classes_by_node(twin) == before == taints_by_node(twin)
    twin.set_node(node("n3"))
    assert classes_by_node(twin) == taints_by_node(twin)
    assert classes_by_node(table) == taints_by_node(table)


def test_decisions_after_many_changes_of_taints_are_those_of_a_fresh_cluster() -> None:
    rng = random.Random(7)
    tolerating = [{"key": "dedicated", "operator": "Equal", "value": "b", "effect": "NoSchedule"}]
    pods = [
        pod("plain", container("1")),
        pod("tolerates", container("1"), tolerations=tolerating),
        pod("tolerates-all", container("1"), tolerations=[{"operator": "Exists"}]),
    ]
    state = cluster()
    infos: dict[str, NodeInfo] = {}
    for number in range(400):
        name = f"n{rng.randint(0, 8)}"
        if name in infos and rng.random() < 0.2:
            del infos[name]
            state.remove_node(name)
        else:
            since = [("since", str(number), "PreferNoSchedule")] if rng.random() < 0.5 else []
            taints = [*rng.choice(TAINT_SETS), *since]
            infos[name] = node(name, taints=taints)
            state.upsert_node(infos[name])
        view = state.snapshot(NOW)
        # Equals are drawn from in the order of rows.
        fresh = cluster(*(infos[view.name(row)] for row in view.rows.tolist())).snapshot(NOW)
        incoming = rng.choice(pods)
        assert decision(view, incoming, PROFILE) == decision(fresh, incoming, OTHER_PROFILE)
        assert set(view.taints.classes) == {(), *(info.taints for info in infos.values())}
        assert view.taints.classes.count(()) == 1
