"""Events (`events.k8s.io/v1`), written behind the bindings.

An Event costs the API server as much as a Binding, and a pod has at least one of each. Written as they come, they would
halve the rate of placing pods in a backlog. So Events wait while bindings are under way, but not for long: they are
there within 10 s (docs/performance.md).
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import structlog
from msgspec import Struct

from scheduler.engine.assembly import SYSTEM_CLOCKS
from scheduler.framework import Clocks, MonotonicSeconds, WallSeconds
from scheduler.kube.client import KubeClient, KubeError
from scheduler.kube.primitives import format_micro_time
from scheduler.observe import WorkQueueMetrics

NOTE_LIMIT = 1024
"""Bytes of a note that the API server accepts."""
_SERIES_IDLE = 360.0
"""Seconds without a repetition after which the same event begins a new series, as upstream."""
_SERIES_RESEND = 1800.0
"""Seconds between two writes of a series' count, as upstream."""
_SERIES_KEPT = 32_768
"""Half a kilobyte each. Of more pods that wait than this, each attempt writes an Event of its own."""
WRITERS_BEHIND_BINDINGS = 1
"""Events written at once while bindings are under way: each costs the API server as much as a binding."""
WRITERS_WITHOUT_BINDINGS = 8
"""Events written at once otherwise: these keep the API server busy, and more would only delay the next binding."""
_MAX_WRITERS = 64
SHORT_BACKLOG_SECONDS = 11.0
"""A backlog is short when the oldest event will not be older at its end. From 8.5 s on it is written anyway."""
WRITERS_BY_AGE_WITHOUT_BACKLOG = ((1.0, WRITERS_WITHOUT_BINDINGS), (5.0, 16), (7.0, _MAX_WRITERS))
"""(age of the oldest event in seconds, events written at once from that age on), where no pod waits to be placed. There
is nothing to wait for then: preemption has five events and one binding per pod."""
WRITERS_BY_AGE_IN_SHORT_BACKLOG = ((7.5, 16), (8.5, _MAX_WRITERS))
"""The same where all pods will be bound soon: the events wait for that, and are all written within 10 s."""
WRITERS_BY_AGE_IN_LONG_BACKLOG = ((3.0, 16), (5.0, _MAX_WRITERS))
"""The same in a long backlog: waiting for its end would take too long, so the events compete with the bindings."""
_MEASURE_SECONDS = 0.5
"""How often the rate of bindings is measured while events wait."""
log = structlog.get_logger(component="events")


class Regarding(Struct, frozen=True):
    """The object an event is about; its resource version is part of a series' identity, as upstream."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    api_version: str = "v1"

    def to_dict(self) -> dict[str, str]:
        """Return the object reference as the API accepts it: without empty fields."""
        reference = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {key: value for key, value in reference.items() if value}


class _EventSeries(Struct):
    path: str
    count: int
    last_seen: MonotonicSeconds
    last_sent: MonotonicSeconds


class _Post(NamedTuple):
    """An event to be written. Its body is built when its turn comes: thousands may wait."""

    at: WallSeconds
    queued_at: MonotonicSeconds
    name: str
    regarding: Regarding
    controller: str
    kind: str
    reason: str
    action: str
    note: str
    related: Regarding | None


class _Patch(NamedTuple):
    """A new count for a series."""

    at: WallSeconds
    queued_at: MonotonicSeconds
    path: str
    repeats: int


class EventRecorder:
    """Queues events and writes them behind the bindings; the same event again becomes a series.

    While bindings are under way (`binding_started`, `binding_ended`) few events are written at once, and more as they
    grow old; how soon depends on how long the backlog will last. The queue is bounded: when it is full, an event is
    dropped and counted.

    Args:
        client: in the daemon one of its own, so that events do not use up the bindings' rate limit.
        instance: of `reportingInstance`; the host name.
        on_drop: called for each event that is not written.
        backlog: returns the number of pods that are ready to be placed.
        capacity: events that may wait.
        work: where the queue is measured.
        clocks: of the process.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        instance: str,
        on_drop: Callable[[], None] = lambda: None,
        backlog: Callable[[], int] = lambda: 0,
        capacity: int = 20_000,
        work: WorkQueueMetrics | None = None,
        clocks: Clocks = SYSTEM_CLOCKS,
    ) -> None:
        self._client = client
        self._instance = instance
        self._on_drop = on_drop
        self._backlog = backlog
        self._clocks = clocks
        self._capacity = capacity
        self._queue: deque[_Post | _Patch] = deque()
        self._work = None if work is None else work.queue("events", self._queue.__len__)
        self._series: OrderedDict[tuple[str, ...], _EventSeries] = OrderedDict()
        self._sequence = 0
        self._bindings = self._bound = 0
        self._measured_at, self._measured_bound, self._rate = clocks.monotonic(), 0, 0.0
        self._started = self._draining = False
        self._writers: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to write, on the running loop."""
        self._started = True
        self._start_writers()

    async def drain(self, timeout: float) -> None:
        """Write what is queued, at most `timeout` seconds, then stop."""
        self._draining = True
        self._start_writers()
        try:
            async with asyncio.timeout(timeout):
                while self._writers:
                    await asyncio.wait(self._writers)
        except TimeoutError:
            log.warning("events left unwritten at exit", count=len(self._queue) + len(self._writers))
        self._started = False
        if self._timer is not None:
            self._timer.cancel()
        for writer in self._writers:
            writer.cancel()
        await asyncio.gather(*self._writers, return_exceptions=True)

    def binding_started(self) -> None:
        """Let events wait for a binding."""
        self._bindings += 1

    def binding_ended(self) -> None:
        """End what `binding_started` began, whatever the outcome."""
        self._bindings -= 1
        self._bound += 1
        if not self._bindings:
            self._start_writers()

    def record(
        self,
        regarding: Regarding,
        controller: str,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: Regarding | None = None,
    ) -> None:
        """Queue an event.

        Args:
            regarding: the object that the event is shown with.
            controller: the profile's scheduler name.
            kind: Normal or Warning.
            reason: why, in one word, such as FailedScheduling.
            action: what the scheduler did, such as Binding.
            note: the text for people; cut to NOTE_LIMIT bytes.
            related: a second object.
        """
        at, now = self._clocks.wall(), self._clocks.monotonic()
        key: tuple[str, ...] = (kind, action, reason, controller)
        key += (regarding.uid or regarding.name, regarding.resource_version)
        if related is not None:
            key += (related.uid, related.resource_version)
        series = self._series.get(key)
        if series is not None and now - series.last_seen <= _SERIES_IDLE:
            self._series.move_to_end(key)
            self._repeat(series, at, now)
            return
        # The sequence makes it unique: several events may fall into one tick of the clock.
        self._sequence += 1
        name = f"{regarding.name[:230]}.{int(at * 1e9) + self._sequence:x}"
        self._series[key] = _EventSeries(f"{_collection(regarding)}/{name}", 1, now, now)
        self._series.move_to_end(key)
        self._forget_series(now)
        self._enqueue(_Post(at, now, name, regarding, controller, kind, reason, action, note, related))

    def _forget_series(self, now: MonotonicSeconds) -> None:
        """Drop those that are over, and of too many those that were seen the longest ago."""
        while len(self._series) > _SERIES_KEPT or now - next(iter(self._series.values())).last_seen > _SERIES_IDLE:
            self._series.popitem(last=False)

    def _repeat(self, series: _EventSeries, at: WallSeconds, now: MonotonicSeconds) -> None:
        series.count += 1
        series.last_seen = now
        if series.count == 2 or now - series.last_sent >= _SERIES_RESEND:
            series.last_sent = now
            self._enqueue(_Patch(at, now, series.path, series.count))

    def _enqueue(self, item: _Post | _Patch) -> None:
        if len(self._queue) >= self._capacity:
            self._on_drop()
            return
        self._queue.append(item)
        if self._work is not None:
            self._work.added()
        self._start_writers()

    def _allowed_writers(self) -> int:
        """Return how many events may be written at once now."""
        if not self._started or not self._queue:
            return 0
        if self._draining:
            return _MAX_WRITERS
        age = self._clocks.monotonic() - self._queue[0].queued_at
        backlog = self._backlog()
        writers_by_age: tuple[tuple[float, int], ...] = WRITERS_BY_AGE_WITHOUT_BACKLOG
        if self._bindings and backlog:
            soon = self._rate > 0 and age + backlog / self._rate <= SHORT_BACKLOG_SECONDS
            writers_by_age = WRITERS_BY_AGE_IN_SHORT_BACKLOG if soon else WRITERS_BY_AGE_IN_LONG_BACKLOG
        least = WRITERS_BEHIND_BINDINGS if self._bindings else WRITERS_WITHOUT_BINDINGS
        return max([least, *(writers for seconds, writers in writers_by_age if age >= seconds)])

    def _start_writers(self) -> None:
        """Start as many writers as are allowed and needed; look again later, as events grow old."""
        for _ in range(min(self._allowed_writers() - len(self._writers), len(self._queue))):
            writer = asyncio.create_task(self._write(), name="events")
            self._writers.add(writer)
            writer.add_done_callback(self._writer_ended)
        if self._queue and self._started and self._timer is None:
            if self._clocks.monotonic() - self._measured_at > 2 * _MEASURE_SECONDS:
                # The rate from before an idle time says nothing.
                self._measured_at, self._measured_bound, self._rate = self._clocks.monotonic(), self._bound, 0.0
            self._timer = asyncio.get_running_loop().call_later(_MEASURE_SECONDS, self._measure_bindings)

    def _writer_ended(self, writer: asyncio.Task[None]) -> None:
        self._writers.discard(writer)
        if not writer.cancelled() and writer.exception() is not None:
            log.error("writing an event failed", exc_info=writer.exception())
        if not writer.cancelled():
            self._start_writers()

    def _measure_bindings(self) -> None:
        self._timer = None
        now = self._clocks.monotonic()
        bound, seconds = self._bound - self._measured_bound, now - self._measured_at
        if seconds > 0:
            latest = bound / seconds
            # A running mean, as single measurements vary.
            self._rate = (self._rate + latest) / 2 if self._rate else latest
        self._measured_at, self._measured_bound = now, self._bound
        self._start_writers()

    async def _write(self) -> None:
        while self._queue:
            if len(self._writers) > self._allowed_writers():
                # Leave the set at once: else all writers would see that they are too many, and all would end.
                self._writers.discard(cast("asyncio.Task[None]", asyncio.current_task()))
                return
            item = self._queue.popleft()
            work = self._work
            if work is None:
                await self._write_one(item)
                continue
            number = work.begin(self._clocks.monotonic() - item.queued_at)
            try:
                await self._write_one(item)
            finally:
                work.end(number)

    async def _write_one(self, item: _Post | _Patch) -> None:
        try:
            if isinstance(item, _Post):
                await self._client.post(_collection(item.regarding), self._body(item))
            else:
                patch = {"series": {"count": item.repeats, "lastObservedTime": _micro_time(item.at)}}
                await self._client.patch(item.path, patch, content_type="application/merge-patch+json")
        except KubeError as error:
            # Nothing depends on an event, and a namespace that is being deleted refuses it.
            log.debug("event not written", regarding=item[2], error=str(error)[:200])
            self._on_drop()

    def _body(self, item: _Post) -> dict[str, Any]:
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": item.name, "namespace": item.regarding.namespace or "default"},
            "eventTime": _micro_time(item.at),
            "reportingController": item.controller,
            "reportingInstance": f"{item.controller}-{self._instance}"[:128],
            "type": item.kind,
            "reason": item.reason,
            "action": item.action,
            "regarding": item.regarding.to_dict(),
            "note": truncate_note(item.note),
        }
        if item.related is not None:
            body["related"] = item.related.to_dict()
        return body


def _collection(regarding: Regarding) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{regarding.namespace or 'default'}/events"


def _micro_time(seconds: float) -> str:
    return format_micro_time(datetime.fromtimestamp(seconds, UTC))


def truncate_note(note: str) -> str:
    """Cut a note to what the API server accepts, ending in ` ...` as upstream."""
    encoded = note.encode()
    if len(encoded) <= NOTE_LIMIT:
        return note
    return encoded[: NOTE_LIMIT - 4].decode(errors="ignore") + " ..."
