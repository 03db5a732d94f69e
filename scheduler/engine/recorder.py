"""Events (`events.k8s.io/v1`), written behind the bindings and never in their way."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from secondary_scheduler.kube.client import KubeClient, KubeError
from secondary_scheduler.kube.primitives.timestamps import format_micro_time

NOTE_LIMIT = 1024
"""Bytes of a note that the API server takes."""
_SERIES_IDLE = 360.0
_SERIES_RESEND = 1800.0
_KNOWN_SERIES = 4096
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


class EventRecorder:
    """Queues events and writes them with a few workers; the same event again becomes a series.

    Bounded: when the queue is full an event is dropped and counted, bindings go on.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        instance: str,
        on_drop: Callable[[], None] = lambda: None,
        workers: int = 4,
        capacity: int = 20_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._instance = instance
        self._on_drop = on_drop
        self._clock = clock
        self._queue: asyncio.Queue[tuple[str, str, dict[str, Any]]] = asyncio.Queue(capacity)
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._sequence = 0
        self._worker_count = workers
        self._workers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the workers on the running loop."""
        self._workers = [
            asyncio.create_task(self._work(), name=f"events-{number}") for number in range(self._worker_count)
        ]

    async def drain(self, timeout: float) -> None:
        """Write what is queued, at most `timeout` seconds, then stop."""
        try:
            async with asyncio.timeout(timeout):
                await self._queue.join()
        except TimeoutError:
            log.warning("events left unwritten at exit", count=self._queue.qsize())
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

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
        namespace = regarding.namespace or "default"
        collection = f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"
        body: dict[str, Any] = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": _micro_time(now),
            "reportingController": controller,
            "reportingInstance": f"{controller}-{self._instance}"[:128],
            "type": kind,
            "reason": reason,
            "action": action,
            "regarding": regarding.to_dict(),
            "note": shorten(note),
        }
        if related is not None:
            body["related"] = related.to_dict()
        self._series[key] = _Series(f"{collection}/{name}", 1, now, now)
        while len(self._series) > _KNOWN_SERIES:
            self._series.popitem(last=False)
        self._enqueue("POST", collection, body)

    def _repeat(self, series: _Series, now: float) -> None:
        series.count += 1
        series.last_seen = now
        if series.count == 2 or now - series.last_sent >= _SERIES_RESEND:
            series.last_sent = now
            patch = {"series": {"count": series.count, "lastObservedTime": _micro_time(now)}}
            self._enqueue("PATCH", series.path, patch)

    def _enqueue(self, method: str, path: str, body: dict[str, Any]) -> None:
        try:
            self._queue.put_nowait((method, path, body))
        except asyncio.QueueFull:
            self._on_drop()

    async def _work(self) -> None:
        while True:
            method, path, body = await self._queue.get()
            try:
                if method == "POST":
                    await self._client.post(path, body)
                else:
                    await self._client.patch(path, body, content_type="application/merge-patch+json")
            except KubeError as error:
                # An event is a courtesy: a namespace that is going away refuses it, and nothing depends on it.
                log.debug("event not written", path=path, error=str(error)[:200])
                self._on_drop()
            finally:
                self._queue.task_done()


def _micro_time(seconds: float) -> str:
    return format_micro_time(datetime.fromtimestamp(seconds, UTC))


def shorten(note: str) -> str:
    """Cut a note to what the API server takes, ending in ` ...` as upstream."""
    encoded = note.encode()
    if len(encoded) <= NOTE_LIMIT:
        return note
    return encoded[: NOTE_LIMIT - 4].decode(errors="ignore") + " ..."
