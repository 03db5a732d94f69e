"""What containers request, by the kind that says when they run, and what a node can give."""

import itertools

from scheduler.framework import NO_POD_LEVEL, ContainerResources, PodLevelResources, Resources
from scheduler.kube.model import Pod, of_pod_level, parse_resources


def container_resources(pod: Pod) -> tuple[ContainerResources, ...]:
    """Return what each container requests and its limits, init containers first.

    Raises:
        QuantityError: a quantity cannot be read.
    """
    init = (
        ("sidecar" if container.restart_policy == "Always" else "init", container)
        for container in pod.spec.init_containers
    )
    app = (("app", container) for container in pod.spec.containers)
    return tuple(
        ContainerResources(
            kind,
            parse_resources(container.resources.requests),
            container.name,
            parse_resources(container.resources.limits),
        )
        for kind, container in itertools.chain(init, app)
    )


def pod_level_resources(pod: Pod) -> PodLevelResources:
    """Return what the pod as a whole requests, and its limits.

    Raises:
        QuantityError: a quantity cannot be read.
    """
    resources = pod.spec.resources
    if resources is None:
        return NO_POD_LEVEL
    return PodLevelResources(of_pod_level(resources.requests), of_pod_level(resources.limits))


def covers(available: Resources, wanted: Resources) -> bool:
    """Tell whether amounts suffice for a request; a resource that is not there counts as 0."""
    return all(available.get(name, 0) >= amount for name, amount in wanted.items() if amount > 0)
