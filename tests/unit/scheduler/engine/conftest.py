"""What tests of the running engine share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from tests.support.faketime import FakeTimeLoop
from tests.unit.scheduler.engine.fakes import Engine


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """All of them run on a fake clock."""
    return {"fake time": FakeTimeLoop}


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine()
    engine.recorder.start()
    task = asyncio.create_task(engine.cycle.run())
    yield engine
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await engine.recorder.drain(1)
