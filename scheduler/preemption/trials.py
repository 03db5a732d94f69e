"""Trying nodes: which of their pods have to be evicted (SelectVictimsOnNode of kube-scheduler 1.34).

Many nodes are tried together: all potential victims are removed from all of them, the filters answer for all at once,
and then each turn puts one pod back on every node. That gives the same answers as trying them one by one, as long as
filters look at nothing but the node's own pods; where one of them looks further (`PreFilterExtensions`), nodes are
tried one by one. Upstream tries 16 nodes at a time on goroutines. Batches made the preemption of pods of which no two
are alike cost 12 ms instead of 37 at 5,000 nodes (docs/performance.md).
"""

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from msgspec import Struct, field

from scheduler.catalog import DEFAULT_KUBERNETES, KubernetesVersion
from scheduler.framework import (
    CycleState,
    Diagnosis,
    FilterRunner,
    IntArray,
    NodeView,
    OverBudgetError,
    PluginError,
    PodBatch,
    PodInfo,
    RowArray,
    WhatIfView,
)
from scheduler.kube.model import PodDisruptionBudget, compiled_selector
from scheduler.kube.primitives import Selector, SelectorError
from scheduler.preemption.groups import PreemptionUnit, names_group
from scheduler.preemption.victims import (
    NO_VICTIMS,
    DryRunResult,
    NodeError,
    NodeOutcome,
    ReprieveResult,
    VictimRules,
)

PDB = "PodDisruptionBudget"
_MIN_BATCH = 16
"""Upstream tries 16 nodes at a time (`parallelism`), so it overshoots by as many."""
_FEW_BUDGETS = 256
RUN_UNITS = 100
"""A run of all filters over one node."""
MAX_BATCH = 512
"""Beyond that, what one batch holds in memory costs more time than it saves."""
_MAX_WEIGHT = 20_000
"""A batch ends with so many pods that are preempted together: a large group on many nodes must not be more work than an
attempt may be before there is a candidate."""


def dry_run(
    state: CycleState,
    pod: PodInfo,
    view: NodeView,
    filters: FilterRunner,
    rows: RowArray,
    limit: int,
    rules: VictimRules,
    *,
    asks_extenders: bool = False,
) -> DryRunResult:
    """Try rows in their order until there are enough candidates (Evaluator.DryRunPreemption); `asks_extenders`: whether
    one will have a say in the victims."""
    result = DryRunResult()
    budgets = Budgets(view.objects.every(PDB), rules.kubernetes)
    trial = Trial(state, pod, view, filters, rules, budgets, asks_extenders=asks_extenders)
    batch: list[tuple[int, list[PodInfo]]] = []
    weight = 0
    trial.charge_for_budgets()
    rows_to_try = rules.rows_with_victims(state, pod, view, rows)
    without_victims = rows[~np.isin(rows, rows_to_try)].tolist() if len(rows_to_try) < len(rows) else []
    for row in rows_to_try.tolist():
        try:
            victims = rules.potential_victims(state, pod, view, row)
        except NodeError as error:
            result.fail(str(error))
            continue
        if not victims:
            without_victims.append(row)
            continue
        batch.append((row, victims))
        weight += trial.weight(row, victims)
        missing = max(_MIN_BATCH, limit - len(result.candidates))
        if trial.node_by_node or len(batch) >= min(MAX_BATCH, missing) or weight > _MAX_WEIGHT:
            try:
                trial.report(batch, result)
            except OverBudgetError:
                if not result.candidates:
                    raise
                # What has been found will do: upstream's search ends early, too.
                return result
            batch, weight = [], 0
            if result.enough(limit):
                return result
    if batch:
        try:
            trial.report(batch, result)
        except OverBudgetError:
            if not result.candidates:
                raise
            return result
    result.rejected += len(without_victims)
    result.reasons.update(rules.no_victims_reasons(pod, [view.name(row) for row in without_victims]))
    return result


class Budgets:
    """The PodDisruptionBudgets by namespace, their selectors compiled; `number`: how many there are."""

    def __init__(
        self, budgets: Iterable[PodDisruptionBudget], kubernetes: KubernetesVersion = DEFAULT_KUBERNETES
    ) -> None:
        self._empty_covers_all = kubernetes.empty_selects_all
        self._by_namespace: dict[str, list[tuple[Selector, PodDisruptionBudget]]] = {}
        self.number = 0
        for budget in budgets:
            self.number += 1
            try:
                selector = compiled_selector(budget.spec.selector)
            except SelectorError:
                continue
            # As upstream before 1.38, an empty selector covers nothing, though the API server takes it for everything.
            if not selector.nothing and (self._empty_covers_all or not selector.everything):
                self._by_namespace.setdefault(budget.metadata.namespace, []).append((selector, budget))

    @property
    def many(self) -> bool:
        """Whether a namespace has so many that a look at them is work."""
        return self.number > _FEW_BUDGETS and any(len(each) > _FEW_BUDGETS for each in self._by_namespace.values())

    def in_namespace(self, namespace: str) -> int:
        """Return how many there are for pods of a namespace."""
        return len(self._by_namespace.get(namespace, ()))

    def cover(self, pods: Iterable[PodInfo]) -> bool:
        """Tell whether there may be a budget for some of these pods."""
        return bool(self._by_namespace) and any(pod.namespace in self._by_namespace for pod in pods)

    def split(self, pods: list[PodInfo]) -> tuple[list[PodInfo], list[PodInfo]]:
        """Return (those that break a budget when all of them go, the others), each in the given order
        (filterPodsWithPDBViolation)."""
        if not self.cover(pods):
            return [], pods
        allowed: dict[int, int] = {}
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        for pod in pods:
            (violating if self._is_broken(pod, allowed) else others).append(pod)
        return violating, others

    def count(self, units: Iterable[PreemptionUnit]) -> list[int]:
        """Return how many pods of each unit break a budget, when all go in this order
        (FilterVictimsWithPDBViolation)."""
        allowed: dict[int, int] = {}
        return [sum(self._is_broken(member.pod, allowed) for member in unit.members) for unit in units]

    def _is_broken(self, pod: PodInfo, allowed: dict[int, int]) -> bool:
        """Tell whether a pod breaks a budget; `allowed`: of budgets asked before, how many pods may still go."""
        broken = False
        # Before 1.38, a pod without labels was covered by none.
        possible = self._by_namespace.get(pod.namespace, ()) if pod.labels or self._empty_covers_all else ()
        for selector, budget in possible:
            if not selector.matches(pod.labels) or pod.name in budget.status.disrupted_pods:
                continue
            left = allowed.get(id(budget), budget.status.disruptions_allowed) - 1
            allowed[id(budget)] = left
            broken = broken or left < 0
        return broken


class _Together(NamedTuple):
    """Pods that are preempted together, while one of their nodes is tried.

    Attributes:
        unit: all of them.
        others: those on the node but the first, by index in the batch.
        violations: how many of all break a PodDisruptionBudget.
    """

    unit: PreemptionUnit
    others: list[int]
    violations: int


_ALONE: Mapping[int, _Together] = MappingProxyType({})


class _Node(Struct):
    """One node while it is tried: the pods in the order in which they are given another chance, by index in the batch,
    of which the first so many violate a budget; those that stand for others that go with them; and its victims."""

    row: int
    order: list[int]
    violating: int
    together: Mapping[int, _Together] = _ALONE
    victims: list[int] = field(default_factory=list)
    violations: int = 0
    error: str = ""


class Trial:
    """Removes pods from nodes and reprieves those that need not be evicted.

    Attributes:
        state, budgets: those of the attempt.
        node_by_node: whether each node has to be tried by itself.
        is_local: whether a node may be judged by what is on it.
        plugin_failed: whether a plugin failed.
    """

    def __init__(
        self,
        state: CycleState,
        pod: PodInfo,
        view: NodeView,
        filters: FilterRunner,
        rules: VictimRules,
        budgets: Budgets,
        *,
        asks_extenders: bool = False,
    ) -> None:
        self.state = state
        self._asks_extenders = asks_extenders
        self._pod = pod
        self._view = view
        self._filters = filters
        self._rules = rules
        self.budgets = budgets
        self._watched = filters.watches_pods(state)
        self._units = rules.units_in(state, view)
        # Pods elsewhere that go with those of a node are counted for that node only.
        self.node_by_node = filters.looks_beyond_node(state) or (self._watched and self._units is not None)
        self.plugin_failed = False
        # Other trials are so little work that their results may be kept: a charge must not depend on that.
        self.charges = pod.spec.lists_much or self.node_by_node or type(rules) is not VictimRules or budgets.many
        # What comes of a node may change with pods on other nodes.
        self.is_local = self._units is None

    def charge_for_budgets(self) -> None:
        """Account for compiling the PodDisruptionBudgets."""
        if self.charges:
            self.state.work.charge_once(PDB, self.budgets.number, "PodDisruptionBudgets")

    def _charge(self, nodes: Sequence[tuple[int, list[PodInfo]]]) -> None:
        """Account for trying nodes: filters run once and for each potential victim, which are moved up to three times,
        and compared with the PodDisruptionBudgets of their namespaces."""
        spec = self._pod.spec
        own = spec.terms.number + len(spec.topology_spread) if self._watched else 0
        runs = 1 + max(len(victims) for _, victims in nodes)
        units = runs * (RUN_UNITS + len(nodes))
        for _, victims in nodes:
            for victim in victims:
                units += 2 * own + victim.spec.parts + self.budgets.in_namespace(victim.namespace)
        self.state.work.charge(units, "potential victims x (terms + constraints + PodDisruptionBudgets)")

    def _charge_for_groups(self, units: Iterable[PreemptionUnit]) -> None:
        """Account for the pods that go with those of a node, wherever they are."""
        spec = self._pod.spec
        own = 1 + (2 * (spec.terms.number + len(spec.topology_spread)) if self._watched else 0)
        work = sum(
            len(unit.members) * (own + self.budgets.in_namespace(unit.members[0].pod.namespace))
            for unit in units
            if len(unit.members) > 1
        )
        self.state.work.charge(work, "pods of PodGroups that are preempted together x (terms + PodDisruptionBudgets)")

    def weight(self, row: int, victims: Sequence[PodInfo]) -> int:
        """Return how many pods, wherever they are, go together with others on a node."""
        return sum(len(unit.members) for unit in self._together(row, victims) if len(unit.members) > 1)

    def _together(self, row: int, victims: Sequence[PodInfo]) -> list[PreemptionUnit]:
        """Return what is preempted on a node; nothing where each pod is by itself."""
        if self._units is None or not any(names_group(victim) for victim in victims):
            return []
        units = self._units.units(row, victims)
        return units if any(len(unit.members) > 1 for unit in units) else []

    def report(self, nodes: Sequence[tuple[int, list[PodInfo]]], result: DryRunResult) -> None:
        """Try nodes, each with the pods that may be preempted there, and add what came of it to a result."""
        outcomes = self.run(nodes)
        for row, _ in nodes:
            result.add(self._view.name(row), outcomes[row])

    def run(self, nodes: Sequence[tuple[int, list[PodInfo]]]) -> dict[int, NodeOutcome]:
        """Try nodes; returns what came of each.

        Raises:
            OverBudgetError: it is more work than the attempt may be.
        """
        if self.charges and nodes:
            self._charge(nodes)
        try:
            return self._try(nodes)
        except PluginError as error:
            self.plugin_failed = True
            if len(nodes) > 1:
                # One node's trouble must not cost the others their turn.
                return {row: outcome for node in nodes for row, outcome in self.run([node]).items()}
            return {nodes[0][0]: NodeOutcome(error=str(error))}

    def _try(self, nodes: Sequence[tuple[int, list[PodInfo]]]) -> dict[int, NodeOutcome]:
        overlay = self._view.overlay()
        state = self.state.clone() if self._watched else self.state
        batch = PodBatch([(row, victim) for row, victims in nodes for victim in victims])
        together: dict[int, list[PreemptionUnit]] = {}
        if self._units is not None:
            together = {row: self._together(row, victims) for row, victims in nodes}
            self._charge_for_groups(itertools.chain.from_iterable(together.values()))
        self._move(state, overlay, batch, batch.all_indices(), -1)
        for row, units in together.items():
            self._move_elsewhere(state, overlay, row, units, -1)
        diagnosis = Diagnosis(len(nodes))
        fits = self._fits(state, overlay, [row for row, _ in nodes], diagnosis)
        outcomes = _rejections(diagnosis)
        tried: list[_Node] = []
        first = 0
        for row, victims in nodes:
            if row in fits:
                if shortage := self._rules.rejection_after_removal(state, row):
                    outcomes[row] = NodeOutcome(reasons=(shortage,))
                else:
                    index = {victim.uid: first + number for number, victim in enumerate(victims)}
                    units = together.get(row, [])
                    tried.append(self._node_of_units(row, units, index) if units else self._node(row, victims, index))
            first += len(victims)
        self._reprieve(state, overlay, batch, tried)
        for node in tried:
            outcomes[node.row] = self._outcome(node, batch)
        return outcomes

    def _node(self, row: int, victims: list[PodInfo], index: Mapping[str, int]) -> _Node:
        important = self._rules.by_importance(victims, self._view.now)
        violating, others = self.budgets.split(important)
        return _Node(row, [index[victim.uid] for victim in (*violating, *others)], len(violating))

    def _node_of_units(self, row: int, units: Sequence[PreemptionUnit], index: Mapping[str, int]) -> _Node:
        important = self._rules.units_by_importance(units, self._view.now)
        together: dict[int, _Together] = {}
        violating: list[int] = []
        others: list[int] = []
        for unit, violations in zip(important, self.budgets.count(important), strict=True):
            lead, *rest = [index[member.pod.uid] for member in unit.members if member.row == row]
            together[lead] = _Together(unit, rest, violations)
            (violating if violations else others).append(lead)
        return _Node(row, [*violating, *others], len(violating), together)

    def _move_elsewhere(
        self, state: CycleState, overlay: WhatIfView, row: int, units: Iterable[PreemptionUnit], sign: int
    ) -> None:
        """Tell the plugins of the pods on other nodes that go, or come back, with those of a node. Those nodes stay as
        they are: only this one is tried."""
        if not self._watched:
            return
        move = self._filters.run_add_pod if sign > 0 else self._filters.run_remove_pod
        for unit in units:
            for member in unit.members:
                if member.row not in (row, -1):
                    move(state, self._pod, member.pod, overlay, member.row)

    def _move(self, state: CycleState, overlay: WhatIfView, batch: PodBatch, indices: IntArray, sign: int) -> None:
        if not self._watched:
            overlay.move_pods(batch, indices, sign)
            return
        # A plugin that follows the moves sees the nodes as they are right after each.
        for index in indices.tolist():
            row, pod = batch.pods[index]
            if sign > 0:
                overlay.add_pod(pod, row)
                self._filters.run_add_pod(state, self._pod, pod, overlay, row)
            else:
                overlay.remove_pod(pod, row)
                self._filters.run_remove_pod(state, self._pod, pod, overlay, row)

    def _reprieve(self, state: CycleState, overlay: WhatIfView, batch: PodBatch, nodes: Sequence[_Node]) -> None:
        """Put pods back, one per node at a time, and remove those again beside which the preemptor does not fit.

        In upstream's order: those whose eviction breaks a budget first, each group by importance. So the least
        important pods are the victims, and budgets are kept where that is possible.
        """
        waiting = list(nodes)
        for turn in range(max((len(node.order) for node in waiting), default=0)):
            waiting = [node for node in waiting if turn < len(node.order) and not node.error]
            self._turn(state, overlay, batch, [(node, node.order[turn]) for node in waiting], 1)
            fits = self._fits(state, overlay, [node.row for node in waiting], Diagnosis(len(waiting)))
            going: list[tuple[_Node, int]] = []
            for node in waiting:
                index = node.order[turn]
                victim = batch.pods[index][1]
                try:
                    result = self._rules.reprieve(state, overlay, node.row, victim, node.row in fits)
                except NodeError as error:
                    node.error = str(error)
                    continue
                if result is ReprieveResult.REPRIEVED:
                    continue
                going.append((node, index))
                node.victims.append(index)
                if turn < node.violating and result is ReprieveResult.EVICTED:
                    node.violations += node.together[index].violations if node.together else 1
            self._turn(state, overlay, batch, going, -1)

    def _turn(
        self, state: CycleState, overlay: WhatIfView, batch: PodBatch, turns: Sequence[tuple[_Node, int]], sign: int
    ) -> None:
        """Put a pod per node back, or remove it, with those that go together with it."""
        indices = [index for _, index in turns]
        for node, index in turns if self._units is not None else ():
            if node.together:
                indices += node.together[index].others
                self._move_elsewhere(state, overlay, node.row, (node.together[index].unit,), sign)
        self._move(state, overlay, batch, np.array(indices, dtype=np.int64), sign)

    def _outcome(self, node: _Node, batch: PodBatch) -> NodeOutcome:
        if node.error:
            return NodeOutcome(error=node.error)
        if not node.victims and self._rules.kubernetes.offers_without_victims:
            if self._asks_extenders:
                return NodeOutcome(awaits_victims=True)
            return NodeOutcome(reasons=(NO_VICTIMS,))
        if not node.victims:
            # The pod fits without evicting anybody: what rejected it before looks at more than a trial can show.
            return NodeOutcome(error=f'expected at least one victim pod on node "{self._view.name(node.row)}"')
        now = self._view.now
        if node.together:
            units = self._rules.units_by_importance([node.together[index].unit for index in node.victims], now)
            return NodeOutcome(tuple(pod for unit in units for pod in unit.pods), node.violations)
        victims = [batch.pods[index][1] for index in node.victims]
        return NodeOutcome(tuple(self._rules.by_importance(victims, now)), node.violations)

    def _fits(self, state: CycleState, view: WhatIfView, rows: list[int], diagnosis: Diagnosis) -> Collection[int]:
        if not rows:
            return ()
        among: RowArray = np.array(rows, dtype=np.intp)
        return set(self._filters.run_filters_with_nominated(state, self._pod, view, among, diagnosis).tolist())


def _rejections(diagnosis: Diagnosis) -> dict[int, NodeOutcome]:
    """Return the outcomes of the rows that a diagnosis has rejected; equal ones are one object."""
    outcomes: dict[int, NodeOutcome] = {}
    for rejection in diagnosis.rejections:
        by_bits: dict[int, NodeOutcome] = {}
        for row, bits in zip(rejection.rows.tolist(), rejection.bits.tolist(), strict=True):
            outcome = by_bits.get(bits)
            if outcome is None:
                reasons = tuple(reason for bit, reason in enumerate(rejection.reasons) if bits >> bit & 1)
                outcome = by_bits[bits] = NodeOutcome(reasons=reasons)
            outcomes[row] = outcome
    return outcomes
