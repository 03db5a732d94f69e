"""Hours under mixed faults: one pair of schedulers lives on while workloads and faults come and go, and the oracle
judges every round.

A round draws a workload and two to four faults of the mixes from the seed and its number. When all that fits is bound,
what etcd and the audit log say of the round is judged, everything is deleted, and both caches must be empty again.
Faults that end a process come in one round of many, so that processes live long enough for their memory to say
something.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.conformance.apiclient import ApiError
from tests.faults import history, mixes, oracle
from tests.faults.oracle import Expectations, Violation
from tests.faults.plane import FaultPlane
from tests.faults.schedulers import LEASE, LEASE_LOST, OURS, Scheduler
from tests.faults.soak import slopes
from tests.faults.stage import CANARY, Stage, eventually, stage_open

Json = dict[str, Any]
_ENDING = ("the leader is killed", "the leader is told to end")
_ROUNDS_OF_A_PROCESS = 200
_LEASE_SECONDS = (90, 75, 5)
"""A pause of 8 s, or a server that hangs for 5, costs no leader its Lease, on a busy machine neither."""
_WITHIN_SECONDS = 240.0
_LEAST_SAMPLES = 25
"""Rounds that a process must have lived for its memory to have a slope."""


@dataclass
class _Life:
    """One process, from its start to its end."""

    scheduler: str
    samples: list[dict[str, float]] = field(default_factory=list)


class Endurance:
    """The pair, and what it is made to endure."""

    def __init__(self, plane: FaultPlane, directory: Path, seed: int, kind: str) -> None:
        self._plane = plane
        self._directory = directory
        self._seed = seed
        self._kind = kind
        self._lives: dict[int, _Life] = {}
        self._read: dict[str, int] = {}
        self._started = time.monotonic()
        self._owners: dict[str, str] = {}
        self.rounds: list[Json] = []
        self.ends = 0

    async def run(self, minutes: float) -> AsyncIterator[Json]:
        """Play rounds for so many minutes; yields a row for each."""
        self._started = time.monotonic()
        async with stage_open(self._plane, self._directory, "endurance", self._seed, self._kind) as stage:
            if self._kind == OURS:
                stage.within = _WITHIN_SECONDS
            pair = await mixes.begin(stage, mixes.ENVIRONMENT, lease_seconds=_LEASE_SECONDS)
            while time.monotonic() - self._started < minutes * 60:
                row = await self._round(stage, pair, len(self.rounds) + 1)
                self.rounds.append(row)
                yield row

    async def _round(self, stage: Stage, pair: list[Scheduler], number: int) -> Json:
        started = time.monotonic()
        stage.expected = Expectations(lease=LEASE, owners=self._owners)
        stage.figures.clear()
        if self.rounds:  # the first one is judged from the start on, when the Lease was taken
            await _begin_anew(stage)
        drawn_by = f"{self._seed} round {number}"
        draw = random.Random(drawn_by)
        chosen = draw.sample(sorted(set(mixes.FAULTS) - set(_ENDING)), draw.randint(2, 4))
        if number % _ROUNDS_OF_A_PROCESS == 0:
            chosen[0] = draw.choice(_ENDING)
        try:
            await mixes.disturb(stage, pair, chosen, drawn_by)
            await self._revive(stage, chosen)
            await mixes.settle(stage, pair, chosen, _replace_nobody)
            figures = await self._judge(stage, chosen)
            await _clear(stage)
        except Exception as error:  # so that the rounds after it are played
            stage.violations.append(Violation("played", f"{type(error).__name__} {str(error)[-1500:]}"))
            figures = {}
        resident = {each.name: self._sample(each, number) for each in stage.schedulers if each.alive}
        violations, stage.violations = list(map(str, stage.violations)), []
        return {"round": number, "seed": self._seed, "faults": chosen, "violations": violations, **figures,
                "resident_bytes": resident, "seconds": round(time.monotonic() - started, 1)}  # fmt: skip

    async def _judge(self, stage: Stage, chosen: list[str]) -> Json:
        outputs = {"events": str(await stage.api.call("GET", f"/api/v1/namespaces/{stage.namespace}/events"))}
        for each in stage.schedulers:
            if each.alive:
                outputs[f"{each.name} /metrics"] = (await each.ask("/metrics"))[1]
                stage.violations += oracle.bounded(each.figures() | {"log_bytes": 0}, stage.bounds)
            log = each.log
            written, self._read[each.name] = log[self._read.get(each.name, 0) :], len(log)
            outputs[f"{each.name} log"] = written
            if "Traceback" in written:
                stage.violations.append(Violation("I9", f"{each.name} logged a traceback: {written[-1500:]}"))
        stage.violations += oracle.secret(CANARY, outputs)
        past = await asyncio.to_thread(stage.history)
        if oracle.gangs(past.final(), stage.ours, stage.expected.shrunk):
            # A gang that waited may be bound just now; only at rest it is whole.
            await asyncio.sleep(10)
            past = await asyncio.to_thread(stage.history)
        stage.violations += oracle.judge(past, stage.ours, stage.expected)
        if stage.violations:
            file = stage.directory / f"history-{len(self.rounds) + 1}.txt"
            await asyncio.to_thread(file.write_text, past.as_text())
        changes = sum(change.revision > past.start for change in past.changes)
        bound = sum(stage.ours.bound(bind) for bind in past.binds())
        return {"bound": bound, "changes": changes, "requests": len(past.requests)}

    async def _revive(self, stage: Stage, chosen: list[str]) -> None:
        """Start again what has ended, as a kubelet does; an end that no fault asked for breaks a promise. It waits
        until each is ready: a process that has just begun dies of the signal by which `settle` asks for its cache."""
        for each in stage.schedulers:
            if not each.alive:
                assert each.process is not None
                self.ends += 1
                if not set(chosen) & set(_ENDING) and LEASE_LOST not in each.log_since_start:
                    text = f"{each.name} ended with {each.process.returncode}: {each.log_since_start[-500:]}"
                    stage.violations.append(Violation("I9", text))
                await each.start(ready=False)
                await each.until(each.is_ready, 90)

    def _sample(self, scheduler: Scheduler, number: int) -> int:
        assert scheduler.process is not None
        figures = scheduler.figures()
        life = self._lives.setdefault(scheduler.process.pid, _Life(scheduler.name))
        seconds = time.monotonic() - self._started
        kept = {name: figures.get(name, 0.0) for name in ("resident_bytes", "descriptors")}
        # `slopes` counts per thousand of these.
        life.samples.append({"pods": float(number), "seconds": seconds, **kept})
        return int(kept["resident_bytes"])

    def report(self) -> Json:
        """What all rounds come to; memory by process, for those that lived long enough."""
        lives = []
        for pid, life in self._lives.items():
            if len(life.samples) < _LEAST_SAMPLES:
                continue
            first, last = life.samples[0], life.samples[-1]
            resident = [sample["resident_bytes"] for sample in life.samples]
            growth = slopes(life.samples)["resident_bytes"]
            lives.append(
                {
                    "scheduler": life.scheduler,
                    "pid": pid,
                    "minutes": round((last["seconds"] - first["seconds"]) / 60, 1),
                    "first_mib": round(resident[0] / 2**20, 1),
                    "last_mib": round(resident[-1] / 2**20, 1),
                    "most_mib": round(max(resident) / 2**20, 1),
                    "kib_per_round": round(growth.per_thousand / 1000 / 1024, 2),
                    "margin_kib": round(growth.margin / 1000 / 1024, 2),
                }
            )
        return {
            "hours": round((time.monotonic() - self._started) / 3600, 2),
            "rounds": len(self.rounds),
            "faults": sum(len(row["faults"]) for row in self.rounds),
            **{name: sum(row.get(name, 0) for row in self.rounds) for name in ("bound", "changes", "requests")},
            "processes": len(self._lives),
            "ends": self.ends,
            "lives": lives,
            "broken": [(row["round"], text[:200]) for row in self.rounds for text in row["violations"]],
        }


async def _replace_nobody(stage: Stage, settled: asyncio.Event) -> None:
    """Who ends while the others settle is started again in the next round."""


async def _begin_anew(stage: Stage) -> None:
    """Let only what comes now be judged."""
    stage.start_revision = await asyncio.to_thread(history.revision, stage.plane.etcd)
    stage.audited = history.log_sizes(stage.plane.audit_logs)
    for each in stage.schedulers:
        each.proxy.forget_ended()


async def _clear(stage: Stage) -> None:
    """Delete everything; the caches must follow."""
    for kind in ("Pod", "PodGroup"):
        await stage.api.delete_all(kind, stage.namespace)
    await stage.api.delete_all("Node")

    async def empty() -> bool:
        try:
            return not any((await stage.state()).objects.values())
        except ApiError:
            return False

    await eventually(empty, 60)
    await stage.settle()
