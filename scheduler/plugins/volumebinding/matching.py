"""On which nodes a pod's claims can be served, and by what: the binder's FindPodVolumes for many nodes at once.

A volume's node affinity is evaluated once per volume, over all nodes; everything else about a claim and a volume is the
same for all nodes.
"""

from collections.abc import Sequence
from decimal import Decimal
from operator import itemgetter

import numpy as np
from msgspec import Struct, field

from scheduler.framework import BoolArray, IntArray, NodeView, RowArray, gather_codes
from scheduler.helpers import labels_mask, selector_mask
from scheduler.helpers.csimigration import handle_of, migrated_plugins, migration_of, source_of, translated_affinity
from scheduler.helpers.volumes import (
    CLASS,
    CSI_CAPACITY,
    CSI_DRIVER,
    CSI_NODE,
    NO_PROVISIONER,
    SELECTED_NODE,
    VOLUME,
    claim_class,
    claim_index_key,
    class_index_key,
    is_bound_to,
    size_of,
    volume_affinity,
    volume_class,
    volume_index_key,
    volume_modes_match,
)
from scheduler.kube.model import (
    CSIDriver,
    CSIStorageCapacity,
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
    compiled_selector,
)
from scheduler.kube.primitives import QuantityError, Selector, SelectorError, exact_quantity, quantity_value
from scheduler.plugins.volumebinding.claims import PodClaims


# On which nodes a volume can be made for a claim: the class's provisioner, its topologies, and free capacity.
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


REASONS = (
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
)
_NO_ROWS: RowArray = np.zeros(0, dtype=np.intp)
NODE_CONFLICT, BIND_CONFLICT, NO_SPACE, NO_VOLUME = (1 << bit for bit in range(len(REASONS)))


class ClaimMatch(Struct):
    """One claim's volume per row: `chosen` indexes `volumes`, -1 for none."""

    claim: PersistentVolumeClaim
    volumes: list[PersistentVolume]
    chosen: IntArray


class VolumeMatches(Struct):
    """Which volumes serve the claims on some rows.

    Attributes:
        bits: reasons against each row, as bits over `REASONS`; 0 where all claims can be served.
        static_bindings: existing volumes for claims.
        dynamic_provisions: claims for which a volume has to be made, with the rows where it has.
    """

    bits: IntArray
    static_bindings: list[ClaimMatch] = field(default_factory=list)
    dynamic_provisions: list[tuple[PersistentVolumeClaim, BoolArray]] = field(default_factory=list)


class NodeAffinityRows:
    """The nodes that satisfy a volume's node affinity, as indexes into some rows of a view.

    A cluster of local disks has one volume per node, each bound to one host name. Evaluating every affinity over every
    node would be quadratic, so nodes are grouped by label value once.
    """

    def __init__(self, view: NodeView, rows: RowArray) -> None:
        self._view = view
        self._rows = rows
        self._by_value: dict[str, dict[str, RowArray]] = {}

    def of(self, volume: PersistentVolume) -> RowArray | None:
        """Return the nodes that a volume can be used on; None for all."""
        affinity = volume.spec.node_affinity
        return self.selected(affinity.required if affinity is not None else None)

    def selected(self, source: NodeSelector | None) -> RowArray | None:
        """Return the nodes that satisfy a node affinity; None for all."""
        if source is None:
            return None
        selector = volume_affinity(source)
        if len(selector.terms) == 1 and selector.terms[0].error is None:
            labels = selector.terms[0].labels
            if labels.size == len(labels.required) == 1:
                ((key, values),) = labels.required.items()
                if isinstance(values, frozenset):
                    return self._rows_with_values(key, values)
        return np.flatnonzero(selector_mask(self._view, self._rows, selector))

    def _rows_with_values(self, key: str, values: frozenset[str]) -> RowArray:
        groups = self._by_value.get(key)
        if groups is None:
            groups = self._by_value[key] = self._rows_by_value(key)
        matching = [groups[value] for value in values if value in groups]
        if len(matching) == 1:
            return matching[0]
        return np.concatenate(matching) if matching else _NO_ROWS

    def _rows_by_value(self, key: str) -> dict[str, RowArray]:
        column = self._view.labels(key)
        codes = gather_codes(self._view, column.codes, self._rows)
        order = np.argsort(codes, kind="stable")
        present, starts = np.unique(codes[order], return_index=True)
        groups = np.split(order, starts[1:])
        return {column.values[code]: group for code, group in zip(present.tolist(), groups, strict=True) if code >= 0}


def find_pod_volumes(view: NodeView, rows: RowArray, claims: PodClaims) -> VolumeMatches:
    """Look for volumes on every row.

    Raises:
        ValueError: a class or volume is such that no answer can be given; the pod is retried then.
    """
    matches = VolumeMatches(np.zeros(len(rows), dtype=np.int64))
    if claims.bound:
        matches.bits |= _check_bound(view, rows, claims.bound)
    if claims.delayed:
        _match_delayed(view, rows, claims.delayed, matches)
    return matches


def _check_bound(view: NodeView, rows: RowArray, claims: Sequence[PersistentVolumeClaim]) -> IntArray:
    """Return the reason of the first claim, in the pod's order, that fails on each row (checkBoundClaims)."""
    bits = np.zeros(len(rows), dtype=np.int64)
    for claim in claims:
        volume: PersistentVolume | None = view.objects.latest(VOLUME, "", claim.spec.volume_name)
        if volume is None:
            bits[bits == 0] = NO_VOLUME
            break
        mask = _bound_volume_mask(view, rows, volume)
        if mask is not None:
            bits[(bits == 0) & ~mask] = NODE_CONFLICT
    return bits


def _bound_volume_mask(view: NodeView, rows: RowArray, volume: PersistentVolume) -> BoolArray | None:
    """Return where a bound volume can be used; on nodes that migrated its plugin, as the CSI volume it became."""
    affinity_rows = NodeAffinityRows(view, rows)
    within = affinity_rows.of(volume)
    source = source_of(volume)
    if source is None or not migration_of(source).enabled:
        return None if within is None else _mask(within, len(rows))
    migration = migration_of(source)
    nodes = (view.objects.get(CSI_NODE, "", view.name(row)) for row in rows.tolist())
    migrated = np.array([migration.plugin in migrated_plugins(node) for node in nodes], dtype=np.bool_)
    if not migrated.any():
        return None if within is None else _mask(within, len(rows))
    handle_of(volume, source)
    translated = affinity_rows.selected(translated_affinity(volume, migration))
    return np.where(migrated, _mask(translated, len(rows)), _mask(within, len(rows)))


def _match_delayed(
    view: NodeView,
    rows: RowArray,
    claims: Sequence[PersistentVolumeClaim],
    matches: VolumeMatches,
) -> None:
    provisionable_rows = np.ones(len(rows), dtype=np.bool_)
    to_provision: list[tuple[PersistentVolumeClaim, BoolArray]] = []
    to_match: list[PersistentVolumeClaim] = []
    for claim in claims:
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        if selected is None:
            to_match.append(claim)
            continue
        provisionable_rows &= rows == view.row(selected)
        to_provision.append((claim, provisionable_rows))
    matches.bits[~provisionable_rows] |= BIND_CONFLICT
    taken_rows: dict[str, RowArray] = {}
    affinity_rows = NodeAffinityRows(view, rows)
    # Smallest first, so that a small claim does not get the volume that a large one needs.
    for claim in sorted(to_match, key=lambda claim: size_of(claim.spec.resources.requests) or 0):
        match = _match_claim(view, len(rows), claim, affinity_rows, taken_rows)
        matches.static_bindings.append(match)
        missing = match.chosen < 0
        if missing.any():
            to_provision.append((claim, missing))
    open_rows = provisionable_rows.copy()
    for claim, unserved in to_provision:
        wanted = unserved & open_rows
        if not wanted.any():
            continue
        reasons = provisionable(view, rows, claim, BIND_CONFLICT, NO_SPACE)
        failed = wanted & (reasons != 0)
        matches.bits[failed] |= reasons[failed]
        # Upstream stops at the first claim that cannot be provisioned on a node.
        open_rows &= ~failed
        matches.dynamic_provisions.append((claim, wanted & ~failed))


def _match_claim(
    view: NodeView,
    count: int,
    claim: PersistentVolumeClaim,
    affinity_rows: NodeAffinityRows,
    taken_rows: dict[str, RowArray],
) -> ClaimMatch:
    """Choose the smallest suitable volume for the claim on each row (FindMatchingVolume).

    Args:
        view: the nodes and objects.
        count: how many rows there are.
        claim: the claim.
        affinity_rows: evaluates node affinities of volumes over the rows.
        taken_rows: by volume, the rows on which an earlier claim of the pod uses it; updated.
    """
    match = ClaimMatch(claim, [], np.full(count, -1, dtype=np.int64))
    meta, storage_class = claim.metadata, claim_class(claim)
    wanted = size_of(claim.spec.resources.requests)
    if wanted is None:
        return match
    volume: PersistentVolume
    for volume in view.objects.latest_by(VOLUME, volume_index_key, claim_index_key(meta.namespace, meta.name)):
        if is_bound_to(volume, claim) and volume_class(volume) == storage_class and _is_suitable(claim, wanted, volume):
            # Pre-bound: this one or none.
            _choose_rows(match, volume, affinity_rows, taken_rows)
            return match
    selector = _selector(claim)
    free = [
        (size_of(volume.spec.capacity) or wanted, volume)
        for volume in view.objects.latest_by(VOLUME, volume_index_key, class_index_key(storage_class))
        if _is_suitable(claim, wanted, volume) and _is_free(claim, volume, selector)
    ]
    left = count
    for _, volume in sorted(free, key=itemgetter(0)):
        left -= _choose_rows(match, volume, affinity_rows, taken_rows)
        if not left:
            break
    return match


def _choose_rows(
    match: ClaimMatch, volume: PersistentVolume, affinity_rows: NodeAffinityRows, taken_rows: dict[str, RowArray]
) -> int:
    """Give the volume to the rows that have none yet and satisfy its node affinity; returns how many."""
    within = affinity_rows.of(volume)
    rows = np.flatnonzero(match.chosen < 0) if within is None else within[match.chosen[within] < 0]
    others = taken_rows.get(volume.metadata.name)
    if others is not None:
        rows = rows[~np.isin(rows, others)]
    if len(rows):
        match.chosen[rows] = len(match.volumes)
        match.volumes.append(volume)
        taken_rows[volume.metadata.name] = rows if others is None else np.concatenate((others, rows))
    return len(rows)


def _is_suitable(claim: PersistentVolumeClaim, wanted: Decimal, volume: PersistentVolume) -> bool:
    capacity = size_of(volume.spec.capacity)
    if capacity is None or capacity < wanted or not volume_modes_match(claim.spec, volume):
        return False
    attributes = volume.spec.volume_attributes_class_name or ""
    return (claim.spec.volume_attributes_class_name or "") == attributes and volume.metadata.deletion_timestamp is None


def _is_free(claim: PersistentVolumeClaim, volume: PersistentVolume, selector: Selector | None) -> bool:
    return (
        volume.status.phase == "Available"
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and (selector is None or selector.matches(volume.metadata.labels))
    )


def _selector(claim: PersistentVolumeClaim) -> Selector | None:
    if claim.spec.selector is None:
        return None
    try:
        return compiled_selector(claim.spec.selector)
    except SelectorError as error:
        raise ValueError(f"error creating internal label selector for claim: {claim.metadata.key}: {error}") from error


def _mask(within: RowArray | None, count: int) -> BoolArray:
    mask = np.full(count, within is None, dtype=np.bool_)
    if within is not None:
        mask[within] = True
    return mask
