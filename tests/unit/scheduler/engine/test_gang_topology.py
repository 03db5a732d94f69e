"""Gangs with a topology at run time: they land in one domain, wait for one, follow their members, and widen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.answers import DecisionList, DomainRoom, GangReport
from scheduler.engine import HistoryLimits
from scheduler.engine.inputs import NodeUpdate
from scheduler.framework import Gang, PodInfo
from scheduler.helpers.annotations import (
    KAI_PREFERRED,
    KAI_REQUIRED,
    KOORDINATOR_SPEC,
    KUEUE_REQUIRED,
    KUEUE_SLICE,
    KUEUE_SLICE_SIZE,
    KUEUE_SLICES,
    KUEUE_WORKLOAD,
)
from scheduler.kube.model import POD_GROUP_LABEL, EventType
from scheduler.observe import PodsQuestion
from scheduler.plugins.coscheduling.topology import PREFERRED, RANK_LABEL, REQUIRED, SLICE, SLICE_SIZE, WIDEN_AFTER
from tests.unit.scheduler.engine.fakes import eventually
from tests.unit.scheduler.engine.gangs import GangEngine, Start
from tests.unit.scheduler.engine.pods import node_info, pod_info


def add_racks(engine: GangEngine, **sizes: int) -> None:
    for rack, size in sizes.items():
        for number in range(size):
            engine.add_node(f"{rack}-{number}", cpu="1", labels={"rack": rack})


def racks(engine: GangEngine) -> dict[str, str]:
    """The rack of each bound pod."""
    return {name: node.partition("-")[0] for name, _, node in engine.api.bindings}


async def test_a_gang_lands_in_one_rack(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 3, annotations={REQUIRED: "rack"})
    add_racks(engine, a=2, b=4, c=3)
    engine.add_members("g", 3, cpu="700m")
    await eventually(lambda: len(engine.bound) == 3, "the gang")
    assert set(racks(engine).values()) == {"c"}


async def test_a_gang_waits_for_a_rack_and_says_so(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 3, annotations={REQUIRED: "rack"})
    add_racks(engine, a=2, b=2)
    engine.add_members("g", 3, cpu="700m")
    expected = (
        "pod group ns/g: 2 of 3 members fit in rack=a, the best of 2 such domains, minMember is 3: "
        "0/2 nodes are available: 2 Insufficient cpu."
    )
    await eventually(lambda: engine.message("g-0") == expected, "the reason")
    assert engine.state.assumed_count == 0
    add_racks(engine, b=3)
    await eventually(lambda: set(racks(engine).values()) == {"b"} and len(engine.bound) == 3, "the rack that grew")


async def test_who_asks_about_a_member_is_told_which_racks_would_take_how_many(start: Start) -> None:
    engine = await start(history=HistoryLimits(records=100, bytes=1 << 20, detail_share=1.0))
    engine.add_group("g", 3, annotations={REQUIRED: "rack"})
    add_racks(engine, a=2, b=1)
    engine.add_members("g", 3, cpu="700m")
    engine.add_member("foreign", "g", scheduler="default-scheduler")
    await eventually(lambda: "in rack=a" in engine.message("g-0"), "the reason")
    assert engine.inspector is not None
    answer = engine.inspector.answer(PodsQuestion("ns", "g-0", 10))
    assert isinstance(answer, DecisionList)
    assert answer.waiting
    assert answer.waiting.gang == GangReport(
        name="pod group ns/g", minimum=3, placed=0, waiting=4, levels=("rack",), domain_count=2,
        domains=(DomainRoom("rack=a", 2, 2), DomainRoom("rack=b", 1, 1)),
    )  # fmt: skip


async def test_a_label_that_comes_later_wakes_the_gang(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 2, annotations={REQUIRED: "rack"})
    engine.add_node("n", cpu="4")
    engine.add_members("g", 2, cpu="700m")
    await eventually(lambda: engine.message("g-0") == "pod group ns/g: no node has the label rack", "the reason")
    labelled = NodeUpdate(node_info("n", cpu="4", labels={"rack": "a"}, version="2"), ())
    engine.nodes.apply([(EventType.MODIFIED, labelled)])
    await eventually(lambda: len(engine.bound) == 2, "the gang")


async def test_later_members_follow_into_the_rack_or_wait(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 2, annotations={REQUIRED: "rack"})
    add_racks(engine, a=3, b=9)
    engine.add_members("g", 2, cpu="700m")
    await eventually(lambda: len(engine.bound) == 2, "the gang")
    engine.add_member("third", "g", cpu="700m")
    await eventually(lambda: "third" in engine.bound, "a member more")
    assert set(racks(engine).values()) == {"a"}
    engine.add_member("fourth", "g", cpu="700m")
    await eventually(lambda: "in rack=a" in engine.message("fourth"), "no room there")
    assert len(engine.bound) == 3


async def test_many_later_members_are_decided_in_a_few_attempts(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """One by one, each would take all others out of the queue and put them back."""
    engine = await start()
    engine.add_group("g", 1, annotations={REQUIRED: "rack"})
    engine.add_node("a-0", cpu="64", labels={"rack": "a"})
    engine.add_member("first", "g", cpu="10m")
    await eventually(lambda: engine.bound == {"first"}, "the gang")
    attempts = engine.cycle._attempts
    decide_gang, sizes = attempts.decide_gang, []

    def decide(gang: Gang, pods: Sequence[PodInfo], *rest: Any) -> Any:
        sizes.append(len(pods))
        return decide_gang(gang, pods, *rest)

    monkeypatch.setattr(attempts, "decide_gang", decide)
    engine.add_members("g", 50, cpu="10m")
    await eventually(lambda: len(engine.bound) == 51, "all that fit")
    assert len(sizes) < 10, sizes


async def test_a_preferred_level_is_left_after_a_while(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 3, annotations={PREFERRED: "rack", WIDEN_AFTER: "500ms"})
    add_racks(engine, a=2, b=1)
    engine.add_members("g", 3, cpu="700m")
    await eventually(lambda: "in rack=a" in engine.message("g-0"), "it waits for a rack")
    await eventually(lambda: len(engine.bound) == 3, "then it goes anywhere", 10)


async def test_an_annotation_that_cannot_be_used_refuses_the_gang_until_it_is_corrected(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 2, annotations={"secondary-scheduler.io/topology-rack": "x"})
    add_racks(engine, a=2)
    engine.add_members("g", 2, cpu="700m")
    await eventually(lambda: "topology-rack is unknown" in engine.message("g-0"), "the reason")
    engine.add_group("g", 2, event=EventType.MODIFIED, version=2, annotations={REQUIRED: "rack"})
    await eventually(lambda: len(engine.bound) == 2, "the gang")


async def test_upstreams_way_refuses_a_topology_which_it_does_not_know(start: Start) -> None:
    fields: dict[str, Any] = {"annotations": {REQUIRED: "rack"}}
    engine = await start(compatibility="upstream")
    engine.add_group("g", 1, **fields)
    add_racks(engine, a=2)
    engine.add_members("g", 1, cpu="700m")
    await eventually(lambda: "compatibility: safe only" in engine.message("g-0"), "the reason")
    assert not engine.bound


async def test_slices_by_rank_are_each_in_one_rack(start: Start) -> None:
    engine = await start()
    annotations = {SLICE: "rack", SLICE_SIZE: "2", RANK_LABEL: "rank"}
    engine.add_group("g", 4, annotations=annotations)
    add_racks(engine, a=2, b=1, c=3)
    for rank in range(4):
        engine.add_member(f"g-{rank}", "g", cpu="700m", metadata={"labels": {"rank": str(rank)}})
    await eventually(lambda: len(engine.bound) == 4, "the gang")
    assert racks(engine)["g-0"] == racks(engine)["g-1"]
    assert racks(engine)["g-2"] == racks(engine)["g-3"]


async def test_members_of_slices_without_a_rank_wait_and_are_named(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 2, annotations={SLICE: "rack", SLICE_SIZE: "2"})
    add_racks(engine, a=2)
    engine.add_members("g", 2, cpu="700m")
    await eventually(lambda: "has no label batch.kubernetes.io/job-completion-index" in engine.message("g-0"), "why")
    assert not engine.bound


# Annotations of other schedulers --------------------------------------------------------------------------------------


def add_annotated(engine: GangEngine, name: str, annotations: dict[str, str], **fields: Any) -> PodInfo:
    return engine.add_member(name, "g", cpu="700m", metadata={"annotations": annotations}, **fields)


def ignored(engine: GangEngine) -> list[str]:
    return [event["note"] for event in engine.api.events if event["reason"] == "TopologyIgnored"]


async def test_a_gang_whose_members_all_have_kueues_annotation_lands_in_one_rack(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 3)
    add_racks(engine, a=2, b=4, c=3)
    for number in range(3):
        add_annotated(engine, f"g-{number}", {KUEUE_REQUIRED: "rack"})
    await eventually(lambda: len(engine.bound) == 3, "the gang")
    assert set(racks(engine).values()) == {"c"}
    add_annotated(engine, "g-3", {KUEUE_REQUIRED: "rack"})
    await eventually(lambda: "in rack=c" in engine.message("g-3"), "a later one waits for room there")
    assert not ignored(engine)


async def test_kueues_slices_are_each_in_one_rack(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 4)
    add_racks(engine, a=3, b=3)
    for number in range(4):
        metadata = {
            "annotations": {KUEUE_SLICE: "rack", KUEUE_SLICE_SIZE: "2"},
            "labels": {"batch.kubernetes.io/job-completion-index": str(number)},
        }
        engine.add_member(f"g-{number}", "g", cpu="700m", metadata=metadata)
    await eventually(lambda: len(engine.bound) == 4, "the gang")
    placed = racks(engine)
    assert placed["g-0"] == placed["g-1"]
    assert placed["g-2"] == placed["g-3"]


async def test_a_member_without_kueues_annotation_refuses_the_gang_until_it_has_it(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 2)
    add_racks(engine, a=2, b=2)
    add_annotated(engine, "g-0", {KUEUE_REQUIRED: "rack"})
    engine.add_member("g-1", "g", cpu="700m")
    difference = f"pods g-0 and g-1 differ in annotation {KUEUE_REQUIRED}: rack and none"
    expected = f"pod group ns/g: {difference}. Give all members the same"
    await eventually(lambda: all(expected in engine.message(f"g-{number}") for number in range(2)), "each is told")
    assert not engine.bound
    metadata = {"labels": {POD_GROUP_LABEL: "g"}, "annotations": {KUEUE_REQUIRED: "rack"}}
    engine.pods.apply([(EventType.MODIFIED, pod_info("g-1", cpu="700m", metadata=metadata, rv="2"))])
    await eventually(lambda: len(engine.bound) == 2, "the gang")
    assert len(set(racks(engine).values())) == 1


async def test_a_member_that_differs_and_goes_no_longer_keeps_the_others(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 2)
    add_racks(engine, a=2)
    for number in range(2):
        add_annotated(engine, f"g-{number}", {KUEUE_REQUIRED: "rack"})
    other = add_annotated(engine, "other", {KUEUE_REQUIRED: "zone"}, schedulingGates=[{"name": "later"}])
    await eventually(lambda: "pods g-0 and other differ" in engine.message("g-0"), "the reason")
    engine.pods.apply([(EventType.DELETED, other)])
    await eventually(lambda: engine.bound == {"g-0", "g-1"}, "the gang")


async def test_a_group_that_says_something_else_than_kueues_annotation_is_refused(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 1, annotations={REQUIRED: "zone"})
    add_racks(engine, a=1)
    add_annotated(engine, "g-0", {KUEUE_REQUIRED: "rack"})
    expected = f"annotation {KUEUE_REQUIRED} of its pods says rack, its own {REQUIRED} zone: keep one of them"
    await eventually(lambda: expected in engine.message("g-0"), "the reason")
    assert not engine.bound


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"kueue.x-k8s.io/managed": "true"}},
        {"labels": {"kueue.x-k8s.io/queue-name": "team"}},
        {"annotations": {KUEUE_WORKLOAD: "job-g"}},
    ],
)
async def test_kueues_annotations_are_left_to_kueue_where_it_manages_the_pods(
    start: Start, metadata: dict[str, dict[str, str]]
) -> None:
    engine = await start()
    engine.add_group("g", 2)
    add_racks(engine, a=1, b=1)
    annotations = {KUEUE_REQUIRED: "rack", **metadata.get("annotations", {})}
    for number in range(2):
        engine.add_member(f"g-{number}", "g", cpu="700m", metadata={**metadata, "annotations": annotations})
    await eventually(lambda: len(engine.bound) == 2, "the gang, by its node selectors")
    assert set(racks(engine).values()) == {"a", "b"}
    assert not ignored(engine)


@pytest.mark.parametrize(
    ("key", "spelling"),
    [
        (KAI_REQUIRED, REQUIRED),
        (KAI_PREFERRED, PREFERRED),
        (KOORDINATOR_SPEC, f"{REQUIRED} or {PREFERRED}"),
        (KUEUE_SLICES, f"{SLICE} and {SLICE_SIZE}"),
    ],
)
async def test_annotations_of_others_that_are_not_followed_are_named_once_per_group(
    start: Start, key: str, spelling: str
) -> None:
    engine = await start(profiles=2)
    engine.add_group("g", 2)
    add_racks(engine, a=1, b=1)
    for number in range(2):
        add_annotated(engine, f"g-{number}", {key: "rack"})
    await eventually(lambda: len(engine.bound) == 2, "the gang")
    add_annotated(engine, "g-2", {key: "rack"})
    await eventually(lambda: bool(engine.message("g-2")), "a later one has no room")
    expected = f"pod group ns/g: annotation {key} is not followed: annotate the PodGroup with {spelling}"
    await eventually(lambda: ignored(engine) == [expected], "the Event")


async def test_an_annotation_of_another_scheduler_on_the_group_is_named_unless_it_has_ours(start: Start) -> None:
    engine = await start()
    engine.add_group("g", 1, annotations={KOORDINATOR_SPEC: "{}", REQUIRED: "rack"})
    engine.add_group("h", 1, annotations={KOORDINATOR_SPEC: "{}"})
    add_racks(engine, a=3)
    engine.add_member("g-0", "g")
    engine.add_member("h-0", "h")
    await eventually(lambda: len(engine.bound) == 2, "both")
    await eventually(lambda: len(ignored(engine)) == 1, "the Event")
    assert ignored(engine)[0].startswith(f"pod group ns/h: annotation {KOORDINATOR_SPEC} is not followed")


async def test_upstreams_way_places_a_gang_with_kueues_annotations_anywhere_and_says_so(start: Start) -> None:
    engine = await start(compatibility="upstream")
    engine.add_group("g", 2)
    add_racks(engine, a=1, b=1)
    for number in range(2):
        add_annotated(engine, f"g-{number}", {KUEUE_REQUIRED: "rack"})
    await eventually(lambda: len(engine.bound) == 2, "the gang")
    expected = f"pod group ns/g: annotation {KUEUE_REQUIRED} is not followed: annotate the PodGroup with {REQUIRED}"
    await eventually(lambda: ignored(engine) == [f"{expected} and use compatibility: safe"], "the Event")
