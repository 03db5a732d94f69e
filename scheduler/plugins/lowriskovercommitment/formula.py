"""The formulas of LowRiskOverCommitment (scheduler-plugins v0.34.7, pkg/trimaran/lowriskovercommitment)."""

import math

import numpy as np

from scheduler.framework import FloatArray
from scheduler.helpers.loadstats import bound
from scheduler.plugins.lowriskovercommitment.beta import match_moments, max_variance

MAX_VARIANCE_ALLOWANCE = 0.99


def limit_risk(request: FloatArray, limit: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return how much of what limits allow beyond requests does not fit the node; `request` is at most `capacity`."""
    beyond = limit > capacity
    if not beyond.any():
        return np.zeros_like(capacity)
    return np.where(beyond, (limit - capacity) / np.where(beyond, limit - request, 1.0), 0.0)


def load_risk(
    mu: FloatArray, sigma: FloatArray, request: FloatArray, limit: FloatArray, capacity: FloatArray, *, window: int
) -> FloatArray:
    """Return the probability that the measured load exceeds what is requested on the node.

    Args:
        mu: mean load, a share of the capacity.
        sigma: its deviation, before it is widened for the smoothing of the measurements.
        request: requests of the node's pods, at most the capacity.
        limit: limits of the node's pods.
        capacity: allocatable amount, in the same unit.
        window: by how many samples each measurement was smoothed.
    """
    sigma = np.minimum(sigma * math.sqrt(window), np.sqrt(max_variance(mu) * MAX_VARIANCE_ALLOWANCE))
    divisor = np.where(capacity == 0.0, 1.0, capacity)
    allocated = np.clip(request / divisor, 0.0, 1.0)
    fit = match_moments(mu, sigma * sigma + mu * mu)
    sure = (mu == 0.0) | (sigma == 0.0)
    fitted = fit.valid & ~sure
    # Pods cannot use more than their limits: where these leave room, the probability is conditioned on that.
    bounded = (limit < capacity) & (request <= limit)
    share = limit / divisor
    # Only where it matters: beta distributions are expensive.
    wanted = np.where(fitted, allocated, np.nan)
    below, possible = fit.cdf(wanted, np.where(bounded & fitted, np.clip(share, 0.0, 1.0), np.nan))
    below = np.where(sure, np.where((mu == 0.0) | (mu <= allocated), 1.0, 0.0), below)
    conditional = np.clip(below / np.where(possible > 0.0, possible, 1.0), 0.0, 1.0)
    below = np.where(possible > 0.0, conditional, below)
    below = np.where(bounded & (share == 0.0), 1.0, below)
    return 1.0 - below


def total_risk(weight: float, limits: FloatArray, load: FloatArray) -> FloatArray:
    """Combine the two risks."""
    return bound(weight * limits + (1.0 - weight) * load, 0.0, 1.0)
