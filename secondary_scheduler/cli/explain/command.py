"""`secondary-scheduler explain`: why a pod is where it is, or nowhere, as the running scheduler remembers it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from secondary_scheduler.cli.errors import CommandError, printable
from secondary_scheduler.cli.examples import examples
from secondary_scheduler.cli.explain.output import ExplainFormat
from secondary_scheduler.cli.kubeoptions import ContextOption, KubeconfigOption, NamespaceOption

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
    scheduler_namespace: Annotated[
        str | None,
        typer.Option("--scheduler-namespace", help="Namespace that the scheduler runs in (default: the operator's)."),
    ] = None,
    scheduler_pod: Annotated[
        str | None, typer.Option("--scheduler-pod", help="Pod of the scheduler to ask (default: those that lead).")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="The scheduler's --secure-port.")] = _PORT,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: Annotated[ExplainFormat, typer.Option("-o", "--output", help="Form of the output.")] = ExplainFormat.TABLE,
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
    if output is ExplainFormat.JSON:
        typer.echo(json.dumps(answer, indent=2))
    elif output is ExplainFormat.YAML:
        from secondary_scheduler.cli.yamltext import dump_yaml

        typer.echo(dump_yaml(answer).decode(), nl=False)
    else:
        from secondary_scheduler.cli.explain.rendering import lines

        for line in lines(answer, wide=output is ExplainFormat.WIDE):
            typer.echo(line)


def _leaders(config: ClientConfig, namespace: str) -> list[str]:
    from scheduler.kube.client import SyncConnection
    from secondary_scheduler.cli.explain.leaders import leading_pods

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
    from secondary_scheduler.cli.explain.forwarding import get

    path = f"/debug/decisions/namespaces/{quote(pod_namespace, safe='')}"
    for pod in pods:
        answer = get(config, namespace, pod, port, path, {"pod": name})
        if answer.status == 200:
            document: dict[str, Any] = json.loads(answer.body)
            if document.get("items") or document.get("waiting"):
                return document
            continue
        reason = printable(answer.body[:300].decode("utf-8", "replace").strip())
        advice = _advice(answer.status, pod_namespace, reason)
        raise CommandError(f"{namespace}/{pod} answers {answer.status}: {reason}{advice}")
    schedulers = ", ".join(pods)
    raise CommandError(
        printable(
            f"{pod_namespace}/{name}: unknown to {schedulers}; it belongs to another scheduler, was never seen, or its "
            "attempts have been forgotten (--decision-history, or a restart)"
        )
    )


def _advice(status: int, namespace: str, reason: str) -> str:
    if "bearer token is needed" in reason:
        return (
            "; this kubeconfig's user has a client certificate, which a scheduler without --client-ca-file does not "
            "know: use a user with a token"
        )
    if status == 403:
        return f"; this user needs to get pods in namespace {namespace}"
    if status == 404:
        return "; it serves no decisions: it is older, or runs with --decision-history=0"
    return ""
