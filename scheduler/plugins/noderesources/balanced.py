"""NodeResourcesBalancedAllocation: prefer nodes whose resources are used evenly
(noderesources/balanced_allocation.go)."""

from collections.abc import Callable

import numpy as np

from scheduler.catalog import NodeResourcesBalancedAllocationArgs
from scheduler.framework import (
    SKIP,
    SUCCESS,
    BoolArray,
    CycleState,
    FloatArray,
    IntArray,
    NodeView,
    PluginContext,
    PodInfo,
    PreScorePlugin,
    RowArray,
    ScorePlugin,
    Status,
)
from scheduler.framework.locality import DependsOn, Locality, LocalPlugin
from scheduler.plugins.noderesources.kernels import BASIC, amounts_after

NAME = "NodeResourcesBalancedAllocation"


class NodeResourcesBalancedAllocation:
    """Scores 100 where all resources would be used by the same fraction; uses real requests, pod-level ones
    included."""

    name = NAME

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, context: PluginContext) -> None:
        self._resources = [spec.name for spec in args.resources]

    def pre_score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Status:
        """Skip for a pod that requests none of the resources."""
        return SUCCESS if any(pod.spec.requests.get(name, 0) for name in self._resources) else SKIP

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Return (1 - standard deviation of the fractions) * 100, truncated."""
        fractions: list[FloatArray] = []
        present: list[BoolArray] = []
        for resource in self._resources:
            request = pod.spec.requests.get(resource, 0)
            if request == 0 and resource not in ("cpu", "memory", "ephemeral-storage"):
                continue
            allocatable, requested = amounts_after(view, rows, resource, request, nonzero=False)
            fractions.append(np.minimum(requested / np.maximum(allocatable, 1.0), 1.0))
            present.append(allocatable > 0)
        if not fractions:
            return np.full(len(rows), 100, dtype=np.int64)
        return ((1.0 - _std_of_fractions(fractions, present)) * 100.0).astype(np.int64)

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Scores follow from the node's amounts and what its pods request."""
        if self.pre_score(CycleState(), pod, view, view.rows).is_skip:
            return Locality(scores=DependsOn.NOTHING)
        return Locality(scores=DependsOn.PODS, rate=self._rate(pod, view), rate_block=self._rate_block(pod))

    def _counted(self, pod: PodInfo) -> list[str]:
        requests = pod.spec.requests
        always = ("cpu", "memory", "ephemeral-storage")
        return [name for name in self._resources if requests.get(name, 0) or name in always]

    def _rate_block(self, pod: PodInfo) -> Callable[[FloatArray], IntArray] | None:
        """`score` by cpu and memory alone, in the same operations."""
        if sorted(self._counted(pod)) != sorted(BASIC):
            return None
        requests = np.array([[pod.spec.requests.get(name, 0)] for name in BASIC], dtype=np.float64)

        def rate(block: FloatArray) -> IntArray:
            fractions = block[2:4] + requests
            fractions /= block[:2]
            np.minimum(fractions, 1.0, out=fractions)
            score = np.abs(fractions[0] - fractions[1])
            score /= 2.0
            np.subtract(1.0, score, out=score)
            score *= 100.0
            whole: IntArray = score.astype(np.int64)
            return whole

        return rate

    def _rate(self, pod: PodInfo, view: NodeView) -> Callable[[NodeView, int], int] | None:
        """`score` in the same operations on one row; None unless two resources count."""
        requests = pod.spec.requests
        counted = [
            (view.allocatable(resource).item, view.requested(resource).item, requests.get(resource, 0))
            for resource in self._counted(pod)
        ]
        if len(counted) != 2:
            return None
        (allocatable_a, requested_a, request_a), (allocatable_b, requested_b, request_b) = counted

        def rate(now: NodeView, row: int) -> int:
            capacity_a, capacity_b = allocatable_a(row), allocatable_b(row)
            if capacity_a <= 0.0 or capacity_b <= 0.0:
                return 100
            fraction_a = min((requested_a(row) + request_a) / max(capacity_a, 1.0), 1.0)
            fraction_b = min((requested_b(row) + request_b) / max(capacity_b, 1.0), 1.0)
            return int((1.0 - abs(fraction_a - fraction_b) / 2.0) * 100.0)

        return rate


def _std_of_fractions(fractions: list[FloatArray], present: list[BoolArray]) -> FloatArray:
    """Return the population standard deviation over the resources each node has; half the distance for two of them."""
    if len(fractions) == 2:
        has_both = present[0] & present[1]
        half: FloatArray = np.abs(fractions[0] - fractions[1]) / 2.0
        return half if has_both.all() else np.where(has_both, half, 0.0)
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


# Checked by mypy: the extension points of the descriptor, and the optional Protocols that the framework looks for.
_PRE_SCORE: type[PreScorePlugin] = NodeResourcesBalancedAllocation
_SCORE: type[ScorePlugin] = NodeResourcesBalancedAllocation
_LOCAL: type[LocalPlugin] = NodeResourcesBalancedAllocation
