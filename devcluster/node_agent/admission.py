"""What a kubelet refuses a pod, or its resize, for: room that other pods have taken. Pure.

The rules, their order and their words are kubelet's (k8s.io/kubernetes v1.34.4: pkg/kubelet/lifecycle/predicate.go,
Admit; pkg/scheduler/framework/plugins/noderesources/fit.go, fitsRequest; pkg/kubelet/allocation/allocation_manager.go,
canResizePod). It is written here once more, on plain objects,
instead of taken from the scheduler: a kubelet that shared the scheduler's sums would never disagree with it.

Not checked, as this node has no use for it: node affinity, host ports, NoExecute taints, volume limits, devices. A
critical pod is admitted without room, as by kubelet, but no other pod is ended for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from devcluster.node_agent.objects import Obj, is_sidecar
from scheduler.kube.primitives import quantity

Amounts = Mapping[str, int]
"""By resource; CPU in thousandths, everything else in its unit."""
_NATIVE = ("cpu", "memory", "ephemeral-storage")
_SYSTEM_CRITICAL = 2_000_000_000


@dataclass(frozen=True, slots=True)
class AdmissionRejection:
    """Why a pod is not admitted: `status.reason`, and the message of the Event. Why it is not resized: reason and
    message of its condition PodResizePending."""

    reason: str
    message: str


def amounts(resources: Mapping[str, str] | None) -> dict[str, int]:
    """Read a list of resources, such as requests or a node's allocatable."""
    return {
        name: quantity.quantity_milli_value(value) if name == "cpu" else quantity.quantity_value(value)
        for name, value in (resources or {}).items()
    }


def pod_requests(spec: Obj) -> dict[str, int]:
    """Return what a pod occupies: the sum of its containers and sidecars, or what initializing it takes, if that is
    more; requests of the pod as a whole replace both, and its overhead comes on top."""
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _container(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        requested = _container(container)
        if is_sidecar(container):
            _add(total, requested)
            _add(sidecars, requested)
            running = dict(sidecars)
        else:
            running = dict(sidecars)
            _add(running, requested)
        peak = {name: max(peak.get(name, 0), running.get(name, 0)) for name in peak | running}
    total = {name: max(total.get(name, 0), peak.get(name, 0)) for name in total | peak}
    total |= amounts((spec.get("resources") or {}).get("requests"))
    _add(total, amounts(spec.get("overhead")))
    return total


def rejection(spec: Obj, others: Iterable[Amounts], allocatable: Amounts) -> AdmissionRejection | None:
    """Return why a pod is not admitted beside others; None if it is.

    Args:
        spec: of the pod.
        others: what the pods that were admitted before, and have not ended, occupy.
        allocatable: of the node, with `pods`.
    """
    if (spec.get("priority") or 0) >= _SYSTEM_CRITICAL:
        return None
    used: dict[str, int] = {}
    count = 0
    for other in others:
        count += 1
        _add(used, other)
    if count + 1 > allocatable.get("pods", 0):
        return _insufficient("pods", 1, count, allocatable.get("pods", 0))
    requested = pod_requests(spec)
    for name in (*_NATIVE, *sorted(requested.keys() - {*_NATIVE})):
        # An extended resource that the node does not have may be one of the cluster's, or a device of a claim.
        if name not in allocatable and name not in _NATIVE:
            continue
        request, room = requested.get(name, 0), allocatable.get(name, 0) - used.get(name, 0)
        if request > 0 and request > room:
            return _insufficient(name, request, used.get(name, 0), allocatable.get(name, 0))
    return None


def resize_obstacle(spec: Obj, others: Iterable[Amounts], allocatable: Amounts) -> AdmissionRejection | None:
    """Return why a running pod cannot have what its spec requests now; None if it can.

    `Infeasible`: never on this node; `Deferred`: not beside the others. The arguments are those of `rejection`.
    """
    requested = pod_requests(spec)
    for name in ("memory", "cpu"):
        if requested.get(name, 0) > allocatable.get(name, 0):
            numbers = f"requested: {requested[name]}, capacity: {allocatable.get(name, 0)}"
            return AdmissionRejection("Infeasible", f"Node didn't have enough capacity: {name}, {numbers}")
    lacking = rejection(spec, others, allocatable)
    return None if lacking is None else AdmissionRejection("Deferred", lacking.message)


def _insufficient(resource: str, requested: int, used: int, capacity: int) -> AdmissionRejection:
    numbers = f"requested: {requested}, used: {used}, capacity: {capacity}"
    return AdmissionRejection(f"OutOf{resource}", f"Node didn't have enough resource: {resource}, {numbers}")


def _container(container: Obj) -> dict[str, int]:
    return amounts((container.get("resources") or {}).get("requests"))


def _add(total: dict[str, int], requested: Amounts) -> None:
    for name, amount in requested.items():
        total[name] = total.get(name, 0) + amount
