"""Which pods would have to be evicted for a pod to fit, and on which node that hurts least: nothing is touched here.

Follows pkg/scheduler/framework/preemption and plugins/defaultpreemption of kube-scheduler 1.34. Preempting plugins
differ in which pods they may evict and in what the eviction must achieve: these are their `VictimRules`.
"""

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct, field

from scheduler.catalog import DEFAULT_KUBERNETES, KubernetesVersion
from scheduler.framework import (
    Code,
    CycleState,
    NodeView,
    PodInfo,
    RandomSource,
    RowArray,
    unavailable,
)
from scheduler.preemption.groups import PlacedGroups, PreemptionUnit, UnitsInView, names_group

NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
PREEMPTED_REASON = "PreemptionByScheduler"
PRIORITY_SHIFT = 1 << 31
"""Added to each victim's priority before they are summed, as upstream: negative priorities would otherwise make many
victims cheaper than few."""
_UNITS = "preemption/units"
"""Key of `CycleState`."""


class NodeError(Exception):
    """A plugin cannot judge a node; the text goes into the pod's message."""


class ReprieveResult(Enum):
    """What becomes of a potential victim that was put back."""

    REPRIEVED = 0
    EVICTED = 1
    EVICTED_UNCOUNTED = 2
    """Evicted, and a PodDisruptionBudget that this breaks does not count (upstream's CapacityScheduling)."""


class VictimRules:
    """Which pods may be evicted for another one, and when enough are: here any of lower priority, until the filters
    pass (DefaultPreemption). A plugin with other rules overrides what differs.

    The evaluator calls the methods in the order in which they stand here: first whether the pod may preempt at all,
    then which nodes and pods come into question, then, with all potential victims of a node removed, whether the pod
    may run there, and last for each of them, put back, whether it must be evicted.

    Attributes:
        kubernetes: the version to behave as.
        groups: the PodGroups whose pods may be victims.
        keeps_groups_whole: whether pods that are to be preempted together are.
    """

    keeps_groups_whole = True

    def __init__(self, kubernetes: KubernetesVersion = DEFAULT_KUBERNETES) -> None:
        self.kubernetes = kubernetes
        self.groups = PlacedGroups(kubernetes)

    def units_in(self, state: CycleState, view: NodeView) -> UnitsInView | None:
        """Return which pods are preempted together; None where each is by itself."""
        if not (self.keeps_groups_whole and self.groups.exist()):
            return None
        units = state.read(_UNITS, UnitsInView)
        if units is None or units.view is not view:
            units = UnitsInView(self.groups, view)
            state.write(_UNITS, units)
        return units

    def blocks_preemption(self, state: CycleState, pod: PodInfo, other: PodInfo) -> bool:
        """Tell whether a pod on the nominated node is terminating for this one, which then waits and does not
        preempt."""
        return other.priority < pod.priority and is_preempted(other)

    def rows_with_victims(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> RowArray:
        """Return the rows among these that may have potential victims, in their order: a quick selection by column."""
        return rows[view.lowest_priority[rows] < pod.priority]

    def potential_victims(self, state: CycleState, pod: PodInfo, view: NodeView, row: int) -> list[PodInfo]:
        """Return the pods of a node that may be evicted; what goes with them has the same priority.

        Raises:
            NodeError: that cannot be judged.
        """
        return [other for other in view.pods_on(row) if other.priority < pod.priority]

    def with_their_groups(
        self,
        state: CycleState,
        view: NodeView,
        row: int,
        others: list[PodInfo],
        may_go: Callable[[PreemptionUnit], bool],
    ) -> list[PodInfo]:
        """Return those of some pods of a node that may be evicted with all that would have to go with them."""
        if not any(names_group(other) for other in others):
            return others
        units = self.units_in(state, view)
        return others if units is None else units.whole(row, others, may_go)

    def no_victims_reasons(self, pod: PodInfo, nodes: Sequence[str]) -> Iterable[str]:
        """Yield the reason for each node without potential victims."""
        return itertools.repeat(NO_VICTIMS, len(nodes))

    def rejection_after_removal(self, state: CycleState, row: int) -> str:
        """Return why the pod may not run on a node from which all candidates are gone, though it fits; "" if it may."""
        return ""

    def reprieve(self, state: CycleState, view: NodeView, row: int, other: PodInfo, fits: bool) -> ReprieveResult:
        """Decide on a pod that has been put back, given whether the preemptor fits beside it.

        Raises:
            NodeError: that cannot be judged; the node is no candidate then.
        """
        return ReprieveResult.REPRIEVED if fits else ReprieveResult.EVICTED

    def start_of_unstarted(self, now: float) -> float:
        """Return when a pod that has not started counts as started: now; since 1.38 after all others."""
        return math.inf if self.kubernetes.lasting_victim_order else now

    def by_importance(self, pods: Iterable[PodInfo], now: float) -> list[PodInfo]:
        """Return pods with the most important first: by priority, since 1.37 those of PodGroups before others, then by
        age, since 1.38 then by UID (MoreImportantPod, MoreImportantVictim)."""
        unstarted = self.start_of_unstarted(now)
        ordered = sorted(pods, key=lambda pod: pod.uid) if self.kubernetes.lasting_victim_order else pods
        rank = self.groups.rank
        return sorted(ordered, key=lambda pod: (-pod.priority, -rank(pod), start_time(pod, unstarted)))

    def units_by_importance(self, units: Iterable[PreemptionUnit], now: float) -> list[PreemptionUnit]:
        """The same of what is preempted together: the one with more pods before its age counts."""
        unstarted = self.start_of_unstarted(now)
        return sorted(units, key=lambda unit: unit.importance(unstarted))


class Candidate(Struct, frozen=True):
    """A node on which the pod fits without these pods, the most important first; `violations` of them break a
    PodDisruptionBudget. Before extenders have been asked, there may be none."""

    node: str
    victims: tuple[PodInfo, ...]
    violations: int


class NodeOutcome(NamedTuple):
    """What came of trying one node: a candidate's victims, the most important first, and how many of them break a
    PodDisruptionBudget; without any, the reasons why not, or an error, or that an extender may name some."""

    victims: tuple[PodInfo, ...] = ()
    violations: int = 0
    reasons: tuple[str, ...] = ()
    error: str = ""
    awaits_victims: bool = False


class DryRunResult(Struct):
    """What came of trying nodes: candidates, and for the others how many there are and why not."""

    candidates: list[Candidate] = field(default_factory=list)
    rejected: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def add(self, node: str, outcome: NodeOutcome) -> None:
        """Note what came of a node."""
        if outcome.error:
            self.fail(outcome.error)
        elif outcome.victims or outcome.awaits_victims:
            self.candidates.append(Candidate(node, outcome.victims, outcome.violations))
        else:
            self.reject(outcome.reasons)

    def reject(self, reasons: Iterable[str], nodes: int = 1) -> None:
        """Note nodes where preemption does not help, all for the same reasons."""
        self.rejected += nodes
        for reason in reasons:
            self.reasons[reason] += nodes

    def fail(self, error: str) -> None:
        """Note a node that could not be judged."""
        self.reject((error,))
        if error not in self.errors:
            self.errors.append(error)

    @property
    def error(self) -> str:
        """Return the different errors as Go's aggregate words them; "" without any."""
        return self.errors[0] if len(self.errors) == 1 else f"[{', '.join(self.errors)}]" if self.errors else ""

    def enough(self, limit: int) -> bool:
        """Tell whether the search may end: so many candidates, and one that breaks no budget."""
        return len(self.candidates) >= limit and any(not candidate.violations for candidate in self.candidates)

    def message(self, total: int) -> str:
        """Return the text for the pod when there is no candidate among `total` nodes."""
        reasons = Counter(self.reasons)
        reasons[NOT_HELPFUL] += total - self.rejected
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
    if row >= 0 and any(rules.blocks_preemption(state, pod, other) for other in view.pods_on(row)):
        return LEAVING
    return None


def is_preempted(pod: PodInfo) -> bool:
    """Tell whether a pod is terminating for one that preempted it."""
    if not pod.deleting:
        return False
    for condition in pod.conditions:
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == PREEMPTED_REASON
    return False


def choose(candidates: Sequence[Candidate], unstarted: float, rng: RandomSource) -> Candidate:
    """Return the candidate that hurts least (pickOneNodeForPreemption); equals are drawn from. `unstarted`: when pods
    count as started that have not."""
    keys = [disruption(candidate, unstarted) for candidate in candidates]
    least = min(keys)
    best = [candidate for candidate, key in zip(candidates, keys, strict=True) if key == least]
    return best[int(rng.random() * len(best))]


def disruption(candidate: Candidate, unstarted: float) -> tuple[int, int, int, int, float]:
    """Return what candidates are compared by, the one that hurts least first; `unstarted`: when pods count as started
    that have not."""
    victims = candidate.victims
    highest = victims[0].priority
    total = sum(victim.priority + PRIORITY_SHIFT for victim in victims)
    earliest = min(start_time(victim, unstarted) for victim in victims if victim.priority == highest)
    return candidate.violations, highest, total, len(victims), -earliest


def start_time(pod: PodInfo, unstarted: float) -> float:
    """Return when a pod started; `unstarted` for one that has not."""
    return unstarted if math.isnan(pod.started_at) else pod.started_at
