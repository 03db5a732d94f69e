"""TargetLoadPacking: fill nodes up to a target CPU utilisation by measured load, then spread.

What happens on a node without (fresh) load depends on `compatibility`:

- `upstream`: it scores 0, as upstream, and measurements never grow old.
- `safe`: as `SecondarySchedulerOptions.load` says. By default its utilisation is estimated by what its pods request,
  times `defaultRequestsMultiplier`, so that neither a new node nor a broken exporter makes a node look idle or full;
  where no feasible node has fresh load the plugin is left out of the attempt and the other plugins decide. Counters:
  see `StalenessPolicy`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import TargetLoadPackingArgs
from scheduler.helpers import go_round
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

# The formula of TargetLoadPacking, without any state (scheduler-plugins v0.34.7, pkg/trimaran/targetloadpacking).

_STEPS = 64
"""Pieces of a per cent in `PackingScores`: a power of two."""
_TOP = 100 * _STEPS
_FEW = 1024
"""For fewer nodes `PackingScores` takes longer than the formula."""


def predicted_cpu(spec: fw.SpecInfo, multiplier: float, default_request: int) -> int:
    """Return the milli-units of CPU a pod will probably use, with its overhead.

    Per app container and sidecar: its limit, else its request times the multiplier, else the default request. A limit
    of the pod as a whole replaces their sum, else its request as a whole times the multiplier does. Ordinary init
    containers do not count: they are over when the pod runs.
    """
    whole = _prediction(spec.pod_level, multiplier)
    if whole is None:
        whole = sum(
            predicted_of_container(container, multiplier, default_request)
            for container in spec.containers
            if container.kind != "init"
        )
    return whole + spec.overhead.get("cpu", 0)


def predicted_of_container(container: fw.ContainerResources, multiplier: float, default_request: int) -> int:
    """Return the milli-units of CPU a container will probably use."""
    prediction = _prediction(container, multiplier)
    return default_request if prediction is None else prediction


def _prediction(resources: fw.ContainerResources | fw.PodLevelResources, multiplier: float) -> int | None:
    """Return what follows from a limit or a request, of which 0 is one; None without either."""
    limit, request = resources.limits.get("cpu"), resources.requests.get("cpu")
    if limit is not None:
        return limit
    return None if request is None else go_round(request * multiplier)


def utilization_after(used: Any, extra: Any, capacity: Any) -> Any:
    """Return predicted CPU utilisation in per cent, in the array `used` if it is one; 0 where the node has no CPU. All
    amounts in milli-units."""
    used += extra
    used *= 100.0
    if not isinstance(capacity, np.ndarray):
        return used / capacity if capacity else 0.0
    if not len(capacity) or np.minimum.reduce(capacity) >= 1.0:
        used /= capacity
        return used
    used /= np.maximum(capacity, 1.0)
    used[capacity == 0.0] = 0.0
    return used


class PackingScores:
    """`packing_score` for one target, several times as fast.

    There are some hundred scores, and between two steps of the curve the score is the same. So scores are looked up in
    a table by a 64th of a per cent, which is exact as 64 is a power of two, and only utilisations that share theirs
    with a step, some 1.5 % of them, are computed.
    """

    def __init__(self, target: float) -> None:
        self._target = target
        first = np.arange(_TOP + 1) / _STEPS
        # The last piece stands for all beyond 100 %: they score 0.
        last = np.nextafter(np.append(first[1:], 101.0), 0.0)
        # On either side of the target the score rises or falls in every step of its computation: what both ends of a
        # piece have, all of it has.
        at_first, at_last = packing_score(first, target), packing_score(last, target)
        same = (at_first == at_last) & ((first > target) | (last <= target))
        self._table: fw.IntArray = np.where(same, at_first, -1).astype(np.int64)

    def __call__(self, utilization: fw.FloatArray) -> fw.IntArray:
        """Return the score of each predicted utilisation."""
        if len(utilization) < _FEW or not np.minimum.reduce(utilization) >= 0.0:
            return self._exact(utilization)
        pieces = utilization * _STEPS
        np.minimum(pieces, _TOP, out=pieces)
        scores: fw.IntArray = self._table.take(pieces.astype(np.intp), mode="clip")
        if np.minimum.reduce(scores) < 0:
            steps = (scores < 0).nonzero()[0]
            scores[steps] = self._exact(utilization.take(steps, mode="clip"))
        return scores

    def _exact(self, utilization: fw.FloatArray) -> fw.IntArray:
        scores: fw.IntArray = packing_score(utilization, self._target).astype(np.int64)
        return scores


def packing_score(utilization: Any, target: float, nodes: type[fw.Nodes] = fw.ManyNodes) -> Any:
    """Return the score of a predicted utilisation: `target` when idle, 100 at the target, then falling from there to
    0 at 100 % (targetloadpacking.go, Score). A column of float64, or a number with `OneNode`."""
    rising = (100.0 - target) * utilization / target + target
    # Beyond 100 % the falling line is negative, which upstream cuts off at 0; at a target of 100 there is no line.
    falls = target < 100.0
    falling = nodes.at_least(target * (100.0 - utilization) / (100.0 - target), 0.0) if falls else 0.0
    exact = nodes.select(utilization > target, falling, rising)
    whole = nodes.floor(exact + 0.0)
    # Go rounds halves away from zero; nothing is negative here.
    return whole + (exact - whole >= 0.5)


NAME = "TargetLoadPacking"
_MAX_CACHED = 10_000


class TargetLoadPacking(fw.ScorePlugin, fw.ScoreRule):
    """Score by predicted CPU utilisation."""

    name = NAME
    _prediction = staticmethod(predicted_cpu)

    def __init__(self, args: TargetLoadPackingArgs, context: fw.PluginContext) -> None:
        self._target = float(args.effective_target)
        self._packing = PackingScores(self._target)
        self._multiplier = args.multiplier
        self._default_request = quantity_milli_value(args.default_requests.get("cpu", 0))
        self._source = args.source_key()
        self._staleness = StalenessPolicy(NAME, context.options.load)
        self._predictions: dict[bytes, int] = {}
        self._unmeasured = UnmeasuredUse(lambda entry: self.predict(entry.spec), upstream=context.upstream)
        self._freshness = FreshnessCheck(self._staleness.max_age)

    def predict(self, spec: fw.SpecInfo) -> int:
        """Return the CPU a pod will probably use, in milli-units."""
        key = spec.class_key
        predicted = self._predictions.get(key)
        if predicted is None:
            if len(self._predictions) >= _MAX_CACHED:
                self._predictions.clear()
            predicted = self._predictions[key] = self._prediction(spec, self._multiplier, self._default_request)
        return predicted

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray | None:
        """Return 0..100 per row; None in `safe` mode where no row has load by measurement or estimate."""
        load = view.load(self._source)
        if load is not None and self._freshness.all_fresh(view, load):
            return fw.scores_of(partial(self._rule, load), pod.spec, view, rows)
        capacity, demand = fw.gather(view, view.capacity_cpu, rows), float(self.predict(pod.spec))
        if load is None:
            decision = self._staleness.decide_without_source(state, rows)
            used, missing = np.zeros(len(rows)), np.zeros(len(rows))
        else:
            measured = fw.gather(view, load.cpu_last[: view.size], rows)
            valid = is_load(measured)
            fresh = valid & fresh_rows(view, load, rows, self._staleness.max_age)
            decision = self._staleness.decide(state, fresh, valid)
            used = np.where(decision.fresh, measured, 0.0) / 100.0 * capacity
            missing = fw.gather(view, self._unmeasured.by_row(view, load), rows)
        if not decision.scored:
            self._staleness.count_left_out(state)
            return None
        if decision.estimated.any():
            used, missing = self._estimate(view, rows, decision, used, missing)
        scores = self._packing(utilization_after(used + demand, missing, capacity))
        return fill_with_mean(scores, decision.left_out)

    def score_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Return the rule of `score` while every node's load is fresh."""
        load = nodes.load(self._source)
        if load is None or not nodes.value(self._is_fresh):
            return fw.Reads.ANYTHING
        return self._rule(load, spec, nodes)

    def _is_fresh(self, view: fw.NodeView) -> bool:
        load = view.load(self._source)
        return load is not None and self._freshness.all_fresh(view, load)

    def _rule(self, load: fw.LoadColumns, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule:
        demand = float(spec.of(self.predict))
        capacity_of, measured = nodes.capacity_cpu, nodes.column(load.cpu_last)
        missing = nodes.of_pods(lambda view: self._unmeasured.by_row(view, load))

        def score(node: fw.Node) -> Any:
            capacity = capacity_of(node)
            utilization = utilization_after(measured(node) / 100.0 * capacity + demand, missing(node), capacity)
            if nodes.in_columns:
                return self._packing(utilization)
            return packing_score(utilization, self._target, fw.OneNode)

        return score

    def _estimate(
        self, view: fw.NodeView, rows: fw.RowArray, decision: LoadDecision, used: fw.FloatArray, missing: fw.FloatArray
    ) -> tuple[fw.FloatArray, fw.FloatArray]:
        estimate = fw.gather(view, view.nonzero_requested("cpu"), rows) * self._multiplier
        # Requests are known at once: no pod is missing in them.
        return np.where(decision.fresh, used, estimate), np.where(decision.fresh, missing, 0.0)


# What `compatibility: upstream` changes in TargetLoadPacking: pkg/trimaran/targetloadpacking of scheduler-plugins
# 0.34.7 as it is.
def predicted_of_main_containers(spec: fw.SpecInfo, multiplier: float, default_request: int) -> int:
    """Return the milli-units of CPU that upstream predicts (PredictUtilisation): sidecars and resources of the pod as
    a whole do not count."""
    main = (container for container in spec.containers if container.kind == "app")
    return spec.overhead.get("cpu", 0) + sum(
        predicted_of_container(container, multiplier, default_request) for container in main
    )


class UpstreamTargetLoadPacking(TargetLoadPacking):
    """A node without load scores 0, no load grows old, and a pod's prediction is that of its main containers."""

    _prediction = staticmethod(predicted_of_main_containers)

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Return 0..100 per row."""
        load = view.load(self._source)
        measured = np.full(len(rows), np.nan) if load is None else fw.gather(view, load.cpu_last[: view.size], rows)
        known: fw.BoolArray = np.isfinite(measured)
        state.count(f"load_absent/{NAME}", int(np.count_nonzero(~known)))
        if load is None or not known.any():
            return np.zeros(len(rows), dtype=np.int64)
        capacity, demand = fw.gather(view, view.capacity_cpu, rows), float(self.predict(pod.spec))
        used = np.where(known, measured, 0.0) / 100.0 * capacity
        missing = fw.gather(view, self._unmeasured.by_row(view, load), rows)
        scores = self._packing(utilization_after(used + demand, missing, capacity))
        return np.where(known, scores, 0)

    def score_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Ask in every attempt: which pods the measurement misses depends on the clock of this process."""
        return fw.Reads.ANYTHING


def target_load_packing(args: TargetLoadPackingArgs, context: fw.PluginContext) -> TargetLoadPacking:
    """Return the plugin as the profile's `compatibility` wants it."""
    plugin = UpstreamTargetLoadPacking if context.upstream else TargetLoadPacking
    return plugin(args, context)
