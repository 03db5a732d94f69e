"""`secondary-scheduler explain`: why a pod is where it is, or nowhere, as the running scheduler remembers it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from secondary_scheduler.cli.errors import CommandError, printable
from secondary_scheduler.cli.examples import examples
from secondary_scheduler.cli.kubeoptions import (
    ContextOption,
    FullOutputOption,
    KubeconfigOption,
    NamespaceOption,
    PortOption,
    SchedulerNamespaceOption,
    SchedulerPodOption,
)
from secondary_scheduler.cli.output import FullOutputFormat, document_text

if TYPE_CHECKING:
    from scheduler.kube.client import ClientConfig

_EXAMPLES = examples(
    "explain pod web-1 -n shop",
    "explain pod web-1 -n shop -o wide",
    "explain pod web-1 --scheduler-namespace batch-scheduler -o json",
)
_TIMEOUT = 15.0
_PORT = 10259


def register(parent: typer.Typer) -> None:
    """Add the command `explain`."""
    group = typer.Typer(
        help="Say why a pod was placed where it is, or nowhere.",
        no_args_is_help=True,
        epilog=_EXAMPLES,
    )
    group.command("pod", epilog=_EXAMPLES)(explain_pod)
    parent.add_typer(group, name="explain")


def explain_pod(
    name: Annotated[str, typer.Argument(help="Name of the pod.")],
    namespace: NamespaceOption = None,
    scheduler_namespace: SchedulerNamespaceOption = None,
    scheduler_pod: SchedulerPodOption = None,
    port: PortOption = _PORT,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Why a pod was placed where it is, or nowhere.

    It shows the last attempts, the scores of the best nodes, who rejected which nodes, and where the pod waits. The
    scheduler is asked through the API server, by a forwarded port of its pod. It needs: list leases, and get and
    create pods/portforward, in the scheduler's namespace; and get pods in the pod's.
    """
    from scheduler.catalog import OPERATOR_NAMESPACE
    from scheduler.kube.client import ConfigError, KubeError
    from secondary_scheduler.cli.connecting import load_connection

    try:
        config = load_connection(kubeconfig, context)
        place = scheduler_namespace or OPERATOR_NAMESPACE
        pods = [scheduler_pod] if scheduler_pod else _leaders(config, place)
    except (ConfigError, KubeError) as error:
        raise CommandError(printable(str(error))) from error
    answer = _ask(config, place, pods, port, namespace or config.namespace, name)
    if output.is_document:
        typer.echo(document_text(answer, output), nl=False)
    else:
        from secondary_scheduler.cli.explain.rendering import lines

        for line in lines(answer, wide=output is FullOutputFormat.WIDE):
            typer.echo(line)


def _leaders(config: ClientConfig, namespace: str) -> list[str]:
    from scheduler.kube.client import SyncConnection
    from secondary_scheduler.cli.leaders import leading_pods

    connection = SyncConnection(config, timeout=_TIMEOUT, user_agent="secondary-scheduler/explain")
    try:
        pods = leading_pods(connection, namespace)
    finally:
        connection.close()
    if not pods:
        raise CommandError(
            f"no scheduler leads in namespace {namespace}; name its namespace with --scheduler-namespace, or its pod "
            "with --scheduler-pod where it runs without leader election"
        )
    return pods


def _ask(
    config: ClientConfig, namespace: str, pods: list[str], port: int, pod_namespace: str, name: str
) -> dict[str, Any]:
    """Return the answer of the scheduler that knows the pod."""
    from secondary_scheduler.cli.forwarding import get

    path = f"/debug/decisions/namespaces/{quote(pod_namespace, safe='')}"
    for pod in pods:
        answer = get(config, namespace, pod, port, path, {"pod": name})
        if answer.status == 200:
            document: dict[str, Any] = json.loads(answer.body)
            if document.get("items") or document.get("waiting"):
                return document
            continue
        right = f"to get pods in namespace {pod_namespace}"
        absent = "it serves no decisions: it is older, or runs with --decision-history=0"
        raise CommandError(f"{namespace}/{pod} answers {answer.refusal(right, absent)}")
    schedulers = ", ".join(pods)
    raise CommandError(
        printable(
            f"{pod_namespace}/{name}: unknown to {schedulers}; it belongs to another scheduler, was never seen, or its "
            "attempts have been forgotten (--decision-history, or a restart)"
        )
    )
