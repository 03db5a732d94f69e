"""The load sources of a configuration, each read by one feed and taken into the state of the engine; and what is
shown of them. The loop copies columns, in a millisecond or two for 5,000 nodes; rows are made of them on the thread
that shows them."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import structlog
from prometheus_client import Gauge

from scheduler.answers import LoadEstimate, NodeLoadRow, SourceLoads
from scheduler.catalog import CredentialRules
from scheduler.config import Configuration
from scheduler.engine.engine import Engine
from scheduler.framework import NODE_LOAD, NODE_LOAD_UPDATE, FloatArray, LoadReading, is_fresh
from scheduler.helpers.unmeasured import UnmeasuredUse, requested
from scheduler.kube.client import ClientConfig
from scheduler.load import LoadFeed, LoadStatus, PreparesLoad, configured_sources, load_source
from scheduler.observe import Metrics
from scheduler.state import ClusterState

QUANTILES = (0.1, 0.5, 0.9, 1.0)
"""Of the nodes: not all the way down to 0, as some node is always empty; up to the fullest."""
_RESOURCES = ("cpu", "memory")


class SourceNodeLoads:
    """The loads of one source. All methods run on the scheduling loop.

    Of recent pods, requests count, as LoadVariationRiskBalancing and LowRiskOverCommitment have it. TargetLoadPacking's
    prediction also depends on its arguments.
    """

    def __init__(self, state: ClusterState, source: str, max_age: float) -> None:
        """`source` is the key by which plugins find it; `max_age` the oldest age that is fresh, in seconds."""
        self._state = state
        self._source = source
        self._max_age = max_age
        self._cpu = UnmeasuredUse(requested("cpu"), upstream=False)
        self._memory = UnmeasuredUse(requested("memory"), upstream=False)

    def rows(self, now: float) -> Iterable[NodeLoadRow]:
        """Return the nodes that have a load. They are those of now, whenever and on whichever thread they are gone
        through.

        Args:
            now: seconds since the epoch.
        """
        view = self._state.snapshot(now)
        load = view.load(self._source)
        if load is None:
            return ()
        rows = view.rows
        infos = [view.info(row) for row in rows.tolist()]
        capacity_cpu = view.capacity_cpu[rows]
        capacity_memory = np.array([info.capacity_memory for info in infos], dtype=float)
        cpu, memory = load.cpu_average[rows], load.memory_average[rows]
        estimated_cpu = cpu + _percent(self._cpu.by_row(view, load)[rows], capacity_cpu)
        estimated_memory = memory + _percent(self._memory.by_row(view, load)[rows], capacity_memory)
        names = [info.name for info in infos]
        return _each(names, (cpu, memory, estimated_cpu, estimated_memory), load.sampled_at[rows], now, self._max_age)

    def show(self, gauge: Gauge, now: float) -> None:
        """Show how evenly the nodes are used, at quantiles: what is measured, as a share of the capacity.

        Only nodes with a fresh load count. `now` is in seconds since the epoch.
        """
        view = self._state.snapshot(now)
        load = view.load(self._source)
        if load is None:
            return
        fresh = is_fresh(load.sampled_at[view.rows], now, self._max_age)
        for resource, percent in (("cpu", load.cpu_average), ("memory", load.memory_average)):
            shares = percent[view.rows][fresh] / 100.0
            _show(gauge, (self._source, resource), shares[~np.isnan(shares)])


def show_requested(state: ClusterState, gauge: Gauge, now: float) -> None:
    """Show how full the nodes are, at quantiles: what pods request, as a share of what is allocatable.

    Nodes that have none of a resource do not count. Runs on the scheduling loop, a millisecond or two for 5,000 nodes.
    """
    view = state.snapshot(now)
    for resource in _RESOURCES:
        allocatable = view.allocatable(resource)[view.rows]
        counted = allocatable > 0
        shares = view.requested(resource)[view.rows][counted] / allocatable[counted]
        _show(gauge, (resource,), shares)


def _percent(amount: FloatArray, capacity: FloatArray) -> FloatArray:
    return np.divide(amount * 100.0, capacity, out=np.zeros(len(amount)), where=capacity > 0)


def _each(
    names: list[str], figures: tuple[FloatArray, ...], sampled_at: FloatArray, now: float, max_age: float
) -> Iterator[NodeLoadRow]:
    fresh = is_fresh(sampled_at, now, max_age)
    columns = [np.round(figure, 2).tolist() for figure in figures]
    ages = np.round(np.maximum(now - sampled_at, 0.0), 1)
    each = zip(names, *columns, np.where(sampled_at == 0.0, np.nan, ages).tolist(), fresh.tolist(), strict=True)
    for name, cpu, memory, estimated_cpu, estimated_memory, age, is_usable in each:
        measured_cpu, measured_memory = _number(cpu), _number(memory)
        if measured_cpu is None and measured_memory is None:
            continue
        estimate = LoadEstimate(_number(estimated_cpu), _number(estimated_memory))
        yield NodeLoadRow(name, measured_cpu, measured_memory, estimate, _number(age), is_usable)


def _number(value: float) -> float | None:
    """NaN is not measured, which is never 0."""
    return None if value != value else value


def _show(gauge: Gauge, labels: tuple[str, ...], shares: FloatArray) -> None:
    # NaN, as the gauge of a summary that has seen nothing: 0 would be an empty cluster.
    values = np.quantile(shares, QUANTILES).tolist() if len(shares) else [np.nan] * len(QUANTILES)
    for quantile, value in zip(QUANTILES, values, strict=True):
        gauge.labels(*labels, f"{quantile:g}").set(value)


log = structlog.get_logger(component="loads")


class LoadFeeds:
    """One collector per source, however many plugins and profiles read from it."""

    def __init__(self, configuration: Configuration, engine: Engine, metrics: Metrics, rules: CredentialRules) -> None:
        """Find the sources; `rules` say where credentials for them may come from and go to."""
        self._engine = engine
        self._metrics = metrics
        self._settings, self._ignored = configured_sources(configuration.profiles, rules)
        self._feeds: dict[str, LoadFeed] = {}
        self._loads = {
            key: SourceNodeLoads(engine.state, key, settings.max_age_seconds)
            for key, settings in self._settings.items()
        }
        # Only plugins that read a load ask for recent assignments, and keeping them costs time.
        engine.state.assignments.keep(bool(self._settings))
        # Most plugins only score by load: then no pod waits for it, and a read is no event.
        self._wakes_pods = any(
            registration.resource == NODE_LOAD
            for runner in engine.runners.values()
            for registrations in runner.hint_registrations().values()
            for registration in registrations
        )

    def start(self, client_config: ClientConfig, on_status: Callable[[LoadStatus], None]) -> None:
        """Begin to read, each source in a thread of its own.

        Args:
            client_config: how the metrics server is reached, where that is the source.
            on_status: called on the loop after each read, good or bad.
        """
        for place in self._ignored:
            log.warning("a load source is read as the first profile that names it says, not as here", profile=place)
        for key, settings in self._settings.items():
            feed = LoadFeed(
                key,
                settings,
                node_of_address=self._engine.nodes.node_of_address,
                on_reading=self._take_load,
                on_status=lambda status: self._after_read(status, on_status),
                metrics=self._metrics,
                source=load_source(key, settings, client_config, self._capacity_of, self._node_count),
                prepare=self._prepare_load,
            )
            self._feeds[key] = feed
            feed.collector.start()

    async def wait_for_first_reads(self, timeout: float) -> None:
        """Wait until every source was read once, good or bad, at most `timeout` seconds."""
        first_reads = [feed.first_read.wait() for feed in self._feeds.values()]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await asyncio.gather(*first_reads)

    def request_stop(self) -> None:
        """End the threads; returns at once."""
        for feed in self._feeds.values():
            feed.collector.request_stop()

    def show(self) -> None:
        """Bring the gauges of freshness and of the nodes' load up to date."""
        for feed in self._feeds.values():
            feed.show_age(feed.status())
        now = self._engine.clocks.wall()
        for loads in self._loads.values():
            loads.show(self._metrics.nodes_load, now)

    def node_loads(self) -> Iterator[SourceLoads]:
        """Return the state of each source and the nodes' load; called on the loop, gone through on any thread."""
        now = self._engine.clocks.wall()
        of_now = [(key, feed.status(), self._loads[key].rows(now)) for key, feed in self._feeds.items()]
        return (
            SourceLoads(
                key,
                status.fresh,
                round(status.age_seconds, 1) if math.isfinite(status.age_seconds) else None,
                tuple(rows),
            )
            for key, status, rows in of_now
        )

    def _node_count(self) -> int:
        """Called on a collector's thread, as the next."""
        return self._engine.state.node_count

    def _capacity_of(self, node: str) -> tuple[int, int] | None:
        """Called on a collector's thread; a dictionary may be read there while it changes."""
        info = self._engine.state.node(node)
        # The row may have gone to another node between the two look-ups.
        return (info.capacity_cpu, info.capacity_memory) if info is not None and info.name == node else None

    def _prepare_load(self, reading: LoadReading) -> list[Callable[[], None]]:
        """What plugins can work out in another thread before a load is taken."""
        runners = [*self._engine.runners.values(), *self._engine.shadow_runners.values()]
        plugins = [plugin for runner in runners for plugin in runner.plugins.values()]
        preparing = [plugin for plugin in plugins if isinstance(plugin, PreparesLoad)]
        if not preparing:
            return []
        view = self._engine.state.snapshot(self._engine.clocks.wall())
        load = self._engine.state.lay_out_load(reading)
        return [work for plugin in preparing if (work := plugin.prepare_load(view, load)) is not None]

    def _after_read(self, status: LoadStatus, on_status: Callable[[LoadStatus], None]) -> None:
        """Tell of a read, good or bad: after a bad one, loads that were in force may be too old."""
        on_status(status)
        if self._wakes_pods:
            view = self._engine.state.snapshot(self._engine.clocks.wall())
            if self._engine.queue.on_event(NODE_LOAD_UPDATE, new=view):
                self._engine.cycle.wake()

    def _take_load(self, reading: LoadReading) -> tuple[str, ...]:
        missing = self._engine.state.set_load(reading)
        self._engine.cycle.wake()
        return missing
