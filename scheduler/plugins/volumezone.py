"""VolumeZone: zone and region labels of the volumes a pod's claims are bound to (plugins/volumezone)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import ActionType
from scheduler.helpers.csimigration import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_DELIMITER
from scheduler.helpers.volumes import (
    CLAIM,
    CLAIM_CONCERN,
    CLASS,
    VOLUME,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_not_found,
    class_not_found,
    uses_claim,
    volume_not_found,
)
from scheduler.kube.model import PersistentVolume, PersistentVolumeClaim, StorageClass

REASON = "node(s) had no available volume zone"
_KEYS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_STABLE_KEYS = {BETA_ZONE: ZONE, BETA_REGION: REGION}


class _Topology(NamedTuple):
    key: str
    values: frozenset[str]


class _RejectionError(Exception):
    """Carries the status that ends PreFilter."""

    def __init__(self, status: fw.Status) -> None:
        super().__init__(status.message)
        self.status = status


class VolumeZone(fw.PreFilterPlugin, fw.FilterPlugin, fw.EnqueueExtensions, fw.FilterRule):
    """Filter over zone and region labels."""

    name = "VolumeZone"

    def __init__(self, args: object, context: fw.PluginContext) -> None:
        pass

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Collect the zones and regions of the volumes; Skip without any."""
        if not pod.spec.volumes:
            return None, fw.SKIP
        state.work.charge(len(pod.spec.volumes) * (20 + len(view.rows) // 50), "volumes of the pod x nodes")
        try:
            topologies = _topologies_of(pod, view.objects)
        except _RejectionError as rejected:
            return None, rejected.status
        if not topologies:
            return None, fw.SKIP
        state.write(self.name, topologies)
        return None, fw.SUCCESS

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes of other zones; a node without any of the labels passes."""
        topologies = state.read(self.name, tuple)
        if not topologies:
            return None
        zoned = np.zeros(len(rows), dtype=np.bool_)
        for key in _KEYS:
            zoned |= fw.gather_codes(view, view.labels(key).codes, rows) >= 0
        mismatch = np.zeros(len(rows), dtype=np.bool_)
        for topology in topologies:
            mismatch |= ~_matches(view, rows, topology)
        return fw.reject(zoned & mismatch, fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, REASON)

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Pods without volumes pass."""
        return fw.Reads.ANYTHING if spec.volumes else fw.Reads.NOTHING

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register classes that bind later, nodes that are added or relabelled, the pod's claims, and volumes."""
        changes = ActionType.ADD | ActionType.UPDATE
        return (
            fw.HintRegistration(CLASS, ActionType.ADD, _class_added),
            fw.HintRegistration(fw.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            fw.HintRegistration(CLAIM, changes, _claim_changed, CLAIM_CONCERN),
            fw.HintRegistration(VOLUME, changes, _volume_changed),
        )


def _topologies_of(pod: fw.PodInfo, objects: fw.Objects) -> tuple[_Topology, ...]:
    topologies: list[_Topology] = []
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is None:
            continue
        name = volume.persistent_volume_claim.claim_name
        if not name:
            raise _RejectionError(fw.unresolvable("PersistentVolumeClaim had no name"))
        claim: PersistentVolumeClaim | None = objects.get(CLAIM, pod.namespace, name)
        if claim is None:
            raise _RejectionError(fw.unresolvable(claim_not_found(name)))
        if not claim.spec.volume_name:
            _require_later_binding(claim, objects)
            continue
        bound: PersistentVolume | None = objects.get(VOLUME, "", claim.spec.volume_name)
        if bound is None:
            raise _RejectionError(fw.unresolvable(volume_not_found(claim.spec.volume_name)))
        topologies += _volume_topologies(bound)
    return tuple(topologies)


def _require_later_binding(claim: PersistentVolumeClaim, objects: fw.Objects) -> None:
    name = claim_class(claim)
    if not name:
        raise _RejectionError(fw.unresolvable("PersistentVolumeClaim had no pv name and storageClass name"))
    storage_class: StorageClass | None = objects.get(CLASS, "", name)
    if storage_class is None:
        raise _RejectionError(fw.unresolvable(class_not_found(name)))
    if storage_class.volume_binding_mode is None:
        raise _RejectionError(fw.unresolvable(f'VolumeBindingMode not set for StorageClass "{name}"'))
    if storage_class.volume_binding_mode != WAIT_FOR_FIRST_CONSUMER:
        raise _RejectionError(fw.unresolvable("PersistentVolume had no name"))


def _volume_topologies(volume: PersistentVolume) -> list[_Topology]:
    labels = volume.metadata.labels
    topologies = []
    for key in _KEYS:
        values = frozenset(value.strip() for value in labels[key].split(ZONE_DELIMITER)) if key in labels else None
        # A label with an empty part cannot be read; upstream ignores it.
        if values and "" not in values:
            topologies.append(_Topology(key, values))
    return topologies


def _matches(view: fw.NodeView, rows: fw.RowArray, topology: _Topology) -> fw.BoolArray:
    mask = _has_value(view, rows, topology.key, topology.values)
    stable = _STABLE_KEYS.get(topology.key)
    if stable is not None:
        absent = fw.gather_codes(view, view.labels(topology.key).codes, rows) < 0
        mask |= absent & _has_value(view, rows, stable, topology.values)
    return mask


def _has_value(view: fw.NodeView, rows: fw.RowArray, key: str, values: frozenset[str]) -> fw.BoolArray:
    column = view.labels(key)
    wanted = [column.index[value] for value in values if value in column.index]
    mask: fw.BoolArray = np.isin(fw.gather_codes(view, column.codes, rows), wanted)
    return mask


def _class_added(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    if not isinstance(new, StorageClass):
        return fw.Hint.QUEUE
    return fw.Hint.QUEUE if new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else fw.Hint.SKIP


def _claim_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    if not isinstance(new, PersistentVolumeClaim):
        return fw.Hint.QUEUE
    return fw.Hint.QUEUE if uses_claim(pod, new, ephemeral=False) else fw.Hint.SKIP


def _volume_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    if not isinstance(old, PersistentVolume) or not isinstance(new, PersistentVolume):
        return fw.Hint.QUEUE
    return fw.Hint.QUEUE if _volume_topologies(old) != _volume_topologies(new) else fw.Hint.SKIP
