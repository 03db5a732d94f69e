"""Kill and compare: a workload under a scheduler that is killed at requests drawn from a seed, and once without a kill;
both must end alike.

Pods that arrive together may end on other nodes, for queue and ties differ after a restart: compared is which pods are
bound. Pods that arrive one by one, each after the one before was decided, leave the scheduler no choice but of ties,
which `FAULTS_TIES` takes: compared is the node of each pod.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.faults.oracle import Violation
from tests.faults.plane import FaultPlane
from tests.faults.proxy import Exchange, Rule, Target
from tests.faults.schedulers import OURS, Scheduler
from tests.faults.stage import GANGS, Result, Stage, stage_open
from tests.faults.warm import WarmStarts

ALL_BUT_WATCHES = "get|list|create|update|patch|delete"
_BEFORE, _AFTER, _LATE = "before", "after", "late"
_LATE_SECONDS = 2.0
"""Less than a Lease lasts: nobody else leads yet when the Binding of a dead leader arrives."""
_PATIENCE_SECONDS = 240.0
"""Until pods that fit are bound: a busy machine takes long to start a process, and it is started up to four times."""
_FILLED = 0.6
"""Share of the smaller half of the nodes that the pods ask for: wherever they go, the rest of them finds room."""
_KINDS = {
    "Bindings": lambda target: target.resource == "pods/binding",
    "writes": lambda target: target.verb not in ("get", "list") and target.resource != "leases",
    "reads": lambda target: target.verb in ("get", "list") and target.resource != "leases",
}


@dataclass
class Moment:
    """When a process is killed: at one of its requests, counted from the kill before."""

    requests: str
    """Which are counted: Bindings, writes, reads."""
    after: int
    """How many of them pass."""
    when: str
    """Before the API server sees it, after it took effect, or so that it arrives after its sender's death."""


@dataclass(frozen=True)
class Arrival:
    """A pod, or a gang."""

    name: str
    cpu: str
    members: int = 0
    """Of the gang; 0 for a single pod."""
    least: int = 0
    """The gang's `minMember`."""
    fits: bool = True
    spec: dict[str, Any] = field(default_factory=dict)

    @property
    def pods(self) -> list[str]:
        """Names of its pods."""
        return [f"{self.name}-{number}" for number in range(self.members)] if self.members else [self.name]


@dataclass
class Plan:
    """What a seed plays."""

    singly: bool
    """Whether the pods arrive one by one."""
    pair: bool
    """Whether a second process waits for the Lease."""
    nodes: list[str]
    """Their CPUs."""
    arrivals: list[Arrival]
    moments: list[Moment]

    @property
    def name(self) -> str:
        """In words."""
        kills = ", ".join(f"{each.when} {each.requests} {each.after}" for each in self.moments)
        order = "one by one" if self.singly else "together"
        return f"kill {'leader' if self.pair else 'process'}, pods {order}: {kills}"


def plan(seed: int) -> Plan:
    """What the seed plays: nothing in it depends on time."""
    draw = random.Random(f"kill {seed}")
    singly, pair = draw.random() < 0.5, draw.random() < 0.3
    nodes = [draw.choice(("2", "3", "4")) for _ in range(draw.randint(4, 8))]
    room = _FILLED * min(sum(map(int, nodes[half::2])) for half in (0, 1)) * 1000
    arrivals: list[Arrival] = []
    while True:
        cpu, members = draw.choice((100, 200, 300, 500)), draw.choice((0, 0, 0, 0, 2, 3, 4))
        room -= cpu * max(1, members)
        if room < 0 or len(arrivals) > 15:
            break
        spec = {"nodeSelector": {"half": draw.choice("01")}} if not members and draw.random() < 0.3 else {}
        arrivals.append(Arrival(f"p{len(arrivals):02}", f"{cpu}m", members, members, spec=spec))
    bindings = sum(len(arrival.pods) for arrival in arrivals)
    never = [
        Arrival("x-large", "64", fits=False),
        Arrival("x-elsewhere", "100m", fits=False, spec={"nodeSelector": {"half": "2"}}),
        Arrival("x-gang", "100m", members=2, least=3, fits=False),
    ]
    arrivals += draw.sample(never, draw.randint(0, 3))
    draw.shuffle(arrivals)
    # The first kill happens for certain; those after it when so many requests are left.
    kinds = draw.choices(list(_KINDS), weights=(6, 2, 2), k=draw.randint(1, 3))
    whens = [_BEFORE, _AFTER, *([_LATE] if pair else [])]
    moments = [
        Moment(
            kind,
            after=draw.randrange(4 if kind == "reads" else bindings),
            when=draw.choice(whens if kind == "Bindings" else whens[:2]),
        )
        for kind in kinds
    ]
    return Plan(singly, pair, nodes, arrivals, moments)


class Killer:
    """A proxy's action for every request but watches: kills the sender at the moments of the plan."""

    def __init__(self, moments: Iterable[Moment]) -> None:
        self._left = list(moments)
        self._seen = 0
        self.schedulers: list[Scheduler] = []
        self.kills = 0

    def _is_now(self, target: Target) -> Moment | None:
        if not self._left or not _KINDS[self._left[0].requests](target):
            return None
        self._seen += 1
        if self._seen <= self._left[0].after:
            return None
        self._seen = 0
        self.kills += 1
        return self._left.pop(0)

    async def __call__(self, exchange: Exchange) -> web.StreamResponse:
        moment = self._is_now(exchange.target)
        if moment is None:
            return await exchange.forward()
        sender = next(each for each in self.schedulers if each.proxy is exchange.proxy)
        if moment.when == _AFTER:
            await exchange.apply()
        await sender.kill()
        if moment.when == _LATE:
            await asyncio.sleep(_LATE_SECONDS)
            await exchange.apply()
        exchange.reset()
        return web.Response(status=502)


@dataclass
class Outcome:
    """How one run ended."""

    nodes: dict[str, str]
    """By pod; empty for one that waits."""
    kills: int
    violations: list[Violation]
    figures: dict[str, float]


async def play(
    plane: FaultPlane, directory: Path, seeds: Iterable[int], *, minutes: float = 0, kind: str = OURS
) -> AsyncIterator[Result]:
    """Play the plans of the seeds, each without kills and with them; `minutes` ends them earlier."""
    end = time.monotonic() + minutes * 60
    async with WarmStarts() as warm_starts:
        for seed in seeds:
            if minutes and time.monotonic() > end:
                return
            started, drawn = time.monotonic(), plan(seed)
            undisturbed = await run(plane, directory / f"undisturbed-{seed}", seed, kind, drawn, [], warm_starts)
            killed = await run(plane, directory / f"killed-{seed}", seed, kind, drawn, drawn.moments, warm_starts)
            violations = undisturbed.violations + killed.violations + compare(drawn, undisturbed.nodes, killed.nodes)
            if not killed.kills:
                violations.append(Violation("played", "nothing was killed"))
            figures = {**killed.figures, "kills": killed.kills}
            yield Result(0, drawn.name, kind, seed, violations, figures, time.monotonic() - started)


def compare(drawn: Plan, undisturbed: dict[str, str], killed: dict[str, str]) -> list[Violation]:
    """What two ends do not have in common and should."""
    violations = []
    for arrival in drawn.arrivals:
        ends = [[nodes.get(pod, "missing") for pod in arrival.pods] for nodes in (undisturbed, killed)]
        # Members of a gang are alike: which of them has which node says nothing.
        before, after = map(sorted, ends)
        if not drawn.singly:
            before, after = ([str(bool(node)) for node in nodes] for nodes in (before, after))
        if before != after:
            violations.append(Violation("compare", f"{arrival.name}: {ends[0]} without a kill, {ends[1]} with kills"))
    return violations


async def run(
    plane: FaultPlane, directory: Path, seed: int, kind: str, drawn: Plan, moments: list[Moment], starts: WarmStarts
) -> Outcome:
    """Play a plan once, killing the process at the moments; what goes wrong in playing is a violation, too."""
    killer = Killer(moments)
    nodes: dict[str, str] = {}
    async with stage_open(plane, directory, "k", seed, kind, starts) as stage:
        stage.within = _PATIENCE_SECONDS
        try:
            for number, cpu in enumerate(drawn.nodes):
                await stage.nodes(f"n{number}", cpu=cpu, labels={"half": str(number % 2)})
            await _begin(stage, drawn, killer)
            done = asyncio.Event()
            keeping = asyncio.create_task(_keep_running(stage, done))
            try:
                await _arrive(stage, drawn)
                await stage.settle()
            finally:
                done.set()
                await keeping
            nodes = await stage.where()
            await stage.judge()
        except Exception as error:  # so that the seeds after it are played
            stage.violations.append(Violation("played", str(error)[-1500:] or type(error).__name__))
        return Outcome(nodes, killer.kills, stage.violations, stage.figures)


async def _begin(stage: Stage, drawn: Plan, killer: Killer) -> None:
    setup = {"profile": GANGS, "leader_election": drawn.pair, "environment": {"FAULTS_TIES": "first"}}
    for name in "ab" if drawn.pair else "a":
        # It may be killed before it is ready: the rule is there before the process is.
        scheduler = await stage.scheduler(name, ready=False, start=False, **setup)
        killer.schedulers.append(scheduler)
        scheduler.proxy.add(Rule(killer, verb=ALL_BUT_WATCHES))
        await scheduler.start(ready=False)
    if drawn.pair:
        stage.expect_leader()


async def _keep_running(stage: Stage, done: asyncio.Event) -> None:
    """Start again what has ended, as a kubelet does."""
    while not done.is_set():
        for scheduler in stage.schedulers:
            if not scheduler.alive:
                await scheduler.start(ready=False)
        await asyncio.sleep(0.1)


async def _arrive(stage: Stage, drawn: Plan) -> None:
    for arrival in drawn.arrivals:
        if arrival.members:
            await stage.gang(arrival.name, arrival.members, arrival.least, cpu=arrival.cpu)
        else:
            await stage.pods(arrival.name, cpu=arrival.cpu, **arrival.spec)
        if drawn.singly:
            await _decided(stage, arrival)
    if not drawn.singly:
        await stage.bound(
            *(pod for arrival in drawn.arrivals if arrival.fits for pod in arrival.pods), within=_PATIENCE_SECONDS
        )


async def _decided(stage: Stage, arrival: Arrival) -> None:
    if arrival.fits:
        await stage.bound(*arrival.pods, within=_PATIENCE_SECONDS)
        return
    async with asyncio.timeout(_PATIENCE_SECONDS):
        while True:
            pods = [await stage.api.get(stage.pod_item(name)) for name in arrival.pods]
            if all(any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", ())) for pod in pods):
                return
            await asyncio.sleep(0.05)
