"""The formula of LoadVariationRiskBalancing (scheduler-plugins v0.34.7, pkg/trimaran/loadvariationriskbalancing)."""

import numpy as np

from scheduler.framework import FloatArray
from scheduler.helpers.loadstats import ResourceStats, bound


def balance_score(stats: ResourceStats, margin: float, sensitivity: float) -> FloatArray:
    """Return (1 - risk) * 100 with risk = (mean + margin * deviation^(1/sensitivity)) / 2; 0 without capacity."""
    bounded = ResourceStats(
        stats.capacity,
        np.maximum(stats.request, 0.0),
        bound(stats.used_average.copy(), 0.0, stats.capacity),
        bound(stats.used_deviation.copy(), 0.0, stats.capacity),
    )
    mu, sigma = bounded.mu_sigma()
    sigma = bound(_root(sigma, sensitivity) * margin, 0.0, 1.0)
    score: FloatArray = (1.0 - (mu + sigma) / 2.0) * 100.0
    if not stats.capacity.all():
        score[stats.capacity == 0.0] = 0.0
    return score


def _root(sigma: FloatArray, sensitivity: float) -> FloatArray:
    if sensitivity < 0.0 or sensitivity == 1.0:
        return sigma
    if sensitivity == 0.0:
        # Go's 1/0 is infinite, and only 1 stays above 0 in that power.
        return np.where(sigma >= 1.0, sigma, 0.0)
    if sensitivity == 2.0:
        return np.sqrt(sigma)
    root: FloatArray = np.power(sigma, 1.0 / sensitivity)
    return root
