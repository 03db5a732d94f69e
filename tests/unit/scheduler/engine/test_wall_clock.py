"""The wall clock is set by an hour while pods, gangs and Events wait: they wait no longer, and no shorter."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.framework import Code, CycleState, PodInfo, Status
from scheduler.plugins.coscheduling.groups import ExpiringSet
from tests.support.faketime import ManualClocks
from tests.unit.scheduler.engine.fakes import Engine, eventually
from tests.unit.scheduler.engine.gangs import GangEngine
from tests.unit.scheduler.engine.test_cycle import refused

pytestmark = pytest.mark.parametrize("jump", [-3600, 3600], ids=["an hour back", "an hour ahead"])


async def test_a_pod_whose_binding_failed_is_retried(engine: Engine, jump: float) -> None:
    engine.api.failures = [refused(403, "pods/binding is forbidden")]
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: engine.queue.queue_of("p-uid") == "backoff", "the first attempt fails")
    engine.wall_offset = jump
    await eventually(lambda: len(engine.api.bindings) == 1, "the second one, after the backoff")


async def test_events_are_written_and_show_the_wall_clock(engine: Engine, jump: float) -> None:
    engine.add_node("n1")
    engine.add_pod("before")
    await eventually(lambda: len(engine.api.events) == 1, "an Event")
    engine.wall_offset = jump
    engine.add_pod("after")
    await eventually(lambda: len(engine.api.events) == 2, "another one")
    before, after = (event["eventTime"] for event in engine.api.events)
    assert (after < before) == (jump < 0)


@pytest.fixture
async def gang_engine() -> GangEngine:
    return GangEngine(permitWaitingTimeSeconds=20)


async def test_a_gang_waits_for_a_member_as_long_as_it_may(
    gang_engine: GangEngine, jump: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of two members is never ready to be bound; the other gives up its node when time is up."""

    engine = gang_engine

    async def pre_bind(state: CycleState, pod: PodInfo, node: str) -> Status:
        if pod.name == "g-0":
            await asyncio.sleep(1000)
        engine.wall_offset = jump
        return Status(Code.SUCCESS)

    monkeypatch.setattr(engine.runners["secondary-scheduler"], "run_pre_bind", pre_bind)
    running = asyncio.create_task(engine.cycle.run())
    engine.add_group("g", 2)
    engine.add_node("n1")
    engine.add_members("g", 2)
    await eventually(lambda: engine.state.assumed_count == 2, "both hold their node")
    began = asyncio.get_running_loop().time()
    await eventually(lambda: "gave up its node" in engine.message("g-1"), "a reason", seconds=60)
    assert 19 < asyncio.get_running_loop().time() - began < 22
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_what_is_remembered_for_a_while_is_forgotten_in_time(jump: float) -> None:
    clocks = ManualClocks()
    remembered = ExpiringSet(clocks.monotonic, 3.0)
    remembered.add("group", 0)
    clocks.wall_offset = jump
    assert "group" in remembered
    clocks.now += 3.1
    assert "group" not in remembered
