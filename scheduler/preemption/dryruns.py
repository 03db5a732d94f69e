"""What trying nodes showed, kept for the next pod of the same class and priority: only nodes on which something has
changed since are tried again.

Preemptors come in crowds: a Deployment of high priority is scaled up on a full cluster. Upstream tries nodes from
nothing for each of them, until a tenth of the nodes are candidates. With the results kept, the second pod of a class
tries the node that the first one was nominated to, and little else: 34 ms per pod became 1.6 at 5,000 nodes
(docs/performance.md).

It must give exactly what `dry_run` would; a property test holds it to that.
"""

import math
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable

import numpy as np

from scheduler.catalog import KubernetesVersion
from scheduler.framework import (
    BoolArray,
    CodeArray,
    CycleState,
    FilterRunner,
    FloatArray,
    IntArray,
    NodeView,
    PodInfo,
    RandomSource,
    RowArray,
)
from scheduler.kube.model import LabelSelector, PodDisruptionBudget
from scheduler.preemption.trials import MAX_BATCH, PDB, Budgets, Trial, dry_run
from scheduler.preemption.victims import PRIORITY_SHIFT, Candidate, DryRunResult, NodeOutcome, VictimRules, choose

_MAX_ROWS = 200_000
"""Bound on the rows of all classes."""
_UNKNOWN, _CANDIDATE, _REJECTED = 0, 1, 2


class DryRunCache:
    """The dry runs of one preempting plugin whose `VictimRules` are those of this package."""

    def __init__(self) -> None:
        self._by_class: OrderedDict[Hashable, CachedOutcomes] = OrderedDict()
        self._budgets = BudgetCache()

    def search(
        self,
        state: CycleState,
        pod: PodInfo,
        view: NodeView,
        filters: FilterRunner,
        rows: RowArray,
        limit: int,
        rules: VictimRules,
        rng: RandomSource,
    ) -> Candidate | DryRunResult:
        """Return the node where preemption hurts least among the first so many candidates; without any, why not."""
        version = filters.local_version(state, pod, view) if type(rules) is VictimRules else None
        if version is not None and not view.moved_rows:
            budgets = self._budgets.now(view, rules.kubernetes)
            trial = Trial(state, pod, view, filters, rules, budgets)
            if trial.is_local and not trial.charges:
                cached = self._outcomes_for((pod.spec.class_key, pod.priority, version), view)
                cached.catch_up(pod, view, self._budgets)
                answer = cached.search(pod, view, trial, rules, rows, limit, rng)
                if answer is not None:
                    return answer
                # A plugin failed: what that means for each node, only trying all of them again can tell.
                del self._by_class[pod.spec.class_key, pod.priority, version]
        result = dry_run(state, pod, view, filters, rows, limit, rules)
        if not result.candidates:
            return result
        return choose(result.candidates, rules.start_of_unstarted(view.now), rng)

    def _outcomes_for(self, key: Hashable, view: NodeView) -> "CachedOutcomes":
        cached = self._by_class.get(key)
        if cached is None or cached.membership != view.membership:
            cached = self._by_class[key] = CachedOutcomes(view)
        self._by_class.move_to_end(key)
        while len(self._by_class) > 1 and sum(len(outcomes.status) for outcomes in self._by_class.values()) > _MAX_ROWS:
            self._by_class.popitem(last=False)
        return cached


class BudgetCache:
    """The PodDisruptionBudgets, compiled again when one changes.

    Attributes:
        generation: grows with every change, and
        coverage: with every change of which pods they cover.
    """

    def __init__(self) -> None:
        self._budgets = Budgets(())
        self._store: object = None
        self._selectors: list[tuple[str, str, LabelSelector | None]] = []
        self.generation = -1
        self.coverage = 0

    def now(self, view: NodeView, kubernetes: KubernetesVersion) -> Budgets:
        """Return the budgets as they are now; the version is always the same."""
        generation = view.objects.generation(PDB)
        if generation != self.generation or view.objects is not self._store:
            self.coverage += view.objects is not self._store
            self.generation, self._store = generation, view.objects
            every: list[PodDisruptionBudget] = list(view.objects.every(PDB))
            selectors = [(budget.metadata.namespace, budget.metadata.name, budget.spec.selector) for budget in every]
            if selectors != self._selectors:
                self.coverage += 1
            self._selectors = selectors
            self._budgets = Budgets(every, kubernetes)
        return self._budgets


class CachedOutcomes:
    """What came of the nodes for one class and priority, by row, and by what candidates are compared.

    A row is unknown until it is tried, and again when its node, its pods, the nominations to it, or a budget of its
    pods changed. `_valid_once` holds rows whose result held for one moment or one pod only.
    """

    def __init__(self, view: NodeView) -> None:
        size = view.size
        self.membership = view.membership
        self.status = np.zeros(size, dtype=np.int8)
        self._outcomes: list[NodeOutcome | None] = [None] * size
        self._violations: IntArray = np.zeros(size, dtype=np.int64)
        self._highest: IntArray = np.zeros(size, dtype=np.int64)
        self._total: IntArray = np.zeros(size, dtype=np.int64)
        self._count: IntArray = np.zeros(size, dtype=np.int64)
        self._earliest: FloatArray = np.zeros(size)
        self._not_started: BoolArray = np.zeros(size, dtype=np.bool_)
        self._valid_once: set[int] = set()
        self._covered: set[int] = set()
        self._generation = view.generation
        self._nomination_end = view.nomination_end
        self._budgets = (-1, -1)
        self._now = view.now

    def catch_up(self, pod: PodInfo, view: NodeView, budgets: BudgetCache) -> None:
        """Forget the rows where something changed."""
        changed = view.changed_since(self._generation)
        nominated = view.nominated_since(self._nomination_end)
        self._generation, self._nomination_end = view.generation, view.nomination_end
        generation, coverage = self._budgets
        self._budgets = budgets.generation, budgets.coverage
        clock_went_back, self._now = view.now < self._now, view.now
        if changed is None or nominated is None or coverage != budgets.coverage or clock_went_back:
            self.status[:] = _UNKNOWN
            self._valid_once.clear()
            self._covered.clear()
            return
        self._forget(changed)
        self._forget({row for name in nominated if (row := view.row(name)) >= 0})
        if self._valid_once:
            self._forget(self._valid_once)
            self._valid_once.clear()
        if generation != budgets.generation and self._covered:
            self._forget(self._covered)
            self._covered.clear()

    def _forget(self, rows: Iterable[int]) -> None:
        self.status[list(rows)] = _UNKNOWN

    def search(
        self,
        pod: PodInfo,
        view: NodeView,
        trial: Trial,
        rules: VictimRules,
        rows: RowArray,
        limit: int,
        rng: RandomSource,
    ) -> Candidate | DryRunResult | None:
        """Return the best of the first so many candidates among rows, or why there is none; None where a plugin
        failed."""
        own = view.row(view.nomination_of(pod.uid))
        if own >= 0:
            # For the other pods of its class, this nominated pod takes room there.
            self.status[own] = _UNKNOWN
        rows_to_try = rules.rows_with_victims(trial.state, pod, view, rows)
        while True:
            status = self.status[rows_to_try]
            end = self._rows_needed(rows_to_try, status, limit)
            unknown = rows_to_try[:end][status[:end] == _UNKNOWN]
            if not len(unknown):
                break
            self._try(pod, view, trial, rules, unknown[:MAX_BATCH].tolist())
            if trial.plugin_failed:
                return None
        if own >= 0:
            self._valid_once.add(own)
        candidates = rows_to_try[:end][status[:end] == _CANDIDATE]
        if not len(candidates):
            return self._no_candidate(pod, view, rules, rows, rows_to_try)
        return self._best(view, rules, candidates, rng)

    def _rows_needed(self, rows: RowArray, status: CodeArray, limit: int) -> int:
        """Return how many rows it takes at least until there are so many candidates, one of which breaks no budget: as
        if those not tried yet were such."""
        possible = np.flatnonzero(status <= _CANDIDATE)
        within_budgets = (status[possible] == _UNKNOWN) | (self._violations[rows[possible]] == 0)
        first = int(within_budgets.argmax()) if within_budgets.any() else len(possible)
        enough = max(first, limit - 1)
        return int(possible[enough]) + 1 if enough < len(possible) else len(rows)

    def _try(self, pod: PodInfo, view: NodeView, trial: Trial, rules: VictimRules, rows: list[int]) -> None:
        batch = [(row, rules.potential_victims(trial.state, pod, view, row)) for row in rows]
        outcomes = trial.run(batch)
        for row, others in batch:
            outcome = self._outcomes[row] = outcomes[row]
            self.status[row] = _CANDIDATE if outcome.victims else _REJECTED
            if outcome.victims:
                self._compare(row, outcome)
            # A pod without a start counts as started now. So one whose start lies in our future, as its node's clock is
            # ahead, changes places with it as time passes; one that started this moment is its equal for this moment.
            if any(victim.started_at >= view.now for victim in others):
                self._valid_once.add(row)
            if trial.budgets.cover(others):
                self._covered.add(row)

    def _compare(self, row: int, outcome: NodeOutcome) -> None:
        """Lay out what `choose` compares."""
        victims = outcome.victims
        highest = victims[0].priority
        self._violations[row] = outcome.violations
        self._highest[row] = highest
        self._total[row] = sum([victim.priority for victim in victims]) + PRIORITY_SHIFT * len(victims)
        self._count[row] = len(victims)
        starts = [victim.started_at for victim in victims if victim.priority == highest]
        started = [start for start in starts if start == start]
        self._earliest[row] = min(started, default=math.nan)
        self._not_started[row] = len(started) < len(starts)

    def _best(self, view: NodeView, rules: VictimRules, rows: RowArray, rng: RandomSource) -> Candidate:
        """Return the candidate that hurts least, as `choose`."""
        for column in (self._violations, self._highest, self._total, self._count):
            values = column[rows]
            rows = rows[values == values.min()]
        earliest = self._earliest[rows]
        # What counts as started now is earlier than a start that lies in our future.
        unstarted = rules.start_of_unstarted(view.now)
        earliest = np.where(self._not_started[rows], np.fmin(earliest, unstarted), earliest)
        rows = rows[earliest == earliest.max()]
        row = int(rows[int(rng.random() * len(rows))])
        outcome = self._outcomes[row]
        assert outcome is not None
        # Conditions and the like may have changed since, which make no difference to the choice of victims.
        current_pods = {current.uid: current for current in view.pods_on(row)}
        return Candidate(
            view.name(row), tuple(current_pods[victim.uid] for victim in outcome.victims), outcome.violations
        )

    def _no_candidate(
        self, pod: PodInfo, view: NodeView, rules: VictimRules, rows: RowArray, rows_to_try: RowArray
    ) -> DryRunResult:
        result = DryRunResult()
        equal: Counter[int] = Counter()
        outcomes: dict[int, NodeOutcome] = {}
        for row in rows_to_try.tolist():
            outcome = self._outcomes[row]
            assert outcome is not None
            if outcome.error:
                result.fail(outcome.error)
            else:
                equal[id(outcome)] += 1
                outcomes[id(outcome)] = outcome
        for identity, nodes in equal.items():
            result.reject(outcomes[identity].reasons, nodes)
        without_victims = rows[~np.isin(rows, rows_to_try)].tolist()
        result.rejected += len(without_victims)
        result.reasons.update(rules.no_victims_reasons(pod, [view.name(row) for row in without_victims]))
        return result
