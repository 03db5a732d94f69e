"""How full nodes are: by what their pods request, and by an estimate of their load once placed pods run."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from scheduler.framework import REPORT_INTERVAL, FloatArray, LoadReading, NodeLoad, PodInfo
from scheduler.helpers.unmeasured import UnmeasuredUse, requested
from scheduler.state import ClusterState

REQUESTS = "requests"
LOAD = "estimatedLoad"
FIGURES = ((REQUESTS, "cpu"), (REQUESTS, "memory"), (LOAD, "cpu"), (LOAD, "memory"))
"""What is said of each node, by kind and resource."""
STATISTICS = ("stddev", "p95", "max")
"""What is said of a figure's highest values over time."""


@dataclass(frozen=True, slots=True)
class NodeFigures:
    """Figures per node, in one order; per cent, NaN where a node has none.

    Attributes:
        pods: number of pods.
        cpu_requests, memory_requests: of what is allocatable.
        cpu_load, memory_load: of the capacity: what was measured, and what pods request that came since.
    """

    names: tuple[str, ...]
    pods: FloatArray
    cpu_requests: FloatArray
    memory_requests: FloatArray
    cpu_load: FloatArray
    memory_load: FloatArray

    def values(self, kind: str, resource: str) -> FloatArray:
        """Return a figure of `FIGURES` per node."""
        if kind == REQUESTS:
            return self.cpu_requests if resource == "cpu" else self.memory_requests
        return self.cpu_load if resource == "cpu" else self.memory_load

    def spread(self, kind: str, resource: str) -> FigureSpread | None:
        """Return how a figure of `FIGURES` is spread over the nodes that have it; None where none has."""
        values = self.values(kind, resource)
        numbers = values[np.isfinite(values)]
        if not len(numbers):
            return None
        p95 = float(np.percentile(numbers, 95))
        return FigureSpread(float(numbers.mean()), float(numbers.std()), p95, float(numbers.max()))


@dataclass(frozen=True, slots=True)
class FigureSpread:
    """How a figure is spread over nodes, in per cent; `stddev` is the population's."""

    mean: float
    stddev: float
    p95: float
    max: float


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest of a value, and the first time it was reached, in seconds since the epoch."""

    value: float
    time: float


@dataclass(slots=True)
class Worst:
    """The highest values over time.

    Attributes:
        spreads: by figure of `FIGURES` and statistic; those that no node ever had are missing.
        waiting: pods without a node.
    """

    spreads: dict[tuple[str, str, str], Peak] = field(default_factory=dict)
    waiting: Peak = field(default_factory=lambda: Peak(0.0, 0.0))

    def note(self, moment: float, figures: NodeFigures, waiting: int) -> None:
        """Take in how things are at a time."""
        if waiting > self.waiting.value:
            self.waiting = Peak(float(waiting), moment)
        for kind, resource in FIGURES:
            spread = figures.spread(kind, resource)
            for statistic in STATISTICS if spread is not None else ():
                value = float(getattr(spread, statistic))
                peak = self.spreads.get((kind, resource, statistic))
                if peak is None or value > peak.value:
                    self.spreads[kind, resource, statistic] = Peak(value, moment)


def node_figures(state: ClusterState, load: LoadReading | None, now: float) -> NodeFigures:
    """Return the figures of a cluster as it is now.

    Args:
        state: the nodes, and the pods on them.
        load: what was measured, by name of node.
        now: seconds since the epoch; the end of the load's window where that does not say.
    """
    view = state.snapshot(now)
    rows = view.rows
    nothing: FloatArray = np.full(len(rows), np.nan)
    cpu_load, memory_load = nothing, nothing
    if load is not None:
        columns = state.lay_out_load(load if load.window_end else replace(load, window_end=now))
        # One rule for both sides, whatever their plugins predict: a difference is one of placements.
        cpu = UnmeasuredUse(requested("cpu"), upstream=False).by_row(view, columns)
        memory = UnmeasuredUse(requested("memory"), upstream=False).by_row(view, columns)
        capacity: FloatArray = np.array([view.info(row).capacity_memory for row in rows.tolist()], dtype=np.float64)
        cpu_load = columns.cpu_average[rows] + _per_cent(cpu[rows], view.capacity_cpu[rows])
        memory_load = columns.memory_average[rows] + _per_cent(memory[rows], capacity)
    return NodeFigures(
        tuple(view.name(row) for row in rows.tolist()),
        view.pod_count[rows].astype(np.float64),
        _per_cent(view.requested("cpu")[rows], view.allocatable("cpu")[rows]),
        _per_cent(view.requested("memory")[rows], view.allocatable("memory")[rows]),
        cpu_load,
        memory_load,
    )


def lowered(load: NodeLoad, cpu: float, memory: float) -> NodeLoad:
    """Return a load without so many per cent of the capacity (with them, where negative); what was not measured stays
    so, and none is negative."""
    return msgspec.structs.replace(
        load,
        cpu_average=_less(load.cpu_average, cpu),
        cpu_first=None if load.cpu_first is None else _less(load.cpu_first, cpu),
        cpu_last=None if load.cpu_last is None else _less(load.cpu_last, cpu),
        memory_average=_less(load.memory_average, memory),
    )


def is_measured(pod: PodInfo, load: LoadReading) -> bool:
    """Tell whether a pod shows in the averages: it was bound long enough before they end."""
    return not load.window_end or not pod.assigned_at > load.window_end - REPORT_INTERVAL


def _less(value: float, by: float) -> float:
    return value if math.isnan(value) else max(0.0, value - by)


def _per_cent(amount: FloatArray, of: FloatArray) -> FloatArray:
    positive = of > 0
    shares: FloatArray = np.full(len(of), np.nan)
    shares[positive] = 100.0 * amount[positive] / of[positive]
    return shares
