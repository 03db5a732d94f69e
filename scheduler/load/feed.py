"""From a source's reading to the load columns of the nodes: matching instances to nodes, and showing freshness."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
import structlog

from scheduler.framework import FloatArray, LoadColumns, LoadReading, NodeView, is_fresh
from scheduler.load.collector import Collector, LoadStatus
from scheduler.load.matching import match_nodes
from scheduler.load.settings import LoadSettings
from scheduler.load.source import LoadSource
from scheduler.observe.metrics import Metrics

_LOOP_PATIENCE_SECONDS = 5.0
Works = Sequence[Callable[[], None]]
Prepare = Callable[[LoadReading], Works]
log = structlog.get_logger(component="loads")


@runtime_checkable
class PreparesLoad(Protocol):
    """A plugin for which a new load means more work than the loop should do at once."""

    def prepare_load(self, view: NodeView, load: LoadColumns) -> Callable[[], None] | None:
        """Return what can be worked out ahead in another thread; None where the load does not concern the plugin."""
        ...


class LoadFeed:
    """One source: its collector, and what becomes of its readings.

    The collector's thread hands readings over to the event loop; only there state and metrics are touched.
    `first_read` is set after the first read, good or bad. `prepare` is called on the loop with a table that is about to
    be taken, and what it returns on the collector's thread, before the table is taken. What is wrong is said once, and
    again when it is about another node; the metrics count on.
    """

    def __init__(
        self,
        source_key: str,
        settings: LoadSettings,
        *,
        node_of_address: Callable[[str], str | None],
        on_reading: Callable[[LoadReading], Sequence[str]],
        on_status: Callable[[LoadStatus], None],
        metrics: Metrics,
        source: LoadSource,
        prepare: Prepare = lambda _: (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._source_key = source_key
        self._node_of_address = node_of_address
        self._show_reading = on_reading
        self._on_status = on_status
        self._metrics = metrics
        self._prepare = prepare
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.first_read = asyncio.Event()
        self._max_age = settings.max_age_seconds
        self._sampled: FloatArray = np.zeros(0)
        self._absent = 0
        self._unusable = ""
        self._warned: dict[str, frozenset[str]] = {}
        self._problems: frozenset[str] = frozenset()
        self.collector = Collector(
            source,
            refresh_seconds=settings.refresh_seconds,
            max_age_seconds=settings.max_age_seconds,
            on_reading=self._on_reading,
            on_change=lambda status: self._call(self._show, status),
            clock=clock,
        )

    def _call(self, function: Callable[..., None], argument: object) -> None:
        # The loop is closed when the process ends while a read is under way.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, argument)

    def _on_reading(self, reading: LoadReading) -> None:
        """Called on the collector's thread."""
        # Dictionaries may be read here while the loop changes them.
        matched, unmatched = match_nodes(reading, self._node_of_address)
        matched = replace(matched, source=self._source_key)
        try:
            for work in self._ask(matched):
                work()
        except Exception:
            # Nothing is lost but time: what was not worked out ahead is worked out when it is needed.
            log.warning("a plugin could not work ahead of a load", source=self._source_key, exc_info=True)
        self._call(lambda _: self._take(reading, matched, unmatched), None)

    def _ask(self, reading: LoadReading) -> Works:
        """Call `prepare` on the loop and wait for what it returns; nothing where the loop ends or is stuck."""
        answer: Future[Works] = Future()

        def call() -> None:
            try:
                answer.set_result(self._prepare(reading))
            except Exception as error:
                answer.set_exception(error)

        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            return ()
        try:
            return answer.result(timeout=_LOOP_PATIENCE_SECONDS)
        except TimeoutError:
            return ()

    def _take(self, reading: LoadReading, matched: LoadReading, unmatched: Sequence[str]) -> None:
        source = self._source_key
        self._metrics.load_nodes.labels(source).set(len(matched.loads))
        self._metrics.load_unmatched.labels(source).set(len(unmatched))
        self._warn("load series whose instance is no node of the cluster", unmatched)
        for query, count in reading.rejected.items():
            self._metrics.load_rejected.labels(source, query).inc(count)
        self._warn("values that can be no load", reading.rejected)
        if reading.problems:
            self._metrics.load_failures.labels(source).inc()
        # Said when it happens twice in a row: a source that goes down between two queries is told of anyway.
        self._warn("a part of the load could not be read", set(reading.problems) & self._problems)
        self._problems = frozenset(reading.problems)
        missing = self._show_reading(matched)
        self._unusable = ""
        if reading.loads and not matched.loads:
            self._unusable = (
                f"{source}: none of its {len(reading.loads)} series is of a node of the cluster, like "
                f"{next(iter(reading.loads))[:80]}; set nodeLabel to the label with the node's name or address"
            )
        self._sampled = np.array([matched.sampled_at(load) for load in matched.loads.values()])
        self._absent = len(missing)
        # Where nothing matches, the status says so; a list of all nodes would add nothing.
        self._warn("nodes without load in the source's answer", missing if matched.loads else ())
        stale = matched.loads.keys() - matched.fresh_loads(self._clock(), self._max_age).keys()
        self._warn("nodes whose load is too old to be used", stale if len(stale) < len(matched.loads) else ())

    def _warn(self, what: str, names: Iterable[str]) -> None:
        """Say which nodes, queries or problems something holds for, if there are some it has not been said of."""
        now = frozenset(names)
        new = now - self._warned.get(what, frozenset())
        self._warned[what] = now
        if new:
            log.warning(what, source=self._source_key, count=len(now), examples=sorted(new)[:3])

    def status(self) -> LoadStatus:
        """How it stands now with the source, and with what can be made of its answers."""
        found = self.collector.status()
        return replace(found, fresh=False, message=self._unusable) if found.fresh and self._unusable else found

    def _show(self, found: LoadStatus) -> None:
        self.first_read.set()
        status = self.status()
        self.show_age(status)
        if found.consecutive_failures:
            self._metrics.load_failures.labels(self._source_key).inc()
        self._on_status(status)

    def show_age(self, status: LoadStatus) -> None:
        """Set the gauges of freshness; called at each scrape too, since age goes on while the source is silent."""
        key = self._source_key
        self._metrics.load_fresh.labels(key).set(status.fresh)
        self._metrics.load_age.labels(key).set(status.age_seconds)
        fresh = int(np.count_nonzero(is_fresh(self._sampled, self._clock(), self._max_age)))
        self._metrics.load_node_states.labels(key, "fresh").set(fresh)
        self._metrics.load_node_states.labels(key, "stale").set(len(self._sampled) - fresh)
        self._metrics.load_node_states.labels(key, "absent").set(self._absent)
