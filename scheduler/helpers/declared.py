"""What a pod's containers declare: requests and limits as the load-aware plugins count them.

From scheduler-plugins v0.34.7, pkg/trimaran/resourcestats.go, and k8s.io/kubernetes/pkg/api/v1/resource.
"""

from collections.abc import Callable, Iterable

from scheduler.framework import Declared
from scheduler.kube.model import Container, Pod, ResourceList
from scheduler.kube.primitives import quantity_milli_value, quantity_value

_Amounts = tuple[int, int]
"""CPU in milli-units and memory in bytes."""


def effective_requests(pod: Pod) -> _Amounts:
    """Return a pod's requests of CPU (milli-units) and memory (bytes), as `Declared` counts them."""
    return _effective(pod, lambda container: container.resources.requests)


def effective_limits(pod: Pod) -> _Amounts:
    """Return a pod's limits, before they are raised to the requests."""
    return _effective(pod, lambda container: container.resources.limits)


def declared(pod: Pod) -> Declared:
    """Return what the pod's containers declare."""
    cpu, memory = effective_requests(pod)
    cpu_limit, memory_limit = effective_limits(pod)
    return Declared(cpu, memory, max(cpu, cpu_limit), max(memory, memory_limit), _peak_cpu(pod))


def _effective(pod: Pod, amounts: Callable[[Container], ResourceList]) -> _Amounts:
    cpu, memory = _sum(amounts(container) for container in pod.spec.containers)
    for container in pod.spec.init_containers:
        init_cpu, init_memory = _sum((amounts(container),))
        cpu, memory = max(cpu, init_cpu), max(memory, init_memory)
    overhead_cpu, overhead_memory = _sum((pod.spec.overhead,))
    return cpu + overhead_cpu, memory + overhead_memory


def _sum(lists: Iterable[ResourceList]) -> _Amounts:
    cpu = memory = 0
    for amounts in lists:
        cpu += quantity_milli_value(amounts["cpu"]) if "cpu" in amounts else 0
        memory += quantity_value(amounts["memory"]) if "memory" in amounts else 0
    return cpu, memory


def _peak_cpu(pod: Pod) -> int:
    """k8s.io/kubernetes/pkg/api/v1/resource GetResourceRequestQuantity for cpu."""
    overhead = _sum((pod.spec.overhead,))[0]
    pod_level = pod.spec.resources
    if pod_level is not None and any(_is_pod_level(name) for name in (*pod_level.requests, *pod_level.limits)):
        # Pod-level resources replace those of the containers, even where they name no cpu.
        total = _sum((pod_level.requests,))[0]
        return total + overhead if total else 0
    total = _sum(container.resources.requests for container in pod.spec.containers)[0]
    sidecars = peak = 0
    for container in pod.spec.init_containers:
        amount = _sum((container.resources.requests,))[0]
        if container.restart_policy == "Always":
            total += amount
            sidecars += amount
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + amount)
    total = max(total, peak)
    return total + overhead if total else 0


def _is_pod_level(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")
