"""The column of lowest priorities, and the cluster without lower pods, after any history."""

from __future__ import annotations

from typing import Any

from hypothesis import given, strategies as st

from scheduler.framework import PodInfo
from scheduler.state import ClusterState, Overlay, Snapshot
from scheduler.state.table import NO_PODS
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod

Step = tuple[str, int, int]


def sized(number: int, **spec: Any) -> PodInfo:
    requests = {"example.com/gpu": "1"} if number % 3 == 0 else {}
    return pod(f"p{number}", container(f"{number}00m", requests=requests), priority=number - 2, **spec)


def check(state: ClusterState) -> None:
    snapshot = state.snapshot(NOW)
    column = snapshot.lowest_priority
    for row in snapshot.rows.tolist():
        priorities = [info.priority for info in snapshot.pods_on(row)]
        assert column[row] == min(priorities, default=NO_PODS)
    for priority in (-1, 1, 5):
        check_without_lower(snapshot, priority)


def check_without_lower(snapshot: Snapshot, priority: int) -> None:
    """It is the cluster from which each of them was taken by itself."""
    one_by_one, number = snapshot.overlay(), 0
    for row in snapshot.rows.tolist():
        for info in [info for info in snapshot.pods_on(row) if info.priority < priority]:
            one_by_one.remove_pod(info, row)
            number += 1
    removed, together = snapshot.without_lower(priority)
    assert removed == number
    assert_same(together, one_by_one)
    branch = together.branch(together.candidates)
    for row in snapshot.rows.tolist():
        branch.add_pod(pod("one more", priority=9), row)
        one_by_one.add_pod(pod("one more", priority=9), row)
    assert_same(branch, one_by_one)
    assert all(info.name != "one more" for row in snapshot.rows.tolist() for info in together.pods_on(row))


def assert_same(view: Overlay, other: Overlay) -> None:
    for resource in ("cpu", "memory", "example.com/gpu"):
        assert view.requested(resource).tolist() == other.requested(resource).tolist()
        assert view.nonzero_requested(resource).tolist() == other.nonzero_requested(resource).tolist()
    assert view.pod_count.tolist() == other.pod_count.tolist()
    for row in view.rows.tolist():
        assert {info.uid for info in view.pods_on(row)} == {info.uid for info in other.pods_on(row)}
    assert {holder.pod.uid for holder in view.removed_pods} == {holder.pod.uid for holder in other.removed_pods}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["bind", "remove", "assume", "forget", "add node", "remove node", "look"]),
            st.integers(0, 5),
            st.integers(0, 3),
        ),
        max_size=40,
    )
)
def test_the_column_is_right_after_any_history(steps: list[Step]) -> None:
    state = ClusterState()
    for action, number, node_index in steps:
        uid = f"uid-p{number}"
        match action:
            case "bind":
                state.upsert_pod(sized(number, nodeName=f"n{node_index}"))
            case "remove":
                state.remove_pod(uid)
            case "assume" if state.pod(uid) is None:
                state.assume(sized(number), f"n{node_index}", NOW)
            case "forget":
                state.forget(uid)
            case "add node":
                state.upsert_node(node(f"n{node_index}"))
            case "remove node":
                state.remove_node(f"n{node_index}")
            case "look":
                check(state)
    check(state)


def test_a_frozen_copy_keeps_its_own_column() -> None:
    state = cluster(node("n1"), pods={"n1": [pod("a", priority=5)]})
    frozen = state.snapshot(NOW, frozen=True)
    state.upsert_pod(pod("b", priority=1, nodeName="n1"))
    assert frozen.lowest_priority.tolist() == [5]
    assert state.snapshot(NOW).lowest_priority.tolist() == [1]
