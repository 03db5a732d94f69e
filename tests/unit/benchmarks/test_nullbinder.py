"""The null binder, which decides nothing: what it writes."""

from typing import Any

import pytest

from benchmarks.race.nullbinder import NullBinder, _Meta
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
        binder._on_node["n1"].append(_Meta(f"low-{index}", "race", f"uid-{index}"))
    await binder._place(_Meta("high", "race", "uid-high"), "n1")
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
