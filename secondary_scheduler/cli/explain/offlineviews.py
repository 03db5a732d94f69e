"""The answers about the queue and about a node of a snapshot: each pending pod is tried once, in queue order."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from scheduler.engine import node_facts
from scheduler.framework import PodInfo
from scheduler.kube.primitives import format_time
from secondary_scheduler.cli.errors import CommandError, ExitCode, printable
from secondary_scheduler.cli.explain.offline import read_offline
from secondary_scheduler.cli.explain.request import OfflineRequest
from secondary_scheduler.simulation.deciding import Outcome
from secondary_scheduler.simulation.results import GATED, PLACED, UNDECIDED, UNSCHEDULABLE, result_of, waited
from secondary_scheduler.simulation.settingup import ReadyCluster, load_sources

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
