"""The answer about a pod of a snapshot, in the form in which a running scheduler answers: it is decided by the same
core, after the pods that go before it, as `simulate` does."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import typer
from msgspec import Struct

from scheduler.core import NodeVerdict, detail_of, explain, judge_node, without_own_use
from scheduler.engine import node_facts
from scheduler.framework import PodInfo
from scheduler.kube.primitives import format_time
from secondary_scheduler.cli.configurations import chosen_configuration
from secondary_scheduler.cli.errors import CommandError, ExitCode, printable
from secondary_scheduler.cli.explain.objects import Json, Subject, explained_first, summary_of
from secondary_scheduler.cli.explain.request import OfflineRequest
from secondary_scheduler.cli.output import counted
from secondary_scheduler.clusterstatus.listing import name_of, suggestion
from secondary_scheduler.simulation.cluster import PodSelection, read_load
from secondary_scheduler.simulation.deciding import GATED, PLACED, UNDECIDED, UNSCHEDULABLE, Outcome, result_of, waited
from secondary_scheduler.simulation.documents import read_objects
from secondary_scheduler.simulation.objects import NamedObject, RecordedObjects, read_recorded
from secondary_scheduler.simulation.report import Report
from secondary_scheduler.simulation.settingup import Conditions, ReadyCluster, load_sources, set_up

_QUEUES = {PLACED: "active", UNSCHEDULABLE: "unschedulable", GATED: "gated", UNDECIDED: "undecided"}
"""The queue of a pod after one attempt, by its result."""
_MOST_SCHEDULERS = 10


def queue_offline(request: OfflineRequest, namespaces: Collection[str], limit: int) -> tuple[dict[str, Any], bool]:
    """Return what waits in a snapshot, as a QueueReport, and whether all its objects were valid.

    Args:
        request: the snapshot.
        namespaces: whose pods are named; empty: of all.
        limit: pods shown of each queue.

    Raises:
        CommandError: a file cannot be used.
    """
    offline = read_offline(request)
    ready, cluster = offline.ready, offline.ready.cluster
    queues: dict[str, dict[str, Any]] = {
        name: {"queue": name, "pods": 0, "readable": 0, "items": []} for name in _QUEUES.values()
    }

    def add(name: str, namespace: str, item: dict[str, Any]) -> None:
        queue = queues[name]
        queue["pods"] += 1
        if namespaces and namespace not in namespaces:
            return
        queue["readable"] += 1
        if len(queue["items"]) < limit:
            queue["items"].append(item)

    by_key = {pod.key: pod for pod in cluster.pending}
    state = ready.assembly.attempts.state
    for place, outcome in enumerate(ready.simulation().run(cluster.pending), 1):
        pod = by_key[outcome.pod]
        name = _QUEUES[result_of(outcome, pod, ready.assembly.attempts.runner_of(pod), state)]
        add(name, pod.namespace, _item(ready, pod, outcome, name, place))
    for broken in cluster.undecidable:
        item = {"pod": broken.key, "priority": None, "seconds": None, "since": None, "why": broken.reason}
        add("undecided", broken.key.partition("/")[0], item)
    if not queues["undecided"]["pods"]:
        del queues["undecided"]
    answer = {
        "apiVersion": "secondary-scheduler.io/v1",
        "kind": "QueueReport",
        "simulated": True,
        "namespaces": sorted(namespaces),
        "queues": list(queues.values()),
        "others": dict(cluster.others.most_common(_MOST_SCHEDULERS)),
    }
    return answer, offline.finish()


def node_offline(request: OfflineRequest, name: str, limit: int) -> tuple[dict[str, Any], bool]:
    """Return what a snapshot says of a node, as a NodeReport, and whether all its objects were valid.

    `wouldPlace` are the pending pods that would be placed there, at most `limit`; `placed` how many these are.

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
    answer = {**node_facts(snapshot, row), "simulated": True}
    outcomes = list(ready.simulation().run(ready.cluster.pending))
    coming = [outcome for outcome in outcomes if outcome.node == name]
    answer["pending"], answer["placed"] = len(outcomes), len(coming)
    answer["wouldPlace"] = [{"pod": outcome.pod, "schedulerName": outcome.scheduler_name} for outcome in coming[:limit]]
    return answer, offline.finish()


def _item(ready: ReadyCluster, pod: PodInfo, outcome: Outcome, name: str, place: int) -> dict[str, Any]:
    waits = waited(pod, ready.now)
    created = None if math.isnan(pod.created_at) else format_time(datetime.fromtimestamp(pod.created_at, UTC))
    shown: dict[str, Any] = {
        "pod": pod.key,
        "uid": pod.uid,
        "schedulerName": pod.scheduler_name,
        "queue": name,
        "priority": pod.priority,
        "since": created,
        "seconds": None if waits is None else round(waits, 3),
    }
    if outcome.node is not None:
        return {**shown, "position": place, "node": outcome.node}
    rejectors = sorted(outcome.placement.rejectors) if outcome.placement is not None else []
    return {**shown, "why": ", ".join(rejectors) or outcome.message or ""}


_BEST_NODES = 5
_NOT_AGAIN = "it would not be placed there again; --why-not says why"
_SEED = 0
"""As `simulate` without --seed."""


@dataclass(frozen=True, slots=True)
class Offline:
    """A snapshot that is ready to decide on, the objects it is made of, and what is wrong with them."""

    ready: ReadyCluster
    objects: RecordedObjects
    report: Report

    def finish(self) -> bool:
        """Tell what was left out; returns whether all objects were valid."""
        self.report.close()
        return not self.report.invalid


def read_offline(request: OfflineRequest) -> Offline:
    """Read a snapshot.

    Raises:
        CommandError: a file cannot be used.
    """
    report = Report(lambda text: typer.echo(text, err=True))
    objects = read_recorded(request.files, report)
    configuration = chosen_configuration("--config", request.config, request.place, objects, report)
    selection = PodSelection(configuration.scheduler_names, {})
    measured = read_load(read_objects(request.load), request.load, report) if request.load is not None else None
    conditions = Conditions(_SEED, request.now, measured)
    # Whether anything waits matters to those who ask about the queue, and is told there.
    ready = set_up(configuration, selection, objects, conditions, report, about_pending=False)
    return Offline(ready, objects, report)


def explain_offline(
    namespace: str, subject: Subject, why_not: str | None, request: OfflineRequest
) -> tuple[dict[str, Any], bool]:
    """Return the answer about a pod, or about one pod of a Deployment, and whether all objects were valid. The decision
    has `simulated`.

    Raises:
        CommandError: the pod is not in the files, belongs to no profile, or a file cannot be used.
    """
    offline = read_offline(request)
    ready, name, summary = offline.ready, subject.name, {}
    if subject.kind == "deployment":
        pods = _recorded_pods(offline.objects, namespace, name)
        summary, name = {"deployment": summary_of(name, pods)}, name_of(pods[0])
    key = f"{namespace}/{name}"
    answer: dict[str, Any] = {"apiVersion": "secondary-scheduler.io/v1", "kind": "DecisionList", "waiting": None}
    placed = next((pod for pod in ready.assembly.attempts.state.pods() if pod.key == key), None)
    if placed is not None:
        pod = placed
        answer["items"] = [_placed(ready, placed)]
    else:
        pending = [pod for pod in ready.cluster.pending if pod.key == key]
        if not pending:
            raise CommandError(printable(f"{key}: {_why_absent(offline, namespace, name)}"), ExitCode.INVALID_INPUT)
        simulation = ready.simulation(lambda placement: placement.pod.key == key)
        outcome = next((each for each in simulation.run(ready.cluster.pending) if each.pod == key), None)
        if outcome is None:
            raise CommandError(printable(f"{key}: nothing was decided about it"), ExitCode.INVALID_INPUT)
        answer["items"] = [_decided(ready, pending[0], outcome)]
        # With its node, if it was given one: it is judged without its own use, as a placed pod is.
        pod = ready.assembly.attempts.state.pod(pending[0].uid) or pending[0]
    if why_not is not None:
        answer["whyNot"] = _why_not(ready, pod, why_not)
    return {**answer, **summary}, offline.finish()


class _Spec(Struct, rename="camel"):
    scheduler_name: str = "default-scheduler"


class _Status(Struct):
    phase: str = ""


class _Pod(Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


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
        pod = msgspec.json.decode(recorded.entry.data, type=_Pod)
    except msgspec.MsgspecError:
        return "it is not valid, and left out"
    if pod.status.phase in ("Succeeded", "Failed"):
        return f"it has ended ({pod.status.phase}), so no node is judged for it"
    names = offline.ready.configuration.scheduler_names
    if pod.spec.scheduler_name not in names:
        return (
            f"it waits for {pod.spec.scheduler_name}; the configuration decides for {', '.join(names)}. "
            f"`simulate --as-scheduler {pod.spec.scheduler_name}` decides about such pods, too"
        )
    return "it is not valid, and left out"


def _placed(ready: ReadyCluster, pod: PodInfo) -> dict[str, Any]:
    """A pod that has a node in the snapshot, as if it were decided about now."""
    shown = _head(ready, pod, "placed", pod.node_name, None)
    if pod.scheduler_name not in ready.assembly.attempts.runners:
        shown["message"] = "it belongs to another scheduler, so nothing is judged"
        return shown
    view, waiting = without_own_use(ready.assembly.attempts.snapshot(), pod)
    runner = ready.assembly.attempts.runner_of(pod)
    explanation = explain(view, waiting, runner)
    fits = view.row(pod.node_name) in explanation.feasible
    detail = detail_of(explanation, view, runner, pod.node_name if fits else None, _BEST_NODES)
    shown["details"] = msgspec.to_builtins(detail)
    shown["message"] = _again(judge_node(view, waiting, runner, pod.node_name, None)) if fits else _NOT_AGAIN
    return shown


def _again(verdict: NodeVerdict) -> str:
    """Where a pod's node would stand, if the pod were decided again."""
    if verdict.rank is None:
        return ""
    equally = f", as well as {counted(verdict.ties - 1, 'other')}" if verdict.ties > 1 else ""
    return f"decided again, this node would be number {verdict.rank} of {verdict.feasible} that fit{equally}"


def _decided(ready: ReadyCluster, pod: PodInfo, outcome: Outcome) -> dict[str, Any]:
    """A pod that waits in the snapshot."""
    shown = _head(ready, pod, "unschedulable" if outcome.node is None else "scheduled", outcome.node, outcome.message)
    placement = outcome.placement
    if placement is not None:
        shown["total"] = placement.total
        shown["evaluatedNodes"], shown["feasibleNodes"] = placement.evaluated, placement.feasible
        shown["loadAgeSeconds"] = {source: round(age, 1) for source, age in placement.load_ages.items()}
    if outcome.explanation is not None:
        snapshot, runner = ready.assembly.attempts.snapshot(), ready.assembly.attempts.runner_of(pod)
        detail = detail_of(outcome.explanation, snapshot, runner, outcome.node, _BEST_NODES)
        shown["details"] = msgspec.to_builtins(detail)
    return shown


def _head(ready: ReadyCluster, pod: PodInfo, result: str, node: str | None, message: str | None) -> dict[str, Any]:
    return {
        "time": format_time(datetime.fromtimestamp(ready.assembly.attempts.clocks.wall(), UTC)),
        "pod": pod.key,
        "uid": pod.uid,
        "schedulerName": pod.scheduler_name,
        "attempt": None,
        "simulated": True,
        "result": result,
        "node": node,
        "message": message,
        "details": None,
    }


def _why_not(ready: ReadyCluster, pod: PodInfo, node: str) -> dict[str, Any]:
    shown: dict[str, Any] = {"node": node, "placedOn": pod.node_name or None, "problem": None, "verdict": None}
    snapshot = ready.assembly.attempts.snapshot()
    if pod.scheduler_name not in ready.assembly.attempts.runners:
        shown["problem"] = "the pod belongs to another scheduler"
    elif snapshot.row(node) < 0:
        shown["problem"] = "no node of the snapshot has this name"
    else:
        view, waiting = without_own_use(snapshot, pod) if pod.node_name else (snapshot, pod)
        verdict = judge_node(view, waiting, ready.assembly.attempts.runner_of(pod), node, pod.node_name or None)
        shown["verdict"] = msgspec.to_builtins(verdict)
    return shown


class _Owner(Struct):
    kind: str = ""
    name: str = ""


class _Meta(Struct, rename="camel"):
    owner_references: list[_Owner] | None = None


class _Owned(Struct):
    metadata: _Meta


_owned = msgspec.json.Decoder(_Owned)


def _recorded_pods(objects: RecordedObjects, namespace: str, deployment: str) -> list[Json]:
    """Return the pods of a Deployment that have not ended, in the order of `explained_first`.

    By their owners, as a snapshot keeps no selectors of Deployments.

    Raises:
        CommandError: the snapshot has no such Deployment, or no pod of it.
    """
    title = f"deployment {namespace}/{deployment}"
    replica_sets = [each for each in objects.of("ReplicaSet") if each.namespace == namespace]
    sets = {each.name for each in replica_sets if _is_owned(each, "Deployment", {deployment})}
    names = {each.name for each in objects.of("Deployment") if each.namespace == namespace}
    if not sets and deployment not in names:
        elsewhere = sorted({each.namespace for each in objects.of("Deployment") if each.name == deployment})[:3]
        hint = f"; one of this name is in {' and in '.join(elsewhere)}: -n {elsewhere[0]}" if elsewhere else ""
        problem = f"{title}: the snapshot has no such Deployment{hint or suggestion(deployment, names)}"
        raise CommandError(printable(problem), ExitCode.INVALID_INPUT)
    pods: list[Json] = [
        msgspec.json.decode(each.entry.data)
        for each in objects.of("Pod")
        if each.namespace == namespace and _is_owned(each, "ReplicaSet", sets)
    ]
    if not (ordered := explained_first(pods)):
        raise CommandError(printable(f"{title} has no pods in the snapshot"), ExitCode.INVALID_INPUT)
    return ordered


def _is_owned(obj: NamedObject, kind: str, names: Collection[str]) -> bool:
    try:
        owners = _owned.decode(obj.entry.data).metadata.owner_references or ()
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return any(owner.kind == kind and owner.name in names for owner in owners)
