"""Fake extenders for tests of the core: functions that answer questions at once."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from scheduler.core import (
    GangDecision,
    Placement,
    PostFilterOutcome,
    decide,
    decide_gang,
    run_post_filters,
)
from scheduler.framework import (
    Answer,
    Answered,
    Asking,
    Extender,
    FilterAnswer,
    FilterQuestion,
    Gang,
    PodInfo,
    PreemptAnswer,
    PreemptQuestion,
    PrioritizeAnswer,
    ProfileRunner,
    Question,
)
from scheduler.state import ClusterState
from tests.unit.scheduler.core.builders import NOW

T = TypeVar("T")


@dataclass
class FakeExtender:
    """Says what a test wants, and remembers which nodes it was asked about.

    Attributes:
        keeps: nodes that its filter lets through; None for all.
        failed, unresolvable: what its filter says of the others.
        scores: per node.
        error: what it answers with.
        unanswered: it answers with an error because it does not answer.
        meanwhile: called when it is asked: what happens in the cluster until it answers.
        preempts: answers to preempt; None: as it was asked.
    """

    extender: Extender = field(
        default_factory=lambda: Extender("http://fake", filter_verb="filter", cache_capable=True)
    )
    keeps: tuple[str, ...] | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    scores: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    unanswered: bool = False
    meanwhile: Callable[[], object] = lambda: None
    preempts: Mapping[str, tuple[tuple[str, ...], int]] | None = None
    questions: list[tuple[str, ...]] = field(default_factory=list)
    pods: list[str] = field(default_factory=list)
    prioritized: list[tuple[str, ...]] = field(default_factory=list)
    offered: list[dict[str, tuple[str, ...]]] = field(default_factory=list)


class Cluster:
    """A state, a profile and extenders."""

    def __init__(self, state: ClusterState, profile: ProfileRunner, *extenders: FakeExtender) -> None:
        self.state = state
        self._profile = profile
        self._fakes = {fake.extender.url: fake for fake in extenders}
        self._extenders = [fake.extender for fake in extenders]
        self._rng = random.Random(1)

    def decide(self, pod: PodInfo) -> Placement:
        """Decide about a pod with the extenders that are interested in it."""
        return self._answered(decide(self.state.snapshot(NOW), pod, self._profile, self._rng, self._extenders))

    def decide_gang(self, gang: Gang) -> GangDecision:
        """Decide about a gang's members with the extenders that are interested in each."""
        snapshot = self.state.snapshot(NOW)
        return self._answered(
            decide_gang(
                snapshot, gang, gang.waiting, lambda pod: self._profile, self._rng, gang.missing, self._extenders
            )
        )

    def preempt(self, placement: Placement) -> PostFilterOutcome:
        """Run PostFilter for a rejected pod."""
        snapshot = self.state.snapshot(NOW)
        return self._answered(run_post_filters(snapshot, placement, self._profile, self._extenders))

    def _answered(self, asking: Asking[T]) -> T:
        try:
            question = next(asking)
            while True:
                question = asking.send(Answered(self._answer(question), self.state.snapshot(NOW)))
        except StopIteration as end:
            result: T = end.value
            return result

    def _answer(self, question: Question) -> Answer:
        if isinstance(question, FilterQuestion):
            fake = self._fakes[question.extender.url]
            fake.questions.append(question.nodes)
            fake.pods.append(question.pod.name)
            fake.meanwhile()
            kept = question.nodes if fake.keeps is None else tuple(set(fake.keeps) & set(question.nodes))
            if fake.error:
                return FilterAnswer(error=fake.error, unanswered=fake.unanswered)
            return FilterAnswer(kept, fake.failed, fake.unresolvable)
        if isinstance(question, PreemptQuestion):
            fake = self._fakes[question.extender.url]
            offered = {node: tuple(pod.uid for pod in each.pods) for node, each in question.victims.items()}
            fake.offered.append(offered)
            fake.meanwhile()
            if fake.error:
                return PreemptAnswer(error=fake.error)
            named = {node: (uids, 0) for node, uids in offered.items()} if fake.preempts is None else fake.preempts
            return PreemptAnswer(named)
        total: dict[str, int] = {}
        unanswered = []
        for extender in question.extenders:
            fake = self._fakes[extender.url]
            fake.prioritized.append(question.nodes)
            fake.meanwhile()
            if fake.error:
                unanswered.append(extender)
                continue
            for node, score in fake.scores.items():
                total[node] = total.get(node, 0) + score * extender.weight * 10
        return PrioritizeAnswer(total, (), tuple(unanswered))
