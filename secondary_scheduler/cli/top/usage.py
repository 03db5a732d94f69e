"""Nodes with their load, requests and pods, sorted: the document of `top nodes`."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from scheduler.answers import LoadEstimate, NodeLoadRow
from scheduler.kube.primitives import format_time
from secondary_scheduler.cli.top.reading import Loads, NodeCapacity, NodeSums, PodSums, most_common


class SortKey(enum.StrEnum):
    """Values of `--sort-by`: largest first, but for names."""

    CPU = "cpu"
    MEMORY = "memory"
    PODS = "pods"
    REQUESTS = "requests"
    NAME = "name"


Json = dict[str, Any]
_SCHEDULERS = 10
"""Scheduler names that are shown of a node: whoever creates a pod may invent one."""


def usage_document(
    nodes: Iterable[NodeCapacity],
    pods: PodSums | None,
    loads: Loads,
    missing: Sequence[str],
    key: SortKey,
    now: datetime,
) -> Json:
    """Return the document.

    Args:
        nodes: to show.
        pods: what their pods have together; None where pods may not be listed.
        loads: what the schedulers answered.
        missing: what is not shown besides loads, and why.
        key: what they are sorted by; nodes of which that is not known come last.
        now: when all was read.
    """
    by_node: dict[str, list[tuple[str, NodeLoadRow]]] = {}
    for source in loads.sources.values():
        for load in source.nodes:
            by_node.setdefault(load.name, []).append((source.source, load))
    items = [_node(node, pods, by_node.get(node.name, ())) for node in nodes]
    items.sort(key=lambda item: str(item["name"]))
    if key is not SortKey.NAME:
        items.sort(key=lambda item: _largest_first(_SIZES[key](item)))
    sources = [
        {"source": source.source, "fresh": source.fresh, "ageSeconds": source.age_seconds}
        for source in loads.sources.values()
    ]
    return {
        "apiVersion": "secondary-scheduler.io/v1",
        "kind": "NodeUsageList",
        "time": format_time(now),
        "loadSources": sources,
        "items": items,
        "notShown": [*missing, *loads.missing],
    }


def _node(node: NodeCapacity, pods: PodSums | None, loads: Sequence[tuple[str, NodeLoadRow]]) -> Json:
    sums = None if pods is None else pods.by_node.get(node.name) or NodeSums()
    return {
        "name": node.name,
        "ready": node.ready,
        "schedulable": node.schedulable,
        "allocatable": {"cpuMilli": node.cpu, "memoryBytes": node.memory, "pods": node.pods},
        "requested": None if sums is None else {"cpuMilli": sums.cpu, "memoryBytes": sums.memory},
        "pods": None if sums is None else _pods(sums.pods),
        # The one to be believed first.
        "load": [_load(source, load) for source, load in sorted(loads, key=_trust)],
    }


def _pods(pods: Mapping[str, int]) -> Json:
    named = dict(most_common(pods, _SCHEDULERS))
    total = sum(pods.values())
    return {"total": total, "byScheduler": named, "ofOtherSchedulers": total - sum(named.values())}


def _trust(load: tuple[str, NodeLoadRow]) -> tuple[bool, float]:
    age = load[1].age_seconds
    return not load[1].fresh, 0.0 if age is None else age


def _load(source: str, load: NodeLoadRow) -> Json:
    return {
        "source": source,
        "cpu": load.cpu,
        "memory": load.memory,
        "estimated": _estimate(load.estimated),
        "ageSeconds": load.age_seconds,
        "fresh": load.fresh,
    }


def _estimate(estimate: LoadEstimate) -> Json:
    return {"cpu": estimate.cpu, "memory": estimate.memory}


def _largest_first(size: float | None) -> tuple[bool, float]:
    return size is None, -(size or 0.0)


def _estimated(resource: str) -> Callable[[Json], float | None]:
    def size(item: Json) -> float | None:
        load = item["load"][0] if item["load"] else None
        estimate: float | None = load["estimated"][resource] if load else None
        return estimate

    return size


def requested_share(item: Mapping[str, Any], resource: str) -> float | None:
    """Return which share of what is allocatable the pods request, 1 for all; None where it is not known.

    `resource` is `cpuMilli` or `memoryBytes`.
    """
    requested, allocatable = item["requested"], item["allocatable"][resource]
    return None if requested is None or not allocatable else requested[resource] / allocatable


def _requests(item: Json) -> float | None:
    shares = [share for name in ("cpuMilli", "memoryBytes") if (share := requested_share(item, name)) is not None]
    return max(shares, default=None)


def _count(item: Json) -> float | None:
    return None if item["pods"] is None else float(item["pods"]["total"])


_SIZES: Mapping[SortKey, Callable[[Json], float | None]] = {
    SortKey.CPU: _estimated("cpu"),
    SortKey.MEMORY: _estimated("memory"),
    SortKey.PODS: _count,
    SortKey.REQUESTS: _requests,
}
