"""What the watches deliver and which pods it wakes, against a fake API server."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.unit.scheduler.engine.fakes import Engine, eventually
from tests.unit.scheduler.engine.pods import pod_info


async def test_a_pod_that_waits_for_one_of_ours_is_placed_beside_it(engine: Engine) -> None:
    near = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    engine.add_node("n1")
    engine.add_pod("p", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}})
    await eventually(lambda: bool(engine.api.patches), "rejected")
    engine.add_pod("db", metadata={"labels": {"app": "db"}})
    await eventually(lambda: len(engine.api.bindings) == 1, "the other is bound")
    engine.add_pod("db", node="n1", rv="2", metadata={"labels": {"app": "db"}})
    await eventually(lambda: len(engine.api.bindings) == 2, "bound, too")


async def test_a_pod_that_ended_while_the_watch_was_lost_keeps_no_room(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    engine.add_pod("short", cpu="1")
    await eventually(lambda: bool(engine.api.events), "bound")
    engine.add_pod("next", cpu="1")
    await eventually(lambda: bool(engine.api.patches), "no room")
    engine.relist_pods(pod_info("next", cpu="1"))
    await eventually(lambda: len(engine.api.bindings) == 2, "room after the list")


async def test_nor_does_one_whose_end_was_seen_before_the_answer_to_its_binding(engine: Engine) -> None:
    engine.add_node("n1", cpu="1")
    post, answered = engine.api.post, asyncio.Event()

    async def slow(path: str, body: Any, **_: Any) -> bytes:
        if path.endswith("short/binding"):
            await answered.wait()
        return await post(path, body)

    engine.api.post = slow  # type: ignore[method-assign]
    engine.add_pod("short", cpu="1")
    await eventually(lambda: engine.state.is_binding("short-uid"), "its Binding is under way")
    engine.add_pod("next", cpu="1")
    engine.relist_pods(pod_info("next", cpu="1"))
    await eventually(lambda: bool(engine.api.patches), "no room yet")
    answered.set()
    await eventually(lambda: len(engine.api.bindings) == 2, "room after the answer")


async def test_a_first_list_taken_in_by_pages_ends_as_one_taken_in_at_once(engine: Engine) -> None:
    engine.leading = False
    engine.add_node("n1")
    first = [pod_info("a", node="n1", cpu="1"), pod_info("b"), pod_info("gone", node="n1", cpu="1"), pod_info("left")]
    engine.pods.add_page(first[:2])
    # A page of a list that then started over: what it shows is older than what follows, or gone.
    engine.pods.add_page(first[2:])
    moved = pod_info("b", node="n1", cpu="1", rv="2")
    engine.relist_pods(first[0], moved, pod_info("c"))
    assert set(engine.state.pod_uids) == {"a-uid", "b-uid"}
    assert set(engine.pods.pending) == {"c-uid"}
    assert sum(engine.queue.counts().values()) == 1
    used = engine.state.snapshot(0.0).requested("cpu")
    assert used.tolist() == [2000.0]
    engine.leading = True
    engine.cycle.wake()
    await eventually(lambda: len(engine.api.bindings) == 1, "the one that waits is bound, once")
