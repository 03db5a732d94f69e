"""Between the Lease and the first decision the pods are read once more."""

from __future__ import annotations

import asyncio

import pytest

from scheduler.engine import Takeover
from scheduler.kube.client import KubeError
from tests.support.waiting import eventually_on_loop


async def test_nothing_is_decided_until_the_pods_were_read_and_a_failed_read_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler.engine.takeover._RETRY_SECONDS", 0)
    pending: list[bool] = []
    ready = asyncio.Event()

    async def read_pods() -> None:
        pending.append(takeover.pending)
        if len(pending) < 3:
            raise KubeError("the API server does not answer")

    takeover = Takeover(read_pods, ready.set)
    assert not takeover.pending
    task = asyncio.create_task(takeover.run())
    takeover.begin()
    assert takeover.pending
    await asyncio.wait_for(ready.wait(), 60)
    assert pending == [True, True, True]
    assert not takeover.pending
    ready.clear()
    takeover.begin()
    await eventually_on_loop(lambda: len(pending) == 4)
    assert ready.is_set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
