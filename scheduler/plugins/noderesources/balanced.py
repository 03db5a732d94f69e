"""NodeResourcesBalancedAllocation: prefer nodes whose resources are used evenly
(noderesources/balanced_allocation.go)."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import NodeResourcesBalancedAllocationArgs
from scheduler.plugins.noderesources.fit import BASIC, balance_of_two, rate_change, used_fraction

NAME = "NodeResourcesBalancedAllocation"
_ALWAYS_COUNTED = ("cpu", "memory", "ephemeral-storage")


class NodeResourcesBalancedAllocation(fw.PreScorePlugin, fw.ScorePlugin, fw.ScoreRule):
    """Scores 100 where all resources would be used by the same fraction; uses real requests, pod-level ones
    included.

    Since 1.36 it scores how much nearer to that the pod brings the node: 75 where it changes nothing.
    """

    name = NAME

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, context: fw.PluginContext) -> None:
        self._resources = [spec.name for spec in args.resources]
        self._rates_change = context.kubernetes.rates_change_of_balance

    def pre_score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Status:
        """Skip for a pod that requests none of the resources."""
        return fw.SUCCESS if self._requests_any(pod.spec) else fw.SKIP

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Return (1 - standard deviation of the fractions) * 100, truncated, or what the pod changes about it."""
        counted = self._counted_resources(pod.spec)
        if len(counted) == 2:
            return fw.scores_of(self._rule_of_two, pod.spec, view, rows)
        after = _balance(view, rows, [(name, pod.spec.requests.get(name, 0)) for name in counted])
        if not self._rates_change:
            return after
        before = _balance(view, rows, [(name, 0) for name in counted])
        # As `rate_change`, in integers.
        changed: fw.IntArray = 50 + (50 + after - before) // 2
        return changed

    def score_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Return the rule of `score` where two resources count; a pod that requests none finds all nodes equally
        good."""
        if not self._requests_any(spec):
            return fw.Reads.NOTHING
        return self._rule_of_two(spec, nodes) if len(self._counted_resources(spec)) == 2 else fw.Reads.PODS

    def _requests_any(self, spec: fw.SpecInfo) -> bool:
        requests = spec.requests
        for name in self._resources:  # noqa: SIM110 -- asked of every class, and a generator takes twice as long
            if requests.get(name, 0):
                return True
        return False

    def _counted_resources(self, spec: fw.SpecInfo) -> list[str]:
        """Return the resources that count for a pod: an extended one only if the pod requests it."""
        requests = spec.requests
        return [name for name in self._resources if requests.get(name, 0) or name in _ALWAYS_COUNTED]

    def _rule_of_two(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule:
        first, second = self._counted_resources(spec)
        request_of_first, request_of_second = float(spec.requests.get(first, 0)), float(spec.requests.get(second, 0))
        all_have_both = nodes.complete and first in BASIC and second in BASIC
        allocatable_first, requested_first = nodes.allocatable(first), nodes.requested(first)
        allocatable_second, requested_second = nodes.allocatable(second), nodes.requested(second)
        fraction, at_least, floor = used_fraction(nodes), nodes.at_least, nodes.floor

        def balance(node: fw.Node, more_of_first: float, more_of_second: float) -> Any:
            capacity_first, capacity_second = allocatable_first(node), allocatable_second(node)
            if not all_have_both:
                has_both = (capacity_first > 0.0) & (capacity_second > 0.0)
                capacity_first = at_least(capacity_first + 0.0, 1.0)
                capacity_second = at_least(capacity_second + 0.0, 1.0)
            score = balance_of_two(
                fraction(capacity_first, requested_first(node) + more_of_first),
                fraction(capacity_second, requested_second(node) + more_of_second),
            )
            return score if all_have_both else nodes.select(has_both, score, float(fw.MAX_SCORE))

        def after(node: fw.Node) -> Any:
            return balance(node, request_of_first, request_of_second)

        def change(node: fw.Node) -> Any:
            return rate_change(nodes, floor(after(node)), floor(balance(node, 0.0, 0.0)))

        return change if self._rates_change else after


def _balance(view: fw.NodeView, rows: fw.RowArray, requests: list[tuple[str, int]]) -> fw.IntArray:
    """Return (1 - standard deviation of the fractions) * 100, truncated, with these requests on top of what is
    requested."""
    fractions: list[fw.FloatArray] = []
    present: list[fw.BoolArray] = []
    for resource, request in requests:
        allocatable = fw.gather(view, view.allocatable(resource), rows)
        requested = fw.gather(view, view.requested(resource), rows) + request
        fractions.append(np.minimum(requested / np.maximum(allocatable, 1.0), 1.0))
        present.append(allocatable > 0)
    if not fractions:
        return np.full(len(rows), fw.MAX_SCORE, dtype=np.int64)
    score = (1.0 - _standard_deviation(fractions, present)) * 100.0
    return score.astype(np.int64)


def _standard_deviation(fractions: list[fw.FloatArray], present: list[fw.BoolArray]) -> fw.FloatArray:
    """Return the population standard deviation over the resources that each node has; half the distance where these
    are two (balancedResourceScorer has that shortcut, and its digits differ)."""
    count = np.sum(present, axis=0)
    counted = np.maximum(count, 1)
    total = np.zeros(len(count))
    for fraction, exists in zip(fractions, present, strict=True):
        total += np.where(exists, fraction, 0.0)
    mean = total / counted
    squares = np.zeros(len(count))
    pair = np.zeros(len(count))
    sign = np.ones(len(count))
    for fraction, exists in zip(fractions, present, strict=True):
        squares += np.where(exists, (fraction - mean) * (fraction - mean), 0.0)
        pair += np.where(exists, sign * fraction, 0.0)
        sign = np.where(exists, -sign, sign)
    spread = np.sqrt(squares / counted)
    return np.where(count > 2, spread, np.where(count == 2, np.abs(pair) / 2.0, 0.0))
