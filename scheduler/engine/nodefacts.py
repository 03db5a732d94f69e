"""What is known of a node, for whoever asks: a running scheduler and a snapshot say it in the same form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from scheduler.core import load_of_node
from scheduler.engine.decisionrecords import API_VERSION
from scheduler.framework import PodInfo
from scheduler.kube.primitives import format_milli, format_value
from scheduler.state import Snapshot

_MOST_SCHEDULERS: Final = 10


def node_facts(snapshot: Snapshot, row: int) -> dict[str, Any]:
    """Return a NodeReport of a row without what decisions say about the node; JSON-ready."""
    info, pods = snapshot.info(row), snapshot.pods_on(row)
    used = {resource: int(snapshot.requested(resource)[row]) for resource in info.allocatable}
    return {
        "apiVersion": API_VERSION,
        "kind": "NodeReport",
        "node": info.name,
        "unschedulable": info.unschedulable,
        "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in info.taints],
        "allocatable": {resource: _amount(resource, each) for resource, each in sorted(info.allocatable.items())},
        "requested": {resource: _amount(resource, each) for resource, each in sorted(used.items())},
        "pods": {"allowed": info.allowed_pods, "counted": len(pods), "byScheduler": _by_scheduler(pods)},
        "load": msgspec.to_builtins(load_of_node(snapshot, row)),
    }


def _amount(resource: str, amount: int) -> str:
    return format_milli(amount) if resource == "cpu" else format_value(amount)


def _by_scheduler(pods: Iterable[PodInfo]) -> dict[str, int]:
    counts = Counter(pod.scheduler_name for pod in pods)
    shown = dict(counts.most_common(_MOST_SCHEDULERS))
    others = counts.total() - sum(shown.values())
    return {**shown, "": others} if others else shown
