"""Gangs in safe mode: all members hold a node or none does, whatever comes in between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from scheduler.answers import DecisionList
from scheduler.core import Placement
from scheduler.engine import HistoryLimits
from scheduler.engine.attemptlog import AttemptLog
from scheduler.engine.inputs import NodeUpdate
from scheduler.framework import Code, CycleState, PermitOutcome, PodInfo, Status
from scheduler.kube.client import ConnectionLost
from scheduler.kube.model import DecodeError, EventType
from scheduler.observe import PodsQuestion
from tests.unit.scheduler.engine.fakes import eventually, started
from tests.unit.scheduler.engine.gangs import GangEngine, Start
from tests.unit.scheduler.engine.pods import node_info, pod_info
from tests.unit.scheduler.engine.test_cycle import refused
from tests.unit.scheduler.engine.test_preemption import Evicting


async def test_a_gang_that_fits_is_bound_as_a_whole(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 3)
    for name in ("n1", "n2", "n3"):
        engine.add_node(name, cpu="1")
    engine.add_members("g", 3, cpu="700m")
    await eventually(lambda: len(engine.bound) == 3, "three bindings")
    assert {node for _, _, node in engine.api.bindings} == {"n1", "n2", "n3"}
    assert engine.metrics.gangs.labels("placed")._value.get() == 1


async def test_a_gang_whose_decision_raises_holds_nothing_and_comes_back_as_a_whole(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = await start()
    attempts = engine.cycle._attempts
    reserve, failures = attempts.reserve, [RuntimeError("a defect")]

    def fail(placement: Placement) -> PermitOutcome:
        if failures and engine.state.assumed_count == 2:
            raise failures.pop()
        return reserve(placement)

    monkeypatch.setattr(attempts, "reserve", fail)
    engine.add_group("g", 3)
    engine.add_node("n1")
    engine.add_members("g", 3)
    await eventually(lambda: not failures, "it fails half-way")
    await eventually(lambda: all("a defect" in engine.message(f"g-{n}") for n in range(3)), "each member says so")
    await eventually(lambda: len(engine.bound) == 3, "all come back", 10)
    assert engine.state.pod_count == 3


async def test_a_gang_that_lacks_room_for_one_holds_nothing_and_everybody_is_told(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 4)
    for name in ("n1", "n2", "n3"):
        engine.add_node(name, cpu="1")
    engine.add_members("g", 4, cpu="700m")
    expected = "pod group ns/g: 3 of 4 members fit, minMember is 4: 0/3 nodes are available: 3 Insufficient cpu."
    await eventually(lambda: {engine.message(f"g-{n}") for n in range(4)} == {expected}, "the reason, for each")
    assert engine.state.assumed_count == 0
    assert engine.api.bindings == []
    await eventually(lambda: len(engine.api.events) >= 4, "events")
    assert {event["reason"] for event in engine.api.events} == {"FailedScheduling"}
    assert {event["regarding"]["name"] for event in engine.api.events} == {"g-0", "g-1", "g-2", "g-3"}
    # Room for others is free all the time, and the gang comes as soon as there is enough.
    engine.add_pod("other", cpu="700m")
    await eventually(lambda: engine.bound == {"other"}, "another pod")
    engine.add_node("n4", cpu="1")
    engine.add_node("n5", cpu="1")
    await eventually(lambda: len(engine.bound) == 5, "the gang")


async def test_members_beyond_the_minimum_stay_pending_without_failing_the_gang(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 2)
    for name in ("n1", "n2"):
        engine.add_node(name, cpu="1")
    engine.add_members("g", 3, cpu="700m")
    await eventually(lambda: len(engine.bound) == 2, "the minimum")
    left = ({"g-0", "g-1", "g-2"} - engine.bound).pop()
    await eventually(lambda: "Insufficient cpu" in engine.message(left), "a reason")
    engine.add_node("n3", cpu="1")
    await eventually(lambda: len(engine.bound) == 3, "the third")


async def test_two_gangs_for_one_room_never_hold_half_of_it_each(start: Start) -> None:
    engine = await start(profiles=2)
    engine.add_group("a", 3)
    engine.add_group("b", 3)
    for name in ("n1", "n2", "n3", "n4"):
        engine.add_node(name, cpu="1")
    # They arrive in turns, which makes upstream hold two nodes for each; one of them is of another profile.
    for number in range(3):
        engine.add_member(f"a-{number}", "a", cpu="700m")
        engine.add_member(f"b-{number}", "b", cpu="700m", scheduler="second-scheduler")
    await eventually(lambda: len(engine.bound) == 3, "one of them")
    assert len({name[0] for name in engine.bound}) == 1
    winner = next(iter(engine.bound))[0]
    loser = "b" if winner == "a" else "a"
    await eventually(lambda: "members fit" in engine.message(f"{loser}-0"), "the other gets a reason")
    assert engine.state.assumed_count == 3
    for number in range(3):
        engine.pods.apply([(EventType.DELETED, pod_info(f"{winner}-{number}", node="n1"))])
        engine.state.forget(f"{winner}-{number}-uid")
    engine.add_node("n5", cpu="1")
    await eventually(lambda: len(engine.bound) == 6, "the other")


async def test_a_missing_group_parks_only_its_own_pods_until_it_comes(start: Start) -> None:
    engine = await start()
    engine.add_node("n1")
    engine.add_members("late", 2)
    await eventually(lambda: "pod group ns/late does not exist" in engine.message("late-1"), "the reason")
    engine.add_pod("other")
    await eventually(lambda: engine.bound == {"other"}, "everything else goes on")
    engine.add_group("late", 2)
    await eventually(lambda: len(engine.bound) == 3, "the gang, at once")


async def test_members_wait_for_members_that_were_not_created_yet(start: Start) -> None:
    engine = await start()
    engine.add_node("n1")
    engine.add_group("g", 3)
    engine.add_member("g-0", "g")
    await eventually(lambda: "1 of at least 3 members exist" in engine.message("g-0"), "the reason")
    engine.add_member("g-1", "g")
    engine.add_member("g-2", "g")
    await eventually(lambda: len(engine.bound) == 3, "all of them")


async def test_members_wait_for_the_others_where_coscheduling_runs_at_permit_alone(start: Start) -> None:
    engine = await start(plugins="{permit: {enabled: [{name: Coscheduling}]}}")
    engine.add_node("n1")
    engine.add_group("g", 3)
    engine.add_members("g", 2)
    engine.add_member("alone", "missing")
    await eventually(lambda: "2 of at least 3 members exist" in engine.message("g-1"), "the reason")
    await eventually(lambda: "pod group ns/missing does not exist" in engine.message("alone"), "the reason")
    assert not engine.bound
    engine.add_member("g-2", "g")
    await eventually(lambda: engine.bound == {"g-0", "g-1", "g-2"}, "the gang")


async def test_a_shrunk_minimum_lets_the_rest_run(start: Start) -> None:
    engine = await start()
    engine.add_node("n1", cpu="1")
    engine.add_group("g", 3)
    engine.add_members("g", 3, cpu="400m")
    await eventually(lambda: "2 of 3 members fit" in engine.message("g-0"), "the reason")
    engine.add_group("g", 2, event=EventType.MODIFIED, version=2)
    await eventually(lambda: len(engine.bound) == 2, "two of them")


async def test_a_group_deleted_while_its_pods_wait_leaves_them_parked_with_the_reason(start: Start) -> None:
    engine = await start()
    engine.add_node("n1", cpu="1")
    group = engine.add_group("g", 3)
    engine.add_members("g", 3, cpu="400m")
    await eventually(lambda: "2 of 3 members fit" in engine.message("g-0"), "does not fit")
    engine.podgroups.apply([(EventType.DELETED, group)])
    await eventually(lambda: "does not exist" in engine.message("g-0"), "the new reason")
    assert engine.api.bindings == []


async def test_completed_members_do_not_count(start: Start) -> None:
    engine = await start()
    engine.add_node("n1")
    engine.add_group("g", 2)
    done = engine.add_member("g-0", "g", node="n1")
    engine.add_member("g-1", "g")
    await eventually(lambda: engine.bound == {"g-1"}, "one runs, one more is enough")
    engine.pods.apply([(EventType.DELETED, done)])
    engine.pods.apply([(EventType.DELETED, pod_info("g-1"))])
    engine.add_member("g-2", "g")
    await eventually(lambda: "1 of at least 2 members exist" in engine.message("g-2"), "alone again")


async def test_gated_members_do_not_count_and_are_not_tried(start: Start) -> None:
    engine = await start()
    engine.add_node("n1")
    engine.add_group("g", 2)
    engine.add_member("g-0", "g", schedulingGates=[{"name": "later"}])
    engine.add_member("g-1", "g")
    await eventually(lambda: "1 of at least 2 members have no scheduling gates" in engine.message("g-1"), "the reason")
    engine.add_member("g-0", "g", rv="2")
    await eventually(lambda: len(engine.bound) == 2, "both")


async def test_a_cluster_too_small_for_min_resources_is_asked_again_when_it_grows(start: Start) -> None:
    engine = await start()
    engine.add_node("n1", cpu="1")
    engine.add_group("g", 2, min_resources={"cpu": "1500m"})
    engine.add_members("g", 2, cpu="100m")
    await eventually(lambda: "resource gap" in engine.message("g-1"), "the reason")
    assert "pod group ns/g: resource gap: map[cpu:{{500 -3} {<nil>}  DecimalSI}]." in engine.message("g-1")
    engine.add_node("n2", cpu="1")
    await eventually(lambda: len(engine.bound) == 2, "both")


async def test_a_member_that_fails_to_bind_is_placed_again_before_others(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 3)
    for name in ("n1", "n2", "n3"):
        engine.add_node(name, cpu="1")
    engine.api.failures = [None, refused(403, "boom")]
    engine.add_members("g", 3, cpu="700m")
    await eventually(lambda: bool(engine.bound), "the first")
    engine.add_pod("greedy", cpu="700m", priority=1000)
    await eventually(lambda: engine.bound == {"g-0", "g-1", "g-2"}, "all of them")
    message = "pod group ns/g: 2 members hold nodes, minMember is 3, this one gave up its node"
    await eventually(lambda: any(message in text and "boom" in text for text in engine.messages), "the one that failed")


async def test_a_member_that_is_refused_several_times_in_a_row_does_not_lose_its_room_to_others(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 3)
    for name in ("n1", "n2", "n3"):
        engine.add_node(name, cpu="1")
    engine.api.failures = [None, *[refused(403, "boom")] * 5]
    engine.add_members("g", 3, cpu="700m")
    await eventually(lambda: bool(engine.bound), "the first")
    engine.add_pod("greedy", cpu="700m", priority=1000)
    await eventually(lambda: len(engine.bound) == 3, "three pods")
    assert engine.bound == {"g-0", "g-1", "g-2"}


async def test_an_answer_that_got_lost_does_not_cost_the_gang_anything(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 2)
    engine.add_node("n1")
    engine.api.failures = [ConnectionLost("reset")]
    engine.api.show("g-0", node="n1")
    engine.api.show("g-1", node="n1")
    engine.add_members("g", 2)
    await eventually(lambda: engine.metrics.gangs.labels("placed")._value.get() == 1, "placed")


class SlowVolumes:
    """A PreBind plugin that some pods wait for, or fail at."""

    name = "SlowVolumes"

    def __init__(self) -> None:
        self.blocked: dict[str, asyncio.Future[Status]] = {}

    def hold(self, pod: str) -> asyncio.Future[Status]:
        self.blocked[pod] = asyncio.get_running_loop().create_future()
        return self.blocked[pod]

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        future = self.blocked.get(pod.name)
        return await future if future is not None else Status()


def with_volumes(engine: GangEngine) -> SlowVolumes:
    volumes = SlowVolumes()
    for runner in engine.runners.values():
        runner.pre_bind = (volumes, *runner.pre_bind)
    return volumes


async def test_no_member_is_bound_before_all_are_ready(start: Start) -> None:
    engine = await start()
    volumes = with_volumes(engine)
    volume = volumes.hold("g-1")
    engine.add_group("g", 3)
    engine.add_node("n1")
    engine.add_members("g", 3)
    await eventually(lambda: engine.state.assumed_count == 3, "all hold the node")
    engine.add_pod("other")
    await eventually(lambda: engine.bound == {"other"}, "others go on")
    volume.set_result(Status())
    await eventually(lambda: len(engine.bound) == 4, "the gang")


@pytest.mark.parametrize(("kubernetes", "count"), [("1.34", 0), ("1.36", 2)])
async def test_members_that_wait_for_another_one_are_nominated_from_1_35_on(
    start: Start, kubernetes: str, count: int
) -> None:
    engine = await start(kubernetes=kubernetes)
    volume = with_volumes(engine).hold("g-1")
    engine.add_group("g", 3)
    engine.add_node("n1")
    engine.add_members("g", 3)
    await eventually(lambda: len(engine.waiting) == 2, "two are ready")
    await asyncio.sleep(1)
    assert [patch["status"] for _, patch in engine.api.patches] == [{"nominatedNodeName": "n1"}] * count
    volume.set_result(Status())
    await eventually(lambda: len(engine.bound) == 3, "the gang")


async def test_a_member_that_fails_before_binding_is_placed_again_and_the_others_wait(start: Start) -> None:
    engine = await start()
    volumes = with_volumes(engine)
    volume = volumes.hold("g-1")
    engine.add_group("g", 3)
    engine.add_node("n1")
    engine.add_members("g", 3)
    await eventually(lambda: engine.state.assumed_count == 3, "all hold the node")
    del volumes.blocked["g-1"]
    volume.set_result(Status(Code.ERROR, error="no such disk"))
    await eventually(lambda: len(engine.bound) == 3, "the gang")
    await eventually(lambda: "this one gave up its node" in engine.message("g-1"), "the reason")


async def test_a_gang_that_is_not_ready_in_time_gives_all_nodes_up(start: Start) -> None:
    engine = await start(permitWaitingTimeSeconds=1)
    volumes = with_volumes(engine)
    volumes.hold("g-1")
    engine.add_group("g", 3)
    engine.add_node("n1", cpu="1")
    engine.add_members("g", 3, cpu="300m")
    await eventually(lambda: engine.state.assumed_count == 3, "all hold the node")
    await asyncio.sleep(0.8)
    await eventually(lambda: engine.state.assumed_count == 0, "no member holds a node")
    assert engine.api.bindings == []
    assert engine.metrics.gangs.labels("incomplete")._value.get() == 1
    await eventually(lambda: "not ready to be bound in time" in engine.message("g-1"), "the reason")
    engine.add_pod("other", cpu="900m")
    del volumes.blocked["g-1"]
    await eventually(lambda: bool(engine.bound), "room is free")


async def test_a_waiting_member_that_is_deleted_leaves_the_others_to_their_timeout(start: Start) -> None:
    engine = await start(permitWaitingTimeSeconds=1)
    volumes = with_volumes(engine)
    volume = volumes.hold("g-1")
    engine.add_group("g", 3)
    engine.add_node("n1")
    members = engine.add_members("g", 3)
    await eventually(lambda: len(engine.waiting) == 2, "two are ready")
    engine.pods.apply([(EventType.DELETED, members[0])])
    volume.set_result(Status())
    await eventually(lambda: len(engine.waiting) == 2, "one was taken out, one came")
    await asyncio.sleep(0.8)
    await eventually(lambda: engine.state.assumed_count == 0, "no member holds a node")
    assert engine.api.bindings == []


async def test_the_room_for_a_gang_may_come_by_a_larger_node(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 2)
    engine.add_node("n1", cpu="1")
    engine.add_members("g", 2, cpu="700m")
    await eventually(lambda: "1 of 2 members fit" in engine.message("g-0"), "does not fit")
    engine.nodes.apply([(EventType.MODIFIED, NodeUpdate(node_info("n1", cpu="2"), ()))])
    await eventually(lambda: len(engine.bound) == 2, "both")


async def test_a_gang_that_failed_is_left_alone_for_its_back_off_and_then_tried_by_itself(start: Start) -> None:
    engine = await start(podGroupBackoffSeconds=1)
    engine.add_group("g", 2)
    engine.add_node("n1", cpu="1")
    engine.add_members("g", 2, cpu="700m")
    await eventually(lambda: "1 of 2 members fit" in engine.message("g-0"), "does not fit")
    engine.add_node("n2", cpu="1")
    await eventually(lambda: any("podGroup ns/g failed recently" in text for text in engine.messages), "left alone")
    assert engine.api.bindings == []
    await eventually(lambda: len(engine.bound) == 2, "both")


async def test_upstream_members_hold_nodes_while_they_wait_and_room_given_up_wakes_others(start: Start) -> None:
    """What safe mode does not do: three of four hold the room until they time out, and another pod waits for it."""
    engine = await start("upstream", permitWaitingTimeSeconds=1, podGroupRejectPercentage=100)
    engine.add_group("g", 4)
    for name in ("n1", "n2", "n3"):
        engine.add_node(name, cpu="1")
    engine.add_members("g", 4, cpu="700m")
    await eventually(lambda: len(engine.waiting) == 3, "three wait")
    assert engine.state.assumed_count == 3
    engine.add_pod("other", cpu="700m")
    await eventually(lambda: "Insufficient cpu" in engine.message("other"), "no room")
    await eventually(lambda: engine.bound == {"other"}, "the room that a timeout gave back")
    assert any("rejected due to timeout after waiting 1s at plugin Coscheduling" in text for text in engine.messages)


async def test_upstream_a_missing_group_is_found_out_in_permit(start: Start) -> None:
    engine = await start("upstream")
    engine.add_node("n1")
    engine.add_member("p", "late")
    await eventually(lambda: "0/1 nodes are available: 1 PodGroup not found." in engine.message("p"), "the reason")


async def test_upstream_the_last_member_lets_all_go_on(start: Start) -> None:
    engine = await start("upstream")
    engine.add_node("n1")
    engine.add_group("g", 3)
    engine.add_member("g-0", "g")
    engine.add_member("g-1", "g")
    await eventually(lambda: "cannot find enough sibling pods" in engine.message("g-1"), "too few")
    engine.add_member("g-2", "g")
    await eventually(lambda: len(engine.bound) == 3, "all")


async def test_members_of_two_profiles_are_one_gang(start: Start) -> None:
    engine = await start(profiles=2)
    engine.add_group("g", 2)
    engine.add_node("n1")
    engine.add_member("g-0", "g")
    await eventually(lambda: "1 of at least 2 members exist" in engine.message("g-0"), "one is not enough")
    engine.add_member("g-1", "g", scheduler="second-scheduler")
    await eventually(lambda: len(engine.bound) == 2, "both")


async def test_members_of_another_scheduler_count_once_they_have_a_node(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 2)
    engine.add_node("n1")
    engine.add_member("g-0", "g")
    engine.add_member("g-1", "g", scheduler="default-scheduler")
    message = "pod group ns/g: 1 of 1 members fit, minMember is 2, 1 cannot be tried by this scheduler now"
    await eventually(lambda: engine.message("g-0") == message, "the reason")
    engine.add_member("g-1", "g", scheduler="default-scheduler", node="n1", rv="2")
    await eventually(lambda: engine.bound == {"g-0"}, "its other half runs")


async def test_an_invalid_group_stops_only_its_own_pods(start: Start) -> None:
    engine = await start()
    engine.add_node("n1")
    engine.add_group("broken", 2, min_resources={"cpu": "lots"})
    engine.add_group("none", 0)
    engine.add_members("broken", 2)
    engine.add_members("none", 2)
    engine.add_pod("other")
    await eventually(lambda: engine.bound == {"other", "none-0", "none-1"}, "everybody else")
    await eventually(lambda: "lots" in engine.message("broken-0"), "the reason")
    assert engine.state.assumed_count == 3


async def test_a_group_that_cannot_be_read_counts_as_absent(start: Start) -> None:
    engine = await start()
    engine.add_node("n1")
    group = engine.add_group("g", 1)
    engine.podgroups.invalid(group.metadata, DecodeError("not a PodGroup"))
    engine.add_member("p", "g")
    await eventually(lambda: "pod group ns/g does not exist" in engine.message("p"), "the reason")


async def gang_lines(start: Start, verbosity: int, room: str = "1") -> list[dict[str, Any]]:
    """What is logged of an attempt at a gang of two, for which there are three nodes."""
    engine = await start()
    engine.cycle._log = engine.cycle._gangs._log = AttemptLog(verbosity)
    for name in ("n1", "n2", "n3"):
        engine.add_node(name, cpu=room)
    engine.add_group("g", 2)
    with capture_logs() as lines:
        engine.add_members("g", 2, cpu="700m")
        await eventually(lambda: len(engine.bound) == 2 or bool(engine.message("g-1")), "an outcome")
    return [dict(line) for line in lines if line["log_level"] == "debug"]


async def test_at_debug_the_attempts_and_rejections_of_each_member_are_logged(start: Start) -> None:
    lines = await gang_lines(start, 4, room="500m")
    attempts = [line["pod"] for line in lines if line["event"] == "Attempting to schedule pod"]
    assert sorted(attempts) == ["ns/g-0", "ns/g-1"]
    rejections = [line for line in lines if line["event"] == "nodes rejected"]
    assert {line["pod"] for line in rejections} == {"ns/g-0", "ns/g-1"}
    assert all(line["rejectedBy"] == {"NodeResourcesFit": 3} for line in rejections)


async def test_at_trace_the_scores_of_a_member_are_those_beside_the_earlier_ones(start: Start) -> None:
    lines = [line for line in await gang_lines(start, 6) if line["event"] == "node scored"]
    chosen = {line["pod"]: line["node"] for line in lines if line["chosen"]}
    assert chosen.keys() == {"ns/g-0", "ns/g-1"}
    first, second = ({line["node"] for line in lines if line["pod"] == pod} for pod in ("ns/g-0", "ns/g-1"))
    assert len(first) == 3
    assert second == first - {chosen["ns/g-0"]}


async def test_at_the_default_verbosity_no_line_is_made_for_members(start: Start) -> None:
    assert await gang_lines(start, 2) == []


# Preemption -----------------------------------------------------------------------------------------------------------


HISTORY = HistoryLimits(records=100, bytes=1 << 20, detail_share=1.0)


def crowded(engine: GangEngine, *nodes: str) -> None:
    """Nodes full of lower pods of others."""
    for name in nodes:
        engine.add_node(name, cpu="1")
        lower = pod_info(f"low-{name}", cpu="800m", node=name, schedulerName="else", priority=1)
        engine.pods.apply([(EventType.ADDED, lower)])


def said_of_preemption(engine: GangEngine) -> str:
    """What `explain` says of it."""
    assert engine.inspector is not None
    answer = engine.inspector.answer(PodsQuestion("ns", "g-0", 10))
    assert isinstance(answer, DecisionList)
    assert answer.waiting is not None
    assert answer.waiting.gang is not None
    return answer.waiting.gang.preemption


async def test_victims_of_other_namespaces_are_counted_and_not_named() -> None:
    api = Evicting()
    async with started(GangEngine(api=api, history=HISTORY)) as engine:
        assert isinstance(engine, GangEngine)
        for number, namespace in enumerate(("other", "ns", "other")):
            engine.add_node(f"n{number}", cpu="1")
            fields = {"cpu": "800m", "node": f"n{number}", "schedulerName": "else", "priority": 1}
            lower = pod_info(f"low-{number}", metadata={"namespace": namespace}, **fields)
            engine.pods.apply([(EventType.ADDED, lower)])
        engine.add_group("g", 3)
        engine.add_members("g", 3, cpu="700m", priority=5)
        await eventually(lambda: len(api.deleted) == 3, "all of them")
        assert said_of_preemption(engine) == "evicted for it: ns/low-1 and 2 more"


async def test_victims_that_are_all_of_other_namespaces_are_counted() -> None:
    api = Evicting()
    async with started(GangEngine(api=api, history=HISTORY)) as engine:
        assert isinstance(engine, GangEngine)
        engine.add_node("n", cpu="1")
        fields = {"cpu": "800m", "node": "n", "schedulerName": "else", "priority": 1}
        engine.pods.apply([(EventType.ADDED, pod_info("low", metadata={"namespace": "other"}, **fields))])
        engine.add_group("g", 1)
        engine.add_members("g", 1, cpu="700m", priority=5)
        await eventually(lambda: api.deleted == ["low"], "it is evicted")
        assert said_of_preemption(engine) == "evicted for it: 1 of other namespaces"


async def test_a_gang_has_lower_pods_evicted_and_takes_their_place() -> None:
    api = Evicting()
    async with started(GangEngine(api=api, history=HISTORY)) as engine:
        assert isinstance(engine, GangEngine)
        crowded(engine, "n1", "n2", "n3")
        engine.add_group("g", 2)
        engine.add_members("g", 3, cpu="700m", priority=5)
        await eventually(lambda: len(api.deleted) == 2, "as many as are missing")
        assert engine.bound == set()
        text = "pod group preemption: found a placement for podgroup, preempting 2 victims"
        await eventually(lambda: any(text in message for message in engine.messages), "a message")
        assert said_of_preemption(engine) == f"evicted for it: {', '.join(f'ns/{name}' for name in api.deleted)}"
        for name in list(api.deleted):
            gone = pod_info(name, cpu="800m", node=name.removeprefix("low-"), schedulerName="else", priority=1)
            engine.pods.apply([(EventType.DELETED, gone)])
        await eventually(lambda: len(engine.bound) == 2, "the gang", 10)
        event = next(event for event in api.events if event["reason"] == "Preempted")
        assert event["note"] == "Preempted by podgroup g-uid on node cluster"
        assert event["related"]["apiVersion"] == "scheduling.x-k8s.io/v1alpha1"


async def test_a_gang_that_would_not_fit_all_the_same_has_nobody_evicted() -> None:
    api = Evicting()
    async with started(GangEngine(api=api, history=HISTORY)) as engine:
        assert isinstance(engine, GangEngine)
        crowded(engine, "n1", "n2")
        engine.add_group("g", 3)
        engine.add_members("g", 3, cpu="700m", priority=5)
        text = "pod group ns/g: 2 of 3 members fit, minMember is 3: 0/2 nodes are available: 2 Insufficient cpu."
        expected = f"pod group preemption: {text}"
        await eventually(lambda: any(expected in message for message in engine.messages), "a message")
        assert said_of_preemption(engine) == f"preemption did not help: {text}"
    assert api.deleted == []


async def test_a_gang_preempts_by_the_priority_of_its_least_important_member() -> None:
    api = Evicting()
    async with started(GangEngine(api=api, history=HISTORY)) as engine:
        assert isinstance(engine, GangEngine)
        crowded(engine, "n1", "n2")
        engine.add_group("g", 2)
        engine.add_member("g-0", "g", cpu="700m", priority=5)
        engine.add_member("g-1", "g", cpu="700m", priority=1)
        await eventually(lambda: any("0 of 2 members fit" in message for message in engine.messages), "a message")
        assert said_of_preemption(engine) == ""
    assert api.deleted == []


async def test_under_compatibility_upstream_members_preempt_one_by_one() -> None:
    api = Evicting()
    async with started(GangEngine("upstream", api=api)) as engine:
        assert isinstance(engine, GangEngine)
        crowded(engine, "n1", "n2")
        engine.add_group("g", 3)
        engine.add_members("g", 3, cpu="700m", priority=5)
        await eventually(lambda: bool(api.deleted), "a member preempts for a gang that will not fit")


@pytest.mark.parametrize(
    ("compatibility", "value", "reason"),
    [
        ("safe", "Alll", 'annotation secondary-scheduler.io/disruption: "Alll" is neither All nor Single'),
        ("safe", "", 'annotation secondary-scheduler.io/disruption: "" is neither All nor Single'),
        ("safe", "A\x1b[2J\nB", 'annotation secondary-scheduler.io/disruption: "A?[2J?B" is neither All nor Single'),
        ("upstream", "All", "annotation secondary-scheduler.io/disruption is followed with compatibility: safe only"),
    ],
)
async def test_a_disruption_that_is_not_followed_keeps_the_gang_pending(
    compatibility: str, value: str, reason: str
) -> None:
    async with started(GangEngine(compatibility)) as engine:
        assert isinstance(engine, GangEngine)
        engine.add_node("n1", cpu="4")
        engine.add_group("g", 2, annotations={"secondary-scheduler.io/disruption": value})
        engine.add_members("g", 2, cpu="700m")
        await eventually(lambda: any(reason in message for message in engine.messages), "a message")
        assert engine.bound == set()
        if compatibility == "safe":
            engine.add_group(
                "g", 2, event=EventType.MODIFIED, version=2, annotations={"secondary-scheduler.io/disruption": "All"}
            )
            await eventually(lambda: len(engine.bound) == 2, "the gang", 10)
