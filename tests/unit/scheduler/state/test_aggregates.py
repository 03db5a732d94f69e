"""Counts of pods and of their terms: after any history they equal what counting all pods again would give."""

from collections import Counter
from typing import Any

import msgspec
import numpy as np
from hypothesis import given, settings, strategies as st

from scheduler.framework import (
    AffinityTerm,
    NodeSet,
    PodClause,
    PodInfo,
    PodQuery,
    TermKind,
    WeightedAffinityTerm,
)
from scheduler.kube.model import LabelSelector
from scheduler.kube.primitives.selectors import EVERYTHING, NOTHING, Selector, label_selector
from scheduler.state import CODEC_OF_KIND, Snapshot
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, node, pod

NODES = ["n0", "n1", "n2", "n3"]
NAMESPACES = {"a": {"team": "red"}, "b": {"team": "blue"}, "c": {}}
ZONE, HOST = "zone", "kubernetes.io/hostname"


def selector(expressions: list[dict[str, Any]] | None = None, **labels: str) -> Selector:
    source = {"matchLabels": labels, "matchExpressions": expressions or []}
    return label_selector(msgspec.convert(source, LabelSelector))


SELECTORS = [
    EVERYTHING,
    NOTHING,
    selector(app="x"),
    selector(app="y", tier="1"),
    selector([{"key": "tier", "operator": "Exists"}]),
    selector([{"key": "app", "operator": "NotIn", "values": ["x"]}]),
]
QUERIES = [
    PodQuery((PodClause(namespaces, selector),), alive)
    for namespaces in (None, frozenset("a"), frozenset("bc"))
    for selector in SELECTORS
    for alive in (False, True)
] + [PodQuery((PodClause(None, SELECTORS[2]), PodClause(frozenset("ab"), SELECTORS[4])))]

TERMS = [
    {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "x"}}},
    {"topologyKey": HOST, "labelSelector": {}, "namespaces": ["a", "b"]},
    {"topologyKey": ZONE, "labelSelector": {}, "namespaceSelector": {"matchLabels": {"team": "red"}}},
    {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]}},
]
REQUIRED, PREFERRED = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
AFFINITIES: list[dict[str, Any] | None] = [
    None,
    {"podAntiAffinity": {REQUIRED: [TERMS[0], TERMS[1]]}},
    {"podAffinity": {REQUIRED: [TERMS[2]], PREFERRED: [{"weight": 7, "podAffinityTerm": TERMS[0]}]}},
    {"podAntiAffinity": {PREFERRED: [{"weight": 3, "podAffinityTerm": term} for term in (TERMS[3], TERMS[3])]}},
]

steps = st.lists(
    st.tuples(
        st.sampled_from(["bind", "bind", "label", "mark", "delete", "assume", "forget", "node", "no node", "ask"]),
        st.integers(0, 7),
        st.integers(0, 3),
        st.integers(0, 1000),
    ),
    max_size=40,
)


def some_pod(index: int, choice: int, **words: Any) -> PodInfo:
    labels = {}
    if choice % 3:
        labels["app"] = "xyz"[choice % 3]
    if choice % 2:
        labels["tier"] = str(choice % 5)
    affinity = AFFINITIES[choice // 7 % len(AFFINITIES)]
    extra = {"affinity": affinity} if affinity else {}
    return pod(f"p{index}", namespace="abc"[choice // 5 % 3], labels=labels, **extra, **words)


class History:
    def __init__(self) -> None:
        self.state = cluster(*(node(name, labels={ZONE: "z0"}) for name in NODES[:2]))
        for name, labels in NAMESPACES.items():
            data = {"metadata": {"name": name, "labels": labels}}
            self.state.objects.upsert("Namespace", CODEC_OF_KIND["Namespace"].decode(msgspec.json.encode(data)))

    def step(self, action: str, index: int, node_index: int, choice: int) -> None:
        state, name, uid = self.state, NODES[node_index], f"uid-p{index}"
        known = state.pod(uid)
        match action:
            case "bind":
                state.upsert_pod(msgspec.structs.replace(some_pod(index, choice), node_name=name))
            case "label" if known is not None:
                state.upsert_pod(msgspec.structs.replace(known, labels={"app": "xyz"[choice % 3]}))
            case "mark" if known is not None:
                state.upsert_pod(msgspec.structs.replace(known, deleting=True))
            case "delete":
                state.remove_pod(uid)
            case "assume" if known is None:
                state.assume(some_pod(index, choice), name, NOW)
            case "forget":
                state.forget(uid)
            case "node":
                labels = {ZONE: f"z{choice % 3}"} if choice % 4 else {}
                taints = [("k", "", "NoSchedule")] if choice % 7 == 0 else []
                state.upsert_node(node(name, labels=labels, taints=taints))
            case "no node":
                state.remove_node(name)
            case "ask":
                # What was asked for before a change must follow it; what is asked for later is counted from nothing.
                compare(state.snapshot(NOW), [QUERIES[choice % len(QUERIES)]])


def nodes_with(view: Snapshot, pods: dict[str, list[PodInfo]]) -> list[tuple[int, dict[str, str], list[PodInfo]]]:
    return [(row, dict(view.info(row).labels), pods.get(view.name(row), [])) for row in view.rows.tolist()]


def by_name(view: Snapshot) -> dict[str, list[PodInfo]]:
    return {view.name(row): list(view.pods_on(row)) for row in view.rows.tolist()}


def some_nodes(view: Snapshot) -> NodeSet:
    # Every second row: the token is enough while rows stay what they are, which `topology` guards.
    return NodeSet("even", np.arange(view.size) % 2 == 0)


def compare(view: Snapshot, queries: list[PodQuery]) -> None:
    nodes = nodes_with(view, by_name(view))
    for query in queries:
        column = view.pods_by_node(query)
        assert [int(column[row]) for row, _, _ in nodes] == [sum(map(query.matches, pods)) for _, _, pods in nodes]
        for key in (ZONE, HOST, "absent"):
            for subset in (None, some_nodes(view)):
                expected: Counter[str] = Counter()
                for row, labels, pods in nodes:
                    if key in labels and (subset is None or row % 2 == 0):
                        expected[labels[key]] += sum(map(query.matches, pods))
                assert named(view, key, view.pods_by_domain(query, key, subset)) == +expected


def named(view: Snapshot, key: str, counts: np.ndarray) -> Counter[str]:
    assert counts[-1] == 0, "the entry for nodes without the label"
    return +Counter(dict(zip(view.labels(key).values, counts.tolist(), strict=False)))


def terms_of(info: PodInfo, kind: TermKind) -> list[tuple[int, AffinityTerm]]:
    terms = info.spec.terms
    lists: dict[TermKind, tuple[AffinityTerm | WeightedAffinityTerm, ...]] = {
        TermKind.AFFINITY: terms.affinity,
        TermKind.ANTI_AFFINITY: terms.anti_affinity,
        TermKind.PREFERRED_AFFINITY: terms.preferred_affinity,
        TermKind.PREFERRED_ANTI_AFFINITY: terms.preferred_anti_affinity,
    }
    return [(term.weight, term.term) if isinstance(term, WeightedAffinityTerm) else (0, term) for term in lists[kind]]


def compare_terms(view: Snapshot) -> None:
    nodes = nodes_with(view, by_name(view))
    for choice in (0, 1, 5, 8, 11, 22):
        incoming = some_pod(99, choice)
        for kind in TermKind:
            expected: Counter[tuple[str, int, str]] = Counter()
            for _, labels, pods in nodes:
                for weight, term in (each for info in pods for each in terms_of(info, kind)):
                    meant = term.matches(incoming.namespace, incoming.labels, NAMESPACES[incoming.namespace])
                    if meant and term.topology_key in labels:
                        expected[term.topology_key, weight, labels[term.topology_key]] += 1
            counts: Counter[tuple[str, int, str]] = Counter()
            for term_counts in view.terms_matching(incoming, kind):
                # An overlay reports a pod taken away as an entry of its own, below zero.
                assert term_counts.counts[-1] == 0
                values = view.labels(term_counts.term.topology_key).values
                for value, count in zip(values, term_counts.counts.tolist(), strict=False):
                    counts[term_counts.term.topology_key, term_counts.weight, value] += count
            assert +counts == expected
            assert not -counts


@settings(max_examples=tries(120), deadline=None)
@given(steps)
def test_counts_equal_a_fresh_count_after_any_history(history: list[tuple[str, int, int, int]]) -> None:
    world = History()
    for action, index, node_index, choice in history:
        world.step(action, index, node_index, choice)
    view = world.state.snapshot(NOW)
    compare(view, QUERIES)
    compare_terms(view)


@settings(max_examples=tries(40), deadline=None)
@given(steps, steps)
def test_counts_asked_for_early_follow_every_later_change(
    before: list[tuple[str, int, int, int]], after: list[tuple[str, int, int, int]]
) -> None:
    world = History()
    for step in before:
        world.step(*step)
    compare(world.state.snapshot(NOW), QUERIES)
    compare_terms(world.state.snapshot(NOW))
    for step in after:
        world.step(*step)
        if step[0] == "ask":
            compare_terms(world.state.snapshot(NOW))
    compare(world.state.snapshot(NOW), QUERIES)
    compare_terms(world.state.snapshot(NOW))


@settings(max_examples=tries(60), deadline=None)
@given(steps, st.lists(st.tuples(st.integers(10, 13), st.integers(0, 3), st.integers(0, 1000)), max_size=6))
def test_an_overlay_and_a_frozen_copy_count_their_own_pods(
    history: list[tuple[str, int, int, int]], moves: list[tuple[int, int, int]]
) -> None:
    world = History()
    for step in history:
        world.step(*step)
    frozen = world.state.snapshot(NOW, frozen=True)
    view = world.state.snapshot(NOW)
    overlay = view.overlay()
    for index, node_index, choice in moves:
        row = overlay.row(NODES[node_index])
        if row < 0:
            continue
        present = [info for info in overlay.pods_on(row) if info.uid == f"uid-p{index}"]
        if present or (choice % 3 == 0 and overlay.pods_on(row)):
            overlay.remove_pod((present or list(overlay.pods_on(row)))[0], row)
        else:
            overlay.add_pod(some_pod(index, choice), row)
    compare(overlay, QUERIES[:12])
    compare_terms(overlay)
    compare(view, QUERIES[:12])
    world.step("bind", 0, 0, 77)
    world.step("no node", 0, 1, 0)
    compare(frozen, QUERIES[:12])
    compare_terms(frozen)


def test_a_relabelled_namespace_is_matched_by_other_terms() -> None:
    world = History()
    world.step("bind", 0, 0, 15)
    assert world.state.pod("uid-p0").spec.terms.affinity, "the pod has a term that selects namespaces by team"
    incoming = pod("new", namespace="c")
    assert not world.state.snapshot(NOW).terms_matching(incoming, TermKind.AFFINITY)
    data = {"metadata": {"name": "c", "labels": {"team": "red"}}}
    world.state.objects.upsert("Namespace", CODEC_OF_KIND["Namespace"].decode(msgspec.json.encode(data)))
    (counts,) = world.state.snapshot(NOW).terms_matching(incoming, TermKind.AFFINITY)
    assert counts.counts.sum() == 1


def test_queries_beyond_the_limit_are_forgotten_and_answered_again(monkeypatch: Any) -> None:
    monkeypatch.setattr("scheduler.state.aggregates._MAX_QUERIES", 3)
    monkeypatch.setattr("scheduler.state.tallies._MAX_SUMS", 4)
    monkeypatch.setattr("scheduler.state.termcounts._PRUNE_AT", 2)
    world = History()
    for index in range(8):
        world.step("bind", index, index % 4, 31 * index)
        compare(world.state.snapshot(NOW), QUERIES)
        compare_terms(world.state.snapshot(NOW))
    for index in range(8):
        world.step("delete", index, 0, 0)
        world.step("bind", index + 1, index % 4, 17 * index)
        compare(world.state.snapshot(NOW), QUERIES)
        compare_terms(world.state.snapshot(NOW))
