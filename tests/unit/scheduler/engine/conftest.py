"""What tests of the running engine share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from tests.support.faketime import FakeTimeLoop
from tests.unit.scheduler.engine.fakes import Engine, started


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """All of them run on a fake clock."""
    return {"fake time": FakeTimeLoop}


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with started(Engine()) as engine:
        yield engine
