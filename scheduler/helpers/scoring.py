"""Arithmetic that plugins share: Go's rounding and the default normalisation."""

import numpy as np

from scheduler.framework import MAX_SCORE, FloatArray, IntArray


def default_normalize(scores: IntArray, *, reverse: bool = False) -> IntArray:
    """Scale scores so that the largest becomes 100, rounding down; `reverse` turns low into high.

    helper.DefaultNormalizeScore: where all are 0 they stay 0, or become 100 in reverse.
    """
    largest = int(scores.max()) if len(scores) else 0
    if largest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    # Scores are counts and sums of weights, never negative, so flooring is Go's truncation.
    scaled = scores * MAX_SCORE // largest
    return MAX_SCORE - scaled if reverse else scaled


def round_half_away(values: FloatArray) -> FloatArray:
    """Round as Go's math.Round: halves away from zero (numpy rounds halves to even)."""
    truncated = np.trunc(values)
    return np.where(np.abs(values - truncated) >= 0.5, truncated + np.copysign(1.0, values), truncated)


def go_round(value: float) -> int:
    """Round one number as Go's math.Round."""
    truncated = int(value)
    if abs(value - truncated) >= 0.5:
        return truncated + (1 if value > 0 else -1)
    return truncated
