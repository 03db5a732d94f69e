"""What the scheduling cycle asks of extenders: questions of decisions, and Bindings.

An extender that binds a pod talks to the API server itself. So its word is checked: a pod counts as bound once the API
server shows it on the node. An extender that does not answer may have bound the pod; it is read once more then. Where
it is not bound, the pod gives its node up: a Binding that comes later is seen by the watch, as another scheduler's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

import structlog
from msgspec import Struct

from scheduler.engine.attempts import AttemptPipeline
from scheduler.engine.gangs import Gangs
from scheduler.framework import (
    SUCCESS,
    Answer,
    Answered,
    Asking,
    Extender,
    ExtenderError,
    Gang,
    PodInfo,
    Question,
    Status,
    TurnQuestion,
    failure,
    to_extender,
)
from scheduler.state import QueuedPod

MAX_GANG_SECONDS: Final = 60.0
"""How long an attempt at a gang may ask."""


class AskingAttempt(Struct, frozen=True):
    """An attempt that waits for an answer.

    Attributes:
        members: the pods that left the queue for it; a pod alone, where it is in no gang.
        gang: theirs as it was when the attempt began.
        steps: what is left of the attempt, up to the start of bindings; closing them undoes what they reserved.
        question: what they wait for.
        started: `time.perf_counter` at its beginning.
    """

    members: Sequence[QueuedPod]
    gang: Gang | None
    steps: Asking[None]
    question: Question | TurnQuestion
    started: float


class AttemptOwner(Protocol):
    """Whose attempts they are: the scheduling cycle."""

    def return_untried(self, attempt: AskingAttempt) -> None:
        """End an attempt as if it had not begun."""
        ...

    def fail_gang(self, attempt: AskingAttempt, reason: str) -> None:
        """End an attempt at a gang before it is through."""
        ...

    def members_raised(self, attempt: AskingAttempt, error: Exception) -> None:
        """Report an unexpected failure of an attempt."""
        ...

    def put_back(self, queued: QueuedPod) -> None:
        """Requeue a pod that was not tried."""
        ...

    def keep_alive(self) -> None:
        """Do what a round of the scheduling loop does beside attempts."""
        ...


class AskingAttempts:
    """Finishes such attempts, one at a time. Methods run on the scheduling loop.

    Args:
        attempts, pending, gangs, may_schedule: of the scheduling cycle, which is the owner.
        extenders: who is asked.
    """

    def __init__(
        self,
        attempts: AttemptPipeline,
        extenders: Extenders,
        pending: Mapping[str, PodInfo],
        gangs: Gangs,
        may_schedule: Callable[[], bool],
        owner: AttemptOwner,
    ) -> None:
        self._attempts = attempts
        self._extenders = extenders
        self._pending = pending
        self._gangs = gangs
        self._may_schedule = may_schedule
        self._owner = owner

    async def finish(self, attempt: AskingAttempt, round_seconds: float) -> None:
        """Wait for an attempt. No other pod is tried meanwhile; all else goes on, looked after each `round_seconds`."""
        task = asyncio.create_task(self._answer(attempt), name="ask extenders")
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=round_seconds)
                self._owner.keep_alive()
        finally:
            task.cancel()

    async def _answer(self, attempt: AskingAttempt) -> None:
        """Answer the questions of an attempt until it has none left, or is of no use any more.

        That is asked after each answer, before the attempt goes on with it: a Binding must not follow from an attempt
        at a pod that is gone, and a tenant's gang of thousands must not keep all other pods waiting.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + MAX_GANG_SECONDS
        steps, question = attempt.steps, attempt.question
        self._extenders.begin(attempt.members[0].pod)
        try:
            while True:
                answer: Answer | ExtenderError
                try:
                    answer = await self._extenders.ask(to_extender(question))
                except ExtenderError as error:
                    answer = error
                if not self._may_schedule() or (attempt.gang is None and not self._are_pending(attempt)):
                    self._owner.return_untried(attempt)
                    return
                if attempt.gang is not None and (
                    reason := self._gang_failure(attempt.gang, attempt, clock() > deadline)
                ):
                    self._owner.fail_gang(attempt, reason)
                    return
                if isinstance(answer, ExtenderError):
                    question = steps.throw(answer)
                else:
                    question = steps.send(Answered(answer, self._attempts.snapshot()))
        except StopIteration:
            return
        except Exception as error:
            self._owner.members_raised(attempt, error)
        finally:
            steps.close()

    def _are_pending(self, attempt: AskingAttempt) -> bool:
        return all(queued.pod.uid in self._pending for queued in attempt.members)

    def _gang_failure(self, gang: Gang, attempt: AskingAttempt, is_late: bool) -> str:
        """Return why an attempt at a gang ends before it is through; "" where it goes on."""
        if change := self._gangs.change_of(gang, attempt.members, self._pending):
            return change
        return f"asking extenders about its members took more than {MAX_GANG_SECONDS:g} s" if is_late else ""


_PAUSES: Final = (0.05, 0.1, 0.25, 0.5, 1.0)
"""Seconds between two looks at a pod; the last again and again."""
log = structlog.get_logger(component="extenders")


class ExtenderCaller(Protocol):
    """How extenders are asked (`extenders.HTTPExtenders`)."""

    @property
    def in_order(self) -> Sequence[Extender]:
        """All of them, in calling order."""

    async def ask(self, question: Question) -> Answer:
        """Ask what a decision wants to know; ExtenderError where what is to be sent cannot be read."""

    async def bind(self, extender: Extender, pod: PodInfo, node: str) -> str:
        """Have an extender bind a pod; returns its error, "" for none, or raises ExtenderError."""

    def timeout(self, extender: Extender) -> float:
        """Return how many seconds a call may take."""

    def forget_pod(self) -> None:
        """Read the pod again at the next question."""


class MayWrite(Protocol):
    """Says whether this process may write (`EngineHandle`)."""

    def write_refusal(self) -> Status | None:
        """Return why nothing may be written now; None where it may."""


ReadNode = Callable[[PodInfo], Awaitable[str | None]]
"""Reads on which node a pod is, "" for none; None where that is not known."""


class Extenders:
    """All extenders, for the cycle. Methods run on the event loop.

    Args:
        caller: how they are asked.
        read_node: looks a pod up at the API server.
    """

    def __init__(self, caller: ExtenderCaller, read_node: ReadNode) -> None:
        self._caller = caller
        self._read_node = read_node
        self._attempted: PodInfo | None = None
        self.binding = 0
        """Pods that an extender is binding, or whose outcome is not known."""

    @property
    def in_order(self) -> Sequence[Extender]:
        """All of them, in calling order."""
        return self._caller.in_order

    def begin(self, pod: PodInfo) -> None:
        """An attempt at a pod begins, or goes on with preemption."""
        if self._attempted is not pod:
            self._caller.forget_pod()
        self._attempted = pod

    async def ask(self, question: Question) -> Answer:
        """Ask what a decision wants to know.

        Raises:
            ExtenderError: what is to be sent cannot be read.
        """
        return await self._caller.ask(question)

    async def bind(self, pod: PodInfo, node: str, may: MayWrite) -> Status | None:
        """Have the first interested extender with a bindVerb bind a pod; None where the profile's plugins are to."""
        for extender in self._caller.in_order:
            if not extender.bind_verb or not extender.is_interested(pod):
                continue
            refusal = may.write_refusal()
            if refusal is not None:
                return refusal
            self.binding += 1
            try:
                error = await self._bind(extender, pod, node)
            finally:
                self.binding -= 1
            if not error:
                return SUCCESS
            if not extender.ignorable:
                return failure(error)
            log.info("an ignorable extender failed to bind and is skipped", pod=pod.key, node=node, reason=error)
        return None

    async def _bind(self, extender: Extender, pod: PodInfo, node: str) -> str:
        """Return "" once the pod is on the node, else why it is not."""
        try:
            error = await self._caller.bind(extender, pod, node)
            patience = self._caller.timeout(extender)
        except ExtenderError as failed:
            error, patience = str(failed), 0.0
        deadline = asyncio.get_running_loop().time() + patience
        for number in range(1 << 20):
            seen = await self._read_node(pod)
            if seen == node:
                return ""
            if error:
                return error
            if seen:
                return f"extender {extender.url} bound the pod to node {seen}, not to {node}"
            if asyncio.get_running_loop().time() >= deadline:
                break
            await asyncio.sleep(_PAUSES[min(number, len(_PAUSES) - 1)])
        return f"extender {extender.url} answered {extender.bind_verb} without an error, but the pod is not bound"
