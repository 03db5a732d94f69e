"""Taking a recording: list everything, write it, then write what happens until it is enough."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import msgspec

from scheduler.answers import API_VERSION
from scheduler.kube.client import (
    ClientConfig,
    KubeClient,
    KubeError,
    Reflector,
    ReflectorTiming,
    api_path,
    server_version,
)
from scheduler.kube.model import (
    DecodeError,
    EventType,
    ObjectMeta,
    Pod,
    ResourceVersion,
    Unstructured,
    UnstructuredCodec,
)
from scheduler.load import LoadError, nodes_by_address
from secondary_scheduler.cli.clusterrecording.form import (
    FORMAT_VERSION,
    KIND,
    EndReason,
    Header,
    LineType,
    RecordingWriter,
    now,
)
from secondary_scheduler.cli.errors import CommandError, Interrupted, printable
from secondary_scheduler.cli.privatefile import GrowingFile, growing_file
from secondary_scheduler.clustersnapshot.measuring import LoadOrigin, read_load_document
from secondary_scheduler.clustersnapshot.reading import RESOURCES, SnapshotResource
from secondary_scheduler.nodeload import LOAD_KIND, VERSION_KIND

_TIMEOUT = 120.0
_LOOK = 0.5
"""Seconds between looks at the watches, and at what is left to be written."""
_FOR_REBALANCE = ("Deployment", "PodMetrics")
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RecordingRequest:
    """What to record.

    Attributes:
        seconds: how long.
        max_bytes: of the file.
        load_interval: seconds between two readings of the load.
    """

    seconds: float
    max_bytes: int
    load_interval: float


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was recorded.

    Attributes:
        objects: in the snapshot.
        lost: kinds that were not watched at the end, each with the reason.
    """

    reason: EndReason
    seconds: float
    objects: int
    events: int
    size: int
    lost: tuple[str, ...]


def recorded_resources() -> tuple[SnapshotResource, ...]:
    """Return what is recorded: what a snapshot holds, without what only `rebalance` reads."""
    resources = (resource for resource in RESOURCES if resource.kind not in _FOR_REBALANCE)
    return tuple(replace(resource, model=Pod) if resource.kind == "Pod" else resource for resource in resources)


def take_recording(
    config: ClientConfig,
    origin: LoadOrigin | None,
    file: Path | None,
    request: RecordingRequest,
    say: Say,
    documents: Sequence[bytes] = (),
) -> Recorded:
    """Record a cluster into a file, or to stdout, until it is enough or a signal comes.

    `documents` are what the beginning holds beside the cluster's objects, as JSON.

    Raises:
        KubeError: the cluster does not answer, or does not let us list nodes or pods.
        LoadError: the source of the load does not answer at the beginning.
        CommandError: the file cannot be written, or is too small for the snapshot.
        Interrupted: a signal has come before the recording began.
    """
    with growing_file(file, "--file") as target:
        return asyncio.run(record(config, origin, target, request, say, documents))


async def record(
    config: ClientConfig,
    origin: LoadOrigin | None,
    target: GrowingFile,
    request: RecordingRequest,
    say: Say,
    documents: Sequence[bytes] = (),
) -> Recorded:
    """Record into an open file, as `take_recording` does; on the main thread, where signals come."""
    return await _ClusterRecorder(config, origin, target, request, say, documents).run()


class _ClusterRecorder:
    def __init__(
        self,
        config: ClientConfig,
        origin: LoadOrigin | None,
        target: GrowingFile,
        request: RecordingRequest,
        say: Say,
        documents: Sequence[bytes],
    ) -> None:
        self._config = config
        self._origin = origin
        self._target = target
        self._request = request
        self._say = say
        self._documents = documents
        self._writer = RecordingWriter(target.out, request.max_bytes)
        self._interrupted = False
        self._woken = asyncio.Event()
        self._addresses: dict[str, list[str]] = {}
        self._load_lost = False

    async def run(self) -> Recorded:
        """Record until it is enough."""
        with self._signals():
            # One list per kind, and watches after that: no rate limit of ours, the API server has its own.
            async with KubeClient(
                self._config, qps=0, user_agent="secondary-scheduler/snapshot", timeout=_TIMEOUT
            ) as client:
                kinds = [self._kind(client, resource) for resource in recorded_resources()]
                tasks = [asyncio.create_task(kind.reflector.run()) for kind in kinds]
                try:
                    await self._wait_for_lists(kinds, tasks)
                    for kind in kinds:
                        if kind.reflector.state.unread:
                            self._say(f"left out {kind.resource.kind}: {kind.reflector.refusal}")
                    await self._begin(client, kinds)
                    return await self._go_on(kinds, tasks)
                finally:
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)

    def _kind(self, client: KubeClient, resource: SnapshotResource) -> RecordedKind:
        if resource.kind == "Node":
            return RecordedKind(client, resource, self._say, self._note_node)
        return RecordedKind(client, resource, self._say)

    def _note_node(self, name: str, content: dict[str, Any] | None) -> None:
        self._addresses.pop(name, None)
        if content is not None:
            addresses = (content.get("status") or {}).get("addresses") or ()
            self._addresses[name] = [str(entry.get("address", "")) for entry in addresses if isinstance(entry, dict)]

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Let a signal end the recording; a file that is complete up to then is what Ctrl-C is for."""
        loop = asyncio.get_running_loop()
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        handlers = {number: signal.getsignal(number) for number in signals}
        # Not the handler of `app`, which raises: raised within a callback, the loop would take it for the callback's.
        for number in signals:
            loop.add_signal_handler(number, self._interrupt)
        try:
            yield
        finally:
            for number, handler in handlers.items():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)

    def _interrupt(self) -> None:
        self._interrupted = True
        self._woken.set()

    # The beginning ------------------------------------------------------------------------------------------------

    async def _wait_for_lists(self, kinds: list[RecordedKind], tasks: list[asyncio.Task[None]]) -> None:
        while not all(kind.reflector.synced.is_set() for kind in kinds):
            await self._pause(0.05)
            _raise_defects(tasks)
            if self._interrupted:
                raise Interrupted
            if error := startup_error(kinds):
                raise error

    async def _begin(self, client: KubeClient, kinds: list[RecordedKind]) -> None:
        """Write the first line and the snapshot; from here on, what happens is written as it comes."""
        try:
            version = await server_version(client, timeout=_TIMEOUT)
        except KubeError as error:
            self._say(f"left out the cluster's version: {error}")
            version = ""
        load = await self._read_load() if self._origin is not None else None
        source = "" if self._origin is None else "Prometheus" if self._origin.prometheus else "load-watcher"
        interval = self._request.load_interval if source else 0.0
        self._writer.begin(Header(API_VERSION, KIND, FORMAT_VERSION, version, now(), source, interval))
        if version:
            document = {"apiVersion": API_VERSION, "kind": VERSION_KIND, "metadata": {"name": "cluster"}}
            self._writer.object(LineType.SNAPSHOT, msgspec.json.encode({**document, "gitVersion": version}))
        for data in self._documents:
            self._writer.object(LineType.SNAPSHOT, data)
        for kind in kinds:
            kind.begin(self._writer)
        if load is not None:
            self._writer.object(LineType.SNAPSHOT, load)
        if self._writer.full:
            raise CommandError(
                f"--record-limit: the cluster as it is takes more than {self._request.max_bytes} bytes already; "
                "give more"
            )
        self._writer.flush()
        self._target.publish()

    # What happens -------------------------------------------------------------------------------------------------

    async def _go_on(self, kinds: list[RecordedKind], tasks: list[asyncio.Task[None]]) -> Recorded:
        began = monotonic()
        objects = self._writer.counts[LineType.SNAPSHOT]
        self._say(
            f"recording: {objects:,} objects at the beginning; Ctrl-C ends it, and the file is complete up to then"
        )
        next_load = began + self._request.load_interval
        reading: asyncio.Task[None] | None = None
        reason = EndReason.DURATION
        while (passed := monotonic() - began) < self._request.seconds:
            await self._pause(min(_LOOK, self._request.seconds - passed))
            _raise_defects(tasks)
            for kind in kinds:
                kind.check()
            if self._interrupted or self._writer.full:
                reason = EndReason.INTERRUPTED if self._interrupted else EndReason.LIMIT
                break
            if reading is not None and reading.done():
                reading.result()
                reading = None
            if self._origin is not None and reading is None and monotonic() >= next_load:
                reading = asyncio.create_task(self._record_load())
                next_load = max(next_load + self._request.load_interval, monotonic())
            self._writer.flush()
        if reading is not None:
            reading.cancel()
        self._writer.end(reason)
        changes = sum(self._writer.counts[kind] for kind in (LineType.ADDED, LineType.MODIFIED, LineType.DELETED))
        lost = tuple(f"{kind.resource.kind}: {kind.lost}" for kind in kinds if kind.lost)
        return Recorded(reason, monotonic() - began, objects, changes, self._writer.size, lost)

    async def _record_load(self) -> None:
        try:
            data = await self._read_load()
        except LoadError as error:
            if not self._load_lost:
                self._load_lost = True
                self._writer.note(LineType.LOST, LOAD_KIND, str(error))
                self._say(f"load: not read, and tried again: {error}")
            return
        if self._load_lost:
            self._load_lost = False
            self._writer.note(LineType.RESUMED, LOAD_KIND)
            self._say("load: read again")
        self._writer.object(LineType.MODIFIED, data)

    async def _read_load(self) -> bytes:
        assert self._origin is not None
        names = nodes_by_address(list(self._addresses.items()))
        document = await asyncio.to_thread(read_load_document, self._origin, names, self._say)
        return msgspec.json.encode(document)

    async def _pause(self, seconds: float) -> None:
        """Wait so long, or until a signal comes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()


def _raise_defects(tasks: list[asyncio.Task[None]]) -> None:
    """A reflector runs until it is cancelled; one that has ended has a defect."""
    for task in tasks:
        if task.done():
            task.result()


def ending(recorded: Recorded, request: RecordingRequest) -> str:
    """Return how a recording ended, where it did not end as it should; "" where it did."""
    if recorded.reason is EndReason.LIMIT:
        return (
            f"--record-limit: ended after {recorded.seconds:.0f} s, as the file has {request.max_bytes} bytes; "
            "it is complete up to then"
        )
    if recorded.lost:
        return printable(f"ended while a watch was lost, so its last changes are missing: {'; '.join(recorded.lost)}")
    return ""


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


class _LastRecorded(NamedTuple):
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
        self._known: dict[Key, _LastRecorded] = {}
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
        for key, state in list(self._known.items()):
            if key not in fresh or fresh[key].metadata.uid != state.uid:
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
        state = self._known.get(item.key)
        if state is not None and state == (item.metadata.uid, item.digest):
            return
        self._write(LineType.ADDED if state is None else LineType.MODIFIED, item)

    def _write(self, kind: LineType, item: Trimmed) -> None:
        assert self._writer is not None
        self._known[item.key] = _LastRecorded(item.metadata.uid, item.digest)
        self._writer.object(kind, item.data)

    def _gone(self, key: Key) -> None:
        state = self._known.pop(key, None)
        self._seen(key[1], None)
        if state is None or self._writer is None:
            return
        namespace, name = key
        meta = {"name": name, "uid": state.uid, **({"namespace": namespace} if namespace else {})}
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
