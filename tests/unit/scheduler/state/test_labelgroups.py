"""Counts of pods by label groups: what many selectors weigh together equals what each of them counts, and nothing is
kept that nobody asks for any more."""

from collections import Counter
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.framework import PodQuery, TermKind
from scheduler.state import ClusterState, Snapshot
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, node, pod
from tests.unit.scheduler.state.test_aggregates import (
    HOST,
    NODES,
    QUERIES,
    ZONE,
    History,
    compare,
    compare_terms,
    some_nodes,
    some_pod,
    steps,
)

Step = tuple[str, int, int, int]


def check_weights(view: Snapshot, terms: list[tuple[PodQuery, int]]) -> None:
    for key in (ZONE, HOST, "absent"):
        for nodes in (None, some_nodes(view)):
            sums = view.weigh_pods(terms, key, nodes)
            counts = [view.pods_by_domain(query, key, nodes) for query, _ in terms]
            expected = sum((each * weight for each, (_, weight) in zip(counts, terms, strict=True)), np.zeros(1, int))
            assert np.array_equal(sums.counts, sum(counts, np.zeros(1, int)))
            assert np.array_equal(sums.weights, expected)


weighted = st.lists(st.tuples(st.sampled_from(QUERIES), st.integers(-100, 100)), min_size=1, max_size=12)


@settings(max_examples=tries(80), deadline=None)
@given(steps, weighted, st.lists(st.tuples(st.integers(10, 13), st.integers(0, 3), st.integers(0, 1000)), max_size=6))
def test_weights_are_the_sum_of_what_each_query_counts(
    history: list[Step], terms: list[tuple[PodQuery, int]], moves: list[tuple[int, int, int]]
) -> None:
    world = History()
    for step in history:
        world.step(*step)
    view = world.state.snapshot(NOW)
    check_weights(view, terms)
    overlay = view.overlay()
    for index, node_index, choice in moves:
        row = overlay.row(NODES[node_index])
        if row >= 0:
            pods = list(overlay.pods_on(row))
            if choice % 3 == 0 and pods:
                overlay.remove_pod(pods[0], row)
            elif all(info.uid != f"uid-p{index}" for info in pods):
                overlay.add_pod(some_pod(index, choice), row)
    check_weights(overlay, terms)


def term_sums(history: list[Step]) -> list[Counter[tuple[TermKind, str, str]]]:
    """What the terms of pods on nodes add up to for some incoming pods, by kind, topology key and domain."""
    world = History()
    for step in history:
        world.step(*step)
    view = world.state.snapshot(NOW)
    sums = []
    for choice in (0, 1, 5, 8, 11, 22):
        total: Counter[tuple[TermKind, str, str]] = Counter()
        for kind in TermKind:
            for term, weight, counts in view.terms_matching(some_pod(99, choice), kind):
                values = view.labels(term.topology_key).values
                for value, count in zip(values, counts.tolist(), strict=False):
                    total[kind, term.topology_key, value] += count * (weight or 1)
        sums.append(+total)
    return sums


@settings(max_examples=tries(60), deadline=None)
@given(steps)
def test_terms_that_share_one_count_add_up_as_if_each_had_its_own(history: list[Step]) -> None:
    alone = term_sums(history)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scheduler.state.termcounts._MAX_SHARED", 1)
        assert term_sums(history) == alone


@settings(max_examples=tries(60), deadline=None)
@given(steps)
def test_queries_that_count_in_vain_are_dropped_and_answered_again(history: list[Step]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scheduler.state.aggregates._MAX_UNASKED", 2)
        patch.setattr("scheduler.state.termcounts._MAX_IDLE", 1)
        world = History()
        compare(world.state.snapshot(NOW), QUERIES)
        for step in history:
            world.step(*step)
        compare(world.state.snapshot(NOW), QUERIES)
        compare_terms(world.state.snapshot(NOW))


def bound(state: ClusterState, name: str, **words: Any) -> str:
    info = msgspec.structs.replace(pod(name, **words), node_name="n0")
    state.upsert_pod(info)
    return info.uid


def test_a_query_that_nobody_asks_any_more_costs_the_pods_that_come_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.state.aggregates._MAX_UNASKED", 5)
    state = cluster(node("n0"))
    for query in QUERIES:
        state.snapshot(NOW).pods_by_node(query)
    for number in range(10):
        bound(state, f"p{number}", namespace="a", labels={"app": "x", "tier": "1"})
    (group,) = state._aggregates._groups._groups.values()
    assert not group.feeds
    assert len(state._aggregates._queries) == sum(
        not query.matches(pod("q", namespace="a", labels={"app": "x", "tier": "1"})) for query in QUERIES
    )


def test_pods_without_terms_are_ordinary_again_once_the_one_with_many_is_gone() -> None:
    state = cluster(node("n0"))
    terms = [{"topologyKey": HOST, "labelSelector": {"matchLabels": {f"k{n}": "v"}}} for n in range(100)]
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    uid = bound(state, "hostile", affinity=affinity)
    assert state.snapshot(NOW).pods_have_terms
    state.remove_pod(uid)
    assert not state.snapshot(NOW).pods_have_terms


def test_groups_go_with_their_last_pod() -> None:
    state = cluster(node("n0"))
    view = state.snapshot(NOW)
    uids = [bound(state, f"p{n}", labels={"app": "x", f"k{n}": "v"}) for n in range(20)]
    assert view.label_set_count == 20
    for uid in uids:
        state.remove_pod(uid)
    assert view.label_set_count == 0
    assert not state._aggregates._groups._by_label


def test_a_label_that_no_node_has_gets_no_column_and_one_that_comes_later_does() -> None:
    state = cluster(node("n0"), node("n1"))
    view = state.snapshot(NOW)
    for number in range(100):
        assert view.labels(f"k{number}").codes.tolist() == [-1, -1]
    assert not state.table._labels
    state.upsert_node(node("n1", labels={"k7": "v"}))
    assert view.labels("k7").codes.tolist() == [-1, 0]
    state.remove_node("n1")
    assert "k7" not in state.table._labels
    state.upsert_node(node("n1", labels={"k7": "w"}))
    assert view.labels("k7").values == ["w"]


def test_requests_of_a_resource_that_no_node_has_count_once_a_node_has_it() -> None:
    state = cluster(node("n0"), node("n1"))
    uid = bound(state, "p", containers=[{"name": "c", "resources": {"requests": {"example.com/x": "3"}}}])
    view = state.snapshot(NOW)
    assert "example.com/x" not in state.table.amounts
    assert view.requested("example.com/x").tolist() == [3.0, 0.0]
    state.upsert_node(node("n0", allocatable={"example.com/x": "5"}))
    assert view.requested("example.com/x").tolist() == [3.0, 0.0]
    state.remove_pod(uid)
    assert view.requested("example.com/x").tolist() == [0.0, 0.0]


def test_an_image_is_known_while_a_node_has_it() -> None:
    state = cluster(node("n0", images={"a:1": 5}), node("n1", images={"a:1": 5, "b:1": 7}))
    view = state.snapshot(NOW)
    image = view.image("a:1")
    assert image is not None
    assert image.nodes == 2
    state.remove_node("n0")
    image = view.image("a:1")
    assert image is not None
    assert image.nodes == 1
    state.upsert_node(node("n1", images={"b:1": 7}))
    assert view.image("a:1") is None
    assert view.image("never") is None
    assert "never" not in state.table._images
