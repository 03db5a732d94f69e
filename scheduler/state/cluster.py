"""Nodes, pods and load as the scheduler knows them: one object, changed only from the scheduling loop.

Upstream's counterpart is the scheduler cache (pkg/scheduler/backend/cache). As there by default, an assumed pod does
not expire: it stays until the watch shows it or its binding fails, or its room would be given away twice. Unlike there,
nothing is copied for an attempt: upstream's goroutines read while informers write; here decisions and updates take
turns on one thread, so a decision reads the columns themselves.

All pods the watch shows that have one of the indexed labels or a PodGroup, with or without a node, of every
scheduler.

For members of a gang: some wait, some are bound, some belong to another scheduler, and the cache holds only those with
a node, the queue only those that wait for us.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec
from msgspec import Struct

from scheduler.catalog import ActionType
from scheduler.framework import (
    SCHEDULING_GROUP,
    Assignment,
    LoadColumns,
    LoadReading,
    NodeInfo,
    PodInfo,
    PodListener,
    node_changes,
)
from scheduler.state.aggregates import NamespaceSums, PodAggregates
from scheduler.state.assignments import RecentAssignments
from scheduler.state.nominations import Nominator
from scheduler.state.objects import ObjectStore
from scheduler.state.snapshot import Snapshot, rows_and_pods
from scheduler.state.table import NodeTable


class _Placed(Struct, gc=False):
    """A pod on a node. `logged_at` is when it was assigned; NaN for one bound long before this process looked.

    `confirmed`: the API server has taken the Binding of an assumed pod, and the watch has not shown it yet.
    """

    pod: PodInfo
    assumed: bool
    logged_at: float
    observed_at: float
    confirmed: bool = False


class ClusterState:
    """The cache. What nodes' pods request follows from the pods in it, whatever order they came in.

    A pod is either absent, assumed (chosen by us, binding under way) or bound (seen so on the API server). `assume`
    makes it assumed; `upsert_pod` with a node makes it bound, wherever it was assumed; `forget` drops it only while it
    is assumed. Pods on a node that is not known (yet) are kept and counted once the node appears.

    Why assume: between a decision and the watch event that shows its Binding lie tens of milliseconds, in which
    hundreds of other pods are decided. Without counting the pod at once, they would be given the same room.
    """

    def __init__(self) -> None:
        self.table = NodeTable()
        self.assignments = RecentAssignments()
        self.nominator = Nominator()
        self.objects = ObjectStore()
        self.directory = PodDirectory(self._node_of)
        self._pods: dict[str, _Placed] = {}
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._assumed = 0
        self._pod_listeners: list[PodListener] = []
        self._aggregates = PodAggregates(self.table, self.objects, self._rows_and_pods)
        self._namespaces = NamespaceSums(lambda: (placed.pod for placed in self._pods.values()))

    # Nodes ----------------------------------------------------------------------------------------------------------

    def upsert_node(self, info: NodeInfo) -> tuple[ActionType, NodeInfo | None]:
        """Add or update a node; returns what changed (Add, Update bits, or 0 for a heartbeat) and the former node."""
        row = self.table.row_of.get(info.name)
        old = self.table.infos[row] if row is not None else None
        if old is None:
            row = self.table.set_node(info)
            self._count_pods_of(row, info.name)
            return ActionType.ADD, None
        changes = node_changes(old, info)
        # These stand in columns too, but no rejected pod waits for them: images, capacity, being cordoned. Everything
        # else of a node's status is in no column, and there is always some node that reports its status.
        unseen = old.images != info.images or old.capacity_cpu != info.capacity_cpu
        if changes or unseen or old.unschedulable != info.unschedulable:
            self.table.set_node(info)
        elif row is not None:
            # Only what no column holds has changed, such as the resource version.
            self.table.infos[row] = info
        return changes, old

    def add_nodes(self, infos: Sequence[NodeInfo]) -> None:
        """Add nodes that are not known, each once; as `upsert_node` for each."""
        for row, info in zip(self.table.add_nodes(infos), infos, strict=True):
            self._count_pods_of(row, info.name)

    def remove_node(self, name: str) -> NodeInfo | None:
        """Remove a node; its pods stay known until they are deleted themselves."""
        row = self.table.row_of.get(name)
        if row is not None:
            for pod in self._by_node.get(name, {}).values():
                self._aggregates.add(row, pod, -1)
        return self.table.remove_node(name)

    def node(self, name: str) -> NodeInfo | None:
        """Return a node by name."""
        row = self.table.row_of.get(name)
        return self.table.infos[row] if row is not None else None

    @property
    def node_names(self) -> Collection[str]:
        """Names of all nodes."""
        return self.table.row_of.keys()

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return len(self.table.row_of)

    # Pods -----------------------------------------------------------------------------------------------------------

    def upsert_pod(self, pod: PodInfo, observed_at: float = math.nan) -> PodInfo | None:
        """Take in a bound pod as the API server shows it; returns the former state.

        A terminal pod is removed, as it occupies nothing. One that shows no node is no news while it is assumed: its
        Binding is under way. `observed_at` is when this process saw it (only upstream's estimate of unmeasured load
        reads it).
        """
        placed = self._pods.get(pod.uid)
        if placed is not None and placed.assumed and not pod.node_name and not pod.terminal:
            return placed.pod
        if pod.terminal or not pod.node_name:
            return self.remove_pod(pod.uid)
        if placed is None:
            at = pod.assigned_at
            self._place(pod, assumed=False, at=at, observed_at=observed_at)
            self._log(1, pod, at)
            self._log(1, pod, observed_at, observed=True)
            self._notify(None, pod)
            return None
        old = placed.pod
        moved = old.node_name != pod.node_name
        resized = not moved and _usage(old) != _usage(pod)
        if moved:
            self._log_removal(placed)
        elif resized:
            # What is taken from the log when the pod goes must be what was added. Upstream goes by what it first saw.
            self._log(-1, old, placed.logged_at)
            self._log(1, pod, placed.logged_at)
        first_seen = placed.assumed or moved
        self._replace(placed, pod, occupies_other=moved or resized)
        if placed.assumed:
            placed.assumed = False
            self._assumed -= 1
        if moved:
            placed.logged_at = pod.assigned_at
            self._log(1, pod, placed.logged_at)
        if first_seen:
            placed.observed_at = observed_at
            self._log(1, pod, observed_at, observed=True)
        self._notify(old, pod)
        return old

    def remove_pod(self, uid: str) -> PodInfo | None:
        """Drop a pod that is gone or terminal; returns it."""
        placed = self._pods.get(uid)
        if placed is None:
            return None
        self._drop(placed)
        self._notify(placed.pod, None)
        return placed.pod

    def assume(self, pod: PodInfo, node: str, at: float) -> PodInfo:
        """Count a pod on the node chosen for it, before the API server has its Binding; returns the pod with the
        node filled in.

        Raises:
            ValueError: the pod is on a node already.
        """
        if pod.uid in self._pods:
            raise ValueError(f"pod {pod.key} is already on node {self._pods[pod.uid].pod.node_name}")
        assumed = msgspec.structs.replace(pod, node_name=node, nominated_node="")
        self._place(assumed, assumed=True, at=at, observed_at=math.nan)
        self._assumed += 1
        self._log(1, assumed, at)
        self.nominator.remove(pod.uid)
        return assumed

    def forget(self, uid: str) -> bool:
        """Drop an assumed pod; False when the pod is bound (or unknown), which only the API server can undo."""
        placed = self._pods.get(uid)
        if placed is None or not placed.assumed:
            return False
        self._drop(placed)
        return True

    def confirm(self, uid: str) -> None:
        """Note that the API server has taken an assumed pod's Binding."""
        placed = self._pods.get(uid)
        if placed is not None and placed.assumed:
            placed.confirmed = True

    def forget_confirmed(self) -> list[str]:
        """Drop the pods whose Binding the API server has taken and the watch has not shown; return their UIDs."""
        confirmed = [uid for uid, placed in self._pods.items() if placed.assumed and placed.confirmed]
        for uid in confirmed:
            self._drop(self._pods[uid])
        return confirmed

    def is_binding(self, uid: str) -> bool:
        """Tell whether a pod is assumed and its Binding may still fail."""
        placed = self._pods.get(uid)
        return placed is not None and placed.assumed and not placed.confirmed

    def is_assumed(self, uid: str) -> bool:
        """Tell whether a pod is assumed and not yet seen bound."""
        placed = self._pods.get(uid)
        return placed is not None and placed.assumed

    def watch_pods(self, listener: PodListener) -> None:
        """Call a function whenever a bound pod comes, changes or goes; assuming and forgetting are no such news."""
        self._pod_listeners.append(listener)

    def pod(self, uid: str) -> PodInfo | None:
        """Return a placed pod."""
        placed = self._pods.get(uid)
        return placed.pod if placed is not None else None

    def pods_on(self, node: str) -> Collection[PodInfo]:
        """Return the pods on a node, known or not."""
        return self._by_node.get(node, {}).values()

    def pods(self) -> list[PodInfo]:
        """Return the pods on nodes, assumed ones included; each is with the node it has."""
        return [placed.pod for placed in self._pods.values()]

    @property
    def pod_uids(self) -> Collection[str]:
        """UIDs of all placed pods."""
        return self._pods.keys()

    @property
    def pod_count(self) -> int:
        """Number of placed pods, assumed ones included."""
        return len(self._pods)

    @property
    def assumed_count(self) -> int:
        """Number of assumed pods."""
        return self._assumed

    # Load and reading -----------------------------------------------------------------------------------------------

    def lay_out_load(self, reading: LoadReading) -> LoadColumns:
        """Return a reading by row, as views will show it after `set_load`."""
        return self.table.lay_out_load(reading)

    def set_load(self, reading: LoadReading) -> tuple[str, ...]:
        """Show a new reading of a load source; returns the nodes that have no load in it, sorted."""
        missing = self.table.set_load(reading)
        self.assignments.measured_until(self.table.measured_until)
        return missing

    @property
    def generation(self) -> int:
        """A number that grows with every change that a column shows."""
        return self.table.generation

    def snapshot(self, now: float, *, frozen: bool = False) -> Snapshot:
        """Return the cluster as plugins see it at a time.

        The ordinary snapshot costs nothing and shows the live columns: decide on it before the state changes again. A
        frozen one is a copy (milliseconds) that may be kept.
        """
        if not frozen:
            return Snapshot(
                self.table,
                self._by_node,
                self.assignments,
                self.nominator.by_node,
                now,
                self._aggregates,
                self._namespaces,
                self.nominator,
            )
        by_node = {name: dict(pods) for name, pods in self._by_node.items()}
        nominated = {name: tuple(pods) for name, pods in self.nominator.by_node.items()}
        table = self.table.copy()
        aggregates = PodAggregates(table, self.objects, lambda: rows_and_pods(table, by_node))
        aggregates.add_all()
        namespaces = NamespaceSums(lambda: (pod for pods in by_node.values() for pod in pods.values()))
        return Snapshot(table, by_node, self.assignments.copy(), nominated, now, aggregates, namespaces)

    # Internals ------------------------------------------------------------------------------------------------------

    def _place(self, pod: PodInfo, *, assumed: bool, at: float, observed_at: float) -> None:
        self._pods[pod.uid] = _Placed(pod, assumed, at, observed_at)
        self._by_node.setdefault(pod.node_name, {})[pod.uid] = pod
        self._use(pod, 1)
        self._namespaces.add(pod, 1)

    def _replace(self, placed: _Placed, pod: PodInfo, *, occupies_other: bool) -> None:
        old = placed.pod
        # Equal, but another copy, which the pod would hold for as long as it lives beside that of the keys here.
        msgspec.structs.force_setattr(pod, "uid", old.uid)
        placed.pod = pod
        self._namespaces.replace(old, pod)
        if old.node_name != pod.node_name:
            self._unlink(old)
        self._by_node.setdefault(pod.node_name, {})[pod.uid] = pod
        # Most updates of a bound pod are changes of its status: they must not touch the row, as every class of pods
        # would compute it again.
        if occupies_other:
            self._use(old, -1)
            self._use(pod, 1)
        elif old.labels != pod.labels or old.deleting != pod.deleting or old.spec.terms != pod.spec.terms:
            row = self.table.row_of.get(pod.node_name)
            if row is not None:
                self._aggregates.add(row, old, -1)
                self._aggregates.add(row, pod, 1)
                self.table.touch(row)
        elif _seen(old) != _seen(pod):
            row = self.table.row_of.get(pod.node_name)
            if row is not None:
                self.table.touch(row)

    def _drop(self, placed: _Placed) -> None:
        pod = placed.pod
        del self._pods[pod.uid]
        self._unlink(pod)
        if placed.assumed:
            self._assumed -= 1
        self._use(pod, -1)
        self._namespaces.add(pod, -1)
        self._log_removal(placed)

    def _unlink(self, pod: PodInfo) -> None:
        pods = self._by_node[pod.node_name]
        del pods[pod.uid]
        if not pods:
            del self._by_node[pod.node_name]

    def _count_pods_of(self, row: int, name: str) -> None:
        """Count the pods that came before their node."""
        for pod in self._by_node.get(name, {}).values():
            self.table.add_usage(row, pod, 1)
            self._aggregates.add(row, pod, 1)

    def _use(self, pod: PodInfo, sign: int) -> None:
        row = self.table.row_of.get(pod.node_name)
        if row is not None:
            self.table.add_usage(row, pod, sign)
            self._aggregates.add(row, pod, sign)

    def _rows_and_pods(self) -> Iterator[tuple[int, PodInfo]]:
        return rows_and_pods(self.table, self._by_node)

    def _node_of(self, uid: str) -> str:
        placed = self._pods.get(uid)
        return placed.pod.node_name if placed is not None else ""

    def _notify(self, old: PodInfo | None, new: PodInfo | None) -> None:
        for listener in self._pod_listeners:
            listener(old, new)

    def _log(self, sign: int, pod: PodInfo, at: float, *, observed: bool = False) -> None:
        if not math.isnan(at):
            self.assignments.append(Assignment(sign, pod.node_name, pod.spec, pod.requests, at, observed))

    def _log_removal(self, placed: _Placed) -> None:
        self._log(-1, placed.pod, placed.logged_at)
        self._log(-1, placed.pod, placed.observed_at, observed=True)


def _seen(pod: PodInfo) -> tuple[object, ...]:
    """Return what no sum holds of a pod, and plugins may derive something from."""
    return math.isnan(pod.started_at), pod.spec.seccomp


def _usage(pod: PodInfo) -> tuple[object, ...]:
    """Return what the table's sums hold of a pod."""
    spec = pod.spec
    return (
        pod.requests,
        pod.nonzero_cpu,
        pod.nonzero_memory,
        pod.limits,
        spec.containers,
        spec.overhead,
        spec.pod_level,
    )


_Key = tuple[str, str, str]
"""Label, namespace, value."""


class PodDirectory:
    """Pods by the value of a label. Only labels that were indexed before the first pod came are kept.

    Args:
        node_of: where a pod is bound or assumed to be, by UID.
    """

    def __init__(self, node_of: Callable[[str], str]) -> None:
        self._node_of = node_of
        self._labels: list[str] = []
        self._by_value: dict[_Key, dict[str, PodInfo]] = {}
        self._pods: dict[str, PodInfo] = {}
        self._listeners: list[PodListener] = []

    def index(self, label: str, listener: PodListener | None = None) -> None:
        """Keep the pods that have a label, or with SCHEDULING_GROUP those of PodGroups; `listener` is called for each
        that comes, changes or goes."""
        if label not in self._labels:
            self._labels.append(label)
        if listener is not None:
            self._listeners.append(listener)

    def labelled(self, label: str, namespace: str, value: str) -> Collection[PodInfo]:
        """Return the pods of a namespace whose label has a value, as the API server shows them."""
        return self._by_value.get((label, namespace, value), {}).values()

    def node_of(self, pod: PodInfo) -> str:
        """Return the node a pod is bound or assumed to, or ""."""
        return self._node_of(pod.uid)

    def upsert(self, pod: PodInfo) -> None:
        """Take in a pod as the watch shows it; one that has ended is gone."""
        if not self._labels:
            return
        old = self._pods.get(pod.uid)
        if pod.terminal:
            self.remove(pod.uid)
            return
        keys = self._keys(pod)
        if old is None and not keys:
            return
        for key in self._keys(old):
            self._drop(key, pod.uid)
        for key in keys:
            self._by_value.setdefault(key, {})[pod.uid] = pod
        if keys:
            self._pods[pod.uid] = pod
        else:
            del self._pods[pod.uid]
        for listener in self._listeners:
            listener(old, pod)

    def remove(self, uid: str) -> None:
        """Forget a pod that is gone."""
        old = self._pods.pop(uid, None)
        if old is None:
            return
        for key in self._keys(old):
            self._drop(key, uid)
        for listener in self._listeners:
            listener(old, None)

    def retain(self, uids: Collection[str]) -> None:
        """Forget the pods that a fresh list does not hold."""
        for uid in [uid for uid in self._pods if uid not in uids]:
            self.remove(uid)

    def _keys(self, pod: PodInfo | None) -> list[_Key]:
        if pod is None:
            return []
        keys = [(label, pod.namespace, pod.labels[label]) for label in self._labels if label in pod.labels]
        if pod.scheduling_group and SCHEDULING_GROUP in self._labels:
            keys.append((SCHEDULING_GROUP, pod.namespace, pod.scheduling_group))
        return keys

    def _drop(self, key: _Key, uid: str) -> None:
        pods = self._by_value[key]
        del pods[uid]
        if not pods:
            del self._by_value[key]
