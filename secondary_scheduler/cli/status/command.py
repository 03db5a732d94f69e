"""`secondary-scheduler status`: how the installations on a cluster are."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode, printable, refusal
from secondary_scheduler.cli.kubeoptions import (
    AllNamespacesOption,
    AsServiceAccountOption,
    ContextOption,
    FullOutputOption,
    KubeconfigOption,
    OnlyNamespaceOption,
)
from secondary_scheduler.cli.output import FullOutputFormat, document_text, examples, fitted
from secondary_scheduler.cli.typed import require_apart
from secondary_scheduler.cli.watching import INTERVAL, IntervalOption, WatchOption, require_watch, show_repeatedly

if TYPE_CHECKING:
    from secondary_scheduler.clusterstatus.status import State, StatusReport

_EXAMPLES = examples("status", "status --context prod -o wide", "status --watch", "status -n batch-scheduler -o json")
_COLOURS = {"ok": typer.colors.GREEN, "warning": typer.colors.YELLOW, "failed": typer.colors.RED}


def register(parent: typer.Typer) -> None:
    """Add the command `status`."""
    parent.command("status", epilog=_EXAMPLES)(status)


def status(
    call: typer.Context,
    namespace: OnlyNamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    as_service_account: AsServiceAccountOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
    watch: WatchOption = False,
    interval: IntervalOption = INTERVAL,
) -> None:
    """Show how the installed schedulers are.

    For each SecondaryScheduler, and each scheduler without one: problems, replicas and leader, plugins, configuration,
    load, queue, attempts, versions. By default it looks for SecondarySchedulers in all namespaces, and for other
    schedulers beside them and where the operator is installed to. Exit code 1: an instance is not healthy, or there is
    none.
    """
    require_apart(call, "namespace", "all_namespaces")
    require_watch(call, watch=watch)
    from scheduler.kube.client import ConfigError, KubeError
    from secondary_scheduler.cli.connecting import asking_as, load_connection
    from secondary_scheduler.clusterstatus.document import read_status

    try:
        config = load_connection(kubeconfig, context)
    except ConfigError as error:
        raise CommandError(printable(str(error))) from error

    def look() -> StatusReport:
        try:
            asker = asking_as(config, as_service_account)
            return read_status(config, namespace, everywhere=all_namespaces, asker=asker)
        except KubeError as error:
            raise refusal(error, config.server) from error

    if watch:
        show_repeatedly(lambda: _text(look(), output, several=True), interval)
    document = look()
    typer.echo(_text(document, output), nl=False)
    if not document.instances:
        raise CommandError(_absence(document, namespace, everywhere=all_namespaces))
    if document.state == "failed":
        raise typer.Exit(ExitCode.ERROR)


def _text(document: StatusReport, output: FullOutputFormat, *, several: bool = False) -> str:
    if output.is_document:
        return ("---\n" if several and output is FullOutputFormat.YAML else "") + document_text(document, output)
    from secondary_scheduler.cli.status.rendering import lines, unpainted

    wide = output is FullOutputFormat.WIDE
    is_painted = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    text = lines(document, datetime.now(UTC), wide=wide, paint=_paint if is_painted else unpainted)
    return "".join(f"{line}\n" for line in fitted(text))


def _absence(document: StatusReport, namespace: str | None, *, everywhere: bool) -> str:
    """Why no instance is shown."""
    from scheduler.catalog import OPERATOR_NAMESPACE

    if document.not_shown:
        return "no scheduler may be seen: this user lacks the rights that are named above"
    if everywhere:
        return "no scheduler is installed in this cluster"
    advice = "name another namespace with --namespace, or look in all with --all-namespaces"
    return f"no scheduler is installed in namespace {namespace or OPERATOR_NAMESPACE}; {advice}"


def _paint(word: str, state: State) -> str:
    return typer.style(word, fg=_COLOURS[state], bold=state == "failed")
