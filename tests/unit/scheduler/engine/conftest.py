"""What tests of the running engine share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack

import pytest

from tests.support.faketime import FakeTimeLoop
from tests.unit.scheduler.engine.fakes import Engine, started
from tests.unit.scheduler.engine.gangs import GangEngine, Start


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """All of them run on a fake clock."""
    return {"fake time": FakeTimeLoop}


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with started(Engine()) as engine:
        yield engine


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts engines with gangs, which end with the test."""
    async with AsyncExitStack() as running:

        async def make(compatibility: str = "safe", **options: object) -> GangEngine:
            engine = GangEngine(compatibility, **options)  # type: ignore[arg-type]
            await running.enter_async_context(started(engine))
            return engine

        yield make
