"""LowRiskOverCommitment as it is by default (`compatibility: safe`)."""

from collections.abc import Callable

import numpy as np
from msgspec import Struct, field

from scheduler.catalog import LowRiskOverCommitmentArgs
from scheduler.framework import (
    SUCCESS,
    BoolArray,
    CycleState,
    FloatArray,
    IntArray,
    LoadColumns,
    NodeView,
    PluginContext,
    PodAmount,
    PodInfo,
    PreScorePlugin,
    RowArray,
    ScorePlugin,
    Status,
    gather,
)
from scheduler.helpers import round_half_away
from scheduler.helpers.loadstats import MEGA, Measured, measured_safe, resource_stats
from scheduler.helpers.staleness import StalenessPolicy, fill_with_mean, fresh_rows
from scheduler.helpers.unmeasured import UnmeasuredUse, requested
from scheduler.plugins.lowriskovercommitment.formula import limit_risk, load_risk, total_risk

NAME = "LowRiskOverCommitment"


class _LoadRisk(Struct):
    """Load risk per row of the table, worked out again only where what it follows from has changed.

    It does not depend on the pod to be placed, and beta distributions are expensive.
    """

    window: int
    inputs: FloatArray = field(default_factory=lambda: np.zeros((5, 0)))
    risk: FloatArray = field(default_factory=lambda: np.zeros(0))
    _expected: tuple[FloatArray, FloatArray] | None = None

    def precompute(self, inputs: FloatArray) -> None:
        """Work out the risks of inputs that are expected soon; may be called in another thread."""
        self._expected = inputs, load_risk(*inputs, window=self.window)

    def by_row(self, *inputs: FloatArray) -> FloatArray:
        """Return the risks; the inputs are those of `load_risk` in order."""
        now = np.array(inputs)
        if now.shape != self.inputs.shape:
            self.risk, changed = np.zeros(now.shape[1]), np.arange(now.shape[1])
        else:
            changed = np.flatnonzero((now != self.inputs).any(axis=0))
        if len(changed) and self._expected is not None and self._expected[0].shape == now.shape:
            expected, risk = self._expected
            met = (now[:, changed] == expected[:, changed]).all(axis=0)
            self.risk[changed[met]] = risk[changed[met]]
            changed = changed[~met]
        if len(changed):
            self.risk[changed] = load_risk(*now[:, changed], window=self.window)
        self.inputs = now
        return self.risk


class LowRiskOverCommitment(PreScorePlugin, ScorePlugin):
    """Score by the risk of over-commitment."""

    name = NAME

    def __init__(self, args: LowRiskOverCommitmentArgs, context: PluginContext) -> None:
        self._weights = {"cpu": args.risk_limit_weights["cpu"], "memory": args.risk_limit_weights["memory"]}
        self._source = args.source_key()
        self._staleness = StalenessPolicy(NAME, context.options.load)
        self._risks = {name: _LoadRisk(args.smoothing_window_size) for name in self._weights}
        self._amounts = {name: self._counted(name) for name in self._weights}
        self._unmeasured = _unmeasured()
        self._unmeasured_ahead = _unmeasured()

    def _counted(self, resource: str) -> tuple[PodAmount, PodAmount]:
        """Return what counts of a pod: the request, and the limit, which is at least the request."""

        def request(pod: PodInfo) -> int:
            return pod.requests.get(resource, 0)

        def limit(pod: PodInfo) -> int:
            return max(pod.limits.get(resource, 0), pod.requests.get(resource, 0))

        return request, limit

    def prepare_load(self, view: NodeView, load: LoadColumns) -> Callable[[], None] | None:
        """Work out the risks of a load that scores will follow from soon.

        To be called on the scheduling loop, which is held for a copy of some columns only; what is returned does the
        work (some 20 ms at 5,000 nodes) in another thread. Scores are the same without: what has changed in between is
        worked out when it is needed.
        """
        if load.source != self._source:
            return None
        prepared = []
        for name in self._weights:
            seen = self._measured(name, view, load)
            recent = np.array(self._recent_use(self._unmeasured_ahead[name], view, load))
            capacity, requests, limits = (
                column.copy() for column in (view.allocatable(name), *map(view.summed, self._amounts[name]))
            )
            prepared.append((name, seen, recent, requests, limits, capacity))

        def work() -> None:
            for name, seen, recent, requests, limits, capacity in prepared:
                self._risks[name].precompute(np.array(_risk_inputs(name, seen, recent, requests, limits, capacity)))

        return work

    def pre_score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Status:
        """Nothing to prepare: requests and limits are added up when a pod arrives, not per attempt as upstream."""
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray | None:
        """Return 0..100 per row; None in `safe` mode where no row has load by measurement or estimate."""
        if not self._limits_anything(pod):
            return np.zeros(len(rows), dtype=np.int64)
        load = view.load(self._source)
        seen = {name: self._measured(name, view, load) for name in self._weights}
        known = [gather_mask(view, seen[name].known, rows) for name in self._weights]
        valid = [gather_mask(view, seen[name].valid, rows) for name in self._weights]
        any_known = any(bool(fresh.any()) for fresh in known)
        unseen = CycleState()
        self._staleness.decide(state, known[0] & known[1], valid[0] & valid[1])
        decisions = [
            self._staleness.decide(unseen, fresh, has_load, other_resource_fresh=any_known)
            for fresh, has_load in zip(known, valid, strict=True)
        ]
        if not any(decision.scored for decision in decisions):
            self._staleness.count_left_out(state)
            return None
        worst = np.full(len(rows), -np.inf)
        for name, decision in zip(self._weights, decisions, strict=True):
            risk = self._risk(name, pod, view, load, seen[name], decision.fresh, rows)
            worst = np.maximum(worst, np.where(decision.left_out, -np.inf, risk))
        nowhere = np.isinf(worst)
        scores = round_half_away((1.0 - np.where(nowhere, 1.0, worst)) * 100.0).astype(np.int64)
        return fill_with_mean(scores, nowhere)

    def _limits_anything(self, pod: PodInfo) -> bool:
        """Tell whether a pod has any request or limit of cpu or memory."""
        return any(limit(pod) for _, limit in self._amounts.values())

    def _measured(self, resource: str, view: NodeView, load: LoadColumns | None) -> Measured:
        if load is None:
            nothing = np.zeros(view.size, dtype=np.bool_)
            return Measured(np.zeros(view.size), np.zeros(view.size), nothing, nothing)
        average = (load.cpu_average if resource == "cpu" else load.memory_average)[: view.size]
        deviation = (load.cpu_stddev if resource == "cpu" else load.memory_stddev)[: view.size]
        return self._measured_figures(average, deviation, view, load)

    def _measured_figures(
        self, average: FloatArray, deviation: FloatArray, view: NodeView, load: LoadColumns
    ) -> Measured:
        """Read one resource's figures, for all rows of the table."""
        everywhere = np.arange(view.size, dtype=np.intp)
        return measured_safe(average, deviation, fresh_rows(view, load, everywhere, self._staleness.max_age))

    def _recent_use(self, unmeasured: UnmeasuredUse, view: NodeView, load: LoadColumns) -> FloatArray | float:
        """Return the use of pods placed since the measurement, for all rows of the table."""
        return unmeasured.by_row(view, load)

    def _unknown_load_risk(self, by_limits: FloatArray) -> FloatArray | float:
        """Return the load risk of a resource without load: that of its limits."""
        return by_limits

    def _risk(
        self,
        resource: str,
        pod: PodInfo,
        view: NodeView,
        load: LoadColumns | None,
        seen: Measured,
        known: BoolArray,
        rows: RowArray,
    ) -> FloatArray:
        """Return the total risk of one resource per row, 0 to 1 (computeRisk).

        Args:
            resource: `cpu` or `memory`.
            pod: the pod to place.
            view: the nodes.
            load: the source's columns; None before its first answer.
            seen: the resource's figures, for all rows of the table.
            known: which of `rows` have usable figures.
            rows: the nodes to score.
        """
        capacity = view.allocatable(resource)
        request, limit = self._amounts[resource]
        requests, limits = view.summed(request), view.summed(limit)
        own_request, own_limit = request(pod), limit(pod)
        by_limits = gather(
            view, limit_risk(np.minimum(requests + own_request, capacity), limits + own_limit, capacity), rows
        )
        recent = 0.0 if load is None else self._recent_use(self._unmeasured[resource], view, load)
        inputs = _risk_inputs(resource, seen, recent, requests, limits, capacity)
        by_load = gather(view, self._risks[resource].by_row(*inputs), rows)
        by_load = np.where(known, by_load, self._unknown_load_risk(by_limits))
        return total_risk(self._weights[resource], by_limits, by_load)


def _unmeasured() -> dict[str, UnmeasuredUse]:
    return {
        "cpu": UnmeasuredUse(requested("cpu"), upstream=False),
        "memory": UnmeasuredUse(requested("memory"), upstream=False),
    }


def _risk_inputs(
    resource: str,
    seen: Measured,
    recent: FloatArray | float,
    requests: FloatArray,
    limits: FloatArray,
    capacity: FloatArray,
) -> tuple[FloatArray, ...]:
    """What `load_risk` is computed from; `recent` is the use of pods that the measurement misses."""
    unit = 1.0 if resource == "cpu" else MEGA
    mu, sigma = resource_stats(seen.average, seen.deviation, capacity * unit, recent * unit).mu_sigma()
    return mu, sigma, np.minimum(requests, capacity), limits, capacity


def gather_mask(view: NodeView, mask: BoolArray, rows: RowArray) -> BoolArray:
    """Return a mask at rows."""
    return mask if rows is view.rows and view.dense else mask.take(rows, mode="clip")
