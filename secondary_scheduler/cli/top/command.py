"""`secondary-scheduler top nodes`: load, requests and pods of the nodes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from secondary_scheduler.cli.errors import CommandError, printable, refusal
from secondary_scheduler.cli.kubeoptions import (
    AsServiceAccountOption,
    ContextOption,
    FullOutputOption,
    KubeconfigOption,
    PortOption,
    SchedulerNamespaceOption,
    SchedulerPodOption,
)
from secondary_scheduler.cli.output import FullOutputFormat, document_text, examples, fitted
from secondary_scheduler.cli.top.usage import NodeUsageList, SortKey
from secondary_scheduler.cli.watching import INTERVAL, IntervalOption, WatchOption, require_watch, show_repeatedly

if TYPE_CHECKING:
    from scheduler.kube.client import ClientConfig
    from secondary_scheduler.cli.schedulers import Schedulers

_EXAMPLES = examples(
    "top nodes", "top nodes --sort-by requests -l pool=batch", "top nodes --watch", "top nodes -o json"
)
_TIMEOUT = 60.0
_PORT = 10259


def register(parent: typer.Typer) -> None:
    """Add the command `top`."""
    group = typer.Typer(help="Show how loaded the nodes are.", no_args_is_help=True, epilog=_EXAMPLES)
    # Without a second command, typer would leave out the first one's name.
    group.callback()(_top)
    group.command("nodes", epilog=_EXAMPLES)(nodes)
    parent.add_typer(group, name="top")


def _top() -> None:
    """Show how loaded the nodes are."""


def nodes(
    call: typer.Context,
    sort_by: Annotated[
        SortKey, typer.Option("--sort-by", help="Largest first; `requests`: CPU or memory, which is the larger share.")
    ] = SortKey.CPU,
    selector: Annotated[str, typer.Option("--selector", "-l", help="Only nodes with these labels.")] = "",
    scheduler_namespace: SchedulerNamespaceOption = None,
    scheduler_pod: SchedulerPodOption = None,
    port: PortOption = _PORT,
    as_service_account: AsServiceAccountOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
    watch: WatchOption = False,
    interval: IntervalOption = INTERVAL,
) -> None:
    """Show load, requests and pods of the nodes.

    The load is that which the scheduler has, with its age; EST adds the pods that came too late to show in it. The
    scheduler is asked through the API server, by a forwarded port of its pod. Exit code 1: nodes cannot be listed.
    """
    require_watch(call, watch=watch)
    from scheduler.kube.client import ConfigError, KubeError
    from secondary_scheduler.cli.connecting import asking_as, load_connection
    from secondary_scheduler.cli.schedulers import schedulers_in

    try:
        config = load_connection(kubeconfig, context)
    except ConfigError as error:
        raise CommandError(printable(str(error))) from error

    def look() -> str:
        asker = asking_as(config, as_service_account)

        def find() -> Schedulers:
            return schedulers_in(config, scheduler_namespace, scheduler_pod, port, asker, "top")

        try:
            document = _read(config, selector, find, sort_by)
        except KubeError as error:
            raise refusal(error, config.server) from error
        return _text(document, output, several=watch)

    if watch:
        show_repeatedly(look, interval)
    typer.echo(look(), nl=False)


def _read(config: ClientConfig, selector: str, find: Callable[[], Schedulers], key: SortKey) -> NodeUsageList:
    from scheduler.catalog import DEFAULT_KUBERNETES, nearest_kubernetes
    from scheduler.config import ClusterVersions, kubernetes_minor
    from scheduler.kube.client import Forbidden, SyncConnection
    from secondary_scheduler.cli.top.reading import PodSums, ReportedLoads, read_loads, read_nodes, read_pods
    from secondary_scheduler.cli.top.usage import usage_document
    from secondary_scheduler.clusterstatus.installed import server_version

    missing: list[str] = []
    pods: PodSums | None = None
    connection = SyncConnection(config, timeout=_TIMEOUT, user_agent="secondary-scheduler/top")
    try:
        capacities = read_nodes(connection, selector)
        minor = kubernetes_minor(ClusterVersions(server_version(connection)))
        try:
            pods = read_pods(connection, DEFAULT_KUBERNETES if minor is None else nearest_kubernetes(minor))
        except Forbidden:
            missing.append("requests and pods: this user needs to list pods in all namespaces")
    finally:
        connection.close()
    if pods is not None and pods.unreadable:
        missing.append(f"requests of {pods.unreadable} pods, which cannot be read")
    if pods is not None and not pods.complete:
        missing.append("further pods: too many to be counted")
    loads = ReportedLoads()
    try:
        loads = read_loads(find())
    except CommandError as error:
        missing.append(f"load: {error}")
    return usage_document(capacities, pods, loads, missing, key, datetime.now(UTC))


def _text(document: NodeUsageList, output: FullOutputFormat, *, several: bool) -> str:
    if output.is_document:
        return ("---\n" if several and output is FullOutputFormat.YAML else "") + document_text(document, output)
    from secondary_scheduler.cli.top.rendering import lines

    wide = output is FullOutputFormat.WIDE
    text = lines(document, wide=wide)
    return "".join(f"{line}\n" for line in (text if wide else fitted(text)))
