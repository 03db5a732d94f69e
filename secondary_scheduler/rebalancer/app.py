"""The rebalancer's process: wires client, Lease, copy of the cluster, load source, loop and endpoints together."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from scheduler import __version__
from scheduler.catalog import minor_of
from scheduler.config import (
    Configuration,
    ConfigurationError,
    RebalanceSettings,
    RebalanceSettingsError,
    find_configuration,
    read_document,
    read_rebalance_settings,
)
from scheduler.engine import SYSTEM_CLOCKS, EventRecorder
from scheduler.framework import LoadReading
from scheduler.kube.client import ClientConfig, ConfigError, EtcdRestores, KubeClient, KubeError, server_version
from scheduler.kube.lease import LeaseElector, LeaseSettings
from scheduler.load import (
    MAX_BYTES,
    LoadCollector,
    LoadSettings,
    configured_sources,
    load_source,
    match_nodes,
    pod_series_source,
    window_seconds,
)
from scheduler.logs import configure_logging
from secondary_scheduler.rebalancer.cluster import WatchedCluster
from secondary_scheduler.rebalancer.live import LiveAccess, RebalancerPlaces
from secondary_scheduler.rebalancer.metrics import RebalancerMetrics
from secondary_scheduler.rebalancer.options import RebalancerOptions, parse_options
from secondary_scheduler.rebalancer.planner import Planner
from secondary_scheduler.rebalancer.rounds import RebalanceLoop
from secondary_scheduler.rebalancer.status import Announcer
from secondary_scheduler.rebalancer.usage import UsageReader
from secondary_scheduler.rebalancing import Memory
from secondary_scheduler.serving import serve

_RETRY_SECONDS = 2.0
_VERSION_SECONDS = 10.0
_FILES_SECONDS = 10.0
"""Seconds between looks at whether the mounted files have changed."""
_EVENTS_SECONDS = 5.0
_AGENT = f"secondary-scheduler-rebalancer/{__version__}"
log = structlog.get_logger(component="rebalancer")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal or a change of the files (0), or until it cannot go on (1); 4 if a file is not valid."""
    options = parse_options(sys.argv[1:] if arguments is None else arguments)
    configure_logging("json", options.verbosity)
    try:
        config = ClientConfig.load(options.kubeconfig)
    except ConfigError as error:
        log.error("cannot start", reason=str(error))
        return EXIT_ERROR
    return run_process(options, config, lambda text: log.error("cannot start", reason=text))


def run_process(options: RebalancerOptions, config: ClientConfig, say: Callable[[str], None]) -> int:
    """Run on a connection; `say` gets why it cannot start."""
    try:
        return asyncio.run(run(options, config))
    except SetupError as error:
        for line in str(error).splitlines():
            say(line)
        return EXIT_INVALID
    except KubeError as error:
        say(str(error))
    except OSError as error:
        say(f"{options.bind_address}, ports {options.port}, {options.metrics_port}: {error.strerror or error}")
    return EXIT_ERROR


async def run(options: RebalancerOptions, config: ClientConfig) -> int:
    """Serve health at once, compete for the Lease, and move pods while holding it.

    Raises:
        SetupError: a file is not valid.
        KubeError: the API server cannot be reached at all.
        OSError: a port cannot be used.
    """
    async with (
        KubeClient(config, user_agent=_AGENT, max_bytes=MAX_BYTES) as client,
        # Of its own: a flood of tokens, or of lists, must not wait before an eviction.
        KubeClient(config, user_agent=f"{_AGENT} reviews", qps=20, burst=40) as reviews,
        KubeClient(config, user_agent=f"{_AGENT} watches", qps=50, burst=100) as watches,
    ):
        minor = minor_of(await server_version(client, timeout=_VERSION_SECONDS))
        same_files = unchanged(options)
        process = _RebalancerProcess(options, config, read_setup(options, minor), client, watches, same_files)
        async with serve(
            host=options.bind_address,
            port=options.port,
            metrics_port=options.metrics_port,
            metrics=process.metrics,
            healthy=process.liveness_problem,
            ready=process.readiness_problem,
            reviews=reviews,
            limits=options.connection_limits,
        ) as ports:
            log.info(
                "started",
                version=__version__,
                server=config.server,
                mode=options.mode.value,
                namespace=process.places.namespace,
                port=ports.health,
                metricsPort=ports.metrics,
            )
            return await process.run()


class _RebalancerProcess:
    """What the endpoints and the main task share."""

    def __init__(
        self,
        options: RebalancerOptions,
        config: ClientConfig,
        setup: Setup,
        client: KubeClient,
        watches: KubeClient,
        same_files: Callable[[], bool],
    ) -> None:
        self.metrics = RebalancerMetrics(__version__)
        self.places = RebalancerPlaces(options.namespace or config.namespace, options.name, options.scheduler)
        self._options = options
        self._setup = setup
        self._client = client
        self._same_files = same_files
        self._loop = asyncio.get_running_loop()
        self._leading, self._stopped, self._measured = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._lost_reason = ""
        self._restores = EtcdRestores(lambda: self._cluster.reflectors, self._on_restore)
        self._cluster = WatchedCluster(watches, setup.configuration, self._outdated)
        self._elector = LeaseElector(
            config,
            LeaseSettings(namespace=self.places.namespace, name=self.places.name),
            identity=options.identity,
            on_started_leading=lambda: self._from_thread(self._leading.set),
            on_lost=self._stop_leading,
            on_restore=self._restores.notice,
            user_agent=f"{_AGENT} leader-election",
        )
        own = frozenset({self.places.namespace, options.scheduler[0]})
        planner = Planner(setup.configuration, setup.settings, setup.source, own)
        self._recorder = EventRecorder(client, instance=socket.gethostname())
        series = pod_series_source(setup.source, setup.load, self._cluster.pod_count)
        self._usage = UsageReader(client, self._cluster, series)
        self._world = LiveAccess(
            client,
            self._cluster,
            planner,
            Announcer(self._recorder),
            self.places,
            setup.configuration.hash,
            self._elector.is_leader,
            self._usage,
        )
        self._collector = LoadCollector(
            load_source(setup.source, setup.load, config, self._cluster.capacity_of, self._cluster.node_count),
            refresh_seconds=setup.load.refresh_seconds,
            max_age_seconds=setup.load.max_age_seconds,
            on_reading=self._take_load,
        )

    def liveness_problem(self) -> str | None:
        """Answer of /healthz."""
        return None if self._elector.healthy() else "leader election is not working"

    def readiness_problem(self) -> str | None:
        """Answer of /readyz. Standing by is ready: a rolling update must be able to replace the holder of the Lease."""
        if self._restores.pending:
            return self._restores.message
        return None if self._cluster.synced() else "the cluster is not listed yet"

    async def run(self) -> int:
        """Work while leading; returns the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._stopped.set)
        self._elector.start()
        self._recorder.start()
        lasting: set[asyncio.Task[Any]] = {
            asyncio.create_task(self._cluster.run(), name="watches"),
            asyncio.create_task(self._restores.run(), name="etcd restores"),
            asyncio.create_task(self._lead(), name="loop"),
            asyncio.create_task(self._follow_files(), name="files"),
        }
        stopped = asyncio.create_task(self._stopped.wait(), name="stop")
        done, _ = await asyncio.wait({*lasting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        for task in (*lasting, stopped):
            task.cancel()
        await asyncio.gather(*lasting, stopped, return_exceptions=True)
        self._collector.request_stop()
        await self._recorder.drain(_EVENTS_SECONDS)
        # Only after the last write may another one take over.
        await asyncio.to_thread(self._elector.stop)
        return self._exit_code(done)

    def _exit_code(self, done: set[asyncio.Task[Any]]) -> int:
        for task in done:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.error("stopped by an unexpected error", task=task.get_name(), exc_info=error)
                return EXIT_ERROR
        if self._lost_reason:
            log.error("leader election lost", reason=self._lost_reason)
            return EXIT_ERROR
        log.info("stopped")
        return EXIT_OK

    async def _lead(self) -> None:
        await self._leading.wait()
        self.metrics.leader.set(1)
        log.info("leading", lease=f"{self.places.namespace}/{self.places.name}")
        await self._wait_for_cluster()
        memory = await self._read_memory()
        rebalancer = RebalanceLoop(
            self._world,
            self._setup.settings,
            self._options.mode,
            memory,
            self.metrics,
            SYSTEM_CLOCKS,
            self._elector.is_leader,
            self._setup.configuration.hash,
            window_seconds(self._setup.load.window),
        )
        # Whoever stops the process cancels this.
        await rebalancer.run(_sleep)

    async def _wait_for_cluster(self) -> None:
        last = ""
        while not self._cluster.synced():
            problem = self._cluster.problem()
            if problem != last:
                log.info("the cluster is not listed yet", waitingFor=problem)
                last = problem
            await asyncio.sleep(0.2)  # a refused list sets no event
        # Loads are matched to nodes, so these come first. The first round is to have a load: else it moves nothing.
        self._collector.start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._setup.load.timeout_seconds):
                await self._measured.wait()

    async def _read_memory(self) -> Memory:
        while True:
            try:
                return await self._world.read_memory()
            except KubeError as error:
                # Without what was kept, limits and cooldowns would start from nothing.
                log.warning("the status cannot be read, trying again", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

    def _outdated(self) -> str:
        return "" if self._restores.current else self._restores.message

    def _on_restore(self) -> None:
        if self._restores.pending:
            self.metrics.restores.inc()

    async def _follow_files(self) -> None:
        """End when the mounted files change: the next process reads them."""
        while True:
            await asyncio.sleep(_FILES_SECONDS)
            if not self._same_files():
                log.info("configuration or settings have changed: starting anew")
                return

    def _take_load(self, reading: LoadReading) -> None:
        """Called on the collector's thread."""
        matched, _ = match_nodes(reading, self._cluster.node_of_address)
        self._world.reading = matched
        queries = ", ".join(reading.rejected)
        self._usage.say_once("values that cannot be a load", queries, why=reading.left_out)
        self._from_thread(self._measured.set)

    def _stop_leading(self, reason: str) -> None:
        self._lost_reason = reason
        self._from_thread(self._stopped.set)

    def _from_thread(self, call: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call)


async def _sleep(seconds: float) -> None:
    if math.isinf(seconds):
        await asyncio.Event().wait()  # until it is cancelled
    await asyncio.sleep(seconds)


_MAX_BYTES = 1 << 20
"""What a ConfigMap can hold."""


class SetupError(ValueError):
    """A file cannot be used: what is wrong in each line."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What the files say.

    Attributes:
        source: key of the load source (`ArgsModel.source_key`).
        load: how it is read.
    """

    configuration: Configuration
    settings: RebalanceSettings
    source: str
    load: LoadSettings


def read_setup(options: RebalancerOptions, cluster_minor: int | None) -> Setup:
    """Read the files, for a cluster of this minor version of Kubernetes 1.x; None where that is not known.

    Raises:
        SetupError: a file cannot be read, is not valid, or names no load source, or several.
    """
    configuration = _configuration(options, cluster_minor)
    sources, _ = configured_sources(configuration.profiles, options.rules)
    if len(sources) != 1:
        number = f"{len(sources)} load sources" if sources else "no load source"
        raise SetupError(
            f"--config {options.config}: its plugins read {number}; a rebalancer needs the one by which pods are placed"
        )
    ((source, load),) = sources.items()
    return Setup(configuration, _settings(options.settings), source, load)


def _configuration(options: RebalancerOptions, cluster_minor: int | None) -> Configuration:
    text = options.extract(_text(options.config, "--config"))
    try:
        return find_configuration(text, str(options.config)).load(
            allow_token_in_config_map=True,  # as for the scheduler: the preview has judged it
            allow_default_scheduler_name=True,
            credential_rules=options.rules,
            cluster_minor=cluster_minor,
        )
    except ConfigurationError as error:
        raise SetupError(str(error)) from error


def _settings(path: Path | None) -> RebalanceSettings:
    if path is None:
        return RebalanceSettings()
    text = _text(path, "--settings")
    try:
        document = read_document(text, str(path))
        if document.problems:
            raise ConfigurationError(document.problems)
        return read_rebalance_settings(document.data)
    except (RebalanceSettingsError, ConfigurationError) as error:
        raise SetupError("\n".join(f"--settings {path}: {line}" for line in str(error).splitlines())) from error


def unchanged(options: RebalancerOptions) -> Callable[[], bool]:
    """Return what tells whether the files are as they were: a ConfigMap's content may change while it is mounted."""
    contents = _contents(options)
    return lambda: _contents(options) == contents


def _contents(options: RebalancerOptions) -> tuple[str, ...]:
    try:
        settings = _text(options.settings, "--settings") if options.settings is not None else ""
        return _text(options.config, "--config"), settings
    except SetupError:
        # A file that is being replaced is there again in a moment.
        return ()


def _text(path: Path, option: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise SetupError(f"{option} {path}: larger than 1 MiB, which is the most that is read")
        return data.decode("utf-8")
    except OSError as error:
        raise SetupError(f"{option} {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise SetupError(f"{option} {path}: not UTF-8 text") from error


EXIT_OK, EXIT_ERROR, EXIT_INVALID = 0, 1, 4
