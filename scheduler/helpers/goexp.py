"""e^x bit by bit as Go computes it on amd64, for scores that upstream derives from differences in the last digits.

Go follows N. Shibata, "Efficient evaluation methods of elementary functions suitable for SIMD computation" (2010):
x = k ln 2 + r, a Taylor polynomial in r/16, four doublings by e^2y - 1 = (e^y - 1)(e^y + 1), times 2^k, with fused
multiply-adds. The C library that numpy calls rounds better, and so differently now and then.
"""

import numpy as np

from scheduler.framework import FloatArray

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.69314718055966295651160180568695068359375
_LN2_LOW = 0.28235290563031577122588448175013436025525412068e-12
_OVERFLOW = 709.782712893384
_SPLITTER = 134217729.0
_TAYLOR = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0)


def go_exp(x: FloatArray) -> FloatArray:
    """Return e^x; infinite beyond the range, as in Go."""
    with np.errstate(all="ignore"):
        in_range = np.isfinite(x) & (x <= _OVERFLOW) & (x >= -_OVERFLOW - 40.0)
        reduced = np.where(in_range, x, 0.0)
        power = np.rint(reduced * _LOG2_E)
        reduced = _fma(-power, _LN2_HIGH, reduced)
        reduced = _fma(-power, _LN2_LOW, reduced) * 0.0625
        series: FloatArray = np.full_like(reduced, 1 / 40320)
        for coefficient in _TAYLOR:
            series = _fma(reduced, series, coefficient)
        expm1 = reduced * series
        for _ in range(3):
            expm1 = expm1 * (expm1 + 2.0)
        result = np.ldexp(_fma(expm1 + 2.0, expm1, 1.0), power.astype(np.int32))
        return np.where(in_range, result, np.where(np.isnan(x), x, np.where(x > 0.0, np.inf, 0.0)))


def _fma(a: FloatArray, b: FloatArray | float, c: FloatArray | float) -> FloatArray:
    """Return a * b + c, rounded once: the product's and the sum's rounding errors are computed and added back."""
    product = a * b
    high_a, high_b = _upper_half(a), _upper_half(b)
    low_a, low_b = a - high_a, b - high_b
    lost_in_product = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    total = product + c
    rest = total - product
    lost_in_sum = (product - (total - rest)) + (c - rest)
    result: FloatArray = total + (lost_in_sum + lost_in_product)
    return result


def _upper_half(value: FloatArray | float) -> FloatArray | float:
    """The upper half of the digits."""
    scaled = value * _SPLITTER
    return scaled - (scaled - value)
