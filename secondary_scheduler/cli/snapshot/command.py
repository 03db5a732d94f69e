"""`secondary-scheduler snapshot`: what a scheduler knows of a running cluster, in one file for `simulate`."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.examples import examples
from secondary_scheduler.cli.kubeoptions import ContextOption, KubeconfigOption
from secondary_scheduler.cli.reading import require_file, require_writable
from secondary_scheduler.cli.typed import require_apart, was_typed


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
    prometheus: Annotated[
        str | None,
        typer.Option(
            "--prometheus", envvar="SECONDARY_SCHEDULER_PROMETHEUS_URL", help="Prometheus to read the nodes' load from."
        ),
    ] = None,
    watcher: Annotated[str | None, typer.Option("--watcher", help="load-watcher to read the nodes' load from.")] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            envvar="SECONDARY_SCHEDULER_PROMETHEUS_TOKEN_FILE",
            help="File with the bearer token for the load source.",
        ),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            "--ca-file",
            envvar="SECONDARY_SCHEDULER_PROMETHEUS_CA_FILE",
            help="Certificate authority of the load source.",
        ),
    ] = None,
    allow_insecure: Annotated[
        bool,
        typer.Option("--allow-insecure-metric-credentials", help="Send the token over HTTP too."),
    ] = False,
    window: Annotated[str, typer.Option("--window", help="Averaging window of the load, as in PromQL.")] = "15m",
    output: Annotated[SnapshotFormat, typer.Option("-o", "--output", help="Form of the file.")] = SnapshotFormat.JSON,
) -> None:
    """Write a cluster's objects and load to one file.

    These are nodes, pods, volumes and policies. The cluster is only read. Only fields that a scheduler reads are kept:
    no Secrets, no environment variables, no commands.
    """
    _check(call, file, prometheus, watcher, token_file, ca_file, window)
    # Here, not above: reading them takes longer than all the rest of the command line.
    from scheduler.kube.client import ConfigError, KubeError
    from scheduler.load import LoadError
    from secondary_scheduler.cli.clustersnapshot.measuring import LoadOrigin
    from secondary_scheduler.cli.clustersnapshot.taking import take_snapshot
    from secondary_scheduler.cli.connecting import load_connection
    from secondary_scheduler.cli.errors import printable

    def say(text: str) -> None:
        typer.echo(printable(text), err=True)

    # The environment of a local cluster names its Prometheus; who asks for a load-watcher means that one.
    origin = LoadOrigin(None if watcher else prometheus, watcher, token_file, ca_file, window, allow_insecure)
    try:
        config = load_connection(kubeconfig, context)
        wanted = origin if prometheus or watcher else None
        counts = take_snapshot(config, wanted, file, as_yaml=output is SnapshotFormat.YAML, say=say)
    except ConfigError as error:
        raise CommandError(printable(str(error))) from error
    except KubeError as error:
        raise CommandError(printable(f"{config.server}: {error}")) from error
    except LoadError as error:
        raise CommandError(printable(str(error))) from error
    say(f"{config.server}: {', '.join(f'{count} {kind}' for kind, count in counts.items())}")


def _check(
    call: typer.Context,
    file: Path | None,
    prometheus: str | None,
    watcher: str | None,
    token_file: Path | None,
    ca_file: Path | None,
    window: str,
) -> None:
    """Refuse what cannot work before the cluster is read, which may take minutes."""
    from scheduler.catalog import LoadOptions, address_problem

    require_apart(call, "prometheus", "watcher")
    for option, address in (("--prometheus", prometheus), ("--watcher", watcher)):
        if address and (problem := address_problem(address)):
            raise CommandError(f"{option}: {problem}", ExitCode.USAGE)
    for _, message in LoadOptions(window=window).check():
        raise CommandError(f"--window: {message}", ExitCode.USAGE)
    if not (prometheus or watcher) and (typed := was_typed(call, "token_file", "ca_file", "window", "allow_insecure")):
        raise CommandError(f"{typed}: of a load source, which --prometheus or --watcher names", ExitCode.USAGE)
    if prometheus or watcher:
        require_file(token_file, "--token-file")
        require_file(ca_file, "--ca-file")
    if file is not None:
        require_writable(file, "--file")
