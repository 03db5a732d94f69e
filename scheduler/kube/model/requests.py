"""What a pod requests, and its limits, as kube-scheduler and the kubelet count them: sidecars add, resources of the pod
as a whole win, a resize takes the largest (k8s.io/component-helpers/resource).

Everything that counts a pod's requests uses `pod_requests`, mostly through `SpecInfo.requests` (what it will occupy) or
`PodInfo.requests` (what it occupies now). Under `compatibility: upstream` some plugins count otherwise: see
`scheduler.helpers.upstreamsums`.

CPU in milli-units, everything else in whole units; each quantity is rounded up on its own, per container.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from scheduler.kube.model.meta import ResourceList
from scheduler.kube.model.pod import Container, ContainerStatus, Pod, ResourceRequirements
from scheduler.kube.primitives import (
    QuantityFormat,
    format_milli,
    format_value,
    quantity_milli_value,
    quantity_value,
)

DEFAULT_CPU = 100
"""Milli-units counted for a container that requests no cpu, where an amount of zero would make nodes look idle."""
DEFAULT_MEMORY = 200 * 1024 * 1024
"""Bytes counted for a container that requests no memory."""

_BASIC = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD_LEVEL = ("cpu", "memory")
_NOTHING = ResourceRequirements()


class ResizeRules(Protocol):
    """How a version of kube-scheduler counts a pod that is being resized; `KubernetesVersion` is one."""

    @property
    def compares_sums_of_resized(self) -> bool:
        """Whether the largest of the sums over the containers counts, and not the sum of the largest amounts."""

    @property
    def resizes_pods(self) -> bool:
        """Whether the resources of a pod as a whole may be resized."""


class _FirstRules(NamedTuple):
    compares_sums_of_resized: bool = False
    resizes_pods: bool = False


_FIRST_RULES = _FirstRules()
"""Those of 1.34."""


class PodRequests(NamedTuple):
    """What a pod needs, in the three ways kube-scheduler counts it (`SpecInfo` says which is for what)."""

    requests: dict[str, int]
    score_requests: dict[str, int]
    nonzero_cpu: int
    nonzero_memory: int


def is_scalar_resource(name: str) -> bool:
    """Tell whether kube-scheduler accounts for a resource as a scalar one: any but cpu, memory,
    ephemeral-storage and pods (schedutil.IsScalarResourceName)."""
    if name.startswith(("hugepages-", "attachable-volumes-")):
        return True
    prefix, slash, _ = name.partition("/")
    if not slash:
        return False
    if "kubernetes.io/" in name:
        return True
    return not prefix.startswith("requests.")


def parse_resources(resources: ResourceList) -> dict[str, int]:
    """Return the amounts of the resources that count, negative ones as 0."""
    return {
        name: max(0, quantity_milli_value(amount) if name == "cpu" else quantity_value(amount))
        for name, amount in resources.items()
        if name in _BASIC or is_scalar_resource(name)
    }


def add_amounts(total: dict[str, int], amounts: Mapping[str, int], sign: int = 1) -> None:
    """Add amounts to a total, or subtract them (`sign` -1)."""
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + sign * amount


def raise_amounts(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    """Raise amounts to those that are larger, and take in those that are missing."""
    for name, amount in amounts.items():
        if amount > total.get(name, 0) or name not in total:
            total[name] = amount


def _with_default_requests(requests: Mapping[str, int]) -> dict[str, int]:
    return {"cpu": DEFAULT_CPU, "memory": DEFAULT_MEMORY, **requests}


def _aggregate(main: Iterable[Mapping[str, int]], init: Iterable[tuple[Mapping[str, int], bool]]) -> dict[str, int]:
    """Return max(containers + sidecars, peak while initialising); `init` pairs requests with "is a sidecar"."""
    total: dict[str, int] = {}
    for requests in main:
        add_amounts(total, requests)
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for requests, is_sidecar in init:
        if is_sidecar:
            add_amounts(total, requests)
            add_amounts(sidecars, requests)
            raise_amounts(peak, sidecars)
        else:
            running = dict(requests)
            add_amounts(running, sidecars)
            raise_amounts(peak, running)
    raise_amounts(total, peak)
    return total


def _requests(
    containers: Iterable[Container], statuses: Mapping[str, ContainerStatus], infeasible: bool
) -> Iterator[dict[str, int]]:
    for container in containers:
        requests = parse_resources(container.resources.requests)
        status = statuses.get(container.name)
        if status is not None and status.resources is not None:
            actual = parse_resources(status.resources.requests)
            allocated = parse_resources(status.allocated_resources)
            if infeasible:
                requests = {}
            raise_amounts(requests, actual)
            raise_amounts(requests, allocated)
        yield requests


def pod_requests(pod: Pod, *, use_status: bool = False, rules: ResizeRules = _FIRST_RULES) -> PodRequests:
    """Return what a pod requests; with `use_status`, what it occupies while it is being resized in place, by the rules
    of a version of kube-scheduler.

    Raises:
        QuantityError: a quantity cannot be read.
    """
    if use_status and rules.compares_sums_of_resized:
        return _requests_of_resized(pod, rules)
    main_statuses: dict[str, ContainerStatus] = {}
    init_statuses: dict[str, ContainerStatus] = {}
    infeasible = False
    if use_status:
        main_statuses = {status.name: status for status in pod.status.container_statuses}
        # What ordinary init containers were given is over: only sidecars are resized.
        sidecars = {container.name for container in pod.spec.init_containers if container.restart_policy == "Always"}
        init_statuses = {
            status.name: status for status in pod.status.init_container_statuses if status.name in sidecars
        }
        infeasible = _is_infeasible(pod)
    spec = pod.spec
    main = list(_requests(spec.containers, main_statuses, infeasible))
    sidecar = [container.restart_policy == "Always" for container in spec.init_containers]
    init = list(zip(_requests(spec.init_containers, init_statuses, infeasible), sidecar, strict=True))
    overhead = parse_resources(spec.overhead)
    containers = _aggregate(main, init)
    filled = _aggregate(
        map(_with_default_requests, main),
        [(_with_default_requests(requests), is_sidecar) for requests, is_sidecar in init],
    )
    return _with_pod_level(containers, filled, overhead, _pod_level(pod, use_status and rules.resizes_pods))


def _with_pod_level(
    containers: dict[str, int], filled: dict[str, int], overhead: Mapping[str, int], pod_level: Mapping[str, int]
) -> PodRequests:
    """Return the requests of a pod: those of the pod as a whole replace its containers'; `filled` are those with
    defaults."""
    score = {**filled}
    add_amounts(score, overhead)
    requests = {**containers, **pod_level}
    add_amounts(requests, overhead)
    if pod_level:
        # With pod-level requests the containers' defaults are only for what is missing from the pod's total.
        filled = {name: filled[name] for name in filled if name not in requests}
        nonzero = {**filled, **requests}
    else:
        nonzero = score
    return PodRequests(requests, score, nonzero.get("cpu", 0), nonzero.get("memory", 0))


def _requests_of_resized(pod: Pod, rules: ResizeRules) -> PodRequests:
    """Return what a pod occupies since 1.37 (AggregateContainerRequests with status): the largest of three sums."""
    infeasible = _is_infeasible(pod)
    statuses = {status.name: status for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)}
    specified: tuple[_Source, ...] = () if infeasible else (_specified,)
    status = pod.status
    # The sums over all containers, as the kubelet says; else those of its words on each container.
    sums: list[Mapping[str, int]] = []
    if status.allocated_resources and status.resources is not None and status.resources.requests:
        sums = [parse_resources(status.allocated_resources), parse_resources(status.resources.requests)]
    sources = specified if sums else (*specified, _granted, _in_effect)

    def most(default: Callable[[Mapping[str, int]], Mapping[str, int]]) -> dict[str, int]:
        total: dict[str, int] = {}
        for source in sources:

            def amounts(container: Container, source: _Source = source) -> Mapping[str, int]:
                return default(source(container, statuses.get(container.name), infeasible))

            init = [
                (amounts(container), container.restart_policy == "Always") for container in pod.spec.init_containers
            ]
            raise_amounts(total, _aggregate(map(amounts, pod.spec.containers), init))
        for amount in sums:
            raise_amounts(total, amount)
        return total

    overhead = parse_resources(pod.spec.overhead)
    return _with_pod_level(most(dict), most(_with_default_requests), overhead, _pod_level(pod, True, every=True))


_Source = Callable[[Container, ContainerStatus | None, bool], Mapping[str, int]]


def _specified(container: Container, status: ContainerStatus | None, infeasible: bool) -> Mapping[str, int]:
    return parse_resources(container.resources.requests)


def _granted(container: Container, status: ContainerStatus | None, infeasible: bool) -> Mapping[str, int]:
    if status is not None and status.allocated_resources:
        return parse_resources(status.allocated_resources)
    return {} if infeasible else parse_resources(container.resources.requests)


def _in_effect(container: Container, status: ContainerStatus | None, infeasible: bool) -> Mapping[str, int]:
    if status is not None and status.resources is not None and status.resources.requests:
        return parse_resources(status.resources.requests)
    return _granted(container, status, infeasible)


def _is_infeasible(pod: Pod) -> bool:
    """Tell whether the kubelet cannot do a resize: a condition says it since 1.33, a field of the status before."""
    if pod.status.resize == "Infeasible":
        return True
    for condition in pod.status.conditions:
        if condition.type == "PodResizePending" and condition.reason == "Infeasible":
            return True
    return False


def runs_as_specified(pod: Pod) -> bool:
    """Tell whether what the kubelet says of a pod's resources is what its spec says, so that the pod occupies what it
    requests, in every version; False where that takes a closer look.

    Kubelets since 1.33 repeat the resources of each container in its status, so this holds for nearly every pod that
    runs, and costs a tenth of counting twice.
    """
    status = pod.status
    if status.resources is not None or status.allocated_resources or _is_infeasible(pod):
        return False
    specified: dict[str, ResourceRequirements] | None = None
    for container in (*status.container_statuses, *status.init_container_statuses):
        actual = container.resources
        if actual is None and not container.allocated_resources:
            continue
        if specified is None:
            specified = {
                container.name: container.resources for container in (*pod.spec.init_containers, *pod.spec.containers)
            }
        required = specified.get(container.name, _NOTHING)
        if container.allocated_resources and container.allocated_resources != required.requests:
            return False
        if actual is not None and (
            (actual.requests and actual.requests != required.requests)
            or (actual.limits and actual.limits != required.limits)
        ):
            return False
    return True


def pod_limits(pod: Pod, *, use_status: bool = False, rules: ResizeRules = _FIRST_RULES) -> dict[str, int]:
    """Return the most that a pod may use of each resource for which it names a limit (PodLimits); with `use_status`,
    while it is being resized in place.

    Raises:
        QuantityError: a quantity cannot be read.
    """
    spec = pod.spec
    statuses: dict[str, ContainerStatus] = {}
    infeasible = False
    if use_status:
        statuses = {
            status.name: status for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
        }
        infeasible = _is_infeasible(pod)
    main = [_limits(container, statuses.get(container.name), infeasible) for container in spec.containers]
    init = [
        (_limits(container, statuses.get(container.name) if sidecar else None, infeasible), sidecar)
        for container in spec.init_containers
        for sidecar in (container.restart_policy == "Always",)
    ]
    limits = _aggregate(main, init)
    if spec.resources is not None:
        of_pod = of_pod_level(spec.resources.limits)
        actual = pod.status.resources
        if use_status and rules.resizes_pods and actual is not None and of_pod:
            granted = of_pod_level(actual.limits)
            of_pod = granted if infeasible and granted else of_pod
            raise_amounts(of_pod, granted)
        limits |= of_pod
    if limits:
        overhead = parse_resources(spec.overhead)
        limits = {name: amount + (overhead.get(name, 0) if amount else 0) for name, amount in limits.items()}
    return limits


def _limits(container: Container, status: ContainerStatus | None, infeasible: bool) -> dict[str, int]:
    limits = parse_resources(container.resources.limits)
    if status is None or status.resources is None:
        return limits
    actual = parse_resources(status.resources.limits)
    if infeasible:
        return actual
    raise_amounts(limits, actual)
    return limits


def _pod_level(pod: Pod, resized: bool, *, every: bool = False) -> dict[str, int]:
    """Return what a pod requests as a whole; where it may be `resized`, the most of that and of what it was given: of
    `every` resource, or of those that it requests."""
    if pod.spec.resources is None:
        return {}
    required = of_pod_level(pod.spec.resources.requests)
    status = pod.status
    if not resized or status.resources is None or not required:
        return required
    total = {} if _is_infeasible(pod) else dict(required)
    for amounts in (status.resources.requests, status.allocated_resources):
        raise_amounts(total, of_pod_level(amounts))
    return total if every else {name: total.get(name, 0) for name in required}


def of_pod_level(resources: ResourceList) -> dict[str, int]:
    """Return the amounts of the resources that a pod may have as a whole."""
    amounts = parse_resources(resources)
    return {name: amount for name, amount in amounts.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


def amount_text(resource: str, amount: int) -> str:
    """Return an amount as it stands in an object, such as 1500m or 2Gi."""
    if resource == "cpu":
        return format_milli(amount)
    is_bytes = resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")
    return format_value(amount, QuantityFormat.BINARY_SI if is_bytes else QuantityFormat.DECIMAL_SI)
