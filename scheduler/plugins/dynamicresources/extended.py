"""Extended resources that are devices (extendeddynamicresources.go of kube-scheduler 1.36.3).

A pod that asks for an extended resource gets devices of a DeviceClass on a node that has none of the resource itself.
For these the scheduler makes a ResourceClaim of its own: in memory while it decides, on the API server before it binds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Struct

from scheduler import framework as fw
from scheduler.helpers import ExtendedResources, may_be_devices
from scheduler.kube.model import (
    ClaimMeta,
    DeviceClaim,
    DeviceRequest,
    ExactRequest,
    OwnerReference,
    ResourceClaim,
    ResourceClaimSpec,
)
from scheduler.plugins.dynamicresources.capacity import AllocationError
from scheduler.plugins.dynamicresources.requests import MAX_RESULTS
from scheduler.plugins.dynamicresources.results import CLAIM

ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"
IN_MEMORY_NAME: Final = "<extended-resources>"
CANNOT_USE_CLAIM: Final = "cannot schedule extended resource claim"
NO_SUCH_RESOURCE: Final = "cannot fit resource"
_TRIES: Final = 5


class ContainerMapping(NamedTuple):
    """ContainerExtendedResourceRequest: by which request of the claim a container gets its resource."""

    container: str
    resource: str
    request: str


class SpecialClaim(NamedTuple):
    """The claim for some of a pod's extended resources, and what is written about it into the pod's status."""

    claim: ResourceClaim
    mappings: tuple[ContainerMapping, ...]

    @property
    def is_created(self) -> bool:
        """Whether it is on the API server."""
        return self.claim.metadata.name != IN_MEMORY_NAME


class DeviceRows(NamedTuple):
    """Rows of nodes on which the same of the pod's resources have to be devices."""

    resources: frozenset[str]
    rows: fw.RowArray


class Extended(Struct, eq=False):
    """The extended resources of a pod, some of which are a class's.

    Attributes:
        pod: the pod.
        classes: by resource that can be devices, the class.
        others: those that can be none.
        stale: a claim that an earlier attempt made; it has to go before the pod can be scheduled.
    """

    pod: fw.PodInfo
    classes: Mapping[str, str]
    others: tuple[str, ...]
    stale: ResourceClaim | None

    def groups(self, view: fw.NodeView, rows: fw.RowArray) -> tuple[list[DeviceRows], dict[int, str]]:
        """Return the rows by what has to be devices there, and why other rows cannot be used.

        Raises:
            AllocationError: they are more resources than a claim can be for.
        """
        if len(self.classes) > MAX_RESULTS:
            limit = f"number of requested devices {len(self.classes)} exceeds the claim limit of {MAX_RESULTS}"
            raise AllocationError(f"claim {self.pod.namespace}/{IN_MEMORY_NAME}: {limit}")
        lacking = {
            resource: fw.gather(view, view.allocatable(resource), rows) == 0
            for resource in (*self.classes, *self.others)
        }
        refused: dict[int, str] = {}
        for resource in self.others:
            # NodeResourcesFit has seen to the rest, unless it ignores the resource.
            for row in rows[lacking[resource]].tolist():
                if resource not in view.info(row).allocatable:
                    refused[row] = NO_SUCH_RESOURCE
        codes = np.zeros(len(rows), dtype=np.int64)
        names = sorted(self.classes)
        for number, resource in enumerate(names):
            codes |= lacking[resource].astype(np.int64) << number
        groups = [
            DeviceRows(frozenset(name for number, name in enumerate(names) if code >> number & 1), rows[codes == code])
            for code in np.unique(codes).tolist()
        ]
        return groups, refused

    def resources_on(self, view: fw.NodeView, row: int) -> frozenset[str]:
        """Return which of the pod's resources have to be devices on a node."""
        allocatable = view.info(row).allocatable
        return frozenset(name for name in self.classes if not allocatable.get(name, 0))

    def claim_for(self, resources: Iterable[str]) -> SpecialClaim:
        """Return the claim for some of the resources."""
        requests, mappings = _requests(self.pod, {name: self.classes[name] for name in sorted(resources)})
        pod = self.pod
        owner = OwnerReference(kind="Pod", name=pod.name, uid=pod.uid, api_version="v1", controller=True)
        meta = ClaimMeta(
            name=IN_MEMORY_NAME,
            namespace=pod.namespace,
            # Until the API server gives it another one.
            uid=f"{pod.uid}{IN_MEMORY_NAME}",
            annotations={ANNOTATION: "true"},
            owner_references=(owner,),
        )
        return SpecialClaim(ResourceClaim(meta, ResourceClaimSpec(DeviceClaim(requests))), mappings)


def extended_of(pod: fw.PodInfo, objects: fw.Objects) -> Extended | None:
    """Return a pod's extended resources, None where none of them is a class's."""
    wanted = possible_devices(pod.spec)
    if not wanted:
        return None
    known = objects.derived(ExtendedResources)
    classes = {name: device_class for name in wanted if (device_class := known.class_of(name)) is not None}
    if not classes:
        return None
    stale = next(iter(objects.latest_by(CLAIM, special_owner, pod.uid)), None)
    return Extended(pod, classes, tuple(name for name in wanted if name not in classes), stale)


def possible_devices(spec: fw.SpecInfo) -> tuple[str, ...]:
    """Return the resources of a pod that may be devices."""
    return tuple([name for name, amount in spec.requests.items() if amount > 0 and may_be_devices(name)])


def any_is_backed(names: Sequence[str], objects: fw.Objects) -> bool:
    """Tell whether one of some resources is a class's."""
    known = objects.derived(ExtendedResources)
    return any(known.class_of(name) is not None for name in names)


def special_owner(claim: ResourceClaim) -> str:
    """Return the UID of the pod whose extended resources a claim is for; "" for any other claim."""
    if claim.metadata.annotations.get(ANNOTATION) != "true":
        return ""
    owner = claim.metadata.controller
    return owner.uid if owner is not None else ""


class _DeviceRequest(Struct, frozen=True):
    name: str
    count: int


def _requests(
    pod: fw.PodInfo, classes: Mapping[str, str]
) -> tuple[tuple[DeviceRequest, ...], tuple[ContainerMapping, ...]]:
    """Return the requests for some resources, and which containers use them (createRequestsAndMappings)."""
    requests: list[DeviceRequest] = []
    mappings: list[ContainerMapping] = []
    containers = pod.spec.containers
    for resource, class_name in classes.items():
        lasting: list[_DeviceRequest | None] = [None] * len(containers)
        for number, container in enumerate(containers):
            if container.kind != "init":
                lasting[number], more = _request(pod, number, resource, ())
                mappings += more
        largest: _DeviceRequest | None = None
        names: set[str] = set()
        passing: list[ContainerMapping] = []
        for number, container in enumerate(containers):
            if container.kind == "init":
                # It may use what is for the containers that run after it.
                extra, more = _request(pod, number, resource, lasting[number:])
                passing += more
                if extra is not None:
                    names.add(extra.name)
                    if largest is None or largest.count < extra.count:
                        largest = extra
        if largest is not None:
            # One runs after the other, so the largest request is enough for all.
            passing = [each._replace(request=largest.name) if each.request in names else each for each in passing]
        mappings += passing
        requests += [
            DeviceRequest(each.name, ExactRequest(device_class_name=class_name, count=each.count))
            for each in (largest, *lasting)
            if each is not None
        ]
    return tuple(sorted(requests, key=lambda each: each.name)), tuple(mappings)


def _request(
    pod: fw.PodInfo, number: int, resource: str, reusable: Sequence[_DeviceRequest | None]
) -> tuple[_DeviceRequest | None, list[ContainerMapping]]:
    """Return the request that a container adds for a resource, if any, and by which requests it gets it."""
    container = pod.spec.containers[number]
    wanted = container.requests.get(resource, 0)
    mappings: list[ContainerMapping] = []
    if not wanted:
        return None, mappings
    total = 0
    for each in reusable:
        if each is not None:
            total += each.count
            mappings.append(ContainerMapping(container.name, resource, each.name))
            if total >= wanted:
                return None, mappings
    name = f"container-{number}-request-{sorted(container.requests).index(resource)}"
    mappings.append(ContainerMapping(container.name, resource, name))
    return _DeviceRequest(name, wanted - total), mappings


async def create_claim(handle: fw.Handle, special: SpecialClaim, pod: fw.PodInfo) -> tuple[fw.Status, Any]:
    """Create a special claim on the API server; returns it as it is there, or what failed and None."""
    meta = special.claim.metadata
    manifest = {
        "metadata": {
            "namespace": meta.namespace,
            "generateName": f"{pod.name}-extended-resources-",
            "annotations": meta.annotations,
            "ownerReferences": msgspec.to_builtins(meta.owner_references),
        },
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": request.name,
                        "exactly": {
                            "deviceClassName": request.exactly.device_class_name,
                            "allocationMode": request.exactly.allocation_mode,
                            "count": request.exactly.count,
                        },
                    }
                    for request in special.claim.spec.devices.requests
                    if request.exactly is not None
                ]
            }
        },
    }
    status, created = await handle.create_object(CLAIM, meta.namespace, manifest)
    if not status.is_success:
        return fw.failure(f"create claim for extended resources {meta.namespace}/: {status.message}"), None
    return status, created


def pod_patch(special: SpecialClaim, name: str) -> dict[str, Any]:
    """Return the patch of the pod's status that tells the kubelet of a special claim."""
    requests = [
        {"containerName": each.container, "resourceName": each.resource, "requestName": each.request}
        for each in special.mappings
    ]
    return {"status": {"extendedResourceClaimStatus": {"requestMappings": requests, "resourceClaimName": name}}}


async def delete_claim(handle: fw.Handle, claim: ResourceClaim, finalizer: str) -> None:
    """Delete a special claim that no pod will use. Failures are logged: the pod's next attempt does it again."""
    status = fw.SUCCESS
    for _ in range(_TRIES):
        # Its finalizer may have been written, or removed, since it was read.
        status, latest = await handle.read_object(CLAIM, claim)
        if not status.is_success:
            break
        if latest is None:
            return
        finalizers = latest.metadata.finalizers
        if finalizer in finalizers:
            patch = {"metadata": {"finalizers": [each for each in finalizers if each != finalizer]}}
            status, latest = await handle.patch_object(CLAIM, latest, patch)
            if not status.is_success:
                continue
        status = await handle.delete_object(CLAIM, latest)
        if status.is_success:
            return
    handle.log("warning", "DynamicResources", "a claim was not deleted", claim=claim.metadata.key, error=status.message)
