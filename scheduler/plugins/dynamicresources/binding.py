"""Writing what was reserved: finalizer, allocation and reservation of each claim (bindClaim of kube-scheduler).

Two writes per claim that is to be allocated, as the finalizer must be there before the allocation. Each is a patch of
the version that is known; after a conflict the claim is read again, and what has happened to it decides.
"""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.framework import SUCCESS, Handle, Objects, PodInfo, Status, failure
from scheduler.kube.model import ClaimAllocation, ClaimConsumer, ResourceClaim
from scheduler.plugins.dynamicresources.claims import CLAIM, POD_RESOURCE, is_reserved_for

FINALIZER = "resource.kubernetes.io/delete-protection"
_TRIES = 5


class BindingFailed(Exception):
    """The claim is not the pod's: it has to be scheduled again."""


async def bind_claim(
    handle: Handle, pod: PodInfo, claim: ResourceClaim, allocation: ClaimAllocation | None
) -> ResourceClaim:
    """Write a claim's allocation, if it gets one, and reserve it for a pod; return the claim as it is then.

    Args:
        handle: writes to the API server.
        pod: the pod that is about to be bound.
        claim: the claim as it is known.
        allocation: what is written; None for a claim that has been allocated before.

    Raises:
        BindingFailed: it cannot be had; the text is upstream's.
    """
    latest: ResourceClaim = claim
    for attempt in range(1, _TRIES + 1):
        _require_usable(latest, allocation)
        error = ""
        if allocation is not None and FINALIZER not in latest.metadata.finalizers:
            patch: dict[str, Any] = {"metadata": {"finalizers": [*latest.metadata.finalizers, FINALIZER]}}
            status, answer = await handle.patch_object(CLAIM, latest, patch)
            if status.is_success:
                latest = answer
            else:
                error = f"add finalizer to claim {claim.metadata.name}: {status.message}"
        if not error:
            status, answer = await handle.patch_object(CLAIM, latest, _status_patch(pod, latest, allocation), "status")
            if status.is_success:
                written: ResourceClaim = answer
                return written
            action = "add allocation and reservation to" if allocation is not None else "add reservation to"
            error = f"{action} claim {claim.metadata.name}: {status.message}"
        current = await _read_again(handle, latest)
        if allocation is not None and current.status.allocation == allocation and is_reserved_for(pod, current):
            # The answer was lost, and the write was not.
            return current
        if current.metadata.resource_version == latest.metadata.resource_version or attempt == _TRIES:
            raise BindingFailed(error)
        latest = current
    raise AssertionError("the last try returns or raises")


async def _read_again(handle: Handle, claim: ResourceClaim) -> ResourceClaim:
    name = claim.metadata.name
    status, current = await handle.read_object(CLAIM, claim)
    if not status.is_success:
        raise BindingFailed(f"get updated claim {name} after conflict: {status.message}")
    if current is None:
        raise BindingFailed(f"claim {name} got deleted in the meantime")
    claim_now: ResourceClaim = current
    return claim_now


def _require_usable(claim: ResourceClaim, allocation: ClaimAllocation | None) -> None:
    name = claim.metadata.name
    if claim.metadata.deletion_timestamp is not None:
        raise BindingFailed(f"claim {name} got deleted in the meantime")
    if allocation is not None and claim.status.allocation is not None:
        raise BindingFailed(f"claim {name} got allocated elsewhere in the meantime")
    if allocation is None and claim.status.allocation is None:
        raise BindingFailed(f"claim {name} got deallocated elsewhere in the meantime")


def _status_patch(pod: PodInfo, claim: ResourceClaim, allocation: ClaimAllocation | None) -> dict[str, Any]:
    consumers = list(claim.status.reserved_for)
    if not is_reserved_for(pod, claim):
        consumers.append(ClaimConsumer(resource=POD_RESOURCE, name=pod.name, uid=pod.uid))
    status: dict[str, Any] = {"reservedFor": msgspec.to_builtins(consumers)}
    if allocation is not None:
        status["allocation"] = msgspec.to_builtins(allocation)
    return {"status": status}


async def give_up_reservation(handle: Handle, objects: Objects, pod: PodInfo, claim: ResourceClaim) -> None:
    """Take a pod out of those that a claim is reserved for; the allocation stays. Failures are logged: the
    resourceclaim controller does the same once the pod is gone."""
    latest: ResourceClaim | None = claim
    for _ in range(_TRIES):
        if latest is None or not is_reserved_for(pod, latest):
            return
        consumers = [consumer for consumer in latest.status.reserved_for if consumer.uid != pod.uid]
        patch = {"status": {"reservedFor": msgspec.to_builtins(consumers)}}
        status, answer = await handle.patch_object(CLAIM, latest, patch, "status")
        if status.is_success:
            show(objects, answer)
            return
        read, current = await handle.read_object(CLAIM, latest)
        if not read.is_success or (
            current is not None and current.metadata.resource_version == latest.metadata.resource_version
        ):
            handle.log("warning", "DynamicResources", "a claim stays reserved", claim=claim.metadata.key, pod=pod.key)
            return
        latest = current


async def deallocate(handle: Handle, objects: Objects, claim: ResourceClaim) -> Status:
    """Clear a claim's allocation and reservations, so that it can be allocated for another node."""
    patch = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
    status, answer = await handle.patch_object(CLAIM, claim, patch, "status")
    if not status.is_success:
        return failure(status.message)
    show(objects, answer)
    return SUCCESS


def show(objects: Objects, claim: ResourceClaim) -> None:
    """Have others see what was just written, before the watch brings it."""
    try:
        objects.assume(CLAIM, claim)
    except ValueError:
        # It is gone, or what the watch brought is newer.
        return
