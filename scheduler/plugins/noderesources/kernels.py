"""What the two plugins over node resources share: amounts as a scoring formula sees them."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from scheduler.framework import FloatArray, NodeView, Resources, RowArray, gather

HUNDRED = 100.0
BASIC = ("cpu", "memory")
"""In the order of `NodeView.basics`."""


def amounts_after(
    view: NodeView, rows: RowArray, resource: str, request: int, *, nonzero: bool
) -> tuple[FloatArray, FloatArray]:
    """Return (allocatable, requested once the pod is there) of a resource."""
    used = view.nonzero_requested(resource) if nonzero else view.requested(resource)
    return gather(view, view.allocatable(resource), rows), gather(view, used, rows) + request


def ratio(part: FloatArray, whole: FloatArray, *, wide: bool) -> FloatArray:
    """Return Go's `part * 100 / whole` for integers that are not negative; `part * 100` where whole is 0.

    In float64 it is exact below 82 TiB (`NodeView.wide`), where int64 takes over; that overflows where Go's does.
    """
    if wide:
        quotient = part.astype(np.int64) * 100 // np.maximum(whole.astype(np.int64), 1)
        return quotient.astype(np.float64)
    result: FloatArray = np.floor(part * HUNDRED / np.maximum(whole, 1.0))
    return result


def interpolate(utilization: FloatArray, shape: Sequence[tuple[int, int]]) -> FloatArray:
    """Return the broken line through (utilization, score) points, flat outside them, truncated toward zero between
    them.

    helper.BuildBrokenLinearFunction: s0 + (s1-s0)*(u-u0)/(u1-u0) in integers. Amounts are at most 100*100, so
    float64 is exact.
    """
    result = np.full(len(utilization), float(shape[-1][1]))
    for (x0, y0), (x1, y1) in reversed(list(pairwise(shape))):
        between = y0 + np.trunc((y1 - y0) * (utilization - x0) / (x1 - x0))
        result = np.where(utilization < x1, between, result)
    return np.where(utilization < shape[0][0], float(shape[0][1]), result)


def has_requests(requests: Resources) -> bool:
    """Tell whether a pod requests anything at all."""
    return any(requests.values())
