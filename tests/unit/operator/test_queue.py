"""The work queue: order, coalescing, back-off. Time is the test's own except where waiting is what is tested."""

import asyncio

import pytest

from secondary_scheduler.operator.queue import WorkQueue
from tests.support.clock import Clock


async def taken(queue):
    """The key that is due now, None if none is."""
    try:
        async with asyncio.timeout(0.01):
            return await queue.get()
    except TimeoutError:
        return None


async def test_a_burst_on_one_key_is_one_piece_of_work():
    queue = WorkQueue()
    for _ in range(1000):
        queue.add("a")
    assert await queue.get() == "a"
    assert await taken(queue) is None


async def test_keys_come_in_the_order_they_are_due():
    clock = Clock()
    queue = WorkQueue(clock=clock)
    queue.add("late", after=5)
    queue.add("soon", after=1)
    clock.now += 10
    assert [await queue.get(), await queue.get()] == ["soon", "late"]


async def test_a_key_is_not_handed_out_before_it_is_due():
    clock = Clock()
    queue = WorkQueue(clock=clock)
    queue.add("a", after=5)
    assert await taken(queue) is None
    clock.now += 5
    assert await taken(queue) == "a"


async def test_news_overtakes_a_pending_retry():
    queue = WorkQueue(clock=Clock())
    queue.retry("a")
    queue.add("a")
    assert await taken(queue) == "a"
    assert await taken(queue) is None


async def test_a_key_that_never_rests_is_handed_out_at_intervals():
    clock = Clock()
    queue = WorkQueue(spacing=0.5, clock=clock)
    queue.add("a")
    assert await taken(queue) == "a"
    queue.add("a")
    queue.add("b")
    assert await taken(queue) == "b", "others do not wait for it"
    assert await taken(queue) is None
    clock.now += 0.5
    assert await taken(queue) == "a"


async def test_a_later_wish_does_not_delay_an_earlier_one():
    queue = WorkQueue(clock=Clock())
    queue.add("a")
    queue.add("a", after=60)
    assert await taken(queue) == "a"


async def test_retries_double_up_to_the_limit_and_reset_after_success():
    queue = WorkQueue(first_delay=1, longest_delay=8, clock=Clock())
    assert [queue.retry("a") for _ in range(6)] == [1, 2, 4, 8, 8, 8]
    assert queue.retry("b") == 1
    queue.forget("a")
    assert queue.retry("a") == 1


async def test_ten_thousand_failures_do_not_overflow():
    queue = WorkQueue(clock=Clock())
    assert [queue.retry("a") for _ in range(10_000)][-1] == 30.0


async def test_a_waiting_worker_is_woken_by_news():
    queue = WorkQueue()
    worker = asyncio.create_task(queue.get())
    await asyncio.sleep(0)
    queue.add("a")
    async with asyncio.timeout(1):
        assert await worker == "a"


@pytest.mark.parametrize("after", [0.02, 0.05])
async def test_a_waiting_worker_takes_a_key_when_it_becomes_due(after):
    queue = WorkQueue()
    loop = asyncio.get_running_loop()
    # Before the key is added: on a busy machine some of its time may pass before the next line.
    started = loop.time()
    queue.add("a", after=after)
    async with asyncio.timeout(1):
        assert await queue.get() == "a"
    assert loop.time() - started >= after * 0.9
