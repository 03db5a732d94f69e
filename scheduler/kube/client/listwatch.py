"""List and watch: a copy of one resource that is never silently stale.

The rules, each for a failure seen in the field:
- lists ask for a quorum read (no resourceVersion=0) in pages, so that a lagging API server cannot answer from the past;
  a list older than what was already seen is refused for a while all the same (failover);
- the watch asks for bookmarks and resumes from the last version seen; a stream that stays silent longer than bookmarks
  allow is cut and resumed, and relisted if it stays silent;
- whoever learns that etcd was put back to a copy (`etcdrestore`) has all listed anew: a watch from before would wait
  for a version of a future that never comes, and take the first event after it for progress;
- "too old" arrives as a status 410 or as an ERROR event in a 200 answer, and leads to one new list either way;
- a line cut in the middle is dropped, not parsed; the resumed watch brings it again;
- an object that cannot be decoded is reported and passed over.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from scheduler.kube.client.errors import (
    Expired,
    Forbidden,
    KubeError,
    MalformedResponse,
    NotFound,
    ResponseTooLarge,
    ServerError,
    TooManyRequests,
    Unauthorized,
    api_error,
)
from scheduler.kube.client.http import KubeClient
from scheduler.kube.client.pages import PAGE, PageReader
from scheduler.kube.model import (
    Codec,
    DecodeError,
    EventType,
    InvalidObject,
    ListPage,
    Object,
    ObjectMeta,
    ResourceVersion,
    Status,
    newer_version,
)

NEVER: Final = ResourceVersion("")


class ReflectorTiming(Struct, frozen=True, kw_only=True):
    """Timeouts and delays in seconds. The defaults follow client-go; tests shorten them."""

    backoff_first: float = 0.8
    backoff_most: float = 30.0
    backoff_reset: float = 120.0
    """A watch that lasted so long ends the back-off."""
    watch_least: float = 300.0
    watch_most: float = 600.0
    silence: float = 150.0
    """The API server sends a bookmark about every minute."""
    list_timeout: float = 120.0
    absent: float = 5.0
    """How often an optional resource that the API server does not serve is looked for."""
    refused: float = 30.0
    """How long an optional resource is waited for that the API server refuses from the start: its rule may be just
    about to be made."""
    refuse_older: float = 60.0
    """How long a list older than the last one is refused where nothing else tells that the cluster went back."""


class ReflectorState(Struct):
    """What a reflector is doing, for health checks and metrics. `time.monotonic()` for all times."""

    synced: bool = False
    outdated: bool = False
    """The cluster went back to an older state, and this has not been listed since."""
    watching: bool = False
    absent: bool = False
    """The API server does not serve the resource, which is optional: the sink was given an empty list."""
    unread: bool = False
    """The API server has refused the resource from the start, and it is optional: the sink was given nothing."""
    last_progress: float = float("-inf")
    """When the API server last said anything."""
    resource_version: ResourceVersion = NEVER
    error: KubeError | None = None
    """Why the last attempt failed; None while all is well."""
    lists: int = 0
    watches: int = 0
    events: int = 0
    invalid: int = 0


class Backoff:
    """0.8 s doubling to 30 s, with jitter; one second apart at most while all goes well."""

    def __init__(self, timing: ReflectorTiming) -> None:
        self._timing = timing
        self._next = 0.0

    def reset(self) -> None:
        """Do not wait the next time."""
        self._next = 0.0

    async def wait(self) -> None:
        """Wait, and longer the next time."""
        delay = self._next
        self._next = min(max(delay * 2, self._timing.backoff_first), self._timing.backoff_most)
        if delay:
            await asyncio.sleep(delay * random.uniform(1.0, 1.5))


T = TypeVar("T", bound=Object)
U = TypeVar("U")
Item = TypeVar("Item", contravariant=True)

_MAX_LINE: Final = 32 << 20
_PATIENCE: Final = 2
"""Spans of silence through which a version is resumed, before a new list is taken."""
_EVENT_TYPES: Final = {str(event_type): event_type for event_type in EventType}


class Sink(Protocol[Item]):
    """Receives the objects. Called on the event loop: must not block and must not raise."""

    def replace(self, items: Sequence[Item], resource_version: ResourceVersion) -> None:
        """Replace everything by this complete list. Undecodable objects are reported by `invalid` afterwards."""

    def apply(self, events: Sequence[tuple[EventType, Item]]) -> None:
        """Apply events in order: all that arrived together."""

    def invalid(self, metadata: ObjectMeta, error: DecodeError) -> None:
        """Report an object that cannot be decoded. An older state of it, if any, is stale."""


class Reflector(Generic[T, U]):
    """Keep a sink up to date with one resource until cancelled.

    `transform` reduces an object as soon as it is decoded, page by page, so that a long list never stands in memory in
    full; use `unchanged` to pass objects on as they are. A ValueError from it makes the object an invalid one.
    """

    def __init__(
        self,
        client: KubeClient,
        collection: str | PageReader,
        codec: Codec[T],
        sink: Sink[U],
        transform: Callable[[T], U],
        *,
        field_selector: str = "",
        label_selector: str = "",
        optional: bool = False,
        timing: ReflectorTiming | None = None,
        on_page: Callable[[list[U]], None] | None = None,
        salvage: Callable[[Any, str], U | None] = lambda content, error: None,
    ) -> None:
        """Configure for a collection, cluster-wide or of one namespace: by its path (see `api_path`) and selectors, or
        by a reader of it, which may have begun and has selectors of its own.

        `on_page` is given each page of the first list as it comes, so that not all has to be taken in at the end; the
        sink is given the same objects again, with all others.

        `salvage` is given an object that cannot be decoded or transformed, as plain dicts and lists, and the reason.
        What it returns is passed on as the object; where that is None, the sink's `invalid` is called.

        An `optional` resource may be missing from the API server, as one is whose CustomResourceDefinition is not
        installed: the sink is then empty and in sync, and the resource is taken up once it is served. One that may not
        be read (403) counts as empty, too, after `ReflectorTiming.refused`: `refusal` says so.
        """
        self._client = client
        self._codec = codec
        self._sink = sink
        self._transform = transform
        self.optional = optional
        self._timing = timing or ReflectorTiming()
        if isinstance(collection, str):
            selectors = {"fieldSelector": field_selector, "labelSelector": label_selector}
            collection = PageReader(client, collection, selectors, timeout=self._timing.list_timeout)
        self._pages = collection
        self._on_page = on_page
        self._salvage = salvage
        self._path = collection.path
        self._version = NEVER
        self._newest = NEVER
        self._undone = NEVER
        """The newest version from before the cluster went back, until a list is below it. One that is not may be of a
        store that has passed it, or of an API server that has not noticed: its lists and watches go on as if nothing
        had been undone, until it is restarted."""
        self._restores = 0
        self._page = PAGE
        self._older_since: float | None = None
        self._round: asyncio.Timeout | None = None
        self._backoff = Backoff(self._timing)
        self.synced = asyncio.Event()
        """Set once the first complete list has been handed over."""
        self.state = ReflectorState()
        self.refusal: KubeError | None = None
        """Why the API server refuses what it allowed before or what is optional, a 401 or 403; None while it does
        not."""
        self.on_refusal: Callable[[KubeError | None], None] = _ignore
        """Called on the event loop when that begins, and with None when it ends."""

    async def run(self) -> None:
        """List and watch until cancelled. Failures are kept in `state.error` and retried with backoff."""
        began = time.monotonic()
        while True:
            interruptible = asyncio.timeout(None)
            try:
                async with interruptible:
                    self._round = interruptible
                    await self._list_and_watch(began)
                    await self._backoff.wait()
            except TimeoutError:
                if not interruptible.expired():
                    raise
            finally:
                self._round = None

    async def _list_and_watch(self, began: float) -> None:
        """List if need be, and watch until that ends."""
        try:
            if not self._version:
                await self._list()
            await self._watch()
            self.state.error = None
        except Expired as error:
            self._version = NEVER
            self.state.error = error
        except NotFound as error:
            self.state.error = error
            if self.optional:
                await self._mark_absent()
        except KubeError as error:
            self.state.error = error
            if self.state.synced and isinstance(error, Forbidden | Unauthorized):
                self._note_refusal(error)
            elif self.optional and isinstance(error, Forbidden) and time.monotonic() - began > self._timing.refused:
                self._go_on_without(error)
            if isinstance(error, TooManyRequests) and error.retry_after is not None:
                await asyncio.sleep(error.retry_after)
        finally:
            self.state.watching = False

    def list_anew(self) -> None:
        """Break the watch off and list everything: the cluster went back, and no version from before means anything.

        A list that is older than the last one is taken at once, as long as none has shown what is left.
        """
        if self._newest and newer_version(self._undone, self._newest) is not True:
            self._undone = self._newest
        self._version = self._newest = NEVER
        self._restores += 1
        self._older_since = None
        self._backoff.reset()
        self.state.outdated = self.state.synced
        if self._round is not None and self._round.when() is None:
            self._round.reschedule(asyncio.get_running_loop().time())

    @property
    def doubtful(self) -> bool:
        """Whether the list since the cluster went back is no older than what was known before: it may be of an API
        server that has not noticed."""
        return bool(self._undone) and not self.state.outdated

    def _note_refusal(self, error: KubeError | None) -> None:
        changed = (self.refusal is None) != (error is None)
        self.refusal = error
        if changed:
            self.on_refusal(error)

    def _go_on_without(self, error: KubeError) -> None:
        """The resource may not be read. Whoever waits for it to be in sync would wait for ever."""
        self.state.unread = self.state.synced = True
        self._note_refusal(error)
        self.synced.set()

    async def _mark_absent(self) -> None:
        """The resource is not served (any more), so nothing of it exists. Check again later."""
        # Resource versions may restart when it comes back.
        self._version = self._newest = NEVER
        if not self.state.absent:
            self.state.absent = True
            self._sink.replace([], NEVER)
            self.state.synced = True
            self.synced.set()
        self._backoff.reset()
        await asyncio.sleep(self._timing.absent * random.uniform(1.0, 1.2))

    async def refresh(self) -> None:
        """List once more while the watch goes on, so that nothing that was there before the call is missing.

        Raises:
            KubeError: the list failed; nothing is changed.
        """
        await self._list()

    async def _list(self) -> None:
        restores = self._restores
        items, invalid, version = await self._list_pages()
        if restores != self._restores:
            raise MalformedResponse(f"GET {self._path}: the cluster went back to an older state during the list")
        if newer_version(self._version, version) is True:
            return  # The watch, or another list, has brought what is newer.
        older = not self._undone and newer_version(self._newest, version) is True
        now = time.monotonic()
        if older and self._older_since is None:
            self._older_since = now
        if older and self._older_since is not None and now - self._older_since < self._timing.refuse_older:
            raise MalformedResponse(
                f"GET {self._path}: the list is from version {version}, but {self._newest} was already seen: the API "
                "server has gone back in time"
            )
        self._older_since = None
        if newer_version(self._undone, version) is True:
            self._undone = NEVER
        self._version = self._newest = version
        self.state.resource_version = version
        self.state.lists += 1
        self._sink.replace(items, version)
        for metadata, error in invalid:
            self._sink.invalid(metadata, error)
        self.state.synced = True
        self.state.outdated = self.state.absent = self.state.unread = False
        self.state.error = None
        self.synced.set()

    async def _list_pages(self) -> tuple[list[U], list[tuple[ObjectMeta, DecodeError]], ResourceVersion]:
        items: list[U] = []
        invalid: list[tuple[ObjectMeta, DecodeError]] = []
        token = ""
        restarts = 0
        request = self._pages.request_page("", self._page)
        try:
            while True:
                try:
                    body = await request
                    # The API server writes the next page while this one is decoded.
                    await _let_request_go_out()
                    page = self._codec.decode_list(body)
                except Expired:
                    # The snapshot behind the token was compacted while we read: all pages must be of one version.
                    restarts += 1
                    if not token or restarts > 3:
                        raise
                    token = ""
                    items.clear()
                    invalid.clear()
                    request = self._pages.request_page("", self._page)
                    continue
                except ResponseTooLarge:
                    if self._page == 1:
                        raise
                    self._page = max(1, self._page // 8)
                    request = self._pages.request_page(token, self._page)
                    continue
                except DecodeError as error:
                    raise MalformedResponse(f"GET {self._path}: {error}") from error
                self.state.last_progress = time.monotonic()
                token = page.continue_token
                if token:
                    request = self._pages.request_page(token, self._page)
                before = len(items)
                self._take_page(page, items, invalid)
                if self._on_page and not self.state.synced:
                    self._on_page(items[before:])
                if not token:
                    return items, invalid, page.resource_version
        finally:
            request.cancel()
            self._pages.close()

    def _take_page(self, page: ListPage[T], items: list[U], invalid: list[tuple[ObjectMeta, DecodeError]]) -> None:
        refused = page.invalid[:]
        for item in page.items:
            try:
                items.append(self._transform(item))
            except ValueError as error:
                refused.append(_refused(item, error))
        for each in refused:
            salvaged = self._salvaged(each)
            if salvaged is None:
                invalid.append((each.metadata, each.error))
            else:
                items.append(salvaged)

    async def _watch(self) -> None:
        seconds = random.uniform(self._timing.watch_least, self._timing.watch_most)
        timeout_seconds = max(1, int(seconds))
        params: dict[str, str | int] = {
            **self._pages.selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": timeout_seconds,
        }
        self.state.watches += 1
        started = time.monotonic()
        # A little longer than the server's own limit: the server's clean end is the normal one.
        limit = seconds + self._timing.silence
        progress_before = self.state.last_progress
        answered = False
        try:
            async with self._client.stream(self._path, params, timeout=limit, silence=self._timing.silence) as chunks:
                answered = self.state.watching = True
                self.state.error = None
                self._note_refusal(None)
                await self._read_chunks(chunks)
        except ServerError:
            answered = True
            raise
        finally:
            lasted = time.monotonic() - started
            self._learn_from_watch(answered, self.state.last_progress > progress_before, lasted)
            if self._undone and lasted < timeout_seconds:
                # Its API server may have ended: that may be how an older state comes to be shown.
                self._version = NEVER

    def _learn_from_watch(self, answered: bool, progress: bool, lasted: float) -> None:
        """After a watch has ended, decide how soon to try again and whether its resource version can still be used."""
        if (progress and lasted >= 1.0) or lasted >= self._timing.backoff_reset:
            self._backoff.reset()
        if answered and time.monotonic() - self.state.last_progress >= _PATIENCE * self._timing.silence:
            self._version = NEVER

    async def _read_chunks(self, chunks: AsyncIterator[bytes]) -> None:
        rest = b""
        async for chunk in chunks:
            whole, newline, tail = chunk.rpartition(b"\n")
            if not newline:
                rest += tail
                if len(rest) > _MAX_LINE:
                    raise MalformedResponse(f"GET {self._path}: a watch event longer than {_MAX_LINE} bytes")
                continue
            lines, rest = (rest + whole).split(b"\n"), tail
            self.state.last_progress = time.monotonic()
            self._deliver(lines)

    def _deliver(self, lines: list[bytes]) -> None:
        """Deliver what arrived together; a failure in the middle still delivers what came before it."""
        events: list[tuple[EventType, U]] = []
        try:
            for line in lines:
                if line.strip():
                    self._event(line, events)
        finally:
            if events:
                self.state.events += len(events)
                self._sink.apply(events)

    def _event(self, line: bytes, events: list[tuple[EventType, U]]) -> None:
        try:
            event = self._codec.decode_event(line)
        except DecodeError as error:
            raise MalformedResponse(f"GET {self._path}: {error}") from error
        if event.status is not None:
            raise self._failure(event.status)
        if event.object is not None:
            version = event.object.metadata.resource_version
            kind = _EVENT_TYPES.get(event.type)
            # A repeat of the past, as a proxy may produce; a deletion is harmless to repeat and must not be lost.
            repeated = newer_version(version, self._version) is False and kind is not EventType.DELETED
            if kind is not None and not repeated:
                try:
                    events.append((kind, self._transform(event.object)))
                except ValueError as error:
                    self._take_invalid(kind, _refused(event.object, error), events)
            self._advance(version)
        elif event.invalid is not None:
            self._take_invalid(_EVENT_TYPES.get(event.type), event.invalid, events)
            self._advance(event.invalid.metadata.resource_version)

    def _take_invalid(self, kind: EventType | None, refused: InvalidObject, events: list[tuple[EventType, U]]) -> None:
        salvaged = self._salvaged(refused)
        if salvaged is not None and kind is not None:
            events.append((kind, salvaged))
            return
        if events:
            # In order: what came before it must not be applied after it.
            self.state.events += len(events)
            self._sink.apply(events[:])
            events.clear()
        self._sink.invalid(refused.metadata, refused.error)

    def _salvaged(self, refused: InvalidObject) -> U | None:
        self.state.invalid += 1
        return self._salvage(refused.content, str(refused.error))

    def _advance(self, version: ResourceVersion) -> None:
        if version and newer_version(version, self._version) is not False:
            self._version = self.state.resource_version = version
            if newer_version(self._newest, version) is not True:
                self._newest = version

    def _failure(self, status: Status) -> KubeError:
        error = api_error("GET", self._path, status.code or 500, b"")
        summary = f"GET {self._path}: watch ended by the server: {status.code} {status.reason}"
        code = 410 if status.reason in ("Expired", "Gone") else error.status
        kind = type(error) if code == error.status else Expired
        return kind(summary, status=code, reason=status.reason, message=status.message)


async def _let_request_go_out() -> None:
    """Let a request whose task was just created leave the process.

    The task runs in the next turn of the event loop, and what it writes is sent at the end of that turn: two turns.
    """
    for _ in range(2):
        await asyncio.sleep(0)


def _ignore(_: KubeError | None) -> None:
    """Nobody timeout_seconds to be told."""


def unchanged(obj: T) -> T:
    """Return the object as it is: the `transform` of a Reflector that keeps whole objects."""
    return obj


def _refused(item: Object, error: ValueError) -> InvalidObject:
    reason = error if isinstance(error, DecodeError) else DecodeError(str(error))
    return InvalidObject(item.metadata, reason, msgspec.to_builtins(item))
