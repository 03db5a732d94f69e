"""What `compatibility: upstream` changes in NodeMetadata: ages instead of times, and int64 that wraps around."""

import numpy as np

from scheduler.framework import (
    MAX_SCORE,
    IntArray,
    Locality,
    NodeView,
    PodInfo,
)
from scheduler.helpers import go_divide
from scheduler.kube.primitives import INT64_MAX, INT64_MIN
from scheduler.plugins.nodemetadata.plugin import LEAST_READABLE, NANOSECONDS, NodeMetadata


class UpstreamNodeMetadata(NodeMetadata):
    """A time counts by its age at the moment of the attempt, in seconds cut towards 0, and at most 292 years."""

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Ages change with every attempt."""
        return super().locality(pod, view) if self._is_number else Locality()

    def _rank(self, moment: int, view: NodeView) -> int:
        age = max(INT64_MIN, min(INT64_MAX, int(view.now * NANOSECONDS) - moment))
        seconds = abs(age) // NANOSECONDS
        return self._sign * (seconds if age < 0 else -seconds)

    def _stretched(self, values: IntArray) -> IntArray:
        least = values.min(keepdims=True)
        spread = values.max(keepdims=True) - least
        if not spread[0]:
            return np.full_like(values, LEAST_READABLE)
        return go_divide((values - least) * (MAX_SCORE - LEAST_READABLE), spread) + LEAST_READABLE
