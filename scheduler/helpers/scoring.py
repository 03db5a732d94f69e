"""Arithmetic that plugins share: Go's rounding and the default normalisation."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from scheduler.framework import MAX_SCORE, FloatArray, IntArray


def floor_divide(dividends: IntArray, divisor: int) -> IntArray:
    """Divide by a positive integer, rounding down; for dividends that are not negative that is as Go divides.

    Through float64, which is several times quicker, and exact for dividends from 0 to 2^53; else in integers.
    """
    # Read as unsigned, a negative number is a huge one.
    if len(dividends) and np.maximum.reduce(dividends.view(np.uint64)) >= 2**53:
        return dividends // divisor
    quotient = dividends / divisor
    return np.floor(quotient, out=quotient).astype(np.int64)


def default_normalize(scores: IntArray, *, reverse: bool = False) -> IntArray:
    """Scale scores so that the largest becomes 100, rounding down; `reverse` turns low into high.

    helper.DefaultNormalizeScore: where all are 0 they stay 0, or become 100 in reverse.
    """
    largest = int(scores.max()) if len(scores) else 0
    if largest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    # Scores are counts and sums of weights, never negative, so flooring is Go's truncation.
    scaled = floor_divide(scores * MAX_SCORE, largest)
    return MAX_SCORE - scaled if reverse else scaled


def min_max_normalize(scores: IntArray) -> IntArray:
    """Stretch scores to 0..100, the lowest becoming 0; all 0 where they are equal.

    NormalizeScore of NodeResourcesAllocatable and PodState (scheduler-plugins v0.34.7), in int64 that wraps around
    where Go's does.
    """
    if not len(scores):
        return scores
    lowest = scores.min(keepdims=True)
    spread = scores.max(keepdims=True) - lowest
    if not spread[0]:
        return np.zeros_like(scores)
    return go_divide((scores - lowest) * MAX_SCORE, spread)


def go_divide(dividend: IntArray, divisor: IntArray) -> IntArray:
    """Divide integers as Go: towards zero (numpy rounds down). No divisor may be 0."""
    quotient = dividend // divisor
    inexact = quotient * divisor != dividend
    result: IntArray = quotient + (inexact & ((dividend < 0) != (divisor < 0)))
    return result


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
