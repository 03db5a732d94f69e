"""A pod's claims: bound, to be bound once a node is chosen, or to be bound by now."""

from msgspec import Struct, field

from scheduler.framework import NodeView, Objects, PodInfo
from scheduler.helpers.volumes import (
    CLAIM,
    CLASS,
    CSI_CAPACITY,
    VOLUME,
    WAIT_FOR_FIRST_CONSUMER,
    claim_class,
    claim_not_found,
    claims_of,
    class_index_key,
    is_fully_bound,
    ownership_error,
    volume_index_key,
)
from scheduler.kube.model import PersistentVolumeClaim, StorageClass

WALKED = "claims x (volumes of their class + capacities of drivers + topologies of the class)"
_VOLUME_UNITS, _CAPACITY_UNITS, _TOPOLOGY_UNITS = 10, 5, 20
"""A volume is compared with the claim, and its nodes with those that have none yet; a capacity and a term of a
topology are a look, or a pass over the nodes."""


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


def units_of(view: NodeView, claims: PodClaims) -> int:
    """Return what it takes to look for volumes for claims that have none yet."""
    objects, total = view.objects, 0
    for claim in claims.delayed:
        name = claim_class(claim)
        total += _VOLUME_UNITS * len(objects.latest_by(VOLUME, volume_index_key, class_index_key(name)))
        storage_class: StorageClass | None = objects.get(CLASS, "", name) if name else None
        if storage_class is not None:
            terms = storage_class.allowed_topologies
            total += _TOPOLOGY_UNITS * sum(1 + len(term.match_label_expressions) for term in terms)
    return total + _CAPACITY_UNITS * len(claims.delayed) * objects.count(CSI_CAPACITY)


def requirements_of(claims: PodClaims) -> int:
    """Return what it takes to compile the selectors of claims that have no volume yet: 3 us per requirement."""
    selectors = [claim.spec.selector for claim in claims.delayed if claim.spec.selector is not None]
    return sum(
        3 * len(selector.match_labels) + sum(3 + len(each.values) for each in selector.match_expressions)
        for selector in selectors
    )
