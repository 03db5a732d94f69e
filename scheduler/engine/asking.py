"""Attempts at pods that extenders are interested in: their decisions wait for answers, all others never wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from scheduler.core import Placement, PostFilterOutcome
from scheduler.engine.attempts import AttemptPipeline
from scheduler.engine.extending import Extenders
from scheduler.engine.gangs import GangOutcome
from scheduler.framework import Answer, Answered, Asking, Extender, ExtenderError, NodeView, PodInfo, Question
from scheduler.state import QueuedPod, SchedulingQueue, Snapshot


class AbandonedError(Exception):
    """The decision is of no use any more."""


async def interview(
    asking: Asking[T],
    ask: Callable[[Question], Awaitable[Answer]],
    view: Callable[[], NodeView],
    is_wanted: Callable[[], bool],
) -> T:
    """Return what a computation returns once all its questions are answered.

    Args:
        asking: the computation.
        ask: answers a question; its ExtenderError is raised in the computation.
        view: returns the cluster as it is now.
        is_wanted: asked after each answer.

    Raises:
        AbandonedError: it is no longer wanted. Nothing has come of it.
    """
    try:
        question = next(asking)
        while True:
            answer: Answer | ExtenderError
            try:
                answer = await ask(question)
            except ExtenderError as error:
                answer = error
            if not is_wanted():
                raise AbandonedError
            if isinstance(answer, ExtenderError):
                question = asking.throw(answer)
            else:
                question = asking.send(Answered(answer, view()))
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        asking.close()


MOST_GANG_SECONDS: Final = 60.0
"""How long an attempt at a gang may ask."""
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

    def settle_gang(self, outcome: GangOutcome, started: float) -> None:
        """Requeue and bind the members of a gang."""
        ...

    def attempt_raised(self, queued: QueuedPod, started: float, error: Exception) -> None:
        """Report an unexpected failure."""
        ...

    def keep_alive(self) -> None:
        """Do what a round of the scheduling loop does beside attempts."""
        ...


class AskedGang(Struct, frozen=True):
    """An attempt at a gang.

    Attributes:
        members: those that left the queue for it.
        asking: decides about them and reserves their nodes.
        is_unchanged: tells whether the gang is still as it was when the attempt began.
        fail: ends the attempt for a reason.
    """

    members: Sequence[QueuedPod]
    asking: Asking[GangOutcome]
    is_unchanged: Callable[[], bool]
    fail: Callable[[str], GangOutcome]


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
            self._return_untried(queued)
        except Exception as error:
            self._steps.attempt_raised(queued, started, error)

    async def attempt_gang(self, gang: AskedGang, started: float) -> None:
        """One attempt at a gang with members that extenders are interested in. It fails if the gang changes meanwhile,
        or if it takes too long: a tenant's gang of thousands must not keep all other pods waiting."""
        self._extenders.begin(gang.members[0].pod)
        clock = asyncio.get_running_loop().time
        deadline = clock() + MOST_GANG_SECONDS
        reason = ""

        def is_wanted() -> bool:
            nonlocal reason
            if not self._may_schedule():
                return False
            if not all(queued.pod.uid in self._pending for queued in gang.members) or not gang.is_unchanged():
                reason = "it changed while extenders were asked about its members"
            elif clock() > deadline:
                reason = f"asking extenders about its members took more than {MOST_GANG_SECONDS:g} s"
            return not reason

        try:
            try:
                outcome = await interview(gang.asking, self._extenders.ask, self._attempts.snapshot, is_wanted)
            except AbandonedError:
                if not reason:
                    for queued in gang.members:
                        self._return_untried(queued)
                    return
                outcome = gang.fail(reason)
            for queued in outcome.untried:
                queued.pod = self._pending.get(queued.pod.uid, queued.pod)
            self._steps.settle_gang(outcome, started)
        except Exception as error:
            for queued in gang.members:
                self._steps.attempt_raised(queued, started, error)

    def _return_untried(self, queued: QueuedPod) -> None:
        """Put a pod back as if it had not been popped, if it still waits for a node: this process stops, or leads no
        more."""
        uid = queued.pod.uid
        if uid in self._pending:
            queued.pod = self._pending[uid]
            self._queue.put_back(queued)
        else:
            self._queue.done(uid)
            self._attempts.state.nominator.remove(uid)

    async def _interview(self, queued: QueuedPod, asking: Asking[T]) -> T:
        self._extenders.begin(queued.pod)

        def is_wanted() -> bool:
            return queued.pod.uid in self._pending and self._may_schedule()

        return await interview(asking, self._extenders.ask, self._attempts.snapshot, is_wanted)
