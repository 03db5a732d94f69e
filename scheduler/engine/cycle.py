"""The scheduling loop: pods from the queue, one decision each, reservation, and the binding beside the loop.

One loop decides, on one thread: a decision sees every earlier one without locks, and a single decision is so short
that a second thread would only wait for the interpreter. What takes long is the API server. So a pod is assumed on its
node as soon as it is decided, and its binding runs as a task beside the loop: the next pods are decided meanwhile, on
a cluster that includes it. Deciding one pod per round trip would place some hundred pods a second, whatever a decision
costs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
import structlog

from scheduler.core import BUDGET_REJECTOR, Placement, PostFilterOutcome
from scheduler.engine.attemptlog import AttemptLog
from scheduler.engine.attempts import AttemptPipeline, is_reserved, refusal_message
from scheduler.engine.extending import AskingAttempt, AskingAttempts, Extenders
from scheduler.engine.failures import (
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    AttemptFailure,
    FailureReporter,
    warn_of_ignored_group,
)
from scheduler.engine.gangs import BindingAttempt, GangOutcome, Gangs
from scheduler.engine.handle import EngineHandle
from scheduler.engine.nominating import BindingNominations
from scheduler.engine.timing import STATUS, AttemptCounts, ProfileTiming
from scheduler.engine.turns import GangTurns
from scheduler.engine.waiting import WaitingPods
from scheduler.framework import (
    ASSIGNED_POD_DELETE,
    NO_NODES,
    OVER_BUDGET,
    PODS_TO_ACTIVATE,
    PREEMPTION_ATTEMPTS,
    Asking,
    Code,
    CycleState,
    Gang,
    PodInfo,
    Status,
    TurnQuestion,
    failure,
)
from scheduler.observe import LoopWatchdog, Metrics
from scheduler.state import QueuedPod, SchedulingQueue, Snapshot

SLICE_SECONDS = 0.020
"""Longest stretch of decisions before watches, bindings and timers get their turn."""
MAX_BINDING = 64
"""Bindings under way at once: more only lengthen the API server's queue (docs/performance.md)."""
MAX_SLOW_BINDINGS = 192
"""Bindings beyond these that the API server has not answered for a while (`binding.SLOW_SECONDS`). Other pods do not
wait for them, until so many hang that the API server must be in trouble as a whole."""
FLUSH_SECONDS = 0.5
"""How often pods whose backoff is over, or that have been unschedulable for long, are looked for."""
_STOPPING_POLL_SECONDS = 0.02
_NO_NODES_FAILURE = AttemptFailure(NO_NODES, UNSCHEDULABLE)
T = TypeVar("T")
log = structlog.get_logger(component="cycle")


class SchedulingCycle:
    """Owns the loop. All methods run on the event loop's thread.

    Args:
        attempts: the steps of an attempt, for all profiles.
        queue: the pods to place.
        handles: by scheduler name.
        timings: measures the attempts, by scheduler name.
        pending: the pods that wait for a node, by UID, as the API server shows them now.
        failures: tells users of pods that could not be placed.
        waiting: the pods that are not bound yet.
        metrics: where attempts are counted.
        may_schedule: false until this process leads and its caches are filled, and again when it stops.
        watch: gets a sign of life at each round of the loop.
        attempt_log: says more of attempts, where more is asked for.
        extenders: have a say in decisions and bind pods; None without any.
    """

    def __init__(
        self,
        *,
        attempts: AttemptPipeline,
        queue: SchedulingQueue,
        handles: Mapping[str, EngineHandle],
        timings: Mapping[str, ProfileTiming],
        pending: Mapping[str, PodInfo],
        failures: FailureReporter,
        waiting: WaitingPods,
        metrics: Metrics,
        may_schedule: Callable[[], bool],
        watch: LoopWatchdog,
        attempt_log: AttemptLog,
        extenders: Extenders | None = None,
    ) -> None:
        self._attempts = attempts
        self._state = attempts.state
        self._monotonic = attempts.clocks.monotonic
        self._queue = queue
        self._handles = handles
        self._timings = timings
        self._pending = pending
        self._failures = failures
        self._waiting = waiting
        self._metrics = metrics
        self._counts = AttemptCounts(metrics)
        self._may_schedule = may_schedule
        self._watch = watch
        self._log = attempt_log
        self._extenders = extenders
        self._asking: AskingAttempt | None = None
        self._flush_at = self._monotonic()
        self._wake = asyncio.Event()
        self._bindings: set[asyncio.Task[None]] = set()
        self._gangs = Gangs(attempts, queue, waiting, metrics, attempt_log)
        self._asking_attempts = (
            None if extenders is None else AskingAttempts(attempts, extenders, pending, self._gangs, may_schedule, self)
        )
        self._turns = GangTurns(attempts, queue, self._gangs, pending, attempt_log, self)
        self._nominations = BindingNominations(handles, pending, failures)

    def wake(self) -> None:
        """Something changed that may let a pod be placed."""
        self._wake.set()

    def activate(self, uids: Iterable[str]) -> None:
        """Move pods to the active queue at once."""
        self._queue.activate(uids)
        self.wake()

    @property
    def bindings_under_way(self) -> int:
        """How many pods are between their reservation and the end of their binding."""
        return len(self._bindings)

    async def run(self) -> None:
        """Schedule until cancelled."""
        self._flush_at = self._monotonic()
        while True:
            self.keep_alive()
            more = self._may_schedule() and self._run_slice()
            if not self._may_schedule():
                self._turns.give_back()
            if self._asking is not None and self._asking_attempts is not None:
                attempt, self._asking = self._asking, None
                await self._asking_attempts.finish(attempt, FLUSH_SECONDS)
            elif more:
                await asyncio.sleep(0)
            else:
                await self._wait_for_work()

    def keep_alive(self) -> None:
        """Give a sign of life, and flush the queue where that is due."""
        self._watch.beat()
        if self._monotonic() >= self._flush_at:
            # Backoff is in whole seconds, as upstream; looking more often would only cost.
            self._queue.flush()
            self._flush_at = self._monotonic() + FLUSH_SECONDS

    async def finish(self, timeout: float) -> None:
        """Let bindings under way come to their end, at most `timeout` seconds."""
        if self._bindings:
            await asyncio.wait(self._bindings, timeout=timeout)

    async def stop_writing(self, timeout: float) -> list[str]:
        """Begin no write any more, and wait until the outcome of each is certain, at most `timeout` seconds.

        Returns the names of the profiles that have writes left which may still be carried out.
        """
        for handle in self._handles.values():
            handle.stop_writing()
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            left = [name for name, handle in self._handles.items() if handle.writes_under_way()]
            if self._extenders is not None and self._extenders.binding:
                left.append("extenders")
            if not left or asyncio.get_running_loop().time() >= deadline:
                return left
            await asyncio.sleep(_STOPPING_POLL_SECONDS)

    async def _wait_for_work(self) -> None:
        before = time.monotonic()
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            self._metrics.loop_lag.set(max(0.0, time.monotonic() - before - FLUSH_SECONDS))
        self._wake.clear()

    def _run_slice(self) -> bool:
        """Decide for some 20 ms; returns whether there is more to do right away."""
        if self._turns.take_turn():
            return True
        end = time.perf_counter() + SLICE_SECONDS
        while self._has_room_for_binding():
            queued = self._queue.pop()
            if queued is None:
                return self._turns.under_way
            self._attempt_safely(queued)
            if self._asking is not None or time.perf_counter() > end:
                return True
        # Full: the next binding that ends wakes the loop.
        return self._turns.under_way

    def _has_room_for_binding(self) -> bool:
        """Tell whether one more binding may begin. Those that wait for permission or for their volumes do not count:
        they do not keep the API server busy."""
        handles = self._handles.values()
        busy = len(self._bindings) - len(self._waiting) - sum(handle.paused for handle in handles)
        if busy < MAX_BINDING:
            return True
        return busy - min(sum(handle.slow_bindings() for handle in handles), MAX_SLOW_BINDINGS) < MAX_BINDING

    # Deciding -------------------------------------------------------------------------------------------------------

    def _attempt_safely(self, queued: QueuedPod) -> None:
        """One attempt, whose unexpected failure costs this pod the attempt and no other anything."""
        started = time.perf_counter()
        try:
            self._attempt(queued, started)
        except Exception as error:
            self.attempt_raised(queued, started, error)

    def attempt_raised(self, queued: QueuedPod, started: float, error: Exception) -> None:
        """Report an unexpected failure of an attempt."""
        log.error("an attempt failed unexpectedly", pod=queued.pod.key, exc_info=error)
        if not self._state.is_assumed(queued.pod.uid):
            failure = AttemptFailure(f"the attempt raised {type(error).__name__}: {error}"[:500], SCHEDULER_ERROR)
            self._handle_failure(queued, started, failure)

    def _attempt(self, queued: QueuedPod, started: float) -> None:
        """One attempt to place one pod, or its gang: everything up to the start of bindings, or to what an extender has
        to be asked first."""
        pod = queued.pod
        if pod.deleting:
            note = f"skip schedule deleting pod: {pod.key}"
            self._handles[pod.scheduler_name].event(pod, "Warning", "FailedScheduling", "Scheduling", note)
            self._queue.done(pod.uid)
            return
        if self._state.is_assumed(pod.uid):
            # As upstream: an update may have put it into the queue again before it was assumed, as it may while an
            # extender is asked about it.
            self._queue.done(pod.uid)
            return
        if self._gangs.forms_gang(pod) and self._queue.takes_back(queued):
            # Its gang is gone since, or lacks members.
            return
        if self._log.follows_beginnings:
            self._log.begin(queued, started)
        if self._state.node_count == 0:
            # As upstream, before any plugin is asked: there is no node of which it could say anything.
            gang = self._gangs.gang_to_place(pod)
            for member in [queued] if gang is None else self._gangs.take_members(queued, gang):
                self._handle_failure(member, started, _NO_NODES_FAILURE)
            return
        names_group = pod.workload_ref or (pod.scheduling_group and not self._gangs.forms_gang(pod))
        if names_group and queued.attempts <= 1:
            warn_of_ignored_group(self._handles[pod.scheduler_name], pod)
        # Only now, so that the share of measured attempts is one of attempts that ask plugins.
        self._timings[pod.scheduler_name].begin_attempt()
        gang = self._gangs.gang_to_place(pod)
        if self._turns.comes_later(queued, gang):
            return
        members = [queued] if gang is None else self._gangs.take_members(queued, gang)
        steps = self._place(queued, started) if gang is None else self._place_gang(queued, members, gang, started)
        try:
            question = next(steps)
        except StopIteration:
            return
        attempt = AskingAttempt(members, gang, steps, question, started)
        if isinstance(question, TurnQuestion):
            self._turns.begin(attempt)
        else:
            self._asking = attempt

    def _place(self, queued: QueuedPod, started: float) -> Asking[None]:
        snapshot = self._attempts.snapshot()
        placement = yield from self._attempts.decide(snapshot, queued.pod)
        if self._attempts.extenders:
            # The cluster went on while they were asked.
            snapshot = self._attempts.snapshot()
        beside = self._turns.beside(queued, placement)
        if beside is None:
            return
        placement = beside
        self._note_decision(snapshot, placement, started)
        if placement.node is not None:
            self._reserve(queued, placement, started)
        elif placement.code is Code.ERROR:
            self._counts.filter_failed(placement)
            failure = AttemptFailure(placement.message or "no reason given", SCHEDULER_ERROR)
            self._handle_failure(queued, started, failure)
        else:
            outcome = yield from self._attempts.run_post_filters(snapshot, placement)
            self._reject(queued, placement, outcome, started)

    def _place_gang(self, queued: QueuedPod, members: Sequence[QueuedPod], gang: Gang, started: float) -> Asking[None]:
        outcome = yield from self._gangs.attempt(queued, members, gang, started, self._turns.first_turn(members))
        self._turns.record(gang, outcome)
        self.settle_gang(outcome, started)

    def _note_decision(self, snapshot: Snapshot, placement: Placement, started: float) -> None:
        """Measure and log a decision; `started` is `time.perf_counter` at the beginning of the attempt."""
        self._metrics.algorithm_duration.observe(time.perf_counter() - started)
        self._metrics.count_observations(placement.counters)
        if self._log.follows_decisions:
            self._log.decided(snapshot, placement, self._attempts.runner_of(placement.pod))

    def _reject(self, queued: QueuedPod, placement: Placement, outcome: PostFilterOutcome, started: float) -> None:
        """Requeue a pod that fits nowhere; count and log whether preemption makes room."""
        self._log.post_filtered(placement.pod, outcome)
        self._metrics.preemption_attempts.inc(placement.counters.get(PREEMPTION_ATTEMPTS, 0))
        if outcome.victims:
            self._metrics.preemption_victims.observe(len(outcome.victims))
            log.info(
                "preempting",
                pod=placement.pod.key,
                node=outcome.nominated_node,
                victims=[victim.key for victim in outcome.victims],
            )
        rejectors, pending = placement.rejectors, placement.pending
        if outcome.over_budget:
            self._metrics.count_observations({f"{OVER_BUDGET}/{outcome.over_budget}": 1})
            # What wakes it for another reason would have it tried, and given up, again.
            rejectors, pending = frozenset({BUDGET_REJECTOR}), frozenset()
        failure = AttemptFailure(outcome.message, UNSCHEDULABLE, rejectors, pending, outcome.nominated_node)
        self._handle_failure(queued, started, failure)

    def _reserve(self, queued: QueuedPod, placement: Placement, started: float) -> None:
        permit = self._attempts.reserve(placement)
        attempt = BindingAttempt(queued, placement, started, permit.waits)
        if is_reserved(permit):
            self._start_binding(attempt)
        else:
            self._counts.volume_error(permit.status, "assume")
            self._report_lost_node(attempt, permit.status, permit.status.message)

    def settle_gang(self, outcome: GangOutcome, started: float) -> None:
        """Do what an attempt at a gang came to."""
        for member, reason in outcome.rejected:
            self._handle_failure(member, started, reason)
        for member in outcome.untried:
            self.put_back(member)
        for attempt in outcome.placed:
            self._start_binding(attempt)

    def return_untried(self, attempt: AskingAttempt) -> None:
        """End an attempt as if it had not begun: something goes before it, or this process decides nothing any more."""
        attempt.steps.close()
        for queued in attempt.members:
            self.put_back(queued)

    def fail_gang(self, attempt: AskingAttempt, reason: str) -> None:
        """End an attempt at a gang before it is through."""
        attempt.steps.close()
        assert attempt.gang is not None
        self.settle_gang(self._gangs.fail(attempt.gang, attempt.members, reason, attempt.started), attempt.started)

    def members_raised(self, attempt: AskingAttempt, error: Exception) -> None:
        """Report an unexpected failure of an attempt that had asked something."""
        for queued in attempt.members:
            self.attempt_raised(queued, attempt.started, error)

    def put_back(self, queued: QueuedPod) -> None:
        """Requeue a pod as if it had not been popped, if it still waits for a node."""
        uid = queued.pod.uid
        latest = self._pending.get(uid)
        self._log.not_tried(queued)
        if latest is None:
            self._queue.done(uid)
            self._state.nominator.remove(uid)
        else:
            queued.pod = latest
            self._queue.put_back(queued)

    # Binding --------------------------------------------------------------------------------------------------------

    def _start_binding(self, attempt: BindingAttempt) -> None:
        """Bind beside the loop, once no Permit plugin holds the pod any more."""
        pod = attempt.pod
        waiting = self._waiting.add(pod, attempt.waits) if attempt.waits else None
        task = asyncio.create_task(self._bind(attempt, waiting), name=f"bind {pod.key}")
        self._bindings.add(task)
        task.add_done_callback(self._binding_ended)
        self._activate_requested(attempt.placement.state)

    def _activate_requested(self, state: CycleState) -> None:
        """Activate the pods that a plugin named during the attempt."""
        pods: dict[str, Any] | None = state.read(PODS_TO_ACTIVATE, dict)
        if pods:
            self.activate(pods)
            state.write(PODS_TO_ACTIVATE, None)

    def _binding_ended(self, task: asyncio.Task[None]) -> None:
        self._bindings.discard(task)
        self.wake()
        if not task.cancelled() and task.exception() is not None:
            log.error("binding cycle failed", task=task.get_name(), exc_info=task.exception())

    async def _bind(self, attempt: BindingAttempt, waiting: asyncio.Future[Status] | None) -> None:
        try:
            status = await self._reach_node(attempt, waiting)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                # The process ends.
                raise
            status = failure("the binding was cancelled by something that it waited for")
        except Exception as error:
            log.exception("a binding failed unexpectedly", pod=attempt.pod.key, node=attempt.node)
            status = failure(f"the binding raised {type(error).__name__}: {error}"[:500])
        if not status.is_success:
            self._roll_back(attempt, status)
            return
        # The pod is bound: whatever fails from here on takes nothing of that back.
        self._gangs.member_bound(attempt)
        self._record_success(attempt)
        state, timing = attempt.placement.state, self._timings[attempt.pod.scheduler_name]
        began = timing.now()
        await self._attempts.runner_of(attempt.pod).run_post_bind(state, attempt.pod, attempt.node)
        timing.point("PostBind", Code.SUCCESS, timing.now() - began)
        self._activate_requested(state)

    async def _reach_node(self, attempt: BindingAttempt, waiting: asyncio.Future[Status] | None) -> Status:
        """Wait for permission, run PreBind and Bind; returns Success once the pod is bound."""
        pod, node, state = attempt.pod, attempt.node, attempt.placement.state
        runner = self._attempts.runner_of(pod)
        timing = self._timings[pod.scheduler_name]
        nomination = await self._nominations.begin_binding(attempt, runner, timing, waiting)
        if waiting is not None:
            began = timing.now()
            status = await waiting
            self._metrics.permit_wait.labels(STATUS[status.code]).observe(timing.now() - began)
            self._log.waited(pod, timing.now() - began, status)
            if not status.is_success:
                return status
        # From here on events are no longer kept for the pod, as upstream: what happens now finds it assumed.
        self._queue.done(pod.uid)
        self._log.binding(pod)
        began = timing.now()
        async with nomination:
            if attempt.gang is not None:
                status = await self._gangs.pre_bind(attempt, runner, self._nominations.begin_wait)
            else:
                status = await self._waiting.pre_bind(runner, state, pod, node)
        ready = timing.now()
        timing.point("PreBind", status.code, ready - began)
        if not status.is_success:
            self._counts.volume_error(status, "bind")
            return status
        self._log.pre_bound(pod)
        await self._failures.settle(pod.uid)
        bound = (
            None
            if self._extenders is None
            else await self._extenders.bind(pod, node, self._handles[pod.scheduler_name])
        )
        status = await runner.run_bind(state, pod, node) if bound is None else bound
        timing.point("Bind", status.code, timing.now() - ready)
        return status

    def _record_success(self, attempt: BindingAttempt) -> None:
        queued, placement, now = attempt.queued, attempt.placement, self._monotonic()
        pod = queued.pod
        self._state.confirm(pod.uid)
        if pod.uid not in self._pending and self._state.forget(pod.uid):
            # It has ended already, and the watch, which was lost meanwhile, never showed it with a node.
            self._queue.on_event(ASSIGNED_POD_DELETE, old=msgspec.structs.replace(pod, node_name=placement.node))
        note = f"Successfully assigned {pod.key} to {placement.node}"
        self._handles[pod.scheduler_name].event(pod, "Normal", "Scheduled", "Binding", note)
        self._failures.forget(pod.uid)
        self._log.bound(queued, now)
        self._counts.ended("scheduled", pod, attempt.started)
        self._counts.bound(queued, now)
        log.info(
            "Successfully bound pod to node",
            pod=pod.key,
            node=placement.node,
            evaluatedNodes=placement.evaluated,
            feasibleNodes=placement.feasible,
        )

    def _roll_back(self, attempt: BindingAttempt, status: Status) -> None:
        """Unreserve and say why; a member of a gang is tried again at once where the others would wait for nothing."""
        self._attempts.unreserve(attempt.placement)
        self._report_lost_node(attempt, status, self._gangs.member_unreserved(attempt, status.message))
        if self._gangs.may_retry_at_once(attempt):
            self._queue.activate([attempt.pod.uid])

    def _report_lost_node(self, attempt: BindingAttempt, status: Status, message: str) -> None:
        """Requeue a pod that did not keep its node, and tell the queue that the node has room again."""
        if attempt.gang is not None:
            # No rejectors: no event tells when a member may be tried again, so it comes back by itself.
            failure = AttemptFailure(message, UNSCHEDULABLE if status.is_rejection else SCHEDULER_ERROR)
        elif status.is_rejection:
            plugins = frozenset({status.plugin} if status.plugin else ())
            failure = AttemptFailure(refusal_message(status), UNSCHEDULABLE, plugins)
        else:
            failure = AttemptFailure(message, SCHEDULER_ERROR)
        self._handle_failure(attempt.queued, attempt.started, failure)
        # The pod itself is left out: it would wake itself for the room that it gave up.
        gone = msgspec.structs.replace(attempt.pod, node_name=attempt.node)
        self._queue.on_event(ASSIGNED_POD_DELETE, old=gone, except_uid=attempt.pod.uid)
        self.wake()

    def _handle_failure(self, queued: QueuedPod, started: float, failure: AttemptFailure) -> None:
        """Requeue a pod that got no node, and say why: event, condition, nomination."""
        pod = queued.pod
        self._counts.ended("unschedulable" if failure.reason == UNSCHEDULABLE else "error", pod, started)
        latest = self._pending.get(pod.uid)
        if latest is None:
            # Deleted, or bound by another scheduler, meanwhile: the watch has said so, and nobody waits for a reason.
            self._queue.done(pod.uid)
            self._state.nominator.remove(pod.uid)
            self._log.failed(queued, failure, "")
            return
        queued.pod, queued.entity_size = latest, failure.entity_size
        target = self._queue.add_unschedulable(
            queued, rejectors=failure.rejectors, pending=failure.pending, requeue=failure.requeue
        )
        self._log.failed(queued, failure, target)
        # In memory at once: until the watch brings it back, others must not take the room that is being made.
        nominated = failure.nominated_node
        self._state.nominator.set(latest, latest.nominated_node if nominated is None else nominated)
        self._failures.report(self._handles[pod.scheduler_name], latest, failure)
        log.info("Unable to schedule pod; no fit; waiting", pod=pod.key, err=failure.message, queue=target)
