"""Which ResourceClaims a pod has, and why some cannot be used yet (package resourceclaim of k8s.io)."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from scheduler.framework import Objects, PodInfo
from scheduler.kube.model import ClaimConsumer, ResourceClaim, ResourceClaimStatus

CLAIM, CLASS, SLICE, RULE = "ResourceClaim", "DeviceClass", "ResourceSlice", "DeviceTaintRule"
POD_RESOURCE = "pods"


class ClaimProblem(Exception):
    """A claim of the pod is missing, or cannot be used; the text is upstream's."""


def pod_claims(pod: PodInfo, objects: Objects) -> list[ResourceClaim]:
    """Return the pod's claims in the order of its spec, as they are assumed to be; a claim that it names twice once.

    Raises:
        ClaimProblem: one of them cannot be used yet.
    """
    generated = dict(entry.split("=", 1) for entry in pod.claim_names)
    claims: dict[str, ResourceClaim] = {}
    for wanted in pod.spec.claims:
        of_template = wanted.resource_claim_name is None
        if wanted.resource_claim_name is not None:
            name = wanted.resource_claim_name
        elif wanted.resource_claim_template_name is None:
            raise ClaimProblem(
                f'pod "{pod.key}", spec.resourceClaim "{wanted.name}": none of the supported fields are set'
            )
        elif wanted.name not in generated:
            raise ClaimProblem(f'pod "{pod.key}": ResourceClaim not created yet')
        else:
            name = generated[wanted.name]
            if not name:
                # The controller found that none is needed.
                continue
        claim: ResourceClaim | None = objects.latest(CLAIM, pod.namespace, name)
        if claim is None:
            raise ClaimProblem(f'could not find ResourceClaim "{pod.namespace}/{name}"')
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimProblem(f'resourceclaim "{name}" is being deleted')
        if of_template and not _is_owner(pod, claim):
            raise ClaimProblem(
                f"ResourceClaim {claim.metadata.key} was not created for pod {pod.key} (pod is not owner)"
            )
        claims[claim.metadata.uid] = claim
    return list(claims.values())


def _is_owner(pod: PodInfo, claim: ResourceClaim) -> bool:
    owner = claim.metadata.controller
    return owner is not None and owner.uid == pod.uid


def with_user(status: ResourceClaimStatus, pod: PodInfo) -> ResourceClaimStatus:
    """Return the status of a claim that is reserved for a pod, too."""
    if any(consumer.uid == pod.uid for consumer in status.reserved_for):
        return status
    consumer = ClaimConsumer(resource=POD_RESOURCE, name=pod.name, uid=pod.uid)
    return msgspec.structs.replace(status, reserved_for=(*status.reserved_for, consumer))


def is_reserved_for(pod: PodInfo, claim: ResourceClaim) -> bool:
    """Tell whether a claim is reserved for a pod."""
    return any(consumer.uid == pod.uid for consumer in claim.status.reserved_for)


def nodes_of(claim: ResourceClaim) -> Collection[str]:
    """Return the node whose devices a claim has; nothing where they are not those of one node."""
    selector = claim.status.allocation.node_selector if claim.status.allocation is not None else None
    terms = selector.node_selector_terms if selector is not None else ()
    return [
        name
        for term in terms
        for field in term.match_fields
        if field.key == "metadata.name" and field.operator == "In"
        for name in field.values
    ]
