"""Rule 2, and the part of rule 3 that concerns one move: only with a plan that makes the cluster better.

The scheduler itself names another node, which is better by the minimum gain; that node stays below its threshold with
the pod's share; the first node was overloaded for several rounds in a row; and the load becomes more even, between the
two and over all nodes. A pod that would overload every node stays. Nothing lifts this.

Rules 5, 6 and 7: how fast pods are moved, and when to stop.

5: one move in flight per workload, and none while it rolls out, scales or has unready pods; a node gives or takes the
next pod only once its last move has been placed and a load window has passed, as only then its load shows it. Nor while
KubeVirt moves a virtual machine from or to it: that takes its share of the load along.
6: budgets per interval, taken before the call, and derived from what the cluster shows after a restart.
7: a move that ends on another node than planned doubles the workload's cooldown; three in a row stop everything.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.config import RebalanceSettings
from scheduler.framework import NodeInfo, PodInfo
from secondary_scheduler.rebalancing.history import ROUNDS_TO_STOP, History, PastMove, was_evicted
from secondary_scheduler.rebalancing.loads import NodeLoads, Share, unevenness
from secondary_scheduler.rebalancing.objects import WorkloadState
from secondary_scheduler.rebalancing.oracle import Verdict
from secondary_scheduler.rebalancing.rules.reasons import Reason, Refusal

_MACHINE = "VirtualMachineInstance"


def settled(workload: WorkloadState, history: History) -> Refusal | None:
    """Return what rule 5 says of a pod's workload."""
    moving = next((move for move in history.moves if move.in_flight and move.workload == workload.key), None)
    if moving is not None:
        return Refusal(Reason.IN_FLIGHT, moving.pod)
    # Last: a pod that was just evicted makes its workload unsettled, too.
    return Refusal(Reason.UNSETTLED, f"{workload.title}: {workload.unsettled}") if workload.unsettled else None


def node_settled(node: str, history: History, *, window: float, now: float) -> Refusal | None:
    """Return what rule 5 says of a node that would give or take a pod."""
    for move in reversed(history.moves):
        if node in (move.source, move.target) and (move.in_flight or now - move.ended_at < window):
            return Refusal(Reason.NODE_SETTLING, f"{node}, by the move of {move.pod}")
    return None


def nodes_of_moving_machines(pods: Iterable[PodInfo]) -> Mapping[str, Refusal]:
    """Return the nodes from or to which KubeVirt moves a virtual machine, each with what rule 5 says of it.

    A live migration is a second pod of the same VirtualMachineInstance.

    Args:
        pods: that have not ended, on nodes and pending.
    """
    launchers: defaultdict[str, list[PodInfo]] = defaultdict(list)
    for pod in pods:
        if pod.controller is not None and pod.controller.kind == _MACHINE:
            launchers[pod.controller.uid].append(pod)
    return {
        pod.node_name: Refusal(Reason.MACHINE_MOVES, f"{pod.node_name}: {pod.namespace}/{pod.controller.name}")
        for group in launchers.values()
        for pod in group
        if len(group) > 1 and pod.node_name and pod.controller is not None
    }


def cooled_down(workload: WorkloadState, history: History, settings: RebalanceSettings, now: float) -> Refusal | None:
    """Return what rule 7 says of a pod's workload."""
    end = history.cooldown_end(
        workload.key,
        first=settings.cooldown_seconds,
        longest=settings.max_cooldown_seconds,
        window=settings.history_window_seconds,
        now=now,
    )
    return Refusal(Reason.COOLDOWN, f"{workload.title} for {end - now:.0f} s more") if now < end else None


def predictions_hold(history: History) -> Refusal | None:
    """Return what rule 7 says of a round: whether the last moves landed where they were to."""
    missed = history.missed_in_a_row()
    if missed < ROUNDS_TO_STOP:
        return None
    return Refusal(Reason.PREDICTION_FAILS, f"{missed} in a row; somebody must look why")


@dataclass(slots=True)
class MoveBudget:
    """What rule 6 leaves of an interval.

    A pod that is on its way out by an eviction counts as one in all, whoever evicted it: after a restart that is what
    the cluster shows.
    """

    settings: RebalanceSettings
    total: int = 0
    nodes: Counter[str] = field(default_factory=Counter)
    namespaces: Counter[str] = field(default_factory=Counter)
    workloads: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    @classmethod
    def of_interval(
        cls, settings: RebalanceSettings, history: History, pods: Iterable[PodInfo], now: float
    ) -> MoveBudget:
        """Return what the moves of the last interval, and the evictions under way, leave."""
        budget = cls(settings)
        recorded = set()
        for move in history.since(settings.interval_seconds, now):
            recorded.add(move.uid)
            budget.take(move)
        for pod in pods:
            if was_evicted(pod) and pod.uid not in recorded:
                budget.total += 1
                budget.nodes[pod.node_name] += 1
        return budget

    def refusal(self, workload: WorkloadState, source: str, target: str) -> Refusal | None:
        """Return which limit forbids a move."""
        return next(self._exceeded(workload, source, target), None)

    def take(self, move: PastMove) -> None:
        """Count a move; before it is asked for."""
        self.total += 1
        self.nodes.update((move.source, move.target))
        self.namespaces[move.workload[1]] += 1
        self.workloads[move.workload] += 1

    @property
    def exhausted(self) -> bool:
        """Whether nothing more may be moved in this interval."""
        return self.total >= self.settings.eviction_limits.total

    def _exceeded(self, workload: WorkloadState, source: str, target: str) -> Iterator[Refusal]:
        limits = self.settings.eviction_limits
        if self.exhausted:
            yield Refusal(Reason.LIMIT, f"total {limits.total}")
        for node in (source, target):
            if self.nodes[node] >= limits.node:
                yield Refusal(Reason.LIMIT, f"node {limits.node}, of {node}")
        namespace = workload.key[1]
        if limits.namespace is not None and self.namespaces[namespace] >= limits.namespace:
            yield Refusal(Reason.LIMIT, f"namespace {limits.namespace}, of {namespace}")
        if self.workloads[workload.key] >= limits.of_workload(workload.replicas):
            yield Refusal(Reason.LIMIT, f"workload {limits.workload}, of {workload.title}")


LEAVING = frozenset(
    {"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted"}
)
"""Taints of nodes that an autoscaler is about to remove."""
_TENTH = 10
_SLIGHTEST = 1e-9


@dataclass(frozen=True, slots=True)
class TargetRules:
    """What a node must be to take a pod.

    Attributes:
        created: when nodes were made, seconds since the epoch; a node that is missing is old.
        window: seconds of load that a node must have behind it.
    """

    created: Mapping[str, float]
    window: float
    now: float

    def refusal(self, node: NodeInfo) -> Refusal | None:
        """Return why a node does not count as a target, whatever the scheduler thinks of it."""
        if taint := leaving(node):
            return Refusal(Reason.TARGET_UNFIT, f"{node.name} has the taint {taint}")
        if self.now - self.created.get(node.name, -math.inf) < self.window:
            return Refusal(Reason.TARGET_UNFIT, f"{node.name} is younger than {self.window:.0f} s")
        return None


def leaving(node: NodeInfo) -> str:
    """Return the taint by which an autoscaler removes a node; "" without."""
    return next((taint.key for taint in node.taints if taint.key in LEAVING), "")


def left_alone(node: NodeInfo) -> Refusal | None:
    """Return why no pod is taken from a node: somebody else empties it."""
    if node.unschedulable:
        return Refusal(Reason.NODE_IS_LEFT_ALONE, f"{node.name} is cordoned")
    if taint := leaving(node):
        return Refusal(Reason.NODE_IS_LEFT_ALONE, f"{node.name} has the taint {taint}")
    return None


def overloaded_long_enough(node: str, history: History, settings: RebalanceSettings) -> Refusal | None:
    """Return whether a node was overloaded for too few rounds; the history has this round already."""
    rounds, needed = history.overloaded.get(node, 0), settings.consecutive_abnormalities
    if not history.known or rounds >= needed:
        return None
    return Refusal(Reason.NOT_LONG_ENOUGH, f"{node} in {rounds} of {needed} rounds")


def share_is_known(share: Share, exceeded: tuple[str, ...]) -> Refusal | None:
    """Return whether nobody knows what the pod uses of that of which its node has too little."""
    unknown = [resource for resource in exceeded if resource in share.assumed]
    if not unknown:
        return None
    return Refusal(Reason.NO_SHARE, f"neither PodMetrics nor requests of {' and '.join(unknown)}")


def choice(verdict: Verdict, settings: RebalanceSettings) -> Refusal | None:
    """Return why the scheduler's own decision is no reason to move a pod."""
    if verdict.node is None:
        return Refusal(Reason.FITS_NOWHERE, verdict.message)
    gain = verdict.gain
    if gain is None:
        return Refusal(Reason.STAYS)
    needed = minimum_gain(gain.attainable, settings)
    # Where the scheduler would not even let it, any other node is better.
    if not gain.refused_by and gain.total < needed:
        return Refusal(Reason.SMALL_GAIN, f"{gain.total} points, and {needed} are needed")
    return Refusal(Reason.UNSURE, verdict.unsure) if verdict.unsure else None


def minimum_gain(attainable: int, settings: RebalanceSettings) -> int:
    """Return by how many points another node must be better; at least 1."""
    if settings.minimum_gain is not None:
        return settings.minimum_gain
    return max(1, -(-attainable // _TENTH))


def effect_on_pair(loads: NodeLoads, share: Share, source: str, target: str) -> Refusal | None:
    """Return why a move would not make the load of both nodes better; it must be fresh (rule 3)."""
    for node in (source, target):
        if not loads.is_measured(node):
            return Refusal(Reason.STALE_LOAD, node)
    source_after, target_after = loads.after(share, source, target)
    over = loads.limits.exceeded(target_after)
    if over:
        figures = ", ".join(f"{resource} {target_after[resource]:.0f} %" for resource in over)
        return Refusal(Reason.TARGET_OVERLOADED, f"{target} would have {figures}")
    for resource in loads.limits.exceeded(loads.of(source)):
        before = abs(loads.of(source)[resource] - loads.of(target)[resource])
        after = abs(source_after[resource] - target_after[resource])
        if after >= before - _SLIGHTEST:
            return Refusal(
                Reason.NO_BETTER_SPREAD, f"{resource} of {source} and {target} apart by {before:.0f} → {after:.0f}"
            )
    return None


def effect_on_all(loads: NodeLoads, share: Share, source: str, target: str) -> Refusal | None:
    """Return why a move would not make the load of all nodes more even."""
    source_after, target_after = loads.after(share, source, target)
    before = unevenness(loads.spread())
    after = unevenness(loads.spread({source: source_after, target: target_after}))
    if after < before - _SLIGHTEST:
        return None
    return Refusal(Reason.NO_BETTER_SPREAD, f"of all nodes: standard deviation {before:.1f} → {after:.1f}")
