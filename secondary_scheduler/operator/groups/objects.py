"""The objects and pods that the watches delivered, indexed by namespace and group."""

from collections.abc import Callable, Collection, Sequence
from typing import Generic, NamedTuple, TypeVar

from scheduler.kube.client import Store, object_meta
from scheduler.kube.model import DecodeError, EventType, Object, ObjectMeta, ResourceVersion

T = TypeVar("T")
O = TypeVar("O", bound=Object)  # noqa: E741 -- an object
P = TypeVar("P")

Key = tuple[str, str]
"""Namespace and group."""
Touch = Callable[[Key], None]


def identity(metadata: ObjectMeta) -> ObjectMeta:
    """Return the metadata that identify a pod and its version; the rest is most of a pod's memory."""
    return ObjectMeta(metadata.name, metadata.namespace, metadata.uid, metadata.resource_version)


class ReducedPod(NamedTuple, Generic[P]):
    """A pod reduced to its group and what the group's status needs of it."""

    metadata: ObjectMeta
    group: str
    content: P

    @property
    def key(self) -> Key:
        """Namespace and group of the pod."""
        return self.metadata.namespace, self.group


class _Indexed(Generic[T]):
    """A store that finds its items by group and calls `touch` with the key of every group that changes."""

    def __init__(self, meta: Callable[[T], ObjectMeta], key: Callable[[T], Key], touch: Touch) -> None:
        self._meta = meta
        self._key = key
        self._touch = touch
        self._store: Store[T] = Store(meta)
        self._groups: dict[Key, dict[str, T]] = {}

    def __len__(self) -> int:
        return len(self._store)

    def items(self, key: Key) -> Collection[T]:
        """The items of a group."""
        return self._groups.get(key, {}).values()

    def each(self, touch: Touch) -> None:
        """Touch every group."""
        for key in list(self._groups):
            touch(key)

    def replace(self, items: Sequence[T], resource_version: ResourceVersion) -> None:
        """Sink: a complete list."""
        del resource_version
        changes = self._store.replace(items)
        self._update_groups(changes.deleted, changes.updated, changes.added)

    def apply(self, events: Sequence[tuple[EventType, T]]) -> None:
        """Sink: the events of a watch."""
        changes = self._store.apply(events)
        self._update_groups(changes.deleted, changes.updated, changes.added)

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """Sink: an object that cannot be decoded counts as absent."""
        del error
        stored = self._store.get(metadata.uid)
        if stored is not None:
            self.apply([(EventType.DELETED, stored)])

    def clear(self) -> None:
        """Forget everything without touching any group."""
        self._store = Store(self._meta)
        self._groups = {}

    def _update_groups(self, deleted: Sequence[T], updated: Sequence[tuple[T, T]], added: Sequence[T]) -> None:
        for item in deleted:
            self._drop(item)
        for before, after in updated:
            self._drop(before)
            self._put(after)
        for item in added:
            self._put(item)

    def _put(self, item: T) -> None:
        key = self._key(item)
        self._groups.setdefault(key, {})[self._meta(item).uid] = item
        self._touch(key)

    def _drop(self, item: T) -> None:
        key = self._key(item)
        group = self._groups.get(key, {})
        group.pop(self._meta(item).uid, None)
        if not group:
            self._groups.pop(key, None)
        self._touch(key)


class ObjectSink(_Indexed[O]):
    """The objects whose status the controller writes."""

    def __init__(self, group: Callable[[O], str], touch: Touch) -> None:
        super().__init__(object_meta, lambda obj: (obj.metadata.namespace, group(obj)), touch)

    def of(self, namespace: str, group: str) -> Collection[O]:
        """The objects of a group."""
        return self.items((namespace, group))

    def record_answer(self, obj: O) -> None:
        """Store the API server's answer to our own write, unless the object has been deleted meanwhile."""
        if self._store.get(obj.metadata.uid) is not None:
            self.apply([(EventType.MODIFIED, obj)])


class PodSink(_Indexed[ReducedPod[P]]):
    """The pods that the status depends on."""

    def __init__(self, touch: Touch) -> None:
        super().__init__(lambda pod: pod.metadata, lambda pod: pod.key, touch)

    def of(self, namespace: str, group: str) -> list[P]:
        """What the status needs of the pods of a group."""
        return [pod.content for pod in self.items((namespace, group))]
