"""The command of the daemon: options, configuration, then the daemon itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import structlog

from scheduler import __version__
from scheduler.catalog import format_duration
from scheduler.config import Configuration, ConfigurationError, default_configuration, load_configuration
from scheduler.kube.client import ClientConfig, ConfigError
from scheduler.logs import configure_logging, report_problem
from scheduler.options import Options, parse_options

EXIT_OK, EXIT_ERROR, EXIT_INVALID = 0, 1, 4
log = structlog.get_logger(component="app")


def run(arguments: Sequence[str]) -> int:
    """Run the daemon with a command line; returns the exit code: 0 after a signal, 1 error, 4 invalid input."""
    options = parse_options(arguments, __version__)
    configure_logging(options.logging_format, options.verbosity)
    try:
        load = _loader(options)
        configuration = load(None)
        if options.write_config_to is not None:
            return _write_configuration(options, configuration, options.write_config_to)
        client_config = _client_config(options, configuration)
    except ConfigurationError as error:
        report_problem(str(error), logging_format=options.logging_format)
        return EXIT_INVALID
    except (ConfigError, OSError) as error:
        report_problem(f"kube-scheduler: {error}", logging_format=options.logging_format)
        return EXIT_ERROR
    for setting in options.idle:
        log.warning("flag has no effect", flag=setting.written, reason=setting.reason)
    for warning in configuration.warnings:
        log.warning("configuration", problem=str(warning))
    return _run(options, configuration, load, client_config)


def _run(
    options: Options,
    configuration: Configuration,
    load: Callable[[int | None], Configuration],
    client_config: ClientConfig,
) -> int:
    # Here, so that an invalid configuration is reported before the slow imports.
    from scheduler.start import run_daemon

    try:
        return run_daemon(options, configuration, load, client_config)
    except ConfigurationError as error:
        # Only now is it known for which version of Kubernetes the configuration has to be valid.
        report_problem(str(error), logging_format=options.logging_format)
        return EXIT_INVALID
    except (OSError, ValueError) as error:
        report_problem(f"kube-scheduler: {error}", logging_format=options.logging_format)
        return EXIT_ERROR


def _loader(options: Options) -> Callable[[int | None], Configuration]:
    """Return what loads the configuration for a minor version of the cluster; the file is read once."""
    if options.config is None:
        allowed = options.allow_default_scheduler_name
        if not allowed and options.takes_the_cluster_schedulers_place:
            allowed = True
            log.warning(
                "this process takes the place of the cluster's own kube-scheduler",
                schedulerName="default-scheduler",
                lease="kube-system/kube-scheduler",
            )
        return lambda cluster_minor: default_configuration(
            options.connection,
            allow_default_scheduler_name=allowed,
            cluster_minor=cluster_minor,
            feature_gates=options.feature_gates,
        )
    try:
        text = options.config.read_text(encoding="utf-8")
    except OSError as error:
        raise OSError(f"--config {options.config}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise OSError(f"--config {options.config}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    return lambda cluster_minor: load_configuration(
        text,
        source=str(options.config),
        # `pulumi preview` warns of a literal token in a ConfigMap; here the user has decided.
        allow_token_in_config_map=True,
        allow_default_scheduler_name=options.allow_default_scheduler_name,
        cluster_minor=cluster_minor,
        feature_gates=options.feature_gates,
    )


def _write_configuration(options: Options, configuration: Configuration, file: Path) -> int:
    """Write what would run, as upstream does with this flag; needs no API server."""
    from scheduler.config import completed  # here, since only this needs it

    election = options.leader_election(configuration.model)
    flags = {
        "leaderElect": election.enabled,
        "leaseDuration": format_duration(election.lease_duration),
        "renewDeadline": format_duration(election.renew_deadline),
        "retryPeriod": format_duration(election.retry_period),
        "resourceName": election.name,
        "resourceNamespace": election.namespace,
    }
    for warning in configuration.warnings:
        log.warning("configuration", problem=str(warning))
    try:
        file.write_text(completed(configuration, flags), encoding="utf-8")
    except OSError as error:
        raise OSError(f"--write-config-to {file}: {error.strerror}") from error
    log.info("Wrote configuration", file=str(file))
    return EXIT_OK


def _client_config(options: Options, configuration: Configuration) -> ClientConfig:
    file = configuration.model.client_connection.kubeconfig if options.config else None
    kubeconfig = Path(file) if file else options.kubeconfig if options.config is None else None
    return ClientConfig.load(kubeconfig=kubeconfig, context=None, master=options.master)
