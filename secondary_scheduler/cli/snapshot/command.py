"""`secondary-scheduler snapshot`: what a scheduler knows of a running cluster, in one file for `simulate`."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from secondary_scheduler.cli.examples import examples
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
from secondary_scheduler.cli.reading import require_writable


class SnapshotFormat(enum.StrEnum):
    """How the file is written."""

    JSON = "json"
    YAML = "yaml"


_EXAMPLES = examples(
    "snapshot --file cluster.json",
    "snapshot --context prod --prometheus https://prometheus.example.com --token-file token --file cluster.json",
    "snapshot -o yaml > cluster.yaml",
)


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
    window: WindowOption = "15m",
    output: Annotated[SnapshotFormat, typer.Option("-o", "--output", help="Form of the file.")] = SnapshotFormat.JSON,
) -> None:
    """Write a cluster's objects and load to one file.

    These are nodes, pods, volumes and policies. The cluster is only read. Only fields that a scheduler reads are kept:
    no Secrets, no environment variables, no commands.
    """
    origin = load_origin(call, prometheus, watcher, token_file, ca_file, window, allow_insecure)
    if file is not None:
        require_writable(file, "--file")
    # Here, not above: reading them takes longer than all the rest of the command line.
    from secondary_scheduler.cli.clustersnapshot.taking import cluster_to_read, take_snapshot
    from secondary_scheduler.cli.errors import printable

    def say(text: str) -> None:
        typer.echo(printable(text), err=True)

    with cluster_to_read(kubeconfig, context) as config:
        counts = take_snapshot(config, origin, file, as_yaml=output is SnapshotFormat.YAML, say=say)
    say(f"{config.server}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")
