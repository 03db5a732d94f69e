"""Random mixes: a random workload under several random faults at once, all drawn from one seed."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.apiclient import ApiError
from tests.faults import proxy as faults
from tests.faults.oracle import Violation
from tests.faults.plane import FaultPlane
from tests.faults.proxy import Rule
from tests.faults.scenarios import Scenario, run
from tests.faults.schedulers import OURS, Scheduler
from tests.faults.stage import GANGS, Result, Stage

_BIND: dict[str, Any] = {"verb": "create", "resource": "pods/binding"}
_WATCH: dict[str, Any] = {"verb": "watch"}
_FAULT_SECONDS = 6.0


@dataclass
class Cast:
    """What a mix plays with."""

    stage: Stage
    schedulers: list[Scheduler]
    draw: random.Random

    def rule(self, rule: Rule) -> None:
        """Break every scheduler's requests."""
        for scheduler in self.schedulers:
            scheduler.proxy.add(
                Rule(rule.action, rule.verb, rule.resource, times=rule.times, probability=rule.probability)
            )


Fault = Callable[[Cast], Coroutine[Any, Any, None]]


def _requests(action: Callable[[random.Random], faults.Action], probability: float, **about: str) -> Fault:
    """Some requests go wrong."""

    async def inject(cast: Cast) -> None:
        cast.rule(Rule(action(cast.draw), probability=probability, times=cast.draw.randint(1, 12), **about))

    return inject


async def _break_connections(cast: Cast) -> None:
    for _ in range(cast.draw.randint(1, 6)):
        await asyncio.sleep(cast.draw.uniform(0.1, 1))
        for scheduler in cast.schedulers:
            scheduler.proxy.reset_all()


async def _edit_watches(cast: Cast) -> None:
    draw = cast.draw
    action = draw.choice(
        (
            faults.cut_watch(after=draw.randint(0, 6)),
            faults.replay(every=draw.randint(1, 5)),
            faults.duplicate(),
            faults.end_watch_with(410, after=draw.randint(0, 5)),
            faults.answer(410, reason="Expired"),
            faults.answer(500),
        )
    )
    cast.rule(Rule(action, times=draw.randint(1, 6), **_WATCH))
    for scheduler in cast.schedulers:
        scheduler.proxy.reset_all()


async def _pause_leader(cast: Cast) -> None:
    leader = next((each for each in cast.schedulers if each.alive and each.leads), None)
    if leader is None or len([each for each in cast.schedulers if each.alive]) < 2:
        return
    leader.signal(signal.SIGSTOP)
    await asyncio.sleep(cast.draw.choice((1.0, 3.0, 8.0)))
    if leader.alive:
        leader.signal(signal.SIGCONT)


async def _kill_leader(cast: Cast) -> None:
    await asyncio.sleep(cast.draw.uniform(0, 3))
    leader = next((each for each in cast.schedulers if each.alive and each.leads), None)
    if leader is not None and len([each for each in cast.schedulers if each.alive]) > 1:
        await leader.kill()


async def _move_clock(cast: Cast) -> None:
    for scheduler in cast.schedulers:
        scheduler.skew(cast.draw.choice((-3600, -60, 60, 3600)))


async def _delete_pods(cast: Cast) -> None:
    for _ in range(cast.draw.randint(1, 5)):
        await asyncio.sleep(cast.draw.uniform(0, 1))
        present = sorted(await cast.stage.where())
        if present:
            await cast.stage.delete(cast.draw.choice(present))


FAULTS: dict[str, Fault] = {
    "answers of Bindings are lost": _requests(lambda draw: faults.lose_answer(), 0.5, **_BIND),
    "Bindings are slow": _requests(lambda draw: faults.delay(draw.uniform(0.2, 4)), 0.5, **_BIND),
    "Bindings do not arrive": _requests(lambda draw: faults.reset(), 0.5, **_BIND),
    "Bindings are answered with an error": _requests(
        lambda draw: faults.answer(draw.choice((500, 503, 409, 403)), "etcdserver: request timed out"), 0.5, **_BIND
    ),
    "Bindings are answered with a page": _requests(lambda draw: faults.login_page(), 0.3, **_BIND),
    "reads are answered with an error": _requests(
        lambda draw: faults.answer(draw.choice((500, 429)), retry_after=1), 0.3, verb="get|list"
    ),
    "connections break": _break_connections,
    "watches are edited": _edit_watches,
    "the leader pauses": _pause_leader,
    "the leader is killed": _kill_leader,
    "the clock moves": _move_clock,
    "pods are deleted": _delete_pods,
}


async def _workload(stage: Stage, draw: random.Random) -> None:
    """Nodes of one CPU and pods of some tenths, singles and gangs, over a few seconds."""
    count = draw.randint(2, 6)
    for number in range(count):
        taints = [{"key": "dedicated", "effect": "NoSchedule"}] if draw.random() < 0.2 else []
        await stage.nodes(f"n{number}", cpu="1", labels={"half": str(number % 2)}, taints=taints)
    for number in range(draw.randint(5, 20)):
        name = f"w{number}"
        cpu = f"{draw.choice((100, 200, 300, 500, 700))}m"
        spec: dict[str, Any] = {}
        if draw.random() < 0.2:
            spec["nodeSelector"] = {"half": draw.choice("01")}
        if draw.random() < 0.2:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
        if draw.random() < 0.15:
            await stage.gang(name, draw.randint(2, 4), cpu=cpu)
        else:
            await stage.pods(name, cpu=cpu, **spec)
        await asyncio.sleep(draw.choice((0, 0, 0.1, 0.4)))
    if draw.random() < 0.5:
        await stage.nodes("late", cpu=str(draw.randint(1, 4)))


def mix(seed: int) -> tuple[list[str], Scenario]:
    """The faults of a seed, and the scenario that they make."""
    draw = random.Random(seed)
    chosen = draw.sample(sorted(FAULTS), draw.randint(2, 4))

    async def play(stage: Stage) -> None:
        # Nodes do not change here but to come, so that every decision can be judged by the state before it.
        schedulers = list(await stage.pair(profile=GANGS))
        cast = Cast(stage, schedulers, draw)
        work = asyncio.create_task(_workload(stage, draw))
        injected = [asyncio.create_task(FAULTS[name](cast)) for name in chosen]
        results = await asyncio.gather(work, *injected, return_exceptions=True)
        for result in results:
            if isinstance(result, ApiError | AssertionError):
                stage.violations.append(Violation("played", repr(result)[:300]))
            elif isinstance(result, BaseException):
                raise result
        await asyncio.sleep(draw.uniform(0, 2))
        for scheduler in schedulers:
            scheduler.proxy.rules.clear()
        if not any(scheduler.alive for scheduler in schedulers):
            schedulers.append(await stage.scheduler("c", leader_election=True, profile=GANGS))
        started = time.monotonic()
        await stage.settle()
        stage.figures["recover_seconds"] = time.monotonic() - started

    return chosen, Scenario(0, "mix " + ", ".join(chosen), "whatever happens together", play, False, False)


async def play(
    plane: FaultPlane, directory: Path, seed: int, count: int, minutes: float = 0, kind: str = OURS
) -> AsyncIterator[Result]:
    """Play so many mixes, one seed after the other; `minutes` ends them earlier."""
    end = time.monotonic() + minutes * 60
    for number in range(seed, seed + count):
        if minutes and time.monotonic() > end:
            return
        _, mixed = mix(number)
        short = Scenario(0, f"mix-{number}", mixed.promise, mixed.play, mixed.quick, mixed.disruptive)
        result = await run(short, plane, directory, number, kind)
        result.name = mixed.name
        yield result
