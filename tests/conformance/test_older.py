"""Differences that a minor before 1.34 is known for are left out of a comparison, and nothing else is."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from tests.conformance.case import BOUND, UNSCHEDULABLE, Answer, Json
from tests.conformance.compare import differences
from tests.conformance.features import FEATURES
from tests.conformance.older import MESSAGE, OLDER_VERSIONS, aligned

POD: Json = {"spec": {"containers": [{"name": "c"}]}}
BALANCED = "NodeResourcesBalancedAllocation"
HOPELESS = "Preemption is not helpful for scheduling."
PREEMPTION = f"no new claims to deallocate, preemption: 0/4 nodes are available: 4 {HOPELESS}"
OLD_PREEMPTION = f"preemption: 0/4 nodes are available: 4 {HOPELESS}"


def rejected(message: str) -> Answer:
    return Answer(UNSCHEDULABLE, message=f"0/4 nodes are available: {message}")


def compared(minor: int, real: Answer, ours: Answer, pod: Json = POD) -> tuple[list[str], set[str]]:
    real, ours, listed = aligned(OLDER_VERSIONS[minor], pod, real, ours)
    return differences(real, ours), set(listed)


def test_every_taint_is_a_reason_of_its_own_before_1_34() -> None:
    real = rejected(
        f"1 node(s) had untolerated taint {{a: b, c}}, 3 node(s) had untolerated taint {{d: }}. {OLD_PREEMPTION}"
    )
    ours = rejected(f"4 node(s) had untolerated taint(s). {PREEMPTION}")
    for minor in OLDER_VERSIONS:
        assert compared(minor, real, ours) == ([], {MESSAGE})


def test_a_node_that_is_too_small_may_be_preempted_on_before_1_34() -> None:
    reasons = "1 Insufficient cpu, 3 node(s) had untolerated taint(s)."
    victims = "1 No preemption victims found for incoming pod"
    real = rejected(f"{reasons} preemption: 0/4 nodes are available: {victims}, 3 {HOPELESS}")
    assert compared(33, real, rejected(f"{reasons} {PREEMPTION}")) == ([], {MESSAGE})


def test_victims_are_tried_on_a_node_that_is_too_small_before_1_34() -> None:
    real = rejected(f"4 Insufficient cpu. preemption: 0/4 nodes are available: 1 Insufficient cpu, 3 {HOPELESS}")
    assert compared(33, real, rejected(f"4 Insufficient cpu. {PREEMPTION}")) == ([], {MESSAGE})
    assert compared(33, real, rejected(f"4 Insufficient memory. {PREEMPTION}"))[0]


@pytest.mark.parametrize("preemption", [OLD_PREEMPTION, "preemption: not eligible due to preemptionPolicy=Never."])
def test_preemption_is_asked_about_a_pod_that_prefilter_rejects_before_1_34(preemption: str) -> None:
    reason = 'persistentvolume "v" not found.'
    real = rejected(f"{reason} {preemption}")
    assert compared(33, real, rejected(f"{reason} not found")) == ([], {MESSAGE})
    assert compared(33, real, rejected("another reason. not found"))[0]


def test_a_count_that_differs_is_a_difference_on_every_minor() -> None:
    real = rejected(f"2 node(s) had untolerated taint {{a: }}, 2 Insufficient cpu. {OLD_PREEMPTION}")
    ours = rejected(f"1 Insufficient cpu, 3 node(s) had untolerated taint(s). {PREEMPTION}")
    for minor in OLDER_VERSIONS:
        differing, listed = compared(minor, real, ours)
        assert differing
        assert listed == set()


def test_the_words_about_a_volume_s_nodes_are_new_since_1_33() -> None:
    real = rejected(f"4 node(s) had volume node affinity conflict. {OLD_PREEMPTION}")
    ours = rejected(f"4 node(s) didn't match PersistentVolume's node affinity. {PREEMPTION}")
    assert compared(32, real, ours) == ([], {MESSAGE})
    assert compared(33, real, ours)[0]


@pytest.mark.parametrize(("minor", "agrees"), [(29, True), (30, True), (31, True), (32, False), (33, False)])
def test_nodes_outside_a_plugin_s_choice_are_not_counted_before_1_32(minor: int, agrees: bool) -> None:
    ours = rejected(f"1 Insufficient cpu, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]. {PREEMPTION}")
    real = rejected(f"1 Insufficient cpu. {OLD_PREEMPTION}")
    assert (compared(minor, real, ours)[0] == []) is agrees
    nothing = rejected(f"4 node(s) didn't satisfy plugin(s) [NodeAffinity]. {PREEMPTION}")
    assert (compared(minor, rejected(OLD_PREEMPTION), nothing)[0] == []) is agrees


def bound(balanced: dict[str, int], node: str) -> Answer:
    scores = {name: {"Fit": 50} | ({BALANCED: balanced[name]} if balanced else {}) for name in ("a", "b")}
    totals = {name: sum(row.values()) for name, row in scores.items()}
    best = frozenset(name for name, total in totals.items() if total == max(totals.values()))
    return Answer(BOUND, frozenset({"a", "b"}), scores, totals, best, node)


def test_pods_without_requests_are_balanced_before_1_33() -> None:
    real, ours = bound({"a": 90, "b": 70}, "a"), bound({}, "b")
    assert compared(32, real, ours) == ([], {BALANCED})
    assert compared(33, real, ours)[0]
    assert compared(32, dataclasses.replace(real, node="b"), ours)[0], "a choice must follow from the scores"


def test_a_balance_that_both_score_must_agree_on_every_minor() -> None:
    real, ours = bound({"a": 90, "b": 70}, "a"), bound({"a": 80, "b": 70}, "a")
    for minor in OLDER_VERSIONS:
        assert compared(minor, real, ours)[0]


def test_images_of_init_containers_count_since_1_30() -> None:
    real, ours = bound({}, "a"), bound({}, "a")
    for answer, score in ((real, 0), (ours, 40)):
        for node in ("a", "b"):
            answer.scores[node]["ImageLocality"] = score
            answer.totals[node] += score
    starting = {"spec": POD["spec"] | {"initContainers": [{"name": "i"}]}}
    assert compared(29, real, ours, starting) == ([], {"ImageLocality"})
    assert compared(29, real, ours)[0]
    assert compared(30, real, ours, starting)[0]


def test_what_is_not_asked_is_a_feature_and_stays_unasked_on_older_minors() -> None:
    unasked = [set(row.unasked) for row in OLDER_VERSIONS.values()]
    assert set().union(*unasked) <= set(FEATURES)
    assert all(older >= newer for older, newer in itertools.pairwise(unasked))
