"""How well a request would fill the zones of each node (pkg/noderesourcetopology/score.go and the strategies beside it
in scheduler-plugins v0.34.7)."""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from scheduler.framework import MAX_SCORE, BoolArray, FloatArray, IntArray, Resources
from scheduler.plugins.noderesourcetopologymatch.align import Needs
from scheduler.plugins.noderesourcetopologymatch.topology import POD, NodeGroup, whole_units

Strategy = Callable[[NodeGroup, IntArray, Resources], IntArray]
"""Score of each zone of each node for a request; 0 for one that does not count."""


def strategy_of(name: str, weights: Mapping[str, int]) -> Strategy:
    """Return a strategy by its name; resources without a weight, or with one below 1, weigh 1."""
    known = {resource: weight for resource, weight in weights.items() if weight >= 1}
    if name == "BalancedAllocation":
        return balanced
    return partial(_allocated, weights=known, most=name == "MostAllocated")


def score(strategy: Strategy, group: NodeGroup, available: IntArray, needs: Needs) -> IntArray:
    """Return the score of each node: of the pod as a whole, or the mean over its containers."""
    if group.manager.scope == POD:
        return _min_over_zones(strategy(group, available, needs.whole))
    total: IntArray = np.zeros(len(available), dtype=np.int64)
    for container in needs.containers:
        total += _min_over_zones(strategy(group, available, container.requests))
    return (total / max(1, len(needs.containers))).astype(np.int64)


def _min_over_zones(scores: IntArray) -> IntArray:
    """Return the smallest score but 0 of each node, which no zone that cannot take the request has."""
    never = np.iinfo(np.int64).max
    worst: IntArray = np.where(scores == 0, never, scores).min(axis=1, initial=never)
    worst[worst == never] = 0
    return worst


def _allocated(
    group: NodeGroup, available: IntArray, request: Resources, *, weights: Mapping[str, int], most: bool
) -> IntArray:
    """Return the weighted score by node and zone (leastAllocatedScoreStrategy, mostAllocatedScoreStrategy).

    Args:
        group: nodes whose zones have the same shape.
        available: amounts by node, zone and resource.
        request: what a container or the pod requests.
        weights: by resource; 1 for those not listed.
        most: whether a zone with little left scores high.
    """
    total: IntArray = np.zeros(available.shape[:2], dtype=np.int64)
    divisor = 0
    for resource, amount in request.items():
        weight = weights.get(resource, 1)
        divisor += weight
        column = group.columns.get(resource)
        if column is None:
            continue
        capacity = available[:, :, column]
        fits: BoolArray = (capacity > 0) & (capacity >= amount)
        requested, capacity_units = whole_units(resource, amount), _units(resource, capacity)
        counted = requested if most else capacity_units - requested
        total += np.where(fits, counted * MAX_SCORE // np.maximum(capacity_units, 1), 0) * weight
    return total // max(1, divisor)


def balanced(group: NodeGroup, available: IntArray, request: Resources) -> IntArray:
    """Return 100 less the variance of the shares a request takes; 0 where a share is above 1.

    The variance is that of a sample, computed in gonum's order of operations.
    """
    shares: list[FloatArray] = []
    beyond: BoolArray = np.zeros(available.shape[:2], dtype=np.bool_)
    for resource, amount in sorted(request.items()):
        column = group.columns.get(resource)
        share: FloatArray = np.ones(available.shape[:2])
        if column is not None:
            capacity = _units(resource, available[:, :, column])
            np.divide(float(whole_units(resource, amount)), capacity, out=share, where=capacity != 0)
        beyond |= share > 1
        shares.append(share)
    if not shares:
        return np.zeros(available.shape[:2], dtype=np.int64)
    result: IntArray = ((1.0 - _sample_variance(shares)) * float(MAX_SCORE)).astype(np.int64)
    result[beyond] = 0
    return result


def _sample_variance(values: list[FloatArray]) -> FloatArray:
    if len(values) == 1:
        return np.zeros_like(values[0])
    mean: FloatArray = np.zeros_like(values[0])
    for value in values:
        mean = mean + value
    mean = mean / len(values)
    squares: FloatArray = np.zeros_like(mean)
    rest: FloatArray = np.zeros_like(mean)
    for value in values:
        deviation = value - mean
        squares = squares + deviation * deviation
        rest = rest + deviation
    return (squares - rest * rest / len(values)) / (len(values) - 1)


def _units(resource: str, amounts: IntArray) -> IntArray:
    """Whole units as Go rounds them: away from zero."""
    if resource != "cpu":
        return amounts
    return np.where(amounts > 0, -(-amounts // 1000), amounts // 1000)
