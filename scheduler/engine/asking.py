"""Attempts at pods that extenders are interested in: their decisions wait for answers, all others never wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from scheduler.core import Placement, PostFilterOutcome
from scheduler.engine.attempts import AttemptPipeline
from scheduler.engine.extending import Extenders
from scheduler.engine.interview import AbandonedError, interview
from scheduler.framework import Asking, Extender, PodInfo
from scheduler.state import QueuedPod, SchedulingQueue, Snapshot

T = TypeVar("T")


class AttemptSteps(Protocol):
    """What follows in an attempt, whoever was asked; `started` is `time.perf_counter` at its beginning."""

    def note_decision(self, snapshot: Snapshot, placement: Placement, started: float) -> None:
        """Measure and log a decision."""
        ...

    def settle(self, queued: QueuedPod, placement: Placement, started: float) -> bool:
        """Reserve the node, or report an error; false where the pod was rejected and preemption may make room."""
        ...

    def reject(self, queued: QueuedPod, placement: Placement, outcome: PostFilterOutcome, started: float) -> None:
        """Requeue a pod that fits nowhere, and say whether preemption makes room."""
        ...

    def attempt_raised(self, queued: QueuedPod, started: float, error: Exception) -> None:
        """Report an unexpected failure."""
        ...

    def keep_alive(self) -> None:
        """Do what a round of the scheduling loop does beside attempts."""
        ...


class AskingAttempts:
    """Runs such attempts, one at a time. Methods run on the scheduling loop."""

    def __init__(
        self,
        attempts: AttemptPipeline,
        extenders: Extenders,
        queue: SchedulingQueue,
        pending: Mapping[str, PodInfo],
        may_schedule: Callable[[], bool],
        steps: AttemptSteps,
    ) -> None:
        """Configure; the arguments are those of the scheduling cycle, which is `steps`."""
        self._attempts = attempts
        self._extenders = extenders
        self._queue = queue
        self._pending = pending
        self._may_schedule = may_schedule
        self._steps = steps

    async def finish(self, attempt: Coroutine[Any, Any, None], round_seconds: float) -> None:
        """Wait for an attempt. No other pod is tried meanwhile; all else goes on, looked after each `round_seconds`."""
        task = asyncio.create_task(attempt, name="ask extenders")
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=round_seconds)
                self._steps.keep_alive()
        finally:
            task.cancel()

    async def attempt(self, queued: QueuedPod, extenders: Sequence[Extender], started: float) -> None:
        """One attempt at a pod that extenders are interested in, up to the start of its binding."""
        pod = queued.pod
        try:
            placement = await self._interview(
                queued, self._attempts.decide_asking(self._attempts.snapshot(), pod, extenders)
            )
            snapshot = self._attempts.snapshot()
            self._steps.note_decision(snapshot, placement, started)
            if not self._steps.settle(queued, placement, started):
                asking = self._attempts.post_filters_asking(snapshot, placement, extenders)
                self._steps.reject(queued, placement, await self._interview(queued, asking), started)
        except AbandonedError:
            if pod.uid in self._pending:
                # This process stops, or leads no more: the pod was not tried.
                self._queue.put_back(queued)
            else:
                self._queue.done(pod.uid)
                self._attempts.state.nominator.remove(pod.uid)
        except Exception as error:
            self._steps.attempt_raised(queued, started, error)

    async def _interview(self, queued: QueuedPod, asking: Asking[T]) -> T:
        self._extenders.begin(queued.pod)

        def is_wanted() -> bool:
            return queued.pod.uid in self._pending and self._may_schedule()

        return await interview(asking, self._extenders.ask, self._attempts.snapshot, is_wanted)
