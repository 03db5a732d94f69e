"""What the engine does with an attempt that is too much work: it parks the pods, and no event has them tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from scheduler.engine import attempts
from scheduler.framework import cycle as meter
from tests.unit.scheduler.engine.fakes import eventually, started
from tests.unit.scheduler.engine.gangs import GangEngine


@pytest.fixture
async def engine() -> AsyncIterator[GangEngine]:
    engine = GangEngine()
    async with started(engine):
        yield engine


def over_budget(engine: GangEngine, plugin: str) -> float:
    name = "secondary_scheduler_pods_over_budget_total"
    samples = [each for metric in engine.metrics.registry.collect() for each in metric.samples if each.name == name]
    return sum(each.value for each in samples if each.labels["plugin"] == plugin)


def listing(name: str, priority: int = 0) -> dict[str, object]:
    return {"tolerations": [{"key": f"{name}-{n}", "operator": "Exists"} for n in range(300)], "priority": priority}


async def test_a_pod_that_is_too_much_work_is_told_why_and_is_woken_by_nothing(
    engine: GangEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meter, "ATTEMPT_UNITS", 100)
    engine.add_node("n1")
    engine.add_pod("large", **listing("large"))
    await eventually(lambda: over_budget(engine, "TaintToleration") == 1, "it is given up")
    await eventually(lambda: bool(engine.api.patches), "its condition is written")
    assert "too much work for plugin TaintToleration" in str(engine.api.patches)
    engine.add_node("n2")
    engine.add_pod("small")
    await eventually(lambda: [name for name, _, _ in engine.api.bindings] == ["small"], "the other one is bound")
    assert over_budget(engine, "TaintToleration") == 1
    assert engine.queue.queue_of("large-uid") == "unschedulable"


async def test_a_preemption_that_is_too_much_work_parks_the_pod(
    engine: GangEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("low", node="n1", cpu="800m", priority=1)
    # The attempt itself is some 600 units, and trying the node a hundred, and as many again for the filters.
    monkeypatch.setattr(meter, "ATTEMPT_UNITS", 700)
    engine.add_pod("high", cpu="500m", **listing("high", 10))
    await eventually(lambda: over_budget(engine, "TaintToleration") == 1, "it is given up")
    await eventually(lambda: engine.queue.queue_of("high-uid") == "unschedulable", "it is parked")
    engine.add_node("n2", cpu="100m")
    await asyncio.sleep(0)
    assert engine.queue.queue_of("high-uid") == "unschedulable", "the Node would have woken it"


async def test_a_gang_that_is_too_much_work_is_parked_as_a_whole_and_not_tried_for_each_new_member(
    engine: GangEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "GANG_UNITS", 400)
    engine.add_group("g", 5)
    engine.add_node("n1")
    engine.add_members("g", 5)
    uids = [f"g-{n}-uid" for n in range(5)]
    await eventually(lambda: over_budget(engine, "AttemptBudget") == 1, "it is given up")
    await eventually(lambda: {engine.queue.queue_of(uid) for uid in uids} == {"unschedulable"}, "all are parked")
    engine.add_member("late", "g")
    await eventually(lambda: engine.queue.queue_of("late-uid") == "unschedulable", "the new member is parked")
    assert over_budget(engine, "AttemptBudget") == 1, "without another attempt"
    assert not engine.api.bindings
