"""Peaks: prefer nodes whose power draw grows least, by a model of power over CPU utilisation per node.

What `compatibility` decides:

- `upstream`: a node without load, without a model, or that the pod would fill beyond 100 %, has the raw score 0, which
  after normalisation is the best one; models from the file count only where the args hold an empty `NodePowerModel`.
- `safe`: a node without (fresh) load is treated as `SecondarySchedulerOptions.load` says, by default estimated by its
  requests; one without a model gets the mean of those with one; one that would exceed 100 % gets 0. Pods assigned too
  recently to show in the averages are added to them. Where no feasible node has a model, or by default where none has
  fresh load, the plugin is left out of the attempt. Counters: see `StalenessPolicy`.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import PeaksArgs, PowerModel
from scheduler.helpers.staleness import LoadDecision, StalenessPolicy, fresh_rows, is_load
from scheduler.helpers.unmeasured import UnmeasuredUse, requested
from scheduler.helpers.upstreamsums import upstream_quantity_of_cpu

# Where Peaks' power models come from, and its formulas (scheduler-plugins v0.34.7, pkg/trimaran/peaks).

VARIABLE = "NODE_POWER_MODEL"
"""Environment variable with the path of the power models, `{node: {k0, k1, k2}}`."""
_SCALE = 10.0**15
_INT64_MIN = -(2**63)
_JSON_TYPES: dict[type, str] = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}


def models_of_file(file: fw.NamedFile) -> dict[str, PowerModel]:
    """Return the models of the file that the environment names.

    Raises:
        ValueError: its text has another shape; worded as by upstream, which fails to start then.
    """
    try:
        data = json.loads(file.text)
    except ValueError as error:
        raise ValueError(f"{VARIABLE} {file.path}: not JSON: {error}") from error
    if not isinstance(data, dict):
        raise ValueError(
            f"json: cannot unmarshal {_json_type(data)} into Go value of type map[string]config.PowerModel"
        )
    return {name: _model(fields) for name, fields in data.items()}


def _model(data: Any) -> PowerModel:
    if data is None:
        return PowerModel()
    if not isinstance(data, dict):
        raise ValueError(f"json: cannot unmarshal {_json_type(data)} into Go value of type config.PowerModel")
    for key, number in data.items():
        if key not in ("k0", "k1", "k2"):
            raise ValueError(f'json: unknown field "{key}"')
        if isinstance(number, bool) or not isinstance(number, int | float | None):
            kind = _json_type(number)
            raise ValueError(f"json: cannot unmarshal {kind} into Go struct field PowerModel.{key} of type float64")
    return PowerModel(**{key: float(number) for key, number in data.items() if number is not None})


def _json_type(data: Any) -> str:
    return "object" if isinstance(data, dict) else _JSON_TYPES.get(type(data), "null")


def model_columns(
    models: Mapping[str, PowerModel], names: list[str]
) -> tuple[fw.FloatArray, fw.FloatArray, fw.BoolArray]:
    """Return k1 and k2 per name, 0 where there is no model, and which names have one."""
    by_name = [models.get(name) for name in names]
    k1 = np.array([0.0 if model is None else model.k1 for model in by_name])
    k2 = np.array([0.0 if model is None else model.k2 for model in by_name])
    return k1, k2, np.array([model is not None for model in by_name], dtype=np.bool_)


def power_jump(
    k1: fw.FloatArray,
    k2: fw.FloatArray,
    before: fw.FloatArray,
    after: fw.FloatArray,
    exp: Callable[[fw.FloatArray], fw.FloatArray],
) -> fw.FloatArray:
    """Return how much a node's power grows between two CPU utilisations, times 10^15 (getPowerJumpForUtilisation).

    Where the two are nearly equal the last digits of `exp` decide, and normalisation makes whole scores of them.

    Args:
        k1: factor of the node's model, power = k0 + k1 * e^(k2 * utilisation).
        k2: exponent of the model.
        before: utilisation in per cent.
        after: the same with the pod.
        exp: e^x; Go's for upstream's digits.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return k1 * (exp(k2 * after) - exp(k2 * before)) * _SCALE


def go_int64(values: fw.FloatArray) -> fw.IntArray:
    """Truncate as Go does on amd64: what does not fit becomes the smallest integer."""
    fits = (values >= -(2.0**63)) & (values < 2.0**63)
    return np.where(fits, np.where(fits, values, 0.0).astype(np.int64), _INT64_MIN)


def normalize_scores(scores: fw.IntArray) -> fw.IntArray:
    """Turn the smallest into 100 and the largest into 0; all 0 stay so, otherwise all equal become 100."""
    lowest, highest = scores.min(), scores.max()
    if lowest == 0 and highest == 0:
        return scores
    if lowest == highest:
        return np.full_like(scores, 100)
    with np.errstate(over="ignore"):
        # int64 wraps around here as in Go.
        share = 100.0 * (scores - lowest).astype(np.float64) / np.float64(highest - lowest)
    return 100 - go_int64(share)


NAME = "Peaks"
_LARGEST = 2.0**61
"""Bound of raw scores in `safe` mode, so that differences do not wrap around."""


class Peaks(fw.ScorePlugin, fw.ScoreNormalizer):
    """Score by the growth of power."""

    name = NAME

    def __init__(self, args: PeaksArgs, context: fw.PluginContext) -> None:
        self._source = args.source_key()
        self._staleness = StalenessPolicy(NAME, context.options.load)
        self._models: Mapping[str, PowerModel] = args.node_power_model
        if not self._models:
            self._models = models_of_file(context.environment.read_named_file(VARIABLE))
        self._unmeasured = UnmeasuredUse(requested("cpu"), upstream=False)
        self._membership = -1
        self._columns = model_columns({}, [])

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray | None:
        """Return the growth of power per row, times 10^15; None in `safe` mode where nothing is known."""
        load = view.load(self._source)
        models = self._models_by_row(view)
        k1, k2, has_model = models[0].take(rows), models[1].take(rows), models[2].take(rows)
        measured = np.full(len(rows), np.nan) if load is None else fw.gather(view, load.cpu_first[: view.size], rows)
        capacity = fw.gather(view, view.capacity_cpu, rows)
        demand = float(pod.requests.get("cpu", 0))
        valid = is_load(measured)
        fresh = valid if load is None else valid & fresh_rows(view, load, rows, self._staleness.max_age)
        decision = self._staleness.decide(state, fresh, valid)
        if not (decision.scored and has_model.any()):
            self._staleness.count_left_out(state)
            return None
        used = self._used(view, load, measured, decision, capacity, rows)
        before, after = utilization(used, capacity), utilization(used + demand, capacity)
        jump = np.clip(np.nan_to_num(power_jump(k1, k2, before, after, np.exp)), -_LARGEST, _LARGEST)
        known = has_model & ~decision.left_out
        overfull = (after > 100.0) & ~decision.left_out
        if not known.all():
            counted = known & ~overfull
            jump = np.where(known, jump, jump[counted].mean() if counted.any() else 0.0)
        state.write(NAME, np.flatnonzero(overfull))
        return jump.astype(np.int64)

    def normalize(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray, scores: fw.IntArray
    ) -> fw.IntArray:
        """Turn the least growth into 100 and the largest into 0."""
        overfull = state.read(NAME, np.ndarray)
        if overfull is None or not len(overfull):
            return normalize_scores(scores)
        fits = np.ones(len(scores), dtype=np.bool_)
        fits[overfull] = False
        result = np.zeros_like(scores)
        if fits.any():
            result[fits] = normalize_scores(scores[fits])
        return result

    def _models_by_row(self, view: fw.NodeView) -> tuple[fw.FloatArray, fw.FloatArray, fw.BoolArray]:
        """Models by row of the view, gathered again when nodes come or go."""
        if self._membership != view.membership:
            names = [""] * view.size
            for row in view.rows.tolist():
                names[row] = view.name(row)
            self._columns = model_columns(self._models, names)
            self._membership = view.membership
        return self._columns

    def _used(
        self,
        view: fw.NodeView,
        load: fw.LoadColumns | None,
        measured: fw.FloatArray,
        decision: LoadDecision,
        capacity: fw.FloatArray,
        rows: fw.RowArray,
    ) -> fw.FloatArray:
        """Return the CPU in use per row, in milli-units: measured, with what the measurement misses, or estimated.

        Args:
            view: the nodes.
            load: the source's columns; None before its first answer.
            measured: the measured utilisation at `rows`, in per cent.
            decision: which rows are scored by load and which by an estimate.
            capacity: CPU capacity at `rows`, in milli-units.
            rows: the nodes to score.
        """
        used = np.where(decision.fresh, measured, 0.0) / 100.0 * capacity
        if load is not None:
            used = used + fw.gather(view, self._unmeasured.by_row(view, load), rows)
        if decision.estimated.any():
            used = np.where(decision.estimated, fw.gather(view, view.nonzero_requested("cpu"), rows), used)
        return used


def utilization(used: fw.FloatArray, capacity: fw.FloatArray) -> fw.FloatArray:
    """Per cent of the capacity; 0 where there is none."""
    has_capacity = capacity > 0.0
    return np.where(has_capacity, 100.0 * used / np.where(has_capacity, capacity, 1.0), 0.0)


# What `compatibility: upstream` changes in Peaks: pkg/trimaran/peaks of scheduler-plugins 0.34.7 as it is.

_LOG2_E = 1.4426950408889634
_LN2_HIGH = 0.69314718055966295651160180568695068359375
_LN2_LOW = 0.28235290563031577122588448175013436025525412068e-12
_OVERFLOW = 709.782712893384
_SPLITTER = 134217729.0
_TAYLOR = (1 / 5040, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0)


class UpstreamPeaks(Peaks):
    """A node without load or model, or that would be overfull, scores 0 before normalisation: the best there is."""

    def __init__(self, args: PeaksArgs, context: fw.PluginContext) -> None:
        super().__init__(args, context)
        # Upstream reads the file into a map it then loses, unless the args gave one.
        if not args.node_power_model and "node_power_model" not in args.model_fields_set:
            self._models = {}

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Return the growth of power per row, times 10^15."""
        load = view.load(self._source)
        models = self._models_by_row(view)
        k1, k2 = models[0].take(rows), models[1].take(rows)
        measured = np.full(len(rows), np.nan) if load is None else fw.gather(view, load.cpu_first[: view.size], rows)
        capacity = fw.gather(view, view.capacity_cpu, rows)
        demand = float(upstream_quantity_of_cpu(pod.spec))
        known: fw.BoolArray = np.isfinite(measured)
        before = np.where(known, measured, 0.0)
        after = utilization(before / 100.0 * capacity + demand, capacity)
        counted = known & ~(after > 100.0)
        state.count(f"load_absent/{NAME}", int(np.count_nonzero(~known)))
        return np.where(counted, go_int64(power_jump(k1, k2, before, after, go_exp)), 0)

    def normalize(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray, scores: fw.IntArray
    ) -> fw.IntArray:
        """Turn the least growth into 100 and the largest into 0."""
        return normalize_scores(scores)


def go_exp(x: fw.FloatArray) -> fw.FloatArray:
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
        series: fw.FloatArray = np.full_like(reduced, 1 / 40320)
        for coefficient in _TAYLOR:
            series = _fma(reduced, series, coefficient)
        expm1 = reduced * series
        for _ in range(3):
            expm1 = expm1 * (expm1 + 2.0)
        result = np.ldexp(_fma(expm1 + 2.0, expm1, 1.0), power.astype(np.int32))
        return np.where(in_range, result, np.where(np.isnan(x), x, np.where(x > 0.0, np.inf, 0.0)))


def _fma(a: fw.FloatArray, b: fw.FloatArray | float, c: fw.FloatArray | float) -> fw.FloatArray:
    """Return a * b + c, rounded once: the product's and the sum's rounding errors are computed and added back."""
    product = a * b
    high_a, high_b = _upper_half(a), _upper_half(b)
    low_a, low_b = a - high_a, b - high_b
    lost_in_product = ((high_a * high_b - product) + high_a * low_b + low_a * high_b) + low_a * low_b
    total = product + c
    rest = total - product
    lost_in_sum = (product - (total - rest)) + (c - rest)
    result: fw.FloatArray = total + (lost_in_sum + lost_in_product)
    return result


def _upper_half(value: fw.FloatArray | float) -> fw.FloatArray | float:
    """The upper half of the digits."""
    scaled = value * _SPLITTER
    return scaled - (scaled - value)


def peaks(args: PeaksArgs, context: fw.PluginContext) -> Peaks:
    """Return the plugin as the profile's `compatibility` wants it."""
    plugin = UpstreamPeaks if context.upstream else Peaks
    return plugin(args, context)
