"""The values of a label are those that nodes have, and few others, however often nodes are replaced."""

from __future__ import annotations

import random

from scheduler.core import decide
from scheduler.framework import PodClause, PodQuery, conclude
from scheduler.kube.primitives.selectors import EVERYTHING
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner

HOST = "kubernetes.io/hostname"
QUERY = PodQuery((PodClause(None, EVERYTHING),))
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "x"}}}
        ]
    }
}


def add(state: ClusterState, name: str) -> None:
    state.upsert_node(node(name, labels={HOST: name}))


def values(state: ClusterState) -> dict[str, str]:
    """What the column says of each node."""
    column = state.snapshot(NOW).labels(HOST)
    return {name: column.values[int(column.codes[row])] for name, row in state.table.row_of.items()}


def test_replaced_nodes_leave_neither_values_nor_longer_counts_behind() -> None:
    state = cluster()
    longest = 0
    for number in range(500):
        add(state, f"n{number}")
        view = state.snapshot(NOW)
        longest = max(longest, len(view.labels(HOST).values), len(view.pods_by_domain(QUERY, HOST)))
        if number >= 10:
            state.remove_node(f"n{number - 10}")
            assert values(state) == {name: name for name in state.node_names}
    assert longest < 100


def test_a_node_whose_label_changes_for_ever_leaves_no_values_behind() -> None:
    state = cluster(node("a", labels={HOST: "a"}), node("b", labels={HOST: "b"}))
    for number in range(500):
        state.upsert_node(node("a", labels={HOST: f"a{number}"}))
        assert values(state) == {"a": f"a{number}", "b": "b"}
    assert len(state.snapshot(NOW).labels(HOST).values) < 100


def test_decisions_by_host_name_are_those_of_a_cluster_that_never_had_other_nodes() -> None:
    state, profile, reference = cluster(), runner(), runner()
    for number in range(120):
        add(state, f"n{number}")
        if number % 2:
            state.upsert_pod(pod(f"p{number}", container("100m"), labels={"app": "x"}, nodeName=f"n{number}"), NOW)
        if number >= 6:
            state.remove_node(f"n{number - 6}")
            state.remove_pod(f"uid-p{number - 6}")
        if number % 8:
            continue
        fresh = cluster(*(info for info in map(state.node, sorted(state.node_names)) if info is not None))
        for info in state.pods():
            fresh.upsert_pod(info, NOW)
        incoming = pod(f"new-{number}", container("100m"), labels={"app": "x"}, affinity=APART)
        decided = conclude(decide(state.snapshot(NOW), incoming, profile, random.Random(1)))
        wanted = conclude(decide(fresh.snapshot(NOW), incoming, reference, random.Random(1), from_scratch=True))
        assert (decided.feasible, decided.best, decided.total) == (wanted.feasible, wanted.best, wanted.total)
        assert decided.message == wanted.message
