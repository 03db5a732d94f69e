"""The load sources of a configuration, each read by one feed and taken into the state of the engine."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator

import structlog

from scheduler.answers import SourceLoads
from scheduler.catalog import CredentialRules
from scheduler.config import Configuration
from scheduler.engine.engine import Engine
from scheduler.engine.nodeloads import SourceNodeLoads
from scheduler.framework import NODE_LOAD, NODE_LOAD_UPDATE, LoadReading
from scheduler.kube.client import ClientConfig
from scheduler.load import LoadFeed, LoadStatus, PreparesLoad, configured_sources, load_source
from scheduler.observe import Metrics

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
