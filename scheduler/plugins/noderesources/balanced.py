"""NodeResourcesBalancedAllocation: prefer nodes whose resources are used evenly
(noderesources/balanced_allocation.go)."""

from collections.abc import Callable

import numpy as np

from scheduler.catalog import NodeResourcesBalancedAllocationArgs
from scheduler.framework import (
    MAX_SCORE,
    SKIP,
    SUCCESS,
    BoolArray,
    CycleState,
    DependsOn,
    FloatArray,
    IntArray,
    Locality,
    LocalPlugin,
    NodeView,
    PluginContext,
    PodInfo,
    PreScorePlugin,
    RowArray,
    ScorePlugin,
    SmallIntArray,
    Status,
    gather,
)
from scheduler.plugins.noderesources.kernels import BASIC, COLUMNS, NUMBERS, balance_of_two, rate_change, used_fraction

NAME = "NodeResourcesBalancedAllocation"
UNCHANGED = 75
"""Score of a node whose balance does not change (1.36)."""
_ALWAYS_COUNTED = ("cpu", "memory", "ephemeral-storage")
_fraction_of_columns, _fraction_of_node = used_fraction(COLUMNS), used_fraction(NUMBERS)


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin, LocalPlugin):
    """Scores 100 where all resources would be used by the same fraction; uses real requests, pod-level ones
    included.

    Since 1.36 it scores how much nearer to that the pod brings the node: 75 where it changes nothing.
    """

    name = NAME

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, context: PluginContext) -> None:
        self._resources = [spec.name for spec in args.resources]
        self._rates_change = context.kubernetes.rates_change_of_balance

    def pre_score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Status:
        """Skip for a pod that requests none of the resources."""
        return SUCCESS if any(pod.spec.requests.get(name, 0) for name in self._resources) else SKIP

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Return (1 - standard deviation of the fractions) * 100, truncated, or what the pod changes about it."""
        counted = self._counted_resources(pod)
        after = _balance(view, rows, [(name, pod.spec.requests.get(name, 0)) for name in counted])
        if not self._rates_change:
            return after
        changed: IntArray = rate_change(after, _balance(view, rows, [(name, 0) for name in counted]))
        return changed

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Scores follow from the node's amounts and what its pods request."""
        if self.pre_score(CycleState(), pod, view, view.rows).is_skip:
            return Locality(scores=DependsOn.NOTHING)
        return Locality(
            scores=DependsOn.PODS,
            by_row=lambda now: (None, self._rate(pod, now)),
            rate_block=self._rate_block(pod),
        )

    def _counted_resources(self, pod: PodInfo) -> list[str]:
        """Return the resources that count for a pod: an extended one only if the pod requests it."""
        requests = pod.spec.requests
        return [name for name in self._resources if requests.get(name, 0) or name in _ALWAYS_COUNTED]

    def _rate_block(self, pod: PodInfo) -> Callable[[FloatArray], SmallIntArray] | None:
        """Return `score` on a block, where cpu and memory alone count."""
        if sorted(self._counted_resources(pod)) != sorted(BASIC):
            return None
        requests = np.array([[pod.spec.requests.get(name, 0)] for name in BASIC], dtype=np.float64)

        def rate(block: FloatArray) -> SmallIntArray:
            fractions = _fraction_of_columns(block[:2], block[2:4] + requests)
            whole: SmallIntArray = balance_of_two(fractions[0], fractions[1]).astype(np.int16)
            return whole

        if not self._rates_change:
            return rate

        def rate_changed(block: FloatArray) -> SmallIntArray:
            fractions = _fraction_of_columns(block[:2], block[2:4].copy())
            before = balance_of_two(fractions[0], fractions[1]).astype(np.int16)
            changed: SmallIntArray = rate_change(rate(block), before)
            return changed

        return rate_changed

    def _rate(self, pod: PodInfo, view: NodeView) -> Callable[[NodeView, int], int] | None:
        """Return `score` on one row; None unless two resources count."""
        requests = pod.spec.requests
        counted = [
            (view.allocatable(resource).item, view.requested(resource).item, requests.get(resource, 0))
            for resource in self._counted_resources(pod)
        ]
        if len(counted) != 2:
            return None
        (allocatable_a, requested_a, request_a), (allocatable_b, requested_b, request_b) = counted

        def rate(now: NodeView, row: int) -> int:
            capacity_a, capacity_b = allocatable_a(row), allocatable_b(row)
            if capacity_a <= 0.0 or capacity_b <= 0.0:
                return MAX_SCORE
            fraction_a = _fraction_of_node(capacity_a, requested_a(row) + request_a)
            return int(balance_of_two(fraction_a, _fraction_of_node(capacity_b, requested_b(row) + request_b)))

        if not self._rates_change:
            return rate

        def rate_changed(now: NodeView, row: int) -> int:
            capacity_a, capacity_b = allocatable_a(row), allocatable_b(row)
            if capacity_a <= 0.0 or capacity_b <= 0.0:
                return UNCHANGED
            fraction_a = _fraction_of_node(capacity_a, requested_a(row))
            before = int(balance_of_two(fraction_a, _fraction_of_node(capacity_b, requested_b(row))))
            changed: int = rate_change(rate(now, row), before)
            return changed

        return rate_changed


def _balance(view: NodeView, rows: RowArray, requests: list[tuple[str, int]]) -> IntArray:
    """Return (1 - standard deviation of the fractions) * 100, truncated, with these requests on top of what is
    requested."""
    fractions: list[FloatArray] = []
    present: list[BoolArray] = []
    for resource, request in requests:
        allocatable = gather(view, view.allocatable(resource), rows)
        requested = gather(view, view.requested(resource), rows) + request
        fractions.append(_fraction_of_columns(np.maximum(allocatable, 1.0), requested))
        present.append(allocatable > 0)
    if not fractions:
        return np.full(len(rows), MAX_SCORE, dtype=np.int64)
    if len(fractions) == 2:
        score = np.where(present[0] & present[1], balance_of_two(*fractions), MAX_SCORE)
    else:
        score = (1.0 - _standard_deviation(fractions, present)) * 100.0
    return score.astype(np.int64)


def _standard_deviation(fractions: list[FloatArray], present: list[BoolArray]) -> FloatArray:
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
