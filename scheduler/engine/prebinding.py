"""Pods in PreBind: their binding can still be stopped, as nothing has bound them (podsInPreBindMap of kube-scheduler
1.36)."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import ContextVar
from typing import Final

from scheduler.framework import BindingStopped, CycleState, PodInfo, ProfileRunner, Status, failure

_CURRENT: Final[ContextVar[_PreBinding | None]] = ContextVar("prebinding", default=None)
"""The pod that the running task binds: each binding has a task of its own."""


class _PreBinding:
    """PreBind of one pod; `stopped` says why the pod gives up its node, and is "" where it keeps it."""

    def __init__(self) -> None:
        self.stopped = ""
        self._stop: asyncio.Event | None = None

    def stop(self, reason: str) -> None:
        """End the wait that is under way, or the next one."""
        self.stopped = self.stopped or reason
        if self._stop is not None:
            self._stop.set()

    async def wait(self, seconds: float) -> None:
        if self._stop is None:
            self._stop = asyncio.Event()
        if not self.stopped:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._stop.wait()
        if self.stopped:
            raise BindingStopped(self.stopped)


class PreBindings:
    """The pods in PreBind, by UID. Methods run on the loop."""

    def __init__(self) -> None:
        self._running: dict[str, _PreBinding] = {}

    async def run(self, runner: ProfileRunner, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Run the PreBind plugins of a pod, in the task of its binding; an error where it was stopped meanwhile.

        A request that is under way comes to its end: what it wrote must be known when the plugins give it up.
        """
        prebinding = self._running[pod.uid] = _PreBinding()
        token = _CURRENT.set(prebinding)
        try:
            status = await runner.run_pre_bind(state, pod, node)
        finally:
            _CURRENT.reset(token)
            del self._running[pod.uid]
        return failure(prebinding.stopped) if prebinding.stopped and status.is_success else status

    def stop(self, uid: str, reason: str) -> bool:
        """Have a pod give up its node; False where it is not in PreBind."""
        prebinding = self._running.get(uid)
        if prebinding is None:
            return False
        prebinding.stop(reason)
        return True


async def wait(seconds: float) -> None:
    """Wait in the name of the pod that the running task binds.

    Raises:
        BindingStopped: it has to give up its node.
    """
    prebinding = _CURRENT.get()
    await (asyncio.sleep(seconds) if prebinding is None else prebinding.wait(seconds))
