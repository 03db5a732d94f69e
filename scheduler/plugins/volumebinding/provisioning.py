"""On which nodes a volume can be made for a claim: the class's provisioner, its topologies, and free capacity."""

from decimal import Decimal

import numpy as np

from scheduler.framework import BoolArray, IntArray, NodeView, RowArray
from scheduler.helpers import labels_mask
from scheduler.helpers.volumes import CLASS, CSI_CAPACITY, CSI_DRIVER, NO_PROVISIONER, claim_class
from scheduler.kube.model import (
    CSIDriver,
    CSIStorageCapacity,
    LabelSelector,
    LabelSelectorRequirement,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
    compiled_selector,
)
from scheduler.kube.primitives import QuantityError, SelectorError, exact_quantity, quantity_value


def provisionable(
    view: NodeView, rows: RowArray, claim: PersistentVolumeClaim, unreachable: int, no_space: int
) -> IntArray:
    """Return the reason against each row, or 0 (checkVolumeProvisions).

    Args:
        view: the nodes and objects.
        rows: the nodes.
        claim: a claim for which a volume has to be provisioned.
        unreachable: the reason where the class has no provisioner or does not allow the node's topology.
        no_space: the reason where the driver reports too little capacity.

    Raises:
        ValueError: the claim has no class, or the class is gone.
    """
    name = claim_class(claim)
    if not name:
        raise ValueError(f'no class for claim "{claim.metadata.key}"')
    storage_class: StorageClass | None = view.objects.get(CLASS, "", name)
    if storage_class is None:
        raise ValueError(f'failed to find storage class "{name}"')
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return np.full(len(rows), unreachable, dtype=np.int64)
    reasons = np.zeros(len(rows), dtype=np.int64)
    if storage_class.allowed_topologies:
        reasons[~_allowed(view, rows, storage_class.allowed_topologies)] = unreachable
    room = _has_room(view, rows, claim, storage_class)
    if room is not None:
        reasons[(reasons == 0) & ~room] = no_space
    return reasons


def _allowed(view: NodeView, rows: RowArray, terms: tuple[TopologySelectorTerm, ...]) -> BoolArray:
    allowed = np.zeros(len(rows), dtype=np.bool_)
    for term in terms:
        if not term.match_label_expressions:
            continue
        requirements = [LabelSelectorRequirement(each.key, "In", each.values) for each in term.match_label_expressions]
        allowed |= _selected(view, rows, LabelSelector(match_expressions=tuple(requirements)))
    return allowed


def _has_room(
    view: NodeView, rows: RowArray, claim: PersistentVolumeClaim, storage_class: StorageClass
) -> BoolArray | None:
    """Return where the driver reports enough room; None when it reports none at all (hasEnoughCapacity)."""
    if "storage" not in claim.spec.resources.requests:
        return None
    driver: CSIDriver | None = view.objects.get(CSI_DRIVER, "", storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return None
    wanted = exact_quantity(claim.spec.resources.requests["storage"])
    room = np.zeros(len(rows), dtype=np.bool_)
    capacity: CSIStorageCapacity
    for capacity in view.objects.every(CSI_CAPACITY):
        limit = volume_limit(capacity)
        if capacity.storage_class_name == storage_class.metadata.name and limit is not None and limit >= wanted:
            room |= _selected(view, rows, capacity.node_topology)
    return room


def free_capacity(view: NodeView, rows: RowArray, claim: PersistentVolumeClaim) -> IntArray | None:
    """Return the capacity that the driver reports where it has room for a claim, -1 where it has none; None when it
    reports none at all.

    Where several reports fit a node, the first by name counts; upstream takes any of them.
    """
    storage_class: StorageClass | None = view.objects.get(CLASS, "", claim_class(claim) or "")
    if storage_class is None or "storage" not in claim.spec.resources.requests:
        return None
    driver: CSIDriver | None = view.objects.get(CSI_DRIVER, "", storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return None
    wanted = exact_quantity(claim.spec.resources.requests["storage"])
    free = np.full(len(rows), -1, dtype=np.int64)
    reports: list[CSIStorageCapacity] = [
        capacity
        for capacity in view.objects.every(CSI_CAPACITY)
        if capacity.storage_class_name == storage_class.metadata.name
        and (limit := volume_limit(capacity)) is not None
        and limit >= wanted
    ]
    for report in sorted(reports, key=lambda each: each.metadata.key):
        # Without a capacity beside the limit upstream's scheduler crashes: it counts as none here.
        amount = quantity_value(report.capacity) if report.capacity is not None else 0
        free = np.where((free < 0) & _selected(view, rows, report.node_topology), amount, free)
    return free


def volume_limit(capacity: CSIStorageCapacity) -> Decimal | None:
    """Return how large one more volume can be; None when the driver does not say, or not in a readable way."""
    limit = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
    try:
        return None if limit is None else exact_quantity(limit)
    except QuantityError:
        return None


def _selected(view: NodeView, rows: RowArray, selector: LabelSelector | None) -> BoolArray:
    """Return which rows a selector selects; none where it cannot be read."""
    try:
        mask = labels_mask(view, rows, compiled_selector(selector))
    except SelectorError:
        return np.zeros(len(rows), dtype=np.bool_)
    return np.ones(len(rows), dtype=np.bool_) if mask is None else mask
