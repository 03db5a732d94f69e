"""`secondary-scheduler snapshot`: what a scheduler knows of a running cluster, in one file for `simulate`; or a
recording of what happens there, for `plan`."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.kubeoptions import ContextOption, KubeconfigOption
from secondary_scheduler.cli.loadoptions import (
    AllowInsecureOption,
    CaFileOption,
    PrometheusOption,
    TokenFileOption,
    WatcherOption,
    WindowOption,
    load_origin,
)
from secondary_scheduler.cli.output import examples, say
from secondary_scheduler.cli.typed import duration, require_writable, was_typed

if TYPE_CHECKING:
    from secondary_scheduler.cli.clusterrecording.taking import RecordingRequest
    from secondary_scheduler.clustersnapshot.measuring import LoadOrigin


class SnapshotFormat(enum.StrEnum):
    """How the file is written."""

    JSON = "json"
    YAML = "yaml"


_EXAMPLES = examples(
    "snapshot --file cluster.json",
    "snapshot --context prod --prometheus https://prometheus.example.com --token-file token --file cluster.json",
    "snapshot -o yaml > cluster.yaml",
    "snapshot --record 2h --prometheus https://prometheus.example.com --file cluster.recording",
)
_MIN_SIZE, _MAX_SIZE = 1 << 20, 1 << 30
_MAX_SECONDS = 7 * 86_400.0


def register(parent: typer.Typer) -> None:
    """Add the command `snapshot`."""
    parent.command("snapshot", epilog=_EXAMPLES)(snapshot)


def snapshot(
    call: typer.Context,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    file: Annotated[
        Path | None, typer.Option("--file", help="Write to this file, readable by you only, instead of to stdout.")
    ] = None,
    prometheus: PrometheusOption = None,
    watcher: WatcherOption = None,
    token_file: TokenFileOption = None,
    ca_file: CaFileOption = None,
    allow_insecure: AllowInsecureOption = False,
    window: WindowOption = None,
    configuration: Annotated[
        bool,
        typer.Option(
            "--configuration/--no-configuration",
            help="With what the installed schedulers run, without secrets: simulate and others decide with it.",
        ),
    ] = True,
    output: Annotated[SnapshotFormat, typer.Option("-o", "--output", help="Form of the file.")] = SnapshotFormat.JSON,
    record: Annotated[
        str | None,
        typer.Option(
            "--record",
            metavar="DURATION",
            help="Go on for so long (such as 2h), and write what happens: a recording, for plan --recording. "
            "Ctrl-C ends it earlier.",
        ),
    ] = None,
    record_limit: Annotated[
        str, typer.Option("--record-limit", metavar="SIZE", help="Largest file of a recording; it ends there.")
    ] = "256Mi",
    load_interval: Annotated[
        str, typer.Option("--load-interval", metavar="DURATION", help="How often a recording reads the load.")
    ] = "1m",
) -> None:
    """Write a cluster's objects and load to one file.

    These are nodes, pods, volumes and policies, and the configurations of installed schedulers. The cluster is only
    read. Only fields that a scheduler reads are kept: no Secrets, no environment variables, no commands. With --record,
    exit code 1 means that the recording ended at --record-limit, or while a watch was lost; the file can be used all
    the same.
    """
    if record is not None:
        if typed := was_typed(call, "output"):
            raise CommandError(f"{typed}: a recording is lines of JSON; leave it out", ExitCode.USAGE)
        seconds = duration("--record", record, 1.0, _MAX_SECONDS)
        interval = duration("--load-interval", load_interval, 1.0, _MAX_SECONDS)
        limit = _size(record_limit)
    elif typed := was_typed(call, "record_limit", "load_interval"):
        raise CommandError(f"{typed}: only with --record", ExitCode.USAGE)
    origin = load_origin(call, prometheus, watcher, token_file, ca_file, window, allow_insecure)
    if file is not None:
        require_writable(file, "--file")
    if record is not None:
        if origin is None and (typed := was_typed(call, "load_interval")):
            raise CommandError(f"{typed}: of a load source, which --prometheus or --watcher names", ExitCode.USAGE)
        from secondary_scheduler.cli.clusterrecording.taking import RecordingRequest

        request = RecordingRequest(seconds, limit, interval)
        _record(kubeconfig, context, origin, file, request, with_configuration=configuration)
        return
    # Here, not above: reading them takes longer than all the rest of the command line.
    from secondary_scheduler.cli.snapshotfile import cluster_to_read, take_snapshot

    with cluster_to_read(kubeconfig, context) as config:
        counts = take_snapshot(
            config,
            origin,
            file,
            as_yaml=output is SnapshotFormat.YAML,
            say=say,
            with_configuration=configuration,
        )
    say(f"{config.server}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")


def _record(
    kubeconfig: Path | None,
    context: str | None,
    origin: LoadOrigin | None,
    file: Path | None,
    request: RecordingRequest,
    *,
    with_configuration: bool,
) -> None:
    from secondary_scheduler.cli.clusterrecording.taking import ending, take_recording
    from secondary_scheduler.cli.installedconfigurations import as_running, running_configurations, running_documents
    from secondary_scheduler.cli.snapshotfile import cluster_to_read

    with cluster_to_read(kubeconfig, context, renewed=True) as config:
        running = running_configurations(config, say) if with_configuration or origin is not None else []
        documents = running_documents(running, say) if with_configuration else []
        source = as_running(origin, running, say) if origin is not None else None
        recorded = take_recording(config, source, file, request, say, [document.data for document in documents])
    say(
        f"{config.server}: recorded {recorded.seconds:.0f} s: {recorded.objects:,} objects at the beginning, "
        f"{recorded.events:,} changes, {recorded.size / (1 << 20):.1f} MiB"
    )
    if problem := ending(recorded, request):
        raise CommandError(problem)


def _size(text: str) -> int:
    from scheduler.kube.primitives import QuantityError, quantity_value

    try:
        size = quantity_value(text)
    except QuantityError as error:
        raise CommandError(f"--record-limit: {error}", ExitCode.USAGE) from error
    if not _MIN_SIZE <= size <= _MAX_SIZE:
        raise CommandError(f"--record-limit: {text}: from 1Mi to 1Gi", ExitCode.USAGE)
    return size
