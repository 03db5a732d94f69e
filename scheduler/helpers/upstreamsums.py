"""The sums by which scheduler-plugins 0.34.7 counts what a pod requests: read under `compatibility: upstream` only.

None of them is the kubelet's. Everything else counts `SpecInfo.requests` and `limits` (docs/differences.md). CPU in
milli-units, all other resources in whole units.
"""

from collections.abc import Callable
from functools import lru_cache

from scheduler.framework import ContainerResources, PodAmount, PodInfo, Resources, SpecInfo
from scheduler.kube.model import add_amounts, raise_amounts


@lru_cache(maxsize=4096)
def upstream_requests(spec: SpecInfo) -> Resources:
    """Return the main containers' sum, or a single init container where that asks for more, sidecars being such; and
    the overhead. Resources of the pod as a whole do not count.

    GetResourceRequested of pkg/trimaran/resourcestats.go, computePodResourceRequest of pkg/capacityscheduling and
    GetPodEffectiveRequest of pkg/util/resource.go are the same rule.
    """
    return _effective(spec, lambda container: container.requests)


@lru_cache(maxsize=4096)
def upstream_limits(spec: SpecInfo) -> Resources:
    """Return the same of limits, with the overhead (GetResourceLimits of pkg/trimaran/resourcestats.go)."""
    return _effective(spec, lambda container: container.limits)


def upstream_quantity_of_cpu(spec: SpecInfo) -> int:
    """Return the CPU that Peaks counts (GetResourceRequestQuantity of k8s.io/kubernetes/pkg/api/v1/resource): sidecars
    add, resources of the pod as a whole replace its containers' even where they name no CPU, and the overhead counts
    only beside a request."""
    if spec.pod_level.requests or spec.pod_level.limits:
        total = spec.pod_level.requests.get("cpu", 0)
    else:
        main = sidecars = peak = 0
        for container in spec.containers:
            amount = container.requests.get("cpu", 0)
            if container.kind == "app":
                main += amount
            elif container.kind == "sidecar":
                sidecars += amount
                peak = max(peak, sidecars)
            else:
                peak = max(peak, sidecars + amount)
        total = max(main + sidecars, peak)
    return total + spec.overhead.get("cpu", 0) if total else 0


def upstream_amounts(resource: str) -> tuple[PodAmount, PodAmount]:
    """Return what LowRiskOverCommitment sums up over a node's pods: the request, and the limit, which is at least the
    request."""

    def request(pod: PodInfo) -> int:
        return upstream_requests(pod.spec).get(resource, 0)

    def limit(pod: PodInfo) -> int:
        return max(upstream_limits(pod.spec).get(resource, 0), request(pod))

    return request, limit


def _effective(spec: SpecInfo, amounts: Callable[[ContainerResources], Resources]) -> Resources:
    total: dict[str, int] = {}
    largest: dict[str, int] = {}
    for container in spec.containers:
        if container.kind == "app":
            add_amounts(total, amounts(container))
        else:
            raise_amounts(largest, amounts(container))
    raise_amounts(total, largest)
    add_amounts(total, spec.overhead)
    return total
