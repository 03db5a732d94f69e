"""On which nodes a pod's claims can be served, and by what: the binder's FindPodVolumes for many nodes at once.

A volume's reach (node affinity) is a mask over nodes, computed once per volume; everything else about a claim and a
volume is the same for all nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.framework import BoolArray, CodeArray, IntArray, NodeView, RowArray
from scheduler.helpers import selector_mask
from scheduler.helpers.csimigration import handle_of, migrated_plugins, migration_of, source_of, translated_affinity
from scheduler.helpers.volumes import (
    CSI_NODE,
    SELECTED_NODE,
    VOLUME,
    bound_to,
    claim_class,
    same_mode,
    size_of,
    volume_affinity,
    volume_class,
)
from scheduler.plugins.volumebinding.candidates import VolumesByClass
from scheduler.plugins.volumebinding.claims import PodClaims
from scheduler.plugins.volumebinding.provisioning import provisionable
from secondary_scheduler.kube.model import NodeSelector, PersistentVolume, PersistentVolumeClaim
from secondary_scheduler.kube.primitives.selectors import Selector, SelectorError, label_selector

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


def find(view: NodeView, rows: RowArray, claims: PodClaims, by_class: VolumesByClass) -> Findings:
    """Look for volumes on every row.

    Raises:
        ValueError: a class or volume is such that no answer can be given; the pod is retried then.
    """
    findings = Findings(np.zeros(len(rows), dtype=np.int64))
    if claims.bound:
        findings.bits |= _check_bound(view, rows, claims.bound)
    if claims.delayed:
        _serve_delayed(view, rows, claims.delayed, by_class, findings)
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
    reach = _reach(view, rows, volume)
    source = source_of(volume)
    if source is None or not migration_of(source).switched_on:
        return reach
    migration = migration_of(source)
    nodes = (view.objects.get(CSI_NODE, "", view.name(row)) for row in rows.tolist())
    migrated = np.array([migration.plugin in migrated_plugins(node) for node in nodes], dtype=np.bool_)
    if not migrated.any():
        return reach
    handle_of(volume, source)
    translated = _selected(view, rows, translated_affinity(volume, migration))
    everywhere = np.ones(len(rows), dtype=np.bool_)
    return np.where(migrated, everywhere if translated is None else translated, everywhere if reach is None else reach)


def _serve_delayed(
    view: NodeView,
    rows: RowArray,
    claims: Sequence[PersistentVolumeClaim],
    by_class: VolumesByClass,
    findings: Findings,
) -> None:
    here = np.ones(len(rows), dtype=np.bool_)
    to_provision: list[tuple[PersistentVolumeClaim, BoolArray]] = []
    to_match: list[PersistentVolumeClaim] = []
    for claim in claims:
        selected = claim.metadata.annotations.get(SELECTED_NODE)
        if selected is None:
            to_match.append(claim)
            continue
        here &= rows == view.row(selected)
        to_provision.append((claim, here))
    findings.bits[~here] |= BIND_CONFLICT
    taken: dict[str, BoolArray] = {}
    # Smallest first, so that a small claim does not take the volume a large one needs.
    for claim in sorted(to_match, key=lambda one: size_of(one.spec.resources.requests) or (0, 0)):
        match = _match(view, rows, claim, by_class.of(view.objects, claim_class(claim)), taken)
        findings.matches.append(match)
        missing = match.chosen < 0
        if missing.any():
            to_provision.append((claim, missing))
    open_rows = here.copy()
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
    view: NodeView,
    rows: RowArray,
    claim: PersistentVolumeClaim,
    volumes: Sequence[PersistentVolume],
    taken: dict[str, BoolArray],
) -> Match:
    """Choose the smallest volume that suits the claim on each row (FindMatchingVolume); note it as taken."""
    match = Match(claim, [], np.full(len(rows), -1, dtype=np.int64))
    suitable = [volume for volume in volumes if _suits(claim, volume)]
    reserved = next((volume for volume in suitable if bound_to(volume, claim)), None)
    if reserved is not None:
        # Pre-bound: this one or none.
        _choose(view, rows, match, reserved, taken)
        return match
    selector = _selector(claim)
    free = [volume for volume in suitable if _is_free(claim, volume, selector)]
    for volume in sorted(free, key=lambda one: size_of(one.spec.capacity) or (0, 0)):
        _choose(view, rows, match, volume, taken)
        if (match.chosen >= 0).all():
            break
    return match


def _choose(
    view: NodeView, rows: RowArray, match: Match, volume: PersistentVolume, taken: dict[str, BoolArray]
) -> None:
    """Give the volume to the rows that have none yet and can reach it."""
    mask = match.chosen < 0
    reach = _reach(view, rows, volume)
    if reach is not None:
        mask &= reach
    others = taken.get(volume.metadata.name)
    if others is not None:
        mask &= ~others
    if not mask.any():
        return
    match.chosen[mask] = len(match.volumes)
    match.volumes.append(volume)
    taken[volume.metadata.name] = mask if others is None else others | mask


def _suits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    if volume.spec.claim_ref is not None and not bound_to(volume, claim):
        return False
    capacity, wanted = size_of(volume.spec.capacity), size_of(claim.spec.resources.requests)
    if capacity is None or wanted is None or capacity < wanted or not same_mode(claim.spec, volume):
        return False
    attributes = volume.spec.volume_attributes_class_name or ""
    return (claim.spec.volume_attributes_class_name or "") == attributes and volume.metadata.deletion_timestamp is None


def _is_free(claim: PersistentVolumeClaim, volume: PersistentVolume, selector: Selector | None) -> bool:
    return (
        volume.status.phase == "Available"
        and (selector is None or selector.matches(volume.metadata.labels))
        and volume_class(volume) == claim_class(claim)
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
    )


def _selector(claim: PersistentVolumeClaim) -> Selector | None:
    if claim.spec.selector is None:
        return None
    try:
        return label_selector(claim.spec.selector)
    except SelectorError as error:
        raise ValueError(f"error creating internal label selector for claim: {claim.metadata.key}: {error}") from error


def _reach(view: NodeView, rows: RowArray, volume: PersistentVolume) -> BoolArray | None:
    affinity = volume.spec.node_affinity
    return _selected(view, rows, affinity.required if affinity is not None else None)


def _selected(view: NodeView, rows: RowArray, source: NodeSelector | None) -> BoolArray | None:
    return None if source is None else selector_mask(view, rows, volume_affinity(source))


def codes_of(bits: IntArray, code: int) -> CodeArray:
    """Return a status code per row: 0 where no reason stands."""
    return np.where(bits != 0, code, 0).astype(np.int8)
