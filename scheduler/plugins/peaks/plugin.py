"""Peaks as it is by default (`compatibility: safe`)."""

from collections.abc import Mapping

import numpy as np

from scheduler.catalog import PeaksArgs, PowerModel
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
    ScoreNormalizer,
    ScorePlugin,
    gather,
)
from scheduler.helpers.staleness import LoadDecision, StalenessPolicy, fresh_rows, is_load
from scheduler.helpers.unmeasured import UnmeasuredUse, requested
from scheduler.plugins.peaks.model import (
    VARIABLE,
    model_columns,
    models_of_file,
    normalize_scores,
    power_jump,
)

NAME = "Peaks"
_LARGEST = 2.0**61
"""Bound of raw scores in `safe` mode, so that differences do not wrap around."""


class Peaks(ScorePlugin, ScoreNormalizer):
    """Score by the growth of power."""

    name = NAME

    def __init__(self, args: PeaksArgs, context: PluginContext) -> None:
        self._source = args.source_key()
        self._staleness = StalenessPolicy(NAME, context.options.load)
        self._models: Mapping[str, PowerModel] = args.node_power_model
        if not self._models:
            self._models = models_of_file(context.environment.read_named_file(VARIABLE))
        self._unmeasured = UnmeasuredUse(requested("cpu"), upstream=False)
        self._membership = -1
        self._columns = model_columns({}, [])

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray | None:
        """Return the growth of power per row, times 10^15; None in `safe` mode where nothing is known."""
        load = view.load(self._source)
        models = self._models_by_row(view)
        k1, k2, has_model = models[0].take(rows), models[1].take(rows), models[2].take(rows)
        measured = np.full(len(rows), np.nan) if load is None else gather(view, load.cpu_first[: view.size], rows)
        capacity = gather(view, view.capacity_cpu, rows)
        demand = float(pod.requests.get("cpu", 0))
        valid = is_load(measured)
        fresh = valid if load is None else valid & fresh_rows(view, load, rows, self._staleness.max_age)
        decision = self._staleness.decide(state, fresh, valid)
        if not (decision.scored and has_model.any()):
            self._staleness.count_left_out(state)
            return None
        used = self._used(view, load, measured, decision, capacity, rows)
        before, after = utilization(used, capacity), utilization(used + demand, capacity)
        jump = np.clip(np.nan_to_num(power_jump(k1, k2, before, after, np.exp)), -_LARGEST, _LARGEST)
        known = has_model & ~decision.left_out
        overfull = (after > 100.0) & ~decision.left_out
        if not known.all():
            counted = known & ~overfull
            jump = np.where(known, jump, jump[counted].mean() if counted.any() else 0.0)
        state.write(NAME, np.flatnonzero(overfull))
        return jump.astype(np.int64)

    def normalize(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, scores: IntArray) -> IntArray:
        """Turn the least growth into 100 and the largest into 0."""
        overfull = state.read(NAME, np.ndarray)
        if overfull is None or not len(overfull):
            return normalize_scores(scores)
        fits = np.ones(len(scores), dtype=np.bool_)
        fits[overfull] = False
        result = np.zeros_like(scores)
        if fits.any():
            result[fits] = normalize_scores(scores[fits])
        return result

    def _models_by_row(self, view: NodeView) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Models by row of the view, gathered again when nodes come or go."""
        if self._membership != view.membership:
            names = [""] * view.size
            for row in view.rows.tolist():
                names[row] = view.name(row)
            self._columns = model_columns(self._models, names)
            self._membership = view.membership
        return self._columns

    def _used(
        self,
        view: NodeView,
        load: LoadColumns | None,
        measured: FloatArray,
        decision: LoadDecision,
        capacity: FloatArray,
        rows: RowArray,
    ) -> FloatArray:
        """Return the CPU in use per row, in milli-units: measured, with what the measurement misses, or estimated.

        Args:
            view: the nodes.
            load: the source's columns; None before its first answer.
            measured: the measured utilisation at `rows`, in per cent.
            decision: which rows are scored by load and which by an estimate.
            capacity: CPU capacity at `rows`, in milli-units.
            rows: the nodes to score.
        """
        used = np.where(decision.fresh, measured, 0.0) / 100.0 * capacity
        if load is not None:
            used = used + gather(view, self._unmeasured.by_row(view, load), rows)
        if decision.estimated.any():
            used = np.where(decision.estimated, gather(view, view.nonzero_requested("cpu"), rows), used)
        return used


def utilization(used: FloatArray, capacity: FloatArray) -> FloatArray:
    """Per cent of the capacity; 0 where there is none."""
    has_capacity = capacity > 0.0
    return np.where(has_capacity, 100.0 * used / np.where(has_capacity, capacity, 1.0), 0.0)
