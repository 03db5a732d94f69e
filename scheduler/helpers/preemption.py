"""Which pods would have to go for a pod to fit, and on which node that hurts least: nothing is touched here.

Follows pkg/scheduler/framework/preemption and plugins/defaultpreemption of kube-scheduler 1.34, except that many nodes
are tried in one go: what is taken away or given back on one node is so on all of them, and the filters answer for all
at once. That gives the same answers as long as filters look at nothing but the node's own pods; while one of them
looks further (`PreFilterExtensions`), nodes are tried one by one.

What tells one preempting plugin from another, namely which pods may go and what their going must achieve, are its
`VictimRules`.
"""

import itertools
import math
import random
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from scheduler.framework import (
    Code,
    CycleState,
    Diagnosis,
    FilterRunner,
    NodeView,
    PluginError,
    PodInfo,
    RowArray,
    WhatIfView,
    unavailable,
)
from secondary_scheduler.kube.model import PodDisruptionBudget
from secondary_scheduler.kube.primitives.selectors import Selector, SelectorError, label_selector

BUDGET = "PodDisruptionBudget"
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
PREEMPTED_REASON = "PreemptionByScheduler"
_PRIORITY_SHIFT = 1 << 31
_LEAST_BATCH = 16
"""Upstream tries 16 nodes at a time (`parallelism`), so it overshoots by as many."""
_LARGEST_BATCH = 128
"""Beyond that, what one batch holds in memory costs more time than it saves."""


class NodeTrouble(Exception):
    """A plugin cannot judge a node; the text is what the pod is told."""


class Fate(Enum):
    """What becomes of a pod that was given another chance."""

    STAYS = 0
    GOES = 1
    GOES_UNCOUNTED = 2
    """It goes, and the PodDisruptionBudget that this breaks does not count."""


class VictimRules:
    """Which pods may be taken away for another, and when that was enough: here any of lower priority, as soon as the
    filters pass (DefaultPreemption). A plugin with other rules overrides what differs."""

    def in_the_way(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """Tell whether a pod on the nominated node is leaving it for this one, which then preempts nobody else."""
        return other.priority < pod.priority and _is_preempted(other)

    def worth_trying(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> RowArray:
        """Return the rows among these where `candidates` may find somebody, in their order: a quick look ahead."""
        return rows[view.lowest_priority[rows] < pod.priority]

    def candidates(self, state: CycleState, pod: PodInfo, view: NodeView, row: int) -> list[PodInfo]:
        """Return the pods of a node that may go; NodeTrouble where that cannot be told."""
        return [other for other in view.pods_on(row) if other.priority < pod.priority]

    def nobody(self, pod: PodInfo, nodes: Sequence[str]) -> Iterable[str]:
        """Yield what the pod is told of nodes where nobody may go: a text for each."""
        return itertools.repeat(NO_VICTIMS, len(nodes))

    def shortage(self, state: CycleState, row: int) -> str:
        """Return why the pod may not run on a node from which all candidates are gone, though it fits; "" if it may."""
        return ""

    def fate(self, state: CycleState, view: NodeView, row: int, other: PodInfo, fits: bool) -> Fate:
        """Judge a pod that has been put back, given whether the preemptor fits beside it; NodeTrouble gives the node
        up."""
        return Fate.STAYS if fits else Fate.GOES


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which the pod fits without these pods, the most important first; `violations` of them break a
    PodDisruptionBudget."""

    node: str
    victims: tuple[PodInfo, ...]
    violations: int


@dataclass(slots=True)
class DryRun:
    """What came of trying nodes: candidates, and for the others how many there are and why not."""

    candidates: list[Candidate] = field(default_factory=list)
    refused: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def refuse(self, reason: str) -> None:
        """Note a node where preemption does not help."""
        self.refused += 1
        self.reasons[reason] += 1

    def fail(self, error: str) -> None:
        """Note a node that could not be judged."""
        self.refuse(error)
        if error not in self.errors:
            self.errors.append(error)

    @property
    def error(self) -> str:
        """Return the different errors as Go's aggregate words them; "" without any."""
        return self.errors[0] if len(self.errors) == 1 else f"[{', '.join(self.errors)}]" if self.errors else ""

    def enough(self, wanted: int) -> bool:
        """Tell whether the search may end: so many candidates, and one that breaks no budget."""
        return len(self.candidates) >= wanted and any(not one.violations for one in self.candidates)

    def message(self, total: int) -> str:
        """Return the text for the pod when there is no candidate among `total` nodes."""
        reasons = Counter(self.reasons)
        reasons[NOT_HELPFUL] += total - self.refused
        return unavailable(total, +reasons)


LEAVING = "not eligible due to a terminating pod on the nominated node."


def ineligible(
    state: CycleState, pod: PodInfo, view: NodeView, codes: Mapping[str, int], rules: VictimRules
) -> str | None:
    """Return why a pod may not preempt now, or None: by its policy, or because pods it preempted are still going."""
    if pod.spec.preemption_policy == "Never":
        return "not eligible due to preemptionPolicy=Never."
    node = pod.nominated_node
    if not node or codes.get(node, Code.UNSCHEDULABLE_AND_UNRESOLVABLE) == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return None
    row = view.row(node)
    if row >= 0 and any(rules.in_the_way(state, pod, one) for one in view.pods_on(row)):
        return LEAVING
    return None


def _is_preempted(pod: PodInfo) -> bool:
    if not pod.deleting:
        return False
    for condition in pod.conditions:
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == PREEMPTED_REASON
    return False


def dry_run(
    state: CycleState,
    pod: PodInfo,
    view: NodeView,
    filters: FilterRunner,
    rows: RowArray,
    wanted: int,
    rules: VictimRules,
) -> DryRun:
    """Try rows in their order until there are enough candidates (Evaluator.DryRunPreemption)."""
    result = DryRun()
    budgets = _Budgets(view.objects.every(BUDGET))
    trial = _Trial(state, pod, view, filters, rules, budgets, result)
    alone = filters.looks_beyond_node(state)
    batch: list[tuple[int, list[PodInfo]]] = []
    promising = rules.worth_trying(state, pod, view, rows)
    hopeless = rows[~np.isin(rows, promising)].tolist() if len(promising) < len(rows) else []
    for row in promising.tolist():
        try:
            victims = rules.candidates(state, pod, view, row)
        except NodeTrouble as trouble:
            result.fail(str(trouble))
            continue
        if not victims:
            hopeless.append(row)
            continue
        batch.append((row, victims))
        if alone or len(batch) >= min(_LARGEST_BATCH, max(_LEAST_BATCH, wanted - len(result.candidates))):
            trial.run(batch)
            batch = []
            if result.enough(wanted):
                return result
    if batch:
        trial.run(batch)
    result.refused += len(hopeless)
    result.reasons.update(rules.nobody(pod, [view.name(row) for row in hopeless]))
    return result


def choose(candidates: Sequence[Candidate], now: float, rng: random.Random) -> Candidate:
    """Return the candidate that hurts least (pickOneNodeForPreemption); equals are drawn from."""
    keys = [_harm(one, now) for one in candidates]
    least = min(keys)
    best = [one for one, key in zip(candidates, keys, strict=True) if key == least]
    return best[int(rng.random() * len(best))]


def _harm(candidate: Candidate, now: float) -> tuple[int, int, int, int, float]:
    victims = candidate.victims
    highest = victims[0].priority
    # Shifted above 0, so that few pods of a negative priority are not worse than many.
    total = sum(one.priority + _PRIORITY_SHIFT for one in victims)
    earliest = min(started(one, now) for one in victims if one.priority == highest)
    return candidate.violations, highest, total, len(victims), -earliest


def started(pod: PodInfo, now: float) -> float:
    """Return when a pod started; `now` for one that has not."""
    return now if math.isnan(pod.started_at) else pod.started_at


def by_importance(pods: Iterable[PodInfo], now: float) -> list[PodInfo]:
    """Return pods with the most important first: by priority, then by age (MoreImportantPod)."""
    return sorted(pods, key=lambda pod: (-pod.priority, started(pod, now)))


class _Budgets:
    """The PodDisruptionBudgets by namespace, their selectors compiled."""

    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[tuple[Selector, PodDisruptionBudget]]] = {}
        for budget in budgets:
            try:
                selector = label_selector(budget.spec.selector)
            except SelectorError:
                continue
            # As upstream, an empty selector covers nothing here, though the API server takes it for everything.
            if not selector.nothing and not selector.everything:
                self._by_namespace.setdefault(budget.metadata.namespace, []).append((selector, budget))

    def split(self, pods: Iterable[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Return (those that break a budget when all of them go, the others), each in the given order
        (filterPodsWithPDBViolation)."""
        allowed: dict[int, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            broken = False
            for selector, budget in self._by_namespace.get(pod.namespace, ()) if pod.labels else ():
                if not selector.matches(pod.labels) or pod.name in budget.status.disrupted_pods:
                    continue
                left = allowed.get(id(budget), budget.status.disruptions_allowed) - 1
                allowed[id(budget)] = left
                broken = broken or left < 0
            (violating if broken else others).append(pod)
        return violating, others


@dataclass(slots=True)
class _Node:
    """One node while it is tried: who may be reprieved, in order, and who has to go."""

    row: int
    violating: list[PodInfo]
    others: list[PodInfo]
    victims: list[PodInfo] = field(default_factory=list)
    violations: int = 0
    trouble: str = ""

    def order(self) -> list[PodInfo]:
        """Return the pods in the order in which they are given another chance."""
        return self.violating + self.others


@dataclass(slots=True)
class _Trial:
    """Takes pods away from nodes and gives back those that need not go (SelectVictimsOnNode)."""

    state: CycleState
    pod: PodInfo
    view: NodeView
    filters: FilterRunner
    rules: VictimRules
    budgets: _Budgets
    result: DryRun

    def run(self, nodes: Sequence[tuple[int, list[PodInfo]]]) -> None:
        """Try nodes, each with the pods that may be preempted there, and add what came of it to the result."""
        try:
            self._try(nodes)
        except PluginError as error:
            if len(nodes) > 1:
                # One node's trouble must not cost the others their turn.
                for node in nodes:
                    self.run([node])
                return
            self.result.fail(str(error))

    def _try(self, nodes: Sequence[tuple[int, list[PodInfo]]]) -> None:
        overlay, state, now = self.view.overlay(), self.state.clone(), self.view.now
        for row, victims in nodes:
            for one in victims:
                overlay.remove_pod(one, row)
                self.filters.run_remove_pod(state, self.pod, one, overlay, row)
        diagnosis = Diagnosis(len(nodes))
        fits = self._fits(state, overlay, [row for row, _ in nodes], diagnosis)
        tried: list[_Node] = []
        short: list[str] = []
        for row, victims in nodes:
            if row not in fits:
                continue
            if shortage := self.rules.shortage(state, row):
                short.append(shortage)
            else:
                tried.append(_Node(row, *self.budgets.split(by_importance(victims, now))))
        self._reprieve(state, overlay, tried)
        # Only now, as a plugin that fails above makes all of this be tried again.
        self.result.refused += len(nodes) - len(fits)
        self.result.reasons.update(diagnosis.histogram())
        for reason in short:
            self.result.refuse(reason)
        for node in tried:
            self._conclude(node, now)

    def _reprieve(self, state: CycleState, overlay: WhatIfView, nodes: Sequence[_Node]) -> None:
        """Give pods back, one per node at a time, and take away again those with which the pod does not fit."""
        waiting = [(node, node.order()) for node in nodes]
        for turn in range(max((len(order) for _, order in waiting), default=0)):
            waiting = [(node, order) for node, order in waiting if turn < len(order) and not node.trouble]
            for node, order in waiting:
                overlay.add_pod(order[turn], node.row)
                self.filters.run_add_pod(state, self.pod, order[turn], overlay, node.row)
            fits = self._fits(state, overlay, [node.row for node, _ in waiting], Diagnosis(len(waiting)))
            for node, order in waiting:
                try:
                    fate = self.rules.fate(state, overlay, node.row, order[turn], node.row in fits)
                except NodeTrouble as trouble:
                    node.trouble = str(trouble)
                    continue
                if fate is Fate.STAYS:
                    continue
                overlay.remove_pod(order[turn], node.row)
                self.filters.run_remove_pod(state, self.pod, order[turn], overlay, node.row)
                node.victims.append(order[turn])
                node.violations += turn < len(node.violating) and fate is Fate.GOES

    def _conclude(self, node: _Node, now: float) -> None:
        name = self.view.name(node.row)
        if node.trouble:
            self.result.fail(node.trouble)
            return
        if not node.victims:
            # The pod fits as things are: whoever turned it down before looks at more than a trial can show.
            self.result.fail(f'expected at least one victim pod on node "{name}"')
            return
        self.result.candidates.append(Candidate(name, tuple(by_importance(node.victims, now)), node.violations))

    def _fits(self, state: CycleState, view: WhatIfView, rows: list[int], diagnosis: Diagnosis) -> Collection[int]:
        if not rows:
            return ()
        wanted: RowArray = np.array(rows, dtype=np.intp)
        return set(self.filters.run_filters_with_nominated(state, self.pod, view, wanted, diagnosis).tolist())
