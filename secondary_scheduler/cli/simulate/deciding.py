"""One attempt for every pod that waits, in queue order, each seeing the earlier ones placed."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from scheduler.core import (
    Explanation,
    GangDecision,
    Placement,
    PostFilterOutcome,
    decide,
    decide_gang,
    explain,
    gang_message,
    gang_plugin,
    place_gang,
    run_post_filters,
)
from scheduler.framework import NO_NODES, SUCCESS, Code, Gang, PodInfo, ProfileRunner, Status
from scheduler.state import ClusterState, Snapshot


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one pod.

    Attributes:
        explanation: the matrix; None where nothing was evaluated, or where nobody asked.
        victims: pods (`namespace/name`) that were removed to make room.
    """

    pod: str
    scheduler_name: str
    node: str | None
    message: str | None
    placement: Placement | None = None
    explanation: Explanation | None = None
    victims: tuple[str, ...] = ()


class Simulation:
    """Decides pods on a state, which it changes: what is placed stays placed.

    Args:
        runners: by scheduler name.
        now: the time of all decisions, seconds since the epoch.
        explained: compute the matrix of every decision.
        preempt: remove the victims that preemption chooses, and try the pod once more.
    """

    def __init__(
        self,
        state: ClusterState,
        runners: Mapping[str, ProfileRunner],
        *,
        rng: random.Random,
        now: float,
        explained: bool = False,
        preempt: bool = False,
    ) -> None:
        self._state = state
        self._runners = runners
        self._rng = rng
        self._now = now
        self._explained = explained
        self._preempt = preempt
        for runner in runners.values():
            runner.use_objects(state.objects)
            runner.use_pods(state.directory)

    def run(self, pods: Sequence[PodInfo]) -> Iterator[Outcome]:
        """Yield the outcomes in queue order, a gang's at the place of its first member. The matrix of one is good until
        the next is asked for."""
        directory = self._state.directory
        for uid in self._state.pod_uids:
            if (placed := self._state.pod(uid)) is not None:
                directory.upsert(placed)
        for pod in pods:
            directory.upsert(pod)
        ordered = self._in_queue_order(pods)
        left = {pod.uid for pod in ordered}
        for pod in ordered:
            if pod.uid not in left:
                continue
            gang = self._gang_of(pod)
            if gang is None:
                left.discard(pod.uid)
                yield self._attempt(pod, self._runners[pod.scheduler_name])
                continue
            waiting = {one.uid for one in gang.waiting} & left
            members = [one for one in ordered if one.uid in waiting and self._may_be_tried(one)]
            for uid, outcome in self._attempt_gang(gang, members).items():
                left.discard(uid)
                yield outcome

    def _gang_of(self, pod: PodInfo) -> Gang | None:
        """Return the gang that has to be placed together with a pod."""
        plugin = gang_plugin(self._runners[pod.scheduler_name])
        if plugin is None or not self._may_be_tried(pod) or not self._state.node_count:
            return None
        gang = plugin.gang_of(pod)
        return gang if gang is not None and gang.missing else None

    def _may_be_tried(self, pod: PodInfo) -> bool:
        return not pod.deleting and self._runners[pod.scheduler_name].run_pre_enqueue(pod).is_success

    def _attempt_gang(self, gang: Gang, members: Sequence[PodInfo]) -> dict[str, Outcome]:
        """Place as many members as are missing, or none; returns by UID what became of those that were tried."""
        taken: list[Placement] = []
        matrices: dict[str, Explanation] = {}

        def take(placement: Placement) -> Status:
            self._note_matrix(matrices, placement.pod)
            status = self._reserve(placement)
            if status.is_success:
                taken.append(placement)
            return status

        decision = place_gang(gang, members, lambda some, enough: self._decide_gang(gang, some, enough), take)
        complete = len(taken) >= gang.missing
        if complete:
            for placement in taken:
                self._settle(placement)
        else:
            for placement in reversed(taken):
                self._give_up(placement)
        outcomes = {}
        for placement in decision.placements:
            pod, node = placement.pod, placement.node if complete else None
            if pod.uid not in matrices:
                self._note_matrix(matrices, pod)
            message = gang_message(decision, placement.message) if node is None else None
            matrix = matrices.get(pod.uid)
            outcomes[pod.uid] = Outcome(pod.key, pod.scheduler_name, node, message, placement, matrix)
        return outcomes

    def _decide_gang(self, gang: Gang, pods: Sequence[PodInfo], enough: int) -> GangDecision:
        snapshot = self._state.snapshot(self._now)
        return decide_gang(snapshot, gang, pods, lambda pod: self._runners[pod.scheduler_name], self._rng, enough)

    def _note_matrix(self, matrices: dict[str, Explanation], pod: PodInfo) -> None:
        if self._explained:
            snapshot = self._state.snapshot(self._now)
            matrices[pod.uid] = explain(snapshot, pod, self._runners[pod.scheduler_name])

    def _in_queue_order(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        first = next(iter(self._runners.values()))

        def joins_at(pod: PodInfo) -> float:
            # A pod that was never created joins the queue now, behind those that wait already.
            return self._now if math.isnan(pod.created_at) else pod.created_at

        def key(pod: PodInfo) -> Any:
            return first.queue_sort.sort_key(pod, joins_at(pod))

        # A plugin may remember who joined first, so that it is asked in that order.
        return sorted(sorted(pods, key=joins_at), key=key)

    def _attempt(self, pod: PodInfo, runner: ProfileRunner) -> Outcome:
        gate = runner.run_pre_enqueue(pod)
        if not gate.is_success:
            return Outcome(pod.key, pod.scheduler_name, None, gate.message)
        if pod.deleting:
            return Outcome(pod.key, pod.scheduler_name, None, f"skip schedule deleting pod: {pod.key}")
        if not self._state.node_count:
            return Outcome(pod.key, pod.scheduler_name, None, NO_NODES)
        snapshot = self._state.snapshot(self._now)
        placement, explanation = self._decide(snapshot, pod, runner)
        message = placement.message
        victims: tuple[str, ...] = ()
        if placement.code is Code.UNSCHEDULABLE and placement.diagnosis is not None:
            outcome = run_post_filters(snapshot, placement, runner)
            message = outcome.message
            if outcome.nominated_node == "":
                self._state.nominator.remove(pod.uid)
            if self._preempt and outcome.victims:
                victims = tuple(victim.key for victim in outcome.victims)
                pod = self._evict(pod, outcome)
                placement, explanation = self._decide(self._state.snapshot(self._now), pod, runner)
                message = placement.message
        node = placement.node
        if node is not None:
            status = self._reserve(placement)
            if status.is_success:
                self._settle(placement)
            else:
                node = None
                message = f"0/1 nodes are available: 1 {status.message}." if status.is_rejection else status.message
        return Outcome(pod.key, pod.scheduler_name, node, message, placement, explanation, victims)

    def _decide(self, snapshot: Snapshot, pod: PodInfo, runner: ProfileRunner) -> tuple[Placement, Explanation | None]:
        explanation = explain(snapshot, pod, runner) if self._explained else None
        return decide(snapshot, pod, runner, self._rng), explanation

    def _evict(self, pod: PodInfo, outcome: PostFilterOutcome) -> PodInfo:
        """Remove the victims; the node is the pod's to look at first, as after a real preemption."""
        node = outcome.nominated_node or ""
        for victim in outcome.victims:
            self._state.remove_pod(victim.uid)
        pod = msgspec.structs.replace(pod, nominated_node=node)
        self._state.nominator.set(pod, node)
        return pod

    def _reserve(self, placement: Placement) -> Status:
        """Put a pod on its node unless Reserve or Permit refuses, which is then undone."""
        pod, node, runner = placement.pod, placement.node, self._runners[placement.pod.scheduler_name]
        assert node is not None
        self._state.assume(pod, node, self._now)
        status = runner.run_reserve(placement.state, pod, node)
        if status.is_success:
            permit = runner.run_permit(placement.state, pod, node)
            # Whoever waits for others to come is waiting on this node.
            if permit.status.is_success or permit.waits:
                return SUCCESS
            status = permit.status
        self._give_up(placement)
        return status

    def _settle(self, placement: Placement) -> None:
        """Let a reserved pod stay on its node."""
        assumed = self._state.pod(placement.pod.uid)
        if assumed is not None:
            self._state.upsert_pod(assumed, observed_at=self._now)

    def _give_up(self, placement: Placement) -> None:
        """Take a reservation back."""
        runner = self._runners[placement.pod.scheduler_name]
        assert placement.node is not None
        runner.run_unreserve(placement.state, placement.pod, placement.node)
        self._state.forget(placement.pod.uid)
