"""The column of lowest priorities, after any history."""

from __future__ import annotations

from hypothesis import given, strategies as st

from scheduler.state import ClusterState
from scheduler.state.table import NO_PODS
from tests.unit.scheduler.core.builders import NOW, cluster, node, pod

Step = tuple[str, int, int]


def check(state: ClusterState) -> None:
    snapshot = state.snapshot(NOW)
    column = snapshot.lowest_priority
    for row in snapshot.rows.tolist():
        priorities = [info.priority for info in snapshot.pods_on(row)]
        assert column[row] == min(priorities, default=NO_PODS)


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
                state.upsert_pod(pod(f"p{number}", priority=number - 2, nodeName=f"n{node_index}"))
            case "remove":
                state.remove_pod(uid)
            case "assume" if state.pod(uid) is None:
                state.assume(pod(f"p{number}", priority=number - 2), f"n{node_index}", NOW)
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
