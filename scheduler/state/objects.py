"""Objects of other kinds that plugins look up: Namespaces, Services, controllers of pods, and whatever else a plugin's
descriptor says must be watched."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from scheduler.catalog import Watch
from scheduler.framework import ObjectListener
from scheduler.kube.model import (
    APPGROUPS,
    CSIDRIVERS,
    CSINODES,
    CSISTORAGECAPACITIES,
    DEVICECLASSES,
    DEVICETAINTRULES,
    ELASTICQUOTAS,
    NAMESPACES,
    NETWORKTOPOLOGIES,
    NODERESOURCETOPOLOGIES,
    PERSISTENTVOLUMECLAIMS,
    PERSISTENTVOLUMES,
    PODDISRUPTIONBUDGETS,
    PODGROUPS,
    PRIORITYCLASSES,
    REPLICASETS,
    REPLICATIONCONTROLLERS,
    RESOURCECLAIMS,
    RESOURCESLICES,
    SCHEDULINGPODGROUPS,
    SECCOMPPROFILES,
    SERVICES,
    STATEFULSETS,
    STORAGECLASSES,
    VOLUMEATTACHMENTS,
    Codec,
    Object,
    newer_version,
)


class WatchedKind(NamedTuple):
    """A kind that can be watched: its name, as in events and manifests, and how it is decoded."""

    kind: str
    codec: Codec[Any]


def watched_kind(api_version: str, kind: str) -> str:
    """Return what the store calls objects of a kind: PodGroups are of two APIs, of which one has several versions."""
    is_built_in = kind == "PodGroup" and api_version.startswith("scheduling.k8s.io/")
    return f"{kind}.{api_version}" if is_built_in else kind


WATCHED_KINDS: Mapping[Watch, WatchedKind] = {
    Watch("v1", "namespaces"): WatchedKind("Namespace", NAMESPACES),
    Watch("v1", "services"): WatchedKind("Service", SERVICES),
    Watch("v1", "replicationcontrollers"): WatchedKind("ReplicationController", REPLICATIONCONTROLLERS),
    Watch("apps/v1", "replicasets"): WatchedKind("ReplicaSet", REPLICASETS),
    Watch("apps/v1", "statefulsets"): WatchedKind("StatefulSet", STATEFULSETS),
    Watch("scheduling.x-k8s.io/v1alpha1", "podgroups"): WatchedKind("PodGroup", PODGROUPS),
    # The kinds bear the version: a group is written in the version that it was read in.
    Watch("scheduling.k8s.io/v1alpha2", "podgroups"): WatchedKind(
        "PodGroup.scheduling.k8s.io/v1alpha2", SCHEDULINGPODGROUPS
    ),
    Watch("scheduling.k8s.io/v1beta1", "podgroups"): WatchedKind(
        "PodGroup.scheduling.k8s.io/v1beta1", SCHEDULINGPODGROUPS
    ),
    Watch("policy/v1", "poddisruptionbudgets"): WatchedKind("PodDisruptionBudget", PODDISRUPTIONBUDGETS),
    Watch("scheduling.k8s.io/v1", "priorityclasses"): WatchedKind("PriorityClass", PRIORITYCLASSES),
    Watch("scheduling.x-k8s.io/v1alpha1", "elasticquotas"): WatchedKind("ElasticQuota", ELASTICQUOTAS),
    Watch("v1", "persistentvolumeclaims"): WatchedKind("PersistentVolumeClaim", PERSISTENTVOLUMECLAIMS),
    Watch("v1", "persistentvolumes"): WatchedKind("PersistentVolume", PERSISTENTVOLUMES),
    Watch("storage.k8s.io/v1", "storageclasses"): WatchedKind("StorageClass", STORAGECLASSES),
    Watch("storage.k8s.io/v1", "csidrivers"): WatchedKind("CSIDriver", CSIDRIVERS),
    Watch("storage.k8s.io/v1", "csinodes"): WatchedKind("CSINode", CSINODES),
    Watch("storage.k8s.io/v1", "csistoragecapacities"): WatchedKind("CSIStorageCapacity", CSISTORAGECAPACITIES),
    Watch("storage.k8s.io/v1", "volumeattachments"): WatchedKind("VolumeAttachment", VOLUMEATTACHMENTS),
    Watch("resource.k8s.io/v1", "resourceclaims"): WatchedKind("ResourceClaim", RESOURCECLAIMS),
    Watch("resource.k8s.io/v1", "resourceslices"): WatchedKind("ResourceSlice", RESOURCESLICES),
    Watch("resource.k8s.io/v1", "deviceclasses"): WatchedKind("DeviceClass", DEVICECLASSES),
    Watch("resource.k8s.io/v1", "devicetaintrules"): WatchedKind("DeviceTaintRule", DEVICETAINTRULES),
    Watch("topology.node.k8s.io/v1alpha2", "noderesourcetopologies"): WatchedKind(
        "NodeResourceTopology", NODERESOURCETOPOLOGIES
    ),
    Watch("appgroup.diktyo.x-k8s.io/v1alpha1", "appgroups"): WatchedKind("AppGroup", APPGROUPS),
    Watch("networktopology.diktyo.x-k8s.io/v1alpha1", "networktopologies"): WatchedKind(
        "NetworkTopology", NETWORKTOPOLOGIES
    ),
    Watch("security-profiles-operator.x-k8s.io/v1beta1", "seccompprofiles"): WatchedKind(
        "SeccompProfile", SECCOMPPROFILES
    ),
}
"""Everything a plugin may declare under `watches`."""

CODEC_OF_KIND: Mapping[str, Codec[Any]] = {watched.kind: watched.codec for watched in WATCHED_KINDS.values()}
"""Decoders by kind, for readers of manifests."""


_Key = tuple[str, str, str]
"""Kind, namespace, name."""
D = TypeVar("D")


class _Index:
    """Objects by what a function says of them."""

    __slots__ = ("_by_value", "_function", "_values")

    def __init__(self, function: Callable[[Any], str]) -> None:
        self._function = function
        self._values: dict[tuple[str, str], str] = {}
        self._by_value: dict[str, dict[tuple[str, str], Any]] = {}

    def put(self, item: Any) -> None:
        """Take an object in, in place of its former state."""
        key = (item.metadata.namespace, item.metadata.name)
        value = self._function(item)
        if self._values.get(key, value) != value:
            self.drop(*key)
        self._values[key] = value
        self._by_value.setdefault(value, {})[key] = item

    def drop(self, namespace: str, name: str) -> None:
        """Forget an object."""
        value = self._values.pop((namespace, name), None)
        if value is not None:
            items = self._by_value[value]
            del items[namespace, name]
            if not items:
                del self._by_value[value]

    def of(self, value: str) -> Collection[Any]:
        """Return the objects of a value."""
        return self._by_value.get(value, {}).values()


class ObjectStore:
    """Objects by kind, namespace ("" for those of the cluster) and name. `generation` tells a reader that a kind
    changed.

    An object can be assumed: shown by `latest` as a plugin is about to write it, until a newer version arrives or it
    is restored. Everything else shows what the API server has (pkg/scheduler/util/assumecache of kube-scheduler).
    Volumes need it: two pods decided between the write of a claim and its watch event must not be given one volume.

    One store for all kinds, not a typed cache per kind: plugins declare what they watch, and an out-of-tree plugin may
    add a kind that nothing here knows.
    """

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, dict[str, Object]]] = {}
        self._assumed: dict[_Key, Object] = {}
        self._indexes: dict[str, dict[Callable[[Any], str], _Index]] = {}
        self._generations: dict[str, int] = {}
        self._listeners: dict[str, list[ObjectListener]] = {}
        self._derived: dict[Callable[[Any], Any], Any] = {}

    def derived(self, make: Callable[[ObjectStore], D]) -> D:
        """Return what is derived from the objects: made by the first call with a function, the same for all others."""
        if make not in self._derived:
            self._derived[make] = make(self)
        result: D = self._derived[make]
        return result

    def listen(self, kind: str, listener: ObjectListener) -> None:
        """Call a function with the old and the new state of an object of a kind, as `latest` shows it, whenever that
        changes."""
        self._listeners.setdefault(kind, []).append(listener)

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

    def count(self, kind: str) -> int:
        """Return how many objects of a kind there are."""
        return sum(map(len, self._kinds.get(kind, {}).values()))

    def upsert(self, kind: str, item: Object) -> Any | None:
        """Add or replace an object; returns the former one."""
        meta = item.metadata
        objects = self._kinds.setdefault(kind, {}).setdefault(meta.namespace, {})
        key = (kind, meta.namespace, meta.name)
        before = self.latest(*key) if kind in self._listeners else None
        old = objects.get(meta.name)
        objects[meta.name] = item
        assumed = self._assumed.get(key)
        # A list taken again brings the version that the assumption rests on: that says nothing against it.
        if assumed is not None and newer_version(meta.resource_version, assumed.metadata.resource_version) is not False:
            del self._assumed[key]
        self._reindex(*key)
        self._changed(key, before)
        return old

    def latest(self, kind: str, namespace: str, name: str) -> Any | None:
        """Return an object as assumed, else as the API server has it, or None."""
        return self._assumed.get((kind, namespace, name)) or self.get(kind, namespace, name)

    def latest_by(self, kind: str, key: Callable[[Any], str], value: str) -> Collection[Any]:
        """Return the objects of a kind, as `latest` shows them, for which a function gives a value."""
        indexes = self._indexes.setdefault(kind, {})
        index = indexes.get(key)
        if index is None:
            index = indexes[key] = _Index(key)
            for item in self.every(kind):
                index.put(self.latest(kind, item.metadata.namespace, item.metadata.name))
        return index.of(value)

    def assume(self, kind: str, item: Object) -> None:
        """Show an object through `latest` as it is about to be written.

        Raises:
            ValueError: it does not exist, or a newer version of it is known than the one it was made from.
        """
        meta = item.metadata
        current = self.latest(kind, meta.namespace, meta.name)
        if current is None:
            raise ValueError(f'could not find v1.{kind} "{meta.key}"')
        if newer_version(current.metadata.resource_version, meta.resource_version) is True:
            stored = current.metadata.resource_version
            raise ValueError(
                f'v1.{kind} "{meta.key}" is out of sync (stored: {stored}, assume: {meta.resource_version})'
            )
        self._assumed[kind, meta.namespace, meta.name] = item
        self._reindex(kind, meta.namespace, meta.name)
        self._changed((kind, meta.namespace, meta.name), current)

    def restore(self, kind: str, namespace: str, name: str) -> None:
        """Forget the assumed state of an object, if there is one."""
        assumed = self._assumed.pop((kind, namespace, name), None)
        if assumed is not None:
            self._reindex(kind, namespace, name)
            self._changed((kind, namespace, name), assumed)

    def forget_assumed(self) -> None:
        """Show every object as the API server has it."""
        for key in list(self._assumed):
            self.restore(*key)

    def remove(self, kind: str, namespace: str, name: str) -> Any | None:
        """Drop an object; returns it."""
        namespaces = self._kinds.get(kind, {})
        objects = namespaces.get(namespace, {})
        before = self.latest(kind, namespace, name) if kind in self._listeners else None
        old = objects.pop(name, None)
        if old is None:
            return None
        if not objects:
            del namespaces[namespace]
        self._assumed.pop((kind, namespace, name), None)
        self._reindex(kind, namespace, name)
        self._changed((kind, namespace, name), before)
        return old

    def missing_from(self, kind: str, fresh: Iterable[Object]) -> list[Any]:
        """Return the objects of a kind that a fresh list does not hold."""
        seen = {(item.metadata.namespace, item.metadata.name) for item in fresh}
        return [item for item in self.every(kind) if (item.metadata.namespace, item.metadata.name) not in seen]

    def _reindex(self, kind: str, namespace: str, name: str) -> None:
        for index in self._indexes.get(kind, {}).values():
            item = self.latest(kind, namespace, name)
            if item is None:
                index.drop(namespace, name)
            else:
                index.put(item)

    def _changed(self, key: _Key, before: Any | None) -> None:
        """Note a change of what `latest` shows, which was `before` before; that is looked at by listeners only."""
        kind = key[0]
        self._generations[kind] = self._generations.get(kind, 0) + 1
        listeners = self._listeners.get(kind)
        if listeners is not None:
            now = self.latest(*key)
            for listener in listeners:
                listener(before, now)
