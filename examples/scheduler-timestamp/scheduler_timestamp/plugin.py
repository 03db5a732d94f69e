"""The plugin: an annotation with the nanosecond at which a pod entered scoring, patched once a node is chosen."""

from __future__ import annotations

import numpy as np

from scheduler.framework import SUCCESS, CycleState, IntArray, NodeView, PluginContext, PodInfo, RowArray, Status
from scheduler_timestamp import SchedulerTimestampArgs


class SchedulerTimestamp:
    """Scores every node alike: it only wants to know when scoring began.

    With a single feasible node nothing is scored and PreScore is not called; Reserve then notes its own time, which is
    microseconds later. The annotation is patched, not updated: an update carries the whole pod with its resource
    version, and loses against whoever wrote in between.
    """

    name = "SchedulerTimestamp"

    def __init__(self, args: SchedulerTimestampArgs, context: PluginContext) -> None:
        self._annotation = args.annotation
        self._handle = context.handle

    def pre_score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Status:
        """Note the time of the snapshot: a decision reads no clock, it is given one."""
        state.write(self.name, view.now)
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray | None:
        """Return 0 for every node: the plugin has no preference."""
        return np.zeros(len(rows), dtype=np.int64)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Patch beside the scheduling loop; a patch that fails must not cost the pod its node."""
        if self._handle is not None:
            at = state.read(self.name, float) or self._handle.now()
            self._handle.spawn(self._patch(pod, int(at * 1_000_000_000)), f"timestamp {pod.key}")
        return SUCCESS

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        """Nothing to undo: the next attempt writes a new time."""

    async def _patch(self, pod: PodInfo, nanoseconds: int) -> None:
        assert self._handle is not None
        patch = {"metadata": {"annotations": {self._annotation: str(nanoseconds)}}}
        status = await self._handle.patch_pod(pod, patch)
        if not status.is_success:
            self._handle.event(pod, "Warning", "TimestampNotWritten", "Annotating", status.message)
