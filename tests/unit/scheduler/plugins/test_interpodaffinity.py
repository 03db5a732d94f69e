"""InterPodAffinity against its rules written pod by pod, in what-if runs, and its hints."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from scheduler.core import explain
from scheduler.framework import CycleState, Hint, PodInfo
from scheduler.state import ClusterState
from tests.support.selection import tries
from tests.unit.scheduler.core.builders import NOW, cluster, node, pod, runner
from tests.unit.scheduler.plugins import pods_reference as reference
from tests.unit.scheduler.plugins.pods_worlds import (
    HOST,
    NAMESPACES,
    REQUIRED,
    ZONE,
    caring,
    filtered,
    only,
    pods,
    put,
    seen,
    worlds,
)

NAME = "InterPodAffinity"
# One runner for all examples: what a plugin remembers must not leak from one cluster into another.
PROFILES = {
    "safe": runner(only(NAME)),
    "upstream": runner(only(NAME), compatibility="upstream"),
    "hard": runner(only(NAME), {NAME: {"hardPodAffinityWeight": 37}}),
    "own": runner(only(NAME), {NAME: {"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": True}}),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "safe": {},
    "upstream": {"upstream": True},
    "hard": {"hard_weight": 37},
    "own": {"hard_weight": 0, "ignore_existing": True},
}


def check(state: ClusterState, world: reference.Cluster, info: PodInfo, kind: str) -> None:
    explanation = explain(state.snapshot(NOW), info, PROFILES[kind])
    expected = reference.affinity_verdicts(info, world, upstream=kind == "upstream") or {}
    feasible = []
    for world_node, _ in world.nodes:
        rejection = explanation.node(world_node.name).rejection
        actual = None if rejection is None else (int(rejection.code), rejection.message)
        assert actual == expected.get(world_node.name)
        if rejection is None:
            feasible.append(world_node.name)
    if not feasible:
        return
    scores = reference.affinity_scores(info, world, feasible, **OPTIONS[kind])
    for name in feasible:
        score = explanation.node(name).scores.get(NAME)
        assert (score is None) is (scores is None)
        if score is not None and scores is not None:
            assert (score.raw, score.normalized) == (scores[0][name], scores[1][name])


@settings(max_examples=tries(150), deadline=None)
@given(worlds(caring), pods("new", caring), st.sampled_from(list(PROFILES)))
def test_verdicts_and_scores_are_the_references(
    built: tuple[ClusterState, reference.Cluster], info: PodInfo, kind: str
) -> None:
    check(*built, info, kind)


@settings(max_examples=tries(60), deadline=None)
@given(worlds(caring), pods("new", caring), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=6))
def test_they_remain_the_references_while_the_cluster_changes(
    built: tuple[ClusterState, reference.Cluster], info: PodInfo, changes: list[tuple[int, int]]
) -> None:
    state, world = built
    names = list(state.node_names)
    check(state, world, info, "safe")
    for number, (change, index) in enumerate(changes):
        name = names[index % len(names)]
        old = state.node(name)
        match change:
            case 0:
                state.assume(msgspec.structs.replace(info, uid=f"assumed-{number}"), name, NOW)
            case 1:
                state.forget(f"assumed-{number - 1}")
            case 2 if old is not None:
                state.upsert_node(msgspec.structs.replace(old, labels={ZONE: "abc"[index % 3]}))
            case 3:
                for bound in list(state.pods_on(name))[:1]:
                    state.upsert_pod(msgspec.structs.replace(bound, labels={"app": "web"}))
            case 4:
                for bound in list(state.pods_on(name))[:1]:
                    state.remove_pod(bound.uid)
            case 5:
                world.namespaces = {**NAMESPACES, "default": {"team": "red"} if index % 2 else {}}
                put(state, "Namespace", "default", {}, labels=dict(world.namespaces["default"]))
        check(state, seen(state, world), info, "safe")


@settings(max_examples=tries(60), deadline=None)
@given(
    worlds(caring), pods("new", caring), pods("other", caring), st.integers(0, 4), st.sampled_from(["safe", "upstream"])
)
def test_a_pod_added_in_a_what_if_run_counts_as_if_it_were_there(
    built: tuple[ClusterState, reference.Cluster], info: PodInfo, other: PodInfo, index: int, kind: str
) -> None:
    view = built[0].snapshot(NOW)
    row = int(view.rows[index % len(view.rows)])
    overlay = view.overlay()
    overlay.add_pod(other, row)
    state = CycleState()
    status, _, _ = PROFILES[kind].run_pre_filter(state, info, view)
    if NAME in state.skip_filter:
        # As upstream: a plugin that skipped is not told of trials.
        return
    assert status.is_success
    assert filtered(PROFILES[kind], view, info, [(other, row, 1)]) == filtered(PROFILES[kind], overlay, info, [])
    there_and_back = [(other, row, 1), (other, row, -1)]
    assert filtered(PROFILES[kind], view, info, there_and_back) == filtered(PROFILES[kind], view, info, [])


@settings(max_examples=tries(60), deadline=None)
@given(worlds(caring), pods("new", caring), st.integers(0, 20))
def test_a_pod_removed_in_a_what_if_run_no_longer_counts(
    built: tuple[ClusterState, reference.Cluster], info: PodInfo, index: int
) -> None:
    state, _ = built
    placed = sorted(state.pod_uids)
    if not placed:
        return
    victim = state.pod(placed[index % len(placed)])
    assert victim is not None
    view = state.snapshot(NOW)
    cycle = CycleState()
    PROFILES["safe"].run_pre_filter(cycle, info, view)
    if NAME in cycle.skip_filter:
        return
    trial = filtered(PROFILES["safe"], view, info, [(victim, view.row(victim.node_name), -1)])
    state.remove_pod(victim.uid)
    after = state.snapshot(NOW)
    assert trial == filtered(PROFILES["safe"], after, info, [])


def term(app: str = "web", key: str = ZONE, **more: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAffinity": {REQUIRED: list(terms)}}}


def far(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"podAntiAffinity": {REQUIRED: list(terms)}}}


def web(name: str, **words: Any) -> PodInfo:
    return pod(name, **{"labels": {"app": "web"}, **words})


NOT_RED = {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["red"]}]}


def test_upstreams_namespace_selector_of_negations_means_every_namespace_and_ours_does_not() -> None:
    state = cluster(node("n0", labels={ZONE: "a"}), pods={"n0": [web("p", namespace="red")]})
    for name, labels in NAMESPACES.items():
        put(state, "Namespace", name, {}, labels=labels)
    mine = pod("mine", **far(term(namespaceSelector=NOT_RED)))
    assert explain(state.snapshot(NOW), mine, PROFILES["safe"]).node("n0").feasible
    assert not explain(state.snapshot(NOW), mine, PROFILES["upstream"]).node("n0").feasible


def test_a_namespace_that_is_not_known_has_no_labels() -> None:
    state = cluster(
        node("n0", labels={ZONE: "a"}), pods={"n0": [web("p", **far(term("mine", namespaceSelector=NOT_RED)))]}
    )
    mine = pod("mine", namespace="new", labels={"app": "mine"})
    assert not explain(state.snapshot(NOW), mine, PROFILES["safe"]).node("n0").feasible


def test_the_first_pod_with_affinity_to_itself_needs_nodes_with_all_keys() -> None:
    state = cluster(node("n0", labels={ZONE: "a"}), node("n1"))
    explanation = explain(state.snapshot(NOW), web("mine", **near(term())), PROFILES["safe"])
    assert explanation.best == ("n0",)
    state.upsert_pod(msgspec.structs.replace(web("p", namespace="other"), node_name="n0"))
    assert explain(state.snapshot(NOW), pod("mine", **near(term())), PROFILES["safe"]).best == ()


def test_an_invalid_term_rejects_its_pod_and_is_ignored_on_a_running_one() -> None:
    wrong = {"topologyKey": ZONE, "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}
    state = cluster(node("n0", labels={ZONE: "a"}), pods={"n0": [web("p", **far(wrong))]})
    explanation = explain(state.snapshot(NOW), web("mine", **near(wrong)), PROFILES["safe"])
    assert explanation.message is not None
    assert "parsing pod: requiredAffinityTerms" in explanation.message
    assert explain(state.snapshot(NOW), web("mine"), PROFILES["safe"]).best == ("n0",)


def bound(info: PodInfo) -> PodInfo:
    return msgspec.structs.replace(info, node_name="n")


NEAR, FAR = pod("mine", **near(term())), pod("mine", **far(term()))
BOTH = pod("mine", **near(term(), term("web", HOST)))
FAR_TWICE = pod("mine", **far(term(), term("db")))
NEAR_RED = pod("mine", **near(term(namespaceSelector={"matchLabels": {"team": "red"}})))
PLAIN = pod("mine", labels={"app": "mine"})
HOSTILE = bound(pod("o", **far(term("mine"))))
RED = bound(web("o", namespace="red"))
ZONED, UNZONED = node("n", labels={ZONE: "a"}), node("n")
Q, S = Hint.QUEUE, Hint.SKIP
# fmt: off
HINTS = [
    (NEAR, 0, None, bound(web("o")), Q, Q, "a wanted pod comes"),
    (NEAR, 0, None, web("o"), S, S, "it waits itself"),
    (NEAR, 0, None, bound(pod("o")), S, S, "another pod comes"),
    (NEAR, 0, bound(web("o")), None, S, S, "a wanted pod goes"),
    (NEAR, 0, bound(pod("o")), bound(web("o")), Q, Q, "it begins to match"),
    (NEAR, 0, bound(web("o")), bound(pod("o")), S, S, "it ceases to match"),
    (BOTH, 0, None, bound(web("o")), Q, Q, "it matches every term"),
    (FAR, 0, bound(web("o")), None, Q, Q, "an unwanted pod goes"),
    (FAR, 0, bound(pod("o")), None, S, S, "another pod goes"),
    (FAR, 0, bound(web("o")), bound(pod("o")), Q, Q, "an unwanted one ceases to match"),
    (FAR, 0, None, bound(web("o")), S, S, "an unwanted one comes"),
    (FAR_TWICE, 0, bound(web("o")), None, Q, S, "one that one of two terms means goes"),
    (NEAR_RED, 0, None, RED, Q, S, "a pod of a selected namespace comes"),
    (PLAIN, 0, HOSTILE, None, Q, S, "a pod that kept it away goes"),
    (PLAIN, 0, bound(pod("o", **far(term("x")))), None, S, S, "a pod that kept others away goes"),
    (PLAIN, 0, PLAIN, pod("mine", labels={"app": "x"}), Q, S, "it is relabelled itself"),
    (NEAR, 1, None, ZONED, Q, Q, "a node with the key comes"),
    (NEAR, 1, None, UNZONED, S, S, "a node without it comes"),
    (NEAR, 1, UNZONED, ZONED, Q, Q, "a node gets the key"),
    (NEAR, 1, ZONED, UNZONED, S, S, "a node loses the key"),
    (NEAR, 1, ZONED, node("n", labels={ZONE: "b"}), Q, Q, "a node moves"),
    (FAR, 1, None, UNZONED, Q, Q, "any node comes"),
    (FAR, 1, ZONED, UNZONED, Q, Q, "a node leaves its domain"),
    (FAR, 1, UNZONED, ZONED, S, S, "a node joins a domain"),
    (PLAIN, 1, None, UNZONED, Q, S, "a node comes where only others' terms count"),
]
# fmt: on


@pytest.mark.parametrize(
    ("mine", "number", "old", "new", "safe", "upstream"), [each[:6] for each in HINTS], ids=[each[6] for each in HINTS]
)
def test_hints(mine: PodInfo, number: int, old: object, new: object, safe: Hint, upstream: Hint) -> None:
    for kind, expected in (("safe", safe), ("upstream", upstream)):
        state = cluster(node("n"))
        for name, labels in NAMESPACES.items():
            put(state, "Namespace", name, {}, labels=labels)
        explain(state.snapshot(NOW), mine, PROFILES[kind])
        registration = PROFILES[kind].hint_registrations()[NAME][number]
        assert registration.hint is not None
        assert registration.hint(mine, old, new) is expected, kind


def test_a_relabelled_namespace_wakes_pods_that_select_namespaces_and_its_own() -> None:
    state = cluster(node("n"))
    put(state, "Namespace", "red", {}, labels={"team": "red"})
    changed = state.objects.get("Namespace", "", "red")
    (registration,) = [
        registration
        for registration in PROFILES["safe"].hint_registrations()[NAME]
        if registration.resource == "Namespace"
    ]
    assert registration.hint is not None
    assert registration.hint(NEAR_RED, None, changed) is Hint.QUEUE
    assert registration.hint(pod("mine", namespace="red"), None, changed) is Hint.QUEUE
    assert registration.hint(NEAR, None, changed) is Hint.SKIP
    assert not [
        registration
        for registration in PROFILES["upstream"].hint_registrations()[NAME]
        if registration.resource == "Namespace"
    ]


@pytest.mark.parametrize(
    ("mine", "old", "new", "older", "newer"),
    [
        pytest.param(NEAR_RED, None, RED, S, Q, id="a pod of a selected namespace comes"),
        pytest.param(NEAR_RED, None, bound(web("o", namespace="blue")), S, S, id="one of another namespace comes"),
        pytest.param(
            NEAR_RED, None, bound(web("o", namespace="unknown")), S, Q, id="one of an unknown namespace comes"
        ),
        pytest.param(NEAR_RED, None, bound(pod("o", namespace="unknown")), S, S, id="no term is about its labels"),
        pytest.param(NEAR_RED, None, web("o", namespace="unknown"), S, S, id="it waits itself"),
        pytest.param(
            pod("mine", labels={"app": "mine"}, namespace="red"),
            bound(pod("o", **far(term("mine", namespaceSelector={"matchLabels": {"team": "red"}})))),
            None,
            S,
            Q,
            id="a pod goes that kept pods of its namespace away",
        ),
        pytest.param(
            pod("mine", labels={"app": "mine"}, namespace="unknown"),
            bound(pod("o", **far(term("mine", namespaceSelector={"matchLabels": {"team": "red"}})))),
            None,
            S,
            Q,
            id="its own namespace is unknown",
        ),
    ],
)
def test_upstreams_hints_read_namespaces_from_1_38_on(
    mine: PodInfo, old: object, new: object, older: Hint, newer: Hint
) -> None:
    for version, expected in (("1.37", older), ("1.38", newer)):
        profile = runner(only(NAME), compatibility="upstream", kubernetes=version)
        state = cluster(node("n"))
        for name, labels in NAMESPACES.items():
            put(state, "Namespace", name, {}, labels=labels)
        explain(state.snapshot(NOW), mine, profile)
        registration = profile.hint_registrations()[NAME][0]
        assert registration.hint is not None
        assert registration.hint(mine, old, new) is expected, version
