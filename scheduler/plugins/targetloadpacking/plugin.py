"""TargetLoadPacking as it is by default (`compatibility: safe`)."""

from collections.abc import Callable, Hashable

import numpy as np

from scheduler.catalog import TargetLoadPackingArgs
from scheduler.framework import (
    CycleState,
    DependsOn,
    FloatArray,
    IntArray,
    LoadColumns,
    Locality,
    LocalPlugin,
    NodeView,
    PluginContext,
    PodInfo,
    RowArray,
    ScorePlugin,
    SpecInfo,
    gather,
    part_of,
)
from scheduler.helpers.staleness import (
    FreshnessCheck,
    LoadDecision,
    StalenessPolicy,
    fill_with_mean,
    fresh_rows,
    is_load,
)
from scheduler.helpers.unmeasured import UnmeasuredUse
from scheduler.kube.primitives import quantity_milli_value
from scheduler.plugins.targetloadpacking.formula import (
    PackingScores,
    packing_score_of_node,
    predicted_cpu,
    utilization_after,
    utilization_of_node,
)

NAME = "TargetLoadPacking"
_MAX_CACHED = 10_000


class TargetLoadPacking(ScorePlugin, LocalPlugin):
    """Score by predicted CPU utilisation."""

    name = NAME
    _prediction = staticmethod(predicted_cpu)

    def __init__(self, args: TargetLoadPackingArgs, context: PluginContext) -> None:
        self._target = float(args.effective_target)
        self._packing = PackingScores(self._target)
        self._multiplier = args.multiplier
        self._default_request = quantity_milli_value(args.default_requests.get("cpu", 0))
        self._source = args.source_key()
        self._staleness = StalenessPolicy(NAME, context.options.load)
        self._predictions: dict[bytes, int] = {}
        self._unmeasured = UnmeasuredUse(lambda entry: self.predict(entry.spec), upstream=context.upstream)
        self._freshness = FreshnessCheck(self._staleness.max_age)

    def predict(self, spec: SpecInfo) -> int:
        """Return the CPU a pod will probably use, in milli-units."""
        key = spec.class_key
        predicted = self._predictions.get(key)
        if predicted is None:
            if len(self._predictions) >= _MAX_CACHED:
                self._predictions.clear()
            predicted = self._predictions[key] = self._prediction(spec, self._multiplier, self._default_request)
        return predicted

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray | None:
        """Return 0..100 per row; None in `safe` mode where no row has load by measurement or estimate."""
        load = view.load(self._source)
        capacity, demand = gather(view, view.capacity_cpu, rows), float(self.predict(pod.spec))
        if load is not None and self._freshness.all_fresh(view, load):
            used = gather(view, load.cpu_last[: view.size], rows) / 100.0
            used *= capacity
            used += demand
            missing = gather(view, self._unmeasured.by_row(view, load), rows)
            return self._packing(utilization_after(used, missing, capacity))
        if load is None:
            decision = self._staleness.decide_without_source(state, rows)
            used, missing = np.zeros(len(rows)), np.zeros(len(rows))
        else:
            measured = gather(view, load.cpu_last[: view.size], rows)
            valid = is_load(measured)
            fresh = valid & fresh_rows(view, load, rows, self._staleness.max_age)
            decision = self._staleness.decide(state, fresh, valid)
            used = np.where(decision.fresh, measured, 0.0) / 100.0 * capacity
            missing = gather(view, self._unmeasured.by_row(view, load), rows)
        if not decision.scored:
            self._staleness.count_left_out(state)
            return None
        if decision.estimated.any():
            used, missing = self._estimate(view, rows, decision, used, missing)
        scores = self._packing(utilization_after(used + demand, missing, capacity))
        return fill_with_mean(scores, decision.left_out)

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """While every node's load is fresh, scores follow from it and from the pods that came to the node since."""
        load = view.load(self._source)
        if load is None or not self._freshness.all_fresh(view, load):
            return Locality()
        return Locality(
            scores=DependsOn.PODS,
            version=self._version,
            # Of the spec, the formula reads nothing else.
            pods_part=part_of(self.predict(pod.spec)),
            by_row=lambda now: (None, self._rate(pod, now, load)),
        )

    def _version(self, view: NodeView) -> Hashable:
        load = view.load(self._source)
        return None if load is None else (load.version, view.membership, self._freshness.all_fresh(view, load))

    def _rate(self, pod: PodInfo, view: NodeView, load: LoadColumns) -> Callable[[NodeView, int], int]:
        """Return `score` on one row."""
        capacity_at, measured_at, demand = view.capacity_cpu.item, load.cpu_last.item, float(self.predict(pod.spec))

        def rate(now: NodeView, row: int) -> int:
            capacity, missing = capacity_at(row), self._unmeasured.by_row(now, load).item(row)
            utilization = utilization_of_node(measured_at(row) / 100.0 * capacity + demand + missing, capacity)
            return packing_score_of_node(utilization, self._target)

        return rate

    def _estimate(
        self, view: NodeView, rows: RowArray, decision: LoadDecision, used: FloatArray, missing: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        estimate = gather(view, view.nonzero_requested("cpu"), rows) * self._multiplier
        # Requests are known at once: no pod is missing in them.
        return np.where(decision.fresh, used, estimate), np.where(decision.fresh, missing, 0.0)
