"""Pods that preemption has promised a node (upstream's nominator).

A nominated pod takes no room in the table: its victims still have it. Every pod of lower or equal priority must
nevertheless fit beside it, or the room would be gone when the victims are. So what nominated pods request is summed up
by row, per priority that asks, and laid over a view when a decision needs it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np

from scheduler.framework import FloatArray, PodInfo, RowArray
from scheduler.state.table import NodeTable

_REMEMBERED = 4096
"""Changes of nominations kept for readers that catch up; one further behind looks at all nominations."""
_MAX_PRIORITIES = 8
"""Priorities for which sums are kept; clusters have a handful of PriorityClasses."""


class Nominator:
    """Nominated pods by node, in memory: set before the API server hears of it, dropped when the pod is assumed or
    deleted."""

    def __init__(self) -> None:
        self.by_node: dict[str, tuple[PodInfo, ...]] = {}
        self._node_of: dict[str, str] = {}
        self._log: list[str] = []
        self.end = 0
        """Position one past the newest change. It only grows."""
        self._sums: dict[int, NominatedSums] = {}

    def set(self, pod: PodInfo, node: str) -> None:
        """Nominate a pod to a node, instead of any former one; to none where the name is empty."""
        nominees = self.by_node.get(node, ()) if node and self._node_of.get(pod.uid) == node else ()
        if any(nominee.uid == pod.uid and _counts_alike(nominee, pod) for nominee in nominees):
            # Only its status has changed: it needs the same room, so the node need not be looked at again.
            self.by_node[node] = tuple(pod if nominee.uid == pod.uid else nominee for nominee in nominees)
            return
        self.remove(pod.uid)
        if not node:
            return
        self.by_node[node] = (*self.by_node.get(node, ()), pod)
        self._node_of[pod.uid] = node
        self._changed(node)

    def update(self, pod: PodInfo, old: PodInfo | None = None) -> None:
        """Take in a pending pod as the API server shows it now, and what it showed before.

        A nomination that stands in neither was made here and is still on its way to the API server: it stays.
        """
        node = pod.nominated_node
        if not node:
            nominated_to = self._node_of.get(pod.uid)
            if nominated_to is None:
                return
            if old is None or not old.nominated_node:
                node = nominated_to
        self.set(pod, node)

    def remove(self, uid: str) -> None:
        """Drop a pod's nomination, if it has one."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        rest = tuple(pod for pod in self.by_node[node] if pod.uid != uid)
        if rest:
            self.by_node[node] = rest
        else:
            del self.by_node[node]
        self._changed(node)

    def node_of(self, uid: str) -> str | None:
        """Return the node a pod is nominated to."""
        return self._node_of.get(uid)

    def changed_since(self, position: int) -> Sequence[str] | None:
        """Return the nodes whose nominations changed since a position, repetitions included; None when that is no
        longer known."""
        missed = self.end - position
        if not 0 <= missed <= len(self._log):
            return None
        return self._log[len(self._log) - missed :]

    def sums(self, table: NodeTable, priority: int) -> "NominatedSums":
        """Return what pods of at least a priority that are nominated request, as of now."""
        sums = self._sums.get(priority)
        names = self.changed_since(sums.position) if sums is not None and sums.is_of(table) else None
        if sums is None or names is None:
            while len(self._sums) >= _MAX_PRIORITIES:
                del self._sums[next(iter(self._sums))]
            sums = self._sums[priority] = NominatedSums(table, priority)
            names = list(self.by_node)
        sums.update(table, {name: self.by_node.get(name, ()) for name in names})
        sums.position = self.end
        return sums

    def _changed(self, node: str) -> None:
        self._log.append(node)
        self.end += 1
        if len(self._log) > 2 * _REMEMBERED:
            del self._log[:_REMEMBERED]


def nominated_beside(uids: Collection[str], nominations: Mapping[str, Sequence[PodInfo]]) -> Nominator:
    """Return the nominations of all pods but some."""
    others = Nominator()
    for node, pods in nominations.items():
        for pod in pods:
            if pod.uid not in uids:
                others.set(pod, node)
    return others


def _counts_alike(pod: PodInfo, other: PodInfo) -> bool:
    return (
        pod.spec.class_key == other.spec.class_key
        and pod.priority == other.priority
        and pod.requests == other.requests
        and pod.labels == other.labels
    )


class NominatedSums:
    """What nominated pods of at least a priority request, by row."""

    def __init__(self, table: NodeTable, priority: int) -> None:
        self._of = table.membership, table.capacity
        self._priority = priority
        self.position = 0
        self.pods: dict[int, tuple[PodInfo, ...]] = {}
        self.requested: dict[str, FloatArray] = {}
        self.nonzero: dict[str, FloatArray] = {name: np.zeros(table.capacity) for name in ("cpu", "memory")}
        self.count: FloatArray = np.zeros(table.capacity)
        self._rows: RowArray | None = None

    def is_of(self, table: NodeTable) -> bool:
        """Tell whether rows still mean the nodes of a table."""
        return self._of == (table.membership, table.capacity)

    @property
    def rows(self) -> RowArray:
        """Rows with nominated pods, ascending."""
        if self._rows is None:
            self._rows = np.flatnonzero(self.count)
        return self._rows

    def update(self, table: NodeTable, nominated: Mapping[str, Iterable[PodInfo]]) -> None:
        """Take in the nominations of some nodes; those that are not known (yet) are left out."""
        for name, pods in nominated.items():
            row = table.row_of.get(name)
            if row is None:
                continue
            counted = tuple([pod for pod in pods if pod.priority >= self._priority])
            previous = self.pods.pop(row, ())
            for pod in previous:
                self._use(row, pod, -1)
            for pod in counted:
                self._use(row, pod, 1)
            if counted:
                self.pods[row] = counted
            if bool(previous) != bool(counted):
                self._rows = None

    def _use(self, row: int, pod: PodInfo, sign: int) -> None:
        for name, amount in pod.requests.items():
            if not amount:
                continue
            if name not in self.requested:
                self.requested[name] = np.zeros_like(self.count)
            self.requested[name][row] += sign * amount
        self.nonzero["cpu"][row] += sign * pod.nonzero_cpu
        self.nonzero["memory"][row] += sign * pod.nonzero_memory
        self.count[row] += sign
