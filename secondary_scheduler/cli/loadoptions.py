"""The options of a load source, for the commands that read the nodes' load beside a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.typed import require_apart, require_file, was_typed

if TYPE_CHECKING:
    from scheduler.config import Configuration
    from secondary_scheduler.clustersnapshot.measuring import LoadOrigin
    from secondary_scheduler.simulation.objects import RecordedObjects
    from secondary_scheduler.simulation.report import InputReport

PrometheusOption = Annotated[
    str | None,
    typer.Option(
        "--prometheus", envvar="SECONDARY_SCHEDULER_PROMETHEUS_URL", help="Prometheus to read the nodes' load from."
    ),
]
WatcherOption = Annotated[str | None, typer.Option("--watcher", help="load-watcher to read the nodes' load from.")]
TokenFileOption = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        envvar="SECONDARY_SCHEDULER_PROMETHEUS_TOKEN_FILE",
        help="File with the bearer token for the load source.",
    ),
]
CaFileOption = Annotated[
    Path | None,
    typer.Option(
        "--ca-file",
        envvar="SECONDARY_SCHEDULER_PROMETHEUS_CA_FILE",
        help="Certificate authority of the load source.",
    ),
]
AllowInsecureOption = Annotated[
    bool, typer.Option("--allow-insecure-metric-credentials", help="Send the token over HTTP too.")
]
WindowOption = Annotated[
    str | None,
    typer.Option(
        "--window",
        help="Averaging window of the load, as in PromQL (default: that of the configuration that decides).",
    ),
]

OF_A_CLUSTER = (
    "prometheus",
    "watcher",
    "token_file",
    "ca_file",
    "allow_insecure",
    "window",
)
"""Parameters that mean nothing where a snapshot is read from files."""


def load_origin(
    call: typer.Context,
    prometheus: str | None,
    watcher: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    window: str | None,
    allow_insecure: bool,
) -> LoadOrigin | None:
    """Return what the options name; None where they name no source. What cannot work is refused before the cluster is
    read, which may take minutes.

    Raises:
        CommandError: two that exclude each other, or a value that cannot be.
    """
    from scheduler.catalog import LoadOptions, address_problem
    from secondary_scheduler.clustersnapshot.measuring import LoadOrigin

    require_apart(call, "prometheus", "watcher")
    require_apart(call, "watcher", "window")  # it averages on its own
    for option, address in (("--prometheus", prometheus), ("--watcher", watcher)):
        if address and (problem := address_problem(address)):
            raise CommandError(f"{option}: {problem}", ExitCode.USAGE)
    for _, message in LoadOptions(window=window).check() if window is not None else ():
        raise CommandError(f"--window: {message}", ExitCode.USAGE)
    if not (prometheus or watcher) and (typed := was_typed(call, "token_file", "ca_file", "window", "allow_insecure")):
        raise CommandError(f"{typed}: of a load source, which --prometheus or --watcher names", ExitCode.USAGE)
    if not (prometheus or watcher):
        return None
    require_file(token_file, "--token-file")
    require_file(ca_file, "--ca-file")
    # The environment of a local cluster names its Prometheus; who asks for a load-watcher means that one.
    return LoadOrigin(None if watcher else prometheus, watcher, token_file, ca_file, window, allow_insecure)


def add_load(
    objects: RecordedObjects, origin: LoadOrigin | None, configuration: Configuration, source: str, report: InputReport
) -> None:
    """Put the load among a cluster's objects, averaged as the configuration that decides has it.

    Args:
        objects: of the cluster.
        origin: where the load is; None: it stays without one.
        configuration: that decides.
        source: where the objects are from, for messages.
        report: gets what is left out, and which window it is.

    Raises:
        LoadError: the source does not answer with loads.
    """
    from secondary_scheduler.clustersnapshot.measuring import as_scheduled
    from secondary_scheduler.clustersnapshot.reading import load_document

    if origin is None:
        return
    nodes = (bytes(node.entry.data) for node in objects.of("Node"))
    origin = as_scheduled(origin, {configuration.source: configuration}, report.note)
    document = load_document(origin, nodes, report.warn)
    objects.add_documents(source, [document])
