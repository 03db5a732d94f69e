"""Gangs with a topology at run time: they land in one domain, wait for one, follow their members, and widen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler.answers import DecisionList, DomainRoom, GangReport
from scheduler.engine import HistoryLimits
from scheduler.engine.inputs import NodeUpdate
from scheduler.framework import Gang, PodInfo
from scheduler.kube.model import EventType
from scheduler.observe import PodsQuestion
from scheduler.plugins.coscheduling.topology import PREFERRED, RANK_LABEL, REQUIRED, SLICE, SLICE_SIZE, WIDEN_AFTER
from tests.unit.scheduler.engine.fakes import eventually
from tests.unit.scheduler.engine.gangs import GangEngine, Start
from tests.unit.scheduler.engine.pods import node_info


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
