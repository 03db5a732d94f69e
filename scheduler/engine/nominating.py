"""Nominations of pods whose binding takes long: `status.nominatedNodeName` says early where they are going.

From 1.35 on kube-scheduler writes it before a pod waits for permission, volumes or devices
(NominatedNodeNameForExpectation): autoscalers count on the room that the pod needs on its node. It is written before
the wait begins, since API servers refuse a nomination that comes after the Binding. They clear it at the Binding; the
report of a failure clears it else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from scheduler.engine.failures import FailureReporter
from scheduler.engine.gangs import BindingAttempt
from scheduler.engine.handle import EngineHandle
from scheduler.engine.timing import ProfileTiming
from scheduler.framework import Code, PodInfo, ProfileRunner, Status

log = structlog.get_logger(component="nominating")


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
    ) -> None:
        """Nominate a pod that has to wait for a permission, or for a PreBind plugin.

        Raises:
            Exception: what a plugin raised.
        """
        if not runner.nominates_before_binding:
            return
        began = timing.now()
        is_slow = runner.run_pre_bind_pre_flights(attempt.placement.state, attempt.pod, attempt.node)
        timing.point("PreBindPreFlight", Code.SUCCESS if is_slow else Code.SKIP, timing.now() - began)
        if is_slow:
            await self._nominate(attempt, lambda: True)
        elif permission is not None:
            await self.begin_wait(attempt, runner, permission)

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
