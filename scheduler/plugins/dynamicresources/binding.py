"""Writing what was reserved: finalizer, allocation and reservation of each claim (bindClaim of kube-scheduler).

Two writes per claim that is to be allocated, as the finalizer must be there before the allocation. Each is a patch of
the version that is known; after a conflict the claim is read again, and what has happened to it decides.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler import framework as fw
from scheduler.kube.model import ClaimAllocation, ClaimDeviceStatus, DeviceResult, ResourceClaim
from scheduler.kube.primitives import epoch_seconds
from scheduler.plugins.dynamicresources.results import CLAIM, is_reserved_for, with_user

# Binding conditions: devices that have to be made ready after they were allocated, such as those of a fabric. A
# driver reports in the claim's status when a device is ready, or that it will not be (isClaimReadyForBinding of kube-
# scheduler 1.36). Until then the pod is not bound.

DEFAULT_TIMEOUT = 600.0
_FIRST_STATUS_PAUSE, _MAX_STATUS_PAUSE = 0.1, 5.0
_MAX_MESSAGE = 500


class BindingConditionFailed(Exception):
    """A device will not be ready, or is not in time; the text is upstream's.

    Attributes:
        outcome: of the wait, as metrics call it: `failure`, `timeout` or `error`.
    """

    def __init__(self, outcome: str, text: str) -> None:
        super().__init__(text)
        self.outcome = outcome


def has_conditions(claim: ResourceClaim) -> bool:
    """Tell whether a device of a claim has to be made ready."""
    allocation = claim.status.allocation
    return allocation is not None and any(result.binding_conditions for result in allocation.devices.results)


def is_ready(claim: ResourceClaim) -> bool:
    """Tell whether all devices of an allocated claim are ready.

    Raises:
        BindingConditionFailed: a driver says that one will not be.
    """
    if claim.status.allocation is None:
        return False
    for result in claim.status.allocation.devices.results:
        if not result.binding_conditions:
            continue
        status = _status_of(result, claim.status.devices)
        if status is None:
            return False
        conditions = {condition.type: condition for condition in status.conditions}
        for name in result.binding_failure_conditions:
            failed = conditions.get(name)
            if failed is not None and failed.status == "True":
                message = failed.message.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
                raise BindingConditionFailed(
                    "failure",
                    f"device binding failed: claim={claim.metadata.name}, reason={failed.reason}, "
                    f'message="{message[:_MAX_MESSAGE]}"',
                )
        if any(name not in conditions or conditions[name].status != "True" for name in result.binding_conditions):
            return False
    return True


def _status_of(result: DeviceResult, statuses: Iterable[ClaimDeviceStatus]) -> ClaimDeviceStatus | None:
    wanted = (result.driver, result.pool, result.device, result.share_id)
    return next((each for each in statuses if (each.driver, each.pool, each.device, each.share_id) == wanted), None)


def is_late(claim: ResourceClaim, now: float, timeout: float) -> bool:
    """Tell whether the devices of a claim have had their time to become ready."""
    allocation = claim.status.allocation
    if allocation is None or not allocation.allocation_timestamp or not has_conditions(claim):
        return False
    try:
        allocated_at = epoch_seconds(allocation.allocation_timestamp)
    except ValueError:
        return False
    return allocated_at + timeout < now


def will_not_be_ready(claim: ResourceClaim, now: float, timeout: float) -> bool:
    """Tell whether a claim needs other devices."""
    try:
        return has_conditions(claim) and not is_ready(claim) and is_late(claim, now, timeout)
    except BindingConditionFailed:
        return True


async def wait_until_ready(
    handle: fw.Handle, objects: fw.Objects, pod: fw.PodInfo, node: str, claims: Sequence[ResourceClaim], timeout: float
) -> fw.Status:
    """Wait until the devices of a pod's claims are ready; an error where one will not be, or `timeout` is over.

    How the wait ended is counted per device, and how long it was.
    """
    latest = [_latest(objects, claim) for claim in claims]
    if not any(claim is not None and has_conditions(claim) for claim in latest):
        return fw.SUCCESS
    began = handle.monotonic()
    outcome = "error"
    try:
        await _wait(handle, objects, pod, node, claims, timeout)
        outcome = "success"
    except BindingConditionFailed as error:
        outcome = error.outcome
        return fw.failure(str(error))
    finally:
        latest = [_latest(objects, claim) for claim in claims]
        _measure(handle, pod, latest, outcome, handle.monotonic() - began)
    return fw.SUCCESS


async def _wait(
    handle: fw.Handle, objects: fw.Objects, pod: fw.PodInfo, node: str, claims: Sequence[ResourceClaim], timeout: float
) -> None:
    note = f"waiting for binding conditions for device on node {node}"
    handle.event(pod, "Normal", "BindingConditionsPending", "Scheduling", note)
    deadline, pause = handle.monotonic() + timeout, _FIRST_STATUS_PAUSE
    while True:
        if _all_ready(claims, lambda claim: _latest(objects, claim), handle.now(), timeout):
            return
        if handle.monotonic() >= deadline:
            raise BindingConditionFailed("timeout", "device binding timeout: context deadline exceeded")
        await handle.pause(min(pause, max(0.0, deadline - handle.monotonic())))
        pause = min(2 * pause, _MAX_STATUS_PAUSE)


def _measure(
    handle: fw.Handle, pod: fw.PodInfo, claims: Iterable[ResourceClaim | None], outcome: str, seconds: float
) -> None:
    for claim in claims:
        if claim is None or claim.status.allocation is None:
            continue
        for result in claim.status.allocation.devices.results:
            labels = (pod.scheduler_name, result.driver, outcome)
            handle.measure("scheduler_dra_bindingconditions_wait_duration_seconds", seconds, *labels)
            if result.binding_conditions:
                handle.measure("scheduler_dra_bindingconditions_allocations_total", 1, *labels)


def _all_ready(
    claims: Iterable[ResourceClaim], latest: Callable[[ResourceClaim], ResourceClaim | None], now: float, timeout: float
) -> bool:
    for claim in claims:
        current = latest(claim)
        if current is None:
            raise BindingConditionFailed("error", f'could not find ResourceClaim "{claim.metadata.key}"')
        if not is_ready(current):
            if is_late(current, now, timeout):
                text = f"device binding timeout: claim={current.metadata.name}"
                raise BindingConditionFailed("timeout", text)
            return False
    return True


def _latest(objects: fw.Objects, claim: ResourceClaim) -> ResourceClaim | None:
    current: ResourceClaim | None = objects.latest(CLAIM, claim.metadata.namespace, claim.metadata.name)
    return current if current is not None and current.metadata.uid == claim.metadata.uid else None


FINALIZER = "resource.kubernetes.io/delete-protection"
LANDING_SECONDS: Final = 75.0
"""For how long after we stopped waiting for it a write may still be carried out, as for a Binding."""
_TRIES: Final = 5
_WATCH_SECONDS: Final = 120.0
_FIRST_PAUSE: Final = 0.01
_PAUSES: Final = (0.1, 0.5, 2.0, 5.0, 10.0)
"""Seconds before the next try of a write, or of a read, whose answer was lost."""


class ClaimBindingFailed(Exception):
    """The claim is not the pod's: it has to be scheduled again."""


async def bind_claim(
    handle: fw.Handle, pod: fw.PodInfo, claim: ResourceClaim, allocation: ClaimAllocation | None
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
    lands_until: fw.MonotonicSeconds | None = None
    for attempt in range(1, _TRIES + 1):
        _require_usable(latest, allocation)
        status, latest = await _write(handle, pod, latest, allocation)
        if status.is_success:
            return latest
        if allocation is not None and isinstance(status, fw.UnknownOutcome):
            lands_until = handle.monotonic() + LANDING_SECONDS
        current = await _read_again(handle, latest, patiently=lands_until is not None)
        if _is_written(pod, current, allocation):
            return current
        if current.metadata.resource_version != latest.metadata.resource_version:
            # What was written for the version before cannot be carried out any more.
            lands_until, latest = None, current
        elif lands_until is None:
            raise ClaimBindingFailed(status.message)
        elif attempt < _TRIES:
            await handle.pause(_PAUSES[attempt - 1], to_end=True)
    if lands_until is not None:
        await handle.pause(max(0.0, lands_until - handle.monotonic()), to_end=True)
        current = await _read_again(handle, latest, patiently=True)
        if _is_written(pod, current, allocation):
            return current
    raise ClaimBindingFailed(status.message)


async def _write(
    handle: fw.Handle, pod: fw.PodInfo, claim: ResourceClaim, allocation: ClaimAllocation | None
) -> tuple[fw.Status, ResourceClaim]:
    """Write a claim's finalizer and status; return the claim then, or what failed and the claim before."""
    name = claim.metadata.key
    if allocation is not None and FINALIZER not in claim.metadata.finalizers:
        patch: dict[str, Any] = {"metadata": {"finalizers": [*claim.metadata.finalizers, FINALIZER]}}
        status, answer = await handle.patch_object(CLAIM, claim, patch)
        if not status.is_success:
            return fw.failure(f"add finalizer to claim {name}: {status.message}"), claim
        claim = answer
    status, answer = await handle.patch_object(CLAIM, claim, _status_patch(pod, claim, allocation), "status")
    if status.is_success:
        return fw.SUCCESS, answer
    action = "add allocation and reservation to" if allocation is not None else "add reservation to"
    return replace(status, error=f"{action} claim {name}: {status.message}"), claim


def _is_written(pod: fw.PodInfo, claim: ResourceClaim, allocation: ClaimAllocation | None) -> bool:
    """Tell whether a claim is as it was to be: the answer was lost, and the write was not."""
    written = claim.status.allocation
    if allocation is None or written is None or not is_reserved_for(pod, claim):
        return False
    return (written.devices, written.node_selector) == (allocation.devices, allocation.node_selector)


async def _read_again(handle: fw.Handle, claim: ResourceClaim, *, patiently: bool) -> ResourceClaim:
    """Return a claim as it is now.

    `patiently`: an allocation may have been written. Until it is known, its devices are in use: it is read until an
    answer comes, however long that takes, as the engine does for a Binding.
    """
    name = claim.metadata.key
    for attempt in itertools.count():
        status, current = await handle.read_object(CLAIM, claim)
        if status.is_success:
            break
        if not patiently:
            raise ClaimBindingFailed(f"get updated claim {name} after conflict: {status.message}")
        if attempt == 0:
            message = "it is not known whether a claim was allocated; its devices stay in use until it can be read"
            handle.log("warning", "DynamicResources", message, claim=claim.metadata.key, error=status.message)
        await handle.pause(_PAUSES[min(attempt, len(_PAUSES) - 1)], to_end=True)
    if current is None:
        raise ClaimBindingFailed(f"claim {name} got deleted in the meantime")
    claim_now: ResourceClaim = current
    return claim_now


def _require_usable(claim: ResourceClaim, allocation: ClaimAllocation | None) -> None:
    name = claim.metadata.key
    if claim.metadata.deletion_timestamp is not None:
        raise ClaimBindingFailed(f"claim {name} got deleted in the meantime")
    if allocation is not None and claim.status.allocation is not None:
        raise ClaimBindingFailed(f"claim {name} got allocated elsewhere in the meantime")
    if allocation is None and claim.status.allocation is None:
        raise ClaimBindingFailed(f"claim {name} got deallocated elsewhere in the meantime")


def _status_patch(pod: fw.PodInfo, claim: ResourceClaim, allocation: ClaimAllocation | None) -> dict[str, Any]:
    status: dict[str, Any] = {"reservedFor": msgspec.to_builtins(with_user(claim.status, pod).reserved_for)}
    if allocation is not None:
        status["allocation"] = msgspec.to_builtins(allocation)
    return {"status": status}


async def give_up_reservation(handle: fw.Handle, objects: fw.Objects, pod: fw.PodInfo, claim: ResourceClaim) -> None:
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


async def deallocate(handle: fw.Handle, objects: fw.Objects, claim: ResourceClaim) -> fw.Status:
    """Clear a claim's allocation and reservations, so that it can be allocated for another node."""
    patch = {"status": {"allocation": None, "reservedFor": None, "devices": None}}
    status, answer = await handle.patch_object(CLAIM, claim, patch, "status")
    if not status.is_success:
        return fw.failure(status.message)
    show(objects, answer)
    return fw.SUCCESS


async def show_once_known(handle: fw.Handle, objects: fw.Objects, claim: ResourceClaim) -> None:
    """Have others see what was just written into a claim that was just created, once the watch has brought the claim.

    Until then its devices are in use only because the caller says so. The wait is two minutes at most, as upstream's.
    """
    meta, pause = claim.metadata, _FIRST_PAUSE
    until = handle.monotonic() + _WATCH_SECONDS
    while objects.latest(CLAIM, meta.namespace, meta.name) is None and handle.monotonic() < until:
        await handle.pause(pause, to_end=True)
        pause = min(2 * pause, 1.0)
    show(objects, claim)


def show(objects: fw.Objects, claim: ResourceClaim) -> None:
    """Have others see what was just written, before the watch brings it."""
    try:
        objects.assume(CLAIM, claim)
    except ValueError:
        # It is gone, or what the watch brought is newer.
        return
