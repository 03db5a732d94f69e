"""`secondary-scheduler version`: the command line's version, and what a cluster runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import UNSET, UnsetType

from scheduler.answers import Document
from secondary_scheduler.cli.errors import CommandError, explained, printable, refusal
from secondary_scheduler.cli.kubeoptions import (
    AllNamespacesOption,
    ContextOption,
    FullOutputOption,
    KubeconfigOption,
    NamespaceOption,
)
from secondary_scheduler.cli.output import FullOutputFormat, document_text, examples, fitted
from secondary_scheduler.cli.typed import require_apart

if TYPE_CHECKING:
    from secondary_scheduler.clusterstatus.installed import InstalledComponent

_EXAMPLES = examples("version", "version --client", "version --context prod -o json")
_TIMEOUT = 15.0


class VersionReport(Document, frozen=True, kw_only=True, tag="Version"):
    """The command line's version, and what a cluster runs; the latter is missing where none was asked."""

    client: str
    kubernetes: str | UnsetType = UNSET
    server: str | UnsetType = UNSET
    components: list[InstalledComponent] | UnsetType = UNSET


def register(parent: typer.Typer) -> None:
    """Add the command `version`."""
    parent.command("version", epilog=_EXAMPLES)(version)


def version(
    call: typer.Context,
    client: Annotated[bool, typer.Option("--client", help="Only the command line's; asks no cluster.")] = False,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Show the versions of command line, cluster and scheduler.

    Of the cluster: Kubernetes, and the images of operators and schedulers in --namespace (default: the namespace that
    the operator is installed to). Exit code 1: the cluster does not answer.
    """
    from scheduler import __version__

    require_apart(call, "namespace", "all_namespaces")
    require_apart(call, "client", "namespace", "all_namespaces", "kubeconfig", "context")
    known = VersionReport(client=__version__)
    if client:
        _write(known, output)
        return
    from scheduler.catalog import OPERATOR_NAMESPACE

    searched = None if all_namespaces else namespace or OPERATOR_NAMESPACE
    try:
        kubernetes, server, components, missing = _ask(kubeconfig, context, searched)
    except CommandError:
        # What is known without the cluster, as kubectl does.
        _write(known, output)
        raise
    _write(VersionReport(client=__version__, kubernetes=kubernetes, server=server, components=components), output)
    if missing:
        typer.echo(printable(f"operators and schedulers are not shown: {missing}"), err=True)
    elif not components:
        place = f"namespace {searched}" if searched else "any namespace"
        typer.echo(f"no operator or scheduler in {place}; name another with --namespace, or --all-namespaces", err=True)


def _ask(
    kubeconfig: Path | None, context: str | None, namespace: str | None
) -> tuple[str, str, list[InstalledComponent], str]:
    """The cluster's version, its address, what it runs, and why that may not be seen."""
    from scheduler.kube.client import ConfigError, Forbidden, KubeError, SyncConnection
    from secondary_scheduler.cli.connecting import load_connection
    from secondary_scheduler.clusterstatus.installed import installed_components, server_version

    try:
        config = load_connection(kubeconfig, context)
    except ConfigError as error:
        raise CommandError(printable(str(error))) from error
    connection = SyncConnection(config, timeout=_TIMEOUT, user_agent="secondary-scheduler/version")
    try:
        kubernetes = server_version(connection)
        try:
            return kubernetes, config.server, installed_components(connection, namespace), ""
        except Forbidden as error:
            return kubernetes, config.server, [], explained(error)
    except KubeError as error:
        raise refusal(error, config.server) from error
    finally:
        connection.close()


def _write(document: VersionReport, output: FullOutputFormat) -> None:
    if output.is_document:
        typer.echo(document_text(document, output), nl=False)
        return
    lines = [f"Client Version: {document.client}"]
    if document.kubernetes:
        lines.append(f"Kubernetes Version: {document.kubernetes} ({document.server})")
    for component in document.components or ():
        place = f"{component.namespace}/{component.name}"
        lines.append(f"{component.role.capitalize()}: {component.image} ({place}, {component.ready} ready)")
    for line in fitted(map(printable, lines)):
        typer.echo(line)
