"""`secondary-scheduler bundle`: what somebody needs who is to find out what is wrong with an installation."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode, printable
from secondary_scheduler.cli.examples import examples
from secondary_scheduler.cli.kubeoptions import ContextOption, KubeconfigOption, NamespaceOption
from secondary_scheduler.cli.reading import require_writable

_EXAMPLES = examples("bundle", "bundle --since 1h --file incident.tar.gz", "bundle --context prod -n batch --snapshot")


def register(parent: typer.Typer) -> None:
    """Add the command `bundle`."""
    parent.command("bundle", epilog=_EXAMPLES)(bundle)


def bundle(
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Write to this file (default: secondary-scheduler-bundle-TIME.tar.gz)."),
    ] = None,
    namespace: NamespaceOption = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only newer lines of the logs, such as 30m or 1h (default: any age).")
    ] = None,
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="Add a snapshot of the whole cluster, as the command of that name does.")
    ] = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Write a support archive of an installation, redacted.

    Its versions, objects, configuration, Events and logs, and what the leading schedulers serve, of the operator and
    the schedulers in --namespace (default: the namespace that the operator is installed to). The cluster is only read,
    Secrets are not. What this user may not read is left out and named in problems.txt. Exit code 1: the cluster does
    not answer.
    """
    seconds = _seconds(since)
    now = datetime.now(UTC)
    root = f"secondary-scheduler-bundle-{now:%Y%m%dT%H%M%SZ}"
    target = file or Path(f"{root}.tar.gz")
    require_writable(target, "--file")
    # Here, not above: reading them takes longer than all the rest of the command line.
    from scheduler.catalog import OPERATOR_NAMESPACE
    from scheduler.kube.client import ConfigError, KubeError, api_path
    from secondary_scheduler.cli.bundle.archive import write_archive
    from secondary_scheduler.cli.bundle.collecting import Collector
    from secondary_scheduler.cli.connecting import load_connection
    from secondary_scheduler.cli.refusals import refusal

    def say(text: str) -> None:
        typer.echo(printable(text), err=True)

    place = namespace or OPERATOR_NAMESPACE
    try:
        api_path("v1", "pods", namespace=place)
    except ValueError as error:
        raise CommandError(f"--namespace: {error}", ExitCode.USAGE) from error
    try:
        config = load_connection(kubeconfig, context)
    except ConfigError as error:
        raise CommandError(printable(str(error))) from error
    collector = Collector(config, place, f"{now:%Y-%m-%dT%H:%M:%SZ}", say, seconds, snapshot)
    try:
        members = collector.collect()
    except KubeError as error:
        raise refusal(error, config.server) from error
    write_archive(target, root, members, int(now.timestamp()))
    count = len(collector.problems.lines)
    say(f"problems: {count}" + (", see problems.txt in the archive" if count else ""))
    say("look through the archive before you give it to anybody; README.txt says how it was redacted")
    typer.echo(str(target))


def _seconds(since: str | None) -> int | None:
    from scheduler.catalog import parse_duration

    if since is None:
        return None
    try:
        seconds = int(parse_duration(since))
    except ValueError as error:
        raise CommandError(f"--since: {error}", ExitCode.USAGE) from error
    if seconds < 1:
        raise CommandError("--since: must be at least 1s", ExitCode.USAGE)
    return seconds
