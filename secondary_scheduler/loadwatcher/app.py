"""The command of the image: options, configuration, then the server."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from scheduler import __version__
from scheduler.catalog import CredentialRules, is_loopback_host
from scheduler.config import Configuration, ConfigurationError, load_configuration
from scheduler.connectionlimits import DEFAULT_LIMITS, ConnectionLimits, add_connection_flags, connection_limits
from scheduler.flags import add_credential_flags, credential_rules
from scheduler.framework import LoadReading
from scheduler.kube.client import ClientConfig
from scheduler.load import (
    METRICS_SERVER,
    WATCHER,
    LoadCollector,
    LoadSettings,
    LoadStatus,
    configured_sources,
    load_source,
    provider_of,
    watcher_document,
    window_seconds,
)
from scheduler.observe import bind, in_words, port_of, serving
from secondary_scheduler.errors import printable_lines

_MAX_BYTES = 1 << 20
"""What a ConfigMap can hold."""


@dataclass(frozen=True, slots=True)
class LoadWatcherOptions:
    """What the command line says."""

    config: Path
    listen: Listen
    rules: CredentialRules
    limits: ConnectionLimits


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a signal (0), or until it cannot go on (1); 4 if the configuration is not valid."""
    options = parse_options(sys.argv[1:] if arguments is None else arguments)
    try:
        key, settings = _source(options)
    except (ConfigurationError, WatcherError, OSError, UnicodeDecodeError) as error:
        _say(f"--config {options.config}: {error.strerror}" if isinstance(error, OSError) else str(error))
        return EXIT_INVALID
    try:
        asyncio.run(WatcherService(key, settings, options.limits).run(options.listen, _say))
    except WatcherError as error:
        _say(str(error))
        return EXIT_ERROR
    return EXIT_OK


def parse_options(arguments: Sequence[str]) -> LoadWatcherOptions:
    """Parse the command line; exits with 2 and one line on bad usage, as every command of ours."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    listen: Listen = parsed.listen
    if not parsed.serve_unauthenticated and not is_loopback_host(listen.host):
        parser.error(
            f"--listen {listen.host}:{listen.port}: whoever reaches it could read every node's load; say so with "
            "--serve-unauthenticated, behind a NetworkPolicy, or listen on 127.0.0.1"
        )
    return LoadWatcherOptions(parsed.config, listen, credential_rules(parser, parsed), connection_limits(parsed))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="load-watcher",
        description="Serves the nodes' load at /watcher, as load-watcher does, from the source of a configuration.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"secondary-scheduler {__version__}")
    parser.add_argument(
        "--config", type=Path, required=True, metavar="FILE", help="KubeSchedulerConfiguration that names the source"
    )
    parser.add_argument(
        "--listen", type=_listen, default=DEFAULT_LISTEN, metavar="HOST:PORT", help="default: %(default)s"
    )
    parser.add_argument(
        "--serve-unauthenticated",
        action="store_true",
        help="serve whoever reaches the address, without TLS: names of nodes and their utilization",
    )
    add_connection_flags(parser)
    group = parser.add_argument_group(
        "credentials of the source", "what the file may do with tokens: whoever writes it cannot permit more"
    )
    add_credential_flags(group)
    return parser


def _source(options: LoadWatcherOptions) -> tuple[str, LoadSettings]:
    """The source that the file names.

    Raises:
        ConfigurationError, WatcherError, OSError, UnicodeDecodeError: it names none that can be read.
    """
    with options.config.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise WatcherError(f"--config {options.config}: larger than 1 MiB, which is the most that is read")
    configuration = load_configuration(
        data.decode("utf-8"),
        source=str(options.config),
        allow_token_in_config_map=True,  # as for the scheduler: the preview has judged it
        allow_default_scheduler_name=True,
        credential_rules=options.rules,
    )
    return source_of(configuration, options.rules, f"--config {options.config}")


def source_of(configuration: Configuration, rules: CredentialRules, name: str) -> tuple[str, LoadSettings]:
    """Return key and settings of the only source that a configuration's plugins read.

    Args:
        configuration: the scheduler's.
        rules: what may be done with credentials.
        name: of the configuration, for messages.

    Raises:
        WatcherError: there is none, there are several, or it is the metrics server, which is read through the API
            server: a load-watcher has no rights there. Other load-watchers do not count.
    """
    configured, _ = configured_sources(configuration.profiles, rules)
    sources = {key: settings for key, settings in configured.items() if provider_of(key) != WATCHER}
    if len(sources) != 1:
        raise WatcherError(
            f"{name}: the configuration must name exactly one source that is not a load-watcher, and it names "
            f"{', '.join(sources) or 'none'}"
        )
    key, settings = next(iter(sources.items()))
    if provider_of(key) == METRICS_SERVER:
        raise WatcherError(
            f"{name}: a load-watcher cannot read the metrics server, as it has no rights in the cluster; name a "
            "Prometheus or SignalFx, or let the scheduler read the metrics server itself"
        )
    return key, settings


def _listen(text: str) -> Listen:
    try:
        return listen_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _say(text: str) -> None:
    # Names of series and reasons of a source may hold anything.
    sys.stderr.write(f"{printable_lines(text)}\n")
    sys.stderr.flush()


Say = Callable[[str], None]
WATCHER_PATH = "/watcher"
_JSON = "application/json"
DEFAULT_LISTEN = "127.0.0.1:2020"


class WatcherError(Exception):
    """One line for the user: an address, a port, a file or a configuration that cannot be used."""


@dataclass(frozen=True, slots=True)
class Listen:
    """Where to serve; port 0: any free one."""

    host: str
    port: int


def listen_address(text: str) -> Listen:
    """Return host and port of `HOST:PORT` or `[IPV6]:PORT`; without a host all addresses.

    Raises:
        ValueError: it is not an address and a port.
    """
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or not 0 <= int(port) <= 65535:
        raise ValueError(f"{text!r} is not an address and a port, such as {DEFAULT_LISTEN}")
    return Listen(host or "0.0.0.0", int(port))  # noqa: S104 # the user's choice; callers demand authentication


class WatcherService:
    """What the command serves.

    `/watcher` is load-watcher's; `/watcher/health` is the health of the source; `/livez` and `/readyz` are for probes.
    Ready is who has served a load, also when the source fails later: clients then see that nothing is fresh, while
    without an endpoint they would keep what they read last.

    Loads keep the source's names: it lists no nodes.
    """

    def __init__(self, key: str, settings: LoadSettings, limits: ConnectionLimits = DEFAULT_LIMITS) -> None:
        self._key, self._settings = key, settings
        self._limits = limits
        self._provider = provider_of(key)
        self._reading: LoadReading | None = None
        self._ready = False
        self._stop = asyncio.Event()
        self._collector: LoadCollector | None = None
        self._reported: tuple[bool, str] = (True, "")
        self._rejected: frozenset[str] = frozenset()
        self.port = 0

    async def run(self, listen: Listen, say: Say) -> None:
        """Serve until SIGTERM, SIGINT or `stop`.

        Raises:
            WatcherError: the address or the port cannot be used.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        collector = self._collector = self._new_collector(say)
        application = web.Application(client_max_size=64 * 1024)
        application.router.add_route("*", WATCHER_PATH, self._watcher)
        # Go clients append the path to an address that may end with a slash.
        application.router.add_route("*", "//watcher", self._watcher)
        application.router.add_route("*", f"{WATCHER_PATH}/health", self._health)
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/readyz", self._readyz)
        try:
            try:
                listeners = bind(listen.host, listen.port)
            except OSError as error:
                raise WatcherError(f"--listen {listen.host}:{listen.port}: {error.strerror or error}") from error
            async with serving(application, listeners, limits=self._limits, report=in_words(say)):
                self.port = port_of(listeners)
                collector.start()
                host = f"[{listen.host}]" if ":" in listen.host else listen.host
                say(f"serving {collector.status().source} at http://{host}:{self.port}{WATCHER_PATH}")
                await self._stop.wait()
        finally:
            collector.request_stop()

    def stop(self) -> None:
        """Stop serving."""
        self._stop.set()

    def _new_collector(self, say: Say) -> LoadCollector:
        settings = self._settings
        # Its sources need no API server: `source_of` refuses the one that does.
        source = load_source(self._key, settings, ClientConfig(server="https://unused.invalid"))

        def show(status: LoadStatus) -> None:
            current = (status.fresh, status.message)
            if current != self._reported:
                self._reported = current
                say("load is fresh" if status.fresh else f"load is not fresh: {status.message}")

        def keep(reading: LoadReading) -> None:
            if reading.rejected.keys() - self._rejected:
                say(f"values that cannot be a load are left out: {reading.left_out}")
            self._rejected = frozenset(reading.rejected)
            self._reading = reading
            self._ready = self._ready or bool(reading.fresh_loads(time.time(), settings.max_age_seconds))

        return LoadCollector(
            source,
            refresh_seconds=settings.refresh_seconds,
            max_age_seconds=settings.max_age_seconds,
            on_reading=keep,
            on_status=show,
        )

    async def _watcher(self, request: web.Request) -> web.Response:
        reading = self._reading
        if reading is None:
            return web.Response(status=500, content_type=_JSON)
        loads = reading.fresh_loads(time.time(), self._settings.max_age_seconds)
        host = request.query.get("host")
        if host is not None:
            if host not in loads:
                return web.Response(status=404, content_type=_JSON)
            loads = {host: loads[host]}
        document = watcher_document(
            loads,
            source=self._provider,
            window=self._settings.window,
            window_seconds=window_seconds(self._settings.window),
            end=reading.window_end,
            timestamp=reading.window_end,
        )
        body = json.dumps(document, allow_nan=False, separators=(",", ":")).encode()
        return web.Response(body=body, content_type=_JSON)

    async def _health(self, _: web.Request) -> web.Response:
        status = self._collector.status() if self._collector is not None else None
        healthy = status is not None and status.fresh and not status.consecutive_failures
        # The reason may name addresses: it goes to the log, not to clients.
        return web.Response(status=200 if healthy else 503)

    async def _livez(self, _: web.Request) -> web.Response:
        return web.Response(text="ok")

    async def _readyz(self, _: web.Request) -> web.Response:
        return web.Response(text="ok") if self._ready else web.Response(status=503, text="no fresh load was read yet")


EXIT_OK, EXIT_ERROR, EXIT_INVALID = 0, 1, 4
