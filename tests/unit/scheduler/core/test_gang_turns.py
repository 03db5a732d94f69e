"""A gang that is decided in turns: the outcome is that of one go where nothing happens in between; else what happened
is taken into account before anything is reserved."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from scheduler.core import GangDecision, decide_gang
from scheduler.framework import GANG_UNITS, Gang, GangSlice, GangTopology, MemberTries, PodInfo, TurnQuestion, Work
from scheduler.state import ClusterState, Snapshot
from tests.unit.scheduler.core.builders import NOW, cluster, container, in_turns, node, pod, runner

PROFILE = runner()


def decided(
    state: ClusterState, gang: Gang, others: Callable[[], object], *, seed: int = 1, every: int = 1
) -> GangDecision:
    """Decide about a gang whose turn is over before every so-many-th member."""
    asked = 0

    def turn_is_over() -> bool:
        nonlocal asked
        asked += 1
        return asked % every == 0

    def go_on() -> Snapshot:
        others()
        return state.snapshot(NOW)

    work, rng = Work(GANG_UNITS, turn_is_over), random.Random(seed)
    asking = decide_gang(state.snapshot(NOW), gang, gang.waiting, lambda pod: PROFILE, rng, gang.missing, work=work)
    return in_turns(asking, go_on)


def gang_of(pods: list[PodInfo], minimum: int, topology: GangTopology | None = None, **fields: MemberTries) -> Gang:
    return Gang("pod group default/g", tuple(pods), minimum, 0, 60.0, topology=topology, **fields)


def nodes_of(decision: GangDecision) -> list[str | None]:
    return [placement.node for placement in decision.placements]


def some_topology(chance: random.Random, pods: list[PodInfo]) -> GangTopology | None:
    size = chance.randint(1, len(pods))
    slices = tuple(
        GangSlice(frozenset(each.uid for each in pods[first : first + size])) for first in range(0, len(pods), size)
    )
    return chance.choice(
        [
            None,
            GangTopology(("rack",)),
            GangTopology(("rack", "block"), anywhere=True),
            GangTopology(("rack",), is_scored=True),
            GangTopology(("block",), slice_label="rack", slices=slices),
        ]
    )


@pytest.mark.parametrize("seed", range(60))
def test_turns_between_which_nothing_happens_change_nothing(seed: int) -> None:
    chance = random.Random(seed)
    nodes = [
        node(
            f"n{rack}-{number}",
            allocatable={"cpu": str(chance.randint(1, 6))},
            labels={"rack": f"r{rack}", "block": f"b{rack // 2}"},
        )
        for rack in range(chance.randint(1, 5))
        for number in range(chance.randint(1, 4))
    ]
    state = cluster(*nodes)
    pods = [pod(f"p{number}", container(chance.choice(("500m", "1", "2")))) for number in range(chance.randint(1, 12))]
    topology = some_topology(chance, pods)
    tries = chance.choice(list(MemberTries)) if topology is None else MemberTries.UNTIL_ENOUGH
    gang = gang_of(pods, chance.randint(1, len(pods)), topology, tries=tries)
    in_one_go = decided(state, gang, lambda: None, seed=seed, every=1 << 30)
    assert nodes_of(decided(state, gang, lambda: None, seed=seed)) == nodes_of(in_one_go)
    assert nodes_of(decided(state, gang, lambda: None, seed=seed, every=3)) == nodes_of(in_one_go)


def test_others_are_told_which_nodes_the_members_hold_so_far() -> None:
    state = cluster(node("n", allocatable={"cpu": "4"}))
    pods = [pod(f"p{number}", container("1")) for number in range(3)]
    work = Work(GANG_UNITS, lambda: True)
    asking = decide_gang(
        state.snapshot(NOW), gang_of(pods, 3), pods, lambda pod: PROFILE, random.Random(1), 3, work=work
    )
    question = next(asking)
    assert isinstance(question, TurnQuestion)
    assert question.holds == ()
    asking.close()


def test_a_member_whose_node_is_taken_in_between_goes_to_another() -> None:
    state = cluster(node("n1", allocatable={"cpu": "2"}), node("n2", allocatable={"cpu": "2"}))
    pods = [pod(f"p{number}", container("1")) for number in range(2)]
    taken: list[str] = []

    def others() -> None:
        if state.pod_count == 0:
            state.assume(pod("large", container("2")), "n1", NOW)
            taken.append("n1")

    decision = decided(state, gang_of(pods, 2), others)
    assert nodes_of(decision) == ["n2", "n2"]
    assert taken == ["n1"]


@pytest.mark.parametrize("is_scored", [False, True])
def test_a_rack_that_is_lost_in_between_is_given_up_for_another(is_scored: bool) -> None:
    state = cluster(
        *[node(f"a{number}", allocatable={"cpu": "2"}, labels={"rack": "a"}) for number in range(2)],
        *[node(f"b{number}", allocatable={"cpu": "4"}, labels={"rack": "b"}) for number in range(2)],
    )
    pods = [pod(f"p{number}", container("1500m")) for number in range(2)]
    turns = 0

    def others() -> None:
        nonlocal turns
        turns += 1
        if turns == 2:
            # The first member holds one of its nodes by now.
            for number in range(2):
                state.assume(pod(f"other{number}", container("1")), f"a{number}", NOW)

    topology = GangTopology(("rack",), is_scored=is_scored)
    decision = decided(state, gang_of(pods, 2, topology), others)
    assert {(name or "")[0] for name in nodes_of(decision)} == {"b"}
    assert len(decision.placed) == 2


def test_a_gang_that_does_not_fit_any_more_holds_less_than_it_needs() -> None:
    state = cluster(node("n", allocatable={"cpu": "3"}))
    pods = [pod(f"p{number}", container("1")) for number in range(3)]
    decision = decided(
        state, gang_of(pods, 3), lambda: state.pod_count or state.assume(pod("x", container("1")), "n", NOW)
    )
    assert len(decision.placed) < 3


def test_room_that_comes_in_between_is_found() -> None:
    state = cluster(node("n1", allocatable={"cpu": "1"}))
    pods = [pod(f"p{number}", container("1")) for number in range(2)]
    decision = decided(state, gang_of(pods, 2), lambda: state.upsert_node(node("n2", allocatable={"cpu": "1"})))
    assert sorted(map(str, nodes_of(decision))) == ["n1", "n2"]
