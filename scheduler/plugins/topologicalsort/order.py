"""The place of a workload in an AppGroup's topology order."""

from collections.abc import Mapping

from scheduler.kube.model import AppGroup

NOT_LISTED = -1
"""Place of a workload that the order does not list: before all others."""


def topology_order(group: AppGroup) -> Mapping[str, int]:
    """Return the places by workload selector; of one that is listed twice the first."""
    return {entry.workload.selector: entry.index for entry in reversed(group.status.topology_order)}


def find_topology_order(group: AppGroup, selector: str) -> int:
    """Look a place up as upstream: by halving, which misses workloads in a list that is not sorted by selector."""
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
