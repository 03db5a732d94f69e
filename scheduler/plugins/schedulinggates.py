"""SchedulingGates: a pod with gates is not tried (plugins/schedulinggates)."""

from collections.abc import Sequence
from typing import Any

from scheduler import framework as fw
from scheduler.catalog import ActionType


class SchedulingGates(fw.PreEnqueuePlugin, fw.EnqueueExtensions):
    """PreEnqueue on spec.schedulingGates."""

    name = "SchedulingGates"

    def __init__(self, args: Any, context: fw.PluginContext) -> None:
        """Take no args."""

    def pre_enqueue(self, pod: fw.PodInfo) -> fw.Status:
        """Park a pod that has gates."""
        if not pod.spec.gates:
            return fw.SUCCESS
        return fw.unresolvable(f"waiting for scheduling gates: [{' '.join(pod.spec.gates)}]")

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register the removal of the pod's own gates."""
        return (fw.HintRegistration(fw.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, self._gates_removed),)

    @staticmethod
    def _gates_removed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        return fw.Hint.QUEUE if isinstance(new, fw.PodInfo) and new.uid == pod.uid else fw.Hint.SKIP
