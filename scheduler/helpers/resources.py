"""Effective resource requests of a pod (k8s.io/component-helpers/resource, kube-scheduler 1.34).

CPU in milli-units, everything else in whole units; each quantity is rounded up on its own, per container.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from scheduler.framework import ContainerCPU, ContainerResources, Resources
from scheduler.kube.model import Container, ContainerStatus, Pod, ResourceList
from scheduler.kube.primitives import quantity_milli_value, quantity_value

DEFAULT_CPU = 100
"""Milli-units counted for a container that requests no cpu, where an amount of zero would make nodes look idle."""
DEFAULT_MEMORY = 200 * 1024 * 1024
"""Bytes counted for a container that requests no memory."""

_BASIC = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD_LEVEL = ("cpu", "memory")


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


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _set_max(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        if amount > total.get(name, 0) or name not in total:
            total[name] = amount


def _with_default_requests(requests: Mapping[str, int]) -> dict[str, int]:
    return {"cpu": DEFAULT_CPU, "memory": DEFAULT_MEMORY, **requests}


def _aggregate(main: Iterable[Mapping[str, int]], init: Iterable[tuple[Mapping[str, int], bool]]) -> dict[str, int]:
    """Return max(containers + sidecars, peak while initialising); `init` pairs requests with "is a sidecar"."""
    total: dict[str, int] = {}
    for requests in main:
        _add(total, requests)
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for requests, is_sidecar in init:
        if is_sidecar:
            _add(total, requests)
            _add(sidecars, requests)
            _set_max(peak, sidecars)
        else:
            running = dict(requests)
            _add(running, sidecars)
            _set_max(peak, running)
    _set_max(total, peak)
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
            for name, amount in (*actual.items(), *allocated.items()):
                requests[name] = max(requests.get(name, 0), amount)
        yield requests


def pod_requests(pod: Pod, *, use_status: bool = False) -> PodRequests:
    """Return what a pod requests; with `use_status`, what it occupies while it is being resized in place.

    Raises:
        QuantityError: a quantity cannot be read.
    """
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
        # A condition says it since 1.33, a field of the status before.
        infeasible = pod.status.resize == "Infeasible" or any(
            condition.type == "PodResizePending" and condition.reason == "Infeasible"
            for condition in pod.status.conditions
        )
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

    score = {**filled}
    _add(score, overhead)
    pod_level = _pod_level(pod)
    requests = {**containers, **pod_level}
    _add(requests, overhead)
    if pod_level:
        # With pod-level requests the containers' defaults are only for what is missing from the pod's total.
        filled = {name: filled[name] for name in filled if name not in requests}
        nonzero = {**filled, **requests}
    else:
        nonzero = score
    return PodRequests(requests, score, nonzero.get("cpu", 0), nonzero.get("memory", 0))


def pod_limits(pod: Pod) -> dict[str, int]:
    """Return the most that a pod may use of each resource for which it names a limit (PodLimits).

    Raises:
        QuantityError: a quantity cannot be read.
    """
    spec = pod.spec
    if not any(container.resources.limits for container in (*spec.containers, *spec.init_containers)):
        limits: dict[str, int] = {}
    else:
        init = [
            (parse_resources(container.resources.limits), container.restart_policy == "Always")
            for container in spec.init_containers
        ]
        limits = _aggregate([parse_resources(container.resources.limits) for container in spec.containers], init)
    if spec.resources is not None:
        limits |= _of_pod_level(spec.resources.limits)
    if limits:
        overhead = parse_resources(spec.overhead)
        limits = {name: amount + (overhead.get(name, 0) if amount else 0) for name, amount in limits.items()}
    return limits


def _pod_level(pod: Pod) -> dict[str, int]:
    return {} if pod.spec.resources is None else _of_pod_level(pod.spec.resources.requests)


def _of_pod_level(resources: ResourceList) -> dict[str, int]:
    amounts = parse_resources(resources)
    return {name: amount for name, amount in amounts.items() if name in _POD_LEVEL or name.startswith("hugepages-")}


def container_cpu(pod: Pod) -> tuple[ContainerCPU, ...]:
    """Return limit and request of cpu of each main container, None where the key is absent."""
    return tuple(
        ContainerCPU(_cpu(container.resources.limits), _cpu(container.resources.requests))
        for container in pod.spec.containers
    )


def container_resources(pod: Pod) -> tuple[ContainerResources, ...]:
    """Return what each container requests, init containers first.

    Raises:
        QuantityError: a quantity cannot be read.
    """
    init = (
        ("sidecar" if container.restart_policy == "Always" else "init", container)
        for container in pod.spec.init_containers
    )
    app = (("app", container) for container in pod.spec.containers)
    return tuple(
        ContainerResources(kind, parse_resources(container.resources.requests))
        for kind, container in itertools.chain(init, app)
    )


def _cpu(resources: ResourceList) -> int | None:
    amount = resources.get("cpu")
    return None if amount is None else quantity_milli_value(amount)


def covers(available: Resources, wanted: Resources) -> bool:
    """Tell whether amounts suffice for a request; a resource that is not there counts as 0."""
    return all(available.get(name, 0) >= amount for name, amount in wanted.items() if amount > 0)
