"""What the watches bring, put into cache and queue: pods and nodes as they come, in batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

import structlog

from scheduler.engine.failures import FailureReporter
from scheduler.engine.waiting import WaitingPods
from scheduler.framework import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    NodeInfo,
    PodInfo,
    node_update_events,
    pod_update_events,
)
from scheduler.helpers import reduce_node
from scheduler.kube.model import DecodeError, EventType, Node, ObjectMeta, ResourceVersion
from scheduler.state import ClusterState, SchedulingQueue

log = structlog.get_logger(component="inputs")


class PodInputs:
    """Sink of the pod watch: assigned pods into the cache, ours without a node into the queue."""

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        *,
        pending: dict[str, PodInfo],
        scheduler_names: Container[str],
        waiting: WaitingPods,
        failures: FailureReporter,
        wake: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state = state
        self._queue = queue
        self._clock = clock
        self._scheduler_names = scheduler_names
        self._waiting = waiting
        self._failures = failures
        self._wake = wake
        self.pending = pending

    def fill(self, items: Sequence[PodInfo]) -> None:
        """A page of the first list, of which nothing is decided before `replace` brings all of it."""
        for pod in items:
            self._upsert(pod)

    def replace(self, items: Sequence[PodInfo], resource_version: ResourceVersion) -> None:
        """A fresh list: what is not in it is gone."""
        seen = {pod.uid for pod in items}
        self._state.directory.retain(seen)
        for uid in [uid for uid in self.pending if uid not in seen]:
            self._gone_pending(uid)
        for uid in [uid for uid in self._state.pod_uids if uid not in seen]:
            self._gone_assigned(uid)
        for pod in items:
            if self.pending.get(pod.uid) is not pod and self._state.pod(pod.uid) is not pod:
                self._upsert(pod)
        self._wake()

    def apply(self, events: Sequence[tuple[EventType, PodInfo]]) -> None:
        """A batch of changes, in their order."""
        for kind, pod in events:
            if kind is EventType.DELETED:
                self._state.directory.remove(pod.uid)
                self._gone_pending(pod.uid)
                self._gone_assigned(pod.uid)
            else:
                self._upsert(pod)
        self._wake()

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """A pod that cannot be read is not placed; one that runs keeps the room that was last known."""
        self._gone_pending(metadata.uid)
        log.warning("pod left out", pod=f"{metadata.namespace}/{metadata.name}", error=str(error)[:300])

    def _upsert(self, pod: PodInfo) -> None:
        # Before queue and cache, which ask it.
        self._state.directory.upsert(pod)
        if pod.terminal:
            self._gone_pending(pod.uid)
            self._gone_assigned(pod.uid)
        elif pod.node_name:
            self._gone_pending(pod.uid)
            self._assigned(pod)
        elif pod.scheduler_name in self._scheduler_names:
            self._unassigned(pod)

    def _assigned(self, pod: PodInfo) -> None:
        # Until the API server shows it, one of ours that is being bound has been no news to pods that wait for it.
        bound_by_us = self._state.is_assumed(pod.uid)
        old = self._state.upsert_pod(pod, self._clock())
        if old is None or bound_by_us:
            self._queue.on_event(ASSIGNED_POD_ADD, new=pod)
            return
        if old.resource_version != pod.resource_version:
            for event in pod_update_events(old, pod):
                self._queue.on_event(event, old=old, new=pod)

    def _unassigned(self, pod: PodInfo) -> None:
        old = self.pending.get(pod.uid)
        self.pending[pod.uid] = pod
        if self._state.is_assumed(pod.uid):
            return
        if old is None:
            self._queue.add(pod)
            self._state.nominator.update(pod)
        elif old.resource_version != pod.resource_version:
            self._queue.update(old, pod)
            self._state.nominator.update(pod, old)
            if old.nominated_node and old.nominated_node != pod.nominated_node:
                self._room_given_up(old)

    def _gone_pending(self, uid: str) -> None:
        pod = self.pending.pop(uid, None)
        if pod is None:
            return
        self._queue.delete(uid)
        self._state.nominator.remove(uid)
        self._failures.forget(uid)
        if self._state.is_assumed(uid) and self._waiting.reject(uid, "", "removed"):
            return
        if pod.nominated_node:
            self._room_given_up(pod)

    def _room_given_up(self, pod: PodInfo) -> None:
        """A nominated pod counts as if it were on its node, for pods of no higher priority: they may try again."""
        self._queue.on_event(ASSIGNED_POD_DELETE, old=pod, max_priority=pod.priority)

    def _gone_assigned(self, uid: str) -> None:
        if self._state.is_binding(uid):
            # The Binding will find out; usage is taken back there.
            return
        old = self._state.remove_pod(uid)
        if old is not None:
            self._queue.on_event(ASSIGNED_POD_DELETE, old=old)


class NodeUpdate(NamedTuple):
    """A node, reduced, and the addresses by which a metric source may know it."""

    node: NodeInfo
    addresses: tuple[str, ...]


def reduce_node_update(raw: Node) -> NodeUpdate:
    """Reduce a node as it comes from the API server; ValueError for one that makes no sense."""
    return NodeUpdate(reduce_node(raw), tuple(address.address for address in raw.status.addresses))


class NodeInputs:
    """Sink of the node watch."""

    def __init__(self, state: ClusterState, queue: SchedulingQueue, *, wake: Callable[[], None]) -> None:
        self._state = state
        self._queue = queue
        self._wake = wake
        self._node_of_address: dict[str, str] = {}

    def node_of_address(self, address: str) -> str | None:
        """The node that has this name or address."""
        return self._node_of_address.get(address)

    def replace(self, items: Sequence[NodeUpdate], resource_version: ResourceVersion) -> None:
        """A fresh list: what is not in it is gone."""
        seen = {update.node.name for update in items}
        self._remove(name for name in self._state.node_names if name not in seen)
        for update in items:
            self._upsert(update)
        self._wake()

    def apply(self, events: Sequence[tuple[EventType, NodeUpdate]]) -> None:
        """A batch of changes, in their order."""
        for kind, update in events:
            if kind is EventType.DELETED:
                self._remove([update.node.name])
            else:
                self._upsert(update)
        self._wake()

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """A node that cannot be read gets no pods from us until it can."""
        self._remove([metadata.name])
        log.warning("node left out", node=metadata.name, error=str(error)[:300])

    def _upsert(self, update: NodeUpdate) -> None:
        node = update.node
        self._node_of_address[node.name] = node.name
        for address in update.addresses:
            # A node's name wins over another node's address.
            self._node_of_address.setdefault(address, node.name)
        _, old = self._state.upsert_node(node)
        if old is None:
            self._queue.on_event(NODE_ADD, new=node)
            return
        for event in node_update_events(old, node):
            self._queue.on_event(event, old=old, new=node)

    def _remove(self, names: Iterable[str]) -> None:
        for name in list(names):
            old: NodeInfo | None = self._state.remove_node(name)
            if old is not None:
                for address in [address for address, node in self._node_of_address.items() if node == name]:
                    del self._node_of_address[address]
                self._queue.on_event(NODE_DELETE, old=old)
