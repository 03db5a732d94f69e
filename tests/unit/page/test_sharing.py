"""One page model for all: how often it is taken, and what visitors get where it cannot be."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from secondary_scheduler.page.sharing import FRESH_SECONDS, NoPageModel, SharedPageModel
from secondary_scheduler.views.pagemodels import PageModel
from tests.support.clock import Clock


class FakeTaker:
    """A fake of what reads the cluster: page models are numbers here."""

    def __init__(self) -> None:
        self.taken = 0
        self.problem: Exception | None = None
        self.began, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()

    def __call__(self) -> PageModel:
        self.taken += 1
        self.began.set()
        assert self.go_on.wait(30)
        if self.problem is not None:
            raise self.problem
        return cast(PageModel, self.taken)


@pytest.fixture
def taker() -> FakeTaker:
    return FakeTaker()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lines() -> list[str]:
    return []


@pytest.fixture
def shared(taker: FakeTaker, clock: Clock, lines: list[str]) -> SharedPageModel:
    return SharedPageModel(taker, lines.append, clock)


async def test_nothing_is_taken_until_somebody_asks(shared: SharedPageModel, taker: FakeTaker) -> None:
    assert taker.taken == 0
    assert cast(Any, await shared.current()) == 1


async def test_visitors_share_one_that_is_fresh(shared: SharedPageModel, taker: FakeTaker, clock: Clock) -> None:
    assert [cast(Any, await shared.current()) for _ in range(3)] == [1, 1, 1]
    clock.now += FRESH_SECONDS
    assert cast(Any, await shared.current()) == 2


async def test_visitors_who_come_meanwhile_wait_for_the_same(shared: SharedPageModel, taker: FakeTaker) -> None:
    taker.go_on.clear()
    asking = [asyncio.create_task(shared.current()) for _ in range(20)]
    await asyncio.to_thread(taker.began.wait, 30)
    asking[0].cancel()  # goes away, and takes nobody along
    taker.go_on.set()
    answers = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(answers[0], asyncio.CancelledError)
    assert set(cast(list[Any], answers[1:])) == {1}
    assert taker.taken == 1


async def test_where_none_can_be_taken_it_is_tried_once_a_minute(
    shared: SharedPageModel, taker: FakeTaker, clock: Clock, lines: list[str]
) -> None:
    taker.problem = OSError("no route to host")
    for _ in range(3):
        with pytest.raises(NoPageModel):
            await shared.current()
    assert (taker.taken, lines) == (1, ["no new snapshot: no route to host"])
    taker.problem = None
    clock.now += FRESH_SECONDS
    assert cast(Any, await shared.current()) == 2


async def test_the_former_stays_for_a_while_where_none_can_be_taken(
    shared: SharedPageModel, taker: FakeTaker, clock: Clock
) -> None:
    await shared.current()
    taker.problem = OSError("gone")
    clock.now += FRESH_SECONDS
    assert cast(Any, await shared.current()) == 1
    clock.now += 600
    with pytest.raises(NoPageModel):
        await shared.current()


async def test_what_was_dropped_is_not_shown_again(shared: SharedPageModel, taker: FakeTaker) -> None:
    await shared.current()
    shared.drop()
    assert cast(Any, await shared.current()) == 2


async def test_what_was_begun_before_a_drop_is_taken_once_more(shared: SharedPageModel, taker: FakeTaker) -> None:
    taker.go_on.clear()
    asking = asyncio.create_task(shared.current())
    await asyncio.to_thread(taker.began.wait, 30)
    shared.drop()
    taker.go_on.set()
    assert cast(Any, await asking) == 2


async def test_after_a_drop_one_that_cannot_be_taken_is_tried_again_at_once(
    shared: SharedPageModel, taker: FakeTaker
) -> None:
    taker.go_on.clear()
    taker.problem = OSError("no route to host")
    asking = asyncio.create_task(shared.current())
    await asyncio.to_thread(taker.began.wait, 30)
    shared.drop()
    taker.go_on.set()
    with pytest.raises(NoPageModel):
        await asking
    taker.problem = None
    assert cast(Any, await shared.current()) == 2
