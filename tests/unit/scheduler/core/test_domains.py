"""Gangs by topology: the narrowest domain with room for all, the tightest of these; one domain or none."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from scheduler.core import GangDecision, Placement, decide_gang, gang_message, place_gang
from scheduler.core.domains import DomainSearch, levels_of
from scheduler.framework import (
    Asking,
    CycleState,
    Gang,
    GangSlice,
    GangTopology,
    OverBudgetError,
    PodInfo,
    Status,
    Work,
    conclude,
    unschedulable,
)
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, cluster, container, node, pod, runner

PROFILE = runner()
RACK = GangTopology(("rack",))


def racks(*sizes: int, cpu: str = "4", blocks: int = 2, **fields: Any) -> ClusterState:
    """Racks r0, r1, … of so many nodes each; `blocks` of them make a block."""
    return cluster(
        *(
            node(
                f"n{rack}-{number}",
                allocatable={"cpu": cpu},
                labels={"rack": f"r{rack}", "block": f"b{rack // blocks}"},
                **fields,
            )
            for rack, size in enumerate(sizes)
            for number in range(size)
        )
    )


def members(count: int, cpu: str = "1", **fields: Any) -> list[PodInfo]:
    return [pod(f"p{number}", container(cpu), **fields) for number in range(count)]


def gang(pods: Sequence[PodInfo], topology: GangTopology, minimum: int | None = None, placed: int = 0) -> Gang:
    minimum = len(pods) + placed if minimum is None else minimum
    return Gang("pod group default/g", tuple(pods), minimum, placed, 60.0, topology=topology)


def decided(state: ClusterState, group: Gang, work: Work | None = None) -> GangDecision:
    snapshot, rng = state.snapshot(NOW), random.Random(1)
    asking = decide_gang(snapshot, group, group.waiting, lambda info: PROFILE, rng, group.missing, work=work)
    return conclude(asking)


def used(decision: GangDecision) -> set[str]:
    """The racks of the nodes that members were given."""
    return {(placement.node or "").partition("-")[0].replace("n", "r") for placement in decision.placed}


def test_all_members_go_to_one_domain() -> None:
    decision = decided(racks(2, 2, 2), gang(members(8), RACK))
    assert len(decision.placed) == 8
    assert len(used(decision)) == 1


def test_the_tightest_domain_is_taken_so_that_large_ones_stay_free() -> None:
    assert used(decided(racks(5, 3, 4), gang(members(10), RACK))) == {"r1"}


def test_of_equal_domains_the_first_by_name_is_taken() -> None:
    assert used(decided(racks(2, 2, 2), gang(members(3), RACK))) == {"r0"}


def test_a_gang_that_fits_in_no_domain_holds_nothing_and_says_how_many_would_fit_in_the_best() -> None:
    decision = decided(racks(2, 3, 1), gang(members(14), RACK))
    assert len(decision.placed) == 12
    assert gang_message(decision) == (
        "pod group default/g: 12 of 14 members fit in rack=r1, the best of 3 such domains, minMember is 14: "
        "0/3 nodes are available: 3 Insufficient cpu."
    )


def test_the_next_level_is_taken_where_no_narrower_domain_is_large_enough() -> None:
    decision = decided(racks(1, 2, 2, 2), gang(members(14), GangTopology(("rack", "block"))))
    assert used(decision) == {"r2", "r3"}
    assert str(decision.domain) == "block=b1"


def test_without_a_required_level_members_go_anywhere_in_the_end() -> None:
    preferred = GangTopology(("rack", "block"), anywhere=True)
    assert used(decided(racks(1, 1, 1, 1), gang(members(4), preferred))) == {"r0"}
    assert len(used(decided(racks(1, 1, 1, 1), gang(members(16), preferred)))) == 4


def test_a_domain_with_room_for_all_goes_before_a_narrower_one_with_room_for_enough() -> None:
    group = gang(members(6), GangTopology(("rack", "block")), minimum=3)
    assert str(decided(racks(1, 1), group).domain) == "block=b0"


def test_enough_members_are_placed_where_no_domain_has_room_for_all() -> None:
    decision = decided(racks(1, 1), gang(members(6), RACK, minimum=3))
    assert len(decision.placed) == 3
    assert len(used(decision)) == 1


def test_further_members_follow_those_that_have_nodes() -> None:
    topology = GangTopology(("rack",), nodes=("n2-0",))
    assert used(decided(racks(5, 5, 2), gang(members(1), topology, minimum=2, placed=2))) == {"r2"}


def test_further_members_wait_where_their_domain_is_full() -> None:
    topology = GangTopology(("rack",), nodes=("n1-0",))
    decision = decided(racks(5, 1), gang(members(5), topology, minimum=6, placed=1))
    assert len(decision.placed) == 4
    assert "4 of 5 members fit in rack=r1" not in gang_message(decision)
    assert "5 of 6 members fit in rack=r1, minMember is 6" in gang_message(decision)


def test_a_domain_is_known_by_its_path_as_racks_of_two_blocks_may_have_one_name() -> None:
    nodes = [
        node(f"n{block}", allocatable={"cpu": "4"}, labels={"rack": "r", "block": f"b{block}"}) for block in range(2)
    ]
    decision = decided(cluster(*nodes), gang(members(8), GangTopology(("rack", "block"), anywhere=True)))
    assert str(decision.domain) == "the cluster"
    assert str(decided(cluster(*nodes), gang(members(4), GangTopology(("rack", "block")))).domain) == "rack=r,block=b0"


@pytest.mark.parametrize("labels", [{}, {"rack": ""}])
def test_a_node_without_a_value_belongs_to_no_domain(labels: dict[str, str]) -> None:
    state = cluster(node("big", allocatable={"cpu": "64"}, labels=labels), node("n", labels={"rack": "r"}))
    assert {placement.node for placement in decided(state, gang(members(2), RACK)).placed} == {"n"}


def test_a_label_that_no_node_has_is_named() -> None:
    message = gang_message(decided(racks(2), gang(members(2), GangTopology(("zone",)))))
    assert message == "pod group default/g: no node has the label zone"


def test_members_that_run_in_two_domains_are_named_with_these() -> None:
    topology = GangTopology(("rack",), nodes=("n0-0", "n1-0"))
    message = gang_message(decided(racks(2, 2), gang(members(1), topology, minimum=3, placed=2)))
    assert (
        message == "pod group default/g: its members run in rack=r0, rack=r1, and no domain of rack holds all of them"
    )


def test_a_member_whose_node_lost_its_label_is_named_with_the_node() -> None:
    state = cluster(node("n", labels={"rack": "r"}), node("bare"))
    topology = GangTopology(("rack",), nodes=("bare",))
    message = gang_message(decided(state, gang(members(1), topology, minimum=2, placed=1)))
    assert message.endswith("its members run in node bare without the label, and no domain of rack holds all of them")


def test_a_node_that_is_gone_keeps_no_member_from_a_domain() -> None:
    topology = GangTopology(("rack",), nodes=("gone",))
    assert len(decided(racks(2), gang(members(1), topology, minimum=2, placed=1)).placed) == 1


def test_a_domain_that_filters_close_is_not_chosen() -> None:
    tainted = [("gpu", "", "NoSchedule")]
    state = cluster(
        node("a", allocatable={"cpu": "4"}, labels={"rack": "r0"}, taints=tainted),
        node("b", allocatable={"cpu": "64"}, labels={"rack": "r1"}),
    )
    assert {placement.node for placement in decided(state, gang(members(4), RACK)).placed} == {"b"}


def test_members_that_want_to_be_beside_others_find_the_domain_with_these() -> None:
    """No filter lets the workers pass before the leader is placed: the room for them is not known from the start."""
    term = {"labelSelector": {"matchLabels": {"app": "leader"}}, "topologyKey": "rack"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    workers = [pod(f"w{number}", container("1"), affinity=affinity) for number in range(3)]
    leader = pod("leader", container("1"), labels={"app": "leader"})
    decision = decided(racks(1, 1), gang([*workers, leader], RACK))
    assert len(decision.placed) == 4
    assert len(used(decision)) == 1


def test_a_nomination_outside_of_the_domain_does_not_count() -> None:
    pods = [msgspec.structs.replace(each, nominated_node="n1-0") for each in members(4)]
    topology = GangTopology(("rack",), nodes=("n0-0",))
    assert used(decided(racks(2, 2), gang(pods, topology, minimum=5, placed=1))) == {"r0"}


def test_the_search_is_work_and_ends_where_it_is_too_much() -> None:
    decision = decided(racks(2, 2), gang(members(4), RACK), Work(10))
    assert decision.over_budget
    view = racks(2).snapshot(NOW)
    with pytest.raises(OverBudgetError):
        DomainSearch(
            view,
            levels_of(view, RACK),
            (),
            members(2),
            2,
            lambda info: "",
            lambda info: PROFILE,
            random.Random(1),
            Work(5),
        )


def test_so_many_domains_are_tried_in_one_attempt() -> None:
    """Members that must not be beside each other look as if they fit, each by itself, on every node."""
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "rack"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pods = [pod(f"p{number}", container("1"), labels={"app": "x"}, affinity=affinity) for number in range(2)]
    tried: list[str] = []

    def watch(view: object, placement: Placement) -> None:
        tried.append(placement.node or "")

    state, group = racks(*[1] * 100), gang(pods, RACK)
    asking = decide_gang(state.snapshot(NOW), group, pods, lambda info: PROFILE, random.Random(1), 2, on_decision=watch)
    assert len(conclude(asking).placed) == 1
    assert len({node for node in tried if node}) == 64


# Slices --------------------------------------------------------------------------------------------------------------


def in_slices(pods: Sequence[PodInfo], size: int, levels: tuple[str, ...] = (), **fields: Any) -> GangTopology:
    parts = [pods[first : first + size] for first in range(0, len(pods), size)]
    slices = tuple(GangSlice(frozenset(each.uid for each in part)) for part in parts)
    return GangTopology(levels, anywhere=not levels, slice_label="rack", slices=slices, **fields)


def racks_of(decision: GangDecision, size: int) -> list[set[str]]:
    """The racks of each slice."""
    nodes = [(placement.node or "").partition("-")[0].replace("n", "r") for placement in decision.placements]
    return [set(nodes[first : first + size]) for first in range(0, len(nodes), size)]


def test_each_slice_is_in_one_domain() -> None:
    pods = members(12)
    decision = decided(racks(2, 1, 1), gang(pods, in_slices(pods, 4)))
    assert len(decision.placed) == 12
    assert all(len(used_by_slice) == 1 for used_by_slice in racks_of(decision, 4))


def test_slices_that_would_be_split_do_not_fit_although_there_is_room() -> None:
    """Three racks for three pods each: nine find room, and two slices of four do not."""
    pods = members(8)
    state = racks(1, 1, 1, cpu="3")
    assert not decided(state, gang(pods, in_slices(pods, 4))).placed
    assert len(decided(state, gang(pods, GangTopology((), anywhere=True))).placed) == 8


def test_slices_stay_within_the_domain_of_all_members() -> None:
    pods = members(8)
    decision = decided(racks(1, 1, 2, 1), gang(pods, in_slices(pods, 4, ("block",))))
    assert str(decision.domain) == "block=b0"
    assert len(decision.placed) == 8
    assert all(len(used_by_slice) == 1 for used_by_slice in racks_of(decision, 4))


def test_a_domain_counts_for_as_many_members_as_it_takes_in_whole_slices() -> None:
    """Block b0 has room for nine members and for one slice; b1 has room for eight, and for two."""
    nodes = [
        node(f"{block}{rack}", allocatable={"cpu": cpu}, labels={"rack": f"r{rack}", "block": block})
        for block, sizes in (("b0", "333"), ("b1", "44"))
        for rack, cpu in enumerate(sizes)
    ]
    pods = members(8)
    assert str(decided(cluster(*nodes), gang(pods, in_slices(pods, 4, ("block",)))).domain) == "block=b1"


def test_a_member_that_comes_back_joins_the_others_of_its_slice() -> None:
    pods = members(1)
    topology = GangTopology(
        (), anywhere=True, nodes=("n0-0", "n2-0"), slice_label="rack",
        slices=(GangSlice(frozenset({pods[0].uid}), ("n2-0",)),),
    )  # fmt: skip
    assert used(decided(racks(3, 3, 1), gang(pods, topology, minimum=4, placed=3))) == {"r2"}


def test_a_slice_label_that_no_node_has_is_named() -> None:
    pods = members(2)
    topology = msgspec.structs.replace(in_slices(pods, 2), slice_label="nvlink")
    assert gang_message(decided(racks(2), gang(pods, topology))).endswith("no node has the label nvlink")


def test_a_member_that_is_refused_when_it_is_taken_joins_its_slice_in_the_next_round() -> None:
    """As with a volume that was taken meanwhile: another rack takes the rest of the slice as well, and comes first."""
    pods = members(2)
    state = racks(2, cpu="1")
    group, rounds = gang(pods, in_slices(pods, 2)), []

    def decide_now(now: Gang, left: Sequence[PodInfo], enough: int) -> Asking[GangDecision]:
        rounds.append(now.topology)
        return decide_gang(state.snapshot(NOW), now, left, lambda info: PROFILE, random.Random(1), enough)

    def take(placement: Placement) -> Status:
        if placement.pod.name == "p1" and len(rounds) == 1:
            state.upsert_node(node("na-0", allocatable={"cpu": "1"}, labels={"rack": "a", "block": "b0"}))
            return unschedulable("the volume is taken", plugin="VolumeBinding")
        state.assume(placement.pod, placement.node or "", NOW)
        return Status()

    decision = conclude(place_gang(group, pods, decide_now, take))
    assert len(rounds) == 2
    assert len(racks_of(decision, 2)[0]) == 1


def test_a_load_that_is_too_much_work_to_score_leaves_the_order_to_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless:
        name = "TargetLoadPacking"

        def score(self, state: CycleState, *rest: object) -> None:
            raise OverBudgetError(2, 1, "nodes")

    monkeypatch.setattr(PROFILE, "load_scores", ((Endless(), 1),))
    assert used(decided(racks(2, 2), gang(members(3), RACK))) == {"r0"}


@pytest.mark.parametrize("seed", range(20))
def test_slices_are_whole_or_not_there_in_any_cluster(seed: int) -> None:
    chance = random.Random(seed)
    state = racks(*[chance.randint(1, 3) for _ in range(chance.randint(1, 6))], cpu=str(chance.randint(1, 4)))
    size = chance.randint(1, 4)
    pods = members(size * chance.randint(1, 4))
    decision = decided(state, gang(pods, in_slices(pods, size, chance.choice([(), ("block",)]))))
    for first in range(0, len(pods), size):
        part = decision.placements[first : first + size]
        nodes = {placement.node for placement in part}
        assert nodes == {None} or (None not in nodes and len({(name or "").partition("-")[0] for name in nodes}) == 1)


@pytest.mark.parametrize("seed", range(30))
def test_a_gang_is_placed_exactly_where_trying_every_domain_finds_room(seed: int) -> None:
    """Against the plain way: each domain of each level by itself, as a cluster whose other nodes are closed."""
    chance = random.Random(seed)
    sizes = [chance.randint(1, 3) for _ in range(chance.randint(1, 5))]
    nodes = [
        node(
            f"n{rack}-{number}",
            allocatable={"cpu": str(chance.randint(1, 5)), "pods": str(chance.randint(1, 6))},
            labels={"rack": f"r{rack}", "block": f"b{rack // 2}"},
            taints=[("x", "", "NoSchedule")] if chance.random() < 0.2 else [],
        )
        for rack, size in enumerate(sizes)
        for number in range(size)
    ]
    # Members of two sizes may be packed badly by the order in which they come: both ways decide in that order.
    kinds = [chance.choice(("1", "2")) for _ in range(chance.randint(1, 2))]
    pods = [pod(f"p{number}", container(chance.choice(kinds))) for number in range(chance.randint(1, 8))]
    levels = chance.choice([("rack",), ("rack", "block")])
    minimum = chance.randint(1, len(pods))
    decision = decided(cluster(*nodes), gang(pods, GangTopology(levels), minimum))

    def fits(level: str, value: str) -> bool:
        inside = [each for each in nodes if each.labels[level] == value]
        plain = Gang("pod group default/g", tuple(pods), minimum, 0, 60.0)
        return len(decided(cluster(*inside), plain).placed) >= minimum

    values = {level: sorted({each.labels[level] for each in nodes}) for level in levels}
    somewhere = any(fits(level, value) for level in levels for value in values[level])
    # Which nodes equal scores choose is drawn by chance, and two sizes may be packed well or badly by it.
    if len(set(kinds)) == 1:
        assert (len(decision.placed) >= minimum) == somewhere
    elif len(decision.placed) >= minimum:
        places = {placement.node for placement in decision.placed}
        inside = [{each.labels[level] for each in nodes if each.name in places} for level in levels]
        assert any(len(values_used) == 1 for values_used in inside)
