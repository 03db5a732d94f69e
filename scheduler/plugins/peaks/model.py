"""Where Peaks' power models come from, and its formulas (scheduler-plugins v0.34.7, pkg/trimaran/peaks)."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from scheduler.catalog import PowerModel
from scheduler.framework import BoolArray, FloatArray, IntArray, NamedFile

VARIABLE = "NODE_POWER_MODEL"
"""Environment variable with the path of the power models, `{node: {k0, k1, k2}}`."""
_SCALE = 10.0**15
_INT64_MIN = -(2**63)
_JSON_TYPES: dict[type, str] = {bool: "bool", int: "number", float: "number", str: "string", list: "array"}


def models_of_file(file: NamedFile) -> dict[str, PowerModel]:
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


def model_columns(models: Mapping[str, PowerModel], names: list[str]) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Return k1 and k2 per name, 0 where there is no model, and which names have one."""
    by_name = [models.get(name) for name in names]
    k1 = np.array([0.0 if model is None else model.k1 for model in by_name])
    k2 = np.array([0.0 if model is None else model.k2 for model in by_name])
    return k1, k2, np.array([model is not None for model in by_name], dtype=np.bool_)


def power_jump(
    k1: FloatArray, k2: FloatArray, before: FloatArray, after: FloatArray, exp: Callable[[FloatArray], FloatArray]
) -> FloatArray:
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


def go_int64(values: FloatArray) -> IntArray:
    """Truncate as Go does on amd64: what does not fit becomes the smallest integer."""
    fits = (values >= -(2.0**63)) & (values < 2.0**63)
    return np.where(fits, np.where(fits, values, 0.0).astype(np.int64), _INT64_MIN)


def normalize_scores(scores: IntArray) -> IntArray:
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
