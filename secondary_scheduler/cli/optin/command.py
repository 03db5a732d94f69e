"""`secondary-scheduler opt-in`: whose pods get the scheduler's name as they are created."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from secondary_scheduler.cli.errors import CommandError, ExitCode, printable, refusal
from secondary_scheduler.cli.kubeoptions import (
    AllNamespacesOption,
    ContextOption,
    FullOutputOption,
    KubeconfigOption,
    NamespaceOption,
)
from secondary_scheduler.cli.output import FullOutputFormat, document_text, examples, fitted, say
from secondary_scheduler.cli.typed import require_apart

if TYPE_CHECKING:
    from scheduler.kube.client import SyncConnection
    from secondary_scheduler.cli.optin.probing import ProbeAnswer
    from secondary_scheduler.cli.optin.status import OptInSituation
    from secondary_scheduler.cli.optinpolicies import OptInPolicy, OptInReason

_STATUS = examples("opt-in status", "opt-in status -A", "opt-in status -n shop -o json")
_CHECK = examples("opt-in check -n shop", "opt-in check -n shop --wait 30 -o yaml")
_TIMEOUT = 30.0
_MAX_BYTES = 32 << 20
_PAUSE = 0.5


def register(parent: typer.Typer) -> None:
    """Add the group `opt-in`."""
    group = typer.Typer(
        help="Show and check whose pods are moved to the scheduler.",
        no_args_is_help=True,
        epilog=examples("opt-in status -A", "opt-in check -n shop"),
    )
    group.command("status", epilog=_STATUS)(status)
    group.command("check", epilog=_CHECK)(check)
    parent.add_typer(group, name="opt-in")


def status(
    call: typer.Context,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Count pods and pod templates by scheduler, per namespace.

    It shows how many pods a policy would move when their controllers replace them, and scheduler names whose pods wait
    without an attempt. It needs: list namespaces (or get, with --namespace), pods, deployments, statefulsets,
    replicasets, jobs and cronjobs; and list mutatingadmissionpolicies and their bindings.
    """
    from secondary_scheduler.cli.optin.rendering import status_lines
    from secondary_scheduler.cli.optin.status import Census, take_census

    require_apart(call, "namespace", "all_namespaces")
    with _connected(kubeconfig, context) as (connection, own):
        chosen = None if all_namespaces else namespace or own
        policies = _policies(connection)
        census = Census(policies, _labels(connection, chosen), datetime.now(UTC))
        take_census(connection, census, chosen, say)
    status = census.status()
    if not output.is_document:
        for line in fitted(status_lines(status)):
            typer.echo(line)
    else:
        typer.echo(document_text(status, output), nl=False)


def check(
    namespace: NamespaceOption = None,
    wait: Annotated[
        float, typer.Option("--wait", min=0, max=600, help="Seconds that a new policy gets to take effect.")
    ] = 5.0,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Ask the API server which pods of a namespace it would move.

    The pods are sent with dryRun=All, so none is created; admission webhooks that support it are asked, too. It needs:
    create pods in the namespace (and in kube-system, else that row is refused), get the namespace, and list
    mutatingadmissionpolicies and their bindings. Exit code 3: an ordinary pod is not moved, or another pod is not
    treated as expected.
    """
    from secondary_scheduler.cli.optin.rendering import as_expected, check_document, check_lines

    with _connected(kubeconfig, context) as (connection, own):
        situation = _situation(connection, namespace or own)
        reason, detail, answers = _examine(connection, situation, wait)
    if not output.is_document:
        for line in fitted(check_lines(situation, reason, detail, answers)):
            typer.echo(line)
    else:
        typer.echo(document_text(check_document(situation, reason, detail, answers), output), nl=False)
    if reason.value != "moved" or not all(as_expected(answer, reason) for answer in answers):
        raise typer.Exit(ExitCode.DIFFERENCES)


def _situation(connection: SyncConnection, namespace: str) -> OptInSituation:
    from secondary_scheduler.cli.optin.status import OptInSituation
    from secondary_scheduler.cli.optinpolicies import gate_enabled, served_version
    from secondary_scheduler.clusterstatus.listing import read_object

    version = str(read_object(connection.get("/version"), "/version").get("gitVersion") or "unknown")
    labels = _labels(connection, namespace)[namespace]
    policies = _policies(connection)
    return OptInSituation(version, served_version(connection), gate_enabled(connection), policies, namespace, labels)


def _examine(
    connection: SyncConnection, situation: OptInSituation, wait: float
) -> tuple[OptInReason, str, list[ProbeAnswer]]:
    """Ask about all pods; where a policy should move the ordinary one, until it does or the time is over."""
    from secondary_scheduler.cli.optin.probing import ask, cases
    from secondary_scheduler.cli.optinpolicies import OptInReason

    labels: dict[str, Any] = {}
    for policy in situation.policies:
        for binding in policy.opts_in(situation.namespace, situation.labels):
            labels |= binding.pod_labels
    ordinary, *others = cases(situation.namespace, labels)
    obstacle = situation.obstacle()
    deadline = time.monotonic() + wait
    answer = ask(connection, ordinary)
    while obstacle is None and not answer.moved and not answer.refusal and time.monotonic() < deadline:
        time.sleep(_PAUSE)
        answer = ask(connection, ordinary)
    answers = [answer, *(ask(connection, case) for case in others)]
    if answer.refusal:
        return OptInReason.REFUSED, f"the API server refuses a pod, so nothing can be said: {answer.refusal}", answers
    if answer.moved:
        return OptInReason.MOVED, f"it gets schedulerName {answer.scheduler_name}", answers
    reason, detail = obstacle or situation.not_evaluated()
    return reason, detail, answers


def _policies(connection: SyncConnection) -> list[OptInPolicy]:
    from secondary_scheduler.cli.optinpolicies import read_policies, served_version

    version = served_version(connection)
    return read_policies(connection, version) if version else []


def _labels(connection: SyncConnection, namespace: str | None) -> dict[str, dict[str, str]]:
    """Labels of a namespace, or of all, by name."""
    from scheduler.kube.client import api_path
    from secondary_scheduler.clusterstatus.listing import list_items, read_object

    path = api_path("v1", "namespaces", name=namespace)
    items = list_items(connection, path) if namespace is None else iter([read_object(connection.get(path), path)])
    return {str(item["metadata"]["name"]): item["metadata"].get("labels") or {} for item in items}


@contextlib.contextmanager
def _connected(kubeconfig: Path | None, context: str | None) -> Iterator[tuple[SyncConnection, str]]:
    """A connection, and the namespace of the kubeconfig's context; what goes wrong within is one line."""
    from scheduler.kube.client import ConfigError, KubeError, SyncConnection
    from secondary_scheduler.cli.connecting import load_connection

    try:
        config = load_connection(kubeconfig, context)
    except ConfigError as error:
        raise CommandError(printable(str(error))) from error
    agent = "secondary-scheduler/opt-in"
    connection = SyncConnection(config, timeout=_TIMEOUT, user_agent=agent, max_bytes=_MAX_BYTES)
    try:
        yield connection, config.namespace
    except KubeError as error:
        raise refusal(error, config.server) from error
    finally:
        connection.close()
