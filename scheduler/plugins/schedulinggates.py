"""SchedulingGates: a pod with gates is not tried (plugins/schedulinggates)."""

from collections.abc import Sequence
from typing import Any

from scheduler.catalog import ActionType
from scheduler.framework import (
    POD,
    SUCCESS,
    EnqueueExtensions,
    Hint,
    HintRegistration,
    PluginContext,
    PodInfo,
    PreEnqueuePlugin,
    Status,
    unresolvable,
)


class SchedulingGates(PreEnqueuePlugin, EnqueueExtensions):
    """PreEnqueue on spec.schedulingGates."""

    name = "SchedulingGates"

    def __init__(self, args: Any, context: PluginContext) -> None:
        """Take no args."""

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Park a pod that has gates."""
        if not pod.spec.gates:
            return SUCCESS
        return unresolvable(f"waiting for scheduling gates: [{' '.join(pod.spec.gates)}]")

    def events_to_register(self) -> Sequence[HintRegistration]:
        """Register the removal of the pod's own gates."""
        return (HintRegistration(POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, self._gates_removed),)

    @staticmethod
    def _gates_removed(pod: PodInfo, old: object, new: object) -> Hint:
        return Hint.QUEUE if isinstance(new, PodInfo) and new.uid == pod.uid else Hint.SKIP
