"""`secondary-scheduler explain`: why pods are where they are, what waits, and what the scheduler knows of a node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import quote

import typer
from typer.core import TyperGroup

from secondary_scheduler.cli import completers
from secondary_scheduler.cli.errors import CommandError, ExitCode, printable, refusal
from secondary_scheduler.cli.kubeoptions import (
    AllNamespacesOption,
    AsServiceAccountOption,
    ContextOption,
    FullOutputOption,
    KubeconfigOption,
    NamespaceOption,
    PortOption,
    SchedulerNamespaceOption,
    SchedulerPodOption,
    namespace_name,
)
from secondary_scheduler.cli.output import FullOutputFormat, examples
from secondary_scheduler.cli.schedulers import PORT, Schedulers, UnknownPodError, find_schedulers
from secondary_scheduler.cli.snapshotoptions import ConfigOption, InstalledPlace, SchedulerOption, SnapshotRequest
from secondary_scheduler.cli.typed import moment, require_apart, require_single_stdin, was_typed
from secondary_scheduler.importing import importing

if TYPE_CHECKING:
    from scheduler.answers import DecisionList, Document
    from secondary_scheduler.cli.explain.objects import Subject


_ONLINE = ("scheduler_namespace", "scheduler_pod", "port", "as_service_account")

SnapshotOption = Annotated[
    list[str] | None,
    typer.Option("--snapshot", metavar="FILE", help="Ask no scheduler but decide on this snapshot; repeatable."),
]
LoadOption = Annotated[
    str | None, typer.Option("--load", metavar="FILE", help="With --snapshot: measured load, as of simulate.")
]
NowOption = Annotated[
    str | None, typer.Option("--now", metavar="TIME", help="With --snapshot: time of the decision, as of simulate.")
]


def offline_request(
    call: typer.Context, snapshot: list[str] | None, config: Path | None, load: str | None, now: str | None
) -> SnapshotRequest | None:
    """Return what the options ask for; None where a running scheduler is asked.

    Raises:
        CommandError: options that exclude each other, or one that is missing.
    """
    if not snapshot:
        if silenced := was_typed(call, "config", "scheduler", "load", "now"):
            raise CommandError(f"{silenced}: only with --snapshot", ExitCode.USAGE)
        return None
    require_apart(call, "snapshot", *_ONLINE)
    require_apart(call, "config", "scheduler", "kubeconfig", "context")
    require_single_stdin([*snapshot, load])
    options = call.params
    place = InstalledPlace(options["scheduler"], options["kubeconfig"], options["context"], "explain")
    time = moment(now, "--now") if now is not None else None
    return SnapshotRequest(snapshot, config, load=load, now=time, place=place)


_POD_EXAMPLES = (
    "explain pod web-1 -n shop",
    "explain pod web-1 -n shop --why-not node-7",
    "explain deployment/web -n shop",
    "explain podgroup/training -n team-a",
    "explain pod web-1 -n shop --snapshot cluster.json",
)
_QUEUE_EXAMPLES = (
    "explain queue -n shop -n batch",
    "explain queue -A --limit 50",
    "explain queue --snapshot cluster.json",
)
_NODE_EXAMPLES = ("explain node node-7", "explain node node-7 --snapshot cluster.json")
_SHADOW_EXAMPLES = ("explain shadow -n shop", "explain shadow -A --limit 50 -o json")
_MAX_LIMIT = 500
_TIMEOUT = 15.0
D = TypeVar("D", bound="Document")


class _Group(TyperGroup):
    """Takes `explain pod/NAME`, `explain deployment/NAME` and `explain podgroup/NAME`, as kubectl does, for
    `explain pod …`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        from secondary_scheduler.cli.explain.objects import type_of

        word, slash, _ = args[0].partition("/")
        kind = type_of(word)
        if kind is not None and slash:
            args = ["pod", *args]
        elif kind in ("deployment", "podgroup") and len(args) > 1:
            args = ["pod", f"{word}/{args[1]}", *args[2:]]
        return super().resolve_command(ctx, args)


def _subjects(call: typer.Context, incomplete: str) -> list[str]:
    """The pods, or behind `deployment/` the Deployments and behind `podgroup/` the PodGroups, of the namespace that is
    named, or of the context's."""
    from secondary_scheduler.cli.explain.objects import type_of
    from secondary_scheduler.clusterstatus.listing import API_VERSIONS

    word, slash, name = incomplete.rpartition("/")
    kind = type_of(word) if slash else "pod"
    if kind is None:
        return []
    namespace = call.params.get("namespace") or ""
    names = completers.names(call, f"{kind}s", namespace, name, API_VERSIONS[kind])
    return [f"{word}{slash}{name}" for name in names]


def register(parent: typer.Typer) -> None:
    """Add the command `explain`."""
    group = typer.Typer(
        cls=_Group,
        help="Say why a pod is where it is, or nowhere, and what waits.",
        no_args_is_help=True,
        epilog=examples(_POD_EXAMPLES[0], _POD_EXAMPLES[1], _QUEUE_EXAMPLES[0], _NODE_EXAMPLES[0]),
    )
    group.command("pod", epilog=examples(*_POD_EXAMPLES))(explain_pod)
    group.command("queue", epilog=examples(*_QUEUE_EXAMPLES))(explain_queue)
    group.command("node", epilog=examples(*_NODE_EXAMPLES))(explain_node)
    group.command("shadow", epilog=examples(*_SHADOW_EXAMPLES))(explain_shadow)
    parent.add_typer(group, name="explain")


def explain_pod(
    call: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            autocompletion=_subjects,
            help="Name of the pod, pod/NAME, or deployment/NAME or podgroup/NAME for one of its pods.",
        ),
    ],
    namespace: NamespaceOption = None,
    why_not: Annotated[
        str | None,
        typer.Option(
            "--why-not",
            metavar="NODE",
            autocompletion=completers.nodes,
            help="Say what every plugin says of this node.",
        ),
    ] = None,
    snapshot: SnapshotOption = None,
    config: ConfigOption = None,
    scheduler: SchedulerOption = None,
    load: LoadOption = None,
    now: NowOption = None,
    scheduler_namespace: SchedulerNamespaceOption = None,
    scheduler_pod: SchedulerPodOption = None,
    port: PortOption = PORT,
    as_service_account: AsServiceAccountOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Why a pod is where it is, or nowhere, or not on a node.

    It shows the last attempts, the scores of the best nodes, who rejected which nodes, and where the pod waits. The
    scheduler is asked through the API server, by a forwarded port of its pod. It needs: list leases, and get and
    create pods/portforward, in the scheduler's namespace; and get pods in the pod's. With --snapshot nothing is asked.
    Of the pods of a Deployment or a PodGroup the one that waits longest is explained, else the newest; it needs to list
    pods, and to get the Deployment. With a member of a gang it shows which domains would take how many members.
    """
    from secondary_scheduler.cli.explain.objects import subject_of
    from secondary_scheduler.cli.explain.rendering import pod_lines, write

    valid, subject = True, subject_of(name)
    request = offline_request(call, snapshot, config, load, now)
    if request is not None:
        with importing():
            # Here, not above: it takes longer than all the rest of the command line.
            from secondary_scheduler.cli.explain.offline import explain_offline
        answer, valid = explain_offline(namespace or "default", subject, why_not, request)
    else:
        schedulers = find_schedulers(
            kubeconfig, context, scheduler_namespace, scheduler_pod, port, account=as_service_account
        )
        answer = _explained(schedulers, namespace or schedulers.config.namespace, subject, why_not)
    write(answer, output, pod_lines(answer, wide=output is FullOutputFormat.WIDE))
    if answer.why_not and answer.why_not.problem:
        raise CommandError(printable(f"--why-not {why_not}: {answer.why_not.problem}"))
    _end(valid)


def _explained(schedulers: Schedulers, namespace: str, subject: Subject, why_not: str | None) -> DecisionList:
    """The answer about a pod, or about one pod of a Deployment or PodGroup; of a pod that no scheduler knows, the
    cluster's word.

    Raises:
        CommandError: there is no answer, and why.
    """
    from msgspec.structs import replace

    from scheduler.kube.client import KubeError, SyncConnection
    from secondary_scheduler.cli.explain.objects import members_of, pods_of, summary_of
    from secondary_scheduler.clusterstatus.listing import read_named
    from secondary_scheduler.clusterstatus.unknownpods import why_unknown, with_forgotten
    from secondary_scheduler.kubeobjects import name_of, node_of

    summary = None
    name = subject.name
    connection = SyncConnection(schedulers.config, timeout=_TIMEOUT, user_agent="secondary-scheduler/explain")
    try:
        if subject.kind != "pod":
            if subject.kind == "podgroup":
                pods = members_of(connection, name, namespace)
            else:
                pods = pods_of(connection, read_named(connection, "deployment", namespace, name), namespace)
            summary, name = summary_of(subject, pods), name_of(pods[0])
        key = f"{namespace}/{name}"
        try:
            answer = schedulers.about_pod(namespace, name, why_not)
        except UnknownPodError as unknown:
            pod = read_named(connection, "pod", namespace, name)
            if why := why_unknown(pod, key, unknown.schedulers):
                raise CommandError(printable(why)) from None
            answer = with_forgotten(pod, schedulers.about_pod(namespace, name, node_of(pod)), key)
        else:
            if why_not is not None and not answer.items and not answer.waiting:
                answer = with_forgotten(read_named(connection, "pod", namespace, name), answer, key)
    except KubeError as error:
        raise refusal(error, schedulers.config.server) from error
    finally:
        connection.close()
    return replace(answer, deployment=summary)


def explain_queue(
    call: typer.Context,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            "-n",
            callback=namespace_name,
            autocompletion=completers.namespaces,
            help="Name the pods of this namespace (default: the context's; with --snapshot all); repeatable.",
        ),
    ] = None,
    all_namespaces: AllNamespacesOption = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=_MAX_LIMIT, help="Pods shown of each queue.")] = 20,
    snapshot: SnapshotOption = None,
    config: ConfigOption = None,
    scheduler: SchedulerOption = None,
    load: LoadOption = None,
    now: NowOption = None,
    scheduler_namespace: SchedulerNamespaceOption = None,
    scheduler_pod: SchedulerPodOption = None,
    port: PortOption = PORT,
    as_service_account: AsServiceAccountOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """What waits to be scheduled, in which queue, since when, and why.

    Pods of the namespaces asked for are named, all others are counted. It needs: list leases, and get and create
    pods/portforward, in the scheduler's namespace; and list pods in each namespace asked for, or in all with -A. With
    --snapshot nothing is asked: each pending pod is tried once.
    """
    from scheduler.answers import QueueReport
    from secondary_scheduler.cli.explain.objects import joined_queues
    from secondary_scheduler.cli.explain.rendering import queue_lines, write

    require_apart(call, "namespace", "all_namespaces")
    request = offline_request(call, snapshot, config, load, now)
    if request is not None:
        with importing():
            from secondary_scheduler.cli.explain.offline import queue_offline
        answer, valid = queue_offline(request, set(namespace or ()), limit)
        write(answer, output, queue_lines(answer))
        _end(valid)
        return
    schedulers = find_schedulers(
        kubeconfig, context, scheduler_namespace, scheduler_pod, port, account=as_service_account
    ).only()
    namespaces = list(dict.fromkeys(namespace or [schedulers.config.namespace]))
    if all_namespaces:
        namespaces = []
    answers = [_about_pods(schedulers, "/debug/queue", place, limit, QueueReport) for place in namespaces or (None,)]
    answer = joined_queues(answers, namespaces, limit)
    write(answer, output, queue_lines(answer))


def explain_node(
    call: typer.Context,
    name: Annotated[str, typer.Argument(autocompletion=completers.nodes, help="Name of the node.")],
    limit: Annotated[int, typer.Option("--limit", min=1, max=_MAX_LIMIT, help="Decisions shown.")] = 10,
    snapshot: SnapshotOption = None,
    config: ConfigOption = None,
    scheduler: SchedulerOption = None,
    load: LoadOption = None,
    now: NowOption = None,
    scheduler_namespace: SchedulerNamespaceOption = None,
    scheduler_pod: SchedulerPodOption = None,
    port: PortOption = PORT,
    as_service_account: AsServiceAccountOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """What the scheduler knows of a node, and its last decisions.

    It needs: list leases, and get and create pods/portforward, in the scheduler's namespace; and get this node. Who may
    also list pods in all namespaces sees which pods were placed there last. With --snapshot nothing is asked.
    """
    from msgspec.structs import replace

    from scheduler.answers import DecisionList, NodeReport
    from secondary_scheduler.cli.explain.rendering import node_lines, write

    request = offline_request(call, snapshot, config, load, now)
    if request is not None:
        with importing():
            from secondary_scheduler.cli.explain.offline import node_offline
        answer, valid = node_offline(request, name, limit)
        write(answer, output, node_lines(answer))
        _end(valid)
        return
    schedulers = find_schedulers(
        kubeconfig, context, scheduler_namespace, scheduler_pod, port, account=as_service_account
    ).only()
    path = f"/debug/nodes/{quote(name, safe='')}"
    answer = schedulers.answer(path, {}, f"get the node {name}", NodeReport)
    last_chosen, query, right = None, {"limit": str(limit)}, "list pods in all namespaces"
    try:
        last_chosen = schedulers.answer(f"{path}/decisions", query, right, DecisionList).items
    except CommandError as error:
        typer.echo(f"the pods that were placed there are not named: {error}", err=True)
    answer = replace(answer, last_chosen=last_chosen)
    write(answer, output, node_lines(answer))


def explain_shadow(
    call: typer.Context,
    namespace: NamespaceOption = None,
    all_namespaces: AllNamespacesOption = False,
    limit: Annotated[int, typer.Option("--limit", min=1, max=_MAX_LIMIT, help="Differences shown.")] = 20,
    scheduler_namespace: SchedulerNamespaceOption = None,
    scheduler_pod: SchedulerPodOption = None,
    port: PortOption = PORT,
    as_service_account: AsServiceAccountOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    output: FullOutputOption = FullOutputFormat.TABLE,
) -> None:
    """Where a shadow profile would have placed pods otherwise.

    Pods of the namespace asked for are named; the counts are of all. It needs: list leases, and get and create
    pods/portforward, in the scheduler's namespace; and list pods in the namespace, or in all with -A.
    """
    from scheduler.answers import ShadowReport
    from secondary_scheduler.cli.explain.rendering import shadow_lines, write

    require_apart(call, "namespace", "all_namespaces")
    schedulers = find_schedulers(
        kubeconfig, context, scheduler_namespace, scheduler_pod, port, account=as_service_account
    ).only()
    place = None if all_namespaces else namespace or schedulers.config.namespace
    answer = _about_pods(schedulers, "/debug/shadow", place, limit, ShadowReport)
    write(answer, output, shadow_lines(answer))


def _about_pods(schedulers: Schedulers, path: str, namespace: str | None, limit: int, form: type[D]) -> D:
    """What the scheduler answers about the pods of a namespace; None: of all."""
    query = {"limit": str(limit)}
    if namespace is None:
        return schedulers.answer(path, query, "list pods in all namespaces", form)
    right = f"list pods in namespace {namespace}"
    return schedulers.answer(f"{path}/namespaces/{quote(namespace, safe='')}", query, right, form)


def _end(valid: bool) -> None:
    """End with the exit code of invalid input where an object of a snapshot was left out."""
    if not valid:
        raise typer.Exit(ExitCode.INVALID_INPUT)
