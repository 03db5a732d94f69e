"""What the watches brought: objects and pods, by namespace and group."""

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
    """Return what tells one pod and version from another: the rest of the metadata is most of what a pod takes."""
    return ObjectMeta(metadata.name, metadata.namespace, metadata.uid, metadata.resource_version)


class Seen(NamedTuple, Generic[P]):
    """A pod, reduced: whose it is, and what counts of it."""

    metadata: ObjectMeta
    group: str
    content: P

    @property
    def key(self) -> Key:
        """Where it belongs."""
        return self.metadata.namespace, self.group


class _Indexed(Generic[T]):
    """A store whose items are found by group, and which tells whose group was touched."""

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
        self._take(changes.deleted, changes.updated, changes.added)

    def apply(self, events: Sequence[tuple[EventType, T]]) -> None:
        """Sink: what a watch brought."""
        changes = self._store.apply(events)
        self._take(changes.deleted, changes.updated, changes.added)

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """Sink: what cannot be read counts as absent."""
        del error
        held = self._store.get(metadata.uid)
        if held is not None:
            self.apply([(EventType.DELETED, held)])

    def clear(self) -> None:
        """Forget everything, telling nobody."""
        self._store = Store(self._meta)
        self._groups = {}

    def _take(self, deleted: Sequence[T], updated: Sequence[tuple[T, T]], added: Sequence[T]) -> None:
        for one in deleted:
            self._drop(one)
        for before, after in updated:
            self._drop(before)
            self._put(after)
        for one in added:
            self._put(one)

    def _put(self, one: T) -> None:
        key = self._key(one)
        self._groups.setdefault(key, {})[self._meta(one).uid] = one
        self._touch(key)

    def _drop(self, one: T) -> None:
        key = self._key(one)
        group = self._groups.get(key, {})
        group.pop(self._meta(one).uid, None)
        if not group:
            self._groups.pop(key, None)
        self._touch(key)


class ObjectSink(_Indexed[O]):
    """The objects whose status is kept."""

    def __init__(self, group: Callable[[O], str], touch: Touch) -> None:
        super().__init__(object_meta, lambda one: (one.metadata.namespace, group(one)), touch)

    def of(self, namespace: str, group: str) -> Collection[O]:
        """The objects of a group."""
        return self.items((namespace, group))

    def learn(self, one: O) -> None:
        """Take over the answer to our own write, unless the object is gone meanwhile."""
        if self._store.get(one.metadata.uid) is not None:
            self.apply([(EventType.MODIFIED, one)])


class PodSink(_Indexed[Seen[P]]):
    """The pods that count."""

    def __init__(self, touch: Touch) -> None:
        super().__init__(lambda seen: seen.metadata, lambda seen: seen.key, touch)

    def of(self, namespace: str, group: str) -> list[P]:
        """What counts of the pods of a group."""
        return [seen.content for seen in self.items((namespace, group))]
