"""The scheduling loop: pods from the queue, one decision each, reservation, and the binding beside the loop."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import structlog

from scheduler.core import GangDecision, Placement, decide, decide_gang, run_post_filters
from scheduler.engine.failures import SCHEDULER_ERROR, UNSCHEDULABLE, FailureReporter
from scheduler.engine.gangs import Attempt, Gangs
from scheduler.engine.handle import EngineHandle
from scheduler.engine.waiting import WaitingPods
from scheduler.framework import (
    ASSIGNED_POD_DELETE,
    NO_NODES,
    PODS_TO_ACTIVATE,
    PREEMPTION_ATTEMPTS,
    Code,
    CycleState,
    Gang,
    PodInfo,
    ProfileRunner,
    Status,
)
from scheduler.observe.health import LoopWatch
from scheduler.observe.metrics import Metrics
from scheduler.state import ClusterState, QueuedPod, SchedulingQueue, Snapshot

SLICE_SECONDS = 0.020
"""Longest stretch of decisions before watches, bindings and timers get their turn."""
MAX_BINDING = 64
"""Bindings under way at once: more only lengthen the API server's queue (docs/performance.md)."""
FLUSH_SECONDS = 0.5
"""How often pods that have waited long enough are looked for."""
log = structlog.get_logger(component="cycle")


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile at run time: its plugins, and the handle through which they act."""

    runner: ProfileRunner
    handle: EngineHandle


class SchedulingCycle:
    """Owns the loop. All methods run on the event loop's thread.

    Args:
        profiles: by scheduler name.
        pending: the pods that wait for a node, by UID, as the API server shows them now.
        may_schedule: false until this process leads and its caches are filled, and again when it stops.
    """

    def __init__(
        self,
        *,
        state: ClusterState,
        queue: SchedulingQueue,
        profiles: Mapping[str, Profile],
        pending: Mapping[str, PodInfo],
        failures: FailureReporter,
        waiting: WaitingPods,
        metrics: Metrics,
        may_schedule: Callable[[], bool],
        watch: LoopWatch,
        rng: random.Random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state = state
        self._queue = queue
        self._profiles = profiles
        self._pending = pending
        self._failures = failures
        self._waiting = waiting
        self._metrics = metrics
        self._may_schedule = may_schedule
        self._watch = watch
        self._rng = rng
        self._clock = clock
        self._wake = asyncio.Event()
        self._binding: set[asyncio.Task[None]] = set()
        runners = {name: profile.runner for name, profile in profiles.items()}
        self._gangs = Gangs(self, runners, queue, waiting, metrics, clock)

    def wake(self) -> None:
        """Something changed that may let a pod be placed."""
        self._wake.set()

    def activate(self, uids: Iterable[str]) -> None:
        """Move pods to the active queue at once."""
        self._queue.activate(uids)
        self.wake()

    async def run(self) -> None:
        """Schedule until cancelled."""
        flush_at = 0.0
        while True:
            self._watch.beat()
            if self._clock() >= flush_at:
                # Back-off runs in whole seconds, as upstream; looking more often would only cost.
                self._queue.flush()
                flush_at = self._clock() + FLUSH_SECONDS
            more = self._may_schedule() and self._slice()
            if more:
                await asyncio.sleep(0)
            else:
                await self._pause()

    async def finish(self, timeout: float) -> None:
        """Let bindings under way come to their end, at most `timeout` seconds."""
        if self._binding:
            await asyncio.wait(self._binding, timeout=timeout)

    async def _pause(self) -> None:
        before = time.monotonic()
        try:
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._wake.wait()
        except TimeoutError:
            self._metrics.loop_lag.set(max(0.0, time.monotonic() - before - FLUSH_SECONDS))
        self._wake.clear()

    def _slice(self) -> bool:
        """Decide for some 20 ms; returns whether there is more to do right away."""
        end = time.perf_counter() + SLICE_SECONDS
        while self._busy_bindings() < MAX_BINDING:
            queued = self._queue.pop()
            if queued is None:
                return False
            self._attempt(queued)
            if time.perf_counter() > end:
                return True
        # Full: the next binding that ends wakes the loop.
        return False

    def _busy_bindings(self) -> int:
        """Bindings that keep the API server busy: not those that wait for permission or for their volumes."""
        idle = len(self._waiting) + sum(profile.handle.paused for profile in self._profiles.values())
        return len(self._binding) - idle

    def _attempt(self, queued: QueuedPod) -> None:
        """One attempt to place one pod: everything up to the start of its binding."""
        pod, started = queued.pod, time.perf_counter()
        profile = self._profiles[pod.scheduler_name]
        if pod.deleting:
            note = f"skip schedule deleting pod: {pod.key}"
            profile.handle.event(pod, "Warning", "FailedScheduling", "Scheduling", note)
            self._queue.done(pod.uid)
            return
        if self._state.is_assumed(pod.uid):
            self._queue.done(pod.uid)
            return
        if self._state.node_count == 0:
            self._reject(queued, started, NO_NODES, UNSCHEDULABLE, frozenset())
            return
        gang = self._gangs.of(pod)
        if gang is not None:
            self._gangs.attempt(queued, gang, started)
            return
        snapshot = self._state.snapshot(self._clock())
        placement = decide(snapshot, pod, profile.runner, self._rng)
        self._metrics.algorithm_duration.observe(time.perf_counter() - started)
        self._count(placement)
        if placement.node is not None:
            self._place(Attempt(queued, placement, started))
        elif placement.code is Code.ERROR:
            self._reject(queued, started, placement.message or "no reason given", SCHEDULER_ERROR, frozenset())
        else:
            self._turn_down(queued, profile, placement, started, snapshot)

    def _turn_down(
        self, queued: QueuedPod, profile: Profile, placement: Placement, started: float, snapshot: Snapshot
    ) -> None:
        """No node fits: see whether preemption makes room, and report."""
        outcome = run_post_filters(snapshot, placement, profile.runner)
        self._metrics.preemption_attempts.inc(placement.counters.get(PREEMPTION_ATTEMPTS, 0))
        if outcome.victims:
            self._metrics.preemption_victims.observe(len(outcome.victims))
            log.info(
                "preempting",
                pod=queued.pod.key,
                node=outcome.nominated_node,
                victims=[victim.key for victim in outcome.victims],
            )
        self._reject(
            queued,
            started,
            outcome.message,
            UNSCHEDULABLE,
            placement.rejectors,
            placement.pending,
            outcome.nominated_node,
        )

    def _place(self, attempt: Attempt) -> None:
        """Assume, reserve and ask for permission; then bind beside the loop."""
        status = self.take(attempt)
        if status.is_success or attempt.waits:
            self.start_binding(attempt)
        else:
            self._report_lost(attempt, status, status.message)

    def decide_gang(self, gang: Gang, pods: Sequence[PodInfo], enough: int) -> GangDecision:
        """Decide about members of a gang on the cluster as it is now, until so many have a place."""
        began = time.perf_counter()
        snapshot = self._state.snapshot(self._clock())
        decision = decide_gang(snapshot, gang, pods, self._runner_of, self._rng, enough)
        self._metrics.algorithm_duration.observe(time.perf_counter() - began)
        for placement in decision.placements:
            self._count(placement)
        return decision

    def take(self, attempt: Attempt) -> Status:
        """Assume, reserve, ask for permission; what does not end in Success or Wait has been taken back."""
        pod, node, state, runner = attempt.pod, attempt.node, attempt.placement.state, self._runner_of(attempt.pod)
        self._state.assume(pod, node, self._clock())
        status = runner.run_reserve(state, pod, node)
        if status.is_success:
            outcome = runner.run_permit(state, pod, node)
            status, attempt.waits = outcome.status, outcome.waits
        if not status.is_success and not attempt.waits:
            self.take_back(attempt)
        return status

    def take_back(self, attempt: Attempt) -> None:
        """Unreserve and forget."""
        self._runner_of(attempt.pod).run_unreserve(attempt.placement.state, attempt.pod, attempt.node)
        self._state.forget(attempt.pod.uid)

    def start_binding(self, attempt: Attempt) -> None:
        """Bind beside the loop, once nobody lets the pod wait any more."""
        pod = attempt.pod
        waiting = self._waiting.add(pod, attempt.waits) if attempt.waits else None
        task = asyncio.create_task(self._bind(attempt, waiting), name=f"bind {pod.key}")
        self._binding.add(task)
        task.add_done_callback(self._bound)
        self._activate_asked(attempt.placement.state)

    def _activate_asked(self, state: CycleState) -> None:
        """Wake the pods that a plugin asked for during the attempt."""
        asked: dict[str, Any] | None = state.read(PODS_TO_ACTIVATE, dict)
        if asked:
            self.activate(asked)
            state.write(PODS_TO_ACTIVATE, None)

    def _bound(self, task: asyncio.Task[None]) -> None:
        self._binding.discard(task)
        self.wake()
        if not task.cancelled() and task.exception() is not None:
            log.error("binding cycle failed", task=task.get_name(), exc_info=task.exception())

    async def _bind(self, attempt: Attempt, waiting: asyncio.Future[Status] | None) -> None:
        pod, node, state, runner = attempt.pod, attempt.node, attempt.placement.state, self._runner_of(attempt.pod)
        if waiting is not None:
            status = await waiting
            if not status.is_success:
                self._undo(attempt, status)
                return
        self._queue.done(pod.uid)
        if attempt.group is not None:
            status = await self._gangs.prepare(attempt, runner)
        else:
            status = await runner.run_pre_bind(state, pod, node)
        if status.is_success:
            status = await runner.run_bind(state, pod, node)
        if not status.is_success:
            self._undo(attempt, status)
            return
        self._gangs.bound(attempt)
        self._succeeded(attempt)
        await runner.run_post_bind(state, pod, node)
        self._activate_asked(state)

    def _runner_of(self, pod: PodInfo) -> ProfileRunner:
        return self._profiles[pod.scheduler_name].runner

    def _count(self, placement: Placement) -> None:
        for observation, count in placement.counters.items():
            self._metrics.plugin_observations.labels(observation).inc(count)

    def _succeeded(self, attempt: Attempt) -> None:
        queued, placement, now = attempt.queued, attempt.placement, self._clock()
        pod = queued.pod
        self._state.confirm(pod.uid)
        if pod.uid not in self._pending and self._state.forget(pod.uid):
            # It has ended already, and the watch, which was lost meanwhile, never showed it with a node.
            self._queue.on_event(ASSIGNED_POD_DELETE, old=msgspec.structs.replace(pod, node_name=placement.node))
        note = f"Successfully assigned {pod.key} to {placement.node}"
        self._profiles[pod.scheduler_name].handle.event(pod, "Normal", "Scheduled", "Binding", note)
        self._failures.forget(pod.uid)
        self._observe("scheduled", pod, attempt.started)
        self._metrics.attempts_per_pod.observe(queued.attempts)
        attempts = str(queued.attempts) if queued.attempts < 15 else "15+"
        waited = now - (now if queued.initial_attempt_at is None else queued.initial_attempt_at)
        self._metrics.sli_duration.labels(attempts).observe(max(0.0, waited))
        log.info(
            "Successfully bound pod to node",
            pod=pod.key,
            node=placement.node,
            evaluatedNodes=placement.evaluated,
            feasibleNodes=placement.feasible,
        )

    def _undo(self, attempt: Attempt, status: Status) -> None:
        """Take a placement back and say why; a member of a gang is tried again at once, so that the others need not
        wait for nothing."""
        self.take_back(attempt)
        self._report_lost(attempt, status, self._gangs.lost(attempt, status.message))
        group = attempt.group
        if (
            group is not None
            and group.held
            and self._clock() < group.deadline
            and attempt.queued.consecutive_errors <= 1
        ):
            self._queue.activate([attempt.pod.uid])

    def _report_lost(self, attempt: Attempt, status: Status, message: str) -> None:
        """Put a pod back whose placement came to nothing, and tell the queue that room came free."""
        if attempt.group is not None:
            # No event tells when it may be tried again: it comes back by itself.
            reason = UNSCHEDULABLE if status.is_rejection else SCHEDULER_ERROR
            self._reject(attempt.queued, attempt.started, message, reason, frozenset())
        elif status.is_rejection:
            plugins = frozenset({status.plugin} if status.plugin else ())
            message = f"0/1 nodes are available: 1 {message}."
            self._reject(attempt.queued, attempt.started, message, UNSCHEDULABLE, plugins)
        else:
            self._reject(attempt.queued, attempt.started, message, SCHEDULER_ERROR, frozenset())
        # Its own leaving is no news to the pod itself.
        gone = msgspec.structs.replace(attempt.pod, node_name=attempt.node)
        self._queue.on_event(ASSIGNED_POD_DELETE, old=gone, besides=attempt.pod.uid)
        self.wake()

    def turn_away(self, queued: QueuedPod, started: float, message: str, rejectors: frozenset[str]) -> None:
        """Put a member of a gang back that got no node."""
        self._reject(queued, started, message, UNSCHEDULABLE if rejectors else SCHEDULER_ERROR, rejectors)

    def _reject(
        self,
        queued: QueuedPod,
        started: float,
        message: str,
        reason: str,
        rejectors: frozenset[str],
        pending: frozenset[str] = frozenset(),
        nominated_node: str | None = "",
    ) -> None:
        """Put a pod back and say why. Its nomination is cleared, unless PostFilter says otherwise (None: leave it)."""
        pod = queued.pod
        self._observe("unschedulable" if reason == UNSCHEDULABLE else "error", pod, started)
        latest = self._pending.get(pod.uid)
        if latest is None:
            # Deleted, or bound by somebody else, meanwhile: the watch has said so, and nobody waits for an answer.
            self._queue.done(pod.uid)
            self._state.nominator.remove(pod.uid)
            return
        queued.pod = latest
        target = self._queue.add_unschedulable(queued, rejectors=rejectors, pending=pending)
        self._metrics.incoming_pods.labels(target, "ScheduleAttemptFailure").inc()
        # In memory at once: until the watch brings it back, others must not take the room that is being made.
        self._state.nominator.set(latest, latest.nominated_node if nominated_node is None else nominated_node)
        self._failures.report(self._profiles[pod.scheduler_name].handle, latest, reason, message, nominated_node)
        log.info("Unable to schedule pod; no fit; waiting", pod=pod.key, err=message, queue=target)

    def _observe(self, result: str, pod: PodInfo, started: float) -> None:
        self._metrics.schedule_attempts.labels(result, pod.scheduler_name).inc()
        self._metrics.attempt_duration.labels(result, pod.scheduler_name).observe(time.perf_counter() - started)
