"""What users see of a pod that could not be placed: an Event, and the condition PodScheduled=False."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from scheduler.engine.handle import EngineHandle
from scheduler.framework import SUCCESS, PodInfo, Status
from scheduler.kube.primitives import format_seconds
from scheduler.state import Requeue

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
QUOTA_EXCEEDED = "QuotaExceeded"
"""Reason of the condition where only a quota holds a pod, and a profile asks for it: Cluster Autoscaler and Karpenter
add nodes for pods with reason Unschedulable, and no node helps these."""
_QUOTAS: Final = frozenset({"CapacityScheduling"})
_GANGS: Final = frozenset({"Coscheduling", "GangScheduling"})
"""They reject the members of a gang for what another plugin says of one of them."""
_PODS_REMEMBERED = 50_000
PATCHES_AT_ONCE = 8
"""Patches of conditions under way at once. The others wait here and not for a connection of the client: bindings would
wait behind them there, and thousands would time out."""


EXPLAIN_ANNOTATION: Final = "secondary-scheduler.io/explain"
"""On pods that fit nowhere, where a profile asks for it. Written for people: nothing reads it."""
_GANG_SCHEDULING = "The plugin GangScheduling follows it, from Kubernetes 1.36 on"
_COSCHEDULING = "Pods with the label scheduling.x-k8s.io/pod-group are placed together, if the profile has Coscheduling"


def warn_of_ignored_group(handle: EngineHandle, pod: PodInfo) -> None:
    """Tell users of a pod that names a gang of Kubernetes' own that no plugin of its profile forms it."""
    if pod.workload_ref:
        field, remedy = f"spec.workloadRef {pod.workload_ref}", _COSCHEDULING
    else:
        field, remedy = f"spec.schedulingGroup {pod.scheduling_group}", f"{_GANG_SCHEDULING}. {_COSCHEDULING}"
    note = f"{field} is not followed: this pod is placed by itself. {remedy}"
    handle.event(pod, "Warning", "SchedulingGroupIgnored", "Scheduling", note)


class AttemptFailure(NamedTuple):
    """Why an attempt ended without a node.

    Attributes:
        message: what the pod's event and condition say.
        reason: UNSCHEDULABLE or SCHEDULER_ERROR.
        rejectors: plugins whose events may help the pod; without any it comes back after its backoff.
        pending: those of them that wait for something outside of the scheduler.
        nominated_node: "" clears the pod's nomination, None leaves it as it is.
        requeue: what happens to the pod without an event.
        entity_size: how many pods were tried with it, where the queue treats them as one; else 0.
    """

    message: str
    reason: str
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    nominated_node: str | None = ""
    requeue: Requeue = Requeue.SKIP
    entity_size: int = 0


class _Written(NamedTuple):
    """What was last written about a pod; `nominated_node` is None where no nomination was."""

    reason: str
    message: str
    nominated_node: str | None


class FailureReporter:
    """Writes each failure once: a condition that says the same already is not patched again.

    Of each pod one patch is under way at a time. On two connections the API server could apply the older one last, and
    the pod would keep a reason that no longer holds.

    Args:
        annotated: scheduler names of the profiles whose pods get the command that explains the failure.
        quiet: scheduler names of the profiles whose pods are no reason for a new node while a quota holds them.
    """

    def __init__(self, annotated: Collection[str] = (), quiet: Collection[str] = ()) -> None:
        self._annotated = frozenset(annotated)
        self._quiet = frozenset(quiet)
        self._written: OrderedDict[str, _Written] = OrderedDict()
        self._unsent: dict[str, dict[str, Any]] = {}
        self._turns: dict[str, asyncio.Event] = {}
        self._patches = asyncio.Semaphore(PATCHES_AT_ONCE)

    def report(self, handle: EngineHandle, pod: PodInfo, failure: AttemptFailure) -> None:
        """Queue the event, and one patch of the pod's status where it would change something.

        `handle` is that of the pod's profile, `pod` is as the API server shows it now.
        """
        reason, message, nominated_node = self._reason(pod, failure), failure.message, failure.nominated_node
        handle.event(pod, "Warning", "FailedScheduling", "Scheduling", message)
        last = self._written.get(pod.uid)
        # The watch may show less than what was written last, or more: the patch is only saved where both agree.
        nominations = {pod.nominated_node}
        if last is not None and last.nominated_node is not None:
            nominations.add(last.nominated_node)
        nominate = nominated_node is not None and nominations != {nominated_node}
        if last is not None and (last.reason, last.message) == (reason, message) and not nominate:
            return
        sent = nominated_node if nominate else last.nominated_node if last is not None else None
        self._written[pod.uid] = _Written(reason, message, sent)
        self._written.move_to_end(pod.uid)
        while len(self._written) > _PODS_REMEMBERED:
            self._written.popitem(last=False)
        status: dict[str, object] = {"conditions": [_condition(pod, reason, message, handle.now())]}
        if nominate:
            status["nominatedNodeName"] = nominated_node or None
        if pod.uid in self._unsent:
            # What is newer goes in its place; a nomination that it takes back stays taken back.
            self._unsent[pod.uid]["status"].update(status)
            return
        self._unsent[pod.uid] = patch = {"status": status}
        if pod.scheduler_name in self._annotated:
            # With the condition: the API server takes annotations there, so it needs neither a request nor a right.
            command = f"kubectl secondary-scheduler explain pod {pod.name} -n {pod.namespace}"
            patch["metadata"] = {"annotations": {EXPLAIN_ANNOTATION: command}}
        handle.spawn(self._patch(handle, pod), f"status {pod.key}")

    def _reason(self, pod: PodInfo, failure: AttemptFailure) -> str:
        """The condition's reason; Events and metrics say Unschedulable in any case."""
        held = failure.reason == UNSCHEDULABLE and failure.rejectors - _GANGS == _QUOTAS
        return QUOTA_EXCEEDED if held and pod.scheduler_name in self._quiet else failure.reason

    async def nominate(self, handle: EngineHandle, pod: PodInfo, node: str, is_wanted: Callable[[], bool]) -> Status:
        """Write the node that a pod is about to be bound to into its status, if that is still wanted in its turn.

        The next report takes it back, whether or not the watch has shown it by then.
        """
        async with self._turn(pod.uid):
            if not is_wanted():
                return SUCCESS
            last = self._written.get(pod.uid) or _Written("", "", None)
            self._written[pod.uid] = last._replace(nominated_node=node)
            return await handle.patch_pod(pod, {"status": {"nominatedNodeName": node}}, "status")

    def forget(self, uid: str) -> None:
        """Forget a pod that is bound or gone; what has not been sent about it is dropped."""
        self._written.pop(uid, None)
        self._unsent.pop(uid, None)

    def forget_written(self) -> None:
        """Write the next failure of each pod, whatever was written before: it may have been undone."""
        self._written.clear()

    async def settle(self, uid: str) -> None:
        """Drop what has not been sent about a pod and wait for what is under way.

        The API server sets the condition with the binding: a patch from before it must not come after it.
        """
        if uid in self._unsent:
            self.forget(uid)
        while (turn := self._turns.get(uid)) is not None:
            await turn.wait()

    async def _patch(self, handle: EngineHandle, pod: PodInfo) -> None:
        async with self._turn(pod.uid):
            patch, sent = self._unsent.pop(pod.uid, None), self._written.get(pod.uid)
            if patch is None:
                return
            is_written = False
            try:
                is_written = (await handle.patch_pod(pod, patch, "status")).is_success
            finally:
                if not is_written and self._written.get(pod.uid) is sent:
                    # The next attempt must not believe that it was.
                    self._written.pop(pod.uid, None)

    @asynccontextmanager
    async def _turn(self, uid: str) -> AsyncIterator[None]:
        """Wait for a place among the patches under way, and for those of the same pod from before."""
        async with self._patches:
            previous, turn = self._turns.get(uid), asyncio.Event()
            self._turns[uid] = turn
            try:
                if previous is not None:
                    await previous.wait()
                yield
            finally:
                turn.set()
                if previous is not None and not previous.is_set():
                    # Cancelled before its time: who comes next waits for what this one waited for.
                    self._turns[uid] = previous
                elif self._turns.get(uid) is turn:
                    del self._turns[uid]


def _condition(pod: PodInfo, reason: str, message: str, now: float) -> dict[str, object]:
    condition: dict[str, object] = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
    if not any(condition.type == "PodScheduled" and condition.status == "False" for condition in pod.conditions):
        condition["lastTransitionTime"] = format_seconds(now)
    if pod.generation:
        condition["observedGeneration"] = pod.generation
    return condition
