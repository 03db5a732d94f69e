"""Statistics of a node's load for the load-aware plugins (scheduler-plugins v0.34.7, pkg/trimaran/resourcestats.go)."""

import numpy as np
from msgspec import Struct

from scheduler.framework import BoolArray, FloatArray
from scheduler.helpers.staleness import is_load

MEGA = 1.0 / 1024.0 / 1024.0
"""Memory is scored in MiB."""


class ResourceStats(Struct, frozen=True):
    """Use of one resource per row: CPU in milli-units, memory in MiB."""

    capacity: FloatArray
    request: FloatArray | float
    used_average: FloatArray
    used_deviation: FloatArray

    def mu_sigma(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and deviation as shares of the capacity, the pod's request added to the mean."""
        capacity = self.capacity
        empty = None if capacity.all() else capacity == 0.0
        if empty is not None:
            capacity = np.where(empty, 1.0, capacity)
        mu, sigma = (self.used_average + self.request) / capacity, self.used_deviation / capacity
        for share in (mu, sigma):
            bound(share, 0.0, 1.0)
            if empty is not None:
                share[empty] = 0.0
        return mu, sigma


def bound(values: FloatArray, low: FloatArray | float, high: FloatArray | float) -> FloatArray:
    """Bound values in place and return them: a third of the time of numpy's clip."""
    np.minimum(values, high, out=values)
    return np.maximum(values, low, out=values)


def resource_stats(
    average: FloatArray, deviation: FloatArray, capacity: FloatArray, request: FloatArray | float
) -> ResourceStats:
    """Return amounts from percentages of the capacity."""
    return ResourceStats(capacity, request, average * capacity / 100.0, deviation * capacity / 100.0)


class Measured(Struct, frozen=True):
    """One resource's load per row, in per cent of the capacity.

    Attributes:
        average, deviation: over the window; where a row is not `known`, the average is 0 and means nothing.
        known: rows whose load may be used.
        valid: rows with a measurement of any age.
    """

    average: FloatArray
    deviation: FloatArray
    known: BoolArray
    valid: BoolArray


def measured_upstream(average: FloatArray, deviation: FloatArray) -> Measured:
    """Read figures as upstream: either one makes the row known, a missing one is 0, and age does not matter."""
    has_average, has_deviation = np.isfinite(average), np.isfinite(deviation)
    known = has_average | has_deviation
    return Measured(np.where(has_average, average, 0.0), np.where(has_deviation, deviation, 0.0), known, known)


def measured_safe(average: FloatArray, deviation: FloatArray, fresh: BoolArray) -> Measured:
    """Read figures so that a missing average is never 0: a row without a fresh one is not known.

    A row without a deviation gets the mean of those that have one; where no row has one (the metrics server reports
    none), all are 0.
    """
    valid = is_load(average)
    known = valid & fresh
    spread = known & np.isfinite(deviation) & (deviation >= 0.0)
    if not spread.all():
        known_deviations = deviation[spread]
        deviation = np.where(spread, deviation, known_deviations.mean() if len(known_deviations) else 0.0)
    return Measured(np.where(known, average, 0.0), deviation, known, valid)
