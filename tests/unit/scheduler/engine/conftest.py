"""What tests of the running engine share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

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
