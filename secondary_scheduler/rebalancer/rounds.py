"""The loop: a plan per interval, its evictions, and what became of them.

What is to be done is written down before it is done: a move is in the status before the API server is asked, so that
a process that takes over knows of it, and its limits hold (rule 6). Where the status cannot be written, nothing moves.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

from scheduler.config import RebalanceSettings
from scheduler.framework import Clocks, PodInfo
from secondary_scheduler.rebalancer.metrics import CLUSTER_NOT_READ, STATUS_NOT_WRITTEN, RebalancerMetrics
from secondary_scheduler.rebalancer.status import Mode, RebalancingCondition, RoundReport
from secondary_scheduler.rebalancing import (
    ROUNDS_TO_STOP,
    EvictionReply,
    History,
    Memory,
    MoveOutcome,
    PastMove,
    PlannedMove,
    Reason,
    RebalancePlan,
    outcome_of,
    replacement_of,
    revision_of,
)

FOLLOW_SECONDS = 1.0
"""Seconds between looks at the moves in flight."""
_RETRY_SECONDS = 10.0
"""Seconds between attempts to write the status."""
_PAUSE_INTERVALS = 2.5
"""After so many intervals without a round, an overload before it does not count as one that lasts."""
_MAX_WAIT = 0.25
"""Share of an interval by which a round begins later, so that nodes whose load window is about to end take part: the
window is usually a multiple of the interval, and begins when the replacement is placed, some seconds after a round."""
_PREDICTION_FAILS = "PredictionFails"
log = structlog.get_logger(component="rebalancer")


@dataclass(frozen=True, slots=True)
class EvictionAnswer:
    """What became of a request, and the API server's words."""

    answer: EvictionReply
    message: str = ""


class StatusDeleted(Exception):
    """Somebody has deleted the status: they have looked at it, and want what it said of predictions forgotten."""


class ClusterAccess(Protocol):
    """What the loop sees of the cluster, and does to it."""

    def problem(self) -> str:
        """Return why nothing can be decided now; "" if it can."""

    def pod(self, uid: str) -> PodInfo | None:
        """Return the pod with a UID; None once it is gone."""

    def pods_of(self, controller: str) -> list[PodInfo]:
        """Return the pods of the controller with a UID."""

    async def plan(self, history: History, *, evicts: bool) -> RebalancePlan:
        """Return the plan of a round; `evicts`: its moves are carried out."""

    async def evict(self, pod: PodInfo, *, dry_run: bool) -> EvictionAnswer:
        """Ask for the eviction of this very pod."""

    async def save(self, memory: Memory, report: RoundReport) -> str:
        """Keep the memory and show the report; returns why that failed, "" if it did not.

        Raises:
            StatusDeleted: what was kept before is gone; the next call creates a new one.
        """

    def announce_move(self, move: PlannedMove, pod: PodInfo) -> None:
        """Tell the pod and its workload that it is evicted."""

    def announce_outcome(self, move: PastMove, node: str) -> None:
        """Tell the workload how a move ended; `node` is where the replacement is, "" if nowhere."""


class RebalanceLoop:
    """One loop.

    Args:
        world: the cluster.
        settings: what may be moved.
        mode: what becomes of a plan.
        memory: what was kept before.
        metrics: what is counted.
        clocks: the interval is one of the monotonic clock.
        leads: whether this process may write now.
        configuration: hash of the configuration that plans are made with.
        window: seconds of load that a node rests after a move.
    """

    def __init__(
        self,
        world: ClusterAccess,
        settings: RebalanceSettings,
        mode: Mode,
        memory: Memory,
        metrics: RebalancerMetrics,
        clocks: Clocks,
        leads: Callable[[], bool] = lambda: True,
        configuration: str = "",
        window: float = 0.0,
    ) -> None:
        self._world = world
        self._settings = settings
        self._mode = mode
        self._memory = memory
        self._metrics = metrics
        self._clocks = clocks
        self._leads = leads
        self._window = window
        self._unsaved = False
        self._failure = ""
        self.report = RoundReport(mode, self.effective_mode, self._resting_condition(), configuration)
        self.report.condition = self.report.condition.after(None, clocks.wall())
        metrics.begin(settings.interval_seconds, memory.round_at)
        metrics.show_mode(self.effective_mode, active=self.report.condition.status)
        self._show_stopped(())
        self._due = self._next_round = clocks.monotonic() + self._first_pause()

    @property
    def history(self) -> History:
        """What was before."""
        return self._memory.history

    @property
    def effective_mode(self) -> Mode:
        """Predictive where Automatic was stopped, as the predictions do not hold (rule 7)."""
        if self._mode is Mode.AUTOMATIC and self.history.missed_in_a_row() >= ROUNDS_TO_STOP:
            return Mode.PREDICTIVE
        return self._mode

    async def run(self, wait: Callable[[float], Awaitable[object]]) -> None:
        """Work until cancelled; `wait` returns after so many seconds, or earlier when pods have changed."""
        await self._save()
        while True:
            await self.turn()
            pause = FOLLOW_SECONDS if self.history.in_flight else _RETRY_SECONDS if self._unsaved else math.inf
            if self._mode is not Mode.OFF:
                pause = min(pause, max(0.0, self._next_round - self._clocks.monotonic()))
            await wait(pause)

    async def turn(self) -> None:
        """Look at the moves in flight; make a round if it is time for one."""
        await self.follow()
        now = self._clocks.monotonic()
        if self._mode is Mode.OFF or now < self._next_round:
            return
        if self._next_round == self._due and (seconds := self._until_nodes_have_rested()):
            self._next_round = now + seconds
            return
        # From its begin: a slow round does not make the next one late.
        self._due = self._next_round = now + self._settings.interval_seconds
        await self.round()

    async def follow(self) -> None:
        """Note how moves ended."""
        if self._world.problem():
            return  # What the copy of the cluster does not show may still be there.
        now = self._clocks.wall()
        for move in self.history.in_flight:
            siblings = self._world.pods_of(move.controller)
            outcome = outcome_of(move, self._world.pod, siblings, now)
            if outcome is not None:
                placed = replacement_of(move, siblings)
                self._end(move, outcome, now, placed.node_name if placed is not None else "")
        self._metrics.in_flight.set(len(self.history.in_flight))
        if self._unsaved:
            await self._save()

    async def round(self) -> None:
        """Plan, and ask for the evictions of the plan."""
        now = self._clocks.wall()
        pause = now - self._memory.round_at
        history = self.history
        if not 0 <= pause <= _PAUSE_INTERVALS * self._settings.interval_seconds:
            history = history.interrupted()
        self._memory = replace(self._memory, history=history, round_at=now)
        problem = self._world.problem()
        if problem:
            # Nobody knows what was overloaded meanwhile.
            self._memory = replace(self._memory, history=history.interrupted())
            self._show_stopped((CLUSTER_NOT_READ,))
            await self._conclude(
                RebalancingCondition(False, "ClusterNotRead", f"the cluster cannot be read: {problem}")
            )
            return
        mode = self.effective_mode
        began = self._clocks.monotonic()
        plan = await self._world.plan(history, evicts=mode is Mode.AUTOMATIC)
        self._metrics.show_plan(plan, self._clocks.monotonic() - began, now)
        overloaded = plan.before.overloaded if plan.before is not None else ()
        self._memory = replace(self._memory, history=self.history.after_round(overloaded))
        self.report.plan, self.report.planned_at, self.report.answers = plan, now, {}
        self._log_plan(plan, mode)
        if mode is Mode.AUTOMATIC:
            stopped = await self._carry_out(plan, now)
        else:
            await self._ask(plan)
            stopped = ""
        reasons = {refusal.reason.value for refusal in plan.stopped}
        self._show_stopped(reasons | {STATUS_NOT_WRITTEN} if stopped else reasons)
        if stopped:
            await self._conclude(RebalancingCondition(False, "StatusNotWritten", stopped))
        elif plan.stopped:
            await self._conclude(
                RebalancingCondition(False, _camel(plan.stopped[0].reason.value), plan.stopped[0].message)
            )
        else:
            await self._conclude(self._resting_condition())

    async def _ask(self, plan: RebalancePlan) -> None:
        """Ask whether the evictions would be allowed, which changes nothing (rule 9)."""
        for move in plan.moves:
            pod = self._world.pod(move.uid)
            if pod is None or not self._leads():
                continue
            answered = await self._world.evict(pod, dry_run=True)
            self.report.answers[move.uid] = _words(answered)
            self._metrics.dry_runs.labels(answered.answer.value).inc()

    async def _carry_out(self, plan: RebalancePlan, now: float) -> str:
        """Evict, one after the other, until one is refused; returns why nothing could be written down.

        All moves of a round have begun with it, `now`: so they count in one interval.
        """
        for move in plan.moves:
            pod = self._world.pod(move.uid)
            if pod is None or pod.deleting or pod.node_name != move.source.name:
                self.report.answers[move.uid] = EvictionReply.GONE.value
                break
            # The plan saw the moves before this one; without one of them it is another plan.
            failed = await self._begin(move, pod, now)
            if failed or not self._leads():
                return failed
            self._world.announce_move(move, pod)
            answered = await self._world.evict(pod, dry_run=False)
            self.report.answers[move.uid] = _words(answered)
            log.info("eviction asked for", pod=move.pod, answer=answered.answer.value, message=answered.message)
            if not self._note_answer(move, answered):
                break
            self._metrics.gain.observe(move.gain.total)
        return ""

    async def _begin(self, move: PlannedMove, pod: PodInfo, now: float) -> str:
        """Write down a move that is about to be asked for; returns why that failed."""
        past = PastMove(
            move.workload,
            move.pod,
            move.uid,
            move.source.name,
            move.target.name,
            now,
            targets=move.best,
            controller=pod.controller.uid if pod.controller is not None else "",
            revision=revision_of(pod),
        )
        before = self._memory
        self._memory = replace(before, history=self.history.with_move(past))
        failed = await self._save()
        if failed:
            self._memory = before
        return failed

    def _note_answer(self, move: PlannedMove, answered: EvictionAnswer) -> bool:
        """Take in what the API server said; returns whether the pod goes, or will."""
        now = self._clocks.wall()
        words = _words(answered)
        self._unsaved = True
        match answered.answer:
            case EvictionReply.EVICTED | EvictionReply.EVACUATING:
                self._memory = replace(self._memory, history=self.history.with_detail(move.uid, words))
                return True
            case EvictionReply.REFUSED | EvictionReply.GONE:
                past = next(past for past in self.history.in_flight if past.uid == move.uid)
                self._end(past, MoveOutcome.REFUSED, now, "", words)
            case _:
                # Nobody knows whether it was carried out: it is followed like one that was.
                self._memory = replace(self._memory, history=self.history.with_detail(move.uid, words))
        return False

    def _end(self, move: PastMove, outcome: MoveOutcome, now: float, node: str, detail: str = "") -> None:
        self._memory = replace(self._memory, history=self.history.with_outcome(move.uid, outcome, now, detail))
        self._unsaved = True
        self._metrics.moves.labels(outcome.value).inc()
        log.info("a move ended", pod=move.pod, outcome=outcome.value, planned=move.target, node=node)
        self._world.announce_outcome(replace(move, outcome=outcome, ended_at=now, detail=detail or move.detail), node)
        if self.effective_mode is not self._mode:
            self._show(self._resting_condition())
            self._show_stopped(())

    async def _conclude(self, condition: RebalancingCondition) -> None:
        self._show(condition)
        await self._save()

    def _show(self, condition: RebalancingCondition) -> None:
        self.report.condition = condition.after(self.report.condition, self._clocks.wall())
        self.report.effective = self.effective_mode
        self._metrics.show_mode(self.report.effective, active=condition.status)

    def _show_stopped(self, reasons: Collection[str]) -> None:
        ended = {Reason.PREDICTION_FAILS.value} if self.effective_mode is not self._mode else set()
        self._metrics.show_stopped({*reasons, *ended})

    def _resting_condition(self) -> RebalancingCondition:
        effective = self.effective_mode
        if effective is not self._mode:
            missed = self.history.missed_in_a_row()
            return RebalancingCondition(
                False,
                _PREDICTION_FAILS,
                f"{missed} moves in a row did not land where they were to: nothing is evicted until somebody has looked"
                " why, and deleted the ConfigMap with this status",
            )
        if self._mode is Mode.AUTOMATIC:
            return RebalancingCondition(True, "Automatic", "pods are moved off overloaded nodes")
        words = "evictions are only tried (dryRun)" if self._mode is Mode.PREDICTIVE else "nothing is planned or moved"
        return RebalancingCondition(False, self._mode.value, words)

    async def _save(self) -> str:
        try:
            failed = await self._world.save(self._memory, self.report)
        except StatusDeleted:
            log.info("the status was deleted: moves that missed are forgotten")
            history = replace(self.history, trusted_since=self._clocks.wall())
            self._memory = replace(self._memory, history=history)
            if self.report.condition.reason == _PREDICTION_FAILS:
                self._show(self._resting_condition())
                self._show_stopped(())
            failed = await self._world.save(self._memory, self.report)
        self._unsaved = bool(failed)
        self._metrics.unsaved.set(bool(failed))
        if failed and failed != self._failure:
            log.warning("the status cannot be written: nothing is evicted", reason=failed)
        self._failure = failed
        return failed

    def _until_nodes_have_rested(self) -> float:
        """Seconds until all nodes have rested that have nearly done so; 0 where there is none."""
        now, longest = self._clocks.wall(), _MAX_WAIT * self._settings.interval_seconds
        # A second more, as clocks differ.
        left = (move.ended_at + self._window + 1.0 - now for move in self.history.moves if not move.in_flight)
        return max((seconds for seconds in left if 0 < seconds <= longest), default=0.0)

    def _first_pause(self) -> float:
        """Seconds until the first round: a process that is started again and again makes no more of them."""
        since = self._clocks.wall() - self._memory.round_at
        interval = float(self._settings.interval_seconds)
        return interval - since if 0 <= since < interval else 0.0

    def _log_plan(self, plan: RebalancePlan, mode: Mode) -> None:
        overloaded = len(plan.before.overloaded) if plan.before is not None else 0
        why = plan.stopped[0].message if plan.stopped else ""
        log.info("planned", mode=mode.value, overloaded=overloaded, moves=len(plan.moves), stopped=why)


def _words(answered: EvictionAnswer) -> str:
    return f"{answered.answer.value}: {answered.message}" if answered.message else answered.answer.value


def _camel(reason: str) -> str:
    return reason[:1].upper() + reason[1:]
