"""How well the volumes of a pod fit on each node: full volumes first, or empty ones, by the shape
(plugins/volumebinding/scorer.go and VolumeBinding.Score of 1.37)."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from scheduler.framework import BoolArray, FloatArray, IntArray, NodeView, RowArray
from scheduler.helpers import interpolate, round_half_away
from scheduler.helpers.volumes import claim_class, volume_class
from scheduler.kube.model import PersistentVolumeClaim
from scheduler.kube.primitives import quantity_value
from scheduler.plugins.volumebinding.matching import VolumeMatches
from scheduler.plugins.volumebinding.provisioning import free_capacity

Shape = Sequence[tuple[int, int]]
"""Points (percent used, score 0..100)."""


def score_volumes(view: NodeView, rows: RowArray, matches: VolumeMatches, shape: Shape) -> IntArray:
    """Return the mean score of the storage classes of the volumes that would serve the pod on each row; 0 without any.

    Volumes that exist count where there are any on a row, else those that have to be made.

    Args:
        view: the cluster.
        rows: those that `matches` is about.
        matches: what serves the claims.
        shape: scores by how much of the volumes' capacity the claims take.
    """
    static = _Sums(len(rows))
    for match in matches.static_bindings:
        capacities = np.array([_storage(volume.spec.capacity) for volume in match.volumes] or [0], dtype=np.int64)
        for index, volume in enumerate(match.volumes):
            used = match.chosen == index
            static.add(volume_class(volume), used, _wanted(match.claim), capacities[index] * used)
    dynamic = _Sums(len(rows))
    for claim, wanted in matches.dynamic_provisions:
        capacity = free_capacity(view, rows, claim)
        if capacity is not None:
            dynamic.add(claim_class(claim) or "", wanted & (capacity >= 0), _wanted(claim), capacity, adds_up=False)
    return np.where(static.classes > 0, static.scores(shape), dynamic.scores(shape))


class _Sums:
    """Requested storage and capacity per class and row."""

    def __init__(self, count: int) -> None:
        self._requested: dict[str, IntArray] = defaultdict(lambda: np.zeros(count, dtype=np.int64))
        self._capacity: dict[str, IntArray] = defaultdict(lambda: np.zeros(count, dtype=np.int64))
        self._present: dict[str, BoolArray] = defaultdict(lambda: np.zeros(count, dtype=np.bool_))
        self._zero = np.zeros(count, dtype=np.int64)

    @property
    def classes(self) -> IntArray:
        """How many classes each row has volumes of."""
        total = self._zero.copy()
        for present in self._present.values():
            total += present
        return total

    def add(self, name: str, used: BoolArray, wanted: int, capacity: IntArray, *, adds_up: bool = True) -> None:
        """Count a claim on the rows where it is served. The free capacity of a class is one, whoever asks."""
        self._present[name] |= used
        self._requested[name] += wanted * used
        self._capacity[name] = np.where(used, capacity + (self._capacity[name] if adds_up else 0), self._capacity[name])

    def scores(self, shape: Shape) -> IntArray:
        """Return the mean over the classes that a row has, rounded half away from zero."""
        total: FloatArray = np.zeros(len(self._zero))
        for name, present in self._present.items():
            requested, capacity = self._requested[name], self._capacity[name]
            full = (capacity == 0) | (requested > capacity)
            used = np.where(full, 100, requested * 100 // np.maximum(capacity, 1))
            total += np.where(present, interpolate(used.astype(np.float64), shape), 0.0)
        classes = self.classes
        mean: IntArray = round_half_away(total / np.maximum(classes, 1)).astype(np.int64)
        return np.where(classes > 0, mean, 0)


def _wanted(claim: PersistentVolumeClaim) -> int:
    return _storage(claim.spec.resources.requests)


def _storage(amounts: object) -> int:
    quantity = amounts.get("storage", 0) if isinstance(amounts, dict) else 0
    return quantity_value(quantity)
