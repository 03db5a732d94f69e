"""PodState: pods that go, pods that are to come, and the pod's own nomination."""

import msgspec
import pytest

from scheduler.core import explain
from scheduler.framework import PodInfo
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, node, only_scores, pod, runner

NAME = "PodState"
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def scores(state: ClusterState, info: PodInfo, compatibility: str = "safe") -> dict[str, tuple[int, int]]:
    scheduler = runner(only_scores(NAME), compatibility=compatibility)
    explanation = explain(state.snapshot(NOW), info, scheduler)
    return {
        name: (explained.scores[NAME].raw, explained.scores[NAME].normalized) for name, explained in explanation.nodes()
    }


def leaving(name: str) -> PodInfo:
    return pod(name, metadata=LEAVING)


def three_nodes() -> ClusterState:
    """Node a loses two pods, b keeps two, c loses one."""
    return cluster(
        node("a"),
        node("b"),
        node("c"),
        pods={"a": [leaving("1"), leaving("2"), pod("3")], "b": [pod("4"), pod("5")], "c": [leaving("6")]},
    )


def test_nodes_with_leaving_pods_come_first() -> None:
    assert scores(three_nodes(), pod("p")) == {"a": (2, 100), "b": (0, 0), "c": (1, 50)}


def test_nominated_pods_count_against_a_node() -> None:
    state = three_nodes()
    state.nominator.set(pod("x"), "c")
    state.nominator.set(pod("y"), "c")
    state.nominator.set(pod("z"), "no such node")
    assert scores(state, pod("p")) == {"a": (2, 100), "b": (0, 33), "c": (-1, 0)}


@pytest.mark.parametrize(("compatibility", "expected"), [("safe", 2), ("upstream", 1)])
def test_the_pods_own_nomination_counts_against_the_node_upstream_only(compatibility: str, expected: int) -> None:
    state, waiting = three_nodes(), pod("p")
    state.nominator.set(waiting, "a")
    assert scores(state, waiting, compatibility)["a"][0] == expected


def test_all_alike_is_0() -> None:
    state = cluster(node("a"), node("b"), pods={"a": [leaving("1")], "b": [leaving("2")]})
    assert scores(state, pod("p")) == {"a": (1, 0), "b": (1, 0)}


def test_a_pod_counts_from_the_moment_it_is_deleted_until_it_is_gone() -> None:
    nominated = pod("1")
    state = cluster(node("a"), node("b"), pods={"a": [nominated]})
    assert scores(state, pod("p"))["a"][0] == 0
    state.upsert_pod(msgspec.structs.replace(nominated, node_name="a", deleting=True))
    assert scores(state, pod("p"))["a"][0] == 1
    state.remove_pod(nominated.uid)
    assert scores(state, pod("p"))["a"][0] == 0
