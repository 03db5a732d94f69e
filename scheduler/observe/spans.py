"""Spans before OpenTelemetry sees them: plain values in a bounded queue, which a thread of its own sends.

Who records them only appends to the queue. Where the collector is slow or away, the queue fills up and further spans
are dropped and counted: nobody waits for it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol

import structlog
from msgspec import Struct

AttributeValue = str | int | float | Sequence[str]
SpanOutcome = Literal["exported", "queue_full", "export_failed"]
_STOPPING_SECONDS: Final = 2.0
log = structlog.get_logger(component="tracing")


class SpanEvent(NamedTuple):
    """Something that happened at one time within a span; `at` counts as its times do."""

    name: str
    at: float


class Span(NamedTuple):
    """A piece of work.

    Attributes:
        name: one of a few; never made of names from the cluster.
        began, ended: seconds of the clock that its trace names.
        attributes: what it was about.
        events: in the order of their times.
        error: why it failed; None where it did not.
    """

    name: str
    began: float
    ended: float
    attributes: Mapping[str, AttributeValue]
    events: Sequence[SpanEvent] = ()
    error: str | None = None


class Trace(NamedTuple):
    """Spans that belong together.

    Attributes:
        trace_id: 128 random bits.
        clock, wall: the same instant in seconds of the spans' clock, and in nanoseconds since 1970.
        spans: the root first; the others are its children.
    """

    trace_id: int
    clock: float
    wall: int
    spans: Sequence[Span]


class SpanSender(Protocol):
    """Sends traces to a collector. Its methods are called on the queue's thread; `close` on another one."""

    def send(self, traces: Sequence[Trace]) -> str:
        """Send them and return "", or why they could not be sent: without credentials, in one line."""
        ...

    def close(self) -> None:
        """Give up what is being sent."""
        ...


class QueueLimits(Struct, frozen=True):
    """How much waits, and for how long.

    Attributes:
        spans: that wait at most; the standard's OTEL_BSP_MAX_QUEUE_SIZE.
        batch: spans that are sent as soon as they wait, and about as many at once.
        delay: seconds between two sends where fewer wait.
    """

    spans: int = 2048
    batch: int = 512
    delay: float = 5.0


class SpanQueue:
    """Traces on their way. `offer` is called by one thread, the scheduling loop's.

    Args:
        new_sender: makes what sends; called on the queue's thread, before the first send, as it imports for long.
        limits: of the queue.
        count: counts spans by what became of them; called on both threads.
    """

    def __init__(
        self, new_sender: Callable[[], SpanSender], limits: QueueLimits, count: Callable[[SpanOutcome, int], None]
    ) -> None:
        self._new_sender, self._limits, self._count = new_sender, limits, count
        self._sender: SpanSender | None = None
        self._traces: deque[Trace] = deque()
        # Each is written by one thread only: no lock is needed, which the loop might have to wait for.
        self._offered = self._taken = 0
        self._wake = threading.Event()
        self._stopping = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="spans", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    def offer(self, trace: Trace) -> None:
        """Queue a trace, or drop it where the queue is full."""
        size = len(trace.spans)
        waiting = self._offered - self._taken + size
        if waiting > self._limits.spans:
            self._count("queue_full", size)
            return
        self._traces.append(trace)
        self._offered += size
        if waiting >= self._limits.batch and not self._wake.is_set():
            self._wake.set()

    def close(self, timeout: float = _STOPPING_SECONDS) -> None:
        """Send what waits, for at most so many seconds, and end; to be called on another thread than the loop's."""
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
        if self._sender is not None:
            self._sender.close()

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(self._limits.delay)
            self._wake.clear()
            while self._traces:
                self._send(self._take())

    def _take(self) -> list[Trace]:
        batch: list[Trace] = []
        size = 0
        while self._traces and size < self._limits.batch:
            batch.append(self._traces.popleft())
            size += len(batch[-1].spans)
        self._taken += size
        return batch

    def _send(self, traces: Sequence[Trace]) -> None:
        try:
            if self._sender is None:
                self._sender = self._new_sender()
            problem = self._sender.send(traces)
        except Exception as error:
            # Its text may hold what was sent, or a header.
            problem = type(error).__name__
        size = sum(len(trace.spans) for trace in traces)
        self._count("export_failed" if problem else "exported", size)
        if problem and not self._failing:
            log.warning("spans cannot be exported: they are dropped until they can", reason=problem)
        elif self._failing and not problem:
            log.info("spans are exported again")
        self._failing = bool(problem)
        # Let the scheduling loop have the interpreter before the next batch.
        time.sleep(0)
