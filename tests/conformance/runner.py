"""Asks both schedulers about many cases and keeps the books."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.conformance.apiclient import ApiError
from tests.conformance.case import BOUND, Answer, Asked, Case, Json
from tests.conformance.compare import differences, report
from tests.conformance.coverage import Coverage
from tests.conformance.older import OlderVersion, aligned
from tests.conformance.oracle import Oracle
from tests.conformance.ours import Ours

REGRESSIONS = Path(__file__).with_name("regressions.json")
PATIENT_SETTLE_SECONDS = 0.5
"""How long objects get to reach the real scheduler when a case is asked again after a difference."""
_FORGET_SECONDS = 2.0
"""By then the real scheduler has given up waiting for volumes of the first asking's pods."""


@dataclass
class Summary:
    """What a run has shown."""

    cases: int = 0
    pods: int = 0
    by_feature: Counter[str] = field(default_factory=Counter)
    by_profile: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    scored: Counter[str] = field(default_factory=Counter)
    """Plugin -> scores compared that were not alike on all nodes of the pod."""
    rejected: Counter[str] = field(default_factory=Counter)
    """Reason -> messages that held it."""
    coverage: Coverage = field(default_factory=Coverage)
    retried: int = 0
    refused: list[str] = field(default_factory=list)
    mismatches: list[str] = field(default_factory=list)
    listed: Counter[str] = field(default_factory=Counter)
    """Difference that the real scheduler's version is known for -> pods that showed it."""
    failed: list[Case] = field(default_factory=list)
    seconds: float = 0.0

    def text(self) -> str:
        """The summary as people read it."""
        rate = self.cases / self.seconds if self.seconds else 0.0
        pods = self.pods / self.seconds if self.seconds else 0.0
        lines = [
            f"{self.cases} cases, {self.pods} pods in {self.seconds:.1f} s ({rate:.1f} cases/s, {pods:.1f} pods/s), "
            f"{len(self.mismatches)} mismatches, {self.retried} asked twice, {len(self.refused)} refused",
            f"outcomes: {_counts(self.outcomes)}",
            f"cases per feature: {_counts(self.by_feature)}",
            f"cases per profile: {_counts(self.by_profile)}",
            f"score rows that tell nodes apart, per plugin: {_counts(self.scored)}",
            f"reasons in messages: {_counts(self.rejected)}",
            self.coverage.table(),
        ]
        if self.listed:
            lines.insert(1, f"listed differences: {_counts(self.listed)}")
        return "\n".join([*lines, *self.refused[:5]])


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in sorted(counter.items())) or "none"


class Answerer(Protocol):
    """Our scheduler, asked as the real one is."""

    def ask(self, pod: Json, world: tuple[Json, ...]) -> Answer:
        """What it does with a pod in a cluster given by its objects."""


class Runner:
    """Compares case by case. A difference counts once the case has been asked again, patiently, and still differs.

    `older` lists the differences that are expected, where ours does not imitate the real scheduler's version.
    """

    def __init__(self, oracle: Oracle, ours: Answerer, older: OlderVersion | None = None) -> None:
        self._oracle = oracle
        self._ours = ours
        self._older = older
        self._listed: Counter[str] = Counter()
        self.summary = Summary()

    async def run(self, cases: Iterable[Case], *, seconds: float = float("inf"), least: int = 0) -> Summary:
        """Compare cases until they or the time run out, so many at least, however slow the machine is."""
        started = time.monotonic()
        for number, case in enumerate(cases):
            if number >= least and time.monotonic() - started > seconds:
                break
            await self.compare(case)
        self.summary.seconds += time.monotonic() - started
        return self.summary

    async def compare(self, case: Case) -> list[str]:
        """Compare one case; returns the reports of its mismatches."""
        summary = self.summary
        try:
            answers = await self._oracle.ask(case)
            reports = self._reports(case, answers)
            if reports:
                summary.retried += 1
                await asyncio.sleep(_FORGET_SECONDS)
                answers = await self._oracle.ask(case, PATIENT_SETTLE_SECONDS)
                reports = self._reports(case, answers)
        except ApiError as error:
            summary.refused.append(f"seed {case.seed} ({','.join(case.features)}): {error}")
            return []
        summary.cases += 1
        summary.by_feature.update(case.features)
        summary.by_profile[case.profile] += 1
        summary.listed.update(self._listed)
        if isinstance(self._ours, Ours):
            summary.coverage.add(self._ours.exercised)
        for answered in answers:
            self._count(answered.answer)
        if reports:
            summary.mismatches += reports
            summary.failed.append(case)
        return reports

    def _reports(self, case: Case, answers: list[Asked]) -> list[str]:
        if isinstance(self._ours, Ours):
            self._ours.exercised.clear()
        self._listed.clear()
        reports = []
        for answered in answers:
            real, ours = answered.answer, self._ours.ask(answered.pod, answered.world)
            if self._older is not None:
                real, ours, listed = aligned(self._older, answered.pod, real, ours)
                self._listed.update(listed)
            differing = differences(real, ours)
            if differing:
                reports.append(report(case, answered, ours, differing))
        return reports

    def _count(self, answer: Answer) -> None:
        self.summary.pods += 1
        self.summary.outcomes[answer.outcome] += 1
        if answer.nominated:
            self.summary.outcomes["of these preempting"] += 1
        if answer.outcome == BOUND:
            for plugin in {name for row in answer.scores.values() for name in row}:
                if len({row.get(plugin) for row in answer.scores.values()}) > 1:
                    self.summary.scored[plugin] += 1
        else:
            _, _, reasons = answer.message.partition(" nodes are available: ")
            for part in reasons.partition(". ")[0].rstrip(".").split(", "):
                count, _, reason = part.partition(" ")
                if count.isdigit():
                    self.summary.rejected[reason] += 1


def regressions() -> list[Case]:
    """The cases that once failed."""
    return [Case.from_json(case) for case in json.loads(REGRESSIONS.read_text())]


def keep(cases: Iterable[Case]) -> int:
    """Add cases to the regressions; returns how many were new."""
    known = regressions()
    new = [case for case in cases if case not in known]
    if new:
        lines = ",\n".join(json.dumps(case.to_json(), sort_keys=True) for case in [*known, *new])
        REGRESSIONS.write_text(f"[\n{lines}\n]\n")
    return len(new)
