"""Carrying preemptions out at the API server, beside the scheduling loop (prepareCandidateAsync of kube-scheduler
1.34)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from scheduler.framework import Eviction, Handle, PodInfo
from scheduler.kube.primitives import format_time
from scheduler.observe import Metrics
from scheduler.preemption import PREEMPTED_REASON

PREEMPTIONS_AT_ONCE = 8
"""Preemptions under way at the API server at once; the others wait for their turn. All at once, each would take as long
as all of them, and requests would time out waiting for a connection: the preemptor would then look for other victims,
though some of its own are gone."""
VICTIMS_AT_ONCE = 16
"""Victims, of all preemptions, whose deletion is requested at once: a quarter of the client's connections, so that
bindings and Events find one."""
log = structlog.get_logger(component="evicting")


class Evictor:
    """Clears nominations, and has victims deleted in turns."""

    def __init__(self, handle: Handle, metrics: Metrics) -> None:
        self._handle = handle
        self._metrics = metrics
        self._preemptions = asyncio.Semaphore(PREEMPTIONS_AT_ONCE)
        self._victims = asyncio.Semaphore(VICTIMS_AT_ONCE)

    async def carry_out(self, eviction: Eviction, finished: Callable[[bool], None]) -> None:
        """Carry a preemption out; `finished` gets whether all of it succeeded, also when this is cancelled."""
        complete = False
        try:
            async with self._preemptions:
                began = time.perf_counter()
                try:
                    complete = await self._evict(eviction)
                finally:
                    result = "success" if complete else "error"
                    self._metrics.preemption_duration.labels(result).observe(time.perf_counter() - began)
                    self._metrics.preemption_executions.labels(result).inc()
        finally:
            finished(complete)

    async def _evict(self, eviction: Eviction) -> bool:
        """Request the last victim's deletion when those of the others have been: its deletion wakes the preemptor."""
        cleared = await asyncio.gather(*(self._clear_nomination(pod) for pod in eviction.displaced))
        victims = [victim for victim in eviction.victims if not (eviction.spares_terminating and victim.deleting)]
        if not victims:
            return all(cleared)
        *first, last = victims
        deleted = await asyncio.gather(*(self._preempt(victim, eviction) for victim in first))
        return await self._preempt(last, eviction) and all(cleared) and all(deleted)

    async def _clear_nomination(self, pod: PodInfo) -> bool:
        status = await self._handle.patch_pod(pod, {"status": {"nominatedNodeName": None}}, "status")
        return status.is_success or status.is_skip

    async def _preempt(self, victim: PodInfo, eviction: Eviction) -> bool:
        async with self._victims:
            try:
                return await self._delete(victim, eviction)
            except Exception:
                # The other victims go on, and the preemptor is tried again once all of them are done with.
                log.exception("an eviction failed unexpectedly", pod=victim.key, preemptor=eviction.preemptor.key)
                return False

    async def _delete(self, victim: PodInfo, eviction: Eviction) -> bool:
        note = f"Preempted by pod {eviction.preemptor.uid} on node {eviction.node}"
        if eviction.spares_unbound:
            gave_up = self._handle.stop_binding(victim, eviction.plugin)
            note += " (in kube-scheduler memory)." if gave_up else ""
        else:
            gave_up = self._handle.reject_waiting(victim, eviction.plugin, "preempted")
        if not gave_up:
            condition = self._condition(victim, eviction.preemptor)
            if condition is not None:
                status = await self._handle.patch_pod(victim, {"status": {"conditions": [condition]}}, "status")
                if status.is_skip:
                    return True
                if not status.is_success:
                    return False
            if not (await self._handle.delete_pod(victim)).is_success:
                return False
        self._handle.event(victim, "Normal", "Preempted", "Preempting", note, eviction.preemptor)
        return True

    def _condition(self, victim: PodInfo, preemptor: PodInfo) -> dict[str, Any] | None:
        """Return the condition that says why the victim is deleted; None when its status says so already."""
        condition: dict[str, Any] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": PREEMPTED_REASON,
            "message": f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod",
        }
        former = next((each for each in victim.conditions if each.type == "DisruptionTarget"), None)
        if former is not None and former.status == "True":
            if (former.reason, former.message) == (condition["reason"], condition["message"]):
                return None
        else:
            condition["lastTransitionTime"] = format_time(datetime.fromtimestamp(self._handle.now(), UTC))
        if victim.generation:
            condition["observedGeneration"] = victim.generation
        return condition
