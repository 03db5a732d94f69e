"""A pod's claims: bound, to be bound once a node is chosen, or to be bound by now."""

from msgspec import Struct, field

from scheduler.framework import Objects, PodInfo
from scheduler.helpers.volumes import (
    CLAIM,
    CLASS,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_not_found,
    claims_of,
    is_fully_bound,
    ownership_error,
)
from scheduler.kube.model import PersistentVolumeClaim, StorageClass


class PodClaims(Struct):
    """Claims in the order of the pod's volumes."""

    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    delayed: list[PersistentVolumeClaim] = field(default_factory=list)
    immediate: list[PersistentVolumeClaim] = field(default_factory=list)


def claim_error(pod: PodInfo, objects: Objects) -> str:
    """Return why the pod cannot be placed for the state of a claim, in upstream's words; "" when it can."""
    for name, ephemeral in claims_of(pod):
        claim: PersistentVolumeClaim | None = objects.get(CLAIM, pod.namespace, name)
        if claim is None:
            if ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return claim_not_found(name)
        if claim.status.phase == "Lost":
            volume = claim.spec.volume_name
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'persistentvolumeclaim "{name}" is being deleted'
        foreign = ownership_error(pod, claim) if ephemeral else ""
        if foreign:
            return foreign
    return ""


def pod_claims(pod: PodInfo, objects: Objects) -> PodClaims:
    """Return the pod's claims by what has to happen to them (GetPodVolumeClaims).

    Raises:
        ValueError: a class has no binding mode.
    """
    claims = PodClaims()
    for name, _ in claims_of(pod):
        claim: PersistentVolumeClaim | None = objects.latest(CLAIM, pod.namespace, name)
        if claim is None:
            raise ValueError(f'error getting PVC "{pod.namespace}/{name}": it does not exist')
        if is_fully_bound(claim):
            claims.bound.append(claim)
        elif _waits_for_consumer(claim, objects) and not claim.spec.volume_name:
            claims.delayed.append(claim)
        else:
            claims.immediate.append(claim)
    return claims


def all_bound(pod: PodInfo, objects: Objects) -> bool:
    """Tell whether nothing is left to bind."""
    return all(
        claim is not None and is_fully_bound(claim)
        for claim in (objects.latest(CLAIM, pod.namespace, name) for name, _ in claims_of(pod))
    )


def _waits_for_consumer(claim: PersistentVolumeClaim, objects: Objects) -> bool:
    name = claim_class(claim)
    storage_class: StorageClass | None = objects.get(CLASS, "", name) if name else None
    if storage_class is None:
        return False
    if storage_class.volume_binding_mode is None:
        raise ValueError(f'VolumeBindingMode not set for StorageClass "{name}"')
    return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
