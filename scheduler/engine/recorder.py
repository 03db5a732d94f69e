"""Events (`events.k8s.io/v1`), written behind the bindings and never in their way."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, cast

import structlog

from scheduler.kube.client import KubeClient, KubeError
from scheduler.kube.primitives.timestamps import format_micro_time

NOTE_LIMIT = 1024
"""Bytes of a note that the API server takes."""
_SERIES_IDLE = 360.0
_SERIES_RESEND = 1800.0
_KNOWN_SERIES = 4096
LANES_BEHIND = 1
"""Events written at once while bindings are under way: each costs the API server as much as a binding."""
LANES_IDLE = 8
"""As many as keep the API server busy: more would only make the next binding wait behind them."""
_LANES_MOST = 64
SOON_SECONDS = 11.0
"""Age of the oldest event by the time when the bindings are through, up to which it waits for them: from 8.5 s on it is
its turn in any case."""
PATIENCE_WITHOUT_BACKLOG_SECONDS = ((1.0, LANES_IDLE), (5.0, 16), (7.0, _LANES_MOST))
"""Age of the oldest event from which on so many are written at once, where no pod waits for its binding to start: what
is held back now will not be quicker later. Preemption has five events and one binding per pod."""
PATIENCE_SECONDS = ((7.5, 16), (8.5, _LANES_MOST))
"""The same where bindings will be through soon, so that all are written within 10 s."""
PATIENCE_IN_LONG_BACKLOG_SECONDS = ((3.0, 16), (5.0, _LANES_MOST))
"""The same in a long backlog, where bindings go on to compete with the events."""
_LOOK_SECONDS = 0.5
log = structlog.get_logger(component="events")


@dataclass(frozen=True, slots=True)
class Regarding:
    """What an event is about; the resource version is part of a series' identity, as upstream."""

    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""
    api_version: str = "v1"

    def to_dict(self) -> dict[str, str]:
        """The object reference as the API takes it."""
        reference = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {key: value for key, value in reference.items() if value}


@dataclass(slots=True)
class _Series:
    path: str
    count: int
    last_seen: float
    last_sent: float


class _Post(NamedTuple):
    """An event to be written; its body is made when its turn comes, as thousands may wait."""

    at: float
    name: str
    regarding: Regarding
    controller: str
    kind: str
    reason: str
    action: str
    note: str
    related: Regarding | None


class _Patch(NamedTuple):
    """A series that goes on."""

    at: float
    path: str
    repeats: int


class EventRecorder:
    """Queues events and writes them behind the bindings; the same event again becomes a series.

    While bindings are under way (`hold` and `release`) few are written at a time, and more as they grow old: later
    where the bindings will be through soon (`backlog`, the pods ready to be placed). Bounded: when the queue is full an
    event is dropped and counted, bindings go on.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        instance: str,
        on_drop: Callable[[], None] = lambda: None,
        backlog: Callable[[], int] = lambda: 0,
        capacity: int = 20_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._instance = instance
        self._on_drop = on_drop
        self._backlog = backlog
        self._clock = clock
        self._capacity = capacity
        self._queue: deque[_Post | _Patch] = deque()
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._sequence = 0
        self._bindings = self._bound = 0
        self._looked_at, self._looked_bound, self._rate = clock(), 0, 0.0
        self._started = self._draining = False
        self._writers: set[asyncio.Task[None]] = set()
        self._looking: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start to write, on the running loop."""
        self._started = True
        self._pump()

    async def drain(self, timeout: float) -> None:
        """Write what is queued, at most `timeout` seconds, then stop."""
        self._draining = True
        self._pump()
        try:
            async with asyncio.timeout(timeout):
                while self._writers:
                    await asyncio.wait(self._writers)
        except TimeoutError:
            log.warning("events left unwritten at exit", count=len(self._queue) + len(self._writers))
        self._started = False
        if self._looking is not None:
            self._looking.cancel()
        for writer in self._writers:
            writer.cancel()
        await asyncio.gather(*self._writers, return_exceptions=True)

    def hold(self) -> None:
        """A binding is under way: it goes first."""
        self._bindings += 1

    def release(self) -> None:
        """It has ended."""
        self._bindings -= 1
        self._bound += 1
        if not self._bindings:
            self._pump()

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
        """Queue an event; `controller` is the profile's scheduler name, `kind` is Normal or Warning."""
        now = self._clock()
        key: tuple[str, ...] = (kind, action, reason, controller)
        key += (regarding.uid or regarding.name, regarding.resource_version)
        if related is not None:
            key += (related.uid, related.resource_version)
        series = self._series.get(key)
        if series is not None and now - series.last_seen <= _SERIES_IDLE:
            self._repeat(series, now)
            return
        # Unique without asking the clock twice: several events may fall into one tick.
        self._sequence += 1
        name = f"{regarding.name[:230]}.{int(now * 1e9) + self._sequence:x}"
        self._series[key] = _Series(f"{_collection(regarding)}/{name}", 1, now, now)
        while len(self._series) > _KNOWN_SERIES:
            self._series.popitem(last=False)
        self._enqueue(_Post(now, name, regarding, controller, kind, reason, action, note, related))

    def _repeat(self, series: _Series, now: float) -> None:
        series.count += 1
        series.last_seen = now
        if series.count == 2 or now - series.last_sent >= _SERIES_RESEND:
            series.last_sent = now
            self._enqueue(_Patch(now, series.path, series.count))

    def _enqueue(self, item: _Post | _Patch) -> None:
        if len(self._queue) >= self._capacity:
            self._on_drop()
            return
        self._queue.append(item)
        self._pump()

    def _lanes(self) -> int:
        """How many events may be written at once now."""
        if not self._started or not self._queue:
            return 0
        if self._draining:
            return _LANES_MOST
        age = self._clock() - self._queue[0].at
        backlog = self._backlog()
        patience: tuple[tuple[float, int], ...] = PATIENCE_WITHOUT_BACKLOG_SECONDS
        if self._bindings and backlog:
            soon = self._rate > 0 and age + backlog / self._rate <= SOON_SECONDS
            patience = PATIENCE_SECONDS if soon else PATIENCE_IN_LONG_BACKLOG_SECONDS
        least = LANES_BEHIND if self._bindings else LANES_IDLE
        return max([least, *(lanes for seconds, lanes in patience if age >= seconds)])

    def _pump(self) -> None:
        """Start as many writers as there is work and room for; look again later, as events grow old."""
        for _ in range(min(self._lanes() - len(self._writers), len(self._queue))):
            writer = asyncio.create_task(self._write(), name="events")
            self._writers.add(writer)
            writer.add_done_callback(self._ended)
        if self._queue and self._started and self._looking is None:
            if self._clock() - self._looked_at > 2 * _LOOK_SECONDS:
                # Nothing of what it was before a rest.
                self._looked_at, self._looked_bound, self._rate = self._clock(), self._bound, 0.0
            self._looking = asyncio.get_running_loop().call_later(_LOOK_SECONDS, self._look)

    def _ended(self, writer: asyncio.Task[None]) -> None:
        self._writers.discard(writer)
        if not writer.cancelled() and writer.exception() is not None:
            log.error("writing an event failed", exc_info=writer.exception())
        if not writer.cancelled():
            self._pump()

    def _look(self) -> None:
        self._looking = None
        now = self._clock()
        bound, seconds = self._bound - self._looked_bound, now - self._looked_at
        if seconds > 0:
            latest = bound / seconds
            # Half of what it was, as single looks vary.
            self._rate = (self._rate + latest) / 2 if self._rate else latest
        self._looked_at, self._looked_bound = now, self._bound
        self._pump()

    async def _write(self) -> None:
        while self._queue:
            if len(self._writers) > self._lanes():
                # At once, or all that are too many would go, and none stay.
                self._writers.discard(cast("asyncio.Task[None]", asyncio.current_task()))
                return
            item = self._queue.popleft()
            try:
                if isinstance(item, _Post):
                    await self._client.post(_collection(item.regarding), self._body(item))
                else:
                    patch = {"series": {"count": item.repeats, "lastObservedTime": _micro_time(item.at)}}
                    await self._client.patch(item.path, patch, content_type="application/merge-patch+json")
            except KubeError as error:
                # An event is a courtesy: a namespace that is going away refuses it, and nothing depends on it.
                log.debug("event not written", regarding=item[1], error=str(error)[:200])
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
            "note": shorten(item.note),
        }
        if item.related is not None:
            body["related"] = item.related.to_dict()
        return body


def _collection(regarding: Regarding) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{regarding.namespace or 'default'}/events"


def _micro_time(seconds: float) -> str:
    return format_micro_time(datetime.fromtimestamp(seconds, UTC))


def shorten(note: str) -> str:
    """Cut a note to what the API server takes, ending in ` ...` as upstream."""
    encoded = note.encode()
    if len(encoded) <= NOTE_LIMIT:
        return note
    return encoded[: NOTE_LIMIT - 4].decode(errors="ignore") + " ..."
