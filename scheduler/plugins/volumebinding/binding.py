"""Assuming volumes for a pod, writing the bindings, and waiting until the volume controller has completed them.

The order is upstream's: assume all, write volumes, write claims, then look at what comes back. What was written is not
undone when a later step fails: the volume controller or the next attempt goes on from there.
"""

from typing import Any

import msgspec
from msgspec import Struct, field

from scheduler.framework import SUCCESS, Handle, NodeInfo, Objects, PodInfo, Status, failure
from scheduler.helpers.csimigration import handle_of, migrated_plugins, migration_of, source_of, translated_affinity
from scheduler.helpers.volumes import (
    BOUND_BY_CONTROLLER,
    CLAIM,
    CSI_NODE,
    SELECTED_NODE,
    VOLUME,
    is_bound_to,
    is_fully_bound,
    volume_affinity,
)
from scheduler.kube.model import (
    Object,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    newer_version,
)

_INITIAL_PAUSE, _MAX_PAUSE = 0.1, 1.0
"""Seconds between looks at what the watch brought; upstream looks once a second."""


class PodVolumes(Struct):
    """What a pod uses on its node: volumes for claims (StaticBindings), and claims to provision (DynamicProvisions)."""

    static: list[tuple[PersistentVolume, PersistentVolumeClaim]] = field(default_factory=list)
    provisions: list[PersistentVolumeClaim] = field(default_factory=list)


class VolumeBindingFailed(Exception):
    """The volumes will not be bound as planned; the pod has to be scheduled again."""


def assume(objects: Objects, volumes: PodVolumes, node: str) -> PodVolumes:
    """Show volumes as bound and claims as provisioned for the node (AssumePodVolumes); return the objects to write.

    Raises:
        ValueError: one of them has changed or is gone; nothing is assumed then.
    """
    assumed = PodVolumes()
    try:
        for volume, claim in volumes.static:
            reserved = _reserved(volume, claim)
            if reserved != volume:
                objects.assume(VOLUME, reserved)
            assumed.static.append((reserved, claim))
        for claim in volumes.provisions:
            annotations = {**claim.metadata.annotations, SELECTED_NODE: node}
            metadata = msgspec.structs.replace(claim.metadata, annotations=annotations)
            marked = msgspec.structs.replace(claim, metadata=metadata)
            objects.assume(CLAIM, marked)
            assumed.provisions.append(marked)
    except ValueError:
        revert(objects, assumed)
        raise
    return assumed


def revert(objects: Objects, volumes: PodVolumes) -> None:
    """Show volumes and claims as the API server has them again (RevertAssumedPodVolumes)."""
    for volume, _ in volumes.static:
        objects.restore(VOLUME, "", volume.metadata.name)
    for claim in volumes.provisions:
        objects.restore(CLAIM, claim.metadata.namespace, claim.metadata.name)


async def bind(
    handle: Handle, objects: Objects, volumes: PodVolumes, pod: PodInfo, node: str, timeout: float
) -> Status:
    """Write volumes and claims, then wait until all are bound (BindPodVolumes).

    Args:
        handle: writes to the API server, and waits.
        objects: the watched volumes and claims.
        volumes: what was assumed for the pod.
        pod: the pod to bind.
        node: its node.
        timeout: seconds after which the binding fails.
    """
    try:
        written = await _write(handle, volumes)
    except VolumeBindingFailed as error:
        return failure(str(error))
    deadline, pause = handle.monotonic() + timeout, _INITIAL_PAUSE
    while handle.monotonic() < deadline:
        await handle.pause(min(pause, max(0.0, deadline - handle.monotonic())))
        pause = min(pause * 2, _MAX_PAUSE)
        try:
            if _bindings_complete(handle, objects, written, pod, node):
                return SUCCESS
        except (VolumeBindingFailed, ValueError) as error:
            return failure(f"binding volumes: {error}")
    return failure("binding volumes: context deadline exceeded")


def _reserved(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return the volume pre-bound to the claim (GetBindVolumeToClaim)."""
    meta, reference = claim.metadata, volume.spec.claim_ref
    held = (reference.name, reference.namespace, reference.uid) if reference is not None else None
    if held != (meta.name, meta.namespace, meta.uid):
        wanted = ObjectReference(CLAIM, "v1", meta.namespace, meta.name, meta.uid, meta.resource_version)
        spec = msgspec.structs.replace(volume.spec, claim_ref=wanted)
    else:
        spec = volume.spec
    metadata = volume.metadata
    if not is_bound_to(volume, claim) and BOUND_BY_CONTROLLER not in metadata.annotations:
        annotations = {**metadata.annotations, BOUND_BY_CONTROLLER: "yes"}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
    return msgspec.structs.replace(volume, metadata=metadata, spec=spec)


async def _write(handle: Handle, volumes: PodVolumes) -> PodVolumes:
    """Return the objects as the API server answered."""
    written = PodVolumes()
    for volume, claim in volumes.static:
        patch: dict[str, Any] = {"spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)}}
        if BOUND_BY_CONTROLLER in volume.metadata.annotations:
            patch["metadata"] = {"annotations": {BOUND_BY_CONTROLLER: "yes"}}
        written.static.append((await _patch(handle, VOLUME, volume, patch), claim))
    for claim in volumes.provisions:
        selected = {SELECTED_NODE: claim.metadata.annotations[SELECTED_NODE]}
        written.provisions.append(await _patch(handle, CLAIM, claim, {"metadata": {"annotations": selected}}))
    return written


async def _patch(handle: Handle, kind: str, item: Any, patch: dict[str, Any]) -> Any:
    status, answer = await handle.patch_object(kind, item, patch)
    if not status.is_success:
        raise VolumeBindingFailed(status.message)
    return answer


def _bindings_complete(handle: Handle, objects: Objects, written: PodVolumes, pod: PodInfo, node: str) -> bool:
    """Tell whether everything is bound; BindingFailed when it never will be (checkBindings)."""
    place = handle.node(node)
    if place is None:
        raise VolumeBindingFailed(f'failed to get node "{node}": node "{node}" not found')
    if not handle.exists(pod):
        raise VolumeBindingFailed(f'pod does not exist any more: pod "{pod.name}" not found')
    return all(_volume_is_bound(objects, volume, claim, place) for volume, claim in written.static) and all(
        _claim_is_bound(objects, claim, place) for claim in written.provisions
    )


def _volume_is_bound(objects: Objects, written: PersistentVolume, claim: PersistentVolumeClaim, node: NodeInfo) -> bool:
    name = written.metadata.name
    volume = _require_object(objects.get(VOLUME, "", name), "check binding", f'v1.PersistentVolume "{name}"')
    key = claim.metadata.key
    current = _require_object(
        objects.get(CLAIM, claim.metadata.namespace, claim.metadata.name),
        "check binding",
        f'v1.PersistentVolumeClaim "{key}"',
    )
    if _is_outdated(volume, written):
        _require_assumed(objects, VOLUME, volume)
        return False
    _require_node_affinity(objects, volume, node)
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        raise VolumeBindingFailed(f'ClaimRef got reset for pv "{name}"')
    return is_fully_bound(current)


def _claim_is_bound(objects: Objects, written: PersistentVolumeClaim, node: NodeInfo) -> bool:
    meta = written.metadata
    claim: PersistentVolumeClaim = _require_object(
        objects.get(CLAIM, meta.namespace, meta.name),
        "check provisioning pvc",
        f'v1.PersistentVolumeClaim "{meta.key}"',
    )
    if _is_outdated(claim, written):
        _require_assumed(objects, CLAIM, claim)
        return False
    if not claim.metadata.annotations:
        raise VolumeBindingFailed(f'selectedNode annotation reset for PVC "{meta.name}"')
    if claim.metadata.annotations.get(SELECTED_NODE) != node.name:
        # The provisioner removes the annotation to ask for another node.
        raise VolumeBindingFailed(f'provisioning failed for PVC "{meta.name}"')
    if claim.spec.volume_name:
        volume: PersistentVolume | None = objects.get(VOLUME, "", claim.spec.volume_name)
        if volume is None:
            return False
        _require_node_affinity(objects, volume, node)
    return is_fully_bound(claim)


def _require_object(item: Any, action: str, described: str) -> Any:
    if item is None:
        raise VolumeBindingFailed(f"failed to {action}: could not find {described}")
    return item


def _is_outdated(seen: Object, written: Object) -> bool:
    """Tell whether the watch has yet to deliver what was written."""
    return newer_version(written.metadata.resource_version, seen.metadata.resource_version) is True


def _require_assumed(objects: Objects, kind: str, seen: Object) -> None:
    """Check that what was written is still to come: until the watch has brought it, it stays assumed."""
    meta = seen.metadata
    if objects.latest(kind, meta.namespace, meta.name) is seen:
        raise VolumeBindingFailed(f'v1.{kind} "{meta.key}" is as before it was written: the cluster went back')


def _require_node_affinity(objects: Objects, volume: PersistentVolume, node: NodeInfo) -> None:
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    source = source_of(volume)
    if source is not None and migration_of(source).enabled:
        migration = migration_of(source)
        if migration.plugin in migrated_plugins(objects.get(CSI_NODE, "", node.name)):
            handle_of(volume, source)
            required = translated_affinity(volume, migration)
    if required is not None and not volume_affinity(required).matches("", node.labels):
        mismatch = f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{node.name}"'
        raise VolumeBindingFailed(f"{mismatch}: no matching NodeSelectorTerms")
