"""What `compatibility: upstream` changes in TopologicalSort: pkg/networkaware/topologicalsort of scheduler-plugins
0.34.7 as it is."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.framework import PodInfo
from scheduler.kube.model import APP_GROUP_LABEL, WORKLOAD_LABEL, AppGroup
from scheduler.plugins.topologicalsort.waves import NOT_LISTED

GroupOf = Callable[[PodInfo], AppGroup | None]


class UpstreamSortKey:
    """A sort key that compares as Less does: two pods of one AppGroup by its `status.topologyOrder` alone, any others
    by priority and time. It is no total order: taken together the comparisons go in circles."""

    __slots__ = ("_group_of", "_pod", "_queued_at")

    def __init__(self, group_of: GroupOf, pod: PodInfo, queued_at: float) -> None:
        self._group_of = group_of
        self._pod = pod
        self._queued_at = queued_at

    def __lt__(self, other: UpstreamSortKey) -> bool:
        """Compare; equal places in the order of one AppGroup come out as less, both ways round."""
        pod, other_pod = self._pod, other._pod
        name = pod.labels.get(APP_GROUP_LABEL, "")
        group = self._group_of(pod) if name and name == other_pod.labels.get(APP_GROUP_LABEL) else None
        if group is None:
            return (-pod.priority, self._queued_at) < (-other_pod.priority, other._queued_at)
        return find_topology_order(group, pod.labels.get(WORKLOAD_LABEL, "")) <= find_topology_order(
            group, other_pod.labels.get(WORKLOAD_LABEL, "")
        )


def find_topology_order(group: AppGroup, selector: str) -> int:
    """Look a place up by binary search (FindPodOrder), which misses workloads in a list that is not sorted by
    selector."""
    listed = group.status.topology_order
    low, high = 0, len(listed) - 1
    while low <= high:
        middle = (low + high) // 2
        candidate = listed[middle].workload.selector
        if candidate == selector:
            return listed[middle].index
        if candidate < selector:
            low = middle + 1
        else:
            high = middle - 1
    return NOT_LISTED
