"""What client-go measures of its work queues, for ours: `workqueue_*`."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge

from scheduler.observe.series import CounterFamily, Histograms, exponential

_BUCKETS = exponential(10e-9, 10, 10)


class WorkQueueMetrics:
    """The metrics of all queues of a process, by the queue's name."""

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"workqueue_{name}", text, ("name",), registry=registry)

        def counters(name: str, text: str) -> CounterFamily:
            return CounterFamily(f"workqueue_{name}", text, ("name",), registry)

        def histograms(name: str, text: str) -> Histograms:
            return Histograms(f"workqueue_{name}", text, _BUCKETS, ("name",), registry)

        self.clock = clock
        self.adds = counters("adds_total", "Items that entered the queue")
        self.retries = counters("retries_total", "Items that were queued again")
        self.depth = gauge("depth", "Items that wait")
        self.waited = histograms("queue_duration_seconds", "Time from an item's entry to the begin of its work")
        self.worked = histograms("work_duration_seconds", "Time of the work on an item")
        self.unfinished = gauge("unfinished_work_seconds", "Time spent so far on the items in work, added up")
        self.longest = gauge("longest_running_processor_seconds", "Time spent so far on the item longest in work")

    def queue(self, name: str, depth: Callable[[], int]) -> WorkQueueSeries:
        """Return the series of a queue; `depth` is called at each scrape, on the serving thread."""
        return WorkQueueSeries(self, name, depth)


class WorkQueueSeries:
    """The series of one queue. Its methods are called on the event loop."""

    def __init__(self, metrics: WorkQueueMetrics, name: str, depth: Callable[[], int]) -> None:
        self._clock = metrics.clock
        self._running: dict[int, float] = {}
        self._next = 0
        self._waited, self._worked = metrics.waited.labels(name), metrics.worked.labels(name)
        self.added = metrics.adds.labels(name).inc
        self.retried = metrics.retries.labels(name).inc
        self.retried(0)
        metrics.depth.labels(name).set_function(depth)
        metrics.unfinished.labels(name).set_function(lambda: sum(self._so_far()))
        metrics.longest.labels(name).set_function(lambda: max(self._so_far(), default=0.0))

    def begin(self, waited: float) -> int:
        """Note that an item is taken which waited for so many seconds; returns what `end` wants."""
        self._waited.observe(waited)
        self._next += 1
        self._running[self._next] = self._clock()
        return self._next

    def end(self, number: int) -> None:
        """Note that the work on it is done."""
        self._worked.observe(self._clock() - self._running.pop(number))

    def _so_far(self) -> list[float]:
        now = self._clock()
        return [now - began for began in list(self._running.values())]
