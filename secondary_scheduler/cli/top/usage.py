"""Nodes with their load, requests and pods, sorted: the document of `top nodes`."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from scheduler.answers import Document, LoadEstimate, NodeLoadRow
from scheduler.kube.primitives import format_time
from secondary_scheduler.cli.top.reading import NodeCapacity, NodeSums, PodSums, ReportedLoads, most_common


class SortKey(enum.StrEnum):
    """Values of `--sort-by`: largest first, but for names."""

    CPU = "cpu"
    MEMORY = "memory"
    PODS = "pods"
    REQUESTS = "requests"
    NAME = "name"


_MAX_SCHEDULERS = 10
"""Scheduler names that are shown of a node: whoever creates a pod may invent one."""


class Requested(Struct, frozen=True, rename="camel"):
    """What the pods of a node request."""

    cpu_milli: int
    memory_bytes: int


class Allocatable(Requested, frozen=True):
    """What a node has for pods, and how many it may have."""

    pods: int


class PodCounts(Struct, frozen=True, rename="camel"):
    """The pods of a node, by scheduler name as far as these are shown."""

    total: int
    by_scheduler: Mapping[str, int]
    of_other_schedulers: int


class SourcedLoad(Struct, frozen=True, rename="camel"):
    """A node's load as one source has it, as in `NodeLoadRow`."""

    source: str
    cpu: float | None
    memory: float | None
    estimated: LoadEstimate
    age_seconds: float | None
    fresh: bool


class NodeUsage(Struct, frozen=True, rename="camel"):
    """A node; `requested` and `pods` are None where pods may not be listed. `load` has the one to be believed first."""

    name: str
    ready: bool
    schedulable: bool
    allocatable: Allocatable
    requested: Requested | None
    pods: PodCounts | None
    load: tuple[SourcedLoad, ...]

    def requested_shares(self) -> tuple[float, float] | None:
        """Return which share of the allocatable CPU and memory the pods request, 1 for all; NaN where there is none of
        it, None where the requests are not known."""
        if self.requested is None:
            return None
        cpu, memory = self.allocatable.cpu_milli, self.allocatable.memory_bytes
        return (
            self.requested.cpu_milli / cpu if cpu else math.nan,
            self.requested.memory_bytes / memory if memory else math.nan,
        )


class LoadSourceState(Struct, frozen=True, rename="camel"):
    """A load source; `age_seconds` is None where it was never read."""

    source: str
    fresh: bool
    age_seconds: float | None


class NodeUsageList(Document, frozen=True, kw_only=True):
    """The document of `top nodes`; `not_shown` says what is missing, and why."""

    time: str
    load_sources: tuple[LoadSourceState, ...]
    items: tuple[NodeUsage, ...]
    not_shown: tuple[str, ...]


def usage_document(
    nodes: Iterable[NodeCapacity],
    pods: PodSums | None,
    loads: ReportedLoads,
    missing: Sequence[str],
    key: SortKey,
    now: datetime,
) -> NodeUsageList:
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
    items.sort(key=lambda item: item.name)
    if key is not SortKey.NAME:
        size = _SIZES[key]
        # Largest first; what is not known comes last.
        items.sort(key=lambda item: (size(item) is None, -(size(item) or 0.0)))
    sources = loads.sources.values()
    return NodeUsageList(
        time=format_time(now),
        load_sources=tuple(LoadSourceState(source.source, source.fresh, source.age_seconds) for source in sources),
        items=tuple(items),
        not_shown=(*missing, *loads.missing),
    )


def _node(node: NodeCapacity, pods: PodSums | None, loads: Sequence[tuple[str, NodeLoadRow]]) -> NodeUsage:
    sums = None if pods is None else pods.by_node.get(node.name) or NodeSums()
    return NodeUsage(
        node.name,
        node.ready,
        node.schedulable,
        Allocatable(node.cpu, node.memory, node.pods),
        None if sums is None else Requested(sums.cpu, sums.memory),
        None if sums is None else _pods(sums.pods),
        tuple(
            SourcedLoad(source, load.cpu, load.memory, load.estimated, load.age_seconds, load.fresh)
            for source, load in sorted(loads, key=_trust)
        ),
    )


def _pods(pods: Mapping[str, int]) -> PodCounts:
    named = dict(most_common(pods, _MAX_SCHEDULERS))
    total = sum(pods.values())
    return PodCounts(total, named, total - sum(named.values()))


def _trust(load: tuple[str, NodeLoadRow]) -> tuple[bool, float]:
    age = load[1].age_seconds
    return not load[1].fresh, 0.0 if age is None else age


def _requests(item: NodeUsage) -> float | None:
    return max((share for share in item.requested_shares() or () if not math.isnan(share)), default=None)


_SIZES: Mapping[SortKey, Callable[[NodeUsage], float | None]] = {
    SortKey.CPU: lambda item: item.load[0].estimated.cpu if item.load else None,
    SortKey.MEMORY: lambda item: item.load[0].estimated.memory if item.load else None,
    SortKey.PODS: lambda item: item.pods.total if item.pods is not None else None,
    SortKey.REQUESTS: _requests,
}
