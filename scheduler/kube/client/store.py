"""A keyed copy of the objects of a list and its watch, which reports what changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

from msgspec import Struct, field

from scheduler.kube.model import EventType, Object, ObjectMeta, newer_version

U = TypeVar("U")


class Changes(Struct, Generic[U]):
    """What an update changed. Apply `deleted` first: a recreated object (same name, new UID) is deleted and added."""

    deleted: list[U] = field(default_factory=list)
    updated: list[tuple[U, U]] = field(default_factory=list)
    """Pairs of (old, new)."""
    added: list[U] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.deleted or self.updated or self.added)


def object_meta(obj: Object) -> ObjectMeta:
    """Return the metadata of a modelled object."""
    return obj.metadata


class Store(Generic[U]):
    """Objects by UID and by name. The content depends on the objects' versions only, not on repeats or order of events.

    Stale events are ignored. Deletions that were missed between watches are found by `replace`.
    """

    def __init__(self, meta: Callable[[U], ObjectMeta]) -> None:
        """`meta` returns the metadata of an item: `object_meta` for modelled objects."""
        self._meta = meta
        self._by_uid: dict[str, U] = {}
        self._uid_by_key: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def __iter__(self) -> Iterator[U]:
        return iter(self._by_uid.values())

    def get(self, uid: str) -> U | None:
        """Return the object with this UID, or None."""
        return self._by_uid.get(uid)

    def named(self, name: str, namespace: str = "") -> U | None:
        """Return the object with this name, or None."""
        uid = self._uid_by_key.get(f"{namespace}/{name}" if namespace else name)
        return self._by_uid.get(uid) if uid is not None else None

    def replace(self, items: Iterable[U]) -> Changes[U]:
        """Replace the content by a complete list and return what changed."""
        changes: Changes[U] = Changes()
        old = self._by_uid
        self._by_uid, self._uid_by_key = {}, {}
        for obj in items:
            meta = self._meta(obj)
            self._by_uid[meta.uid] = obj
            self._uid_by_key[meta.key] = meta.uid
            before = old.pop(meta.uid, None)
            if before is None:
                changes.added.append(obj)
            elif self._meta(before).resource_version != meta.resource_version:
                changes.updated.append((before, obj))
        changes.deleted.extend(old.values())
        return changes

    def apply(self, events: Sequence[tuple[EventType, U]]) -> Changes[U]:
        """Apply a batch of events and return what changed; several events on one object become their net effect."""
        changes = _Folding[U]()
        for kind, obj in events:
            meta = self._meta(obj)
            held = self._by_uid.get(meta.uid)
            if kind is EventType.DELETED:
                if held is not None:
                    self._remove(meta.uid, meta.key)
                    changes.delete(meta.uid, held)
                continue
            if held is not None and newer_version(meta.resource_version, self._meta(held).resource_version) is False:
                continue
            namesake = self._uid_by_key.get(meta.key)
            if namesake is not None and namesake != meta.uid:
                changes.delete(namesake, self._by_uid[namesake])
                self._remove(namesake, meta.key)
            self._by_uid[meta.uid] = obj
            self._uid_by_key[meta.key] = meta.uid
            changes.put(meta.uid, held, obj)
        return changes.result()

    def _remove(self, uid: str, key: str) -> None:
        del self._by_uid[uid]
        if self._uid_by_key.get(key) == uid:
            del self._uid_by_key[key]


class _Folding(Generic[U]):
    """First and last state of every object touched by a batch."""

    def __init__(self) -> None:
        self._before: dict[str, U | None] = {}
        self._after: dict[str, U | None] = {}

    def put(self, uid: str, before: U | None, after: U) -> None:
        self._before.setdefault(uid, before)
        self._after[uid] = after

    def delete(self, uid: str, before: U) -> None:
        self._before.setdefault(uid, before)
        self._after[uid] = None

    def result(self) -> Changes[U]:
        changes: Changes[U] = Changes()
        for uid, after in self._after.items():
            before = self._before[uid]
            if before is not None and after is not None:
                changes.updated.append((before, after))
            elif after is not None:
                changes.added.append(after)
            elif before is not None:
                changes.deleted.append(before)
        return changes
