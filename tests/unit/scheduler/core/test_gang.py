"""Placing gangs: greedy on one snapshot, what fits is found, and nothing is changed."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from scheduler.core import GangDecision, decide_gang, gang_message, place_gang
from scheduler.core.placement import Placement
from scheduler.framework import Asking, Gang, PodInfo, Status, Work, conclude, unschedulable
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW, WATCHER, cluster, container, node, pod, runner

PROFILE = runner()


def gang(pods: Sequence[PodInfo], minimum: int, placed: int = 0) -> Gang:
    return Gang("pod group default/g", tuple(pods), minimum, placed, 60.0)


def decided(state: ClusterState, group: Gang, seed: int = 1) -> GangDecision:
    snapshot, rng = state.snapshot(NOW), random.Random(seed)
    return conclude(decide_gang(snapshot, group, group.waiting, lambda pod: PROFILE, rng, group.missing))


def decided_alone(
    state: ClusterState, group: Gang, left: Sequence[PodInfo], enough: int, seed: int = 1
) -> Asking[GangDecision]:
    return decide_gang(state.snapshot(NOW), group, left, lambda pod: PROFILE, random.Random(seed), enough)


def beside(label: str, **more: Any) -> dict[str, Any]:
    term = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": "kubernetes.io/hostname"}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}, **more}


@pytest.mark.parametrize("seed", range(5))
def test_each_member_sees_the_earlier_ones_placed(seed: int) -> None:
    state = cluster(*(node(f"n{number}", allocatable={"cpu": "2"}) for number in range(3)))
    decision = decided(state, gang([pod(f"p{number}", container("1500m")) for number in range(3)], 3), seed)
    assert sorted(placement.node or "" for placement in decision.placements) == ["n0", "n1", "n2"]
    assert len(decision.placed) >= decision.gang.missing
    assert state.pod_count == 0


def test_members_that_do_not_fit_are_passed_over() -> None:
    state = cluster(node("n", allocatable={"cpu": "3"}))
    pods = [pod("a", container("1")), pod("b", container("9")), pod("c", container("1"))]
    decision = decided(state, gang(pods, 2))
    assert [placement.node for placement in decision.placements] == ["n", None, "n"]
    assert len(decision.placed) >= decision.gang.missing


def test_a_member_that_wants_to_be_beside_a_later_one_is_tried_again() -> None:
    state = cluster(node("n1"), node("n2"))
    pods = [pod("worker", affinity=beside("leader")), pod("leader", labels={"app": "leader"})]
    decision = decided(state, gang(pods, 2))
    assert decision.placements[0].node == decision.placements[1].node is not None


def test_members_that_do_not_fit_in_their_order_are_tried_once_more_the_largest_first() -> None:
    state = cluster(node("n1", allocatable={"cpu": "4"}), node("n2", allocatable={"cpu": "4"}))
    # By their scores the first two go to a node each.
    pods = [pod(name, container(cpu)) for name, cpu in (("a", "1"), ("b", "1"), ("c", "3500m"), ("d", "2"))]
    decision = decided(state, gang(pods, 4))
    assert len(decision.placed) == 4
    assert {placement.pod.name for placement in decision.placed} == {"a", "b", "c", "d"}


def test_smaller_members_of_higher_priority_keep_their_room() -> None:
    state = cluster(node("n1", allocatable={"cpu": "2"}))
    pods = [pod("small", container("1"), priority=5), pod("large", container("2"))]
    decision = decided(state, gang(pods, 1))
    assert [placement.pod.name for placement in decision.placed] == ["small"]
    message = gang_message(decided(state, gang(pods, 2)))
    assert message.startswith("pod group default/g: 1 of 2 members fit, minMember is 2: ")


def test_the_second_try_leaves_work_for_preemption() -> None:
    state = cluster(*(node(f"n{number}", allocatable={"cpu": "1"}) for number in range(3)))
    pods = [pod(f"p{number}", container("1" if number else "900m")) for number in range(4)]
    work = Work(10_000)
    group = gang(pods, 4)
    asking = decide_gang(state.snapshot(NOW), group, pods, lambda pod: PROFILE, random.Random(1), 4, work=work)
    assert not conclude(asking).over_budget
    assert work.limit == 10_000


def test_the_message_counts_and_gives_the_reason() -> None:
    state = cluster(node("n", allocatable={"cpu": "3"}))
    decision = decided(state, gang([pod(f"p{number}", container("2")) for number in range(2)], 4, placed=2))
    expected = "pod group default/g: 3 of 4 members fit, minMember is 4: 0/1 nodes are available: 1 Insufficient cpu."
    assert gang_message(decision) == expected


def test_the_message_says_that_members_are_elsewhere() -> None:
    pods = [pod("a"), pod("b")]
    state = cluster(node("n"))
    group = gang(pods, 2)
    asking = decide_gang(state.snapshot(NOW), group, pods[:1], lambda pod: PROFILE, random.Random(1), 2)
    decision = conclude(asking)
    assert gang_message(decision) == (
        "pod group default/g: 1 of 1 members fit, minMember is 2, 1 cannot be tried by this scheduler now"
    )


def test_what_cannot_be_reserved_is_decided_again_on_what_is_left() -> None:
    """As with two members that count on one volume: the second is refused, and finds another one."""
    state = cluster(node("n1"), node("n2"))
    group = gang([pod("a"), pod("b")], 2)
    reserved: list[str] = []
    rounds: list[int] = []

    def decide_now(group: Gang, left: Sequence[PodInfo], enough: int) -> Asking[GangDecision]:
        rounds.append(len(left))
        return decided_alone(state, group, left, enough, seed=len(rounds))

    def take(placement: Placement) -> Status:
        if reserved and len(rounds) == 1:
            return unschedulable("the volume is taken", plugin="VolumeBinding")
        reserved.append(placement.pod.name)
        state.assume(placement.pod, placement.node or "", NOW)
        return Status()

    decision = conclude(place_gang(group, group.waiting, decide_now, take))
    assert (reserved, rounds) == (["a", "b"], [2, 1])
    assert len(decision.placed) >= decision.gang.missing


def test_a_gang_whose_members_are_rejected_again_and_again_is_not_complete() -> None:
    state = cluster(node("n1"))
    group = gang([pod("a"), pod("b")], 2)

    def decide_now(group: Gang, left: Sequence[PodInfo], enough: int) -> Asking[GangDecision]:
        return decided_alone(state, group, left, enough)

    def take(placement: Placement) -> Status:
        return Status() if placement.pod.name == "a" else unschedulable("no volume", plugin="VolumeBinding")

    decision = conclude(place_gang(group, group.waiting, decide_now, take))
    assert len(decision.placed) < decision.gang.missing
    (refused,) = decision.unplaced
    assert refused.message == "0/1 nodes are available: 1 no volume."
    assert refused.rejectors == {"VolumeBinding"}


def test_members_equal_to_a_rejected_one_are_not_tried_again() -> None:
    state = cluster(*(node(f"n{number}", allocatable={"cpu": "1"}) for number in range(3)))
    pods = [pod(f"p{number}", container("2")) for number in range(50)]
    looked: list[str] = []

    def runner_of(info: PodInfo) -> Any:
        looked.append(info.name)
        return PROFILE

    decision = conclude(decide_gang(state.snapshot(NOW), gang(pods, 50), pods, runner_of, random.Random(1), 50))
    assert looked == ["p0"]
    assert {placement.message for placement in decision.placements} == {decision.placements[0].message}
    assert [placement.pod for placement in decision.placements] == pods


def test_the_same_seed_gives_the_same_places() -> None:
    state = cluster(*(node(f"n{number}") for number in range(10)))
    group = gang([msgspec.structs.replace(pod(f"p{number}"), scheduler_name="test") for number in range(5)], 5)
    places = [[placement.node for placement in decided(state, group, seed=7).placements] for _ in range(2)]
    assert places[0] == places[1]


def test_members_beyond_what_is_missing_are_not_tried() -> None:
    state = cluster(node("n"))
    decision = decided(state, gang([pod(f"p{number}") for number in range(5)], 3, placed=1))
    assert [placement.pod.name for placement in decision.placements] == ["p0", "p1"]
    assert len(decision.placed) >= decision.gang.missing


def test_a_member_of_a_daemon_set_is_not_taken_for_one_that_a_load_limit_keeps_off() -> None:
    enabled = {"enabled": [{"name": "HighLoadFilter"}]}
    limited = runner(
        {"preFilter": enabled, "filter": enabled},
        {
            "HighLoadFilter": {
                "watcherAddress": WATCHER,
                "usageThresholds": {"cpu": 70, "memory": 90},
                "failOpen": False,
            }
        },
        options={"load": {"limit": {"whenAllExceed": "reject", "exempt": ["DaemonSet"]}}},
    )
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
            }
        }
    }
    pods = [
        pod("alone", affinity=affinity),
        pod("of-daemon-set", affinity=affinity, metadata={"ownerReferences": [owner]}),
    ]
    state, group = cluster(node("n1"), node("n2")), gang(pods, 1)
    asking = decide_gang(state.snapshot(NOW), group, pods, lambda each: limited, random.Random(1), 1)
    assert [placement.pod.name for placement in conclude(asking).placed] == ["of-daemon-set"]
