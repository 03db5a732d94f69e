"""On which nodes a pod's claims can be served, and by what: the binder's FindPodVolumes for many nodes at once.

A volume's reach (node affinity) is a mask over nodes, computed once per volume; everything else about a claim and a
volume is the same for all nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from scheduler.framework import BoolArray, IntArray, NodeView, RowArray
from scheduler.helpers.csimigration import handle_of, migrated_plugins, migration_of, source_of, translated_affinity
from scheduler.helpers.volumes import (
    CSI_NODE,
    SELECTED_NODE,
    VOLUME,
    Size,
    claim_class,
    claim_index_key,
    class_index_key,
    is_bound_to,
    size_of,
    volume_class,
    volume_index_key,
    volume_modes_match,
)
from scheduler.kube.model import PersistentVolume, PersistentVolumeClaim
from scheduler.kube.primitives.selectors import Selector, SelectorError, label_selector
from scheduler.plugins.volumebinding.claims import PodClaims
from scheduler.plugins.volumebinding.provisioning import provisionable
from scheduler.plugins.volumebinding.reach import Reach

REASONS = (
    "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't find available persistent volumes to bind",
    "node(s) did not have enough free storage",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
)
NODE_CONFLICT, BIND_CONFLICT, NO_SPACE, NO_VOLUME = (1 << bit for bit in range(len(REASONS)))


@dataclass(slots=True)
class Match:
    """One claim's volume per row: `chosen` indexes `volumes`, -1 for none."""

    claim: PersistentVolumeClaim
    volumes: list[PersistentVolume]
    chosen: IntArray


@dataclass(slots=True)
class Findings:
    """What was found for some rows.

    Attributes:
        bits: reasons against each row, as bits over `REASONS`; 0 where all claims can be served.
        matches: existing volumes for claims.
        provisions: claims for which a volume has to be made, with the rows where it has.
    """

    bits: IntArray
    matches: list[Match] = field(default_factory=list)
    provisions: list[tuple[PersistentVolumeClaim, BoolArray]] = field(default_factory=list)


def find(view: NodeView, rows: RowArray, claims: PodClaims) -> Findings:
    """Look for volumes on every row.

    Raises:
        ValueError: a class or volume is such that no answer can be given; the pod is retried then.
    """
    findings = Findings(np.zeros(len(rows), dtype=np.int64))
    if claims.bound:
        findings.bits |= _check_bound(view, rows, claims.bound)
    if claims.delayed:
        _serve_delayed(view, rows, claims.delayed, findings)
    return findings


def _check_bound(view: NodeView, rows: RowArray, claims: Sequence[PersistentVolumeClaim]) -> IntArray:
    """The first claim in the pod's order that fails on a row gives its reason (checkBoundClaims)."""
    bits = np.zeros(len(rows), dtype=np.int64)
    for claim in claims:
        volume: PersistentVolume | None = view.objects.latest(VOLUME, "", claim.spec.volume_name)
        if volume is None:
            bits[bits == 0] = NO_VOLUME
            break
        reach = _bound_reach(view, rows, volume)
        if reach is not None:
            bits[(bits == 0) & ~reach] = NODE_CONFLICT
    return bits


def _bound_reach(view: NodeView, rows: RowArray, volume: PersistentVolume) -> BoolArray | None:
    """Return where a bound volume can be used; on nodes that migrated its plugin, as the CSI volume it became."""
    reach = Reach(view, rows)
    within = reach.of(volume)
    source = source_of(volume)
    if source is None or not migration_of(source).enabled:
        return None if within is None else _mask(within, len(rows))
    migration = migration_of(source)
    nodes = (view.objects.get(CSI_NODE, "", view.name(row)) for row in rows.tolist())
    migrated = np.array([migration.plugin in migrated_plugins(node) for node in nodes], dtype=np.bool_)
    if not migrated.any():
        return None if within is None else _mask(within, len(rows))
    handle_of(volume, source)
    translated = reach.selected(translated_affinity(volume, migration))
    return np.where(migrated, _mask(translated, len(rows)), _mask(within, len(rows)))


def _serve_delayed(
    view: NodeView,
    rows: RowArray,
    claims: Sequence[PersistentVolumeClaim],
    findings: Findings,
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
    findings.bits[~provisionable_rows] |= BIND_CONFLICT
    taken_rows: dict[str, RowArray] = {}
    reach = Reach(view, rows)
    # Smallest first, so that a small claim does not take the volume a large one needs.
    for claim in sorted(to_match, key=lambda claim: size_of(claim.spec.resources.requests) or (0, 0)):
        match = _match(view, len(rows), claim, reach, taken_rows)
        findings.matches.append(match)
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
        findings.bits[failed] |= reasons[failed]
        # Upstream stops at the first claim that cannot be provisioned on a node.
        open_rows &= ~failed
        findings.provisions.append((claim, wanted & ~failed))


def _match(
    view: NodeView, count: int, claim: PersistentVolumeClaim, reach: Reach, taken_rows: dict[str, RowArray]
) -> Match:
    """Choose the smallest volume that suits the claim on each row (FindMatchingVolume); note it as taken."""
    match = Match(claim, [], np.full(count, -1, dtype=np.int64))
    meta, storage_class = claim.metadata, claim_class(claim)
    wanted = size_of(claim.spec.resources.requests)
    if wanted is None:
        return match
    volume: PersistentVolume
    for volume in view.objects.latest_by(VOLUME, volume_index_key, claim_index_key(meta.namespace, meta.name)):
        if is_bound_to(volume, claim) and volume_class(volume) == storage_class and _suits(claim, wanted, volume):
            # Pre-bound: this one or none.
            _choose(match, volume, reach, taken_rows)
            return match
    selector = _selector(claim)
    free = [
        (size_of(volume.spec.capacity) or wanted, volume)
        for volume in view.objects.latest_by(VOLUME, volume_index_key, class_index_key(storage_class))
        if _is_free(claim, volume, selector) and _suits(claim, wanted, volume)
    ]
    left = count
    for _, volume in sorted(free, key=itemgetter(0)):
        left -= _choose(match, volume, reach, taken_rows)
        if not left:
            break
    return match


def _choose(match: Match, volume: PersistentVolume, reach: Reach, taken_rows: dict[str, RowArray]) -> int:
    """Give the volume to the rows that have none yet and can reach it; returns how many."""
    within = reach.of(volume)
    rows = np.flatnonzero(match.chosen < 0) if within is None else within[match.chosen[within] < 0]
    others = taken_rows.get(volume.metadata.name)
    if others is not None:
        rows = rows[~np.isin(rows, others)]
    if len(rows):
        match.chosen[rows] = len(match.volumes)
        match.volumes.append(volume)
        taken_rows[volume.metadata.name] = rows if others is None else np.concatenate((others, rows))
    return len(rows)


def _suits(claim: PersistentVolumeClaim, wanted: Size, volume: PersistentVolume) -> bool:
    capacity = size_of(volume.spec.capacity)
    if capacity is None or capacity < wanted or not volume_modes_match(claim.spec, volume):
        return False
    attributes = volume.spec.volume_attributes_class_name or ""
    return (claim.spec.volume_attributes_class_name or "") == attributes and volume.metadata.deletion_timestamp is None


def _is_free(claim: PersistentVolumeClaim, volume: PersistentVolume, selector: Selector | None) -> bool:
    return (
        volume.status.phase == "Available"
        and (selector is None or selector.matches(volume.metadata.labels))
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    )


def _selector(claim: PersistentVolumeClaim) -> Selector | None:
    if claim.spec.selector is None:
        return None
    try:
        return label_selector(claim.spec.selector)
    except SelectorError as error:
        raise ValueError(f"error creating internal label selector for claim: {claim.metadata.key}: {error}") from error


def _mask(within: RowArray | None, count: int) -> BoolArray:
    mask = np.full(count, within is None, dtype=np.bool_)
    if within is not None:
        mask[within] = True
    return mask
