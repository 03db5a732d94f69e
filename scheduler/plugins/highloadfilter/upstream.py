"""HighLoadFilter as `compatibility: upstream` has it: pkg/highloadfilter of scheduler-plugins' pull request 993."""

from collections.abc import Hashable

import numpy as np

from scheduler.catalog import HighLoadFilterArgs
from scheduler.framework import (
    SUCCESS,
    Code,
    CycleState,
    DependsOn,
    FilterPlugin,
    Locality,
    LocalPlugin,
    NodeView,
    PluginContext,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    RowArray,
    Status,
    Verdicts,
    gather,
    is_fresh,
    reject,
)
from scheduler.helpers.staleness import is_load
from scheduler.plugins.highloadfilter.limit import (
    NAME,
    REASONS,
    STALE,
    UNAVAILABLE,
    Share,
    Thresholds,
    codes_of,
    predicted,
)


class UpstreamHighLoadFilter(PreFilterPlugin, FilterPlugin, LocalPlugin):
    """One age for all nodes, and preemption is tried where a node is rejected."""

    name = NAME

    def __init__(self, args: HighLoadFilterArgs, context: PluginContext) -> None:
        self._thresholds = Thresholds.of(args)
        self._source = args.source_key()
        self._max_age = float(args.node_metric_expiration_seconds)

    def pre_filter(self, state: CycleState, pod: PodInfo, view: NodeView) -> tuple[PreFilterResult | None, Status]:
        """Go on: the load does not change while an attempt looks at it."""
        return None, SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Reject nodes whose predicted share exceeds a threshold."""
        problem, load = self._problem(view), view.load(self._source)
        if problem or load is None:
            if self._thresholds.fail_open:
                return None
            return reject(np.ones(len(rows), dtype=np.bool_), Code.UNSCHEDULABLE, problem)
        shares = []
        for measured, resource in ((load.cpu_average, "cpu"), (load.memory_average, "memory")):
            values = gather(view, measured[: view.size], rows)
            known = np.where(is_load(values), values, np.nan)
            request = float(pod.spec.requests.get(resource, 0))
            shares.append(predicted(known, request, gather(view, view.allocatable(resource), rows)))
        bits = self._thresholds.bits(Share(*shares), np.zeros(len(rows), dtype=np.bool_))
        return Verdicts(codes_of(bits, Code.UNSCHEDULABLE), bits, REASONS) if bits.any() else None

    def _problem(self, view: NodeView) -> str:
        load = view.load(self._source)
        if load is None or load.timestamp <= 0.0:
            return UNAVAILABLE
        return "" if is_fresh(load.timestamp, view.now, self._max_age) else STALE

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Verdicts follow from the load and from what the node can allocate."""
        return Locality(filters=DependsOn.NODE, version=self._version)

    def _version(self, view: NodeView) -> Hashable:
        load = view.load(self._source)
        return None if load is None else (load.version, self._problem(view))
