"""The command of the image: options, configuration, then the server."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduler import __version__
from scheduler.catalog import CredentialRules, is_loopback_host
from scheduler.config import Configuration, ConfigurationError, load_configuration
from scheduler.connectionlimits import ConnectionLimits, add_connection_flags, connection_limits
from scheduler.credentialflags import add_credential_flags, credential_rules
from scheduler.load import METRICS_SERVER, WATCHER, LoadSettings, configured_sources, provider_of
from secondary_scheduler.errors import printable_lines
from secondary_scheduler.loadwatcher.serving import (
    DEFAULT_LISTEN,
    Listen,
    WatcherError,
    WatcherService,
    listen_address,
)

EXIT_OK, EXIT_ERROR, EXIT_INVALID = 0, 1, 4
_MOST_BYTES = 1 << 20
"""What a ConfigMap can hold."""


@dataclass(frozen=True, slots=True)
class Options:
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


def parse_options(arguments: Sequence[str]) -> Options:
    """Parse the command line; exits with 2 and one line on bad usage, as every command of ours."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    listen: Listen = parsed.listen
    if not parsed.serve_unauthenticated and not is_loopback_host(listen.host):
        parser.error(
            f"--listen {listen.host}:{listen.port}: whoever reaches it could read every node's load; say so with "
            "--serve-unauthenticated, behind a NetworkPolicy, or listen on 127.0.0.1"
        )
    return Options(parsed.config, listen, credential_rules(parser, parsed), connection_limits(parsed))


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


def _source(options: Options) -> tuple[str, LoadSettings]:
    """The source that the file names.

    Raises:
        ConfigurationError, WatcherError, OSError, UnicodeDecodeError: it names none that can be read.
    """
    with options.config.open("rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
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
