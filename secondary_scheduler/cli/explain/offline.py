"""The answer about a pod of a snapshot, in the form in which a running scheduler answers: it is decided by the same
core, after the pods that go before it, as `simulate` does."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

import msgspec
import typer
from msgspec import Struct, structs

from scheduler.answers import (
    Decision,
    DecisionList,
    NodeReport,
    NodeVerdict,
    PlacedPod,
    Queue,
    QueueReport,
    WaitingPod,
)
from scheduler.core import detail_of, explain, judge_node, without_own_use
from scheduler.engine import node_report, why_not
from scheduler.framework import PodInfo
from scheduler.kube.primitives import format_seconds
from secondary_scheduler.cli.configurations import chosen_configuration, conditions_of, selection_of
from secondary_scheduler.cli.errors import CommandError, ExitCode, printable
from secondary_scheduler.cli.explain.objects import Subject, explained_first, is_member, summary_of
from secondary_scheduler.cli.output import counted
from secondary_scheduler.cli.snapshotoptions import SnapshotRequest
from secondary_scheduler.clusterstatus.listing import suggestion
from secondary_scheduler.kubeobjects import KubeObject, decode_bare_pod, name_of
from secondary_scheduler.simulation.deciding import (
    GATED,
    PLACED,
    UNDECIDED,
    UNSCHEDULABLE,
    PodOutcome,
    decision_of,
    result_of,
    waited,
)
from secondary_scheduler.simulation.objects import NamedObject, RecordedObjects, read_recorded
from secondary_scheduler.simulation.report import InputReport
from secondary_scheduler.simulation.settingup import ReadyCluster, load_sources, set_up

_BEST_NODES = 5
_NOT_AGAIN = "it would not be placed there again; --why-not says why"


@dataclass(frozen=True, slots=True)
class Offline:
    """A snapshot that is ready to decide on, the objects it is made of, and what is wrong with them."""

    ready: ReadyCluster
    objects: RecordedObjects
    report: InputReport

    def finish(self) -> bool:
        """Tell what was left out; returns whether all objects were valid."""
        self.report.close()
        return not self.report.invalid


def read_offline(request: SnapshotRequest) -> Offline:
    """Read a snapshot.

    Raises:
        CommandError: a file cannot be used.
    """
    report = InputReport(lambda text: typer.echo(text, err=True))
    objects = read_recorded(request.files, report)
    configuration = chosen_configuration("--config", request.config, request.place, objects, report)
    conditions = conditions_of(request, report)
    # Whether anything waits matters to those who ask about the queue, and is told there.
    ready = set_up(
        configuration, selection_of(request, configuration), objects, conditions, report, about_pending=False
    )
    return Offline(ready, objects, report)


def explain_offline(
    namespace: str, subject: Subject, node: str | None, request: SnapshotRequest
) -> tuple[DecisionList, bool]:
    """Return the answer about a pod, or about one pod of a Deployment or PodGroup, and what is said of a node, if one
    is named; and whether all objects were valid.

    Raises:
        CommandError: the pod is not in the files, belongs to no profile, or a file cannot be used.
    """
    offline = read_offline(request)
    ready, name, summary = offline.ready, subject.name, None
    if subject.kind != "pod":
        of_subject = _recorded_members if subject.kind == "podgroup" else _recorded_pods
        pods = of_subject(offline.objects, namespace, name)
        summary, name = summary_of(subject, pods), name_of(pods[0])
    key, attempts = f"{namespace}/{name}", ready.assembly.attempts
    placed = next((pod for pod in attempts.state.pods() if pod.key == key), None)
    if placed is not None:
        pod, decision = placed, _placed(ready, placed)
    else:
        pending = [pod for pod in ready.cluster.pending if pod.key == key]
        if not pending:
            raise CommandError(printable(f"{key}: {_why_absent(offline, namespace, name)}"), ExitCode.INVALID_INPUT)
        simulation = ready.simulation(lambda placement: placement.pod.key == key)
        outcome = next((candidate for candidate in simulation.run(ready.cluster.pending) if candidate.pod == key), None)
        if outcome is None:
            raise CommandError(printable(f"{key}: nothing was decided about it"), ExitCode.INVALID_INPUT)
        result = "unschedulable" if outcome.node is None else "scheduled"
        decision = decision_of(outcome, pending[0], result, ready.assembly, _BEST_NODES)
        # With its node, if it was given one: it is judged without its own use, as a placed pod is.
        pod = attempts.state.pod(pending[0].uid) or pending[0]
    answer = DecisionList(
        items=(decision,),
        waiting=None,
        why_not=None if node is None else why_not(attempts, pod, node),
        deployment=summary,
    )
    return answer, offline.finish()


def _why_absent(offline: Offline, namespace: str, name: str) -> str:
    """Say why a snapshot has neither a node nor a decision for a pod."""
    key, cluster = f"{namespace}/{name}", offline.ready.cluster
    for undecidable in cluster.undecidable:
        if undecidable.key == key:
            return f"nothing can be decided about it: {undecidable.reason}"
    named = [pod for pod in offline.objects.of("Pod") if pod.name == name]
    recorded = next((pod for pod in named if pod.namespace == namespace), None)
    if recorded is None:
        elsewhere = sorted({pod.namespace for pod in named})[:3]
        hint = f"; one of this name is in {' and in '.join(elsewhere)}: -n {elsewhere[0]}" if elsewhere else ""
        return f"the snapshot has no such pod{hint}"
    try:
        pod = decode_bare_pod(recorded.entry.data)
    except msgspec.MsgspecError:
        return "it is not valid, and left out"
    if pod.has_ended:
        return f"it has ended ({pod.status.phase}), so no node is judged for it"
    names = offline.ready.configuration.scheduler_names
    if pod.spec.scheduler_name not in names:
        return (
            f"it waits for {pod.spec.scheduler_name}; the configuration decides for {', '.join(names)}. "
            f"`simulate --as-scheduler {pod.spec.scheduler_name}` decides about such pods, too"
        )
    return "it is not valid, and left out"


def _placed(ready: ReadyCluster, pod: PodInfo) -> Decision:
    """A pod that has a node in the snapshot, as if it were decided about now."""
    attempts = ready.assembly.attempts
    not_judged = "it belongs to another scheduler, so nothing is judged"
    unknown = PodOutcome(pod.key, pod.scheduler_name, pod.node_name, not_judged)
    decision = decision_of(unknown, pod, PLACED, ready.assembly, _BEST_NODES)
    if pod.scheduler_name not in attempts.runners:
        return decision
    view, waiting = without_own_use(attempts.snapshot(), pod)
    runner = attempts.runner_of(pod)
    explanation = explain(view, waiting, runner)
    fits = view.row(pod.node_name) in explanation.feasible
    return structs.replace(
        decision,
        message=_again(judge_node(view, waiting, runner, pod.node_name, None)) if fits else _NOT_AGAIN,
        details=detail_of(explanation, view, runner, pod.node_name if fits else None, _BEST_NODES),
    )


def _again(verdict: NodeVerdict) -> str:
    """Where a pod's node would stand, if the pod were decided again."""
    if verdict.rank is None:
        return ""
    equally = f", as well as {counted(verdict.ties - 1, 'other')}" if verdict.ties > 1 else ""
    return f"decided again, this node would be number {verdict.rank} of {verdict.feasible} that fit{equally}"


class _Owner(Struct):
    kind: str = ""
    name: str = ""


class _OwnedMeta(Struct, rename="camel"):
    owner_references: list[_Owner] | None = None


class _Owned(Struct):
    metadata: _OwnedMeta


_owned = msgspec.json.Decoder(_Owned)


def _recorded_pods(objects: RecordedObjects, namespace: str, deployment: str) -> list[KubeObject]:
    """Return the pods of a Deployment that have not ended, in the order of `explained_first`.

    By their owners, as a snapshot keeps no selectors of Deployments.

    Raises:
        CommandError: the snapshot has no such Deployment, or no pod of it.
    """
    title = f"deployment {namespace}/{deployment}"
    replica_sets = [obj for obj in objects.of("ReplicaSet") if obj.namespace == namespace]
    sets = {obj.name for obj in replica_sets if _is_owned(obj, "Deployment", {deployment})}
    names = {obj.name for obj in objects.of("Deployment") if obj.namespace == namespace}
    if not sets and deployment not in names:
        elsewhere = sorted({obj.namespace for obj in objects.of("Deployment") if obj.name == deployment})[:3]
        hint = f"; one of this name is in {' and in '.join(elsewhere)}: -n {elsewhere[0]}" if elsewhere else ""
        problem = f"{title}: the snapshot has no such Deployment{hint or suggestion(deployment, names)}"
        raise CommandError(printable(problem), ExitCode.INVALID_INPUT)
    pods: list[KubeObject] = [
        msgspec.json.decode(obj.entry.data)
        for obj in objects.of("Pod")
        if obj.namespace == namespace and _is_owned(obj, "ReplicaSet", sets)
    ]
    if not (ordered := explained_first(pods)):
        raise CommandError(printable(f"{title} has no pods in the snapshot"), ExitCode.INVALID_INPUT)
    return ordered


def _recorded_members(objects: RecordedObjects, namespace: str, group: str) -> list[KubeObject]:
    """Return the pods of a PodGroup that have not ended, in the order of `explained_first`.

    Raises:
        CommandError: no pod of the snapshot names it.
    """
    pods = (msgspec.json.decode(obj.entry.data) for obj in objects.of("Pod") if obj.namespace == namespace)
    if not (ordered := explained_first(pod for pod in pods if is_member(pod, group))):
        problem = f"podgroup {namespace}/{group}: no pod of the snapshot names it that has not ended"
        raise CommandError(printable(problem), ExitCode.INVALID_INPUT)
    return ordered


def _is_owned(obj: NamedObject, kind: str, names: Collection[str]) -> bool:
    try:
        owners = _owned.decode(obj.entry.data).metadata.owner_references or ()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return any(owner.kind == kind and owner.name in names for owner in owners)


_QUEUES = {PLACED: "active", UNSCHEDULABLE: "unschedulable", GATED: "gated", UNDECIDED: "undecided"}
"""The queue of a pod after one attempt, by its result."""
_MAX_SCHEDULERS = 10


def queue_offline(request: SnapshotRequest, namespaces: Collection[str], limit: int) -> tuple[QueueReport, bool]:
    """Return what waits in a snapshot, and whether all its objects were valid.

    Args:
        request: the snapshot.
        namespaces: whose pods are named; empty: of all.
        limit: pods shown of each queue.

    Raises:
        CommandError: a file cannot be used.
    """
    offline = read_offline(request)
    ready, cluster = offline.ready, offline.ready.cluster
    pods: Counter[str] = Counter()
    readable: dict[str, list[WaitingPod]] = {name: [] for name in _QUEUES.values()}

    def add(item: WaitingPod) -> None:
        pods[item.queue] += 1
        if not namespaces or item.pod.partition("/")[0] in namespaces:
            readable[item.queue].append(item)

    by_key = {pod.key: pod for pod in cluster.pending}
    state = ready.assembly.attempts.state
    for place, outcome in enumerate(ready.simulation().run(cluster.pending), 1):
        pod = by_key[outcome.pod]
        queue = _QUEUES[result_of(outcome, pod, ready.assembly.attempts.runner_of(pod), state)]
        add(_waiting(ready, pod, outcome, queue, place))
    for broken in cluster.undecidable:
        undecided = _QUEUES[UNDECIDED]
        add(WaitingPod(pod=broken.key, queue=undecided, priority=None, since=None, seconds=None, why=broken.reason))
    queues = [
        Queue(name, pods[name], len(items), tuple(items[:limit]))
        for name, items in readable.items()
        if name != _QUEUES[UNDECIDED] or pods[name]
    ]
    others = dict(cluster.others.most_common(_MAX_SCHEDULERS))
    answer = QueueReport(simulated=True, namespaces=tuple(sorted(namespaces)), queues=tuple(queues), others=others)
    return answer, offline.finish()


def node_offline(request: SnapshotRequest, name: str, limit: int) -> tuple[NodeReport, bool]:
    """Return what a snapshot says of a node, with at most `limit` of the pods that would be placed there, and whether
    all its objects were valid.

    Raises:
        CommandError: there is no such node, or a file cannot be used.
    """
    offline = read_offline(request)
    ready = offline.ready
    if ready.load is not None and not load_sources(ready.configuration):
        # Of interest, although no profile reads it, and nothing is decided by it.
        ready.cluster.state.set_load(replace(ready.load, source="the snapshot"))
    snapshot = ready.assembly.attempts.snapshot()
    row = snapshot.row(name)
    if row < 0:
        names = sorted(ready.cluster.state.node_names)
        hint = f"it has {len(names):,}, such as {names[0]}" if names else "it has none"
        raise CommandError(printable(f"{name}: no node of the snapshot has this name; {hint}"), ExitCode.INVALID_INPUT)
    # As it is in the snapshot: before anything is placed.
    report = node_report(snapshot, row)
    outcomes = list(ready.simulation().run(ready.cluster.pending))
    coming = [outcome for outcome in outcomes if outcome.node == name]
    answer = structs.replace(
        report,
        simulated=True,
        pending=len(outcomes),
        placed=len(coming),
        would_place=tuple(PlacedPod(outcome.pod, outcome.scheduler_name) for outcome in coming[:limit]),
    )
    return answer, offline.finish()


def _waiting(ready: ReadyCluster, pod: PodInfo, outcome: PodOutcome, queue: str, place: int) -> WaitingPod:
    waits = waited(pod, ready.now)
    is_placed = outcome.node is not None
    rejectors = sorted(outcome.placement.rejectors) if outcome.placement is not None else []
    return WaitingPod(
        pod=pod.key,
        uid=pod.uid,
        scheduler_name=pod.scheduler_name,
        queue=queue,
        priority=pod.priority,
        since=None if math.isnan(pod.created_at) else format_seconds(pod.created_at),
        seconds=None if waits is None else round(waits, 3),
        position=place if is_placed else None,
        node=outcome.node,
        why=None if is_placed else ", ".join(rejectors) or outcome.message or "",
    )
