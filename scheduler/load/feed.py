"""One load source of the scheduler: from its readings to the node table, the metrics and the log."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import heapq
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np
import structlog

from scheduler.framework import FloatArray, LoadColumns, LoadReading, NodeView, is_fresh
from scheduler.load.collector import LoadCollector, LoadStatus
from scheduler.load.nodes import match_nodes, without_port
from scheduler.load.settings import LoadSettings, LoadSource
from scheduler.observe import Metrics

Prepare = Callable[[LoadReading], Sequence[Callable[[], None]]]
"""Called on the loop with a reading that will be in the table soon; returns the work to be done in a thread before."""
_MAX_REASON = 500
_MAX_NAMES = 1000
"""Of instances that are no node. A source may name any number, which the loop is not to sort."""
log = structlog.get_logger(component="loads")


@runtime_checkable
class PreparesLoad(Protocol):
    """A plugin for which a new load means more work than the loop should do at once."""

    def prepare_load(self, view: NodeView, load: LoadColumns) -> Callable[[], None] | None:
        """Return work to be done in another thread ahead of the load; None where the load is not the plugin's."""
        ...


class LoadFeed:
    """Reads one source and puts what it reports into the node table.

    The collector's thread reads and matches; everything else is one coroutine per reading on the event loop, where
    alone the node table and the metrics may be touched. A problem is logged once, and again when it concerns another
    node; the metrics count each time.

    `first_read` is set after the first read, good or bad.
    """

    def __init__(
        self,
        source_key: str,
        settings: LoadSettings,
        *,
        source: LoadSource,
        node_of_address: Callable[[str], str | None],
        on_reading: Callable[[LoadReading], Sequence[str]],
        on_status: Callable[[LoadStatus], None],
        metrics: Metrics,
        prepare: Prepare = lambda _: (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a feed on the running loop; `collector.start` starts it.

        Args:
            source_key: `ArgsModel.source_key()` of the plugins that read the source.
            settings: how often to read, and the oldest age that is fresh.
            source: what to read.
            node_of_address: the node with a name or address, if there is one; called on the collector's thread.
            on_reading: puts a reading into the node table; returns the nodes without a load. Called on the loop.
            on_status: called on the loop after each read, good or bad.
            metrics: where values, ages and failures are counted.
            prepare: see `Prepare`.
            clock: seconds since the epoch.
        """
        self._source_key = source_key
        self._node_of_address = node_of_address
        self._on_reading = on_reading
        self._on_status = on_status
        self._metrics = metrics
        self._prepare = prepare
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.first_read = asyncio.Event()
        self._max_age = settings.max_age_seconds
        self._sampled_at: FloatArray = np.zeros(0)
        self._absent = 0
        self._mismatch = ""
        self._logged: dict[str, frozenset[str]] = {}
        self._problems: frozenset[str] = frozenset()
        self.collector = LoadCollector(
            source,
            refresh_seconds=settings.refresh_seconds,
            max_age_seconds=settings.max_age_seconds,
            on_reading=self._hand_over,
            on_status=self._hand_over_status,
            clock=clock,
        )

    # On the collector's thread --------------------------------------------------------------------------------------

    def _hand_over(self, reading: LoadReading) -> None:
        """Match a reading, and wait until the loop has dealt with it.

        The wait keeps readings in order, and lets the status that follows speak of what is in the node table.
        """
        # Dictionaries may be read here while the loop changes them.
        matched, unmatched = match_nodes(reading, self._node_of_address)
        matched = replace(matched, source=self._source_key)
        # A node that joins before the next reading has its load at once, if the source knows it by its name.
        joining = {without_port(instance): reading.loads[instance] for instance in unmatched}
        joined = replace(matched, loads={**joining, **matched.loads})
        strangers = heapq.nsmallest(_MAX_NAMES, unmatched)
        taking = self._take(reading, matched, joined, strangers, len(unmatched))
        try:
            done = asyncio.run_coroutine_threadsafe(taking, self._loop)
        except RuntimeError:
            # The loop is closed: the process ended while the read was under way.
            taking.close()
            return
        try:
            done.result()
        except concurrent.futures.CancelledError:
            return
        except Exception:
            # A mistake of ours must not end the thread, and with it the reading.
            log.exception("a load could not be put into the node table", source=self._source_key)

    def _hand_over_status(self, status: LoadStatus) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._report, status)

    # On the loop ----------------------------------------------------------------------------------------------------

    async def _take(
        self,
        reading: LoadReading,
        matched: LoadReading,
        joined: LoadReading,
        unmatched: Sequence[str],
        unmatched_count: int,
    ) -> None:
        await self._work_ahead(matched)
        self._metrics.load_unmatched.labels(self._source_key).set(unmatched_count)
        self._log_once("load series whose instance is no node of the cluster", unmatched)
        self._count_problems(reading)
        missing = self._on_reading(joined)
        self._mismatch = ""
        if reading.loads and not matched.loads:
            self._mismatch = (
                f"{self._source_key}: none of its {len(reading.loads)} series belongs to a node of the cluster, for"
                f" example {next(iter(reading.loads))[:80]}; set nodeLabel to the label that holds the node's name or"
                " address"
            )
        self._sampled_at = np.array([matched.sampled_at(load) for load in matched.loads.values()])
        self._absent = len(missing)
        self._metrics.load_nodes.labels(self._source_key).set(len(matched.loads))
        # Where nothing matches, the status says so; a list of all nodes would add nothing.
        self._log_once("nodes without load in the source's answer", missing if matched.loads else ())
        now = self._clock()
        stale = matched.loads.keys() - matched.fresh_loads(now, self._max_age).keys()
        if len(stale) == len(matched.loads):
            stale = set()  # the status says so
        ahead = {name for name in stale if matched.sampled_at(matched.loads[name]) > now}
        self._log_once("nodes whose load is too old to be used", stale - ahead)
        self._log_once("nodes whose load is ahead of this machine's clock and is not used", ahead)

    async def _work_ahead(self, reading: LoadReading) -> None:
        """Let plugins do in a thread what would hold up the loop once the reading is in the node table."""
        try:
            for work in self._prepare(reading):
                await asyncio.to_thread(work)
        except Exception:
            # Only time is lost: what is not worked out ahead is worked out when it is needed.
            log.warning("a plugin could not prepare for a load", source=self._source_key, exc_info=True)

    def _count_problems(self, reading: LoadReading) -> None:
        source = self._source_key
        for query, count in reading.rejected.items():
            self._metrics.load_rejected.labels(source, query).inc(count)
        self._log_once("values that cannot be a load", reading.rejected, reading.left_out)
        if reading.problems:
            self._metrics.load_failures.labels(source).inc()
        # Only at the second time in a row: of a source that goes down between two queries the next read reports more.
        self._log_once("a part of the load could not be read", set(reading.problems) & self._problems)
        self._problems = frozenset(reading.problems)

    def _log_once(self, event: str, names: Iterable[str], reason: str = "") -> None:
        """Log which nodes, queries or problems an event concerns, if it did not concern some of them last time."""
        current = frozenset(names)
        new = current - self._logged.get(event, frozenset())
        self._logged[event] = current
        if new:
            more = {"reason": reason[:_MAX_REASON]} if reason else {}
            log.warning(event, source=self._source_key, count=len(current), examples=sorted(new)[:3], **more)

    def status(self) -> LoadStatus:
        """Return the collector's status, not fresh where no series belongs to a node."""
        status = self.collector.status()
        return replace(status, fresh=False, message=self._mismatch) if status.fresh and self._mismatch else status

    def _report(self, read: LoadStatus) -> None:
        self.first_read.set()
        status = self.status()
        self.show_age(status)
        if read.consecutive_failures:
            self._metrics.load_failures.labels(self._source_key).inc()
        self._on_status(status)

    def show_age(self, status: LoadStatus) -> None:
        """Set the gauges of freshness. Called at each scrape too, since loads age while the source is silent."""
        key = self._source_key
        self._metrics.load_fresh.labels(key).set(status.fresh)
        self._metrics.load_age.labels(key).set(status.age_seconds)
        fresh = int(np.count_nonzero(is_fresh(self._sampled_at, self._clock(), self._max_age)))
        self._metrics.load_node_states.labels(key, "fresh").set(fresh)
        self._metrics.load_node_states.labels(key, "stale").set(len(self._sampled_at) - fresh)
        self._metrics.load_node_states.labels(key, "absent").set(self._absent)
