"""LoadVariationRiskBalancing: prefer nodes whose load is low and steady; the worse of CPU and memory counts.

What happens on a node without (fresh) load depends on `compatibility`:

- `upstream`: it scores 0, a deviation alone makes it look idle, and pods placed since the measurement do not count.
- `safe`: what is not measured on a node is estimated by what its pods request; a resource that is measured on no
  feasible node does not count, and where that is so for both the plugin is left out of the attempt. Pods assigned too
  recently to show in the averages are added to them. Counters: `load_missing/LoadVariationRiskBalancing` (nodes),
  `load_left_out/LoadVariationRiskBalancing` (attempts).
"""

import numpy as np

from scheduler.catalog import LoadVariationRiskBalancingArgs
from scheduler.framework import (
    CycleState,
    FloatArray,
    IntArray,
    LoadColumns,
    NodeView,
    PluginContext,
    PodInfo,
    RowArray,
    gather,
)
from scheduler.helpers import round_half_away
from scheduler.helpers.loadstats import MEGA, fresh, measured_safe, measured_upstream, resource_stats
from scheduler.helpers.unmeasured import Unmeasured
from scheduler.plugins.loadvariationriskbalancing.formula import balance_score

NAME = "LoadVariationRiskBalancing"
_UNITS = {"cpu": 1.0, "memory": MEGA}


class LoadVariationRiskBalancing:
    """Score by mean and deviation of the measured load."""

    name = NAME

    def __init__(self, args: LoadVariationRiskBalancingArgs, context: PluginContext) -> None:
        self._margin = args.safe_variance_margin
        self._sensitivity = args.safe_variance_sensitivity
        self._source = args.source_key()
        self._upstream = context.upstream
        self._max_age = float(context.options.load.max_age_seconds)
        self._unmeasured = {
            "cpu": Unmeasured(lambda pod: pod.spec.declared.cpu, upstream=False),
            "memory": Unmeasured(lambda pod: pod.spec.declared.memory, upstream=False),
        }

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray | None:
        """Return 0..100 per row; None in `safe` mode where no row has fresh load."""
        load = view.load(self._source)
        found = [] if load is None else self._resources(state, pod, view, load, rows)
        if found:
            worst = found[0] if len(found) == 1 else np.minimum(found[0], found[1])
            return round_half_away(worst).astype(np.int64)
        state.count(f"load_missing/{NAME}", len(rows))
        if self._upstream:
            return np.zeros(len(rows), dtype=np.int64)
        state.count(f"load_left_out/{NAME}")
        return None

    def _resources(
        self, state: CycleState, pod: PodInfo, view: NodeView, load: LoadColumns, rows: RowArray
    ) -> list[FloatArray]:
        """Return the scores by resource, of those that are measured somewhere; a NaN-free worst case per row."""
        requests = {"cpu": pod.spec.declared.cpu, "memory": pod.spec.declared.memory}
        if self._upstream:
            return self._as_upstream(state, requests, view, load, rows)
        young = fresh(view, load, rows, self._max_age)
        scores, missing = [], np.zeros(len(rows), dtype=np.bool_)
        for resource, amount in requests.items():
            average, deviation, capacity = self._columns(resource, view, load, rows)
            seen = measured_safe(average, deviation, young)
            if not seen.known.any():
                continue
            stats = resource_stats(seen.average, seen.deviation, capacity, amount * _UNITS[resource])
            recent = gather(view, self._unmeasured[resource].by_row(view, load), rows)
            used = stats.used_average + recent * _UNITS[resource]
            if not seen.known.all():
                missing |= ~seen.known
                estimate = gather(view, view.nonzero_requested(resource), rows) * _UNITS[resource]
                used = np.where(seen.known, used, estimate)
            stats = type(stats)(capacity, stats.request, used, stats.used_deviation)
            scores.append(balance_score(stats, self._margin, self._sensitivity))
        if scores:
            state.count(f"load_missing/{NAME}", int(np.count_nonzero(missing)))
        return scores

    def _as_upstream(
        self, state: CycleState, requests: dict[str, int], view: NodeView, load: LoadColumns, rows: RowArray
    ) -> list[FloatArray]:
        scores, known = [], []
        for resource, amount in requests.items():
            average, deviation, capacity = self._columns(resource, view, load, rows)
            seen = measured_upstream(average, deviation)
            stats = resource_stats(seen.average, seen.deviation, capacity, amount * _UNITS[resource])
            scores.append(np.where(seen.known, balance_score(stats, self._margin, self._sensitivity), 0.0))
            known.append(seen.known)
        state.count(f"load_missing/{NAME}", int(np.count_nonzero(~(known[0] | known[1]))))
        return [np.where(known[0] & known[1], np.minimum(*scores), np.maximum(*scores))]

    def _columns(
        self, resource: str, view: NodeView, load: LoadColumns, rows: RowArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        average = load.cpu_average if resource == "cpu" else load.memory_average
        deviation = load.cpu_stddev if resource == "cpu" else load.memory_stddev
        return (
            gather(view, average[: view.size], rows),
            gather(view, deviation[: view.size], rows),
            gather(view, view.allocatable(resource), rows) * _UNITS[resource],
        )
