"""The formulas of the two plugins over node resources, over one node or many (`scheduler.framework.rules`).

Amounts are float64: milli-units of cpu, whole units of everything else.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from scheduler.framework import FloatArray, Nodes

_LARGEST_PART = float((1 << 63) // 100)
"""A hundred times a larger amount is beyond int64."""
BASIC = ("cpu", "memory")
"""What every node of a complete view has (`NodeView.complete`)."""

Kernel = Callable[[Any, Any], Any]
"""kernel(allocatable, requested with the pod). `requested` belongs to the kernel, which overwrites a column: a new
column of 5,000 nodes costs as much as the nodes. No `allocatable` may be 0."""


def too_many_pods(pod_count: Any, allowed_pods: Any) -> Any:
    """Tell whether a node has no pod slot left (fit.go, fitsRequest); a bool, or a column of them."""
    return pod_count + 1.0 > allowed_pods


def is_insufficient(request: float, allocatable: Any, requested: Any) -> Any:
    """Tell whether a node has less of a resource left than a pod requests (fit.go, fitsRequest)."""
    return request > allocatable - requested


def least_requested_score(nodes: Nodes) -> Kernel:
    """Return the kernel of (allocatable - requested) * 100 / allocatable (least_allocated.go, leastRequestedScore).

    Go divides integers: the quotient is rounded down, and requests beyond the capacity score 0.
    """
    at_least, floor = nodes.at_least, nodes.floor

    def kernel(allocatable: Any, requested: Any) -> Any:
        # The difference is taken the wrong way round, and its sign turned by the factor, so that it can overwrite
        # `requested`. Negation loses no digit.
        requested -= allocatable
        requested *= -100.0
        requested = at_least(requested, 0.0)
        requested /= allocatable
        return floor(requested)

    return kernel


def most_requested_score(nodes: Nodes) -> Kernel:
    """Return the kernel of requested * 100 / allocatable (most_allocated.go, mostRequestedScore).

    Go divides integers: the quotient is rounded down. Requests beyond the capacity count as the capacity.
    """
    at_most, floor = nodes.at_most, nodes.floor

    def kernel(allocatable: Any, requested: Any) -> Any:
        requested = at_most(requested, allocatable)
        requested *= 100.0
        requested /= allocatable
        return floor(requested)

    return kernel


def used_fraction(nodes: Nodes) -> Kernel:
    """Return the kernel of requested / allocatable, at most 1 (balanced_allocation.go, balancedResourceScorer)."""
    at_most = nodes.at_most

    def kernel(allocatable: Any, requested: Any) -> Any:
        requested /= allocatable
        return at_most(requested, 1.0)

    return kernel


def balance_of_two(fraction: Any, other: Any) -> Any:
    """Return (1 - std) * 100 for two fractions, whose standard deviation is half their distance
    (balanced_allocation.go, balancedResourceScorer); not yet truncated."""
    score = abs(fraction - other)
    score *= -0.5
    score += 1.0
    score *= 100.0
    return score


def rate_change(nodes: Nodes, after: Any, before: Any) -> Any:
    """Return 50 to 100 for a balance that a pod worsens to improves; both balances are truncated, and so is half their
    difference (balanced_allocation.go, balancedResourceScorer since 1.36)."""
    return nodes.floor((50.0 + after - before) * 0.5) + 50.0


def wide_percent(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return Go's `part * 100 / whole` in int64, which overflows where Go's does; `part * 100` where whole is 0.

    For columns beyond 82 TiB (`NodeView.wide`); below that float64 is exact and quicker.
    """
    quotient = part.astype(np.int64) * 100 // np.maximum(whole.astype(np.int64), 1)
    return quotient.astype(np.float64)


def exact_percent(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return `part * 100 / whole` rounded down, at most 100, also where `part * 100` is beyond int64; any number where
    whole is 0 (requested_to_capacity_ratio.go, scaledFraction since 1.38)."""
    huge = np.maximum(part, whole) > _LARGEST_PART
    percent = wide_percent(np.where(huge, 0.0, part), np.where(huge, 1.0, whole))
    # Amounts beyond 92 PB are hardly ever real: they may cost time.
    for row in np.flatnonzero(huge).tolist():
        percent[row] = min(int(part[row]) * 100 // max(int(whole[row]), 1), 100)
    return percent


def utilization_percent(
    allocatable: FloatArray, requested: FloatArray, percent_of: Callable[[FloatArray, FloatArray], FloatArray] | None
) -> FloatArray:
    """Return requested * 100 / allocatable rounded down, 100 where more is requested than there is
    (requested_to_capacity_ratio.go, resourceScoringFunction); `percent_of` divides columns beyond 82 TiB."""
    if percent_of is not None:
        percent = percent_of(requested, allocatable)
    else:
        percent = np.floor(requested * 100.0 / np.maximum(allocatable, 1.0))
    return np.where(requested > allocatable, 100.0, percent)
