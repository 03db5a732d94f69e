"""Binding conditions: devices that have to be made ready after they were allocated, such as those of a fabric.

A driver reports in the claim's status when a device is ready, or that it will not be (isClaimReadyForBinding of
kube-scheduler 1.36). Until then the pod is not bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from scheduler.framework import SUCCESS, Handle, Objects, PodInfo, Status, failure
from scheduler.kube.model import ClaimDeviceStatus, DeviceResult, ResourceClaim
from scheduler.kube.primitives import epoch_seconds
from scheduler.plugins.dynamicresources.claims import CLAIM

DEFAULT_TIMEOUT = 600.0
_FIRST_PAUSE, _MAX_PAUSE = 0.1, 5.0
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
    handle: Handle, objects: Objects, pod: PodInfo, node: str, claims: Sequence[ResourceClaim], timeout: float
) -> Status:
    """Wait until the devices of a pod's claims are ready; an error where one will not be, or `timeout` is over.

    How the wait ended is counted per device, and how long it was.
    """
    latest = [_latest(objects, claim) for claim in claims]
    if not any(claim is not None and has_conditions(claim) for claim in latest):
        return SUCCESS
    began = handle.monotonic()
    outcome = "error"
    try:
        await _wait(handle, objects, pod, node, claims, timeout)
        outcome = "success"
    except BindingConditionFailed as error:
        outcome = error.outcome
        return failure(str(error))
    finally:
        latest = [_latest(objects, claim) for claim in claims]
        _measure(handle, pod, latest, outcome, handle.monotonic() - began)
    return SUCCESS


async def _wait(
    handle: Handle, objects: Objects, pod: PodInfo, node: str, claims: Sequence[ResourceClaim], timeout: float
) -> None:
    note = f"waiting for binding conditions for device on node {node}"
    handle.event(pod, "Normal", "BindingConditionsPending", "Scheduling", note)
    deadline, pause = handle.monotonic() + timeout, _FIRST_PAUSE
    while True:
        if _all_ready(claims, lambda claim: _latest(objects, claim), handle.now(), timeout):
            return
        if handle.monotonic() >= deadline:
            raise BindingConditionFailed("timeout", "device binding timeout: context deadline exceeded")
        await handle.pause(min(pause, max(0.0, deadline - handle.monotonic())))
        pause = min(2 * pause, _MAX_PAUSE)


def _measure(
    handle: Handle, pod: PodInfo, claims: Iterable[ResourceClaim | None], outcome: str, seconds: float
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


def _latest(objects: Objects, claim: ResourceClaim) -> ResourceClaim | None:
    current: ResourceClaim | None = objects.latest(CLAIM, claim.metadata.namespace, claim.metadata.name)
    return current if current is not None and current.metadata.uid == claim.metadata.uid else None
