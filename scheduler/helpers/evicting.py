"""Carrying a preemption out, beside the scheduling loop (Evaluator.prepareCandidateAsync of kube-scheduler 1.34)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from scheduler.framework import Handle, PodInfo
from scheduler.helpers.preemption import PREEMPTED_REASON, Candidate
from secondary_scheduler.kube.primitives.timestamps import format_time


class Evictions:
    """The preemptions of one plugin that are under way, by preemptor."""

    def __init__(self, plugin: str, handle: Handle) -> None:
        self._plugin = plugin
        self._handle = handle
        self._running: set[str] = set()

    def running(self, pod: PodInfo) -> bool:
        """Tell whether victims of this pod are still being deleted, all but the last."""
        return pod.uid in self._running

    def start(self, preemptor: PodInfo, candidate: Candidate, displaced: Sequence[PodInfo]) -> None:
        """Take the victims away; `displaced` are nominated pods that have to look for another node."""
        self._running.add(preemptor.uid)
        self._handle.spawn(self._carry_out(preemptor, candidate, displaced), f"preemption for {preemptor.key}")

    async def _carry_out(self, preemptor: PodInfo, candidate: Candidate, displaced: Sequence[PodInfo]) -> None:
        # Here, not above: `simulate`, which only asks who would be evicted, starts sooner without it.
        from asyncio import gather

        *first, last = candidate.victims
        complete = False
        try:
            cleared = await gather(*(self._clear_nomination(pod) for pod in displaced))
            gone = await gather(*(self._preempt(victim, preemptor, candidate.node) for victim in first))
            # Before the last one goes: its deletion is what wakes the preemptor, which must be free to move then.
            self._running.discard(preemptor.uid)
            last_gone = await self._preempt(last, preemptor, candidate.node)
            complete = last_gone and all(cleared) and all(gone)
        finally:
            self._running.discard(preemptor.uid)
            if not complete:
                # Somebody is still there whose deletion nothing will announce.
                self._handle.activate([preemptor])

    async def _clear_nomination(self, pod: PodInfo) -> bool:
        status = await self._handle.patch_pod(pod, {"status": {"nominatedNodeName": None}}, "status")
        return status.is_success or status.is_skip

    async def _preempt(self, victim: PodInfo, preemptor: PodInfo, node: str) -> bool:
        if not self._handle.reject_waiting(victim, self._plugin, "preempted"):
            condition = self._condition(victim, preemptor)
            if condition is not None:
                status = await self._handle.patch_pod(victim, {"status": {"conditions": [condition]}}, "status")
                if status.is_skip:
                    return True
                if not status.is_success:
                    return False
            if not (await self._handle.delete_pod(victim)).is_success:
                return False
        note = f"Preempted by pod {preemptor.uid} on node {node}"
        self._handle.event(victim, "Normal", "Preempted", "Preempting", note, preemptor)
        return True

    def _condition(self, victim: PodInfo, preemptor: PodInfo) -> dict[str, Any] | None:
        """Return the condition that says why the pod goes; None when it says so already."""
        condition: dict[str, Any] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": PREEMPTED_REASON,
            "message": f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod",
        }
        former = next((one for one in victim.conditions if one.type == "DisruptionTarget"), None)
        if former is not None and former.status == "True":
            if (former.reason, former.message) == (condition["reason"], condition["message"]):
                return None
        else:
            condition["lastTransitionTime"] = format_time(datetime.fromtimestamp(self._handle.now(), UTC))
        if victim.generation:
            condition["observedGeneration"] = victim.generation
        return condition
