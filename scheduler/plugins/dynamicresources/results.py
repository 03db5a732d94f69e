"""What is written into a claim's status for the devices that were found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from scheduler.kube.model import (
    AllocationResult,
    ClaimAllocation,
    DeviceConfig,
    DeviceResult,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ResourceClaim,
)
from scheduler.plugins.dynamicresources.devices import AllocationError, Offered
from scheduler.plugins.dynamicresources.requests import Request, Wanted


class Given(NamedTuple):
    """A device, and for which request."""

    request: Request
    device: Offered


def allocation_of(wanted: Wanted, devices: Sequence[Given], chosen: Sequence[Request], node: str) -> ClaimAllocation:
    """Return the allocation of one claim.

    Args:
        wanted: the claim.
        given: its devices, in the order in which they were found.
        chosen: per request the alternative that they are for.
        node: where the pod will run.
    """
    results = tuple(
        DeviceResult(
            request=each.request.full_name,
            driver=each.device.id[0],
            pool=each.device.id[1],
            device=each.device.id[2],
            admin_access=True if each.request.is_admin else None,
            tolerations=each.request.spec.tolerations,
        )
        for each in devices
    )
    config = (*_class_config(chosen), *_claim_config(wanted.claim, chosen))
    return ClaimAllocation(AllocationResult(results, config), _selector(wanted.claim, devices, node))


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


def _claim_config(claim: ResourceClaim, chosen: Sequence[Request]) -> list[DeviceConfig]:
    """Return the claim's configuration: once for all requests, or once for each that it names, as upstream."""
    return [
        msgspec.structs.replace(config, source="FromClaim")
        for config in claim.spec.devices.config
        for times in (1 if not config.requests else sum(_names(config, request) for request in chosen),)
        for _ in range(times)
    ]


def _names(config: DeviceConfig, request: Request) -> bool:
    return request.base in config.requests or (bool(request.sub) and request.full_name in config.requests)


def _selector(claim: ResourceClaim, devices: Sequence[Given], node: str) -> NodeSelector | None:
    """Return where the devices can be used; None for everywhere."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for _, offered in devices:
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
