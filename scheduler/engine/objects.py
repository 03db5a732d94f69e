"""The other objects that plugins read: what their watches deliver goes into the cache, and wakes pods."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

import structlog

from scheduler.catalog import ActionType, KubernetesVersion, Watch, is_custom_resource, lookup
from scheduler.framework import ClusterEvent
from scheduler.helpers import UnreadablePod
from scheduler.kube.client import KubeClient, Reflector, api_path, unchanged
from scheduler.kube.model import DecodeError, EventType, Object, ObjectMeta, ResourceVersion
from scheduler.observe import Metrics
from scheduler.state import WATCHED_KINDS, ClusterState, SchedulingQueue, WatchedKind

log = structlog.get_logger(component="inputs")


def declared_watches(plugins: Iterable[tuple[str, KubernetesVersion]]) -> tuple[Watch, ...]:
    """Return the watches that the enabled plugins declare beyond nodes and pods, each once; a plugin is there with the
    version that its profile behaves as.

    Raises:
        ValueError: a plugin declares a resource that this scheduler cannot decode.
    """
    reader_of: dict[Watch, str] = {}
    for name, kubernetes in plugins:
        descriptor = lookup(name)
        for watch in descriptor.watches if descriptor else ():
            if kubernetes.reads(name, *watch):
                reader_of.setdefault(watch, name)
    for watch, name in reader_of.items():
        if watch not in WATCHED_KINDS:
            raise ValueError(f'plugin "{name}" reads {watch.resource} of {watch.api_version}, which is not supported')
    return tuple(reader_of)


class ObjectInputs:
    """Sink of one such watch. All methods run on the loop."""

    def __init__(
        self,
        kind: WatchedKind,
        state: ClusterState,
        queue: SchedulingQueue,
        *,
        wake: Callable[[], None],
        metrics: Metrics,
        prefix: str = "",
        custom: bool = False,
    ) -> None:
        """Configure.

        Args:
            kind: what is watched.
            state, queue: what changes reach.
            wake: called after each batch.
            metrics: where the time that a change takes is measured, and objects are counted that cannot be read.
            prefix: what upstream's names of the events have before the kind (`event_prefix`).
            custom: whether it is a custom resource.
        """
        self._kind = kind.kind
        # Of kinds that share a name, ours carries group and version.
        self._label = prefix + kind.kind.partition(".")[0]
        self._metrics = metrics
        self._served = True
        self._custom = custom
        self._objects = state.objects
        self._queue = queue
        self._wake = wake

    def replace(self, items: Sequence[Object], resource_version: ResourceVersion) -> None:
        """Take a complete list: what is not in it is gone. An empty version says that the kind is not served."""
        self._log_served(bool(resource_version))
        for item in self._objects.missing_from(self._kind, items):
            self._remove(item.metadata)
        changes = [change for item in items if (change := self._store(item)) is not None]
        self._queue.on_events(changes)
        self._wake()

    def apply(self, events: Sequence[tuple[EventType, Object]]) -> None:
        """Apply a batch of changes, in their order."""
        for kind, item in events:
            began = time.perf_counter()
            label = self._remove(item.metadata) if kind is EventType.DELETED else self._upsert(item)
            if label:
                self._metrics.event_handling.labels(label).observe(time.perf_counter() - began)
        self._wake()

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """Treat an object that cannot be decoded as absent."""
        self._remove(metadata)
        self._metrics.objects_left_out.labels(self._kind).inc()
        log.warning(
            "an object cannot be decoded and is left out", kind=self._kind, object=metadata.key, error=str(error)[:300]
        )

    def _log_served(self, served: bool) -> None:
        if served and not self._served:
            log.info("the API server serves the resource now", kind=self._kind)
        elif self._served and not served:
            if self._custom:
                remedy = "install its CustomResourceDefinition, or disable the plugin that reads it"
            else:
                remedy = "an older API server does not; plugins see no object of it until one does"
            log.warning(f"the API server does not serve the resource: {remedy}", kind=self._kind)
        self._served = served

    def _upsert(self, item: Object) -> str:
        """Take in an object; returns the name of the event, "" for none."""
        change = self._store(item)
        if change is None:
            return ""
        event, old, new = change
        self._queue.on_event(event, old=old, new=new)
        return event.label

    def _store(self, item: Object) -> tuple[ClusterEvent, Object | None, Object] | None:
        """Put an object into the cache; returns what changed, None for nothing."""
        old = self._objects.upsert(self._kind, item)
        if old is None:
            return ClusterEvent(self._kind, ActionType.ADD, f"{self._label}Add"), None, item
        if old != item:
            return ClusterEvent(self._kind, ActionType.UPDATE, f"{self._label}Update"), old, item
        return None

    def _remove(self, metadata: ObjectMeta) -> str:
        old = self._objects.remove(self._kind, metadata.namespace, metadata.name)
        if old is None:
            return ""
        event = ClusterEvent(self._kind, ActionType.DELETE, f"{self._label}Delete")
        self._queue.on_event(event, old=old)
        return event.label


def event_prefix(watch: Watch) -> str:
    """Return what upstream's event names have before the kind: the group where it is one of Kubernetes' own."""
    group = watch.api_version.rpartition("/")[0]
    return f"{group}/" if group in ("storage.k8s.io", "resource.k8s.io", "scheduling.k8s.io") else ""


def is_custom(watch: Watch) -> bool:
    """Return whether a CustomResourceDefinition of a plugin has the resource, not Kubernetes itself."""
    group = watch.api_version.partition("/")[0]
    return is_custom_resource(f"{watch.resource}.{group}")


def new_reflector(watch: Watch, client: KubeClient, inputs: ObjectInputs) -> Reflector[Any, Any]:
    """Return the list and watch of one kind, in all namespaces.

    The API server need not serve it or let it be read: a CustomResourceDefinition may be installed later, older servers
    lack newer kinds, and roles written for them lack their rules. Pods that do not need it must not wait for it.
    """
    codec = WATCHED_KINDS[watch].codec
    return Reflector(client, api_path(*watch), codec, inputs, unchanged, optional=True)


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


class _Entry(NamedTuple):
    state: str
    node: str


class UnreadablePods:
    """Keeps nodes closed while they have such a pod; names each pod once in the log, and counts them.

    Args:
        close, reopen: called with a node's name, when its first such pod comes and when the last is gone.
        metrics: where they are counted.
    """

    def __init__(self, close: Callable[[str], None], reopen: Callable[[str], None], metrics: Metrics) -> None:
        self._close = close
        self._reopen = reopen
        self._gauge = metrics.unreadable_pods
        self._entries: dict[str, _Entry] = {}
        self._closing: Counter[str] = Counter()

    def __contains__(self, uid: str) -> bool:
        return uid in self._entries

    def note(self, pod: UnreadablePod, state: str) -> None:
        """Take in what is done about a pod: one of the states above."""
        entry = _Entry(state, pod.node_name)
        if self._entries.get(pod.uid) == entry:
            return
        self.forget(pod.uid)
        self._entries[pod.uid] = entry
        self._gauge.labels(state).inc()
        log.warning(_CONSEQUENCES[state], pod=pod.key, node=pod.node_name, error=pod.error[:300])
        if state == NODE_CLOSED:
            self._closing[pod.node_name] += 1
            if self._closing[pod.node_name] == 1:
                self._close(pod.node_name)

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
                self._reopen(entry.node)

    def retain(self, uids: Collection[str]) -> None:
        """Forget the pods that a fresh list does not hold."""
        for uid in [uid for uid in self._entries if uid not in uids]:
            self.forget(uid)
