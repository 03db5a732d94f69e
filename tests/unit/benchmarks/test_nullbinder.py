"""The null binder, which decides nothing: what it writes."""

from typing import Any

import pytest

from benchmarks.race import nullbinder
from benchmarks.race.nullbinder import NullBinder, _Note, _PodMeta
from scheduler.engine import cycle, recorder
from scheduler.kube.client import ClientConfig


class RecordingClient:
    """Takes every write and remembers it."""

    def __init__(self) -> None:
        self.writes: list[str] = []

    async def post(self, path: str, body: Any) -> bytes:
        self.writes.append(f"POST {path.rsplit('/', 2)[-2]} {path.rsplit('/', 1)[-1]}")
        return b"{}"

    async def patch(self, path: str, body: Any, content_type: str = "") -> bytes:
        conditions = [each["type"] for each in body["status"]["conditions"]]
        self.writes.append(f"PATCH {path.rsplit('/', 2)[-2]} {conditions[0]}")
        return b"{}"

    async def delete(self, path: str, body: Any = None) -> bytes:
        self.writes.append(f"DELETE {path.rsplit('/', 1)[-1]}")
        return b"{}"


@pytest.mark.parametrize("bare", [False, True])
async def test_it_takes_the_victims_off_a_node_before_it_binds(bare: bool) -> None:
    binder, client = NullBinder(ClientConfig(server="https://127.0.0.1:1"), 3, bare=bare), RecordingClient()
    binder._client = client
    for index in range(4):
        binder._on_node["n1"].append(_PodMeta(f"low-{index}", "race", f"uid-{index}"))
    await binder._place(_PodMeta("high", "race", "uid-high"), "n1")
    deletions = [f"DELETE low-{index}" for index in range(3)]
    if bare:
        assert client.writes == [*deletions, "POST high binding"]
        assert not binder._events
        return
    conditions = [f"PATCH low-{index} DisruptionTarget" for index in range(3)]
    assert sorted(client.writes) == sorted([*conditions, *deletions, "PATCH high PodScheduled", "POST high binding"])
    assert client.writes[-2:] == ["DELETE low-2", "POST high binding"], "the last victim when the others are gone"
    assert sorted(note.reason for note in binder._events) == ["FailedScheduling", "Preempted", "Preempted", "Preempted"]
    assert [meta.name for meta in binder._on_node["n1"]] == ["low-3"]


def test_its_events_wait_for_bindings_as_long_as_the_schedulers() -> None:
    assert cycle.MAX_BINDING == nullbinder.BINDERS
    assert recorder.WRITERS_BEHIND_BINDINGS == nullbinder.BEHIND
    assert recorder.SHORT_BACKLOG_SECONDS == nullbinder.SHORT_BACKLOG_SECONDS
    late = (recorder.WRITERS_BY_AGE_IN_SHORT_BACKLOG[-1], recorder.WRITERS_BY_AGE_IN_LONG_BACKLOG[-1])
    assert late == (
        (nullbinder.LATE_IN_SHORT_BACKLOG, nullbinder.WRITERS),
        (nullbinder.LATE_IN_LONG_BACKLOG, nullbinder.WRITERS),
    )


@pytest.mark.parametrize(
    ("binding", "waiting", "age", "writers"),
    [
        (0, 0, 0.0, nullbinder.WRITERS),
        (1, 100, 4.9, nullbinder.BEHIND),
        (1, 100, 8.4, nullbinder.BEHIND),
        (1, 100, 8.6, nullbinder.WRITERS),
        (1, 10_000, 4.9, nullbinder.BEHIND),
        (1, 10_000, 5.1, nullbinder.WRITERS),
    ],
)
def test_few_events_are_written_beside_bindings_until_one_is_late(
    binding: int, waiting: int, age: float, writers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    binder = NullBinder(ClientConfig(server="https://127.0.0.1:1"))
    monkeypatch.setattr(nullbinder.time, "monotonic", lambda: 100.0)
    binder._note(_Note(_PodMeta("a"), "Normal", "Scheduled", "Binding", "assigned"))
    monkeypatch.setattr(nullbinder.time, "monotonic", lambda: 100.0 + age)
    binder._binding, binder._began = binding, 100.0 + age - 1.0
    binder._bound = 100
    for number in range(waiting):
        binder._pods.put_nowait(_PodMeta(f"pod-{number}"))
    assert binder._writers() == writers
