"""What the watches bring and whom it wakes, against a fake API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from tests.unit.scheduler.engine.fakes import Engine


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine()
    engine.recorder.start()
    task = asyncio.create_task(engine.cycle.run())
    yield engine
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await engine.recorder.drain(1)


async def eventually(check: Callable[[], bool], what: str) -> None:
    for _ in range(300):
        if check():
            return
        await asyncio.sleep(0.01)
    pytest.fail(f"not within 3 s: {what}")


async def test_a_pod_that_waits_for_one_of_ours_is_placed_beside_it(engine: Engine) -> None:
    near = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    engine.add_node("n1")
    engine.add_pod("p", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}})
    await eventually(lambda: bool(engine.api.patches), "turned down")
    engine.add_pod("db", metadata={"labels": {"app": "db"}})
    await eventually(lambda: len(engine.api.bindings) == 1, "the other is bound")
    engine.add_pod("db", node="n1", rv="2", metadata={"labels": {"app": "db"}})
    await eventually(lambda: len(engine.api.bindings) == 2, "bound, too")
