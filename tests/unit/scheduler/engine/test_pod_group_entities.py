"""PodGroups of scheduling.k8s.io under `compatibility: upstream`: the queue treats each as one thing, as kube-scheduler
1.37 does; `safe` waits for events, and places members beyond the minimum by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from scheduler.framework import SUCCESS, Status, failure
from scheduler.kube.model import EventType
from tests.unit.scheduler.engine.fakes import eventually, started
from tests.unit.scheduler.engine.test_gangs import SlowVolumes
from tests.unit.scheduler.engine.test_pod_groups import PodGroupEngine

MODES = ("upstream", "safe")


def group_engine(mode: str) -> PodGroupEngine:
    return PodGroupEngine("1.37", compatibility=mode)


@pytest.mark.parametrize(("mode", "queue"), [("upstream", "backoff"), ("safe", "unschedulable")])
async def test_a_group_that_does_not_fit_is_tried_again_without_an_event(mode: str, queue: str) -> None:
    async with started(group_engine(mode)) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 2)
        engine.add_node("n1", cpu="1")
        pods = engine.add_members("g", "700m", "700m")
        await eventually(lambda: all(engine.message(pod.name) for pod in pods), "they do not fit")
        if mode == "safe":
            assert engine.attempts("unschedulable") == 1
        else:
            await eventually(lambda: engine.attempts("unschedulable") >= 2, "it is tried again", 10)
        assert [engine.queue.queue_of(pod.uid) for pod in pods] == [queue] * 2


async def test_pods_that_are_left_over_are_tried_again_at_once_as_a_group() -> None:
    async with started(group_engine("upstream")) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 1)
        engine.add_node("n1", cpu="1")
        pods = engine.add_members("g", "700m", "700m", "700m")
        await eventually(lambda: engine.attempts("unschedulable") >= 1, "the two that are left")
        assert engine.attempts("scheduled") == 1
        assert engine.placed() == {"g-0"}
        await eventually(lambda: bool(engine.message("g-2")), "the last one's reason")
        assert [engine.message(pod.name) for pod in pods[1:]] == ["0/1 nodes are available: 1 Insufficient cpu."] * 2
        await eventually(lambda: bool(engine.conditions("g")), "the condition")
    assert [condition["status"] for condition in engine.conditions("g")] == ["True"]


@pytest.mark.parametrize(("mode", "attempts"), [("upstream", 2), ("safe", 1)])
async def test_later_members_are_placed_together(mode: str, attempts: int) -> None:
    async with started(group_engine(mode)) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 2)
        engine.add_node("n1", cpu="4")
        engine.add_members("g", "500m", "500m")
        await eventually(lambda: len(engine.placed()) == 2, "the first two")
        engine.add_members("g", "500m", "500m", start=2)
        await eventually(lambda: len(engine.placed()) == 4, "the others")
        assert engine.attempts("scheduled") == attempts


@pytest.mark.parametrize("mode", MODES)
async def test_a_later_member_that_does_not_fit_says_why(mode: str) -> None:
    async with started(group_engine(mode)) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 1)
        engine.add_node("n1", cpu="1")
        engine.add_members("g", "700m")
        await eventually(lambda: engine.placed() == {"g-0"}, "the first one")
        engine.add_members("g", "700m", start=1)
        await eventually(lambda: engine.message("g-1").startswith("0/1 nodes are available"), "its reason")
        engine.add_node("n2", cpu="1")
        await eventually(lambda: engine.placed() == {"g-0", "g-1"}, "it has room now", 10)


HIERARCHY = "all pods in a pod group hierarchy should have the same"
SINGLE = "all pods in a single pod group should have the same"


@pytest.mark.parametrize(
    ("version", "unlike", "reason", "text"),
    [
        (
            "1.37",
            {"priority": 7},
            "SchedulerError",
            f"{SINGLE} priority as the pod group's priority, got 7 and 0",
        ),
        (
            "1.37",
            {"preemptionPolicy": "Never"},
            "SchedulerError",
            f"{SINGLE} preemption policy, got Never and PreemptLowerPriority",
        ),
        (
            "1.38",
            {"priority": 7},
            "PodGroupError",
            f'{HIERARCHY} priority as the root pod group\'s priority, got 7 ("g-1") and 0 ("podgroup/ns/g")',
        ),
        (
            "1.38",
            {"preemptionPolicy": "Never"},
            "PodGroupError",
            f'{HIERARCHY} preemption policy, got Never ("g-1") and PreemptLowerPriority',
        ),
    ],
)
async def test_a_member_unlike_the_others_keeps_the_group_from_being_placed(
    version: str, unlike: dict[str, Any], reason: str, text: str
) -> None:
    async with started(PodGroupEngine(version, compatibility="upstream")) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 2)
        engine.add_node("n1", cpu="4")
        engine.add_pod("g-0", cpu="100m", schedulingGroup={"podGroupName": "g"})
        engine.wall_offset += 1
        engine.add_pod("g-1", cpu="100m", schedulingGroup={"podGroupName": "g"}, **unlike)
        await eventually(lambda: bool(engine.conditions("g")), "the condition")
        await eventually(lambda: all(engine.message(f"g-{n}") for n in range(2)), "both say so")
    (condition, *_) = engine.conditions("g")
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", reason, text)
    assert engine.message("g-0") == engine.message("g-1") == text
    assert not engine.placed()


async def test_safe_places_members_by_their_own_priority() -> None:
    async with started(group_engine("safe")) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 2)
        engine.add_node("n1", cpu="4")
        engine.add_pod("g-0", cpu="100m", schedulingGroup={"podGroupName": "g"})
        engine.add_pod("g-1", cpu="100m", schedulingGroup={"podGroupName": "g"}, priority=7)
        await eventually(lambda: len(engine.placed()) == 2, "both")


@pytest.mark.parametrize("mode", MODES)
async def test_pods_wait_once_their_group_is_gone_until_it_comes_again(mode: str) -> None:
    async with started(group_engine(mode)) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 2)
        engine.add_node("n1", cpu="1")
        pods = engine.add_members("g", "700m", "700m")
        await eventually(lambda: all(engine.message(pod.name) for pod in pods), "they do not fit")
        engine.add_group("g", 2, EventType.DELETED)
        engine.add_node("n2", cpu="1")
        gated = ["gated"] * 2
        await eventually(lambda: [engine.queue.queue_of(pod.uid) for pod in pods] == gated, "the group is gone", 10)
        assert not engine.placed()
        engine.add_group("g", 2)
        await eventually(lambda: len(engine.placed()) == 2, "both", 10)


async def test_members_are_tried_in_the_order_in_which_they_came_and_older_ones_first() -> None:
    async with started(group_engine("upstream")) as engine:
        assert isinstance(engine, PodGroupEngine)
        # By name the other one would come first.
        engine.add_members("g", "900m", start=5)
        engine.wall_offset += 1
        engine.add_members("g", "800m", start=1)
        engine.add_node("n1", cpu="1")
        engine.add_group("g", 1)
        await eventually(lambda: engine.placed() == {"g-5"}, "the first that came")


@asynccontextmanager
async def group_of_three_with_a_slow_volume(
    compatibility: str,
) -> AsyncIterator[tuple[PodGroupEngine, SlowVolumes, asyncio.Future[Status]]]:
    """A group that fits, of which the second member's volume takes its time."""
    async with started(group_engine(compatibility)) as engine:
        assert isinstance(engine, PodGroupEngine)
        volumes = SlowVolumes()
        for runner in engine.runners.values():
            runner.pre_bind = (volumes, *runner.pre_bind)
        volume = volumes.hold("g-1")
        engine.add_group("g", 3)
        engine.add_node("n1", cpu="4")
        engine.add_members("g", "100m", "100m", "100m")
        yield engine, volumes, volume


async def test_a_member_whose_pre_bind_takes_long_or_fails_does_not_hold_the_others() -> None:
    async with group_of_three_with_a_slow_volume("upstream") as (engine, volumes, volume):
        await eventually(lambda: engine.placed() == {"g-0", "g-2"}, "the others")
        await asyncio.sleep(400)
        volumes.blocked.clear()
        volume.set_result(failure("no volume"))
        await eventually(lambda: len(engine.placed()) == 3, "it is tried again at once")
        assert engine.message("g-1") == 'running PreBind plugin "SlowVolumes": no volume'


async def test_before_a_member_is_bound_safe_waits_for_its_pre_bind() -> None:
    async with group_of_three_with_a_slow_volume("safe") as (engine, _, volume):
        engine.add_pod("other", cpu="100m")
        await eventually(lambda: engine.placed() == {"other"}, "others go on")
        volume.set_result(SUCCESS)
        await eventually(lambda: len(engine.placed()) == 4, "the group")


async def test_a_group_is_one_thing_among_what_is_queued() -> None:
    async with started(group_engine("safe")) as engine:
        assert isinstance(engine, PodGroupEngine)
        engine.add_group("g", 2)
        engine.add_node("n1", cpu="1")
        engine.add_members("g", "700m", "700m")
        engine.add_members("missing", "100m")
        engine.add_pod("alone", cpu="7")
        await eventually(lambda: engine.queue.counts()["unschedulable"] == 3, "nothing fits")
        engine.show_queue()
        queued = {labels: value for labels, value in entities(engine).items() if value}
    assert queued == {("unschedulable", "podgroup"): 1, ("unschedulable", "pod"): 1, ("gated", "podgroup"): 1}


def entities(engine: PodGroupEngine) -> dict[tuple[str, str], float]:
    """What the gauge of queued entities shows, by queue and type."""
    families = [each for each in engine.metrics.registry.collect() if each.name == "scheduler_queued_entities"]
    return {(each.labels["queue"], each.labels["type"]): each.value for family in families for each in family.samples}
