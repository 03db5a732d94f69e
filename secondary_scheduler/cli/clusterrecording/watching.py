"""One kind of a cluster, watched: what of it goes into a recording."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from scheduler.kube.client import KubeClient, KubeError, Reflector, ReflectorTiming, api_path
from scheduler.kube.model import (
    DecodeError,
    EventType,
    ObjectMeta,
    ResourceVersion,
    Unstructured,
    UnstructuredCodec,
)
from secondary_scheduler.cli.clusterrecording.form import LineType
from secondary_scheduler.cli.clusterrecording.writing import RecordingWriter
from secondary_scheduler.clustersnapshot.reading import SnapshotResource

# A kind that we may not list is left out at once: who records waits for the beginning.
_TIMING = ReflectorTiming(refused=0.0)
_VERSIONS = ("resourceVersion", "generation")
Key = tuple[str, str]
"""Namespace and name."""


class Trimmed(NamedTuple):
    """An object, reduced as in a snapshot.

    Attributes:
        content: as plain data.
        data: as JSON.
        digest: the same for two states that differ in nothing that a scheduler reads.
    """

    metadata: ObjectMeta
    content: dict[str, Any]
    data: bytes
    digest: bytes

    @property
    def key(self) -> Key:
        """Namespace and name."""
        return self.metadata.namespace, self.metadata.name


class _Known(NamedTuple):
    uid: str
    digest: bytes


class RecordedKind:
    """A sink of a reflector that writes what changes; before `begin` it only keeps what there is.

    A kind's status changes all the time, most of it nothing that a scheduler reads: a state that is reduced to the
    same as the last is not written.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: SnapshotResource,
        say: Callable[[str], None],
        seen: Callable[[str, dict[str, Any] | None], None] = lambda name, content: None,
    ) -> None:
        """`seen` is called with the name of each object that comes, changes or goes, and with its content."""
        self.resource = resource
        self._say = say
        self._seen = seen
        self._waiting: dict[Key, Trimmed] = {}
        self._known: dict[Key, _Known] = {}
        self._writer: RecordingWriter | None = None
        self._told = False
        self.reflector: Reflector[Unstructured, Trimmed] = Reflector(
            client,
            api_path(resource.api_version, resource.plural),
            UnstructuredCodec(),
            self,
            self._trim,
            field_selector=resource.selector,
            optional=not resource.required,
            timing=_TIMING,
        )

    @property
    def lost(self) -> str:
        """Why the kind is not watched at present; "" where all is well, or there is nothing to watch."""
        state = self.reflector.state
        if state.absent or state.unread or state.watching or state.error is None:
            return ""
        return str(state.error)

    def begin(self, writer: RecordingWriter) -> None:
        """Write what there is; from now on, write what happens."""
        self._writer = writer
        for item in self._waiting.values():
            self._write(LineType.SNAPSHOT, item)
        self._waiting.clear()

    def check(self) -> None:
        """Write and say whether the watch is lost, or goes on, where that is news."""
        lost = self.lost
        if self._writer is None or bool(lost) == self._told:
            return
        self._told = bool(lost)
        kind = self.resource.kind
        self._writer.note(LineType.LOST if lost else LineType.RESUMED, kind, lost)
        self._say(f"{kind}: the watch is lost, and tried again: {lost}" if lost else f"{kind}: watched again")

    # The sink -----------------------------------------------------------------------------------------------------

    def replace(self, items: Sequence[Trimmed], resource_version: ResourceVersion) -> None:
        """Take in a complete list: the first one, or one after a watch that could not be resumed."""
        fresh = {item.key: item for item in items}
        for item in items:
            self._note(item)
        if self._writer is None:
            self._waiting = fresh
            return
        kind = self.resource.kind
        if resource_version:
            self._writer.note(LineType.RELISTED, kind)
            self._say(f"{kind}: listed again; what happened since the watch was lost is recorded by its result only")
        for key, known in list(self._known.items()):
            if key not in fresh or fresh[key].metadata.uid != known.uid:
                self._gone(key)
        for item in items:
            self._change(item)

    def apply(self, events: Sequence[tuple[EventType, Trimmed]]) -> None:
        """Take in what happened."""
        for event, item in events:
            if event is not EventType.DELETED:
                self._note(item)
            if self._writer is None:
                if event is EventType.DELETED:
                    self._waiting.pop(item.key, None)
                else:
                    self._waiting[item.key] = item
            elif event is EventType.DELETED:
                self._gone(item.key)
            else:
                self._change(item)

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """Say which object is not recorded."""
        self._say(f"left out {self.resource.kind} {metadata.key}: {error}")

    # Internals ----------------------------------------------------------------------------------------------------

    def _trim(self, item: Unstructured) -> Trimmed:
        try:
            content = self.resource.trim(item.content)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"not the form of a {self.resource.kind}: {error}") from error
        meta = content["metadata"]
        unversioned = {name: value for name, value in meta.items() if name not in _VERSIONS}
        digest = hashlib.blake2b(msgspec.json.encode({**content, "metadata": unversioned}), digest_size=16).digest()
        return Trimmed(item.metadata, content, msgspec.json.encode(content), digest)

    def _note(self, item: Trimmed) -> None:
        self._seen(item.metadata.name, item.content)

    def _change(self, item: Trimmed) -> None:
        known = self._known.get(item.key)
        if known is not None and known == (item.metadata.uid, item.digest):
            return
        self._write(LineType.ADDED if known is None else LineType.MODIFIED, item)

    def _write(self, kind: LineType, item: Trimmed) -> None:
        assert self._writer is not None
        self._known[item.key] = _Known(item.metadata.uid, item.digest)
        self._writer.object(kind, item.data)

    def _gone(self, key: Key) -> None:
        known = self._known.pop(key, None)
        self._seen(key[1], None)
        if known is None or self._writer is None:
            return
        namespace, name = key
        meta = {"name": name, "uid": known.uid, **({"namespace": namespace} if namespace else {})}
        identity = {"apiVersion": self.resource.api_version, "kind": self.resource.kind, "metadata": meta}
        self._writer.object(LineType.DELETED, msgspec.json.encode(identity))


def startup_error(kinds: Sequence[RecordedKind]) -> KubeError | None:
    """Return why the recording cannot begin; None while it may."""
    from scheduler.kube.client import Forbidden, NotFound, TooManyRequests

    for kind in kinds:
        reflector = kind.reflector
        error = reflector.state.error
        if error is None or reflector.synced.is_set() or isinstance(error, TooManyRequests):
            continue
        if reflector.optional and isinstance(error, Forbidden | NotFound):
            continue
        return error
    return None
