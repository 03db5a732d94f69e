"""Between the Lease and the first decision, pods and ResourceClaims are read once more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from scheduler.engine import Takeover
from scheduler.kube.client import Forbidden, KubeError, Reflector, ReflectorState
from tests.support.waiting import eventually_on_loop


class Listed:
    """Stands for a reflector: counts its lists, and fails as often as it is told to."""

    def __init__(self, *failures: KubeError, optional: bool = False) -> None:
        self.optional = optional
        self.state = ReflectorState(synced=True)
        self.lists = 0
        self._failures = list(failures)

    async def refresh(self) -> None:
        self.lists += 1
        if self._failures:
            raise self._failures.pop()


@contextlib.asynccontextmanager
async def begun(**reflectors: Listed) -> AsyncIterator[tuple[Takeover, asyncio.Event]]:
    """A takeover that has begun, and whether it is complete."""
    ready = asyncio.Event()
    takeover = Takeover(cast("dict[str, Reflector[Any, Any]]", reflectors), ready.set)
    assert not takeover.pending
    task = asyncio.create_task(takeover.run())
    takeover.begin()
    assert takeover.pending
    yield takeover, ready
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("resource", ["pods", "resourceclaims"])
async def test_nothing_is_decided_until_all_was_read_and_a_failed_read_is_tried_again(
    resource: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.engine.handedover._RETRY_SECONDS", 0)
    failures = [KubeError("the API server does not answer")] * 2
    listed = {"pods": Listed(), "resourceclaims": Listed(optional=True)} | {resource: Listed(*failures)}
    async with begun(**listed) as (takeover, ready):
        await asyncio.wait_for(ready.wait(), 60)
        assert not takeover.pending
        assert listed[resource].lists == 3
        before = {name: each.lists for name, each in listed.items()}
        ready.clear()
        takeover.begin()
        await eventually_on_loop(ready.is_set)
        assert all(each.lists == before[name] + 1 for name, each in listed.items())


async def test_claims_that_are_not_served_or_may_not_be_read_hold_up_no_pod() -> None:
    absent, unread = Listed(optional=True), Listed(optional=True)
    absent.state.absent = unread.state.unread = True
    forbidden = Forbidden("GET resourceclaims: 403", status=403, reason="Forbidden", message="")
    refused = Listed(forbidden, forbidden, optional=True)
    for claims in (absent, unread, refused):
        async with begun(pods=Listed(), resourceclaims=claims) as (takeover, ready):
            await asyncio.wait_for(ready.wait(), 60)
            assert not takeover.pending
    assert (absent.lists, unread.lists, refused.lists) == (0, 0, 1)
