"""Pods that Permit plugins hold on their nodes: until every plugin allows, one rejects, or time is up."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from msgspec import Struct

from scheduler.framework import SUCCESS, Code, PodInfo, Status

MAX_WAIT_SECONDS = 900.0
"""Upstream's cap on how long a plugin may hold a pod."""


class _Waiting(Struct):
    pod: PodInfo
    future: asyncio.Future[Status]
    pending: dict[str, asyncio.TimerHandle]


class WaitingPods:
    """The waiting pods, by UID. Methods run on the loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, pod: PodInfo, timeouts: Mapping[str, float]) -> asyncio.Future[Status]:
        """Hold a pod for the named plugins, each with its own timeout in seconds; the future gets the outcome."""
        loop = asyncio.get_running_loop()
        entry = _Waiting(pod, loop.create_future(), {})
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

    def preempt(self, uid: str, plugin: str, message: str) -> bool:
        """End a pod's wait with an error, after which it is tried again; returns whether it was waiting."""
        return self._end(uid, Status(Code.ERROR, (message,), plugin))

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
