"""PrioritySort: higher priority first, then who has waited longest (plugins/queuesort)."""

from typing import Any

from scheduler.framework import PluginContext, PodInfo, QueueSortPlugin


class PrioritySort(QueueSortPlugin):
    """Order of the active queue."""

    name = "PrioritySort"

    def __init__(self, args: Any, context: PluginContext) -> None:
        """Take no args."""

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        """Return (priority descending, time queued)."""
        return (-pod.priority, queued_at)
