"""Events: series instead of repetition, bounded queue, notes of a size that the API server takes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.engine.recorder import (
    NOTE_LIMIT,
    WRITERS_BEHIND_BINDINGS,
    WRITERS_BY_AGE_IN_LONG_BACKLOG,
    WRITERS_BY_AGE_IN_SHORT_BACKLOG,
    WRITERS_BY_AGE_WITHOUT_BACKLOG,
    WRITERS_WITHOUT_BINDINGS,
    EventRecorder,
    Regarding,
    truncate_note,
)
from scheduler.framework import Clocks
from scheduler.kube.client.errors import api_error
from tests.support.faketime import ManualClocks
from tests.support.waiting import eventually_on_loop
from tests.unit.scheduler.engine.fakes import FakeApi

POD = Regarding("Pod", "ns", "p", "p-uid", "7")


def recorder(api: FakeApi, **options: object) -> EventRecorder:
    return EventRecorder(api, instance="host", **options)  # type: ignore[arg-type]


def say(events: EventRecorder, note: str = "no room", regarding: Regarding = POD) -> None:
    events.record(regarding, "secondary-scheduler", "Warning", "FailedScheduling", "Scheduling", note)


async def test_the_same_event_again_becomes_a_series() -> None:
    api = FakeApi()
    events = recorder(api)
    for _ in range(4):
        say(events)
    events.start()
    await events.drain(1)
    assert len(api.events) == 1
    assert len(api.patches) == 1
    path, patch = api.patches[0]
    assert path.endswith(api.events[0]["metadata"]["name"])
    assert patch["series"]["count"] == 2


async def test_of_thousands_of_pods_that_wait_each_has_one_event_however_often_it_is_tried() -> None:
    """With 4,096 series kept in the order of their beginning, 5,000 pods began a new one at each attempt."""
    api = FakeApi()
    events = recorder(api, capacity=100_000)
    for _ in range(5):
        for number in range(5000):
            say(events, regarding=Regarding("Pod", "ns", f"p{number}", f"u{number}"))
    events.start()
    await events.drain(30)
    assert len(api.events) == 5000
    assert len(api.patches) == 5000, "that it goes on is written once"


async def test_series_that_are_over_are_forgotten() -> None:
    clock = ManualClocks()
    events = recorder(FakeApi(), capacity=100_000, clocks=clock.clocks)
    for number in range(1000):
        say(events, regarding=Regarding("Pod", "ns", f"p{number}", f"u{number}"))
        clock.now += 1
    assert len(events._series) <= 361


async def test_another_state_of_the_pod_is_another_event() -> None:
    api = FakeApi()
    events = recorder(api)
    say(events)
    say(events, regarding=Regarding("Pod", "ns", "p", "p-uid", "8"))
    events.start()
    await events.drain(1)
    assert len({event["metadata"]["name"] for event in api.events}) == 2


async def test_a_full_queue_drops_events_and_counts_them() -> None:
    dropped: list[int] = []
    events = recorder(FakeApi(), capacity=2, on_drop=lambda: dropped.append(1))
    for number in range(5):
        say(events, regarding=Regarding("Pod", "ns", f"p{number}", f"u{number}"))
    assert len(dropped) == 3


class SlowApi(FakeApi):
    """Answers when the test says so, and counts who waits."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = 0
        self.gate = asyncio.Event()

    async def post(self, path: str, body: object) -> bytes:
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        return await super().post(path, body)


def many(events: EventRecorder, count: int) -> None:
    for number in range(count):
        say(events, regarding=Regarding("Pod", "ns", f"p{number}", f"u{number}"))


async def test_bindings_under_way_go_first_and_events_catch_up_when_there_are_none() -> None:
    api = SlowApi()
    events = recorder(api)
    events.start()
    events.binding_started()
    many(events, 100)
    await asyncio.sleep(0)
    assert api.waiting == WRITERS_BEHIND_BINDINGS
    events.binding_ended()
    await asyncio.sleep(0)
    assert api.waiting == WRITERS_WITHOUT_BINDINGS
    api.gate.set()
    await events.drain(5)
    assert len(api.events) == 100


@pytest.mark.parametrize(
    ("backlog", "writers_by_age"),
    [
        (0, WRITERS_BY_AGE_WITHOUT_BACKLOG),
        (1, WRITERS_BY_AGE_IN_SHORT_BACKLOG),
        (1_000_000, WRITERS_BY_AGE_IN_LONG_BACKLOG),
    ],
    ids=["no backlog", "a backlog that is soon through", "long backlog"],
)
async def test_events_that_grow_old_are_written_although_bindings_are_under_way(
    backlog: int, writers_by_age: tuple[tuple[float, int], ...]
) -> None:
    api, now = SlowApi(), [1000.0]
    events = recorder(api, clocks=Clocks(lambda: 0.0, lambda: now[0]), backlog=lambda: backlog)
    events.start()
    events.binding_started()
    many(events, 200)
    for _ in range(1000):
        events.binding_started()
        events.binding_ended()
    await asyncio.sleep(0)
    before = api.waiting
    for seconds, writers in writers_by_age:
        now[0] = 1000.0 + seconds
        await eventually_on_loop(lambda writers=writers: api.waiting == writers)  # type: ignore[misc]
    assert before == WRITERS_BEHIND_BINDINGS
    api.gate.set()
    await events.drain(5)
    assert len(api.events) == 200


async def test_events_that_grow_old_are_written_faster_without_bindings_too() -> None:
    api, now = SlowApi(), [1000.0]
    events = recorder(api, clocks=Clocks(lambda: 0.0, lambda: now[0]))
    events.start()
    many(events, 200)
    await asyncio.sleep(0)
    assert api.waiting == WRITERS_WITHOUT_BINDINGS
    for seconds, writers in WRITERS_BY_AGE_WITHOUT_BACKLOG:
        now[0] = 1000.0 + seconds
        await eventually_on_loop(lambda writers=writers: api.waiting == writers)  # type: ignore[misc]
    api.gate.set()
    await events.drain(5)


@pytest.mark.parametrize(
    ("left", "writers"),
    [(7000, WRITERS_BEHIND_BINDINGS), (7100, WRITERS_BY_AGE_IN_LONG_BACKLOG[0][1])],
    ids=["the oldest will be eleven seconds old", "older"],
)
async def test_events_wait_for_bindings_that_will_be_through_in_time(left: int, writers: int) -> None:
    api, now = SlowApi(), [1000.0]
    events = recorder(api, clocks=Clocks(lambda: 0.0, lambda: now[0]), backlog=lambda: left)
    events.start()
    events.binding_started()
    many(events, 200)
    for _ in range(1000):
        events.binding_started()
        events.binding_ended()
    now[0] = 1001.0
    # It looks twice a second, by a timer of its own, and has seen a thousand bindings in a second then.
    await asyncio.sleep(0.6)
    now[0] = 1004.0
    say(events, regarding=Regarding("Pod", "ns", "one more", "one more"))
    await asyncio.sleep(0)
    assert api.waiting == writers
    api.gate.set()
    await events.drain(5)


async def test_an_event_that_is_refused_is_counted_and_the_others_are_written() -> None:
    class Refusing(FakeApi):
        async def post(self, path: str, body: Any) -> bytes:
            if body["regarding"]["name"] == "p3":
                raise api_error("POST", path, 403, b"")
            return await super().post(path, body)

    api, dropped = Refusing(), []
    events = recorder(api, on_drop=lambda: dropped.append(1))
    many(events, 50)
    events.start()
    await events.drain(5)
    assert len(api.events) == 49
    assert len(dropped) == 1


@pytest.mark.parametrize("note", ["x" * 5000, "ä" * 2000])
def test_a_long_note_is_cut_as_upstream_cuts_it(note: str) -> None:
    cut = truncate_note(note)
    assert len(cut.encode()) <= NOTE_LIMIT
    assert cut.endswith(" ...")


def test_a_note_that_fits_stays() -> None:
    assert truncate_note("short") == "short"
