"""One attempt for every pod that waits, in queue order, each seeing the earlier ones placed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from scheduler.core import Explanation, Placement, PostFilterOutcome, explain, gang_message, gang_plugin
from scheduler.engine import AttemptPipeline, is_reserved, refusal_message
from scheduler.framework import NO_NODES, Code, Extender, Gang, PodInfo, ProfileRunner
from scheduler.state import Snapshot


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one pod.

    Attributes:
        explanation: the matrix; None where nothing was evaluated, or where it was not requested.
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
        attempts: the steps of an attempt, on the snapshot's state; its wall clock gives the time of all decisions.
        explained: compute the matrix of every decision.
        preempt: remove the victims that preemption chooses, and try the pod once more.
        extenders: of the configuration; pods that they are interested in are not decided, as nobody is asked.
    """

    def __init__(
        self,
        attempts: AttemptPipeline,
        *,
        explained: bool = False,
        preempt: bool = False,
        extenders: Sequence[Extender] = (),
    ) -> None:
        self._attempts = attempts
        self._state = attempts.state
        self._runners = attempts.runners
        self._explained = explained
        self._preempt = preempt
        self._extenders = extenders

    def run(self, pods: Sequence[PodInfo]) -> Iterator[Outcome]:
        """Yield the outcomes in queue order, a gang's at the place of its first member.

        An outcome's matrix is valid until the next outcome is requested: it is computed from the state as it is then.
        """
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
            waiting = {member.uid for member in gang.waiting} & left
            members = [member for member in ordered if member.uid in waiting and self._can_be_attempted(member)]
            for uid, outcome in self._attempt_gang(gang, members).items():
                left.discard(uid)
                yield outcome

    def _gang_of(self, pod: PodInfo) -> Gang | None:
        """Return the gang that has to be placed together with a pod."""
        plugin = gang_plugin(self._runners[pod.scheduler_name])
        if plugin is None or not self._can_be_attempted(pod) or not self._state.node_count:
            return None
        gang = plugin.gang_of(pod)
        if gang is None or not gang.missing or any(map(self._extender_of, (pod, *gang.waiting))):
            return None
        return gang

    def _extender_of(self, pod: PodInfo) -> Extender | None:
        return next((extender for extender in self._extenders if extender.is_interested(pod)), None)

    def _can_be_attempted(self, pod: PodInfo) -> bool:
        return not pod.deleting and self._runners[pod.scheduler_name].run_pre_enqueue(pod).is_success

    def _attempt_gang(self, gang: Gang, members: Sequence[PodInfo]) -> dict[str, Outcome]:
        """Place as many members as are missing, or none; returns by UID what became of those that were tried."""
        matrices: dict[str, Explanation] = {}
        reservation = self._attempts.reserve_gang(
            gang, members, before_reserve=lambda pod: self._note_matrix(matrices, pod)
        )
        for placement, _ in reservation.reserved:
            self._keep_on_node(placement)
        outcomes = {}
        for placement in reservation.decision.placements:
            pod, node = placement.pod, placement.node if reservation.reserved else None
            if pod.uid not in matrices:
                self._note_matrix(matrices, pod)
            message = gang_message(reservation.decision, placement.message) if node is None else None
            matrix = matrices.get(pod.uid)
            outcomes[pod.uid] = Outcome(pod.key, pod.scheduler_name, node, message, placement, matrix)
        return outcomes

    def _note_matrix(self, matrices: dict[str, Explanation], pod: PodInfo) -> None:
        if self._explained:
            matrices[pod.uid] = explain(self._attempts.snapshot(), pod, self._attempts.runner_of(pod))

    def _in_queue_order(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        first = next(iter(self._runners.values()))

        def queued_at(pod: PodInfo) -> float:
            # A pod that was never created joins the queue now, behind those that wait already.
            return self._attempts.clocks.wall() if math.isnan(pod.created_at) else pod.created_at

        def key(pod: PodInfo) -> Any:
            return first.queue_sort.sort_key(pod, queued_at(pod))

        # A plugin may remember which pod was queued first, so it must see them in that order.
        return sorted(sorted(pods, key=queued_at), key=key)

    def _attempt(self, pod: PodInfo, runner: ProfileRunner) -> Outcome:
        gate = runner.run_pre_enqueue(pod)
        if not gate.is_success:
            return Outcome(pod.key, pod.scheduler_name, None, gate.message)
        if pod.deleting:
            return Outcome(pod.key, pod.scheduler_name, None, f"skip schedule deleting pod: {pod.key}")
        if not self._state.node_count:
            return Outcome(pod.key, pod.scheduler_name, None, NO_NODES)
        if extender := self._extender_of(pod):
            note = f"not simulated: the extender {extender.url} is to be asked about this pod"
            return Outcome(pod.key, pod.scheduler_name, None, note)
        snapshot = self._attempts.snapshot()
        placement, explanation = self._decide(snapshot, pod, runner)
        message = placement.message
        victims: tuple[str, ...] = ()
        if placement.code is Code.UNSCHEDULABLE and placement.diagnosis is not None:
            outcome = self._attempts.run_post_filters(snapshot, placement)
            message = outcome.message
            if outcome.nominated_node == "":
                self._state.nominator.remove(pod.uid)
            if self._preempt and outcome.victims:
                victims = tuple(victim.key for victim in outcome.victims)
                pod = self._evict(pod, outcome)
                placement, explanation = self._decide(self._attempts.snapshot(), pod, runner)
                message = placement.message
        node = placement.node
        if node is not None:
            permit = self._attempts.reserve(placement)
            # A pod that Permit holds is waiting on this node, be it for pods that are not in the snapshot.
            if is_reserved(permit):
                self._keep_on_node(placement)
            else:
                node, message = None, refusal_message(permit.status)
        return Outcome(pod.key, pod.scheduler_name, node, message, placement, explanation, victims)

    def _decide(self, snapshot: Snapshot, pod: PodInfo, runner: ProfileRunner) -> tuple[Placement, Explanation | None]:
        explanation = explain(snapshot, pod, runner) if self._explained else None
        return self._attempts.decide(snapshot, pod), explanation

    def _evict(self, pod: PodInfo, outcome: PostFilterOutcome) -> PodInfo:
        """Remove the victims; the node is the pod's to look at first, as after a real preemption."""
        node = outcome.nominated_node or ""
        for victim in outcome.victims:
            self._state.remove_pod(victim.uid)
        pod = msgspec.structs.replace(pod, nominated_node=node)
        self._state.nominator.set(pod, node)
        return pod

    def _keep_on_node(self, placement: Placement) -> None:
        """Let a reserved pod stay on its node."""
        assumed = self._state.pod(placement.pod.uid)
        if assumed is not None:
            self._state.upsert_pod(assumed, observed_at=self._attempts.clocks.wall())
