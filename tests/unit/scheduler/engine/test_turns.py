"""Gangs that are decided in turns: who is decided in between, what the others leave, and what becomes of the gang."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from scheduler.engine import HistoryLimits, turns
from scheduler.engine.inputs import NodeUpdate
from scheduler.kube.model import EventType
from tests.unit.scheduler.engine.fakes import eventually, started
from tests.unit.scheduler.engine.gangs import GangEngine
from tests.unit.scheduler.engine.pods import node_info

HISTORY = HistoryLimits(records=1000, bytes=1 << 20, detail_share=0.0)


@pytest.fixture(autouse=True)
def _a_turn_for_each_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "TURN_SECONDS", -1.0)


def engine_with_gang(
    members: int, nodes: dict[str, str], *, minimum: int | None = None, compatibility: str = "safe", **fields: object
) -> GangEngine:
    """An engine that has not started, whose queue begins with a gang of one CPU per member."""
    engine = GangEngine(compatibility, history=HISTORY)
    for name, cpu in nodes.items():
        engine.add_node(name, cpu=cpu)
    engine.add_group("g", members if minimum is None else minimum, created="2000-01-01T00:00:00Z")
    engine.add_members("g", members, cpu="1", preemptionPolicy="Never", **fields)
    return engine


@asynccontextmanager
async def when_members_hold(engine: GangEngine, count: int) -> AsyncIterator[None]:
    """Hold the gang when so many members hold nodes, while the block runs."""
    taking = engine.cycle._turns
    take_turn, opened = taking.take_turn, asyncio.Event()

    def held() -> int:
        question = taking._attempt.question if taking._attempt is not None else None
        return len(question.holds) if isinstance(question, turns.TurnQuestion) else -1

    def wait_or_take() -> bool:
        return False if held() >= count and not opened.is_set() else take_turn()

    taking.take_turn = wait_or_take  # type: ignore[method-assign]
    await eventually(lambda: held() == count, f"{count} members hold nodes")
    yield
    opened.set()
    engine.cycle.wake()


async def rest(check: Callable[[], bool], expectation: str) -> None:
    await eventually(check, expectation, 10)


async def test_pods_behind_a_gang_are_bound_before_it_is_decided() -> None:
    async with started(engine := engine_with_gang(4, {"n": "9"})):
        async with when_members_hold(engine, 2):
            engine.add_pod("other", cpu="1", preemptionPolicy="Never")
            await rest(lambda: engine.bound == {"other"}, "a pod that came later")
        await rest(lambda: len(engine.bound) == 5, "the gang")


async def test_a_pod_leaves_the_room_that_members_hold_and_goes_elsewhere() -> None:
    async with started(engine := engine_with_gang(2, {"n": "2"})):
        async with when_members_hold(engine, 1):
            # Plugins score the other node better.
            engine.add_node("m", cpu="1500m", taints=[{"key": "x", "effect": "PreferNoSchedule"}])
            engine.add_pod("other", cpu="1500m", preemptionPolicy="Never")
            await rest(lambda: engine.bound == {"other"}, "the pod")
        await rest(lambda: len(engine.bound) == 3, "the gang")
        assert {name: node for name, _, node in engine.api.bindings} == {"other": "m", "g-0": "n", "g-1": "n"}


async def test_a_pod_that_only_the_members_keep_off_is_not_told_so_and_is_placed_when_the_gang_gives_up() -> None:
    async with started(engine := engine_with_gang(3, {"n": "2"})):
        async with when_members_hold(engine, 2):
            engine.add_pod("other", cpu="1", preemptionPolicy="Never")
            await rest(lambda: bool(engine.cycle._turns._refused), "it waits")
            assert engine.message("other") == ""
            assert not engine.bound
        await rest(lambda: engine.bound == {"other"}, "the pod")
        assert engine.message("other") == ""
        await rest(lambda: "2 of 3 members fit" in engine.message("g-0"), "the gang's reason")


async def test_a_pod_that_fits_nowhere_anyway_is_told_at_once() -> None:
    async with started(engine := engine_with_gang(3, {"n": "3"})):
        async with when_members_hold(engine, 1):
            engine.add_pod("large", cpu="64", preemptionPolicy="Never")
            await rest(lambda: "Insufficient cpu" in engine.message("large"), "its reason")
        await rest(lambda: len(engine.bound) == 3, "the gang")


async def test_a_pod_of_higher_priority_takes_the_room_and_the_gang_holds_nothing() -> None:
    async with started(engine := engine_with_gang(2, {"n": "2"})):
        async with when_members_hold(engine, 1):
            engine.add_pod("urgent", cpu="1", priority=9, preemptionPolicy="Never")
            await rest(lambda: engine.bound == {"urgent"}, "the urgent pod")
        await rest(lambda: "1 of 2 members fit" in engine.message("g-0"), "the gang's reason")
        assert engine.bound == {"urgent"}
        assert engine.state.assumed_count == 1


async def test_a_gang_of_higher_priority_goes_first_and_another_waits() -> None:
    async with started(engine := engine_with_gang(2, {"n": "2"})):
        async with when_members_hold(engine, 1):
            for name, priority in (("equal", 0), ("urgent", 9)):
                engine.add_group(name, 2)
                engine.add_members(name, 2, cpu="1", priority=priority, preemptionPolicy="Never")
            await rest(lambda: engine.queue.ready == 0, "all were looked at")
        await rest(lambda: len(engine.bound) == 2, "a gang")
        await rest(lambda: engine.message("g-0") != "" and engine.message("equal-0") != "", "the others' reasons")
        assert engine.bound == {"urgent-0", "urgent-1"}


async def test_the_records_name_the_order() -> None:
    async with started(engine := engine_with_gang(3, {"n": "9"})):
        async with when_members_hold(engine, 1):
            engine.add_pod("other", cpu="1", preemptionPolicy="Never")
            await rest(lambda: engine.bound == {"other"}, "the pod")
        await rest(lambda: len(engine.bound) == 4, "the gang")
        assert engine.history is not None
        records = {record.name: record.message for record in engine.history._records.values()}
        assert records["other"] == "placed between turns of pod group ns/g, beside the nodes that its members hold"
        assert records["g-0"] == "decided in 4 turns, after ns/other that came in between"


async def test_a_gang_that_loses_a_member_in_between_begins_again() -> None:
    async with started(engine := engine_with_gang(3, {"n": "9"}, minimum=2)):
        async with when_members_hold(engine, 1):
            engine.pods.apply([(EventType.DELETED, engine.pending["g-2-uid"])])
        await rest(lambda: engine.message("g-0").endswith("it changed while its members were decided"), "the reason")
        await rest(lambda: engine.bound == {"g-0", "g-1"}, "the rest of it after its backoff")


async def test_a_process_that_leads_no_more_gives_the_gang_back() -> None:
    async with started(engine := engine_with_gang(3, {"n": "9"})):
        async with when_members_hold(engine, 1):
            engine.leading = False
            engine.cycle.wake()
            await rest(lambda: not engine.cycle._turns.under_way, "given back")
            assert engine.messages == []
        engine.leading = True
        engine.cycle.wake()
        await rest(lambda: len(engine.bound) == 3, "the gang")


async def test_a_node_that_goes_in_between_is_not_reserved() -> None:
    async with started(engine := engine_with_gang(2, {"n": "2"})):
        async with when_members_hold(engine, 1):
            engine.add_node("m", cpu="2")
            engine.nodes.apply([(EventType.DELETED, NodeUpdate(node_info("n", cpu="2"), ()))])
        await rest(lambda: len(engine.bound) == 2, "the gang")
        assert {node for _, _, node in engine.api.bindings} == {"m"}


async def test_an_attempt_that_fails_in_a_later_turn_costs_the_gang_that_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with started(engine := engine_with_gang(2, {"n": "2"})):
        async with when_members_hold(engine, 1):
            monkeypatch.setattr(engine.cycle._turns._attempts, "snapshot", lambda: 1 / 0)
        await rest(lambda: "ZeroDivisionError" in engine.message("g-0"), "the failure")
        monkeypatch.undo()
        await rest(lambda: len(engine.bound) == 2, "the gang after its backoff")


async def test_upstreams_way_has_no_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[object] = []
    engine = engine_with_gang(3, {"n": "9"}, compatibility="upstream")
    monkeypatch.setattr(engine.cycle._turns, "begin", begun.append)
    async with started(engine):
        await rest(lambda: len(engine.bound) == 3, "the gang")
    assert begun == []
