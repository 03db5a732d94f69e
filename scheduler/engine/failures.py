"""What a user sees of a pod that could not be placed: an event, and the condition PodScheduled=False."""

from __future__ import annotations

from collections import OrderedDict

from scheduler.engine.handle import EngineHandle
from scheduler.framework import PodInfo

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
_REMEMBERED = 50_000


class FailureReporter:
    """Writes each failure once: a condition that says the same already is not patched again."""

    def __init__(self) -> None:
        self._written: OrderedDict[str, tuple[str, str, str | None]] = OrderedDict()

    def report(
        self, handle: EngineHandle, pod: PodInfo, reason: str, message: str, nominated_node: str | None = None
    ) -> None:
        """Queue the event, and the patch of the pod's status where it would change something.

        `nominated_node` None leaves the pod's nomination, an empty text clears it.
        """
        handle.event(pod, "Warning", "FailedScheduling", "Scheduling", message)
        entry = (reason, message, nominated_node)
        if self._written.get(pod.uid) == entry:
            return
        self._written[pod.uid] = entry
        self._written.move_to_end(pod.uid)
        while len(self._written) > _REMEMBERED:
            self._written.popitem(last=False)
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
        status: dict[str, object] = {"conditions": [condition]}
        if nominated_node is not None:
            status["nominatedNodeName"] = nominated_node or None
        handle.spawn(self._patch(handle, pod, {"status": status}), f"status {pod.key}")

    def forget(self, uid: str) -> None:
        """Drop what is known of a pod that is bound or gone."""
        self._written.pop(uid, None)

    async def _patch(self, handle: EngineHandle, pod: PodInfo, patch: dict[str, object]) -> None:
        status = await handle.patch_pod(pod, patch, "status")
        if not status.is_success:
            # Not written: the next attempt must not believe that it was.
            self._written.pop(pod.uid, None)
