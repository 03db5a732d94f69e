"""Sieve's three views of a control loop, for the scheduler (Sun et al., "Automatic Reliability Testing for Cluster
Management Controllers", OSDI 2022): it starts with a state of the past, it never sees some states, and it ends between
two writes. After each, the cluster must be as without it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlencode, urlsplit

from aiohttp import web

from tests.faults import history, kills
from tests.faults.kills import Arrival, Moment, Plan
from tests.faults.oracle import Violation
from tests.faults.plane import FaultPlane
from tests.faults.proxy import Action, Exchange, Hold, Rule, end_watch_with
from tests.faults.scenarios import Scenario, run
from tests.faults.schedulers import OURS, PLUGINS, REAL, Scheduler
from tests.faults.stage import GANGS, Result, Stage, eventually
from tests.faults.warm import WarmStarts

_STALE_REVISIONS = 1000
"""More than a scenario has: nobody can judge by what only came true behind his back."""


def past_lists(revision: int) -> Action:
    """Answer lists as they were with a revision of etcd, where the request lets the API server: one that lags behind
    answers from its cache what asks for any version, and has to ask etcd for what names none."""

    async def act(exchange: Exchange) -> web.StreamResponse:
        parts = urlsplit(exchange.request.raw_path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        if query.get("resourceVersion") and "continue" not in query:
            query |= {"resourceVersion": str(revision), "resourceVersionMatch": "Exact"}
            exchange.path = f"{parts.path}?{urlencode(query)}"
        return await exchange.forward()

    return act


async def _restart_into_the_past(stage: Stage) -> None:
    """The API server that it is started before lags behind: what it bound looks unbound there, nodes look empty, and a
    pod waits that would fit."""
    scheduler = await stage.scheduler()
    await stage.nodes("n1", "n2", "n3", cpu="1")
    hold = Hold()
    held = scheduler.proxy.add(Rule(hold, verb="create", resource="pods/binding"))
    await stage.pods("a", "b", "c", cpu="600m")
    await stage.pods("waits", cpu="700m")
    await eventually(lambda: len(hold.held) == 3)
    past = await asyncio.to_thread(history.revision, stage.plane.etcd)
    hold.release()
    await stage.bound("a", "b", "c")
    before = await stage.where()
    await scheduler.kill()
    scheduler.proxy.remove(held)
    present = Hold()
    lists = Rule(past_lists(past), verb="list", resource="pods|nodes|podgroups")
    watches = Rule(present, verb="watch", resource="pods|nodes|podgroups")
    with scheduler.proxy.broken_by(lists, watches):
        await scheduler.start()
        await eventually(lambda: watches.used >= 2)
        await _rest(scheduler)
    present.release()
    after = await stage.where()
    if after != before:
        stage.violations.append(Violation("I2", f"bound by what the past said: {after}, before {before}"))
    await stage.delete("a")
    await stage.bound("waits")


async def _rest(scheduler: Scheduler) -> None:
    """Wait until a scheduler has bound nothing for a second."""

    def bindings() -> int:
        return scheduler.proxy.count("create", "pods/binding")

    seen, since = bindings(), time.monotonic()
    async with asyncio.timeout(60):
        while time.monotonic() - since < 1:
            if seen != bindings():
                seen, since = bindings(), time.monotonic()
            await asyncio.sleep(0.05)


async def _states_never_seen(stage: Stage) -> None:
    """Between two lists pods and nodes go and come again as others, and pods come and go."""
    scheduler = await stage.scheduler(profile=GANGS)
    # Lists of different kinds are not of one moment.
    stage.expected.staleness = _STALE_REVISIONS
    await stage.nodes("n1", "n2", cpu="1")
    await stage.pods("same-name", "deleted", cpu="400m")
    await stage.gang("gang", 3, cpu="100m")
    await stage.pods("waits", cpu="900m")
    await stage.bound("same-name", "deleted", "gang-0", "gang-1", "gang-2")
    seen = asyncio.Event()
    answered_410 = end_watch_with(410)

    async def blind(exchange: Exchange) -> web.StreamResponse:
        await seen.wait()
        return await answered_410(exchange)

    rule = scheduler.proxy.add(Rule(blind, verb="watch", resource="pods|nodes|podgroups"))
    scheduler.proxy.reset_all()
    await eventually(lambda: rule.used >= 3)
    await stage.delete("same-name", "deleted")
    await stage.pods("same-name", cpu="300m")
    await stage.pods("never-seen", cpu="100m")
    await stage.delete("never-seen")
    await stage.api.delete(stage.node_item("n2"))
    await stage.nodes("n2", cpu="500m")
    await stage.nodes("n3", cpu="1")
    await stage.gang("late-gang", 2, cpu="50m")
    scheduler.proxy.remove(rule)
    seen.set()
    await stage.bound("same-name", "waits", "late-gang-0", "late-gang-1")


SIEVE = (
    Scenario(0, "sieve-stale", "a restart into the past binds nothing twice", _restart_into_the_past, False, False),
    Scenario(0, "sieve-unobserved", "what was never seen leaves nothing behind", _states_never_seen, False, False),
)
"""The views but for the third, which is `intermediate`."""
_WORK = Plan(
    singly=False,
    pair=False,
    nodes=["2", "2", "3"],
    arrivals=[
        Arrival("single", "300m"),
        Arrival("chooser", "200m", spec={"nodeSelector": {"half": "1"}}),
        Arrival("gang", "200m", members=3, least=3),
        Arrival("x-large", "64", fits=False),
    ],
    moments=[],
)


async def intermediate(plane: FaultPlane, directory: Path, kind: str = OURS, every: int = 1) -> AsyncIterator[Result]:
    """Kill the process at each of its writes in turn, before and after the API server saw it, until it makes no more.
    With `every` above 1 only at each so-many-th."""
    async with WarmStarts() as starts:
        undisturbed = await kills.run(plane, directory / "undisturbed", 0, kind, _WORK, [], starts)
        number = 0
        while True:
            for when in ("before", "after"):
                started = time.monotonic()
                moments = [Moment("writes", number, when)]
                killed = await kills.run(plane, directory / f"{when}-{number}", number, kind, _WORK, moments, starts)
                if not killed.kills:
                    return
                violations = [*undisturbed.violations, *killed.violations]
                violations += kills.compare(_WORK, undisturbed.nodes, killed.nodes)
                name = f"sieve-intermediate killed {when} write {number}"
                yield Result(0, name, kind, number, violations, killed.figures, time.monotonic() - started)
            number += every


async def play(plane: FaultPlane, directory: Path, seed: int, kind: str = OURS) -> AsyncIterator[Result]:
    """All three views; the first two alone for a scheduler that is not ours."""
    for each in SIEVE:
        yield await run(each, plane, directory, seed, kind)
    if kind in (REAL, PLUGINS):
        return
    count = 0
    async for result in intermediate(plane, directory, kind):
        count += 1
        yield result
    if not count:
        yield Result(0, "sieve-intermediate", kind, seed, [Violation("played", "nothing was killed")], {}, 0.0)
