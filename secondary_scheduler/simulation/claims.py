"""Claims of pods whose template has none yet: made as the resourceclaim controller would make them."""

from __future__ import annotations

import msgspec

from scheduler.framework import PodInfo
from scheduler.kube.model import (
    ClaimMeta,
    OwnerReference,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceVersion,
)
from scheduler.state import ObjectStore
from secondary_scheduler.simulation.defaults import object_uid

_CLAIM = "ResourceClaim"
_OF_POD = "resource.kubernetes.io/pod-claim-name"
_SUFFIX = 5
_MAX_BASE = 63 - _SUFFIX


class ClaimTemplates:
    """The templates of a cluster."""

    def __init__(self) -> None:
        self._templates: dict[tuple[str, str], ResourceClaimTemplate] = {}

    def add(self, template: ResourceClaimTemplate) -> None:
        """Take in a template."""
        self._templates[template.metadata.namespace, template.metadata.name] = template

    def copy(self) -> ClaimTemplates:
        """Return the same templates, to which others can be added apart from these."""
        copied = ClaimTemplates()
        copied._templates = dict(self._templates)
        return copied

    def with_claims(self, pod: PodInfo, objects: ObjectStore) -> PodInfo:
        """Return a pod whose status names a claim for each of its templates; missing claims go into the store.

        Where there is no such template the pod has no claim, as on a cluster.
        """
        named = {entry.partition("=")[0] for entry in pod.claim_names}
        names = list(pod.claim_names)
        for source in pod.spec.claims:
            template = self._templates.get((pod.namespace, source.resource_claim_template_name or ""))
            if source.name in named or template is None:
                continue
            claim = _existing(pod, source, objects)
            if claim is None:
                claim = _claim(pod, source, template)
                objects.upsert(_CLAIM, claim)
            names.append(f"{source.name}={claim.metadata.name}")
        return pod if len(names) == len(named) else msgspec.structs.replace(pod, claim_names=tuple(sorted(names)))


def _existing(pod: PodInfo, source: PodResourceClaim, objects: ObjectStore) -> ResourceClaim | None:
    """Return a claim that the controller has made, and not yet written into the pod's status."""
    for claim in objects.in_namespace(_CLAIM, pod.namespace):
        owner = claim.metadata.controller
        if owner is not None and owner.uid == pod.uid and claim.metadata.annotations.get(_OF_POD) == source.name:
            existing: ResourceClaim = claim
            return existing
    return None


def _claim(pod: PodInfo, source: PodResourceClaim, template: ResourceClaimTemplate) -> ResourceClaim:
    base = f"{pod.name}-{source.name}-"
    # The API server draws the suffix at random.
    name = base[:_MAX_BASE] + object_uid(_CLAIM, pod.namespace, base)[:_SUFFIX]
    owner = OwnerReference(kind="Pod", name=pod.name, uid=pod.uid, api_version="v1", controller=True)
    meta = ClaimMeta(
        name=name,
        namespace=pod.namespace,
        uid=object_uid(_CLAIM, pod.namespace, name),
        resource_version=ResourceVersion("1"),
        labels=template.spec.metadata.labels,
        annotations={**template.spec.metadata.annotations, _OF_POD: source.name},
        owner_references=(owner,),
    )
    return ResourceClaim(meta, template.spec.spec)
