"""LoadVariationRiskBalancing as it is by default (`compatibility: safe`)."""

import numpy as np
from msgspec.structs import replace

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
    ScorePlugin,
    gather,
)
from scheduler.helpers import round_half_away
from scheduler.helpers.loadstats import MEGA, Measured, measured_safe, resource_stats
from scheduler.helpers.staleness import LoadDecision, StalenessPolicy, fill_with_mean, fresh_rows
from scheduler.helpers.unmeasured import UnmeasuredUse, requested
from scheduler.plugins.loadvariationriskbalancing.formula import balance_score

NAME = "LoadVariationRiskBalancing"
UNITS = {"cpu": 1.0, "memory": MEGA}


class LoadVariationRiskBalancing(ScorePlugin):
    """Score by mean and deviation of the measured load."""

    name = NAME

    def __init__(self, args: LoadVariationRiskBalancingArgs, context: PluginContext) -> None:
        self._margin = args.safe_variance_margin
        self._sensitivity = args.safe_variance_sensitivity
        self._source = args.source_key()
        self._staleness = StalenessPolicy(NAME, context.options.load)
        self._unmeasured = {
            "cpu": UnmeasuredUse(requested("cpu"), upstream=False),
            "memory": UnmeasuredUse(requested("memory"), upstream=False),
        }

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray | None:
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

    def _decisions(self, state: CycleState, seen: list[Measured | None], rows: RowArray) -> list[LoadDecision]:
        """Judge each resource for itself, and count a node once, by its worse resource."""
        if len(seen) == 1 or seen[0] is None or seen[1] is None:
            first = seen[0]
            if first is None:
                return [self._staleness.decide_without_source(state, rows)] * len(seen)
            return [self._staleness.decide(state, first.known, first.valid)] * len(seen)
        unseen = CycleState()
        self._staleness.decide(state, seen[0].known & seen[1].known, seen[0].valid & seen[1].valid)
        return [
            self._staleness.decide(unseen, measured.known, measured.valid) for measured in seen if measured is not None
        ]

    def _resource_score(
        self,
        resource: str,
        request: float,
        view: NodeView,
        load: LoadColumns | None,
        rows: RowArray,
        seen: Measured | None,
        decision: LoadDecision,
    ) -> FloatArray:
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
        capacity = gather(view, view.allocatable(resource), rows) * UNITS[resource]
        if seen is None or load is None:
            nothing = np.zeros(len(rows))
            stats = resource_stats(nothing, nothing, capacity, request)
        else:
            stats = resource_stats(seen.average, seen.deviation, capacity, request)
            recent = gather(view, self._unmeasured[resource].by_row(view, load), rows)
            stats = replace(stats, used_average=stats.used_average + recent * UNITS[resource])
        if decision.estimated.any():
            estimate = gather(view, view.nonzero_requested(resource), rows) * UNITS[resource]
            stats = replace(stats, used_average=np.where(decision.estimated, estimate, stats.used_average))
        return balance_score(stats, self._margin, self._sensitivity)

    def _figures(
        self, resource: str, view: NodeView, load: LoadColumns, rows: RowArray
    ) -> tuple[FloatArray, FloatArray]:
        average = load.cpu_average if resource == "cpu" else load.memory_average
        deviation = load.cpu_stddev if resource == "cpu" else load.memory_stddev
        return gather(view, average[: view.size], rows), gather(view, deviation[: view.size], rows)
