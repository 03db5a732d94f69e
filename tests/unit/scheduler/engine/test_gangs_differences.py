"""What gangs do differently from upstream by default: both behaviours side by side, as in docs/differences.md."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.framework import CycleState
from scheduler.kube.model import EventType
from tests.unit.scheduler.engine.fakes import eventually
from tests.unit.scheduler.engine.gangs import Start
from tests.unit.scheduler.engine.pods import pod_info

_LONG_ENOUGH = 0.4
both_modes = pytest.mark.parametrize("compatibility", ["safe", "upstream"])


@both_modes
async def test_what_a_gang_holds_that_lacks_one_place(start: Start, compatibility: str) -> None:
    engine = await start(compatibility, podGroupRejectPercentage=100)
    engine.add_group("g", 3)
    for name in ("n1", "n2"):
        engine.add_node(name, cpu="1")
    engine.add_members("g", 3, cpu="700m")
    await eventually(lambda: bool(engine.messages), "a reason")
    engine.add_pod("other", cpu="700m")
    if compatibility == "safe":
        await eventually(lambda: engine.bound == {"other"}, "the room was free")
    else:
        await eventually(lambda: "Insufficient cpu" in engine.message("other"), "the room was held")
        assert engine.state.assumed_count == 2


@both_modes
async def test_what_members_are_told(start: Start, compatibility: str) -> None:
    engine = await start(compatibility)
    engine.add_group("g", 2)
    engine.add_node("n1", cpu="1")
    engine.add_members("g", 2, cpu="700m")
    if compatibility == "safe":
        message = "pod group ns/g: 1 of 2 members fit, minMember is 2: 0/1 nodes are available: 1 Insufficient cpu."
        await eventually(lambda: [engine.message(name) for name in ("g-0", "g-1")] == [message] * 2, "the numbers")
    else:
        rejected = "PodGroup ns/g gets rejected due to Pod g-1 is unschedulable even after PostFilter"
        await eventually(lambda: any(rejected in text for text in engine.messages), "the one that failed")
        alone = "0/1 nodes are available: 1 optimistic rejection in PostFilter."
        await eventually(lambda: alone in engine.messages, "the others")


@both_modes
async def test_pods_without_a_group_are_not_told_of_groups(start: Start, compatibility: str) -> None:
    engine = await start(compatibility)
    engine.add_node("n1", cpu="1")
    engine.add_pod("large", cpu="2")
    await eventually(lambda: bool(engine.message("large")), "a reason")
    assert engine.message("large").endswith("can not find pod group") == (compatibility == "upstream")


@both_modes
async def test_a_cluster_that_was_too_small_for_min_resources_and_grows(start: Start, compatibility: str) -> None:
    engine = await start(compatibility)
    engine.add_node("n1", cpu="1")
    engine.add_group("g", 2, min_resources={"cpu": "1500m"})
    engine.add_members("g", 2, cpu="100m")
    await eventually(lambda: "resource gap" in engine.message("g-1"), "the reason")
    engine.add_node("n2", cpu="1")
    await asyncio.sleep(_LONG_ENOUGH)
    # Upstream asks again when a pod is added, when the group changes, or after five minutes.
    assert engine.bound == ({"g-0", "g-1"} if compatibility == "safe" else set())


@both_modes
async def test_a_gang_in_back_off_is_tried_at_its_end(start: Start, compatibility: str) -> None:
    engine = await start(compatibility, podGroupBackoffSeconds=1)
    engine.add_group("g", 2)
    engine.add_node("n1", cpu="1")
    engine.add_members("g", 2, cpu="700m")
    await eventually(lambda: any("Insufficient cpu" in text for text in engine.messages), "does not fit")
    engine.add_node("n2", cpu="1")
    await eventually(lambda: any("failed recently" in text for text in engine.messages), "left alone")
    await asyncio.sleep(1 + _LONG_ENOUGH)
    assert engine.bound == ({"g-0", "g-1"} if compatibility == "safe" else set())


@both_modes
async def test_a_pod_that_is_being_deleted_is_no_member(start: Start, compatibility: str) -> None:
    engine = await start(compatibility)
    engine.add_node("n1")
    engine.add_group("g", 2)
    engine.add_member("g-0", "g", node="n1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    engine.add_member("g-1", "g")
    if compatibility == "safe":
        await eventually(lambda: "1 of at least 2 members exist" in engine.message("g-1"), "it would be alone soon")
        assert engine.api.bindings == []
    else:
        await eventually(lambda: engine.bound == {"g-1"}, "counted")


@both_modes
async def test_a_missing_group(start: Start, compatibility: str) -> None:
    engine = await start(compatibility)
    engine.add_node("n1")
    engine.add_members("g", 2)
    reason = {
        "safe": "pod group ns/g does not exist",
        "upstream": "0/1 nodes are available: 1 PodGroup not found.",
    }[compatibility]
    await eventually(lambda: all(reason in engine.message(f"g-{number}") for number in range(2)), "the reason")


@both_modes
async def test_who_counts_when_a_pod_comes_back_under_its_name(start: Start, compatibility: str) -> None:
    """A waiting pod is deleted and made again: upstream knows it by its name, and the old one's end takes the new one's
    place away."""
    engine = await start(compatibility)
    plugin = next(iter(engine.runners.values())).plugins["Coscheduling"]
    engine.add_group("g", 2)
    old = engine.add_member("g-0", "g")
    engine.pods.apply([(EventType.DELETED, old)])
    new = engine.add_member("g-0", "g", metadata={"uid": "other-uid"})
    if compatibility == "upstream":
        plugin.permit(CycleState(), new, "n1")  # type: ignore[attr-defined]
        plugin.unreserve(CycleState(), old, "n1")  # type: ignore[attr-defined]
        assert plugin._assigned == {}  # type: ignore[attr-defined]
    else:
        engine.state.assume(new, "n1", 0.0)
        engine.add_member("g-1", "g")
        gang = plugin.gang_of(pod_info("g-1", metadata={"labels": dict(new.labels)}))  # type: ignore[attr-defined]
        assert gang is not None
        assert (gang.placed, [member.name for member in gang.waiting]) == (1, ["g-1"])
