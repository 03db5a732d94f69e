"""What a scheduler takes for granted, and no longer does once the cluster went back to an older state."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.scheduler.engine.fakes import Engine, eventually
from tests.unit.scheduler.engine.pods import pod_info


def requested_cpu(engine: Engine) -> list[float]:
    amounts: list[float] = engine.state.snapshot(0.0).requested("cpu").tolist()
    return amounts


async def test_a_pod_that_lost_its_node_gives_its_room_back_and_is_placed_again(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("p", cpu="1", rv="200")
    await eventually(lambda: len(engine.api.bindings) == 1, "bound")
    engine.add_pod("p", cpu="1", node="n1", rv="210")
    engine.relist_pods(pod_info("p", cpu="1", rv="200"))
    assert requested_cpu(engine) == [0.0]
    await eventually(lambda: len(engine.api.bindings) == 2, "bound again")


async def test_so_does_one_of_another_scheduler_whom_it_leaves_to_it(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("theirs", cpu="1", node="n1", scheduler="other", rv="210")
    engine.add_pod("ours", cpu="1")
    await eventually(lambda: bool(engine.api.patches), "no room")
    engine.relist_pods(pod_info("theirs", cpu="1", scheduler="other", rv="200"), pod_info("ours", cpu="1"))
    await eventually(lambda: [name for name, _, _ in engine.api.bindings] == ["ours"], "room")


async def test_a_binding_that_the_watch_has_not_shown_is_not_taken_for_granted(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("p", cpu="1", rv="200")
    await eventually(lambda: bool(engine.api.events), "bound")
    assert engine.state.is_assumed("p-uid")
    # Without a word of that the list says nothing: it may be from before the Binding.
    engine.relist_pods(pod_info("p", cpu="1", rv="200"))
    assert engine.state.is_assumed("p-uid")
    engine.leading = False
    engine.pods.go_back()
    engine.relist_pods(pod_info("p", cpu="1", rv="200"))
    assert (requested_cpu(engine), engine.state.assumed_count) == ([0.0], 0)
    engine.leading = True
    engine.cycle.wake()
    await eventually(lambda: len(engine.api.bindings) == 2, "bound again")


async def test_a_binding_that_is_still_there_is_not_written_twice(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("p", cpu="1", rv="200")
    await eventually(lambda: bool(engine.api.events), "bound")
    engine.leading = False
    engine.pods.go_back()
    engine.relist_pods(pod_info("p", cpu="1", node="n1", rv="201"))
    engine.leading = True
    engine.add_pod("later", cpu="1")
    await eventually(lambda: bool(engine.api.patches), "no room for another")
    assert len(engine.api.bindings) == 1
    assert requested_cpu(engine) == [1000.0]


async def test_a_binding_under_way_keeps_its_room_until_it_is_answered(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    post, may_answer = engine.api.post, asyncio.Event()

    async def slow(path: str, body: Any, **options: Any) -> bytes:
        if path.endswith("/binding"):
            await may_answer.wait()
        return await post(path, body, **options)

    engine.api.post = slow  # type: ignore[method-assign]
    engine.add_pod("p", cpu="1", rv="200")
    await eventually(lambda: engine.state.is_binding("p-uid"), "under way")
    engine.pods.go_back()
    engine.relist_pods(pod_info("p", cpu="1", rv="200"))
    assert requested_cpu(engine) == [1000.0]
    may_answer.set()
    await eventually(lambda: len(engine.api.bindings) == 1, "bound")


async def test_why_a_pod_waits_is_written_again(engine: Engine) -> None:
    def conditions() -> int:
        return sum(path.endswith("/p/status") for path, _ in engine.api.patches)

    engine.add_node("n1", cpu="1")
    engine.add_pod("p", cpu="2")
    await eventually(lambda: conditions() == 1, "told")
    engine.pods.go_back()
    engine.relist_pods(pod_info("p", cpu="2"))
    engine.activate(["p-uid"])
    await eventually(lambda: conditions() == 2, "told again")
