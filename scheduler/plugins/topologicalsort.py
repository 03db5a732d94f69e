"""TopologicalSort: the workloads of an application in the order of its AppGroup
(scheduler-plugins v0.34.7, pkg/networkaware/topologicalsort)."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from scheduler import framework as fw
from scheduler.catalog import TopologicalSortArgs
from scheduler.kube.model import APP_GROUP_LABEL, WORKLOAD_LABEL, AppGroup

# What `compatibility: upstream` changes in TopologicalSort: pkg/networkaware/topologicalsort of scheduler-plugins
# 0.34.7 as it is.

GroupOf = Callable[[fw.PodInfo], AppGroup | None]


class UpstreamSortKey:
    """A sort key that compares as Less does: two pods of one AppGroup by its `status.topologyOrder` alone, any others
    by priority and time. It is no total order: taken together the comparisons go in circles."""

    __slots__ = ("_group_of", "_pod", "_queued_at")

    def __init__(self, group_of: GroupOf, pod: fw.PodInfo, queued_at: float) -> None:
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


# Where the pods of an AppGroup stand in the queue: which of them together, and in which order.

NOT_LISTED = -1
"""Place of a workload that the order does not list: before all others."""
SPAN_SECONDS = 60.0
"""Pods queued within this time of an AppGroup's first one join it: long enough for an application to be rolled out, and
the most by which they overtake pods of others."""
_MAX_STARTS = 16


class Waves:
    """The times at which waves of pods began, by AppGroup and priority."""

    def __init__(self) -> None:
        self._starts: dict[tuple[str, int], list[float]] = {}

    def start(self, group: str, priority: int, queued_at: float) -> float:
        """Return the beginning of the wave that a time is in; where it is in none, one begins."""
        starts = self._starts.setdefault((group, priority), [])
        index = bisect_right(starts, queued_at) - 1
        if index >= 0 and queued_at - starts[index] <= SPAN_SECONDS:
            return starts[index]
        insort(starts, queued_at)
        # A pod that waited for longer than all of these begins a wave of its own when it is moved in the queue.
        del starts[:-_MAX_STARTS]
        return queued_at


class TopologyOrders:
    """The orders of AppGroups, made once per change: a key is asked for whenever a pod joins the queue."""

    _LIMIT = 1024

    def __init__(self) -> None:
        self._known: dict[str, tuple[AppGroup, Mapping[str, int]]] = {}

    def of(self, group: AppGroup) -> Mapping[str, int]:
        """Return the places by workload selector; of one that is listed twice the first."""
        known = self._known.get(group.metadata.key)
        if known is None or known[0] is not group:
            if len(self._known) >= self._LIMIT:
                self._known.clear()
            order = {entry.workload.selector: entry.index for entry in reversed(group.status.topology_order)}
            known = self._known[group.metadata.key] = group, order
        return known[1]


class TopologicalSort(fw.QueueSortPlugin, fw.ObjectReader, fw.PodReader, fw.EventOrder):
    """Order of the active queue, instead of PrioritySort's.

    Upstream compares two pods of one AppGroup by its `status.topologyOrder` alone, and any others by priority and
    time. Taken together that goes in circles, and what comes out depends on the shape of the heap. In `safe` mode
    there is one order: by priority; then an AppGroup's pods stand together, where the first of them would stand, and
    among themselves in the order of their workloads. In `upstream` mode pods are compared as upstream does.

    The order is read when a pod joins the queue, and again when its AppGroup changes (in `upstream` mode: whenever two
    are compared). A pod whose AppGroup is not there counts as one without.
    """

    name = "TopologicalSort"

    def __init__(self, args: TopologicalSortArgs, context: fw.PluginContext) -> None:
        self._namespaces = tuple(args.namespaces)
        self._objects: fw.Objects | None = None
        self._waiting: dict[
            str, dict[str, fw.PodInfo]
        ] = {}  # pods without a node, by the name of their AppGroup and UID
        self._waves = Waves()
        self._orders = TopologyOrders()
        self._sort_key: Callable[[fw.PodInfo, float], Any] = (
            partial(UpstreamSortKey, self._app_group) if context.upstream else self._total_order
        )

    def use_objects(self, objects: fw.Objects) -> None:
        """Take the store that AppGroups are read from."""
        self._objects = objects

    def use_pods(self, pods: fw.Pods) -> None:
        """Follow the pods of AppGroups: at the start an AppGroup may be seen after them."""
        pods.index(APP_GROUP_LABEL, self._pod_changed)

    def reordered_by(self, event: fw.ClusterEvent, old: object, new: object) -> Iterable[fw.PodInfo]:
        """Return the pods whose AppGroup comes, goes or has another order."""
        changed = new or old
        if not isinstance(changed, AppGroup):
            return ()
        if new and isinstance(old, AppGroup) and old.status.topology_order == changed.status.topology_order:
            return ()
        return tuple(self._waiting.get(changed.metadata.name, {}).values())

    def _pod_changed(self, old: fw.PodInfo | None, new: fw.PodInfo | None) -> None:
        for pod, waits in ((old, False), (new, new is not None and not new.node_name)):
            name = pod.labels.get(APP_GROUP_LABEL, "") if pod is not None else ""
            if pod is None or not name:
                continue
            members = self._waiting.setdefault(name, {})
            members.pop(pod.uid, None)
            if waits:
                members[pod.uid] = pod
            if not members:
                del self._waiting[name]

    def sort_key(self, pod: fw.PodInfo, queued_at: float) -> Any:
        """Return (priority descending, when the first of the AppGroup's pods joined, AppGroup, order, time queued); in
        `upstream` mode, something that compares as upstream does."""
        return self._sort_key(pod, queued_at)

    def _total_order(self, pod: fw.PodInfo, queued_at: float) -> tuple[int, float, str, int, float]:
        group = self._app_group(pod)
        if group is None:
            return (-pod.priority, queued_at, "", 0, queued_at)
        name = group.metadata.key
        order = self._orders.of(group).get(pod.labels.get(WORKLOAD_LABEL, ""), NOT_LISTED)
        return (-pod.priority, self._waves.start(name, pod.priority, queued_at), name, order, queued_at)

    def _app_group(self, pod: fw.PodInfo) -> AppGroup | None:
        name = pod.labels.get(APP_GROUP_LABEL, "")
        if not name or self._objects is None:
            return None
        for namespace in self._namespaces:
            group: AppGroup | None = self._objects.get("AppGroup", namespace, name)
            if group is not None:
                return group
        return None
