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
from scheduler.framework import BoolArray, FloatArray
from scheduler.helpers import round_half_away
from scheduler.helpers.loadstats import MEGA, Measured, bound, measured_safe, measured_upstream, resource_stats
from scheduler.helpers.staleness import StalenessPolicy, fill_with_mean, fresh_rows
from scheduler.helpers.unmeasured import UnmeasuredUse, requested
from scheduler.helpers.upstreamsums import upstream_amounts

_EPSILON = 2.0**-53
_SMALLEST_FLOAT = 5e-324
_MAX_FRACTION_TERMS = 301
"""Terms of the continued fraction. Upstream's library stops there too, also where a very narrow distribution would
need more, so its figures are met in that case as well."""
_MAX_SERIES_TERMS = 5000
_TERMS_BETWEEN_CHECKS = 6
_STIRLING_FROM, _STIRLING_SHIFT = 10.0, 10
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class BetaFit(Struct, frozen=True):
    """Beta distributions by row; `valid` is false where the moments belong to none, and alpha and beta are NaN."""

    alpha: FloatArray
    beta: FloatArray
    valid: BoolArray

    def cdf(self, *x: FloatArray) -> tuple[FloatArray, ...]:
        """Return the probability of x or less, for each of several x; 0 where it cannot be computed.

        An x of NaN costs nothing and yields 0.
        """
        with np.errstate(all="ignore"):
            scale = np.full(len(self.alpha), np.nan)
            rows = np.flatnonzero(self.valid & np.isfinite(self.alpha) & np.isfinite(self.beta))
            scale[rows] = _log_beta(self.alpha[rows], self.beta[rows])
        return tuple(self._cdf(bound, scale) for bound in x)

    def _cdf(self, x: FloatArray, scale: FloatArray) -> FloatArray:
        probability = regularized_incomplete_beta(self.alpha, self.beta, x, scale)
        with np.errstate(invalid="ignore"):
            return np.where((probability >= 0.0) & (probability <= 1.0), probability, 0.0)


def max_variance(mean: FloatArray) -> FloatArray:
    """Return the variance that a distribution on 0..1 with this mean cannot reach; 0 for means outside (0, 1)."""
    return np.where((mean > 0.0) & (mean < 1.0), mean * (1.0 - mean), 0.0)


def match_moments(first: FloatArray, second: FloatArray) -> BetaFit:
    """Fit beta distributions to the first two moments."""
    with np.errstate(all="ignore"):
        # As upstream writes it: for a tiny deviation the difference may cancel to 0, and the fit degenerates.
        variance = second - first * first
        limit = first * (1.0 - first)
        valid = (first >= 0.0) & (first <= 1.0) & (variance >= 0.0) & (variance < limit)
        size = np.maximum(limit / variance - 1.0, _SMALLEST_FLOAT)
        alpha = np.where(valid, first * size, np.nan)
        beta = np.where(valid, (1.0 - first) * size, np.nan)
    return BetaFit(alpha, beta, valid)


def regularized_incomplete_beta(
    alpha: FloatArray, beta: FloatArray, x: FloatArray, scale: FloatArray | None = None
) -> FloatArray:
    """Return I_x(alpha, beta); NaN where a parameter is not positive and finite or x is outside 0..1.

    `scale` is log B(alpha, beta) where the caller has it already.

    By the power series for small beta * x, else by one of two continued fractions, on the side of the mean where they
    converge fast (S. L. Moshier's choice, which upstream's library makes too).
    """
    with np.errstate(all="ignore"):
        result = np.full(np.shape(x), np.nan)
        good = (alpha > 0.0) & (beta > 0.0) & np.isfinite(alpha) & np.isfinite(beta)
        result[good & (x == 0.0)] = 0.0
        result[good & (x == 1.0)] = 1.0
        rows = np.flatnonzero(good & (x > 0.0) & (x < 1.0))
        if len(rows):
            a, b = alpha[rows], beta[rows]
            result[rows] = _interior(a, b, x[rows], _log_beta(a, b) if scale is None else scale[rows])
    return result


def _interior(alpha: FloatArray, beta: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
    direct_series = (beta * x <= 1.0) & (x <= 0.95)
    # Beyond the mean the complement is computed: I_x(a, b) = 1 - I_1-x(b, a).
    mirrored = ~direct_series & (x > alpha / (alpha + beta))
    a, b = np.where(mirrored, beta, alpha), np.where(mirrored, alpha, beta)
    y = np.where(mirrored, 1.0 - x, x)
    complement = np.where(mirrored, x, 1.0 - x)
    series = direct_series | (mirrored & (b * y <= 1.0) & (y <= 0.95))
    result = np.empty_like(x)
    rows = np.flatnonzero(series)
    if len(rows):
        result[rows] = _power_series(a[rows], b[rows], y[rows], scale[rows])
    rows = np.flatnonzero(~series)
    if len(rows):
        result[rows] = _by_continued_fractions(a[rows], b[rows], y[rows], complement[rows], scale[rows])
    return np.where(mirrored, 1.0 - np.maximum(result, _EPSILON), result)


def _power_series(a: FloatArray, b: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
    """x^a / (a B(a, b)) * (1 + a * sum over n of (1-b)(2-b)...(n-b) x^n / (n! (a+n)))."""
    total = 1.0 / a
    live = np.arange(len(x))
    term, sums, smallest, left, right, y = np.ones_like(x), total.copy(), _EPSILON / a, a, b, x
    for n in range(1, _MAX_SERIES_TERMS):
        term = term * ((n - right) * y / n)
        part = term / (left + n)
        sums = sums + part
        if n % _TERMS_BETWEEN_CHECKS:
            continue
        # Near x = 1 a few rows need hundreds of terms, which the others must not wait for.
        moving = np.abs(part) > smallest
        if moving.all():
            continue
        total[live] = sums
        if not moving.any():
            break
        live = live[moving]
        term, sums, smallest, left, right, y = (column[moving] for column in (term, sums, smallest, left, right, y))
    total[live] = sums
    return np.exp(a * np.log(x) - scale + np.log(total))


def _by_continued_fractions(
    a: FloatArray, b: FloatArray, x: FloatArray, complement: FloatArray, scale: FloatArray
) -> FloatArray:
    low = x * (a + b - 2.0) - (a - 1.0) < 0.0
    fraction = np.empty_like(x)
    rows = np.flatnonzero(low)
    if len(rows):
        fraction[rows] = _continued_fraction(a[rows], (a + b)[rows], (b - 1.0)[rows], x[rows], 1.0)
    rows = np.flatnonzero(~low)
    if len(rows):
        ratio = x[rows] / (1.0 - x[rows])
        fraction[rows] = _continued_fraction(a[rows], (b - 1.0)[rows], (a + b)[rows], ratio, -1.0) / complement[rows]
    return np.exp(a * np.log(x) + b * np.log(complement) - scale + np.log(fraction / a))


def _continued_fraction(a: FloatArray, even: FloatArray, odd: FloatArray, z: FloatArray, step: float) -> FloatArray:
    """Evaluate 1 / (1 - d1 / (1 + d2 / (1 - ...))) by its convergents, until they stand still.

    Numerators are z (a+n)(even + step n) and z (1+n)(odd - step n), each over the next two of a, a+1, a+2, ...
    """
    answer = np.ones_like(z)
    live = np.arange(len(z))
    previous_p, previous_q = np.zeros_like(z), np.ones_like(z)
    p, q = np.ones_like(z), np.ones_like(z)
    for n in range(_MAX_FRACTION_TERMS):
        base = a + 2.0 * n
        for numerator in (
            -(z * (a + n) * (even + step * n)) / (base * (base + 1.0)),
            (z * (1.0 + n) * (odd - step * n)) / ((base + 1.0) * (base + 2.0)),
        ):
            previous_p, p = p, p + previous_p * numerator
            previous_q, q = q, q + previous_q * numerator
        ratio = np.where(q != 0.0, p / q, answer[live])
        converged = np.abs((answer[live] - ratio) / ratio) < 3.0 * _EPSILON
        answer[live] = np.where(ratio != 0.0, ratio, answer[live])
        if converged.all():
            break
        keep = ~converged
        # Powers of two change no digit.
        scale = np.exp2(-np.frexp(np.maximum(np.abs(p), np.abs(q)))[1].astype(np.float64))[keep]
        live, a, even, odd, z = live[keep], a[keep], even[keep], odd[keep], z[keep]
        previous_p, p, previous_q, q = (column[keep] * scale for column in (previous_p, p, previous_q, q))
    return answer


def _log_beta(a: FloatArray, b: FloatArray) -> FloatArray:
    return _log_gamma(a) + _log_gamma(b) - _log_gamma(a + b)


def _log_gamma(values: FloatArray) -> FloatArray:
    """Return log(Gamma) of positive numbers, by Stirling's series where it is exact to the last digits.

    Smaller ones are lifted there by Gamma(x + 1) = x Gamma(x).
    """
    small = values < _STIRLING_FROM
    x = np.where(small, values + _STIRLING_SHIFT, values)
    inverse = 1.0 / x
    square = inverse * inverse
    series = np.full_like(x, _STIRLING[-1])
    for coefficient in _STIRLING[-2::-1]:
        series = series * square + coefficient
    result: FloatArray = (x - 0.5) * np.log(x) - x + _HALF_LOG_TWO_PI + series * inverse
    rows = np.flatnonzero(small)
    if len(rows):
        lifted = values[rows]
        product = lifted.copy()
        for step in range(1, _STIRLING_SHIFT):
            product *= lifted + step
        result[rows] -= np.log(product)
    return result


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
