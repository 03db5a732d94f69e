"""LowRiskOverCommitment: prefer nodes where limits beyond requests, and load beyond requests, are least likely to hurt.

Pods without any request or limit score 0 everywhere. What happens on a node without (fresh) load depends on
`compatibility`:

- `upstream`: it scores 0; one resource without load counts as without load risk.
- `safe`: as `SecondarySchedulerOptions.load` says. By default a resource that is not measured on a node is judged by
  limits and requests alone, and where nothing is measured on any feasible node the plugin is left out of the attempt.
  Pods assigned too recently to show in the averages are added to them, as they are to the requests that the load is
  compared with. Counters: see `StalenessPolicy`; a node counts where one of the two resources is not fresh.
"""

import math
from collections.abc import Callable

import numpy as np
from msgspec import Struct, field

from scheduler import framework as fw
from scheduler.catalog import LowRiskOverCommitmentArgs
from scheduler.helpers import round_half_away
from scheduler.helpers.loadstats import MEGA, Measured, bound, measured_safe, measured_upstream, resource_stats
from scheduler.helpers.staleness import StalenessPolicy, fill_with_mean, fresh_rows
from scheduler.helpers.unmeasured import UnmeasuredUse, requested
from scheduler.helpers.upstreamsums import upstream_amounts
from scheduler.plugins.lowriskovercommitment.beta import match_moments, max_variance

# The formulas of LowRiskOverCommitment (scheduler-plugins v0.34.7, pkg/trimaran/lowriskovercommitment).

MAX_VARIANCE_ALLOWANCE = 0.99


def limit_risk(request: fw.FloatArray, limit: fw.FloatArray, capacity: fw.FloatArray) -> fw.FloatArray:
    """Return how much of what limits allow beyond requests does not fit the node; `request` is at most `capacity`."""
    beyond = limit > capacity
    if not beyond.any():
        return np.zeros_like(capacity)
    return np.where(beyond, (limit - capacity) / np.where(beyond, limit - request, 1.0), 0.0)


def load_risk(
    mu: fw.FloatArray,
    sigma: fw.FloatArray,
    request: fw.FloatArray,
    limit: fw.FloatArray,
    capacity: fw.FloatArray,
    *,
    window: int,
) -> fw.FloatArray:
    """Return the probability that the measured load exceeds what is requested on the node.

    Args:
        mu: mean load, a share of the capacity.
        sigma: its deviation, before it is widened for the smoothing of the measurements.
        request: requests of the node's pods, at most the capacity.
        limit: limits of the node's pods.
        capacity: allocatable amount, in the same unit.
        window: by how many samples each measurement was smoothed.
    """
    sigma = np.minimum(sigma * math.sqrt(window), np.sqrt(max_variance(mu) * MAX_VARIANCE_ALLOWANCE))
    divisor = np.where(capacity == 0.0, 1.0, capacity)
    allocated = np.clip(request / divisor, 0.0, 1.0)
    fit = match_moments(mu, sigma * sigma + mu * mu)
    sure = (mu == 0.0) | (sigma == 0.0)
    fitted = fit.valid & ~sure
    # Pods cannot use more than their limits: where these leave room, the probability is conditioned on that.
    bounded = (limit < capacity) & (request <= limit)
    share = limit / divisor
    # Only where it matters: beta distributions are expensive.
    wanted = np.where(fitted, allocated, np.nan)
    below, possible = fit.cdf(wanted, np.where(bounded & fitted, np.clip(share, 0.0, 1.0), np.nan))
    below = np.where(sure, np.where((mu == 0.0) | (mu <= allocated), 1.0, 0.0), below)
    conditional = np.clip(below / np.where(possible > 0.0, possible, 1.0), 0.0, 1.0)
    below = np.where(possible > 0.0, conditional, below)
    below = np.where(bounded & (share == 0.0), 1.0, below)
    return 1.0 - below


def total_risk(weight: float, limits: fw.FloatArray, load: fw.FloatArray) -> fw.FloatArray:
    """Combine the two risks."""
    return bound(weight * limits + (1.0 - weight) * load, 0.0, 1.0)


NAME = "LowRiskOverCommitment"


class _LoadRisk(Struct):
    """Load risk per row of the table, worked out again only where what it follows from has changed.

    It does not depend on the pod to be placed, and beta distributions are expensive.
    """

    window: int
    inputs: fw.FloatArray = field(default_factory=lambda: np.zeros((5, 0)))
    risk: fw.FloatArray = field(default_factory=lambda: np.zeros(0))
    _expected: tuple[fw.FloatArray, fw.FloatArray] | None = None

    def precompute(self, inputs: fw.FloatArray) -> None:
        """Work out the risks of inputs that are expected soon; may be called in another thread."""
        self._expected = inputs, load_risk(*inputs, window=self.window)

    def by_row(self, *inputs: fw.FloatArray) -> fw.FloatArray:
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


class LowRiskOverCommitment(fw.PreScorePlugin, fw.ScorePlugin):
    """Score by the risk of over-commitment."""

    name = NAME

    def __init__(self, args: LowRiskOverCommitmentArgs, context: fw.PluginContext) -> None:
        self._weights = {"cpu": args.risk_limit_weights["cpu"], "memory": args.risk_limit_weights["memory"]}
        self._source = args.source_key()
        self._staleness = StalenessPolicy(NAME, context.options.load)
        self._risks = {name: _LoadRisk(args.smoothing_window_size) for name in self._weights}
        self._amounts = {name: self._counted(name) for name in self._weights}
        self._unmeasured = _unmeasured()
        self._unmeasured_ahead = _unmeasured()

    def _counted(self, resource: str) -> tuple[fw.PodAmount, fw.PodAmount]:
        """Return what counts of a pod: the request, and the limit, which is at least the request."""

        def request(pod: fw.PodInfo) -> int:
            return pod.requests.get(resource, 0)

        def limit(pod: fw.PodInfo) -> int:
            return max(pod.limits.get(resource, 0), pod.requests.get(resource, 0))

        return request, limit

    def prepare_load(self, view: fw.NodeView, load: fw.LoadColumns) -> Callable[[], None] | None:
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

    def pre_score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Status:
        """Nothing to prepare: requests and limits are added up when a pod arrives, not per attempt as upstream."""
        return fw.SUCCESS

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray | None:
        """Return 0..100 per row; None in `safe` mode where no row has load by measurement or estimate."""
        if not self._limits_anything(pod):
            return np.zeros(len(rows), dtype=np.int64)
        load = view.load(self._source)
        seen = {name: self._measured(name, view, load) for name in self._weights}
        known = [gather_mask(view, seen[name].known, rows) for name in self._weights]
        valid = [gather_mask(view, seen[name].valid, rows) for name in self._weights]
        any_known = any(bool(fresh.any()) for fresh in known)
        unseen = fw.CycleState()
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

    def _limits_anything(self, pod: fw.PodInfo) -> bool:
        """Tell whether a pod has any request or limit of cpu or memory."""
        return any(limit(pod) for _, limit in self._amounts.values())

    def _measured(self, resource: str, view: fw.NodeView, load: fw.LoadColumns | None) -> Measured:
        if load is None:
            nothing = np.zeros(view.size, dtype=np.bool_)
            return Measured(np.zeros(view.size), np.zeros(view.size), nothing, nothing)
        average = (load.cpu_average if resource == "cpu" else load.memory_average)[: view.size]
        deviation = (load.cpu_stddev if resource == "cpu" else load.memory_stddev)[: view.size]
        return self._measured_figures(average, deviation, view, load)

    def _measured_figures(
        self, average: fw.FloatArray, deviation: fw.FloatArray, view: fw.NodeView, load: fw.LoadColumns
    ) -> Measured:
        """Read one resource's figures, for all rows of the table."""
        everywhere = np.arange(view.size, dtype=np.intp)
        return measured_safe(average, deviation, fresh_rows(view, load, everywhere, self._staleness.max_age))

    def _recent_use(self, unmeasured: UnmeasuredUse, view: fw.NodeView, load: fw.LoadColumns) -> fw.FloatArray | float:
        """Return the use of pods placed since the measurement, for all rows of the table."""
        return unmeasured.by_row(view, load)

    def _unknown_load_risk(self, by_limits: fw.FloatArray) -> fw.FloatArray | float:
        """Return the load risk of a resource without load: that of its limits."""
        return by_limits

    def _risk(
        self,
        resource: str,
        pod: fw.PodInfo,
        view: fw.NodeView,
        load: fw.LoadColumns | None,
        seen: Measured,
        known: fw.BoolArray,
        rows: fw.RowArray,
    ) -> fw.FloatArray:
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
        by_limits = fw.gather(
            view, limit_risk(np.minimum(requests + own_request, capacity), limits + own_limit, capacity), rows
        )
        recent = 0.0 if load is None else self._recent_use(self._unmeasured[resource], view, load)
        inputs = _risk_inputs(resource, seen, recent, requests, limits, capacity)
        by_load = fw.gather(view, self._risks[resource].by_row(*inputs), rows)
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
    recent: fw.FloatArray | float,
    requests: fw.FloatArray,
    limits: fw.FloatArray,
    capacity: fw.FloatArray,
) -> tuple[fw.FloatArray, ...]:
    """What `load_risk` is computed from; `recent` is the use of pods that the measurement misses."""
    unit = 1.0 if resource == "cpu" else MEGA
    mu, sigma = resource_stats(seen.average, seen.deviation, capacity * unit, recent * unit).mu_sigma()
    return mu, sigma, np.minimum(requests, capacity), limits, capacity


def gather_mask(view: fw.NodeView, mask: fw.BoolArray, rows: fw.RowArray) -> fw.BoolArray:
    """Return a mask at rows."""
    return mask if rows is view.rows and view.dense else mask.take(rows, mode="clip")


# What `compatibility: upstream` changes in LowRiskOverCommitment: pkg/trimaran/lowriskovercommitment of
# scheduler-plugins 0.34.7 as it is.
class UpstreamLowRiskOverCommitment(LowRiskOverCommitment):
    """A node without load scores 0; one resource without load counts as without load risk; pods placed since the
    measurement do not count, and what pods request is upstream's sum."""

    def _counted(self, resource: str) -> tuple[fw.PodAmount, fw.PodAmount]:
        return upstream_amounts(resource)

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Return 0..100 per row."""
        if not self._limits_anything(pod):
            return np.zeros(len(rows), dtype=np.int64)
        load = view.load(self._source)
        seen = {name: self._measured(name, view, load) for name in self._weights}
        known = {name: gather_mask(view, measured.known, rows) for name, measured in seen.items()}
        blind = ~(known["cpu"] | known["memory"])
        state.count(f"load_absent/{NAME}", int(np.count_nonzero(blind)))
        if blind.all():
            return np.zeros(len(rows), dtype=np.int64)
        risks = [self._risk(name, pod, view, load, seen[name], known[name], rows) for name in self._weights]
        scores = round_half_away((1.0 - np.maximum(*risks)) * 100.0).astype(np.int64)
        return np.where(blind, 0, scores)

    def _measured_figures(
        self, average: fw.FloatArray, deviation: fw.FloatArray, view: fw.NodeView, load: fw.LoadColumns
    ) -> Measured:
        return measured_upstream(average, deviation)

    def _recent_use(self, unmeasured: UnmeasuredUse, view: fw.NodeView, load: fw.LoadColumns) -> float:
        return 0.0

    def _unknown_load_risk(self, by_limits: fw.FloatArray) -> float:
        return 0.0


def low_risk_over_commitment(args: LowRiskOverCommitmentArgs, context: fw.PluginContext) -> LowRiskOverCommitment:
    """Return the plugin as the profile's `compatibility` wants it."""
    plugin = UpstreamLowRiskOverCommitment if context.upstream else LowRiskOverCommitment
    return plugin(args, context)
