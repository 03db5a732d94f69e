"""Pods that have a node and are not bound yet: Permit plugins hold them, until every plugin allows, one rejects, or
time is up; then PreBind plugins work for them. Until that is done, a pod can be made to give up its node
(waitingPodsMap and podsInPreBindMap of kube-scheduler 1.36)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Final

from msgspec import Struct

from scheduler.framework import SUCCESS, BindingStopped, Code, CycleState, PodInfo, ProfileRunner, Status, failure

MAX_WAIT_SECONDS = 900.0
"""Upstream's cap on how long a plugin may hold a pod."""
_CURRENT: Final[ContextVar[_PreBinding | None]] = ContextVar("prebinding", default=None)
"""The pod that the running task binds: each binding has a task of its own."""


class _WaitingPod(Struct):
    pod: PodInfo
    future: asyncio.Future[Status]
    pending: dict[str, asyncio.TimerHandle]


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


class WaitingPods:
    """The pods that are not bound yet, by UID. Methods run on the loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, _WaitingPod] = {}
        self._pre_binding: dict[str, _PreBinding] = {}

    def __len__(self) -> int:
        """How many wait for permission."""
        return len(self._waiting)

    def add(self, pod: PodInfo, timeouts: Mapping[str, float]) -> asyncio.Future[Status]:
        """Hold a pod for the named plugins, each with its own timeout in seconds; the future gets the outcome."""
        loop = asyncio.get_running_loop()
        entry = _WaitingPod(pod, loop.create_future(), {})
        self._waiting[pod.uid] = entry
        for plugin, seconds in timeouts.items():
            capped = min(seconds, MAX_WAIT_SECONDS)
            text = f"rejected due to timeout after waiting {capped:g}s at plugin {plugin}"
            entry.pending[plugin] = loop.call_later(capped, self.reject, pod.uid, plugin, text)
        return entry.future

    def allow(self, uid: str, plugin: str) -> None:
        """Give one plugin's permission; the pod goes on with the last one."""
        entry = self._waiting.get(uid)
        if entry is None or plugin not in entry.pending:
            return
        entry.pending.pop(plugin).cancel()
        if not entry.pending:
            self._finish(uid, SUCCESS)

    def reject(self, uid: str, plugin: str, message: str) -> bool:
        """Reject a waiting pod; returns whether it was waiting."""
        return self._end(uid, Status(Code.UNSCHEDULABLE, (message,), plugin))

    def preempt(self, uid: str, plugin: str) -> bool:
        """Have a pod give up its node to one that preempts it, and be tried again; False where it neither waits for
        permission nor is in PreBind."""
        if self._end(uid, Status(Code.ERROR, ("waiting on permit for pod: preempted",), plugin)):
            return True
        pre_binding = self._pre_binding.get(uid)
        if pre_binding is None:
            return False
        pre_binding.stop(f"preempted by {plugin}")
        return True

    async def pre_bind(self, runner: ProfileRunner, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Run the PreBind plugins of a pod, in the task of its binding; an error where it was preempted meanwhile.

        A request that is under way comes to its end: what it wrote must be known when the plugins give it up.
        """
        pre_binding = self._pre_binding[pod.uid] = _PreBinding()
        token = _CURRENT.set(pre_binding)
        try:
            status = await runner.run_pre_bind(state, pod, node)
        finally:
            _CURRENT.reset(token)
            del self._pre_binding[pod.uid]
        return failure(pre_binding.stopped) if pre_binding.stopped and status.is_success else status

    def pods(self) -> tuple[PodInfo, ...]:
        """The pods that wait now."""
        return tuple(entry.pod for entry in self._waiting.values())

    def _end(self, uid: str, status: Status) -> bool:
        if uid not in self._waiting:
            return False
        self._finish(uid, status)
        return True

    def _finish(self, uid: str, status: Status) -> None:
        entry = self._waiting.pop(uid)
        for timer in entry.pending.values():
            timer.cancel()
        if not entry.future.done():
            entry.future.set_result(status)


async def pause_pre_bind(seconds: float) -> None:
    """Wait in the name of the pod that the running task binds.

    Raises:
        BindingStopped: it has to give up its node.
    """
    prebinding = _CURRENT.get()
    await (asyncio.sleep(seconds) if prebinding is None else prebinding.wait(seconds))
