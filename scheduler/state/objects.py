"""Objects of other kinds that plugins look up: Namespaces, Services, controllers of pods, and whatever else a plugin's
descriptor says must be watched."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from scheduler.catalog import Watch
from secondary_scheduler.kube.model import (
    NAMESPACES,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    SERVICES,
    STATEFULSETS,
    Codec,
    Object,
)


class WatchedKind(NamedTuple):
    """A kind that can be watched: its name, as in events and manifests, and how it is decoded."""

    kind: str
    codec: Codec[Any]


WATCHED_KINDS: Mapping[Watch, WatchedKind] = {
    Watch("v1", "namespaces"): WatchedKind("Namespace", NAMESPACES),
    Watch("v1", "services"): WatchedKind("Service", SERVICES),
    Watch("v1", "replicationcontrollers"): WatchedKind("ReplicationController", REPLICATIONCONTROLLERS),
    Watch("apps/v1", "replicasets"): WatchedKind("ReplicaSet", REPLICASETS),
    Watch("apps/v1", "statefulsets"): WatchedKind("StatefulSet", STATEFULSETS),
}
"""Everything a plugin may declare under `watches`."""

CODEC_OF_KIND: Mapping[str, Codec[Any]] = {watched.kind: watched.codec for watched in WATCHED_KINDS.values()}
"""Decoders by kind, for readers of manifests."""


class ObjectStore:
    """Objects by kind, namespace ("" for those of the cluster) and name. `generation` tells a reader that a kind
    changed."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, dict[str, Object]]] = {}
        self._generations: dict[str, int] = {}

    def generation(self, *kinds: str) -> int:
        """Return a number that grows with every change to one of the kinds."""
        return sum(self._generations.get(kind, 0) for kind in kinds)

    def get(self, kind: str, namespace: str, name: str) -> Any | None:
        """Return an object, or None."""
        return self._kinds.get(kind, {}).get(namespace, {}).get(name)

    def in_namespace(self, kind: str, namespace: str) -> Collection[Any]:
        """Return the objects of a kind in a namespace."""
        return self._kinds.get(kind, {}).get(namespace, {}).values()

    def every(self, kind: str) -> Iterator[Any]:
        """Yield all objects of a kind."""
        for objects in self._kinds.get(kind, {}).values():
            yield from objects.values()

    def upsert(self, kind: str, item: Object) -> Any | None:
        """Add or replace an object; returns the former one."""
        meta = item.metadata
        objects = self._kinds.setdefault(kind, {}).setdefault(meta.namespace, {})
        old = objects.get(meta.name)
        objects[meta.name] = item
        self._changed(kind)
        return old

    def remove(self, kind: str, namespace: str, name: str) -> Any | None:
        """Drop an object; returns it."""
        namespaces = self._kinds.get(kind, {})
        objects = namespaces.get(namespace, {})
        old = objects.pop(name, None)
        if old is None:
            return None
        if not objects:
            del namespaces[namespace]
        self._changed(kind)
        return old

    def missing_from(self, kind: str, fresh: Iterable[Object]) -> list[Any]:
        """Return the objects of a kind that a fresh list does not hold."""
        seen = {(item.metadata.namespace, item.metadata.name) for item in fresh}
        return [item for item in self.every(kind) if (item.metadata.namespace, item.metadata.name) not in seen]

    def _changed(self, kind: str) -> None:
        self._generations[kind] = self._generations.get(kind, 0) + 1
