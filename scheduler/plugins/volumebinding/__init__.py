"""VolumeBinding: nodes that a pod's volumes can be used on, and the binding of claims once a node is chosen
(pkg/scheduler/framework/plugins/volumebinding)."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from scheduler import framework as fw
from scheduler.catalog import ActionType, VolumeBindingArgs
from scheduler.helpers import interpolate, round_half_away
from scheduler.helpers.csimigration import MIGRATED_PLUGINS
from scheduler.helpers.volumes import (
    CLAIM,
    CLAIM_CONCERN,
    CLASS,
    CSI_CAPACITY,
    CSI_DRIVER,
    CSI_NODE,
    VOLUME,
    claim_class,
    claims_of,
    uses_claim,
    volume_class,
)
from scheduler.kube.model import CSIDriver, CSINode, CSIStorageCapacity, PersistentVolumeClaim, StorageClass
from scheduler.kube.primitives import quantity_value
from scheduler.plugins.volumebinding.binding import PodVolumes, assume, bind, revert
from scheduler.plugins.volumebinding.claims import (
    WALKED,
    PodClaims,
    all_bound,
    claim_error,
    pod_claims,
    requirements_of,
    units_of,
)
from scheduler.plugins.volumebinding.matching import (
    REASONS,
    VolumeMatches,
    find_pod_volumes,
    free_capacity,
    volume_limit,
)

# How well the volumes of a pod fit on each node: full volumes first, or empty ones, by the shape
# (plugins/volumebinding/scorer.go and VolumeBinding.Score of 1.37).

Shape = Sequence[tuple[int, int]]
"""Points (percent used, score 0..100)."""


def score_volumes(view: fw.NodeView, rows: fw.RowArray, matches: VolumeMatches, shape: Shape) -> fw.IntArray:
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
        self._requested: dict[str, fw.IntArray] = defaultdict(lambda: np.zeros(count, dtype=np.int64))
        self._capacity: dict[str, fw.IntArray] = defaultdict(lambda: np.zeros(count, dtype=np.int64))
        self._present: dict[str, fw.BoolArray] = defaultdict(lambda: np.zeros(count, dtype=np.bool_))
        self._zero = np.zeros(count, dtype=np.int64)

    @property
    def classes(self) -> fw.IntArray:
        """How many classes each row has volumes of."""
        total = self._zero.copy()
        for present in self._present.values():
            total += present
        return total

    def add(self, name: str, used: fw.BoolArray, wanted: int, capacity: fw.IntArray, *, adds_up: bool = True) -> None:
        """Count a claim on the rows where it is served. The free capacity of a class is one, whoever asks."""
        self._present[name] |= used
        self._requested[name] += wanted * used
        self._capacity[name] = np.where(used, capacity + (self._capacity[name] if adds_up else 0), self._capacity[name])

    def scores(self, shape: Shape) -> fw.IntArray:
        """Return the mean over the classes that a row has, rounded half away from zero."""
        total: fw.FloatArray = np.zeros(len(self._zero))
        for name, present in self._present.items():
            requested, capacity = self._requested[name], self._capacity[name]
            full = (capacity == 0) | (requested > capacity)
            used = np.where(full, 100, requested * 100 // np.maximum(capacity, 1))
            total += np.where(present, interpolate(used.astype(np.float64), shape), 0.0)
        classes = self.classes
        mean: fw.IntArray = round_half_away(total / np.maximum(classes, 1)).astype(np.int64)
        return np.where(classes > 0, mean, 0)


def _wanted(claim: PersistentVolumeClaim) -> int:
    return _storage(claim.spec.resources.requests)


def _storage(amounts: object) -> int:
    quantity = amounts.get("storage", 0) if isinstance(amounts, dict) else 0
    return quantity_value(quantity)


_NO_ROWS: fw.RowArray = np.zeros(0, dtype=np.intp)
UNBOUND_IMMEDIATE = "pod has unbound immediate PersistentVolumeClaims"


class _StateData(Struct):
    """What an attempt knows: the pod's claims, the cluster it looks at, what it found last, and, once reserved, what
    is to be bound."""

    claims: PodClaims
    view: fw.NodeView
    rows: fw.RowArray
    matches: VolumeMatches
    volumes: PodVolumes | None = None

    def charge(self, state: fw.CycleState) -> None:
        """Account for a look at all volumes and capacities that may serve the claims."""
        state.work.charge(units_of(self.view, self.claims), WALKED)

    def find_pod_volumes(self, rows: fw.RowArray) -> VolumeMatches:
        self.rows, self.matches = rows, find_pod_volumes(self.view, rows, self.claims)
        return self.matches

    def matches_of(self, rows: fw.RowArray) -> VolumeMatches:
        """Return what serves the claims on these rows."""
        return self.matches if np.array_equal(self.rows, rows) else find_pod_volumes(self.view, rows, self.claims)

    def volumes_for_row(self, row: int) -> PodVolumes:
        """Return what serves the claims on one node: as found while filtering, which took longest."""
        at = np.flatnonzero(self.rows == row)
        if not len(at):
            at = np.zeros(1, dtype=np.intp)
            self.find_pod_volumes(np.array([row], dtype=np.intp))
        index, matches = int(at[0]), self.matches
        return PodVolumes(
            [
                (match.volumes[chosen], match.claim)
                for match in matches.static_bindings
                if (chosen := int(match.chosen[index])) >= 0
            ],
            [claim for claim, wanted in matches.dynamic_provisions if wanted[index]],
        )


class VolumeBinding(
    fw.PreFilterPlugin,
    fw.FilterPlugin,
    fw.PreScorePlugin,
    fw.ScorePlugin,
    fw.ReservePlugin,
    fw.PreBindPlugin,
    fw.PreBindPreFlight,
    fw.EnqueueExtensions,
    fw.FilterRule,
    fw.ScoreRule,
):
    """Filter over volumes and classes; reserves volumes and binds them before the pod."""

    name = "VolumeBinding"

    def __init__(self, args: VolumeBindingArgs, context: fw.PluginContext) -> None:
        self._timeout = float(args.bind_timeout_seconds)
        # 0..10 in the args.
        self._shape = [(point.utilization, point.score * 10) for point in args.shape or ()]
        self._handle = context.handle

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Skip pods without claims; reject those whose claims cannot be used as they are."""
        if not pod.spec.volumes or next(claims_of(pod), None) is None:
            return None, fw.SKIP
        state.work.charge(len(pod.spec.volumes) * (5 + len(view.rows) // 100), "volumes of the pod x nodes")
        problem = claim_error(pod, view.objects)
        if problem:
            return None, fw.unresolvable(problem)
        claims = pod_claims(pod, view.objects)
        if claims.immediate:
            return None, fw.unresolvable(UNBOUND_IMMEDIATE)
        state.work.charge(requirements_of(claims), "requirements of the selectors of claims")
        state.write(self.name, _StateData(claims, view, _NO_ROWS, VolumeMatches(np.zeros(0, dtype=np.int64))))
        return None, fw.SUCCESS

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes that a bound volume cannot reach, or on which a claim can be served by no volume."""
        attempt = state.read(self.name, _StateData)
        if attempt is None:
            return None
        attempt.charge(state)
        bits = attempt.find_pod_volumes(rows).bits
        if not bits.any():
            return None
        codes = np.where(bits != 0, fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 0).astype(np.int8)
        return fw.Verdicts(codes, bits, REASONS)

    def pre_score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Status:
        """Skip where nothing is scored: without a shape, which versions before 1.37 do not have, or without claims."""
        return fw.SUCCESS if self._shape and state.read(self.name, _StateData) is not None else fw.SKIP

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray | None:
        """Score how much of the volumes' capacity would be used."""
        attempt = state.read(self.name, _StateData)
        if attempt is None:
            return None
        attempt.charge(state)
        return score_volumes(view, rows, attempt.matches_of(rows), self._shape)

    def reserve(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> fw.Status:
        """Take the volumes that serve the claims on the node, so that the next pod does not count on them."""
        attempt = state.read(self.name, _StateData)
        if attempt is None or all_bound(pod, attempt.view.objects):
            return fw.SUCCESS
        volumes = attempt.volumes_for_row(attempt.view.row(node))
        try:
            attempt.volumes = assume(attempt.view.objects, volumes, node)
        except ValueError as error:
            return fw.failure(str(error))
        return fw.SUCCESS

    def unreserve(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> None:
        """Show volumes and claims again as the API server has them."""
        attempt = state.read(self.name, _StateData)
        if attempt is not None and attempt.volumes is not None:
            revert(attempt.view.objects, attempt.volumes)
            attempt.volumes = None

    def pre_bind_pre_flight(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> bool:
        """Tell whether there is something to bind."""
        attempt = state.read(self.name, _StateData)
        return attempt is not None and attempt.volumes is not None

    async def pre_bind(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> fw.Status:
        """Write what was reserved and wait until the volume controller has bound all of it."""
        attempt = state.read(self.name, _StateData)
        if attempt is None or attempt.volumes is None:
            return fw.SUCCESS
        if self._handle is None:
            return fw.failure("volumes cannot be bound here: there is no API server")
        return await bind(self._handle, attempt.view.objects, attempt.volumes, pod, node, self._timeout)

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Pods without volumes pass."""
        return fw.Reads.ANYTHING if spec.volumes else fw.Reads.NOTHING

    def score_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Pods without volumes find all nodes equally good; without a shape, all do."""
        return fw.Reads.ANYTHING if spec.volumes and self._shape else fw.Reads.NOTHING

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register everything that can make a volume usable, or a class able to provision one."""
        changes = ActionType.ADD | ActionType.UPDATE
        return (
            fw.HintRegistration(CLASS, changes, _class_changed),
            fw.HintRegistration(CLAIM, changes, _claim_changed, CLAIM_CONCERN),
            fw.HintRegistration(VOLUME, changes),
            fw.HintRegistration(fw.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            fw.HintRegistration(CSI_NODE, changes, _csi_node_changed),
            fw.HintRegistration(CSI_DRIVER, ActionType.UPDATE, _driver_changed),
            fw.HintRegistration(CSI_CAPACITY, changes, _capacity_changed),
        )


def _queue_if(is_relevant: bool) -> fw.Hint:
    return fw.Hint.QUEUE if is_relevant else fw.Hint.SKIP


def _class_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    """Queue for a new class, and for other allowed topologies; the binding mode never changes."""
    if not isinstance(old, StorageClass) or not isinstance(new, StorageClass):
        return fw.Hint.QUEUE
    return _queue_if(old.allowed_topologies != new.allowed_topologies)


def _claim_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    """Queue for the pod's own claims."""
    return _queue_if(not isinstance(new, PersistentVolumeClaim) or uses_claim(pod, new))


def _csi_node_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    """Queue for a new one, and when other plugins are migrated."""
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return fw.Hint.QUEUE
    before, after = old.metadata.annotations.get(MIGRATED_PLUGINS), new.metadata.annotations.get(MIGRATED_PLUGINS)
    return _queue_if((before or "") != (after or ""))


def _driver_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    """Queue when a driver of the pod's inline volumes no longer tracks capacity."""
    if not isinstance(old, CSIDriver) or not isinstance(new, CSIDriver):
        return fw.Hint.QUEUE
    if not old.spec.storage_capacity or new.spec.storage_capacity:
        return fw.Hint.SKIP
    used = any(volume.csi is not None and volume.csi.driver == new.metadata.name for volume in pod.spec.volumes)
    return _queue_if(used)


def _capacity_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    """Queue for a new one, and when larger volumes fit than before."""
    if not isinstance(old, CSIStorageCapacity) or not isinstance(new, CSIStorageCapacity):
        return fw.Hint.QUEUE
    before, after = volume_limit(old), volume_limit(new)
    return _queue_if(after is not None and (before is None or after > before))
