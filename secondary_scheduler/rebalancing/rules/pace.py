"""Rules 5, 6 and 7: how fast pods are moved, and when to stop.

5: one move in flight per workload, and none while it rolls out, scales or has unready pods; a node gives or takes the
next pod only once its last move has been placed and a load window has passed, as only then its load shows it. Nor while
KubeVirt moves a virtual machine from or to it: that takes its share of the load along.
6: budgets per interval, taken before the call, and derived from what the cluster shows after a restart.
7: a move that ends on another node than planned doubles the workload's cooldown; three in a row stop everything.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.config import RebalanceSettings
from scheduler.framework import PodInfo
from secondary_scheduler.rebalancing.history import ROUNDS_TO_STOP, History, PastMove, was_evicted
from secondary_scheduler.rebalancing.objects import WorkloadState
from secondary_scheduler.rebalancing.rules.reasons import MoveRefusal, Reason

_MACHINE = "VirtualMachineInstance"


def settled(workload: WorkloadState, history: History) -> MoveRefusal | None:
    """Return what rule 5 says of a pod's workload."""
    moving = next((move for move in history.moves if move.in_flight and move.workload == workload.key), None)
    if moving is not None:
        return MoveRefusal(Reason.IN_FLIGHT, moving.pod)
    # Last: a pod that was just evicted makes its workload unsettled, too.
    return MoveRefusal(Reason.UNSETTLED, f"{workload.title}: {workload.unsettled}") if workload.unsettled else None


def node_settled(node: str, history: History, *, window: float, now: float) -> MoveRefusal | None:
    """Return what rule 5 says of a node that would give or take a pod."""
    for move in reversed(history.moves):
        if node in (move.source, move.target) and (move.in_flight or now - move.ended_at < window):
            return MoveRefusal(Reason.NODE_SETTLING, f"{node}, by the move of {move.pod}")
    return None


def nodes_of_moving_machines(pods: Iterable[PodInfo]) -> Mapping[str, MoveRefusal]:
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
        pod.node_name: MoveRefusal(Reason.MACHINE_MOVES, f"{pod.node_name}: {pod.namespace}/{pod.controller.name}")
        for group in launchers.values()
        for pod in group
        if len(group) > 1 and pod.node_name and pod.controller is not None
    }


def cooled_down(
    workload: WorkloadState, history: History, settings: RebalanceSettings, now: float
) -> MoveRefusal | None:
    """Return what rule 7 says of a pod's workload."""
    end = history.cooldown_end(
        workload.key,
        first=settings.cooldown_seconds,
        longest=settings.max_cooldown_seconds,
        window=settings.history_window_seconds,
        now=now,
    )
    return MoveRefusal(Reason.COOLDOWN, f"{workload.title} for {end - now:.0f} s more") if now < end else None


def predictions_hold(history: History) -> MoveRefusal | None:
    """Return what rule 7 says of a round: whether the last moves landed where they were to."""
    missed = history.missed_in_a_row()
    if missed < ROUNDS_TO_STOP:
        return None
    return MoveRefusal(Reason.PREDICTION_FAILS, f"{missed} in a row; somebody must look why")


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

    def refusal(self, workload: WorkloadState, source: str, target: str) -> MoveRefusal | None:
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

    def _exceeded(self, workload: WorkloadState, source: str, target: str) -> Iterator[MoveRefusal]:
        limits = self.settings.eviction_limits
        if self.exhausted:
            yield MoveRefusal(Reason.LIMIT, f"total {limits.total}")
        for node in (source, target):
            if self.nodes[node] >= limits.node:
                yield MoveRefusal(Reason.LIMIT, f"node {limits.node}, of {node}")
        namespace = workload.key[1]
        if limits.namespace is not None and self.namespaces[namespace] >= limits.namespace:
            yield MoveRefusal(Reason.LIMIT, f"namespace {limits.namespace}, of {namespace}")
        if self.workloads[workload.key] >= limits.of_workload(workload.replicas):
            yield MoveRefusal(Reason.LIMIT, f"workload {limits.workload}, of {workload.title}")
