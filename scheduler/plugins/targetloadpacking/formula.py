"""The formula of TargetLoadPacking, without any state (scheduler-plugins v0.34.7, pkg/trimaran/targetloadpacking)."""

import math
from typing import TypeVar

import numpy as np

from scheduler.framework import FloatArray, IntArray, SpecInfo
from scheduler.helpers import go_round

Amount = TypeVar("Amount", float, FloatArray)


def predicted_cpu(spec: SpecInfo, multiplier: float, default_request: int) -> int:
    """Return the milli-units of CPU a pod will probably use.

    Per main container: its limit, else its request times the multiplier, else the default request; plus the pod's
    overhead. Init containers and sidecars do not count, as upstream.
    """
    total = spec.overhead_cpu
    for container in spec.container_cpu:
        if container.limit is not None:
            total += container.limit
        elif container.request is not None:
            total += go_round(container.request * multiplier)
        else:
            total += default_request
    return total


def utilization_after(used: FloatArray, extra: FloatArray | float, capacity: FloatArray) -> FloatArray:
    """Return predicted CPU utilisation in per cent; 0 where the node has no CPU. All amounts in milli-units."""
    utilization = _percent(used + extra, np.maximum(capacity, 1.0))
    if not capacity.all():
        utilization[capacity == 0.0] = 0.0
    return utilization


def utilization_of_node(used: float, capacity: float) -> float:
    """Return `utilization_after` of one node."""
    return _percent(used, max(capacity, 1.0)) if capacity else 0.0


def packing_score(utilization: FloatArray, target: float) -> IntArray:
    """Return the score of a predicted utilisation: `target` when idle, 100 at the target, then falling from there to
    0 at 100 % (targetloadpacking.go, Score)."""
    # Beyond 100 % the falling line is negative, which upstream cuts off at 0; at a target of 100 there is no line.
    falling = np.maximum(_falling(utilization, target), 0.0) if target < 100.0 else 0.0
    exact = np.where(utilization > target, falling, _rising(utilization, target))
    whole = np.floor(exact)
    # Go rounds halves away from zero; nothing is negative here.
    return whole.astype(np.int64) + (exact - whole >= 0.5)


def packing_score_of_node(utilization: float, target: float) -> int:
    """Return `packing_score` of one node."""
    if utilization > target:
        exact = max(_falling(utilization, target), 0.0) if target < 100.0 else 0.0
    else:
        exact = _rising(utilization, target)
    whole = math.floor(exact)
    return whole + (exact - whole >= 0.5)


# The rules themselves, for a column of nodes as for a single one.


def _percent(used: Amount, capacity: Amount) -> Amount:
    return 100.0 * used / capacity


def _rising(utilization: Amount, target: float) -> Amount:
    return (100.0 - target) * utilization / target + target


def _falling(utilization: Amount, target: float) -> Amount:
    return target * (100.0 - utilization) / (100.0 - target)
