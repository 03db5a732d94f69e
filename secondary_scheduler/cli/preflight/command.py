"""`secondary-scheduler preflight`: checks the metric source before anything is installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode
from secondary_scheduler.cli.kubeoptions import ContextOption, FullOutputOption, KubeconfigOption, NamespaceOption
from secondary_scheduler.cli.output import FullOutputFormat, document_text, examples
from secondary_scheduler.cli.typed import require_apart, require_file

if TYPE_CHECKING:
    from secondary_scheduler.cli.preflight.checks import Check
    from secondary_scheduler.cli.preflight.target import AnyTarget

_NAME = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?")
_STYLES = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "dim"}


_EXAMPLES = examples(
    "preflight --config stacks/Pulumi.prod.yaml",
    "preflight --address https://prometheus.example.com --token-file token",
    "preflight --config config.yaml --context prod -o json",
)


def register(parent: typer.Typer) -> None:
    """Add the command `preflight`."""
    parent.command("preflight", epilog=_EXAMPLES)(preflight)


def preflight(
    call: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            help="KubeSchedulerConfiguration, ConfigMap or stack file whose sources and extenders are checked; of a "
            "stack file also its credentials, and what optIn needs.",
        ),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option("--address", help="Check this Prometheus; overrides the address in the file, and needs no file."),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help="File with the source's bearer token.")
    ] = None,
    allow_insecure: Annotated[
        bool,
        typer.Option("--allow-insecure-metric-credentials", help="Send the token over HTTP too."),
    ] = False,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", help="CA that signed the source's certificate.")] = None,
    service_account: Annotated[
        str | None,
        typer.Option(
            "--service-account",
            help="Account to make a short-lived token for: NAMESPACE/NAME, or NAME in --namespace.",
        ),
    ] = None,
    selector: Annotated[
        str, typer.Option("--selector", "-l", help="Demand a load only of nodes with these labels.")
    ] = "",
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    write: Annotated[
        Path | None,
        typer.Option("--write", help="Write the address into this stack file if no check fails."),
    ] = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Check the load source, extenders and what optIn needs.

    Checked are connection, TLS, token, series, labels, nodes and ages; of an extender connection, TLS and verbs; for
    optIn the version, the feature gate and the policies of the API server. On
    OpenShift it finds the route to the cluster's monitoring and uses a short-lived token of a ServiceAccount. It
    changes nothing in the cluster, and calls no extender. Exit code 1: a check failed, and its line says what to do.
    """
    require_apart(call, "token_file", "service_account")
    _check(address, service_account, token_file, ca_file)
    if write is not None:
        from secondary_scheduler.cli.preflight.write import require_stack_file

        require_stack_file(write)
    # Imported here: they take longer to import than all the rest of the command line.
    from secondary_scheduler.cli.preflight.target import PreflightRequest, find_targets

    request = PreflightRequest(
        config,
        address,
        token_file,
        ca_file,
        service_account,
        selector,
        kubeconfig,
        context,
        allow_insecure,
        namespace,
    )
    with find_targets(request) as targets:
        results = [(target, list(target.checks())) for target in targets]
    _show(results, output)
    failed = [check for _, checks in results for check in checks if check.status == "failed"]
    if write is not None and not failed:
        _write(write, [target for target, _ in results])
    if failed:
        if write is not None:
            typer.echo(f"{write}: not changed, as a check failed", err=True)
        raise typer.Exit(ExitCode.ERROR)


def _check(address: str | None, account: str | None, token_file: Path | None, ca_file: Path | None) -> None:
    """Refuse what cannot work before a file or the cluster is read."""
    from scheduler.catalog import address_problem

    if address and (problem := address_problem(address)):
        raise CommandError(f"--address: {problem}", ExitCode.USAGE)
    if account is not None and not all(_NAME.fullmatch(part) for part in account.split("/", 1)):
        raise CommandError(f"--service-account {account}: write NAMESPACE/NAME, or NAME", ExitCode.USAGE)
    require_file(token_file, "--token-file")
    require_file(ca_file, "--ca-file")


def _show(results: Iterable[tuple[AnyTarget, list[Check]]], output: FullOutputFormat) -> None:
    if output.is_document:
        from secondary_scheduler.cli.preflight.checks import CheckedSource, PreflightResult

        sources = [
            CheckedSource(target.description, all(check.status != "failed" for check in checks), checks)
            for target, checks in results
        ]
        typer.echo(document_text(PreflightResult(sources=sources), output), nl=False)
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for target, checks in results:
        table = Table(box=box.SIMPLE_HEAD, title=Text(target.description), title_justify="left")
        for heading, wrap in (("check", True), ("", True), ("found", False), ("what to do", False)):
            table.add_column(heading, no_wrap=wrap, overflow="fold")
        for check in checks:
            # A server's text may hold anything: show it without markup and control characters.
            cells = (check.name, check.status.value, check.finding, check.advice)
            plain = ["".join(c if c.isprintable() else " " for c in cell) for cell in cells]
            style = _STYLES[check.status.value]
            table.add_row(*(Text(cell, style=style if index == 1 else "") for index, cell in enumerate(plain)))
        console.print(table)


def _write(file: Path, targets: Sequence[AnyTarget]) -> None:
    from secondary_scheduler.cli.preflight.write import trusts_services_only, write_address

    addresses = {target.own_address for target in targets if target.key.startswith("Prometheus:")}
    if len(addresses) != 1:
        raise CommandError(f"--write {file}: a stack file holds one Prometheus, and {len(addresses)} were checked")
    address = addresses.pop()
    changed = write_address(file, address)
    typer.echo(f"{file}: metricProvider.address {'is now' if changed else 'was already'} {address}", err=True)
    if trusts_services_only(file, address):
        advice = "use the service's address (….svc), or credentials with the CA of the route"
        typer.echo(f"{file}: credentials.serviceAccount trusts only services of the cluster; {advice}", err=True)
