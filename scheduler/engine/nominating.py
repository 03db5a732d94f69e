"""Nominations of pods whose binding takes long: `status.nominatedNodeName` says early where they are going.

From 1.35 on kube-scheduler writes it before a pod waits for permission, volumes or devices
(NominatedNodeNameForExpectation): autoscalers count on the room that the pod needs on its node. API servers refuse a
nomination that comes after the Binding, and clear it at the Binding; the report of a failure clears it else.

With `compatibility: safe` a pod that was never unschedulable is nominated only if its volumes or devices take longer
than `PATIENCE_SECONDS`: no autoscaler adds a node for it meanwhile, and a pod with a ResourceClaim costs the API server
three writes instead of four.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, Final

import structlog

from scheduler.engine.failures import FailureReporter
from scheduler.engine.gangs import BindingAttempt
from scheduler.engine.handle import EngineHandle
from scheduler.engine.timing import ProfileTiming
from scheduler.framework import Code, PodInfo, ProfileRunner, Status

log = structlog.get_logger(component="nominating")
PATIENCE_SECONDS: Final = 2.0
"""Less than autoscalers take from one look at the pods to the next, more than claims take on a busy API server."""


class LateNomination:
    """A nomination that is written once its time has come, unless the block that it is entered for ends before."""

    def __init__(self, write: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._write = write
        self._task: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._begin)

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._write())

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        # What is being written is waited for: the Binding or a report must come after it.
        self._timer.cancel()
        if self._task is not None:
            await self._task


class BindingNominations:
    """Nominates pods that are to be bound, in profiles that behave as 1.35 or newer. Runs beside the loop.

    Args:
        handles: by scheduler name.
        pending: the pods that wait for a node, by UID, as the API server shows them now.
        failures: writes nominations, and takes those back that came to nothing.
    """

    def __init__(
        self, handles: Mapping[str, EngineHandle], pending: Mapping[str, PodInfo], failures: FailureReporter
    ) -> None:
        self._handles = handles
        self._pending = pending
        self._failures = failures

    async def begin_binding(
        self,
        attempt: BindingAttempt,
        runner: ProfileRunner,
        timing: ProfileTiming,
        permission: asyncio.Future[Status] | None,
    ) -> AbstractAsyncContextManager[None]:
        """Nominate a pod that has to wait for a permission, or for a PreBind plugin.

        Returns:
            What PreBind runs in: where it takes long, the nomination may follow then.

        Raises:
            Exception: what a plugin raised.
        """
        if not runner.nominates_before_binding:
            return nullcontext()
        began = timing.now()
        is_slow = runner.run_pre_bind_pre_flights(attempt.placement.state, attempt.pod, attempt.node)
        timing.point("PreBindPreFlight", Code.SUCCESS if is_slow else Code.SKIP, timing.now() - began)
        if is_slow:
            nominate = partial(self._nominate, attempt, lambda: True)
            if permission is None and not self._counts_at_once(attempt, runner):
                return LateNomination(nominate)
            await nominate()
        elif permission is not None:
            await self.begin_wait(attempt, runner, permission)
        return nullcontext()

    def _counts_at_once(self, attempt: BindingAttempt, runner: ProfileRunner) -> bool:
        """Whether the nomination cannot wait: autoscalers may be adding a node for the pod."""
        pod = self._pending.get(attempt.pod.uid)
        reported = pod is not None and any(condition.type == "PodScheduled" for condition in pod.conditions)
        return reported or attempt.queued.attempts > 1 or runner.options.compatibility != "safe"

    async def begin_wait(
        self, attempt: BindingAttempt, runner: ProfileRunner, permission: asyncio.Future[Status]
    ) -> None:
        """Nominate a pod that waits for a permission, unless it has come by the time it is this pod's turn."""
        if runner.nominates_before_binding:
            await self._nominate(attempt, lambda: not permission.done())

    async def _nominate(self, attempt: BindingAttempt, is_wanted: Callable[[], bool]) -> None:
        pod = self._pending.get(attempt.pod.uid)
        if pod is None or pod.nominated_node == attempt.node:
            return
        handle = self._handles[pod.scheduler_name]
        status = await self._failures.nominate(handle, pod, attempt.node, is_wanted)
        if not status.is_success and not status.is_skip:
            log.warning("the pod is not shown as nominated", pod=pod.key, node=attempt.node, error=status.message)
