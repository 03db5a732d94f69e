"""The formula of TargetLoadPacking, without any state (scheduler-plugins v0.34.7, pkg/trimaran/targetloadpacking)."""

import numpy as np

from scheduler.framework import FloatArray, IntArray, SpecInfo
from scheduler.helpers import go_round, round_half_away


def predicted_cpu(spec: SpecInfo, multiplier: float, default_request: int) -> int:
    """Return the milli-units of CPU a pod will probably use.

    Per main container: its limit, else its request times the multiplier, else the default request; plus the pod's
    overhead. Init
    containers and sidecars do not count, as upstream.
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
    safe = np.where(capacity == 0.0, 1.0, capacity)
    return np.where(capacity == 0.0, 0.0, 100.0 * (used + extra) / safe)


def packing_score(utilization: FloatArray, target: float) -> IntArray:
    """Return the score of a predicted utilisation: `target` when idle, 100 at the target, then falling from there to
    0 at 100 %."""
    if target >= 100.0:
        falling = np.zeros_like(utilization)
    else:
        falling = round_half_away(target * (100.0 - utilization) / (100.0 - target))
    rising = round_half_away((100.0 - target) * utilization / target + target)
    score = np.where(utilization > target, np.where(utilization > 100.0, 0.0, falling), rising)
    return score.astype(np.int64)
