"""TargetLoadPacking: fill nodes up to a target CPU utilisation by measured load, then spread.

What happens on a node without (fresh) load depends on `compatibility`:

- `upstream`: it scores 0, as upstream, and measurements never grow old.
- `safe`: its utilisation is estimated by what its pods request, times `defaultRequestsMultiplier`, so that neither a
new node nor a
  broken exporter makes a node look idle or full. Where no feasible node has fresh load the plugin is left out of the
  attempt and the other plugins decide. Counters: `load_missing/TargetLoadPacking` (nodes),
  `load_left_out/TargetLoadPacking` (attempts).
"""

import numpy as np

from scheduler.catalog import TargetLoadPackingArgs
from scheduler.framework import (
    BoolArray,
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
from scheduler.helpers.unmeasured import Unmeasured
from scheduler.plugins.targetloadpacking.formula import packing_score, predicted_cpu, utilization_after
from secondary_scheduler.kube.primitives.quantity import milli_value

NAME = "TargetLoadPacking"
_MAX_CLASSES = 10_000


class TargetLoadPacking:
    """Score by predicted CPU utilisation."""

    name = NAME

    def __init__(self, args: TargetLoadPackingArgs, context: PluginContext) -> None:
        self._target = float(args.effective_target)
        self._multiplier = args.multiplier
        self._default_request = milli_value(args.default_requests.get("cpu", 0))
        self._source = args.source_key()
        self._upstream = context.upstream
        self._max_age = float(context.options.load.max_age_seconds)
        self._predictions: dict[bytes, int] = {}
        self._unmeasured = Unmeasured(self.predict, upstream=self._upstream)

    def predict(self, pod: PodInfo) -> int:
        """Return the CPU a pod will probably use, in milli-units."""
        key = pod.spec.class_key
        found = self._predictions.get(key)
        if found is None:
            if len(self._predictions) >= _MAX_CLASSES:
                self._predictions.clear()
            found = self._predictions[key] = predicted_cpu(pod.spec, self._multiplier, self._default_request)
        return found

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray | None:
        """Return 0..100 per row; None in `safe` mode where no row has fresh load."""
        load = view.load(self._source)
        if load is None:
            return self._without_load(state, rows)
        measured = gather(view, load.cpu_last[: view.size], rows)
        usable = self._usable(view, load, measured, rows)
        if not usable.any():
            return self._without_load(state, rows)
        capacity = gather(view, view.capacity_cpu, rows)
        used = np.where(usable, measured, 0.0) / 100.0 * capacity
        missing = gather(view, self._unmeasured.by_row(view, load), rows)
        demand = float(self.predict(pod))
        if usable.all():
            return packing_score(utilization_after(used + demand, missing, capacity), self._target)
        state.count(f"load_missing/{NAME}", int(np.count_nonzero(~usable)))
        if self._upstream:
            scores = packing_score(utilization_after(used + demand, missing, capacity), self._target)
            return np.where(usable, scores, 0)
        estimate = gather(view, view.nonzero_requested("cpu"), rows) * self._multiplier
        used = np.where(usable, used, estimate)
        missing = np.where(usable, missing, 0.0)  # requests are known at once
        return packing_score(utilization_after(used + demand, missing, capacity), self._target)

    def _usable(self, view: NodeView, load: LoadColumns, measured: FloatArray, rows: RowArray) -> BoolArray:
        usable: BoolArray = np.isfinite(measured)
        if self._upstream:
            return usable
        sampled = gather(view, load.sampled_at[: view.size], rows)
        # A source that gives no time at all counts as fresh.
        sampled = np.where(sampled == 0.0, load.timestamp, sampled)
        fresh = (sampled == 0.0) | (view.now - sampled <= self._max_age)
        usable &= fresh & (measured >= 0.0)
        return usable

    def _without_load(self, state: CycleState, rows: RowArray) -> IntArray | None:
        state.count(f"load_missing/{NAME}", len(rows))
        if self._upstream:
            return np.zeros(len(rows), dtype=np.int64)
        state.count(f"load_left_out/{NAME}")
        return None
