"""Choosing nodes for the pods of a gang, together and on one snapshot. Pure, as `decide` is.

Upstream's Coscheduling decides members one by one and holds them in Permit: two gangs that each hold half of the
cluster wait for each other until they time out. Members decided together hold nothing unless enough of them fit. They
are still decided one after the other, each on an overlay with the earlier ones: an optimal packing of all members at
once would be another problem (and NP-hard), and the plugins are written for one pod.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.core.asking import decide_asking
from scheduler.core.decide import decide
from scheduler.core.feasible import filter_all
from scheduler.core.placement import Placement, failed
from scheduler.framework import (
    Answered,
    Asking,
    Code,
    CycleState,
    Extender,
    ExtenderError,
    FilterAnswer,
    FilterQuestion,
    Gang,
    GangPlugin,
    PluginError,
    PodInfo,
    PrioritizeAnswer,
    ProfileRunner,
    Question,
    RandomSource,
    Status,
)
from scheduler.state import Snapshot

Interested = Callable[[PodInfo], Sequence[Extender]]
OnDecision = Callable[[Snapshot, Placement], None]
_TIMES_ASKED = 2
"""In one attempt, extenders are asked about a member at most as often: a gang of thousands could be refused and tried
again as many times."""


def nobody(pod: PodInfo) -> Sequence[Extender]:
    """Return the extenders of a configuration without any."""
    return ()


@dataclass(frozen=True, slots=True)
class GangDecision:
    """What became of the members that were tried.

    Attributes:
        gang: who belongs together.
        placements: one per pod that was tried, in the order of the pods.
    """

    gang: Gang
    placements: tuple[Placement, ...]

    @property
    def placed(self) -> tuple[Placement, ...]:
        """Return the placements that have a node."""
        return tuple(placement for placement in self.placements if placement.node is not None)

    @property
    def unplaced(self) -> tuple[Placement, ...]:
        """Return the placements that have none."""
        return tuple(placement for placement in self.placements if placement.node is None)


def decide_gang_asking(
    snapshot: Snapshot,
    gang: Gang,
    pods: Sequence[PodInfo],
    runner_of: Callable[[PodInfo], ProfileRunner],
    rng: RandomSource,
    enough: int,
    interested: Interested = nobody,
    on_decision: OnDecision | None = None,
) -> Asking[GangDecision]:
    """Place pods one after the other, each seeing the earlier ones, until there are `enough`.

    Those that do not fit are passed over, and tried once more when others found a place, as they may want to be next
    to one of these. It is resumed as `decide_asking` is, with views without the members placed so far; without
    extenders it asks nothing (`conclude`).

    Args:
        snapshot: the cluster.
        gang, pods: which pods belong together, and those to place, in queue order.
        runner_of: returns a pod's profile.
        rng: for ties.
        enough: how many to place.
        interested: returns the extenders to be asked about a pod, in calling order.
        on_decision: called with each decision and the view that it was made on.
    """
    return (yield from _GangAttempt(snapshot, pods, runner_of, rng, enough, interested, on_decision).run(gang))


class _GangAttempt:
    """The members of one gang: which are placed, and the cluster with these."""

    def __init__(
        self,
        snapshot: Snapshot,
        pods: Sequence[PodInfo],
        runner_of: Callable[[PodInfo], ProfileRunner],
        rng: RandomSource,
        enough: int,
        interested: Interested,
        on_decision: OnDecision | None,
    ) -> None:
        self._cluster = snapshot
        self._overlay = snapshot.overlay()
        self._pods = pods
        self._runner_of = runner_of
        self._rng = rng
        self._enough = enough
        self._interested = interested
        self._on_decision = on_decision
        self._placements: dict[str, Placement] = {}
        self._placed_after: dict[str, int] = {}
        """UIDs of the placed members, in order, and how many answers there were by then."""
        self._answers = 0
        self._times_asked: Counter[str] = Counter()
        self._silent: set[int] = set()
        self._ended = False

    def run(self, gang: Gang) -> Asking[GangDecision]:
        yield from self._place(self._pods)
        if self._lose_changed_nodes():
            yield from self._place([pod for pod in self._pods if pod.uid not in self._placed_after])
            self._lose_changed_nodes()
        placements = self._placements
        return GangDecision(gang, tuple(placements[pod.uid] for pod in self._pods if pod.uid in placements))

    def _place(self, pods: Sequence[PodInfo]) -> Asking[None]:
        rejected: dict[tuple[object, ...], Placement] = {}
        refused: set[str] = set()
        unplaced, progress = list(pods), True
        while progress and unplaced and not self._is_over():
            progress, again = False, []
            for pod in unplaced:
                if self._is_over():
                    break
                if self._times_asked[pod.uid] == _TIMES_ASKED:
                    continue
                key = _equivalence_key(pod)
                known = rejected.get(key)
                if known is not None:
                    self._note(pod, dataclasses.replace(known, pod=pod))
                    again.append(pod)
                    continue
                answers = self._answers
                placement = yield from self._decide(pod)
                self._note(pod, placement)
                if placement.node is not None:
                    rejected.clear()
                    refused.clear()
                    progress = True
                    continue
                again.append(pod)
                if self._answers == answers:
                    rejected[key] = placement
                else:
                    # Extenders answer about one pod: others that equal it may fare better.
                    refused.add(pod.uid)
            # A member rejected after the last one was placed would be rejected again: nothing has changed for it.
            unplaced = [pod for pod in again if _equivalence_key(pod) not in rejected and pod.uid not in refused]

    def _is_over(self) -> bool:
        return self._ended or len(self._placed_after) >= self._enough

    def _note(self, pod: PodInfo, placement: Placement) -> None:
        self._placements[pod.uid] = placement
        if self._on_decision is not None:
            self._on_decision(self._overlay, placement)
        if placement.node is not None:
            self._overlay.add_pod(pod, self._overlay.row(placement.node))
            self._placed_after[pod.uid] = self._answers

    # Extenders ------------------------------------------------------------------------------------------------------

    def _decide(self, pod: PodInfo) -> Asking[Placement]:
        runner = self._runner_of(pod)
        extenders = self._to_ask(pod)
        if not extenders:
            return decide(self._overlay, pod, runner, self._rng)
        answers = self._answers
        asking = decide_asking(self._overlay, pod, runner, self._rng, extenders)
        try:
            question = next(asking)
            while True:
                try:
                    answered = yield question
                except ExtenderError as error:
                    self._ended = True
                    question = asking.throw(error)
                else:
                    self._resume(answered, question)
                    question = asking.send(Answered(answered.answer, self._overlay))
        except StopIteration as end:
            placement: Placement = end.value
            self._times_asked[pod.uid] += self._answers > answers
            return placement
        finally:
            asking.close()

    def _to_ask(self, pod: PodInfo) -> list[Extender]:
        """Return the interested extenders without those that left a question about another member unanswered: a dead
        one would cost its timeout for each of a thousand members."""
        extenders = []
        for extender in self._interested(pod):
            if extender.index not in self._silent:
                extenders.append(extender)
            elif not extender.ignorable:
                extenders.append(dataclasses.replace(extender, prioritize_verb=""))
        return extenders

    def _resume(self, answered: Answered, question: Question) -> None:
        """Take the cluster as it is now, with the members placed so far on it."""
        assert isinstance(answered.view, Snapshot)
        self._answers += 1
        answer = answered.answer
        if isinstance(answer, FilterAnswer) and isinstance(question, FilterQuestion) and answer.unanswered:
            self._silent.add(question.extender.index)
            self._ended = self._ended or not question.extender.ignorable
        elif isinstance(answer, PrioritizeAnswer):
            self._silent.update(extender.index for extender in answer.unanswered)
        self._cluster = answered.view
        self._overlay = self._cluster.overlay()
        for uid in self._placed_after:
            placement = self._placements[uid]
            row = self._overlay.row(placement.node or "")
            if row >= 0:
                self._overlay.add_pod(placement.pod, row)

    def _lose_changed_nodes(self) -> bool:
        """Filter each placed member's node once more, as the cluster went on while extenders were asked about later
        members; true where some do not fit there any more, and have no node now."""
        if all(answers == self._answers for answers in self._placed_after.values()):
            return False
        self._overlay = self._cluster.overlay()
        placed, self._placed_after = self._placed_after, {}
        for uid, answers in placed.items():
            placement = self._placements[uid]
            current = placement if answers == self._answers else self._filtered_again(placement)
            self._placements[uid] = current
            if current.node is not None:
                self._overlay.add_pod(current.pod, self._overlay.row(current.node))
                self._placed_after[uid] = self._answers
        return len(self._placed_after) < len(placed)

    def _filtered_again(self, placement: Placement) -> Placement:
        """Return a placement with what plugins prepare for Reserve from the cluster as it is now."""
        pod, runner = placement.pod, self._runner_of(placement.pod)
        assert placement.node is not None
        if runner.timing is not None:
            runner.timing.begin()
        state = CycleState(self._rng, runner.timing)
        reason: str | PluginError = f"node {placement.node} changed while extenders were asked about other members"
        try:
            outcome = runner.run_pre_filter(state, pod, self._overlay)
            if len(filter_all(self._overlay, pod, runner, state, outcome, (placement.node,)).rows):
                return dataclasses.replace(placement, state=state)
        except PluginError as error:
            reason = error
        return failed(self._overlay, pod, state, reason, placement.load_ages)


def _equivalence_key(pod: PodInfo) -> tuple[object, ...]:
    """Return what the answer for a pod depends on, given one view: a member that equals a rejected one need not be
    tried. Claims made of one template are equal in what they ask for, not in what they have been given."""
    labels = tuple(sorted(pod.labels.items()))
    return pod.scheduler_name, pod.spec.class_key, pod.priority, pod.nominated_node, labels, pod.claim_names


def place_gang(
    gang: Gang,
    pods: Sequence[PodInfo],
    decide_now: Callable[[Sequence[PodInfo], int], Asking[GangDecision]],
    reserve: Callable[[Placement], Status],
) -> Asking[GangDecision]:
    """Decide about as many members as are missing, and take their nodes; `placed` are then those that hold one.

    Members beyond these are not tried: once the gang may run, they are pods like any other.

    What is rejected when it is taken (two members counted on one volume) is decided again, now that the others' nodes
    are taken. When the result is not complete, the caller undoes every reservation.

    Args:
        gang: who belongs together.
        pods: the members to place, in queue order.
        decide_now: decides about some of them, until so many have a place, on the cluster as it is at that moment; it
            may ask extenders.
        reserve: reserves what was decided; anything but Success has been undone.
    """
    left, held = list(pods), 0
    placements: dict[str, Placement] = {}
    while held < gang.missing:
        decision = yield from decide_now(left, gang.missing - held)
        placements.update((placement.pod.uid, placement) for placement in decision.placements)
        if held + len(decision.placed) < gang.missing:
            break
        before, kept = held, set()
        for placement in decision.placed:
            status = reserve(placement)
            if status.is_success:
                held += 1
                kept.add(placement.pod.uid)
            else:
                placements[placement.pod.uid] = _rejected(placement, status)
        if held == before:
            break
        left = [pod for pod in left if pod.uid not in kept]
    return GangDecision(gang, tuple(placements[pod.uid] for pod in pods if pod.uid in placements))


def _rejected(placement: Placement, status: Status) -> Placement:
    """Return what a placement becomes that Reserve or Permit does not let happen."""
    if status.is_rejection:
        message = f"0/1 nodes are available: 1 {status.message}."
        rejectors = frozenset({status.plugin} - {""})
        return dataclasses.replace(placement, node=None, code=Code.UNSCHEDULABLE, message=message, rejectors=rejectors)
    return dataclasses.replace(placement, node=None, code=Code.ERROR, message=status.message)


def gang_plugin(runner: ProfileRunner) -> GangPlugin | None:
    """Return the plugin of a profile that forms gangs; one that only orders the queue does not."""
    permitting = {plugin.name for plugin in runner.permit}
    return next(
        (plugin for plugin in runner.plugins.values() if isinstance(plugin, GangPlugin) and plugin.name in permitting),
        None,
    )


def gang_message(decision: GangDecision, own: str | None = None) -> str:
    """Return the message for a member of a gang that does not fit: how many members fit, and why the others do not.

    `own` is what keeps this very member off; else the reason most others have is given.
    """
    gang = decision.gang
    fit = gang.placed + len(decision.placed)
    members = gang.placed + len(decision.placements)
    text = f"{gang.name}: {fit} of {members} members fit, minMember is {gang.minimum}"
    elsewhere = len(gang.waiting) - len(decision.placements)
    if elsewhere > 0:
        text += f", {elsewhere} cannot be tried by this scheduler now"
    reason = own or _common_reason(decision)
    return f"{text}: {reason}" if reason else text


def _common_reason(decision: GangDecision) -> str:
    """Return why most of the members without a node have none; the first of equals."""
    reasons = Counter(placement.message for placement in decision.unplaced if placement.message)
    return reasons.most_common(1)[0][0] if reasons else ""
