"""TopologicalSort: the workloads of an application in the order of its AppGroup
(scheduler-plugins v0.34.7, pkg/networkaware/topologicalsort)."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from scheduler.catalog import TopologicalSortArgs
from scheduler.framework import (
    ClusterEvent,
    EventOrder,
    ObjectReader,
    Objects,
    PluginContext,
    PodInfo,
    PodReader,
    Pods,
    QueueSortPlugin,
)
from scheduler.kube.model import APP_GROUP_LABEL, WORKLOAD_LABEL, AppGroup
from scheduler.plugins.topologicalsort.upstream import UpstreamSortKey
from scheduler.plugins.topologicalsort.waves import NOT_LISTED, TopologyOrders, Waves


class TopologicalSort(QueueSortPlugin, ObjectReader, PodReader, EventOrder):
    """Order of the active queue, instead of PrioritySort's.

    Upstream compares two pods of one AppGroup by its `status.topologyOrder` alone, and any others by priority and
    time. Taken together that goes in circles, and what comes out depends on the shape of the heap. In `safe` mode
    there is one order: by priority; then an AppGroup's pods stand together, where the first of them would stand, and
    among themselves in the order of their workloads. In `upstream` mode pods are compared as upstream does.

    The order is read when a pod joins the queue, and again when its AppGroup changes (in `upstream` mode: whenever two
    are compared). A pod whose AppGroup is not there counts as one without.
    """

    name = "TopologicalSort"

    def __init__(self, args: TopologicalSortArgs, context: PluginContext) -> None:
        self._namespaces = tuple(args.namespaces)
        self._objects: Objects | None = None
        self._waiting: dict[str, dict[str, PodInfo]] = {}  # pods without a node, by the name of their AppGroup and UID
        self._waves = Waves()
        self._orders = TopologyOrders()
        self._sort_key: Callable[[PodInfo, float], Any] = (
            partial(UpstreamSortKey, self._app_group) if context.upstream else self._total_order
        )

    def use_objects(self, objects: Objects) -> None:
        """Take the store that AppGroups are read from."""
        self._objects = objects

    def use_pods(self, pods: Pods) -> None:
        """Follow the pods of AppGroups: at the start an AppGroup may be seen after them."""
        pods.index(APP_GROUP_LABEL, self._pod_changed)

    def reordered_by(self, event: ClusterEvent, old: object, new: object) -> Iterable[PodInfo]:
        """Return the pods whose AppGroup comes, goes or has another order."""
        changed = new or old
        if not isinstance(changed, AppGroup):
            return ()
        if new and isinstance(old, AppGroup) and old.status.topology_order == changed.status.topology_order:
            return ()
        return tuple(self._waiting.get(changed.metadata.name, {}).values())

    def _pod_changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
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

    def sort_key(self, pod: PodInfo, queued_at: float) -> Any:
        """Return (priority descending, when the first of the AppGroup's pods joined, AppGroup, order, time queued); in
        `upstream` mode, something that compares as upstream does."""
        return self._sort_key(pod, queued_at)

    def _total_order(self, pod: PodInfo, queued_at: float) -> tuple[int, float, str, int, float]:
        group = self._app_group(pod)
        if group is None:
            return (-pod.priority, queued_at, "", 0, queued_at)
        name = group.metadata.key
        order = self._orders.of(group).get(pod.labels.get(WORKLOAD_LABEL, ""), NOT_LISTED)
        return (-pod.priority, self._waves.start(name, pod.priority, queued_at), name, order, queued_at)

    def _app_group(self, pod: PodInfo) -> AppGroup | None:
        name = pod.labels.get(APP_GROUP_LABEL, "")
        if not name or self._objects is None:
            return None
        for namespace in self._namespaces:
            group: AppGroup | None = self._objects.get("AppGroup", namespace, name)
            if group is not None:
                return group
        return None
