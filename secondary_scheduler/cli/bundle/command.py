"""`secondary-scheduler bundle`: what somebody needs who is to find out what is wrong with an installation."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, printable, refusal
from secondary_scheduler.cli.kubeoptions import (
    AsServiceAccountOption,
    ContextOption,
    KubeconfigOption,
    OnlyNamespaceOption,
)
from secondary_scheduler.cli.output import examples, say
from secondary_scheduler.cli.typed import duration, require_writable

_EXAMPLES = examples("bundle", "bundle --since 1h --file incident.tar.gz", "bundle --context prod -n batch")
_MAX_SINCE_LENGTH = 365 * 86_400.0


def register(parent: typer.Typer) -> None:
    """Add the command `bundle`."""
    parent.command("bundle", epilog=_EXAMPLES)(bundle)


def bundle(
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Write to this file (default: secondary-scheduler-bundle-TIME.tar.gz)."),
    ] = None,
    namespace: OnlyNamespaceOption = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Only newer lines of the logs, such as 30m or 1h (default: any age).")
    ] = None,
    as_service_account: AsServiceAccountOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
) -> None:
    """Write a support archive of an installation, redacted.

    What status and explain show, configuration, versions, Events and logs of the operator and the schedulers in
    --namespace (default: the namespace that the operator is installed to). The cluster is only read, Secrets are not.
    What this user may not read is left out and named in problems.txt. Exit code 1: the cluster does not answer.
    """
    seconds = None if since is None else int(duration("--since", since, 1.0, _MAX_SINCE_LENGTH))
    now = datetime.now(UTC)
    root = f"secondary-scheduler-bundle-{now:%Y%m%dT%H%M%SZ}"
    target = file or Path(f"{root}.tar.gz")
    require_writable(target, "--file")
    # Here, not above: reading them takes longer than all the rest of the command line.
    from scheduler.catalog import OPERATOR_NAMESPACE
    from scheduler.kube.client import ConfigError, KubeError
    from secondary_scheduler.cli.bundle.archive import write_archive
    from secondary_scheduler.cli.bundle.collecting import BundleCollector
    from secondary_scheduler.cli.connecting import asking_as, load_connection

    try:
        config = load_connection(kubeconfig, context)
    except ConfigError as error:
        raise CommandError(printable(str(error))) from error
    asker = asking_as(config, as_service_account)
    collector = BundleCollector(
        config, asker, namespace or OPERATOR_NAMESPACE, f"{now:%Y-%m-%dT%H:%M:%SZ}", say, seconds
    )
    try:
        members = collector.collect()
    except KubeError as error:
        raise refusal(error, config.server) from error
    write_archive(target, root, members, int(now.timestamp()))
    count = len(collector.problems)
    say(f"problems: {count}" + (", see problems.txt in the archive" if count else ""))
    say("look through the archive before you give it to anybody; README.txt says how it was redacted")
    typer.echo(str(target))
