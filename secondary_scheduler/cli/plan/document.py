"""The comparison for programs: the document of `plan -o json` and `-o yaml`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from msgspec import UNSET, Struct, UnsetType

from scheduler.answers import API_VERSION
from scheduler.core import Change
from scheduler.kube.primitives import format_seconds
from secondary_scheduler.balance import LOAD, REQUESTS, STATISTICS, Peak, Worst
from secondary_scheduler.cli.clusterrecording.reading import Recording
from secondary_scheduler.simulation.comparing import ComparedPod, ComparedSide, Comparison, PodDecided

KIND = "PlanResult"
Value = TypeVar("Value")
_CHANGES = {
    Change.SAME: "sameNode",
    Change.MOVED: "otherNode",
    Change.GAINED: "newlySchedulable",
    Change.LOST: "newlyUnschedulable",
    Change.NEITHER: "unschedulableInBoth",
}


class ReplayedRecording(Struct, frozen=True, rename="camel"):
    """What was replayed: its time, what it lacks, and how many of its pods are on a node."""

    start: str
    end: str
    gaps: tuple[str, ...]
    pods_on_nodes: int


class ChangeCounts(Struct, frozen=True, rename="camel"):
    """How many pods were compared, and how many there are of each change.

    Attributes:
        equally_good: those on another node that would have been as well off on the old one.
    """

    pods: int
    same_node: int
    other_node: int
    newly_schedulable: int
    newly_unschedulable: int
    unschedulable_in_both: int
    equally_good: int


class ByResource(Struct, Generic[Value], frozen=True):
    """Something of both resources; None where no node has a figure."""

    cpu: Value | None
    memory: Value | None


class SpreadFigures(Struct, frozen=True):
    """How a figure is spread over the nodes, in per cent."""

    stddev: float
    p95: float
    max: float


class PeakFigure(Struct, frozen=True):
    """The highest of a value, and when it was first reached; None: it never rose."""

    value: float
    time: str | None


class PeakFigures(Struct, frozen=True):
    """The highest values of a figure's spread."""

    stddev: PeakFigure | UnsetType = UNSET
    p95: PeakFigure | UnsetType = UNSET
    max: PeakFigure | UnsetType = UNSET


class WorstFigures(Struct, frozen=True, rename="camel"):
    """The highest values over time; `waiting` counts pods."""

    requests: ByResource[PeakFigures]
    estimated_load: ByResource[PeakFigures]
    waiting: PeakFigure


class ConfigurationResult(Struct, frozen=True, rename="camel"):
    """A configuration, and how its decisions use the nodes.

    Attributes:
        source: where it comes from, as the user named it.
        as_recorded: of a replay: how many pods are on the node where the recording has them.
        worst: of a replay.
    """

    source: str
    hash: str
    scheduler_names: tuple[str, ...]
    requests: ByResource[SpreadFigures]
    estimated_load: ByResource[SpreadFigures]
    as_recorded: int | UnsetType = UNSET
    worst: WorstFigures | UnsetType = UNSET


class PodResult(Struct, frozen=True):
    """Where a pod is placed, or why nowhere."""

    node: str | None
    message: str | None


class PodDifference(Struct, frozen=True, rename="camel"):
    """A pod that is placed differently."""

    pod: str
    change: str
    old: PodResult
    new: PodResult
    equally_good: bool


class NodeUse(Struct, frozen=True, rename="camel"):
    """A node's pods, and how full they make it, in per cent."""

    pods: int
    requests: ByResource[float]
    estimated_load: ByResource[float]


class NodeDifference(Struct, frozen=True):
    """A node under both configurations."""

    node: str
    old: NodeUse
    new: NodeUse


class PlanDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """Everything.

    Attributes:
        over: which pods are compared.
        changes: what the new configuration changes, in words.
        nodes: all, those that change most first.
    """

    api_version: str = API_VERSION
    kind: str = KIND
    over: str
    seed: int
    recording: ReplayedRecording | UnsetType = UNSET
    changes: list[str]
    counts: ChangeCounts
    old: ConfigurationResult
    new: ConfigurationResult
    differences: list[PodDifference]
    nodes: list[NodeDifference]


def plan_document(
    over: str, seed: int, sources: Mapping[str, str], comparison: Comparison, recording: Recording | None
) -> PlanDocument:
    """Return a comparison as its document; `sources` as `PlanResult` says."""
    replayed: ReplayedRecording | UnsetType = UNSET
    if recording is not None:
        times = (format_seconds(recording.start), format_seconds(recording.end))
        replayed = ReplayedRecording(*times, tuple(recording.gaps), comparison.recorded)
    counts = comparison.counts
    return PlanDocument(
        over=over,
        seed=seed,
        recording=replayed,
        changes=comparison.changes,
        counts=ChangeCounts(
            pods=len(comparison.pods),
            same_node=counts[Change.SAME],
            other_node=counts[Change.MOVED],
            newly_schedulable=counts[Change.GAINED],
            newly_unschedulable=counts[Change.LOST],
            unschedulable_in_both=counts[Change.NEITHER],
            equally_good=comparison.equally_good,
        ),
        old=_configuration(sources["old"], comparison.old),
        new=_configuration(sources["new"], comparison.new),
        differences=[_difference(pod) for pod in comparison.differing],
        nodes=[_node(comparison, index) for index in comparison.nodes_by_change()],
    )


def _by_resource(kind: str, value: Callable[[str, str], Value | None]) -> ByResource[Value]:
    return ByResource(value(kind, "cpu"), value(kind, "memory"))


def _configuration(source: str, side: ComparedSide) -> ConfigurationResult:
    def spread(kind: str, resource: str) -> SpreadFigures | None:
        figures = side.figures.spread(kind, resource)
        return None if figures is None else SpreadFigures(*(round(getattr(figures, name), 3) for name in STATISTICS))

    return ConfigurationResult(
        source,
        side.configuration.hash,
        tuple(side.configuration.scheduler_names),
        _by_resource(REQUESTS, spread),
        _by_resource(LOAD, spread),
        UNSET if side.worst is None else side.as_recorded,
        UNSET if side.worst is None else _worst(side.worst),
    )


def _worst(worst: Worst) -> WorstFigures:
    def peaks(kind: str, resource: str) -> PeakFigures | None:
        highest = {name: worst.spreads.get((kind, resource, name)) for name in STATISTICS}
        reached = {name: _peak(peak) for name, peak in highest.items() if peak is not None}
        return PeakFigures(**reached) if reached else None

    return WorstFigures(_by_resource(REQUESTS, peaks), _by_resource(LOAD, peaks), _peak(worst.waiting))


def _peak(peak: Peak) -> PeakFigure:
    return PeakFigure(round(peak.value, 3), format_seconds(peak.time) if peak.time else None)


def _difference(pod: ComparedPod) -> PodDifference:
    return PodDifference(pod.name, _CHANGES[pod.change], _placed(pod.old), _placed(pod.new), pod.equally_good)


def _placed(decided: PodDecided) -> PodResult:
    return PodResult(decided.node, decided.message)


def _node(comparison: Comparison, index: int) -> NodeDifference:
    name = comparison.old.figures.names[index]
    return NodeDifference(name, _use(comparison.old, index), _use(comparison.new, index))


def _use(side: ComparedSide, index: int) -> NodeUse:
    def figure(kind: str, resource: str) -> float | None:
        value = float(side.figures.values(kind, resource)[index])
        return None if math.isnan(value) else round(value, 3)

    return NodeUse(int(side.figures.pods[index]), _by_resource(REQUESTS, figure), _by_resource(LOAD, figure))
