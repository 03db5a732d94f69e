"""The nodes' load as plugins see it, for whoever asks: as measured, and with the pods that came since; and how full the
nodes are altogether.

The loop copies columns, in a millisecond or two for 5,000 nodes; rows are made of them on the thread that shows them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from prometheus_client import Gauge

from scheduler.answers import LoadEstimate, NodeLoadRow
from scheduler.framework import FloatArray, is_fresh
from scheduler.helpers.unmeasured import UnmeasuredUse, requested
from scheduler.state import ClusterState

QUANTILES = (0.1, 0.5, 0.9, 1.0)
"""Of the nodes: not all the way down to 0, as some node is always empty; up to the fullest."""
_RESOURCES = ("cpu", "memory")


class SourceNodeLoads:
    """The loads of one source. All methods run on the scheduling loop.

    Of recent pods, requests count, as LoadVariationRiskBalancing and LowRiskOverCommitment have it. TargetLoadPacking's
    prediction also depends on its arguments.
    """

    def __init__(self, state: ClusterState, source: str, max_age: float) -> None:
        """`source` is the key by which plugins find it; `max_age` the oldest age that is fresh, in seconds."""
        self._state = state
        self._source = source
        self._max_age = max_age
        self._cpu = UnmeasuredUse(requested("cpu"), upstream=False)
        self._memory = UnmeasuredUse(requested("memory"), upstream=False)

    def rows(self, now: float) -> Iterable[NodeLoadRow]:
        """Return the nodes that have a load. They are those of now, whenever and on whichever thread they are gone
        through.

        Args:
            now: seconds since the epoch.
        """
        view = self._state.snapshot(now)
        load = view.load(self._source)
        if load is None:
            return ()
        rows = view.rows
        infos = [view.info(row) for row in rows.tolist()]
        capacity_cpu = view.capacity_cpu[rows]
        capacity_memory = np.array([info.capacity_memory for info in infos], dtype=float)
        cpu, memory = load.cpu_average[rows], load.memory_average[rows]
        estimated_cpu = cpu + _percent(self._cpu.by_row(view, load)[rows], capacity_cpu)
        estimated_memory = memory + _percent(self._memory.by_row(view, load)[rows], capacity_memory)
        names = [info.name for info in infos]
        return _each(names, (cpu, memory, estimated_cpu, estimated_memory), load.sampled_at[rows], now, self._max_age)

    def show(self, gauge: Gauge, now: float) -> None:
        """Show how evenly the nodes are used, at quantiles: what is measured, as a share of the capacity.

        Only nodes with a fresh load count. `now` is in seconds since the epoch.
        """
        view = self._state.snapshot(now)
        load = view.load(self._source)
        if load is None:
            return
        fresh = is_fresh(load.sampled_at[view.rows], now, self._max_age)
        for resource, percent in (("cpu", load.cpu_average), ("memory", load.memory_average)):
            shares = percent[view.rows][fresh] / 100.0
            _show(gauge, (self._source, resource), shares[~np.isnan(shares)])


def show_requested(state: ClusterState, gauge: Gauge, now: float) -> None:
    """Show how full the nodes are, at quantiles: what pods request, as a share of what is allocatable.

    Nodes that have none of a resource do not count. Runs on the scheduling loop, a millisecond or two for 5,000 nodes.
    """
    view = state.snapshot(now)
    for resource in _RESOURCES:
        allocatable = view.allocatable(resource)[view.rows]
        counted = allocatable > 0
        shares = view.requested(resource)[view.rows][counted] / allocatable[counted]
        _show(gauge, (resource,), shares)


def _percent(amount: FloatArray, capacity: FloatArray) -> FloatArray:
    return np.divide(amount * 100.0, capacity, out=np.zeros(len(amount)), where=capacity > 0)


def _each(
    names: list[str], figures: tuple[FloatArray, ...], sampled_at: FloatArray, now: float, max_age: float
) -> Iterator[NodeLoadRow]:
    fresh = is_fresh(sampled_at, now, max_age)
    columns = [np.round(figure, 2).tolist() for figure in figures]
    ages = np.round(np.maximum(now - sampled_at, 0.0), 1)
    each = zip(names, *columns, np.where(sampled_at == 0.0, np.nan, ages).tolist(), fresh.tolist(), strict=True)
    for name, cpu, memory, estimated_cpu, estimated_memory, age, is_usable in each:
        measured_cpu, measured_memory = _number(cpu), _number(memory)
        if measured_cpu is None and measured_memory is None:
            continue
        estimate = LoadEstimate(_number(estimated_cpu), _number(estimated_memory))
        yield NodeLoadRow(name, measured_cpu, measured_memory, estimate, _number(age), is_usable)


def _number(value: float) -> float | None:
    """NaN is not measured, which is never 0."""
    return None if value != value else value


def _show(gauge: Gauge, labels: tuple[str, ...], shares: FloatArray) -> None:
    # NaN, as the gauge of a summary that has seen nothing: 0 would be an empty cluster.
    values = np.quantile(shares, QUANTILES).tolist() if len(shares) else [np.nan] * len(QUANTILES)
    for quantile, value in zip(QUANTILES, values, strict=True):
        gauge.labels(*labels, f"{quantile:g}").set(value)
