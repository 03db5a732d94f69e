"""A copy of the cluster, kept up to date by watches: what the scheduler reads, and what the safety rules do."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from scheduler.catalog import Watch
from scheduler.config import Configuration
from scheduler.engine import declared_watches
from scheduler.framework import NodeInfo, PodInfo
from scheduler.helpers import PodReducer, UnreadablePod, reduce_node, salvage_pod
from scheduler.kube.client import KubeClient, Reflector, ReflectorState, Store, api_path, object_meta, unchanged
from scheduler.kube.model import NODES, DecodeError, EventType, Node, Object, ObjectMeta, ResourceVersion
from scheduler.kube.primitives import TimestampError, epoch_seconds
from scheduler.load import nodes_by_address
from scheduler.state import WATCHED_KINDS
from secondary_scheduler.rebalancing import MOVABLE_PODS, WORKLOADS, MovablePod, MovedPodFacts, Workload, facts_of_pod

T = TypeVar("T")
_RUNNING = "status.phase!=Succeeded,status.phase!=Failed"
_SILENT_SECONDS = 180.0
"""So long a watch may say nothing: a bookmark comes about every minute."""
_DEPLOYMENTS = Watch("apps/v1", "deployments")
_NEEDED = (
    Watch("v1", "namespaces"),
    Watch("policy/v1", "poddisruptionbudgets"),
    Watch("apps/v1", "replicasets"),
    Watch("apps/v1", "statefulsets"),
    Watch("v1", "replicationcontrollers"),
)
"""What the rules read, whatever the plugins do."""


@dataclass(frozen=True, slots=True)
class KnownPod:
    """A pod as the scheduler sees it, and what the rules have to know beyond that; None of one that was not whole."""

    meta: ObjectMeta
    info: PodInfo
    facts: MovedPodFacts | None


@dataclass(frozen=True, slots=True)
class WatchedNode:
    """A node, and when it was made: seconds since the epoch, NaN where it does not say."""

    meta: ObjectMeta
    info: NodeInfo
    created_at: float


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster at one moment: nothing in it changes."""

    nodes: tuple[WatchedNode, ...]
    pods: tuple[KnownPod, ...]
    objects: tuple[tuple[str, Object], ...]
    """Kind and object."""
    workloads: Mapping[tuple[str, str, str], Workload]


class WatchedCluster:
    """Lists and watches everything. All methods but `node_of_address` are called on the event loop.

    Args:
        client: with the right to list and watch.
        configuration: says which kinds the plugins read.
        outdated: says why what is listed is what a cluster that went back has undone; "" where it is not.

    Attributes:
        reflectors: what keeps the copy up to date, by what it lists.
    """

    def __init__(
        self, client: KubeClient, configuration: Configuration, outdated: Callable[[], str] = lambda: ""
    ) -> None:
        self._outdated = outdated
        reducer = PodReducer(configuration.profiles[0].kubernetes)
        self._pods = _Copy[KnownPod](lambda pod: pod.meta)
        self._nodes = _Copy[WatchedNode](lambda node: node.meta, self._note_addresses)
        self._objects: dict[str, _Copy[Object]] = {}
        self._node_of_address: Mapping[str, str] = {}
        self.reflectors: dict[str, Reflector[Any, Any]] = {
            "pods": Reflector(
                client,
                api_path("v1", "pods"),
                MOVABLE_PODS,
                self._pods,
                lambda pod: known_pod(pod, reducer),
                field_selector=_RUNNING,
                salvage=_salvaged,
            ),
            "nodes": Reflector(client, api_path("v1", "nodes"), NODES, self._nodes, known_node),
        }
        declared = declared_watches(
            (name, profile.kubernetes) for profile in configuration.profiles for name in profile.enabled
        )
        for watch in dict.fromkeys((*_NEEDED, *declared, _DEPLOYMENTS)):
            kind = "Deployment" if watch == _DEPLOYMENTS else WATCHED_KINDS[watch].kind
            codec = WORKLOADS.get(kind) or WATCHED_KINDS[watch].codec
            copy = self._objects[kind] = _Copy[Object](object_meta)
            # What the rules need must be readable; what only a plugin reads may be missing, as for the scheduler.
            optional = watch not in (*_NEEDED, _DEPLOYMENTS)
            self.reflectors[f"{watch.resource}.{watch.api_version}"] = Reflector(
                client, api_path(*watch), codec, copy, unchanged, optional=optional
            )

    async def run(self) -> None:
        """Keep the copy up to date until cancelled."""
        async with asyncio.TaskGroup() as group:
            for name, reflector in self.reflectors.items():
                group.create_task(reflector.run(), name=f"watch {name}")

    def problem(self) -> str:
        """Return why the copy cannot be trusted; "" where it can."""
        if outdated := self._outdated():
            return outdated
        now = time.monotonic()
        problems = (
            f"{name}: {text}" for name, reflector in self.reflectors.items() if (text := _wrong(reflector.state, now))
        )
        return next(problems, "")

    def synced(self) -> bool:
        """Tell whether everything was listed at least once."""
        return all(reflector.state.synced for reflector in self.reflectors.values())

    def pod(self, uid: str) -> PodInfo | None:
        """Return the pod with a UID; None once it is gone or has ended."""
        entry = self._pods.store.get(uid)
        return entry.info if entry is not None else None

    def pods_of(self, controller: str) -> Iterator[PodInfo]:
        """Yield the pods of the controller with a UID."""
        for entry in self._pods.store:
            owner = entry.info.controller
            if owner is not None and owner.uid == controller:
                yield entry.info

    def workload(self, key: tuple[str, str, str]) -> Object | None:
        """Return the object of a workload (kind, namespace, name), where it is known."""
        copy = self._objects.get(key[0])
        return copy.store.named(key[2], key[1]) if copy is not None else None

    def node_count(self) -> int:
        """Return the number of nodes. May be called from another thread."""
        return len(self._nodes.store)

    def pod_count(self) -> int:
        """Return the number of pods. May be called from another thread."""
        return len(self._pods.store)

    def pods_by_namespace(self) -> Mapping[str, int]:
        """Return how many pods each namespace has that has any."""
        return Counter(entry.info.namespace for entry in self._pods.store)

    def picture(self) -> Picture:
        """Return the cluster as it is now."""
        workloads: dict[tuple[str, str, str], Any] = {
            (kind, item.metadata.namespace, item.metadata.name): item
            for kind in WORKLOADS
            for item in (self._objects[kind].store if kind in self._objects else ())
        }
        objects = tuple(
            (kind, item) for kind, copy in self._objects.items() if kind != "Deployment" for item in copy.store
        )
        return Picture(tuple(self._nodes.store), tuple(self._pods.store), objects, workloads)

    def node_of_address(self, address: str) -> str | None:
        """Return the node that has this name, or alone has this address. May be called from another thread."""
        return self._node_of_address.get(address)

    def capacity_of(self, name: str) -> tuple[int, int] | None:
        """Return a node's capacity: CPU in milli-units, memory in bytes. May be called from another thread."""
        entry = self._nodes.store.named(name)
        return (entry.info.capacity_cpu, entry.info.capacity_memory) if entry is not None else None

    def _note_addresses(self) -> None:
        self._node_of_address = nodes_by_address((node.info.name, node.info.addresses) for node in self._nodes.store)


class _Copy(Generic[T]):
    """The objects of one kind: a reflector's sink."""

    def __init__(self, meta: Callable[[T], ObjectMeta], on_change: Callable[[], None] = lambda: None) -> None:
        self.store: Store[T] = Store(meta)
        self._on_change = on_change

    def replace(self, items: Sequence[T], resource_version: ResourceVersion) -> None:
        """Take a complete list."""
        del resource_version
        self.store.replace(items)
        self._on_change()

    def apply(self, events: Sequence[tuple[EventType, T]]) -> None:
        """Take the events of a watch."""
        if self.store.apply(events):
            self._on_change()

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """Count an object that cannot be decoded as absent."""
        del error
        held = self.store.get(metadata.uid)
        if held is not None:
            self.apply([(EventType.DELETED, held)])


def known_pod(pod: MovablePod, reducer: PodReducer) -> KnownPod:
    """Return what is kept of a pod.

    Raises:
        ValueError: a quantity of it cannot be read.
    """
    return KnownPod(_identity(pod.metadata), reducer.reduce(pod), facts_of_pod(pod))


def _salvaged(content: Any, error: str) -> KnownPod | None:
    """A pod that cannot be decoded keeps its room; what it requests beyond that, nobody knows."""
    pod: UnreadablePod | None = salvage_pod(content, error)
    if pod is None:
        return None
    meta = ObjectMeta(pod.name, pod.namespace, pod.uid, ResourceVersion(pod.resource_version))
    return KnownPod(meta, pod, None)


def known_node(node: Node) -> WatchedNode:
    """Return what is kept of a node.

    Raises:
        ValueError: a quantity of it cannot be read.
    """
    try:
        created = epoch_seconds(node.metadata.creation_timestamp or "")
    except TimestampError:
        created = math.nan
    return WatchedNode(_identity(node.metadata), reduce_node(node), created)


def _identity(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(meta.name, meta.namespace, meta.uid, meta.resource_version)


def _wrong(state: ReflectorState, now: float) -> str:
    if not state.synced:
        return f"not listed yet ({state.error})" if state.error is not None else "not listed yet"
    if state.absent or state.unread:
        return ""
    if state.error is not None and not state.watching:
        return str(state.error)
    return (
        f"has said nothing for {now - state.last_progress:.0f} s" if now - state.last_progress > _SILENT_SECONDS else ""
    )


def closed(node: NodeInfo) -> NodeInfo:
    """Return a node that takes no more pods: what one of its pods requests is not known."""
    return msgspec.structs.replace(node, allowed_pods=0)
