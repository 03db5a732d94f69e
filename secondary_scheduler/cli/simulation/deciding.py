"""One attempt for every pod that waits, in queue order, each seeing the earlier ones placed."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from scheduler.core import Explanation, Placement, PostFilterOutcome, decide, explain, run_post_filters
from scheduler.framework import NO_NODES, Code, PodInfo, ProfileRunner, Status
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
        """Yield the outcomes in queue order. The matrix of one is good until the next is asked for."""
        for pod in self._in_queue_order(pods):
            yield self._attempt(pod, self._runners[pod.scheduler_name])

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
            message = self._take(pod, node, placement, runner)
            if message is not None:
                node = None
        return Outcome(pod.key, pod.scheduler_name, node, message, placement, explanation, victims)

    def _decide(self, snapshot: Snapshot, pod: PodInfo, runner: ProfileRunner) -> tuple[Placement, Explanation | None]:
        explanation = explain(snapshot, pod, runner) if self._explained else None
        return decide(snapshot, (pod,), runner, self._rng).only, explanation

    def _evict(self, pod: PodInfo, outcome: PostFilterOutcome) -> PodInfo:
        """Remove the victims; the node is the pod's to look at first, as after a real preemption."""
        node = outcome.nominated_node or ""
        for victim in outcome.victims:
            self._state.remove_pod(victim.uid)
        pod = msgspec.structs.replace(pod, nominated_node=node)
        self._state.nominator.set(pod, node)
        return pod

    def _take(self, pod: PodInfo, node: str, placement: Placement, runner: ProfileRunner) -> str | None:
        """Put the pod on its node unless Reserve or Permit refuses; returns the refusal as upstream words it."""
        state = placement.state
        assumed = self._state.assume(pod, node, self._now)
        status: Status = runner.run_reserve(state, pod, node)
        if status.is_success:
            permit = runner.run_permit(state, pod, node)
            # Whoever waits for others to come is waiting on this node.
            if permit.status.is_success or permit.waits:
                self._state.upsert_pod(assumed, observed_at=self._now)
                return None
            status = permit.status
        runner.run_unreserve(state, pod, node)
        self._state.forget(pod.uid)
        return f"0/1 nodes are available: 1 {status.message}." if status.is_rejection else status.message
