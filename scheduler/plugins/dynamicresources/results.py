"""What is written into a claim's status for the devices that were found."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.framework import Objects, PodInfo
from scheduler.kube.model import (
    AllocationResult,
    ClaimAllocation,
    ClaimConsumer,
    CounterConsumption,
    DeviceConfig,
    DeviceResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ResourceClaim,
    ResourceClaimStatus,
)
from scheduler.plugins.dynamicresources.capacity import AllocationError, Consumed
from scheduler.plugins.dynamicresources.devices import Offered
from scheduler.plugins.dynamicresources.requests import Request, Wanted

# Which ResourceClaims a pod has, and why some cannot be used yet (package resourceclaim of k8s.io).

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


_MAX_ALTERNATIVES: Final = 8
"""Of a request (FirstAvailableDeviceRequestMaxSize)."""
_SHARES: Final = uuid.UUID("5d5a29dc-61cf-4a0b-8f57-6a4f6c1f9c5e")


class Given(NamedTuple):
    """A device, and for which request.

    Attributes:
        request: the request.
        device: the device.
        consumed: what it takes of the device's capacity, where others may have the device, too.
        counted: what it takes of the counters of the device's pool.
    """

    request: Request
    device: Offered
    consumed: Consumed
    counted: Sequence[CounterConsumption]


def allocation_of(
    wanted: Wanted, devices: Sequence[Given], chosen: Sequence[Request], node: str, *, merge_config: bool = False
) -> ClaimAllocation:
    """Return the allocation of one claim.

    Args:
        wanted: the claim.
        given: its devices, in the order in which they were found.
        chosen: per request the alternative that they are for.
        node: where the pod will run.
        merge_config: no configuration stands there twice, and one for all requests does not name them.
    """
    results = tuple(_result(wanted.claim, number, each) for number, each in enumerate(devices))
    config = [*_class_config(chosen), *_claim_config(wanted.claim, chosen, once=merge_config)]
    if merge_config:
        config = [
            msgspec.structs.replace(each, requests=()) if all(_names(each, request) for request in chosen) else each
            for each in config
        ]
    return ClaimAllocation(AllocationResult(results, tuple(config)), _selector(wanted.claim, devices, node))


def rating(claim: ResourceClaim, allocation: ClaimAllocation) -> int:
    """Return how early the alternatives of a claim's requests are that it gets: 8 for each that is a first one."""
    names = {result.request for result in allocation.devices.results}
    return sum(
        _MAX_ALTERNATIVES - number
        for request in claim.spec.devices.requests
        for number, alternative in enumerate(request.first_available)
        if f"{request.name}/{alternative.name}" in names
    )


def _result(claim: ResourceClaim, number: int, chosen: Given) -> DeviceResult:
    shared, device = chosen.device.shared, chosen.device.id
    # Upstream draws it at random. It has to differ from that of every other share of the device.
    share = uuid.uuid5(_SHARES, "/".join((claim.metadata.uid, str(number), *device))) if shared else None
    return DeviceResult(
        request=chosen.request.full_name,
        driver=device[0],
        pool=device[1],
        device=device[2],
        admin_access=True if chosen.request.is_admin else None,
        tolerations=chosen.request.spec.tolerations,
        binding_conditions=chosen.device.device.binding_conditions,
        binding_failure_conditions=chosen.device.device.binding_failure_conditions,
        share_id=str(share) if share is not None else None,
        consumed_capacity=dict(chosen.consumed) if shared else {},
    )


def _class_config(chosen: Sequence[Request]) -> list[DeviceConfig]:
    """Return the configuration of each class once, for all requests of the class."""
    requests: dict[str, list[Request]] = {}
    for request in chosen:
        requests.setdefault(request.device_class.metadata.name, []).append(request)
    return [
        DeviceConfig("FromClass", tuple(request.full_name for request in of_class), config.opaque)
        for of_class in requests.values()
        for config in of_class[0].device_class.spec.config
    ]


def _claim_config(claim: ResourceClaim, chosen: Sequence[Request], *, once: bool) -> list[DeviceConfig]:
    """Return the claim's configuration: once for all requests, or, as upstream before 1.37, for each that it names."""
    result = []
    for config in claim.spec.devices.config:
        named = sum(_names(config, request) for request in chosen) if config.requests else 1
        result += [msgspec.structs.replace(config, source="FromClaim")] * (min(named, 1) if once else named)
    return result


def _names(config: DeviceConfig, request: Request) -> bool:
    return request.base in config.requests or (bool(request.sub) and request.full_name in config.requests)


def _selector(claim: ResourceClaim, devices: Sequence[Given], node: str) -> NodeSelector | None:
    """Return where the devices can be used; None for everywhere."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for offered in (each.device for each in devices):
        spec, device = offered.slice.slice.spec, offered.device
        source = device if offered.slice.per_device else spec
        if source.node_name is not None or device.binds_to_node:
            this_node = NodeSelectorRequirement("metadata.name", "In", (node,))
            return NodeSelector((NodeSelectorTerm(match_fields=(this_node,)),))
        terms = source.node_selector.node_selector_terms if source.node_selector is not None else ()
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.metadata.name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _add_new(requirements: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]) -> None:
    known = {_essence(each) for each in requirements}
    for requirement in more:
        if _essence(requirement) not in known:
            known.add(_essence(requirement))
            requirements.append(requirement)


def _essence(requirement: NodeSelectorRequirement) -> tuple[str, str, frozenset[str]]:
    return requirement.key, requirement.operator, frozenset(requirement.values)
