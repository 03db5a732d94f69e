"""Faults of lists and watches: 3, 4, 5, 7, 18."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tests.faults import proxy as faults
from tests.faults.proxy import Rule
from tests.faults.scenarios.registry import scenario
from tests.faults.stage import Stage, eventually, names

_WATCHES: dict[str, Any] = {"verb": "watch", "resource": "pods|nodes"}


async def _churn(stage: Stage, rounds: int = 3) -> None:
    """Pods come and go, nodes come and go; about half of it is deleted again."""
    await stage.nodes("n1", "n2", "n3", cpu="1")
    for number in range(rounds):
        created = list(names(f"p{number}", 4))
        await stage.pods(*created, cpu="300m")
        await stage.bound(*created)
        await stage.delete(*stage.random.sample(created, 2))
        await stage.nodes(f"extra-{number}", cpu="600m")


@scenario(3, "a watch that is cut inside a line goes on where it was, and nothing is lost", quick=True)
async def watch_cut_inside_a_line(stage: Stage) -> None:
    scheduler = await stage.scheduler(speaks_json=True)
    # A few: a watch that lasts less than a second doubles the pause before the next, as in client-go.
    rule = scheduler.proxy.add(Rule(faults.cut_watch(after=3), **_WATCHES, times=4))
    scheduler.proxy.reset_all()
    await _churn(stage)
    assert rule.used >= 2, "no watch was cut"


@scenario(4, "a version that is too old leads to one list, from which deletions follow", quick=True)
async def watch_expires(stage: Stage) -> None:
    scheduler = await stage.scheduler(speaks_json=True)
    await stage.nodes("n1", cpu="1")
    await stage.pods("gone", "stays", cpu="500m")
    await stage.bound()
    lists = scheduler.proxy.count("list", "pods")
    rules = [
        Rule(faults.end_watch_with(410), verb="watch", resource="pods", times=1),
        Rule(faults.answer(410, reason="Expired"), verb="watch", resource="nodes", times=1),
    ]
    # While the watches are away, a pod goes: only the list can tell.
    blocked = Rule(faults.reset(), **_WATCHES)
    scheduler.proxy.add(blocked)
    scheduler.proxy.reset_all()
    await stage.delete("gone")
    scheduler.proxy.remove(blocked)
    scheduler.proxy.add(*rules)
    await stage.pods("next", cpu="500m")
    stage.figures["recover_seconds"] = await stage.bound("next")
    stage.figures["lists"] = scheduler.proxy.count("list", "pods") - lists
    assert stage.figures["lists"] <= 2, "the list was read again and again"


@scenario(4, "a list whose continuation expires is begun again")
async def list_continuation_expires(stage: Stage) -> None:
    await stage.nodes(*names("n", 3), cpu="4")
    scheduler = await stage.scheduler(speaks_json=True, ready=False)
    scheduler.proxy.add(Rule(faults.answer(410, reason="Expired"), verb="list", resource="nodes", times=1))
    await scheduler.until(scheduler.is_ready, 60)
    await stage.pods(*names("p", 5))
    await stage.bound()


@scenario(5, "a watch that is open and silent is noticed")
async def watch_falls_silent(stage: Stage) -> None:
    # client-go notices it at the watch's own end, after five to ten minutes; ours after 150 s. Shortened here: 5 s.
    scheduler = await stage.scheduler(environment={"FAULTS_SILENCE": "5"}, speaks_json=True)
    if not scheduler.is_ours:
        stage.within = 630
    await stage.nodes("n1", cpu="1")
    await stage.pods("first", cpu="400m")
    await stage.bound()
    rule = scheduler.proxy.add(Rule(faults.swallow(), verb="watch", resource="pods", times=1))
    scheduler.proxy.reset_all()
    await asyncio.sleep(0.5)
    await stage.pods("unseen", cpu="400m")
    stage.figures["recover_seconds"] = await stage.bound("unseen", within=stage.within)
    assert rule.used == 1


@scenario(7, "events that come twice, or come again later, change nothing")
async def events_repeated(stage: Stage) -> None:
    scheduler = await stage.scheduler(speaks_json=True)
    scheduler.proxy.add(
        Rule(faults.replay(every=3, lines=10), verb="watch", resource="pods"),
        Rule(faults.duplicate(copies=3), verb="watch", resource="nodes"),
    )
    scheduler.proxy.reset_all()
    await _churn(stage)


@scenario(7, "a deletion that no watch told of follows from the next list")
async def deletion_missed(stage: Stage) -> None:
    scheduler = await stage.scheduler(speaks_json=True)
    await stage.nodes("n1", cpu="1")
    await stage.pods("gone", cpu="700m")
    await stage.bound()
    swallowed: list[bytes] = []

    def is_deletion(line: bytes) -> bool:
        if json.loads(line)["type"] != "DELETED":
            return False
        swallowed.append(line)
        return True

    deletions = scheduler.proxy.add(Rule(faults.swallow(is_deletion), verb="watch", resource="pods"))
    scheduler.proxy.reset_all()
    await eventually(lambda: deletions.used)
    await stage.delete("gone")
    await eventually(lambda: swallowed)
    scheduler.proxy.remove(deletions)
    scheduler.proxy.add(Rule(faults.end_watch_with(410), verb="watch", resource="pods", times=1))
    scheduler.proxy.reset_all()
    await stage.pods("next", cpu="700m")
    stage.figures["recover_seconds"] = await stage.bound("next")


@scenario(18, "connections that break all the time cost no event and no descriptor")
async def connections_break(stage: Stage) -> None:
    scheduler = await stage.scheduler(speaks_json=True)
    await stage.bound()
    before = scheduler.figures()["descriptors"] if scheduler.alive else 0

    async def break_them() -> None:
        for _ in range(15):
            await asyncio.sleep(0.4)
            scheduler.proxy.reset_all()

    breaking = asyncio.create_task(break_them())
    await _churn(stage)
    await breaking
    stage.figures["descriptors_more"] = scheduler.figures()["descriptors"] - before
    assert stage.figures["descriptors_more"] < 20
