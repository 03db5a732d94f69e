"""Claims, volumes and classes: what VolumeBinding, VolumeZone, VolumeRestrictions and NodeVolumeLimits share.

Follows k8s.io/component-helpers/storage (v0.34) and the listers' wording of what is missing.
"""

from collections.abc import Collection, Iterator
from decimal import Decimal
from functools import lru_cache

from scheduler.framework import Concern, PodInfo
from scheduler.kube.model import (
    NodeSelector,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Volume,
)
from scheduler.kube.primitives import QuantityError, exact_quantity, selectors

CLAIM, VOLUME, CLASS = "PersistentVolumeClaim", "PersistentVolume", "StorageClass"
CSI_NODE, CSI_DRIVER, CSI_CAPACITY = "CSINode", "CSIDriver", "CSIStorageCapacity"
ATTACHMENT = "VolumeAttachment"

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BETA_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


def claim_not_found(name: str) -> str:
    """Return the API machinery's words for a missing claim."""
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    """Return the API machinery's words for a missing volume."""
    return f'persistentvolume "{name}" not found'


def class_not_found(name: str) -> str:
    """Return the API machinery's words for a missing class."""
    return f'storageclass.storage.k8s.io "{name}" not found'


def claim_of(pod: PodInfo, volume: Volume) -> tuple[str, bool] | None:
    """Return (name of the claim behind a pod's volume, whether it is an ephemeral volume's); None without a claim."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name, False
    if volume.ephemeral is not None:
        return f"{pod.name}-{volume.name}", True
    return None


def claims_of(pod: PodInfo) -> Iterator[tuple[str, bool]]:
    """Yield `claim_of` for the volumes that have a claim, in order."""
    for volume in pod.spec.volumes:
        claim = claim_of(pod, volume)
        if claim is not None:
            yield claim


def uses_claim(pod: PodInfo, claim: PersistentVolumeClaim, *, ephemeral: bool = True) -> bool:
    """Tell whether a pod uses a claim, by name; `ephemeral` counts claims made for the pod's ephemeral volumes too."""
    if claim.metadata.namespace != pod.namespace:
        return False
    name = claim.metadata.name
    return any(claim_name == name and (ephemeral or not is_ephemeral) for claim_name, is_ephemeral in claims_of(pod))


def _awaited(pod: PodInfo) -> Collection[str]:
    return [claim_index_key(pod.namespace, name) for name, _ in claims_of(pod)]


def _named(old: object, new: object) -> Collection[str]:
    if not isinstance(new, PersistentVolumeClaim):
        return ()
    return (claim_index_key(new.metadata.namespace, new.metadata.name),)


CLAIM_CONCERN = Concern(_awaited, _named, lambda old, new: not isinstance(new, PersistentVolumeClaim))
"""For hints that tell by `uses_claim` whether a claim that comes or changes helps a pod: of thousands that may wait,
those that use a claim of its name are asked."""


def ownership_error(pod: PodInfo, claim: PersistentVolumeClaim) -> str:
    """Return why a claim is not the pod's ephemeral volume; "" where it is."""
    owner = claim.metadata.controller
    if claim.metadata.namespace == pod.namespace and owner is not None and owner.uid == pod.uid:
        return ""
    return f"PVC {claim.metadata.key} was not created for pod {pod.key} (pod is not owner)"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """Return the storage class a claim asks for; "" for none."""
    beta = claim.metadata.annotations.get(BETA_STORAGE_CLASS)
    return beta if beta is not None else claim.spec.storage_class_name or ""


def volume_class(volume: PersistentVolume) -> str:
    """Return the storage class of a volume; "" for none."""
    beta = volume.metadata.annotations.get(BETA_STORAGE_CLASS)
    return beta if beta is not None else volume.spec.storage_class_name


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Tell whether the volume controller has finished binding a claim."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Tell whether a volume is bound or pre-bound to a claim."""
    reference, meta = volume.spec.claim_ref, claim.metadata
    if reference is None or reference.name != meta.name or reference.namespace != meta.namespace:
        return False
    return not reference.uid or reference.uid == meta.uid


def size_of(resources: "dict[str, str | int | float]") -> Decimal | None:
    """Return the storage amount of a volume's capacity or a claim's requests, 0 where none is named; None where it
    cannot be read."""
    try:
        return exact_quantity(resources.get("storage", 0))
    except QuantityError:
        return None


def volume_index_key(volume: PersistentVolume) -> str:
    """Return the key under which volumes are indexed: the claim a volume is bound or pre-bound to, else its class."""
    reference = volume.spec.claim_ref
    if reference is None:
        return class_index_key(volume_class(volume))
    return claim_index_key(reference.namespace, reference.name)


def class_index_key(name: str) -> str:
    """Return `volume_index_key` of a class's free volumes."""
    return f"class/{name}"


def claim_index_key(namespace: str, name: str) -> str:
    """Return `volume_index_key` of the volumes meant for a claim of that name."""
    return f"claim/{namespace}/{name}"


def volume_modes_match(claim: PersistentVolumeClaimSpec, volume: PersistentVolume) -> bool:
    """Tell whether claim and volume agree on the volume mode."""
    return (claim.volume_mode or "Filesystem") == (volume.spec.volume_mode or "Filesystem")


@lru_cache(maxsize=65_536)
def volume_affinity(source: NodeSelector) -> selectors.CompiledNodeSelector:
    """Compile a volume's node affinity. It is matched against labels only: requirements on fields never count."""
    compiled = selectors.node_selector(source.node_selector_terms)
    return selectors.CompiledNodeSelector(
        tuple(selectors.CompiledNodeSelectorTerm(term.labels, error=term.error) for term in compiled.terms)
    )
