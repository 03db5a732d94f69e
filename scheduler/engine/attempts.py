"""The steps of an attempt to place a pod or a gang, which the engine takes live and `simulate` takes on a snapshot.

They change the state of this process and nothing else: what follows a reservation (binding, reporting, queueing) is
the caller's. So a simulated pod goes through the same code as a live one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from scheduler.core import (
    GangDecision,
    GangPostFilterOutcome,
    Placement,
    PostFilterOutcome,
    decide,
    decide_gang,
    place_gang,
    run_gang_post_filters,
    run_post_filters,
)
from scheduler.framework import (
    GANG_UNITS,
    SUCCESS,
    Asking,
    Clocks,
    Code,
    Extender,
    Gang,
    PermitOutcome,
    PodInfo,
    ProfileRunner,
    RandomSource,
    Status,
    Work,
    failure,
)
from scheduler.state import ClusterState, Snapshot

DecideGang = Callable[[Gang, Sequence[PodInfo], int, Work], Asking[GangDecision]]


class GangReservation(Struct, frozen=True):
    """What became of an attempt at a gang.

    Attributes:
        decision: what was decided about each member that was tried.
        reserved: members that hold a node now, with what Permit said of them; empty unless they are enough.
        work: how much it has been so far.
    """

    decision: GangDecision
    reserved: tuple[tuple[Placement, PermitOutcome], ...]
    work: Work


class AttemptPipeline:
    """Snapshot, decide, reserve, unreserve: in this order, on one state, with one pair of clocks and one random source.

    Args:
        state: where reservations are made.
        runners: by scheduler name.
        rng: breaks ties.
        clocks: the wall clock gives the time of decisions.
        extenders: have a say in decisions, in calling order.
    """

    def __init__(
        self,
        state: ClusterState,
        runners: Mapping[str, ProfileRunner],
        rng: RandomSource,
        clocks: Clocks,
        extenders: Sequence[Extender] = (),
    ) -> None:
        self.state = state
        self.runners = runners
        self.clocks = clocks
        self.extenders = extenders
        self._rng = rng

    def runner_of(self, pod: PodInfo) -> ProfileRunner:
        """Return the plugins of the pod's profile.

        Raises:
            KeyError: no profile has the pod's scheduler name.
        """
        return self.runners[pod.scheduler_name]

    def snapshot(self) -> Snapshot:
        """Return the cluster as it is now, assumed pods included."""
        return self.state.snapshot(self.clocks.wall())

    def decide(self, snapshot: Snapshot, pod: PodInfo) -> Asking[Placement]:
        """Choose a node for one pod."""
        return decide(snapshot, pod, self.runners[pod.scheduler_name], self._rng, self.extenders)

    def run_post_filters(self, snapshot: Snapshot, placement: Placement) -> Asking[PostFilterOutcome]:
        """Look for pods to preempt, for a pod that fits nowhere."""
        runner = self.runner_of(placement.pod)
        timing = runner.timing
        began = 0.0 if timing is None else timing.now()
        outcome = yield from run_post_filters(snapshot, placement, runner, self.extenders)
        if timing is not None and outcome.status is not None:
            # No lap: other pods are unreserved while an extender is asked, which begins laps of its own.
            timing.point("PostFilter", outcome.status.code, timing.now() - began)
        return outcome

    def decide_gang(
        self,
        gang: Gang,
        pods: Sequence[PodInfo],
        enough: int,
        work: Work,
        on_decision: Callable[[Snapshot, Placement], None] | None = None,
    ) -> Asking[GangDecision]:
        """Decide about members of a gang on the cluster as it is now, until `enough` of them have a place; `work` is
        that of the attempt."""
        return decide_gang(
            self.snapshot(), gang, pods, self.runner_of, self._rng, enough, self.extenders, on_decision, work
        )

    def reserve(self, placement: Placement) -> PermitOutcome:
        """Assume the pod on its node, run Reserve and Permit.

        Returns Success, or Wait with the plugins that hold the pod; anything else has been undone.
        """
        pod, node, state = placement.pod, placement.node, placement.state
        assert node is not None
        runner = self.runners[pod.scheduler_name]
        self.state.assume(pod, node, self.clocks.wall())
        timing = runner.timing
        if timing is not None:
            timing.begin()
        try:
            status = runner.run_reserve(state, pod, node)
            if timing is not None:
                timing.lap("Reserve", status.code)
            outcome = runner.run_permit(state, pod, node) if status.is_success else PermitOutcome(status)
            if timing is not None and status.is_success:
                timing.lap("Permit", outcome.status.code)
        except Exception as error:
            # A defect of a plugin: this attempt fails, and others go on.
            outcome = PermitOutcome(failure(f"Reserve or Permit raised {type(error).__name__}: {error}"))
        if not is_reserved(outcome):
            self.unreserve(placement)
        return outcome

    def unreserve(self, placement: Placement) -> None:
        """Run Unreserve and forget the assumed pod. A plugin that raises changes nothing of that: it is logged."""
        pod, node = placement.pod, placement.node
        assert node is not None
        runner = self.runners[pod.scheduler_name]
        timing = runner.timing
        if timing is not None:
            timing.begin()
        try:
            runner.run_unreserve(placement.state, pod, node)
            if timing is not None:
                timing.lap("Unreserve")
        except Exception:
            # Imported here: `simulate` takes these steps, too, and starts without it.
            import structlog

            log = structlog.get_logger(component="attempts")
            log.exception("Unreserve failed", pod=pod.key, node=node)
        self.state.forget(pod.uid)

    def reserve_gang(
        self,
        gang: Gang,
        pods: Sequence[PodInfo],
        *,
        decide_now: DecideGang | None = None,
        before_reserve: Callable[[Placement], None] = lambda placement: None,
        turn_is_over: Callable[[], bool] | None = None,
    ) -> Asking[GangReservation]:
        """Reserve nodes for as many members as the gang lacks, or for none.

        Args:
            gang: which pods belong together.
            pods: the members to place, in queue order.
            decide_now: called instead of `decide_gang`, by a caller that measures it.
            before_reserve: called for each member that was given a node, before it is assumed there.
            turn_is_over: tells when others are to be decided; None where it is done in one go.
        """
        work = Work(GANG_UNITS, turn_is_over)
        decide_members = decide_now or self.decide_gang
        reserved: list[tuple[Placement, PermitOutcome]] = []

        def reserve(placement: Placement) -> Status:
            before_reserve(placement)
            outcome = self.reserve(placement)
            if not is_reserved(outcome):
                return outcome.status
            reserved.append((placement, outcome))
            return SUCCESS

        complete = False
        try:
            decision = yield from place_gang(
                gang, pods, lambda now, left, enough: decide_members(now, left, enough, work), reserve
            )
            complete = len(reserved) >= gang.missing
        finally:
            if not complete:
                # The last first, so that each plugin undoes its changes in the reverse order of making them.
                for placement, _ in reversed(reserved):
                    self.unreserve(placement)
                reserved.clear()
        return GangReservation(decision, tuple(reserved), work)

    def run_gang_post_filters(self, gang: Gang, pods: Sequence[PodInfo], work: Work) -> GangPostFilterOutcome:
        """Look for pods to preempt, for a gang of which too few members fit, in one go; `work` is that of the
        attempt."""
        work.turn_is_over = None
        runner = self.runner_of(pods[0])
        timing = runner.timing
        began = 0.0 if timing is None else timing.now()
        outcome = run_gang_post_filters(self.snapshot(), gang, pods, runner, self._rng, work, self.extenders)
        if timing is not None and outcome.message:
            code = Code.UNSCHEDULABLE if outcome.result is None else Code.SUCCESS
            timing.point("PodGroupPostFilter", code, timing.now() - began)
        return outcome


def is_reserved(outcome: PermitOutcome) -> bool:
    """Tell whether the pod holds its node: it may go on, or waits there for permission."""
    return outcome.status.is_success or bool(outcome.waits)


def refusal_message(status: Status) -> str:
    """Return the message for a pod that lost its node in Reserve, Permit or later, worded as by upstream."""
    return f"0/1 nodes are available: 1 {status.message}." if status.is_rejection else status.message
