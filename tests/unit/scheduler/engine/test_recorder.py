"""Events: series instead of repetition, bounded queue, notes of a size that the API server takes."""

from __future__ import annotations

import pytest

from scheduler.engine.recorder import NOTE_LIMIT, EventRecorder, Regarding, shorten
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


@pytest.mark.parametrize("note", ["x" * 5000, "ä" * 2000])
def test_a_long_note_is_cut_as_upstream_cuts_it(note: str) -> None:
    cut = shorten(note)
    assert len(cut.encode()) <= NOTE_LIMIT
    assert cut.endswith(" ...")


def test_a_note_that_fits_stays() -> None:
    assert shorten("short") == "short"
