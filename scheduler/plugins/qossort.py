"""QOSSort: higher priority first, then by QoS class, then who has waited longest
(scheduler-plugins v0.34.7, pkg/qos)."""

from typing import Any

from scheduler.framework import PluginContext, PodInfo, QueueSortPlugin
from scheduler.helpers.qos import BEST_EFFORT, BURSTABLE, GUARANTEED

_RANK = {GUARANTEED: 0, BURSTABLE: 1, BEST_EFFORT: 2}


class QOSSort(QueueSortPlugin):
    """Order of the active queue, instead of PrioritySort's."""

    name = "QOSSort"

    def __init__(self, args: Any, context: PluginContext) -> None:
        """Take no args."""

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, int, float]:
        """Return (priority descending; Guaranteed, Burstable, BestEffort; time queued)."""
        return (-pod.priority, _RANK[pod.spec.qos], queued_at)
