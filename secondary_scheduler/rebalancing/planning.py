"""A plan: which pods to move, in which order, so that each sees the moves before it. It changes the state it gets.

A round takes the overloaded nodes, worst first, and of each the pod that relieves it best. One move per node and
workload and round: the next one needs a load that shows this one (rule 5). Several rounds are what would follow if the
load moved with the pods and nothing else changed.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.config import RebalanceSettings
from scheduler.framework import NodeInfo, PodInfo
from scheduler.kube.model import Namespace, PodDisruptionBudget
from secondary_scheduler.balance import node_figures
from secondary_scheduler.rebalancing.history import History, PastMove
from secondary_scheduler.rebalancing.loads import ClusterLoads, Loads, LoadThresholds, PodShare, share_of
from secondary_scheduler.rebalancing.objects import ClusterFacts, Workloads
from secondary_scheduler.rebalancing.oracle import Gain, MoveVerdict, Oracle
from secondary_scheduler.rebalancing.rules import health as health_rules, moves as move_rules, pace
from secondary_scheduler.rebalancing.rules.evictions import Disruptions
from secondary_scheduler.rebalancing.rules.health import SchedulerHealth
from secondary_scheduler.rebalancing.rules.pods import PodRules
from secondary_scheduler.rebalancing.rules.reasons import MoveRefusal, Reason

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node's load before and after a move, in per cent of its capacity by resource."""

    name: str
    before: Loads
    after: Loads


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """A pod to evict, and where the scheduler will put its replacement.

    Attributes:
        round: from 1; a round begins once the moves before it show in the load.
        pod: `namespace/name`.
        workload: kind, namespace, name.
        best: the nodes that the scheduler may choose among; all of them were checked.
        minimum_gain: points that were needed.
        share: what the pod uses.
        forbids_next: why no other pod of the same node is moved in this round.
    """

    round: int
    pod: str
    uid: str
    workload: tuple[str, str, str]
    source: NodeChange
    target: NodeChange
    best: tuple[str, ...]
    gain: Gain
    minimum_gain: int
    share: PodShare
    forbids_next: str

    @property
    def equally_good(self) -> int:
        """How many nodes the scheduler may choose among."""
        return len(self.best)


@dataclass(slots=True)
class Stays:
    """Pods that are not moved for one reason."""

    count: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)
    """Some of the pods, each with its case."""


@dataclass(slots=True)
class PlanSummary:
    """A round as it was found, or what came of several.

    Attributes:
        limits: thresholds in per cent, by resource.
        spread: standard deviation of the load over the nodes, in points by resource.
        overloaded: nodes above a threshold, worst first.
        with_room: number of nodes below all low thresholds.
    """

    limits: LoadThresholds
    spread: Mapping[str, float]
    overloaded: tuple[str, ...]
    with_room: int


@dataclass(slots=True)
class RebalancePlan:
    """All rounds.

    Attributes:
        stopped: why the last round moved nothing at all; empty if its pods were judged one by one.
        stays: pods that are not moved, by reason, as the last round found them.
        before, after: the nodes before the first round and after the last; None without load.
        assumptions: what could not be known and was taken for granted, in words.
        pods: how many are on nodes.
    """

    moves: list[PlannedMove] = field(default_factory=list)
    stopped: list[MoveRefusal] = field(default_factory=list)
    stays: dict[Reason, Stays] = field(default_factory=dict)
    before: PlanSummary | None = None
    after: PlanSummary | None = None
    assumptions: list[str] = field(default_factory=list)
    pods: int = 0
    rounds: int = 0

    def note(self, pod: str, refusal: MoveRefusal) -> None:
        """Count a pod that stays."""
        entry = self.stays.setdefault(refusal.reason, Stays())
        entry.count += 1
        if len(entry.examples) < _EXAMPLES:
            entry.examples.append((pod, refusal.detail))

    @property
    def counts(self) -> Counter[Reason]:
        """Pods that stay, by reason."""
        return Counter({reason: entry.count for reason, entry in self.stays.items()})


MAX_ROUNDS = 100
MAX_TRIES = 500
"""Decisions about pods in a round, which bounds its time."""
MAX_NODE_TRIES = 50


@dataclass(frozen=True, slots=True)
class PlanInput:
    """What a plan is made from, beside the state and the load, which the oracle has.

    Attributes:
        pending: pods of our schedulers that wait for a node.
        history: what was before; also the memory of the rounds of a plan.
        health: of the scheduler that runs; None where none does, as on a snapshot.
        own_namespaces: where the scheduler and the rebalancer run.
        evicts: whether moves are carried out; a plan that is only looked at goes on after moves that missed.
        max_age: seconds after which a measurement is not used.
        window: seconds that a measured load is averaged over.
    """

    settings: RebalanceSettings
    facts: ClusterFacts
    pending: Sequence[PodInfo]
    served: tuple[str, ...]
    max_age: float
    window: float
    history: History
    health: SchedulerHealth | None = None
    own_namespaces: frozenset[str] = frozenset()
    evicts: bool = True


def make_plan(situation: PlanInput, oracle: Oracle, rounds: int = 1) -> RebalancePlan:
    """Return the plan of one round, or of so many; it ends with the first that moves nothing.

    Args:
        situation: what it is made from.
        oracle: decides as the scheduler does; the moves are made in its state.
        rounds: at most `MAX_ROUNDS`.
    """
    plan = RebalancePlan(pods=oracle.state.pod_count)
    history = situation.history
    done: set[str] = set()
    for number in range(1, min(rounds, MAX_ROUNDS) + 1):
        plan.rounds = number
        plan.stays.clear()
        oracle.begin_round()
        current = _PlanRound(replace(situation, history=history), oracle, plan, number, done)
        if plan.before is None:
            plan.before = current.summary()
            plan.assumptions += _assumptions(situation, current.workloads)
        moved = current.run()
        plan.after = current.summary()
        if not moved:
            break
        # The next round begins once all of this shows in the load: nothing is in flight, and no node settles.
        history = replace(situation.history, overloaded=current.history.overloaded)
    return plan


class _PlanRound:
    def __init__(self, situation: PlanInput, oracle: Oracle, plan: RebalancePlan, number: int, done: set[str]) -> None:
        self._situation, self._settings, self._facts = situation, situation.settings, situation.facts
        self._oracle, self._state, self._now = oracle, oracle.state, oracle.now
        self._plan, self._number, self._done = plan, number, done
        pods = self._state.pods()
        self._pods = pods
        self._pods_by_node: defaultdict[str, list[PodInfo]] = defaultdict(list)
        for pod in pods:
            self._pods_by_node[pod.node_name].append(pod)
        infos = map(self._state.node, self._state.node_names)
        self._nodes = {info.name: info for info in infos if info is not None}
        self.workloads = Workloads([*pods, *situation.pending], situation.facts.workloads)
        self._rules = PodRules(
            self._settings,
            self._facts,
            self.workloads,
            frozenset(situation.served),
            situation.own_namespaces,
            {
                item.metadata.name: item.metadata.annotations
                for item in self._every("Namespace")
                if isinstance(item, Namespace)
            },
        )
        self._targets = move_rules.TargetRules(self._facts.node_created, situation.window, self._now)
        self._disruptions = Disruptions(
            item for item in self._every("PodDisruptionBudget") if isinstance(item, PodDisruptionBudget)
        )
        self._budget = pace.MoveBudget.of_interval(self._settings, situation.history, pods, self._now)
        # Also pods of other schedulers, which the machines of a node may be.
        self._moving = pace.nodes_of_moving_machines([*pods, *situation.pending])
        self._tries = 0
        self._loads = self._measured()
        self.history = situation.history.after_round(self._loads.overloaded)

    def run(self) -> int:
        """Plan the moves of this round; returns how many there are."""
        self._plan.stopped = list(self._stops())
        overloaded = self._loads.overloaded
        before = len(self._plan.moves)
        if not self._plan.stopped:
            for node in overloaded:
                self._relieve(node)
        for pod in self._pods:
            if pod.node_name not in overloaded:
                self._plan.note(pod.key, self._reason_elsewhere(pod))
            elif self._plan.stopped:
                self._plan.note(pod.key, self._plan.stopped[0])
        return len(self._plan.moves) - before

    def summary(self) -> PlanSummary:
        """Return the nodes as they are now."""
        loads = self._loads
        return PlanSummary(loads.limits, loads.spread(), tuple(loads.overloaded), len(loads.with_room(self._open())))

    def _reason_elsewhere(self, pod: PodInfo) -> MoveRefusal:
        """Why a pod stays whose node is not overloaded."""
        if pod.scheduler_name not in self._situation.served:
            return MoveRefusal(Reason.OTHER_SCHEDULER, pod.scheduler_name)
        has_node = self._state.node(pod.node_name) is not None
        if has_node and self._loads.limits.resources and not self._loads.is_measured(pod.node_name):
            return MoveRefusal(Reason.STALE_LOAD, pod.node_name)
        return MoveRefusal(Reason.NODE_NOT_OVERLOADED, pod.node_name)

    def _stops(self) -> Iterator[MoveRefusal]:
        situation, pending = self._situation, [pod for pod in self._situation.pending if not pod.spec.gates]
        ours = sum(pod.scheduler_name in situation.served for pod in self._pods) + len(pending)
        stale = health_rules.freshness(self._loads, situation.health)
        if stale is not None:
            yield stale
        yield from health_rules.stability(situation.health, pods=ours, pending=len(pending), nodes=self._nodes.values())
        wrong = pace.predictions_hold(situation.history)
        if wrong is not None and situation.evicts:
            yield wrong
        if stale is None and self._loads.overloaded and not self._loads.with_room(self._open()):
            low = ", ".join(f"{resource} {value:.0f} %" for resource, value in self._loads.limits.low.items())
            yield MoveRefusal(Reason.NO_ROOM, f"none is below all thresholds ({low})")

    def _relieve(self, node: str) -> None:
        """Plan the move of one pod of an overloaded node, if any may go."""
        info = self._nodes[node]
        everyone = (
            move_rules.left_alone(info)
            or move_rules.overloaded_long_enough(node, self.history, self._settings)
            or pace.node_settled(node, self.history, window=self._situation.window, now=self._now)
            or self._moving.get(node)
            or (MoveRefusal(Reason.LIMIT, self._limit_text()) if self._budget.exhausted else None)
        )
        moved, tries = "", 0
        for pod, share in self._candidates(info):
            refusal = everyone or self._pod_refusal(pod, share)
            if refusal is None and (tries >= MAX_NODE_TRIES or self._tries >= MAX_TRIES):
                refusal = MoveRefusal(Reason.NOT_TRIED)
            if refusal is None:
                tries, self._tries = tries + 1, self._tries + 1
                verdict = self._oracle.judge(pod, share)
                refusal = self._verdict_refusal(pod, share, verdict)
                if refusal is None:
                    everyone = self._move(pod, share, verdict)
                    moved = pod.uid
            if pod.uid != moved and refusal is not None:
                self._plan.note(pod.key, refusal)

    def _candidates(self, node: NodeInfo) -> list[tuple[PodInfo, PodShare]]:
        """The pods of a node with their shares, those first that relieve it best.

        A pod that is enough by itself goes before others: of those the one with the lowest priority, then the smallest.
        Where none is enough, the largest relieves the node with the fewest moves.
        """
        loads, limits = self._loads.of(node.name), self._loads.limits
        worst = max(limits.high, key=lambda resource: loads[resource] - limits.high[resource])
        excess = loads[worst] - limits.high[worst]

        def rank(candidate: tuple[PodInfo, PodShare]) -> tuple[float, float, float, str]:
            pod, share = candidate
            relief = share.per_cent(node)[worst]
            if relief >= excess:
                return 0.0, float(pod.priority), relief, pod.key
            return 1.0, 0.0 if math.isnan(relief) else -relief, float(pod.priority), pod.key

        usage, max_age = self._facts.usage, self._situation.max_age
        pods = self._pods_by_node[node.name]
        shares = [(pod, share_of(pod, usage, node, loads, self._now, max_age)) for pod in pods]
        return sorted(shares, key=rank)

    def _pod_refusal(self, pod: PodInfo, share: PodShare) -> MoveRefusal | None:
        """Why a pod of an overloaded node stays, before the scheduler is asked."""
        refusal = self._rules.refusal(pod, self._now)
        if refusal is not None:
            return refusal
        workload = self.workloads.of(pod)
        assert workload is not None  # rule 1: it has a controller
        if pod.uid in self._done:
            return MoveRefusal(Reason.MOVED)
        if self._oracle.has_gang(pod):
            return MoveRefusal(Reason.GANG)
        if self._oracle.asks_others(pod):
            return MoveRefusal(Reason.EXTENDER)
        exceeded = self._loads.limits.exceeded(self._loads.of(pod.node_name))
        return (
            pace.settled(workload, self.history)
            or pace.cooled_down(workload, self.history, self._settings, self._now)
            or self._disruptions.refusal(pod, without_any=self._settings.evict_pods_without_pdb)
            or move_rules.share_is_known(share, exceeded)
        )

    def _verdict_refusal(self, pod: PodInfo, share: PodShare, verdict: MoveVerdict) -> MoveRefusal | None:
        """Why a pod stays, once the scheduler was asked. Each node that it may choose must be one that may be."""
        refusal = move_rules.choice(verdict, self._settings)
        if refusal is not None:
            return refusal
        workload = self.workloads.of(pod)
        assert workload is not None
        assert verdict.node is not None  # else `choice` refuses
        window = self._situation.window
        for name in verdict.best:
            refusal = (
                self._targets.refusal(self._nodes[name])
                or pace.node_settled(name, self.history, window=window, now=self._now)
                or self._moving.get(name)
                or move_rules.effect_on_pair(self._loads, share, pod.node_name, name)
                or self._budget.refusal(workload, pod.node_name, name)
            )
            if refusal is not None:
                return refusal
        return move_rules.effect_on_all(self._loads, share, pod.node_name, verdict.node)

    def _move(self, pod: PodInfo, share: PodShare, verdict: MoveVerdict) -> MoveRefusal:
        """Make a move; returns why no other pod of the node is moved in this round."""
        workload = self.workloads.of(pod)
        target, gain = verdict.node, verdict.gain
        assert workload is not None
        assert target is not None
        assert gain is not None
        source = pod.node_name
        before = {name: dict(self._loads.of(name)) for name in (source, target)}
        past = PastMove(workload.key, pod.key, pod.uid, source, target, self._now)
        self._budget.take(past)
        self._disruptions.take(pod)
        self._done.add(pod.uid)
        self._oracle.move(pod, target, share)
        self._loads = self._measured()
        self.history = self.history.with_move(past)
        next_refusal = self._next_refusal(source, past)
        changes = [NodeChange(name, before[name], dict(self._loads.of(name))) for name in (source, target)]
        needed = move_rules.minimum_gain(gain.attainable, self._settings)
        self._plan.moves.append(
            PlannedMove(
                self._number,
                pod.key,
                pod.uid,
                workload.key,
                changes[0],
                changes[1],
                verdict.best,
                gain,
                needed,
                share,
                next_refusal.message,
            )
        )
        return next_refusal

    def _next_refusal(self, source: str, past: PastMove) -> MoveRefusal:
        if not self._loads.limits.exceeded(self._loads.of(source)):
            return MoveRefusal(Reason.NODE_NOT_OVERLOADED, f"{source}, after the move of {past.pod}")
        if self._budget.exhausted:
            return MoveRefusal(Reason.LIMIT, self._limit_text())
        return MoveRefusal(Reason.NODE_SETTLING, f"{source}, by the move of {past.pod}")

    def _limit_text(self) -> str:
        return f"total {self._settings.eviction_limits.total}"

    def _measured(self) -> ClusterLoads:
        """The load as it is now, of nodes whose load is fresh."""
        reading = self._oracle.reading
        fresh = replace(reading, loads=reading.fresh_loads(self._now, self._situation.max_age))
        return ClusterLoads(node_figures(self._state, fresh, self._now), self._nodes, self._settings)

    def _open(self) -> list[str]:
        """Nodes that may take pods."""
        return [
            name for name, info in self._nodes.items() if not info.unschedulable and not self._targets.refusal(info)
        ]

    def _every(self, kind: str) -> Iterator[object]:
        return self._state.objects.every(kind)


def _assumptions(situation: PlanInput, workloads: Workloads) -> Iterator[str]:
    """Yield what a reader has to know of what nobody could know."""
    if not situation.history.known:
        yield (
            "no history: a node that is overloaded now counts as overloaded for long enough, and no workload or node "
            "was concerned by a move before"
        )
    if situation.health is None:
        yield "no scheduler was asked: it is taken to be available, with this configuration"
    if not situation.facts.usage:
        yield "nothing measures pods: what a pod uses is taken to be what it requests"
    uncounted = [state for state in workloads.uncounted if state.key[0] != "Job"]
    if uncounted:
        more = "" if len(uncounted) == 1 else f" and {len(uncounted) - 1} more"
        yield f"{uncounted[0].title}{more}: how many pods it wants is not known; its pods are taken to be all"
