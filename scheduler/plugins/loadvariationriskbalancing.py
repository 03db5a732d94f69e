"""LoadVariationRiskBalancing: prefer nodes whose load is low and steady; the worse of CPU and memory counts.

What happens on a node without (fresh) load depends on `compatibility`:

- `upstream`: it scores 0, a deviation alone makes it look idle, and pods placed since the measurement do not count.
- `safe`: as `SecondarySchedulerOptions.load` says. By default what is not measured on a node is estimated by what its
  pods request; a resource that is measured on no feasible node does not count beside one that is, and where neither is
  the plugin is left out of the attempt. Pods assigned too recently to show in the averages are added to them. Counters:
  see `StalenessPolicy`; a node counts where one of the two resources is not fresh.
"""

import numpy as np
from msgspec.structs import replace

from scheduler import framework as fw
from scheduler.catalog import LoadVariationRiskBalancingArgs
from scheduler.helpers import round_half_away
from scheduler.helpers.loadstats import (
    MEGA,
    Measured,
    ResourceStats,
    bound,
    measured_safe,
    measured_upstream,
    resource_stats,
)
from scheduler.helpers.staleness import LoadDecision, StalenessPolicy, fill_with_mean, fresh_rows
from scheduler.helpers.unmeasured import UnmeasuredUse, requested
from scheduler.helpers.upstreamsums import upstream_requests


# The formula of LoadVariationRiskBalancing (scheduler-plugins v0.34.7, pkg/trimaran/loadvariationriskbalancing).
def balance_score(stats: ResourceStats, margin: float, sensitivity: float) -> fw.FloatArray:
    """Return (1 - risk) * 100 with risk = (mean + margin * deviation^(1/sensitivity)) / 2; 0 without capacity."""
    bounded = ResourceStats(
        stats.capacity,
        np.maximum(stats.request, 0.0),
        bound(stats.used_average.copy(), 0.0, stats.capacity),
        bound(stats.used_deviation.copy(), 0.0, stats.capacity),
    )
    mu, sigma = bounded.mu_sigma()
    sigma = bound(_root(sigma, sensitivity) * margin, 0.0, 1.0)
    score: fw.FloatArray = (1.0 - (mu + sigma) / 2.0) * 100.0
    if not stats.capacity.all():
        score[stats.capacity == 0.0] = 0.0
    return score


def _root(sigma: fw.FloatArray, sensitivity: float) -> fw.FloatArray:
    if sensitivity < 0.0 or sensitivity == 1.0:
        return sigma
    if sensitivity == 0.0:
        # Go's 1/0 is infinite, and only 1 stays above 0 in that power.
        return np.where(sigma >= 1.0, sigma, 0.0)
    if sensitivity == 2.0:
        return np.sqrt(sigma)
    root: fw.FloatArray = np.power(sigma, 1.0 / sensitivity)
    return root


NAME = "LoadVariationRiskBalancing"
UNITS = {"cpu": 1.0, "memory": MEGA}


class LoadVariationRiskBalancing(fw.ScorePlugin):
    """Score by mean and deviation of the measured load."""

    name = NAME

    def __init__(self, args: LoadVariationRiskBalancingArgs, context: fw.PluginContext) -> None:
        self._margin = args.safe_variance_margin
        self._sensitivity = args.safe_variance_sensitivity
        self._source = args.source_key()
        self._staleness = StalenessPolicy(NAME, context.options.load)
        self._unmeasured = {
            "cpu": UnmeasuredUse(requested("cpu"), upstream=False),
            "memory": UnmeasuredUse(requested("memory"), upstream=False),
        }

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray | None:
        """Return 0..100 per row; None in `safe` mode where no row has load by measurement or estimate."""
        load = view.load(self._source)
        requests = {resource: pod.requests.get(resource, 0) for resource in UNITS}
        seen: dict[str, Measured] = {}
        if load is not None:
            fresh = fresh_rows(view, load, rows, self._staleness.max_age)
            for resource in requests:
                average, deviation = self._figures(resource, view, load, rows)
                seen[resource] = measured_safe(average, deviation, fresh)
        counted = [name for name, measured in seen.items() if measured.known.any()] or list(requests)
        decisions = self._decisions(state, [seen.get(name) for name in counted], rows)
        if not any(decision.scored for decision in decisions):
            self._staleness.count_left_out(state)
            return None
        scores = []
        for resource, decision in zip(counted, decisions, strict=True):
            amount = requests[resource] * UNITS[resource]
            own = self._resource_score(resource, amount, view, load, rows, seen.get(resource), decision)
            scores.append(np.where(decision.left_out, np.inf, own) if decision.left_out.any() else own)
        worst = scores[0] if len(scores) == 1 else np.minimum(*scores)
        nowhere = worst == np.inf
        if nowhere.any():
            worst = np.where(nowhere, 0.0, worst)
        return fill_with_mean(round_half_away(worst).astype(np.int64), nowhere)

    def _decisions(self, state: fw.CycleState, seen: list[Measured | None], rows: fw.RowArray) -> list[LoadDecision]:
        """Judge each resource for itself, and count a node once, by its worse resource."""
        if len(seen) == 1 or seen[0] is None or seen[1] is None:
            first = seen[0]
            if first is None:
                return [self._staleness.decide_without_source(state, rows)] * len(seen)
            return [self._staleness.decide(state, first.known, first.valid)] * len(seen)
        unseen = fw.CycleState()
        self._staleness.decide(state, seen[0].known & seen[1].known, seen[0].valid & seen[1].valid)
        return [
            self._staleness.decide(unseen, measured.known, measured.valid) for measured in seen if measured is not None
        ]

    def _resource_score(
        self,
        resource: str,
        request: float,
        view: fw.NodeView,
        load: fw.LoadColumns | None,
        rows: fw.RowArray,
        seen: Measured | None,
        decision: LoadDecision,
    ) -> fw.FloatArray:
        """Return the exact score of one resource, 0 to 100 per row.

        Args:
            resource: `cpu` or `memory`.
            request: what the pod requests, in milli-units or MiB.
            view: the nodes.
            load: the source's columns; None before its first answer.
            rows: the nodes to score.
            seen: the figures at `rows`; None without load.
            decision: which rows are scored by load and which by an estimate.
        """
        capacity = fw.gather(view, view.allocatable(resource), rows) * UNITS[resource]
        if seen is None or load is None:
            nothing = np.zeros(len(rows))
            stats = resource_stats(nothing, nothing, capacity, request)
        else:
            stats = resource_stats(seen.average, seen.deviation, capacity, request)
            recent = fw.gather(view, self._unmeasured[resource].by_row(view, load), rows)
            stats = replace(stats, used_average=stats.used_average + recent * UNITS[resource])
        if decision.estimated.any():
            estimate = fw.gather(view, view.nonzero_requested(resource), rows) * UNITS[resource]
            stats = replace(stats, used_average=np.where(decision.estimated, estimate, stats.used_average))
        return balance_score(stats, self._margin, self._sensitivity)

    def _figures(
        self, resource: str, view: fw.NodeView, load: fw.LoadColumns, rows: fw.RowArray
    ) -> tuple[fw.FloatArray, fw.FloatArray]:
        average = load.cpu_average if resource == "cpu" else load.memory_average
        deviation = load.cpu_stddev if resource == "cpu" else load.memory_stddev
        return fw.gather(view, average[: view.size], rows), fw.gather(view, deviation[: view.size], rows)


# What `compatibility: upstream` changes in LoadVariationRiskBalancing: pkg/trimaran/loadvariationriskbalancing of
# scheduler-plugins 0.34.7 as it is.
class UpstreamLoadVariationRiskBalancing(LoadVariationRiskBalancing):
    """A node without load scores 0; one figure of two suffices; pods placed since the measurement do not count, and
    what the pod requests is upstream's sum."""

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Return 0..100 per row."""
        load = view.load(self._source)
        requests = {resource: upstream_requests(pod.spec).get(resource, 0) for resource in UNITS}
        if load is None:
            state.count(f"load_absent/{NAME}", len(rows))
            return np.zeros(len(rows), dtype=np.int64)
        scores, known = [], []
        for resource, amount in requests.items():
            seen = measured_upstream(*self._figures(resource, view, load, rows))
            capacity = fw.gather(view, view.allocatable(resource), rows) * UNITS[resource]
            stats = resource_stats(seen.average, seen.deviation, capacity, amount * UNITS[resource])
            scores.append(np.where(seen.known, balance_score(stats, self._margin, self._sensitivity), 0.0))
            known.append(seen.known)
        state.count(f"load_absent/{NAME}", int(np.count_nonzero(~(known[0] | known[1]))))
        exact = np.where(known[0] & known[1], np.minimum(*scores), np.maximum(*scores))
        return round_half_away(exact).astype(np.int64)


def load_variation_risk_balancing(
    args: LoadVariationRiskBalancingArgs, context: fw.PluginContext
) -> LoadVariationRiskBalancing:
    """Return the plugin as the profile's `compatibility` wants it."""
    plugin = UpstreamLoadVariationRiskBalancing if context.upstream else LoadVariationRiskBalancing
    return plugin(args, context)
