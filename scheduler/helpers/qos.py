"""A pod's quality-of-service class (pkg/apis/core/v1/helper/qos of Kubernetes 1.34)."""

from collections.abc import Iterable

from scheduler.kube.model import Pod, ResourceList
from scheduler.kube.primitives import quantity_milli_value

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
_QOS_RESOURCES = ("cpu", "memory")


def qos_class(pod: Pod) -> str:
    """Return the class that follows from a pod's spec, which is what the API server writes into its status.

    Resources of the pod as a whole decide where there are any; else every container must have limits of cpu and
    memory for Guaranteed, and the sums of requests and limits must agree.

    Raises:
        QuantityError: a quantity cannot be read.
    """
    pod_level = pod.spec.resources
    if pod_level is not None:
        requests, limits = _sum_amounts([pod_level.requests]), _sum_amounts([pod_level.limits])
        limited = not pod_level.limits or len(limits) == len(_QOS_RESOURCES)
    else:
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        requests = _sum_amounts(container.resources.requests for container in containers)
        limits = _sum_amounts(container.resources.limits for container in containers)
        limited = all(
            len(_sum_amounts([container.resources.limits])) == len(_QOS_RESOURCES) for container in containers
        )
    if not requests and not limits:
        return BEST_EFFORT
    if limited and requests == limits:
        return GUARANTEED
    return BURSTABLE


def _sum_amounts(lists: Iterable[ResourceList]) -> dict[str, int]:
    """Return the sums of cpu and memory over lists, in thousandths; amounts of zero do not count."""
    total: dict[str, int] = {}
    for resources in lists:
        for name in _QOS_RESOURCES:
            amount = quantity_milli_value(resources.get(name, 0))
            if amount > 0:
                total[name] = total.get(name, 0) + amount
    return total
