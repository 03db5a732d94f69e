"""What the watches of pods and nodes deliver, put into cache and queue in batches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from typing import NamedTuple

import msgspec
import structlog

from scheduler.engine.failures import FailureReporter
from scheduler.engine.overcommits import Overcommits
from scheduler.engine.waiting import WaitingPods
from scheduler.framework import (
    ASSIGNED_POD,
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULABLE_POD,
    UNSCHEDULABLE_POD_ADD,
    Clocks,
    ClusterEvent,
    NodeInfo,
    PodInfo,
    node_update_events,
    pod_update_events,
)
from scheduler.helpers import UnreadablePod, reduce_node
from scheduler.kube.model import DecodeError, EventType, Node, ObjectMeta, ResourceVersion
from scheduler.load import NodeAddresses
from scheduler.observe import Metrics
from scheduler.state import ClusterState, SchedulingQueue

log = structlog.get_logger(component="inputs")

_ASSIGNED_UPDATE, _WAITING_UPDATE = f"{ASSIGNED_POD}Update", f"{UNSCHEDULABLE_POD}Update"
_WAITING_DELETE = f"{UNSCHEDULABLE_POD}Delete"
_Change = tuple[ClusterEvent, NodeInfo | None, NodeInfo]
COUNTED = "counted"
"""It has a node, where it is counted: by its requests, or by those that were last known."""
NODE_CLOSED = "node closed"
"""It has a node, and what it occupies there is not known: the node gets no more pods."""
LEFT_OUT = "left out"
"""It waits for a node, and gets none."""
_CONSEQUENCES = {
    COUNTED: "a pod cannot be fully decoded and is counted by the requests that are known of it",
    NODE_CLOSED: "a pod cannot be read, so its node gets no more pods until it can be read or is gone",
    LEFT_OUT: "a pod cannot be decoded and is left out",
}


class PodInputs:
    """Sink of the pod watch: pods with a node into the cache, pending pods of our profiles into the queue.

    Args:
        state: the cache.
        queue: the pods to place.
        pending: the pods without a node, by UID; kept here, read by the cycle.
        scheduler_names: whose pods are ours.
        waiting: rejects pods that are deleted while they wait in Permit.
        failures: forgets pods that are gone.
        nodes: keeps nodes closed while they have a pod that cannot be read.
        overcommits: counts pods for which their nodes have no room.
        wake: called after each batch.
        clocks: say when a pod was seen on its node, which is compared with the times of loads.
        woken_at_binding: scheduler names whose pods wake others when they are bound and were nominated.
        metrics: where the time that a change takes is measured (those of a list are not), and pods are counted that
            cannot be read.
        named: returns what metrics call an event.
    """

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        *,
        pending: dict[str, PodInfo],
        scheduler_names: Container[str],
        waiting: WaitingPods,
        failures: FailureReporter,
        nodes: NodeInputs,
        overcommits: Overcommits,
        wake: Callable[[], None],
        clocks: Clocks,
        metrics: Metrics,
        woken_at_binding: Container[str] = (),
        named: Callable[[str], str] = str,
    ) -> None:
        self._named = named
        self._state = state
        self._woken_at_binding = woken_at_binding
        self._queue = queue
        self._clocks = clocks
        self._scheduler_names = scheduler_names
        self._waiting = waiting
        self._failures = failures
        self._unreadable = UnreadablePods(nodes, metrics)
        self._overcommits = overcommits
        self._wake = wake
        self._metrics = metrics
        # A list is in the order of names: it does not say which of two pods came to their node last.
        self._in_order = False
        self.pending = pending

    def add_page(self, items: Sequence[PodInfo]) -> None:
        """Take a page of the first list while the next ones are read.

        Nothing is decided before `replace` gets all of it: nodes would look emptier than they are.
        """
        for pod in items:
            self._upsert(pod)

    def go_back(self) -> None:
        """Take nothing for granted that the watches have not shown: the cluster went back to an older state.

        Of what was written of late, nobody knows what is left. The lists that follow say it; a write under way has its
        own answer.
        """
        self._state.objects.forget_assumed()
        self._failures.forget_written()
        for uid in self._state.forget_confirmed():
            pod = self.pending.get(uid)
            if pod is not None:
                self._queue.add(pod)

    def replace(self, items: Sequence[PodInfo], resource_version: ResourceVersion) -> None:
        """Take a complete list: what is not in it is gone."""
        seen = {pod.uid for pod in items}
        self._unreadable.retain(seen)
        self._state.directory.retain(seen)
        for uid in [uid for uid in self.pending if uid not in seen]:
            self._delete_pending(uid)
        for uid in [uid for uid in self._state.pod_uids if uid not in seen]:
            self._delete_assigned(uid)
        for pod in items:
            if self.pending.get(pod.uid) is not pod and self._state.pod(pod.uid) is not pod:
                self._upsert(pod)
        self._wake()

    def apply(self, events: Sequence[tuple[EventType, PodInfo]]) -> None:
        """Apply a batch of changes, in their order."""
        self._in_order = True
        for kind, pod in events:
            began = time.perf_counter()
            if kind is EventType.DELETED:
                self._unreadable.forget(pod.uid)
                self._state.directory.remove(pod.uid)
                is_waiting = pod.uid in self.pending
                labels: tuple[str, ...] = (_WAITING_DELETE if is_waiting else ASSIGNED_POD_DELETE.label,)
                self._delete_pending(pod.uid)
                self._delete_assigned(pod.uid)
            else:
                labels = self._upsert(pod)
            for label in labels:
                self._metrics.event_handling.labels(self._named(label)).observe(time.perf_counter() - began)
        self._in_order = False
        self._wake()

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """Leave a pod out of which nothing can be read that would be of use (`salvage_pod`)."""
        self._delete_pending(metadata.uid)
        self._metrics.objects_left_out.labels("Pod").inc()
        log.warning(
            "a pod cannot be decoded and is left out",
            pod=f"{metadata.namespace}/{metadata.name}",
            error=str(error)[:300],
        )

    def _upsert(self, pod: PodInfo) -> tuple[str, ...]:
        """Take in a pod; returns upstream's names for what that is, none where it is of no interest."""
        if isinstance(pod, UnreadablePod):
            readable = self._read_in_part(pod)
            if readable is None:
                return ()
            pod = readable
        elif pod.uid in self._unreadable:
            self._unreadable.forget(pod.uid)
        # First, as plugins look pods up in it when queue and cache change.
        self._state.directory.upsert(pod)
        if pod.terminal:
            self._delete_pending(pod.uid)
            self._delete_assigned(pod.uid, pod)
            return (ASSIGNED_POD_DELETE.label,)
        if pod.node_name:
            self._delete_pending(pod.uid, wakes=pod.scheduler_name in self._woken_at_binding)
            return self._upsert_assigned(pod)
        if self._state.pod(pod.uid) is not None and not self._state.is_assumed(pod.uid):
            # It had a node before the cluster went back to an older state.
            self._delete_assigned(pod.uid)
        if pod.scheduler_name in self._scheduler_names:
            return self._upsert_pending(pod)
        return ()

    def _read_in_part(self, pod: UnreadablePod) -> PodInfo | None:
        """Return what is to be counted of a pod that cannot be fully decoded; None where it is left out."""
        if pod.terminal:
            self._unreadable.forget(pod.uid)
            return pod
        if not pod.node_name:
            self._unreadable.note(pod, LEFT_OUT)
            self._delete_pending(pod.uid)
            return None
        cached = self._state.pod(pod.uid)
        if cached is None or cached.node_name != pod.node_name or isinstance(cached, UnreadablePod):
            self._unreadable.note(pod, COUNTED if pod.requests_known else NODE_CLOSED)
            return pod
        self._unreadable.note(pod, COUNTED)
        latest: PodInfo = msgspec.structs.replace(cached, resource_version=pod.resource_version, deleting=pod.deleting)
        if not pod.requests_known:
            return latest
        amounts = {"requests": pod.requests, "nonzero_cpu": pod.nonzero_cpu, "nonzero_memory": pod.nonzero_memory}
        return msgspec.structs.replace(latest, **amounts)

    def _upsert_assigned(self, pod: PodInfo) -> tuple[str, ...]:
        """Take in a pod with a node; returns upstream's names for what that is."""
        # An assumed pod wakes nobody before the API server shows it, as its binding may be rolled back: it does now.
        bound_by_us = self._state.is_assumed(pod.uid)
        old = self._state.upsert_pod(pod, self._clocks.wall())
        if old is None or bound_by_us:
            if self._in_order:
                self._overcommits.pod_bound(pod)
            self._queue.on_event(ASSIGNED_POD_ADD, new=pod)
            return (ASSIGNED_POD_ADD.label,)
        if old.resource_version == pod.resource_version:
            return (_ASSIGNED_UPDATE,)
        events = pod_update_events(old, pod)
        for event in events:
            self._queue.on_event(event, old=old, new=pod)
        return _with_specific(_ASSIGNED_UPDATE, events)

    def _upsert_pending(self, pod: PodInfo) -> tuple[str, ...]:
        """Take in a pod of ours without a node; returns upstream's names for what that is."""
        old = self.pending.get(pod.uid)
        self.pending[pod.uid] = pod
        if old is None:
            if not self._state.is_assumed(pod.uid):
                self._queue.add(pod)
                self._state.nominator.update(pod)
            return (UNSCHEDULABLE_POD_ADD.label,)
        if old.resource_version == pod.resource_version:
            return ()
        if not self._state.is_assumed(pod.uid):
            self._queue.update(old, pod)
            self._state.nominator.update(pod, old)
            if old.nominated_node and old.nominated_node != pod.nominated_node:
                self._wake_for_lost_nomination(old)
        return _with_specific(_WAITING_UPDATE, pod_update_events(old, pod))

    def _delete_pending(self, uid: str, *, wakes: bool = True) -> None:
        pod = self.pending.pop(uid, None)
        if pod is None:
            return
        self._queue.delete(uid)
        self._state.nominator.remove(uid)
        self._failures.forget(uid)
        if self._state.is_assumed(uid) and self._waiting.reject(uid, "", "removed"):
            return
        if wakes and pod.nominated_node:
            self._wake_for_lost_nomination(pod)

    def _wake_for_lost_nomination(self, pod: PodInfo) -> None:
        """A nominated pod counts as if it were on its node for pods of no higher priority, which may fit now."""
        self._queue.on_event(ASSIGNED_POD_DELETE, old=pod, max_priority=pod.priority)

    def _delete_assigned(self, uid: str, ended: PodInfo | None = None) -> None:
        if self._state.is_binding(uid):
            # The answer to its Binding decides, and the cycle rolls it back.
            return
        old = self._state.remove_pod(uid)
        if old is not None:
            if ended is not None:
                self._overcommits.pod_ended(ended)
            self._queue.on_event(ASSIGNED_POD_DELETE, old=old)


def _with_specific(general: str, events: Iterable[ClusterEvent]) -> tuple[str, ...]:
    return (general, *(event.label for event in events if event.label != general))


class NodeUpdate(NamedTuple):
    """A reduced node, and the addresses by which a load source may know it."""

    node: NodeInfo
    addresses: tuple[str, ...]


def reduce_node_update(raw: Node) -> NodeUpdate:
    """Reduce a node as the API server sends it.

    Raises:
        ValueError: a quantity of it cannot be read.
    """
    return NodeUpdate(reduce_node(raw), tuple(address.address for address in raw.status.addresses))


class NodeInputs:
    """Sink of the node watch."""

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        *,
        wake: Callable[[], None],
        metrics: Metrics,
    ) -> None:
        self._state = state
        self._queue = queue
        self._wake = wake
        self._metrics = metrics
        self._addresses = NodeAddresses()
        self._shared: set[str] = set()
        """Addresses of several nodes that the log has not named yet."""
        self._closed: dict[str, NodeInfo | None] = {}
        """The closed nodes as the API server shows them; None where it shows none of the name."""

    def node_of_address(self, address: str) -> str | None:
        """Return the node that has this name, or alone has this address. May be called from another thread."""
        return self._addresses.node_of(address)

    def close(self, name: str) -> None:
        """Put no more pods on a node: to the plugins it has room for none."""
        node = self._closed[name] = self._state.node(name)
        if node is not None:
            self._tell(self._put(_without_room(node)))

    def reopen(self, name: str) -> None:
        """End what `close` began."""
        node = self._closed.pop(name)
        if node is not None:
            self._tell(self._put(node))

    def replace(self, items: Sequence[NodeUpdate], resource_version: ResourceVersion) -> None:
        """Take a complete list: what is not in it is gone."""
        seen = {update.node.name for update in items}
        self._remove(name for name in self._state.node_names if name not in seen)
        names = self._state.node_names
        present = [update for update in items if update.node.name in names]
        new = [self._shown(update) for update in items if update.node.name not in names]
        self._state.add_nodes(new)
        changes: list[_Change] = [(NODE_ADD, None, node) for node in new]
        changes += [change for update in present for change in self._upsert(update)]
        # All at once: thousands of pods may wait here at a start, and each would be asked about each node.
        self._queue.on_events(changes)
        self._name_shared_addresses()
        self._wake()

    def apply(self, events: Sequence[tuple[EventType, NodeUpdate]]) -> None:
        """Apply a batch of changes, in their order."""
        for kind, update in events:
            began = time.perf_counter()
            labels: Iterable[str] = (NODE_DELETE.label,)
            if kind is EventType.DELETED:
                self._remove([update.node.name])
            else:
                labels = self._tell(self._upsert(update))
            for label in labels:
                self._metrics.event_handling.labels(label).observe(time.perf_counter() - began)
        self._name_shared_addresses()
        self._wake()

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """Leave a node out that cannot be decoded: it gets no pods until it can."""
        self._remove([metadata.name])
        self._metrics.objects_left_out.labels("Node").inc()
        log.warning("a node cannot be decoded and is left out", node=metadata.name, error=str(error)[:300])

    def _upsert(self, update: NodeUpdate) -> list[_Change]:
        """Take in a node; returns what the queue has to be told."""
        return self._put(self._shown(update))

    def _shown(self, update: NodeUpdate) -> NodeInfo:
        """Note a node's addresses; returns what the plugins see of it."""
        node = update.node
        self._shared |= self._addresses.set(node.name, update.addresses)
        if node.name not in self._closed:
            return node
        self._closed[node.name] = node
        return _without_room(node)

    def _name_shared_addresses(self) -> None:
        """Only after a batch: while addresses move between nodes, one may be seen with two for a moment."""
        for address in sorted(self._shared):
            holders = self._addresses.holders(address)
            if len(holders) > 1:
                log.warning(
                    "address shared by several nodes: load under it is ignored; name nodes in the series instead",
                    address=address,
                    nodes=list(holders[:5]),
                )
        self._shared.clear()

    def _put(self, node: NodeInfo) -> list[_Change]:
        _, old = self._state.upsert_node(node)
        if old is None:
            return [(NODE_ADD, None, node)]
        return [(event, old, node) for event in node_update_events(old, node)]

    def _tell(self, changes: Sequence[_Change]) -> list[str]:
        """Tell the queue; returns the names of the events."""
        for event, old, new in changes:
            self._queue.on_event(event, old=old, new=new)
        return [event.label for event, _, _ in changes]

    def _remove(self, names: Iterable[str]) -> None:
        for name in list(names):
            old: NodeInfo | None = self._state.remove_node(name)
            if name in self._closed:
                self._closed[name] = None
            if old is not None:
                self._addresses.remove(name)
                self._queue.on_event(NODE_DELETE, old=old)


def _without_room(node: NodeInfo) -> NodeInfo:
    closed: NodeInfo = msgspec.structs.replace(node, allowed_pods=0)
    return closed


class _Unreadable(NamedTuple):
    state: str
    node: str


class UnreadablePods:
    """Keeps nodes closed while they have such a pod; names each pod once in the log, and counts them.

    Args:
        nodes: closes a node when its first such pod comes, and opens it again when the last is gone.
        metrics: where they are counted.
    """

    def __init__(self, nodes: NodeInputs, metrics: Metrics) -> None:
        self._nodes = nodes
        self._gauge = metrics.unreadable_pods
        self._entries: dict[str, _Unreadable] = {}
        self._closing: Counter[str] = Counter()

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def note(self, pod: UnreadablePod, state: str) -> None:
        """Take in what is done about a pod: one of the states above."""
        entry = _Unreadable(state, pod.node_name)
        if self._entries.get(pod.uid) == entry:
            return
        self.forget(pod.uid)
        self._entries[pod.uid] = entry
        self._gauge.labels(state).inc()
        log.warning(_CONSEQUENCES[state], pod=pod.key, node=pod.node_name, error=pod.error[:300])
        if state == NODE_CLOSED:
            self._closing[pod.node_name] += 1
            if self._closing[pod.node_name] == 1:
                self._nodes.close(pod.node_name)

    def forget(self, uid: str) -> None:
        """Forget a pod that can be read again, has ended, or is gone."""
        entry = self._entries.pop(uid, None)
        if entry is None:
            return
        self._gauge.labels(entry.state).dec()
        if entry.state == NODE_CLOSED:
            self._closing[entry.node] -= 1
            if not self._closing[entry.node]:
                del self._closing[entry.node]
                self._nodes.reopen(entry.node)

    def retain(self, uids: Collection[str]) -> None:
        """Forget the pods that a fresh list does not hold."""
        for uid in [uid for uid in self._entries if uid not in uids]:
            self.forget(uid)
