"""Gangs with members that extenders are interested in: who is asked about whom, and what happens meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from scheduler.core import GangDecision
from scheduler.framework import Code, Extender, Gang, PodInfo
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner
from tests.unit.scheduler.core.extenders import Cluster, FakeExtender

PROFILE = runner()
GPU = "a.example/gpu"
FILTER = Extender("http://filter", filter_verb="filter", cache_capable=True)
SCORE = Extender("http://score", prioritize_verb="prioritize", weight=1, cache_capable=True, index=1)


def gang(*pods: PodInfo, minimum: int | None = None) -> Gang:
    return Gang("pod group default/g", pods, len(pods) if minimum is None else minimum, 0, 60.0)


def members(count: int, cpu: str = "1") -> Sequence[PodInfo]:
    return [pod(f"p{number}", container(cpu)) for number in range(count)]


def nodes_of(decision: GangDecision) -> list[str | None]:
    return [placement.node for placement in decision.placements]


def test_each_member_is_asked_about_once_with_the_earlier_ones_on_their_nodes() -> None:
    state = cluster(*(node(f"n{number}", allocatable={"cpu": "1"}) for number in range(3)))
    fake = FakeExtender(FILTER)
    decision = Cluster(state, PROFILE, fake).decide_gang(gang(*members(3)))
    assert sorted(map(str, nodes_of(decision))) == ["n0", "n1", "n2"]
    assert fake.pods == ["p0", "p1", "p2"]
    assert [len(nodes) for nodes in fake.questions] == [3, 2, 1]
    assert state.pod_count == 0


def test_extenders_are_asked_about_the_members_that_they_are_interested_in() -> None:
    fake = FakeExtender(replace(FILTER, managed_resources=frozenset({GPU})), keeps=("n2",))
    plain, gpu = pod("plain", container("1")), pod("gpu", container(requests={GPU: "0"}))
    decision = Cluster(cluster(node("n1"), node("n2")), PROFILE, fake).decide_gang(gang(plain, gpu))
    assert len(decision.placed) == 2
    assert decision.placements[1].node == "n2"
    assert fake.pods == ["gpu"]


def test_scores_of_extenders_choose_among_the_nodes_of_each_member() -> None:
    fake = FakeExtender(SCORE, scores={"n2": 10})
    decision = Cluster(cluster(node("n1"), node("n2")), PROFILE, fake).decide_gang(gang(*members(2)))
    assert nodes_of(decision) == ["n2", "n2"]


def test_members_beyond_the_minimum_are_not_asked_about() -> None:
    fake = FakeExtender(FILTER)
    Cluster(cluster(node("n1")), PROFILE, fake).decide_gang(gang(*members(3), minimum=1))
    assert fake.pods == ["p0"]


def test_a_member_that_extenders_reject_is_asked_about_again_once_others_found_a_place() -> None:
    fake = FakeExtender(FILTER, keeps=())
    fake.meanwhile = lambda: setattr(fake, "keeps", ("n1",) if len(fake.pods) > 1 else ())
    decision = Cluster(cluster(node("n1")), PROFILE, fake).decide_gang(gang(*members(2)))
    assert nodes_of(decision) == ["n1", "n1"]
    assert fake.pods == ["p0", "p1", "p0"]


def test_equal_members_are_each_asked_about_and_none_more_than_twice() -> None:
    fake = FakeExtender(FILTER, keeps=())
    lucky = {"p9", "p8"}
    fake.meanwhile = lambda: setattr(fake, "keeps", ("n1",) if fake.pods[-1] in lucky else ())
    decision = Cluster(cluster(node("n1")), PROFILE, fake).decide_gang(gang(*members(10)))
    assert len(decision.placed) == 2
    assert fake.pods == [f"p{number}" for number in range(10)] + [f"p{number}" for number in range(8)]


def test_equal_members_that_plugins_reject_are_not_tried_again() -> None:
    fake = FakeExtender(FILTER)
    decision = Cluster(cluster(node("n1")), PROFILE, fake).decide_gang(gang(*members(50, cpu="64")))
    assert len(decision.unplaced) == 50
    assert fake.pods == []


def test_an_extenders_own_error_costs_one_member() -> None:
    fake = FakeExtender(FILTER)
    fake.meanwhile = lambda: setattr(fake, "error", "no licence" if fake.pods[-1] == "p0" else "")
    decision = Cluster(cluster(node("n1")), PROFILE, fake).decide_gang(gang(*members(3), minimum=2))
    assert nodes_of(decision) == [None, "n1", "n1"]
    assert (decision.placements[0].code, decision.placements[0].message) == (Code.ERROR, "no licence")


def test_an_extender_that_does_not_answer_ends_the_attempt() -> None:
    fake = FakeExtender(FILTER, error="no answer within 5 s", unanswered=True)
    decision = Cluster(cluster(node("n1")), PROFILE, fake).decide_gang(gang(*members(1000)))
    assert fake.pods == ["p0"]
    assert [placement.message for placement in decision.placements] == ["no answer within 5 s"]


def test_an_ignorable_extender_and_one_that_scores_are_not_asked_again_once_they_do_not_answer() -> None:
    dead = FakeExtender(replace(FILTER, ignorable=True), error="dead", unanswered=True)
    scoring = FakeExtender(SCORE, error="dead")
    state = cluster(node("n1"), node("n2"))
    decision = Cluster(state, PROFILE, dead, scoring).decide_gang(gang(*members(20, cpu="100m")))
    assert len(decision.placed) == 20
    assert (len(dead.pods), len(scoring.prioritized)) == (1, 1)


def test_a_node_that_goes_while_a_later_member_is_asked_about_is_not_kept() -> None:
    state = cluster(node("n1"), node("n2"))
    fake = FakeExtender(FILTER, keeps=("n1",))

    def meanwhile() -> None:
        if fake.pods == ["p0", "p1"]:
            state.remove_node("n1")
            fake.keeps = ("n2",)

    fake.meanwhile = meanwhile
    decision = Cluster(state, PROFILE, fake).decide_gang(gang(*members(2)))
    assert nodes_of(decision) == ["n2", "n2"]
    assert fake.pods == ["p0", "p1", "p0"]


def test_room_that_another_pod_takes_meanwhile_is_not_taken_twice() -> None:
    state = cluster(node("n1", allocatable={"cpu": "2"}))
    fake = FakeExtender(FILTER)

    def meanwhile() -> None:
        if len(fake.pods) == 2:
            state.upsert_pod(msgspec.structs.replace(pod("other", container("1")), node_name="n1"), observed_at=NOW)

    fake.meanwhile = meanwhile
    decision = Cluster(state, PROFILE, fake).decide_gang(gang(*members(2)))
    assert len(decision.placed) == 1
    assert decision.unplaced[0].message in (
        "0/1 nodes are available: 1 Insufficient cpu.",
        "node n1 changed while other members were decided",
    )
