"""What `compatibility: upstream` changes in Peaks: pkg/trimaran/peaks of scheduler-plugins 0.34.7 as it is."""

import numpy as np

from scheduler.catalog import PeaksArgs
from scheduler.framework import (
    BoolArray,
    CycleState,
    FloatArray,
    IntArray,
    NodeView,
    PluginContext,
    PodInfo,
    RowArray,
    gather,
)
from scheduler.helpers.upstreamsums import upstream_quantity_of_cpu
from scheduler.plugins.peaks.model import go_int64, normalize_scores, power_jump
from scheduler.plugins.peaks.plugin import NAME, Peaks, utilization

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.69314718055966295651160180568695068359375
_LN2_LOW = 0.28235290563031577122588448175013436025525412068e-12
_OVERFLOW = 709.782712893384
_SPLITTER = 134217729.0
_TAYLOR = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0)


class UpstreamPeaks(Peaks):
    """A node without load or model, or that would be overfull, scores 0 before normalisation: the best there is."""

    def __init__(self, args: PeaksArgs, context: PluginContext) -> None:
        super().__init__(args, context)
        # Upstream reads the file into a map it then loses, unless the args gave one.
        if not args.node_power_model and "node_power_model" not in args.model_fields_set:
            self._models = {}

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Return the growth of power per row, times 10^15."""
        load = view.load(self._source)
        models = self._models_by_row(view)
        k1, k2 = models[0].take(rows), models[1].take(rows)
        measured = np.full(len(rows), np.nan) if load is None else gather(view, load.cpu_first[: view.size], rows)
        capacity = gather(view, view.capacity_cpu, rows)
        demand = float(upstream_quantity_of_cpu(pod.spec))
        known: BoolArray = np.isfinite(measured)
        before = np.where(known, measured, 0.0)
        after = utilization(before / 100.0 * capacity + demand, capacity)
        counted = known & ~(after > 100.0)
        state.count(f"load_absent/{NAME}", int(np.count_nonzero(~known)))
        return np.where(counted, go_int64(power_jump(k1, k2, before, after, go_exp)), 0)

    def normalize(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray, scores: IntArray) -> IntArray:
        """Turn the least growth into 100 and the largest into 0."""
        return normalize_scores(scores)


def go_exp(x: FloatArray) -> FloatArray:
    """Return e^x bit by bit as Go computes it on amd64; infinite beyond the range.

    Upstream derives scores from differences in the last digits. Go follows N. Shibata, "Efficient evaluation methods of
    elementary functions suitable for SIMD computation" (2010): x = k ln 2 + r, a Taylor polynomial in r/16, four
    doublings by e^2y - 1 = (e^y - 1)(e^y + 1), times 2^k, with fused multiply-adds. The C library that numpy calls
    rounds better, and so differently now and then.
    """
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
