"""Random mixes: a random workload under several random faults at once, all drawn from one seed."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.apiclient import ApiError
from tests.faults import proxy as faults
from tests.faults.oracle import Violation
from tests.faults.plane import API_SERVER, ETCD, FaultPlane
from tests.faults.proxy import Rule
from tests.faults.scenarios import Scenario, run
from tests.faults.schedulers import LEASE_LOST, OURS, Scheduler
from tests.faults.stage import GANGS, Result, Stage
from tests.faults.warm import WarmStarts

_BIND: dict[str, Any] = {"verb": "create", "resource": "pods/binding"}
_WATCH: dict[str, Any] = {"verb": "watch"}
_WRITES: dict[str, Any] = {"verb": "create|update|patch"}
_MAX_BIND_SECONDS = 4.0
"""Less than a Lease lasts: a Binding that outlives its sender's Lease is no fault of the sender."""
_END_SECONDS = 90.0
_PATIENCE_SECONDS = 240.0
"""Until all is bound in the end. How fast that is, scenarios judge one at a time; mixes run on busy machines."""
_SILENCE = "watches go silent"
ENVIRONMENT = {"FAULTS_BLOCK": "loop:3", "FAULTS_SILENCE": "5"}
"""What processes need for every fault."""


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

    @property
    def alive(self) -> list[Scheduler]:
        """The schedulers that run."""
        return [scheduler for scheduler in self.schedulers if scheduler.alive]

    def dispensable_leader(self) -> Scheduler | None:
        """The leader, where another process could follow it."""
        leader = next((scheduler for scheduler in self.alive if scheduler.leads), None)
        return leader if len(self.alive) > 1 else None


Fault = Callable[[Cast], Coroutine[Any, Any, None]]
Replace = Callable[[Stage, asyncio.Event], Coroutine[Any, Any, None]]
"""Starts processes in the place of those that have ended, until the event is set."""


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


async def _silence_watches(cast: Cast) -> None:
    cast.rule(Rule(faults.swallow(), times=cast.draw.randint(1, 4), **_WATCH))
    for scheduler in cast.schedulers:
        scheduler.proxy.reset_all()


async def _pause_leader(cast: Cast) -> None:
    leader = cast.dispensable_leader()
    if leader is None:
        return
    leader.signal(signal.SIGSTOP)
    await asyncio.sleep(cast.draw.choice((1.0, 3.0, 8.0)))
    if leader.alive:
        leader.signal(signal.SIGCONT)


async def _kill_leader(cast: Cast) -> None:
    await asyncio.sleep(cast.draw.uniform(0, 3))
    if leader := cast.dispensable_leader():
        await leader.kill()


async def _end_leader(cast: Cast) -> None:
    await asyncio.sleep(cast.draw.uniform(0, 3))
    if leader := cast.dispensable_leader():
        leader.signal(signal.SIGTERM)
        code = await leader.ended(_END_SECONDS)
        # One whose Lease cannot be renewed while it finishes its Bindings has to end at once.
        # And another fault of the mix may kill it meanwhile.
        assert code in (0, -signal.SIGKILL) or LEASE_LOST in leader.log, (
            f"{leader.name} ended with {code} after SIGTERM"
        )


async def _block_leader(cast: Cast) -> None:
    await asyncio.sleep(cast.draw.uniform(0, 2))
    if leader := cast.dispensable_leader():
        leader.signal(signal.SIGRTMIN)


def _hang(part: str) -> Fault:
    """A part of the control plane hangs for a while."""

    async def inject(cast: Cast) -> None:
        await asyncio.sleep(cast.draw.uniform(0, 2))
        plane = cast.stage.plane
        plane.signal(part, signal.SIGSTOP)
        try:
            await asyncio.sleep(cast.draw.choice((0.5, 2.0, 5.0)))
        finally:
            plane.signal(part, signal.SIGCONT)

    return inject


async def _move_clock(cast: Cast) -> None:
    for scheduler in cast.schedulers:
        scheduler.skew(cast.draw.choice((-3600, -60, 60, 3600)))


async def _delete_pods(cast: Cast) -> None:
    for _ in range(cast.draw.randint(1, 5)):
        await asyncio.sleep(cast.draw.uniform(0, 1))
        present = sorted(await cast.stage.where())
        if present:
            name = cast.draw.choice(present)
            if "-" in name:
                cast.stage.expected.shrunk.add(name.rpartition("-")[0])
            await cast.stage.delete(name)


async def _recreate_pods(cast: Cast) -> None:
    for _ in range(cast.draw.randint(1, 5)):
        await asyncio.sleep(cast.draw.uniform(0, 1))
        # Members of gangs would not be their gang's any more.
        present = sorted(name for name in await cast.stage.where() if "-" not in name)
        if present:
            name = cast.draw.choice(present)
            await cast.stage.delete(name)
            await cast.stage.pods(name, cpu=f"{cast.draw.choice((100, 400, 800))}m")


async def _grow_nodes(cast: Cast) -> None:
    sizes: dict[str, int] = {}
    for _ in range(cast.draw.randint(1, 3)):
        await asyncio.sleep(cast.draw.uniform(0, 1.5))
        with contextlib.suppress(ApiError):  # it may not be there yet
            name, drawn = f"n{cast.draw.randint(0, 2)}", cast.draw.randint(2, 4)
            sizes[name] = max(drawn, sizes.get(name, 0))
            await cast.stage.resize_node(name, str(sizes[name]))


FAULTS: dict[str, Fault] = {
    "answers of Bindings are lost": _requests(lambda draw: faults.lose_answer(), 0.5, **_BIND),
    "Bindings are slow": _requests(lambda draw: faults.delay(draw.uniform(0.2, _MAX_BIND_SECONDS)), 0.5, **_BIND),
    "Bindings do not arrive": _requests(lambda draw: faults.reset(), 0.5, **_BIND),
    "Bindings are answered with an error": _requests(
        lambda draw: faults.answer(draw.choice((500, 503, 409, 403)), "etcdserver: request timed out"), 0.5, **_BIND
    ),
    "Bindings are answered with a page": _requests(lambda draw: faults.login_page(), 0.3, **_BIND),
    "reads are answered with an error": _requests(
        lambda draw: faults.answer(draw.choice((500, 429)), retry_after=1), 0.3, verb="get|list"
    ),
    "writes are throttled": _requests(lambda draw: faults.answer(429, retry_after=1), 0.3, **_WRITES),
    "connections break": _break_connections,
    "watches are edited": _edit_watches,
    _SILENCE: _silence_watches,
    "the leader pauses": _pause_leader,
    "the leader is killed": _kill_leader,
    "the leader is told to end": _end_leader,
    "the leader's event loop stops": _block_leader,
    "the API server hangs": _hang(API_SERVER),
    "etcd hangs": _hang(ETCD),
    "the clock moves": _move_clock,
    "pods are deleted": _delete_pods,
    "pods are recreated": _recreate_pods,
    "nodes grow": _grow_nodes,
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


def chosen_faults(seed: int) -> list[str]:
    """The names of a seed's two to four faults."""
    draw = random.Random(seed)
    return draw.sample(sorted(FAULTS), draw.randint(2, 4))


def mix(seed: int) -> tuple[list[str], Scenario]:
    """The faults of a seed, and the scenario that they make."""
    chosen = chosen_faults(seed)

    async def play(stage: Stage) -> None:
        stage.within = _PATIENCE_SECONDS
        # Nodes only come and grow here, so that every decision can be judged by the state just before it.
        schedulers = await begin(stage, ENVIRONMENT | ({} if _SILENCE in chosen else {"FAULTS_SILENCE": ""}))
        await disturb(stage, schedulers, chosen, str(seed))
        await asyncio.sleep(random.Random(f"{seed} end").uniform(0, 1))
        started = time.monotonic()
        await settle(stage, schedulers, chosen)
        stage.figures["recover_seconds"] = time.monotonic() - started

    return chosen, Scenario(0, "mix " + ", ".join(chosen), "whatever happens together", play, False, False)


async def disturb(stage: Stage, schedulers: list[Scheduler], chosen: Iterable[str], drawn_by: str) -> None:
    """A workload under faults, all drawn by a text. What a rule swallows or holds may last until `settle`."""
    # Each draws from a sequence of its own: what is drawn must not depend on which of them is faster.
    work = _workload(stage, random.Random(f"{drawn_by} workload"))
    injected = [FAULTS[name](Cast(stage, schedulers, random.Random(f"{drawn_by} {name}"))) for name in chosen]
    for result in await asyncio.gather(work, *injected, return_exceptions=True):
        if isinstance(result, ApiError | AssertionError):
            stage.violations.append(Violation("played", repr(result)[:300]))
        elif isinstance(result, BaseException):
            raise result


async def settle(
    stage: Stage, schedulers: list[Scheduler], chosen: Iterable[str], replace: Replace | None = None
) -> None:
    """Take the faults away, and wait until all that fits is bound; by default, a further process is started whenever
    none is left."""
    for scheduler in schedulers:
        scheduler.proxy.rules.clear()
        # What a rule swallows or holds must not last longer than the faults.
        if _SILENCE in chosen:
            scheduler.proxy.reset_all()
    settled = asyncio.Event()
    replacing = asyncio.create_task((replace or _replace)(stage, settled))
    try:
        await stage.settle()
    finally:
        settled.set()
        await replacing


async def begin(stage: Stage, environment: dict[str, str], **setup: Any) -> list[Scheduler]:
    """A leader and a follower. One that loses its Lease on a busy machine before the mix begins is started again."""
    stage.expect_leader()
    schedulers = []
    for name in "ab":
        scheduler = await stage.scheduler(
            name, ready=False, leader_election=True, profile=GANGS, environment=environment, **setup
        )
        schedulers.append(scheduler)
        while not await _leads_or_follows(scheduler, leads=name == "a"):
            await scheduler.start(ready=False)
    return schedulers


async def _leads_or_follows(scheduler: Scheduler, *, leads: bool) -> bool:
    """Wait until it does; False when it lost the Lease instead."""
    try:
        await scheduler.until(scheduler.is_ready, _END_SECONDS)
        await scheduler.until(lambda: scheduler.leads or not leads, _END_SECONDS)
    except AssertionError:
        if scheduler.alive or LEASE_LOST not in scheduler.log_since_start:
            raise
        return False
    return True


async def _replace(stage: Stage, settled: asyncio.Event) -> None:
    """Start a further process whenever none is left, as a Deployment would."""
    while not settled.is_set():
        if not any(scheduler.alive for scheduler in stage.schedulers):
            name = f"c{len(stage.schedulers)}"
            await stage.scheduler(name, ready=False, leader_election=True, profile=GANGS)
        await asyncio.sleep(0.2)


async def play(
    plane: FaultPlane,
    directory: Path,
    seeds: Iterable[int],
    *,
    minutes: float = 0,
    kind: str = OURS,
) -> AsyncIterator[Result]:
    """Play the mixes of the seeds, one after the other; `minutes` ends them earlier."""
    end = time.monotonic() + minutes * 60
    async with WarmStarts() as warm_starts:
        for seed in seeds:
            if minutes and time.monotonic() > end:
                return
            _, mixed = mix(seed)
            short = Scenario(0, f"mix-{seed}", mixed.promise, mixed.play, mixed.quick, mixed.disruptive)
            result = await run(short, plane, directory, seed, kind, warm_starts)
            result.name = mixed.name
            yield result
