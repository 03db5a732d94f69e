"""One attempt for every pod that waits, in queue order, each seeing the earlier ones placed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from scheduler.answers import Decision
from scheduler.core import Explanation, Placement, PostFilterOutcome, detail_of, explain, gang_message, gang_of
from scheduler.engine import Assembly, AttemptPipeline, RecordedAnswers, UnrecordedError, is_reserved, refusal_message
from scheduler.framework import NO_NODES, Asking, Code, Gang, PodInfo, PrioritizeQuestion, ProfileRunner, to_extender
from scheduler.kube.primitives import format_seconds
from scheduler.state import ClusterState, Snapshot
from secondary_scheduler.simulation.extenderanswers import answered

PLACED, UNSCHEDULABLE, GATED, UNDECIDED = "placed", "unschedulable", "gated", "undecided"
RESULTS = (PLACED, UNSCHEDULABLE, GATED, UNDECIDED)


def result_of(outcome: PodOutcome, pod: PodInfo, runner: ProfileRunner, state: ClusterState) -> str:
    """Return one of `RESULTS`, once the outcome is in the state."""
    if outcome.node is not None:
        return PLACED
    if outcome.placement is not None or not state.node_count:
        return UNSCHEDULABLE
    return UNDECIDED if pod.deleting or runner.run_pre_enqueue(pod).is_success else GATED


def decision_of(outcome: PodOutcome, pod: PodInfo, result: str, assembly: Assembly, limit: int) -> Decision:
    """Return the answer about a pod, while the outcome's matrix is valid.

    Args:
        outcome: what became of it.
        pod: as it was before.
        result: how that is called.
        assembly: what decided.
        limit: nodes that have their scores.
    """
    placement, details = outcome.placement, None
    if outcome.explanation is not None:
        # The pod is on its node by now. Scores and reasons are of the state before; what is lacking is asked of the
        # state as it is, which is the same for a pod that got no node.
        runner = assembly.runners[pod.scheduler_name]
        details = detail_of(outcome.explanation, assembly.attempts.snapshot(), runner, outcome.node, limit)
    return Decision(
        time=format_seconds(assembly.attempts.clocks.wall()),
        pod=pod.key,
        uid=pod.uid,
        scheduler_name=pod.scheduler_name,
        attempt=None,
        simulated=True,
        result=result,
        node=outcome.node,
        message=outcome.message,
        total=placement.total if placement is not None else 0,
        evaluated_nodes=placement.evaluated if placement is not None else 0,
        feasible_nodes=placement.feasible if placement is not None else 0,
        load_age_seconds={} if placement is None else {key: round(age, 1) for key, age in placement.load_ages.items()},
        details=details,
        victims=outcome.victims or None,
    )


def waited(pod: PodInfo, now: float) -> float | None:
    """Return the seconds since a pod was created; None where the object does not say when."""
    # NaN where the object does not say.
    return max(0.0, now - pod.created_at) if pod.created_at == pod.created_at else None


class SeededByPod:
    """A random source that starts again for each pod, from the seed and the pod's name.

    With one stream for all, a pod that is left out, or that fits nowhere, would shift the numbers of every later pod:
    two runs that differ in one pod would differ in all ties after it.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._random = random.Random()

    def begin(self, pod: str) -> None:
        """Start the numbers of a pod (`namespace/name`)."""
        self._random.seed(f"{self._seed} {pod}")

    def random(self) -> float:
        """Return the next number, uniform in [0, 1)."""
        return self._random.random()


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PodOutcome:
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


def none_explained(_placement: Placement) -> bool:
    """No decision needs its matrix."""
    return False


def all_explained(_placement: Placement) -> bool:
    """Every decision needs its matrix."""
    return True


class Simulation:
    """Decides pods on a state, which it changes: what is placed stays placed.

    Args:
        attempts: the steps of an attempt, on the snapshot's state; its wall clock gives the time of all decisions.
        explained: tells for which decisions the matrix is computed.
        preempt: remove the victims that preemption chooses, and try the pod once more.
        recorded: answers of the extenders. Without any, pods that they are interested in are not decided.
        chance: the random source of `attempts`, where it has to know about whom a decision is.
        post_filters: run them where no node fits; without them, a message does not say what preemption would do.
    """

    def __init__(
        self,
        attempts: AttemptPipeline,
        *,
        explained: Callable[[Placement], bool] = none_explained,
        preempt: bool = False,
        recorded: RecordedAnswers | None = None,
        chance: SeededByPod | None = None,
        post_filters: bool = True,
    ) -> None:
        self._attempts = attempts
        self._state = attempts.state
        self._runners = attempts.runners
        self._explained = explained
        self._preempt = preempt
        self._recorded = recorded
        self._chance = chance
        self._post_filters = post_filters

    def run(self, pods: Sequence[PodInfo], *, by_creation: bool = False) -> Iterator[PodOutcome]:
        """Yield the outcomes in queue order, or in the order in which the pods were created; a gang's at the place of
        its first member.

        An outcome's matrix is valid until the next outcome is requested: it is computed from the state as it is then.
        """
        self.register(pods)
        yield from self.decide(pods, by_creation=by_creation)

    def register(self, pods: Sequence[PodInfo]) -> None:
        """Make known which pods there are beside those that are decided next: gangs count their members."""
        directory = self._state.directory
        for uid in self._state.pod_uids:
            if (placed := self._state.pod(uid)) is not None:
                directory.upsert(placed)
        for pod in pods:
            directory.upsert(pod)

    def decide(self, pods: Sequence[PodInfo], *, by_creation: bool = False) -> Iterator[PodOutcome]:
        """Yield the outcomes of pods that are registered, as `run` does."""
        ordered = sorted(pods, key=self._queued_at) if by_creation else self._in_queue_order(pods)
        left = {pod.uid for pod in ordered}
        for pod in ordered:
            if pod.uid not in left:
                continue
            if self._chance is not None:
                self._chance.begin(pod.key)
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

    def companions(self, pod: PodInfo) -> Collection[str]:
        """Return the UIDs of the pods that have to be decided together with a pod; none where it is alone."""
        gang = self._gang_of(pod)
        return () if gang is None else {member.uid for member in gang.waiting}

    def _gang_of(self, pod: PodInfo) -> Gang | None:
        """Return the gang that has to be placed together with a pod."""
        if not self._can_be_attempted(pod) or not self._state.node_count:
            return None
        return gang_of(self._runners[pod.scheduler_name], pod)

    def _ask(self, asking: Asking[T]) -> T:
        """Return what a computation returns with recorded answers.

        Raises:
            UnrecordedError: an answer is missing.
        """
        if self._recorded is not None:
            return answered(asking, self._recorded, self._attempts)
        try:
            question = to_extender(next(asking))
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            asking.close()
        extenders = question.extenders if isinstance(question, PrioritizeQuestion) else (question.extender,)
        addresses = " and ".join(extender.url for extender in extenders)
        raise UnrecordedError(
            f"the extender {addresses} is to be asked about {question.pod.key}; give --extender-recording"
        )

    def _can_be_attempted(self, pod: PodInfo) -> bool:
        return not pod.deleting and self._runners[pod.scheduler_name].run_pre_enqueue(pod).is_success

    def _attempt_gang(self, gang: Gang, members: Sequence[PodInfo]) -> dict[str, PodOutcome]:
        """Place as many members as are missing, or none; returns by UID what became of those that were tried."""
        matrices: dict[str, Explanation] = {}
        asking = self._attempts.reserve_gang(
            gang,
            members,
            before_reserve=lambda placement: self._note_matrix(matrices, placement),
        )
        try:
            reservation = self._ask(asking)
        except UnrecordedError as error:
            return {pod.uid: _not_simulated(pod, f"{gang.name}: {error}") for pod in members}
        for placement, _ in reservation.reserved:
            self._keep_on_node(placement)
        outcomes = {}
        if reservation.decision.obstacle:
            why = gang_message(reservation.decision)
            return {pod.uid: PodOutcome(pod.key, pod.scheduler_name, None, why) for pod in members}
        for placement in reservation.decision.placements:
            pod, node = placement.pod, placement.node if reservation.reserved else None
            if pod.uid not in matrices:
                self._note_matrix(matrices, placement)
            message = gang_message(reservation.decision, placement.message, len(members)) if node is None else None
            matrix = matrices.get(pod.uid)
            outcomes[pod.uid] = PodOutcome(pod.key, pod.scheduler_name, node, message, placement, matrix)
        return outcomes

    def _note_matrix(self, matrices: dict[str, Explanation], placement: Placement) -> None:
        pod = placement.pod
        if self._explained(placement):
            matrices[pod.uid] = explain(self._attempts.snapshot(), pod, self._attempts.runner_of(pod))

    def _in_queue_order(self, pods: Sequence[PodInfo]) -> list[PodInfo]:
        first = next(iter(self._runners.values()))

        def key(pod: PodInfo) -> Any:
            return first.queue_sort.sort_key(pod, self._queued_at(pod))

        # A plugin may remember which pod was queued first, so it must see them in that order.
        return sorted(sorted(pods, key=self._queued_at), key=key)

    def _queued_at(self, pod: PodInfo) -> float:
        # A pod that was never created joins the queue now, behind those that wait already.
        return self._attempts.clocks.wall() if math.isnan(pod.created_at) else pod.created_at

    def _attempt(self, pod: PodInfo, runner: ProfileRunner) -> PodOutcome:
        gate = runner.run_pre_enqueue(pod)
        if not gate.is_success:
            return PodOutcome(pod.key, pod.scheduler_name, None, gate.message)
        if pod.deleting:
            return PodOutcome(pod.key, pod.scheduler_name, None, f"skip schedule deleting pod: {pod.key}")
        if not self._state.node_count:
            return PodOutcome(pod.key, pod.scheduler_name, None, NO_NODES)
        try:
            pod, placement, message, explanation, victims = self._place(pod, runner)
        except UnrecordedError as error:
            return _not_simulated(pod, str(error))
        node = placement.node
        if node is not None:
            permit = self._attempts.reserve(placement)
            # A pod that Permit holds is waiting on this node, be it for pods that are not in the snapshot.
            if is_reserved(permit):
                self._keep_on_node(placement)
            else:
                node, message = None, refusal_message(permit.status)
        return PodOutcome(pod.key, pod.scheduler_name, node, message, placement, explanation, victims)

    def _place(
        self, pod: PodInfo, runner: ProfileRunner
    ) -> tuple[PodInfo, Placement, str | None, Explanation | None, tuple[str, ...]]:
        """Decide about a pod, and once more if victims were removed for it; returns the pod with its nomination."""
        snapshot = self._attempts.snapshot()
        placement, explanation = self._decide(snapshot, pod, runner)
        message = placement.message
        victims: tuple[str, ...] = ()
        if self._post_filters and placement.code is Code.UNSCHEDULABLE and placement.diagnosis is not None:
            outcome = self._ask(self._attempts.run_post_filters(snapshot, placement))
            message = outcome.message
            if outcome.nominated_node == "":
                self._state.nominator.remove(pod.uid)
            if self._preempt and outcome.victims:
                victims = tuple(victim.key for victim in outcome.victims)
                pod = self._evict(pod, outcome)
                placement, explanation = self._decide(self._attempts.snapshot(), pod, runner)
                message = placement.message
        return pod, placement, message, explanation, victims

    def _decide(self, snapshot: Snapshot, pod: PodInfo, runner: ProfileRunner) -> tuple[Placement, Explanation | None]:
        placement = self._ask(self._attempts.decide(snapshot, pod))
        return placement, explain(snapshot, pod, runner) if self._explained(placement) else None

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


def _not_simulated(pod: PodInfo, reason: str) -> PodOutcome:
    return PodOutcome(pod.key, pod.scheduler_name, None, f"not simulated: {reason}")
