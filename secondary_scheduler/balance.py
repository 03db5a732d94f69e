"""How full nodes are: by what their pods request, and by an estimate of their load once placed pods run."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from scheduler.framework import REPORT_INTERVAL, FloatArray, LoadReading, NodeLoad, PodInfo
from scheduler.helpers.unmeasured import UnmeasuredUse, requested
from scheduler.state import ClusterState


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


@dataclass(frozen=True, slots=True)
class Spread:
    """How a figure is spread over the nodes that have it, in per cent."""

    stddev: float
    p95: float
    max: float


def spread_of(values: FloatArray) -> Spread | None:
    """Return the spread of the values that are numbers (population standard deviation); None where none is."""
    known = values[np.isfinite(values)]
    if not len(known):
        return None
    return Spread(float(known.std()), float(np.percentile(known, 95)), float(known.max()))


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
