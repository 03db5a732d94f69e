"""The formula of TargetLoadPacking, without any state (scheduler-plugins v0.34.7, pkg/trimaran/targetloadpacking)."""

import math
from typing import TypeVar

import numpy as np

from scheduler.framework import ContainerResources, FloatArray, IntArray, PodLevelResources, SpecInfo
from scheduler.helpers import go_round

_STEPS = 64
"""Pieces of a per cent in `PackingScores`: a power of two."""
_TOP = 100 * _STEPS
_FEW = 1024
"""For fewer nodes `PackingScores` takes longer than the formula."""
Amount = TypeVar("Amount", float, FloatArray)


def predicted_cpu(spec: SpecInfo, multiplier: float, default_request: int) -> int:
    """Return the milli-units of CPU a pod will probably use, with its overhead.

    Per app container and sidecar: its limit, else its request times the multiplier, else the default request. A limit
    of the pod as a whole replaces their sum, else its request as a whole times the multiplier does. Ordinary init
    containers do not count: they are over when the pod runs.
    """
    whole = _prediction(spec.pod_level, multiplier)
    if whole is None:
        whole = sum(
            predicted_of_container(container, multiplier, default_request)
            for container in spec.containers
            if container.kind != "init"
        )
    return whole + spec.overhead.get("cpu", 0)


def predicted_of_container(container: ContainerResources, multiplier: float, default_request: int) -> int:
    """Return the milli-units of CPU a container will probably use."""
    prediction = _prediction(container, multiplier)
    return default_request if prediction is None else prediction


def _prediction(resources: ContainerResources | PodLevelResources, multiplier: float) -> int | None:
    """Return what follows from a limit or a request, of which 0 is one; None without either."""
    limit, request = resources.limits.get("cpu"), resources.requests.get("cpu")
    if limit is not None:
        return limit
    return None if request is None else go_round(request * multiplier)


def utilization_after(used: FloatArray, extra: FloatArray, capacity: FloatArray) -> FloatArray:
    """Return predicted CPU utilisation in per cent, in the array `used`; 0 where the node has no CPU. All amounts in
    milli-units."""
    # As `_percent`, on one array: new ones cost as much as the arithmetic.
    used += extra
    used *= 100.0
    if not len(capacity) or np.minimum.reduce(capacity) >= 1.0:
        used /= capacity
        return used
    used /= np.maximum(capacity, 1.0)
    used[capacity == 0.0] = 0.0
    return used


def utilization_of_node(used: float, capacity: float) -> float:
    """Return `utilization_after` of one node."""
    return _percent(used, max(capacity, 1.0)) if capacity else 0.0


class PackingScores:
    """`packing_score` for one target, several times as fast.

    There are some hundred scores, and between two steps of the curve the score is the same. So scores are looked up in
    a table by a 64th of a per cent, which is exact as 64 is a power of two, and only utilisations that share theirs
    with a step, some 1.5 % of them, are computed.
    """

    def __init__(self, target: float) -> None:
        self._target = target
        first = np.arange(_TOP + 1) / _STEPS
        # The last piece stands for all beyond 100 %: they score 0.
        last = np.nextafter(np.append(first[1:], 101.0), 0.0)
        # On either side of the target the score rises or falls in every step of its computation: what both ends of a
        # piece have, all of it has.
        at_first, at_last = packing_score(first, target), packing_score(last, target)
        self._table: IntArray = np.where((at_first == at_last) & ((first > target) | (last <= target)), at_first, -1)

    def __call__(self, utilization: FloatArray) -> IntArray:
        """Return the score of each predicted utilisation."""
        if len(utilization) < _FEW or not np.minimum.reduce(utilization) >= 0.0:
            return packing_score(utilization, self._target)
        pieces = utilization * _STEPS
        np.minimum(pieces, _TOP, out=pieces)
        scores: IntArray = self._table.take(pieces.astype(np.intp), mode="clip")
        if np.minimum.reduce(scores) < 0:
            steps = (scores < 0).nonzero()[0]
            scores[steps] = packing_score(utilization.take(steps, mode="clip"), self._target)
        return scores


def packing_score(utilization: FloatArray, target: float) -> IntArray:
    """Return the score of a predicted utilisation: `target` when idle, 100 at the target, then falling from there to
    0 at 100 % (targetloadpacking.go, Score)."""
    # Beyond 100 % the falling line is negative, which upstream cuts off at 0; at a target of 100 there is no line.
    falling = np.maximum(_falling(utilization, target), 0.0) if target < 100.0 else 0.0
    exact = np.where(utilization > target, falling, _rising(utilization, target))
    whole = np.floor(exact)
    # Go rounds halves away from zero; nothing is negative here.
    return whole.astype(np.int64) + (exact - whole >= 0.5)


def packing_score_of_node(utilization: float, target: float) -> int:
    """Return `packing_score` of one node."""
    if utilization > target:
        exact = max(_falling(utilization, target), 0.0) if target < 100.0 else 0.0
    else:
        exact = _rising(utilization, target)
    whole = math.floor(exact)
    return whole + (exact - whole >= 0.5)


# The rules themselves, for a column of nodes as for a single one.


def _percent(used: Amount, capacity: Amount) -> Amount:
    return 100.0 * used / capacity


def _rising(utilization: Amount, target: float) -> Amount:
    return (100.0 - target) * utilization / target + target


def _falling(utilization: Amount, target: float) -> Amount:
    return target * (100.0 - utilization) / (100.0 - target)
