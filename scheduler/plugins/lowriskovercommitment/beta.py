"""The beta distribution over columns (scheduler-plugins v0.34.7, pkg/trimaran/lowriskovercommitment/beta.go)."""

import math

import numpy as np
from msgspec import Struct

from scheduler.framework import BoolArray, FloatArray

_EPSILON = 2.0**-53
_SMALLEST_FLOAT = 5e-324
_MAX_FRACTION_TERMS = 301
"""Terms of the continued fraction. Upstream's library stops there too, also where a very narrow distribution would
need more, so its figures are met in that case as well."""
_MAX_SERIES_TERMS = 5000
_TERMS_BETWEEN_CHECKS = 6
_STIRLING_FROM, _STIRLING_SHIFT = 10.0, 10
_STIRLING = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class BetaFit(Struct, frozen=True):
    """Beta distributions by row; `valid` is false where the moments belong to none, and alpha and beta are NaN."""

    alpha: FloatArray
    beta: FloatArray
    valid: BoolArray

    def cdf(self, *x: FloatArray) -> tuple[FloatArray, ...]:
        """Return the probability of x or less, for each of several x; 0 where it cannot be computed.

        An x of NaN costs nothing and yields 0.
        """
        with np.errstate(all="ignore"):
            scale = np.full(len(self.alpha), np.nan)
            rows = np.flatnonzero(self.valid & np.isfinite(self.alpha) & np.isfinite(self.beta))
            scale[rows] = _log_beta(self.alpha[rows], self.beta[rows])
        return tuple(self._cdf(bound, scale) for bound in x)

    def _cdf(self, x: FloatArray, scale: FloatArray) -> FloatArray:
        probability = regularized_incomplete_beta(self.alpha, self.beta, x, scale)
        with np.errstate(invalid="ignore"):
            return np.where((probability >= 0.0) & (probability <= 1.0), probability, 0.0)


def max_variance(mean: FloatArray) -> FloatArray:
    """Return the variance that a distribution on 0..1 with this mean cannot reach; 0 for means outside (0, 1)."""
    return np.where((mean > 0.0) & (mean < 1.0), mean * (1.0 - mean), 0.0)


def match_moments(first: FloatArray, second: FloatArray) -> BetaFit:
    """Fit beta distributions to the first two moments."""
    with np.errstate(all="ignore"):
        # As upstream writes it: for a tiny deviation the difference may cancel to 0, and the fit degenerates.
        variance = second - first * first
        limit = first * (1.0 - first)
        valid = (first >= 0.0) & (first <= 1.0) & (variance >= 0.0) & (variance < limit)
        size = np.maximum(limit / variance - 1.0, _SMALLEST_FLOAT)
        alpha = np.where(valid, first * size, np.nan)
        beta = np.where(valid, (1.0 - first) * size, np.nan)
    return BetaFit(alpha, beta, valid)


def regularized_incomplete_beta(
    alpha: FloatArray, beta: FloatArray, x: FloatArray, scale: FloatArray | None = None
) -> FloatArray:
    """Return I_x(alpha, beta); NaN where a parameter is not positive and finite or x is outside 0..1.

    `scale` is log B(alpha, beta) where the caller has it already.

    By the power series for small beta * x, else by one of two continued fractions, on the side of the mean where they
    converge fast (S. L. Moshier's choice, which upstream's library makes too).
    """
    with np.errstate(all="ignore"):
        result = np.full(np.shape(x), np.nan)
        good = (alpha > 0.0) & (beta > 0.0) & np.isfinite(alpha) & np.isfinite(beta)
        result[good & (x == 0.0)] = 0.0
        result[good & (x == 1.0)] = 1.0
        rows = np.flatnonzero(good & (x > 0.0) & (x < 1.0))
        if len(rows):
            a, b = alpha[rows], beta[rows]
            result[rows] = _interior(a, b, x[rows], _log_beta(a, b) if scale is None else scale[rows])
    return result


def _interior(alpha: FloatArray, beta: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
    direct_series = (beta * x <= 1.0) & (x <= 0.95)
    # Beyond the mean the complement is computed: I_x(a, b) = 1 - I_1-x(b, a).
    mirrored = ~direct_series & (x > alpha / (alpha + beta))
    a, b = np.where(mirrored, beta, alpha), np.where(mirrored, alpha, beta)
    y = np.where(mirrored, 1.0 - x, x)
    complement = np.where(mirrored, x, 1.0 - x)
    series = direct_series | (mirrored & (b * y <= 1.0) & (y <= 0.95))
    result = np.empty_like(x)
    rows = np.flatnonzero(series)
    if len(rows):
        result[rows] = _power_series(a[rows], b[rows], y[rows], scale[rows])
    rows = np.flatnonzero(~series)
    if len(rows):
        result[rows] = _by_continued_fractions(a[rows], b[rows], y[rows], complement[rows], scale[rows])
    return np.where(mirrored, 1.0 - np.maximum(result, _EPSILON), result)


def _power_series(a: FloatArray, b: FloatArray, x: FloatArray, scale: FloatArray) -> FloatArray:
    """x^a / (a B(a, b)) * (1 + a * sum over n of (1-b)(2-b)...(n-b) x^n / (n! (a+n)))."""
    total = 1.0 / a
    live = np.arange(len(x))
    term, sums, smallest, left, right, y = np.ones_like(x), total.copy(), _EPSILON / a, a, b, x
    for n in range(1, _MAX_SERIES_TERMS):
        term = term * ((n - right) * y / n)
        part = term / (left + n)
        sums = sums + part
        if n % _TERMS_BETWEEN_CHECKS:
            continue
        # Near x = 1 a few rows need hundreds of terms, which the others must not wait for.
        moving = np.abs(part) > smallest
        if moving.all():
            continue
        total[live] = sums
        if not moving.any():
            break
        live = live[moving]
        term, sums, smallest, left, right, y = (column[moving] for column in (term, sums, smallest, left, right, y))
    total[live] = sums
    return np.exp(a * np.log(x) - scale + np.log(total))


def _by_continued_fractions(
    a: FloatArray, b: FloatArray, x: FloatArray, complement: FloatArray, scale: FloatArray
) -> FloatArray:
    low = x * (a + b - 2.0) - (a - 1.0) < 0.0
    fraction = np.empty_like(x)
    rows = np.flatnonzero(low)
    if len(rows):
        fraction[rows] = _continued_fraction(a[rows], (a + b)[rows], (b - 1.0)[rows], x[rows], 1.0)
    rows = np.flatnonzero(~low)
    if len(rows):
        ratio = x[rows] / (1.0 - x[rows])
        fraction[rows] = _continued_fraction(a[rows], (b - 1.0)[rows], (a + b)[rows], ratio, -1.0) / complement[rows]
    return np.exp(a * np.log(x) + b * np.log(complement) - scale + np.log(fraction / a))


def _continued_fraction(a: FloatArray, even: FloatArray, odd: FloatArray, z: FloatArray, step: float) -> FloatArray:
    """Evaluate 1 / (1 - d1 / (1 + d2 / (1 - ...))) by its convergents, until they stand still.

    Numerators are z (a+n)(even + step n) and z (1+n)(odd - step n), each over the next two of a, a+1, a+2, ...
    """
    answer = np.ones_like(z)
    live = np.arange(len(z))
    previous_p, previous_q = np.zeros_like(z), np.ones_like(z)
    p, q = np.ones_like(z), np.ones_like(z)
    for n in range(_MAX_FRACTION_TERMS):
        base = a + 2.0 * n
        for numerator in (
            -(z * (a + n) * (even + step * n)) / (base * (base + 1.0)),
            (z * (1.0 + n) * (odd - step * n)) / ((base + 1.0) * (base + 2.0)),
        ):
            previous_p, p = p, p + previous_p * numerator
            previous_q, q = q, q + previous_q * numerator
        ratio = np.where(q != 0.0, p / q, answer[live])
        converged = np.abs((answer[live] - ratio) / ratio) < 3.0 * _EPSILON
        answer[live] = np.where(ratio != 0.0, ratio, answer[live])
        if converged.all():
            break
        keep = ~converged
        # Powers of two change no digit.
        scale = np.exp2(-np.frexp(np.maximum(np.abs(p), np.abs(q)))[1].astype(np.float64))[keep]
        live, a, even, odd, z = live[keep], a[keep], even[keep], odd[keep], z[keep]
        previous_p, p, previous_q, q = (column[keep] * scale for column in (previous_p, p, previous_q, q))
    return answer


def _log_beta(a: FloatArray, b: FloatArray) -> FloatArray:
    return _log_gamma(a) + _log_gamma(b) - _log_gamma(a + b)


def _log_gamma(values: FloatArray) -> FloatArray:
    """Return log(Gamma) of positive numbers, by Stirling's series where it is exact to the last digits.

    Smaller ones are lifted there by Gamma(x + 1) = x Gamma(x).
    """
    small = values < _STIRLING_FROM
    x = np.where(small, values + _STIRLING_SHIFT, values)
    inverse = 1.0 / x
    square = inverse * inverse
    series = np.full_like(x, _STIRLING[-1])
    for coefficient in _STIRLING[-2::-1]:
        series = series * square + coefficient
    result: FloatArray = (x - 0.5) * np.log(x) - x + _HALF_LOG_TWO_PI + series * inverse
    rows = np.flatnonzero(small)
    if len(rows):
        lifted = values[rows]
        product = lifted.copy()
        for step in range(1, _STIRLING_SHIFT):
            product *= lifted + step
        result[rows] -= np.log(product)
    return result
