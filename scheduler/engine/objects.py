"""The other objects that plugins read: what their watches deliver goes into the cache, and wakes pods."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import structlog

from scheduler.catalog import ActionType, KubernetesVersion, Watch, is_custom_resource, lookup
from scheduler.framework import ClusterEvent
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
