"""Which pods an agent's numbers include."""

import itertools
from collections.abc import Collection, Iterator

from scheduler.framework import PodInfo
from scheduler.kube.model import NodeResourceTopology
from scheduler.plugins.noderesourcetopologymatch.fingerprint import (
    ANNOTATION,
    ATTRIBUTE,
    METHOD_ATTRIBUTE,
    METHOD_EXCLUSIVE,
)
from scheduler.plugins.noderesourcetopologymatch.needs import NeedsOf

_MOST_UNLISTED = 4
"""Extended resources that no zone lists, of which each is tried; beyond, all or none of them is reported."""


def is_started(pod: PodInfo) -> bool:
    """Tell whether an agent counts a pod: one that has been started."""
    return pod.phase not in ("", "Pending")


def published_fingerprint(item: NodeResourceTopology, method: str) -> tuple[str, bool]:
    """Return the fingerprint an object was published with ("" without one), and whether it is of the pods with
    exclusive resources alone."""
    attributes = {attribute.name: attribute.value for attribute in reversed(item.attributes)}
    if ATTRIBUTE not in attributes:
        return item.metadata.annotations.get(ANNOTATION, ""), False
    exclusive = method == "OnlyExclusiveResources" or (
        method == "Autodetect" and attributes.get(METHOD_ATTRIBUTE) == METHOD_EXCLUSIVE
    )
    return attributes[ATTRIBUTE], exclusive


def listed_resources(item: NodeResourceTopology) -> frozenset[str]:
    """Return the resources that some zone of a node lists."""
    return frozenset(resource.name for zone in item.zones for resource in zone.resources)


def sets_with_exclusive(
    pods: Collection[PodInfo], item: NodeResourceTopology, needs_of: NeedsOf
) -> Iterator[Collection[PodInfo]]:
    """Yield the sets of pods with exclusive resources that an agent may mean.

    An extended resource that no zone lists may be a device without a place, which the kubelet reports, or a licence
    and the like, of which it knows nothing (scheduler-plugins issue 985). Neither changes the numbers of a zone, so
    it does not matter which: the agent's fingerprint may be with or without the pods that hold it.
    """
    listed = listed_resources(item)
    needs = [(pod, needs_of(pod.spec)) for pod in pods]
    unlisted = sorted({device for _, each in needs if not each.is_exclusive(listed) for device in each.devices})
    sizes = range(len(unlisted) + 1) if len(unlisted) <= _MOST_UNLISTED else (0, len(unlisted))
    for reported in itertools.chain.from_iterable(itertools.combinations(unlisted, size) for size in sizes):
        yield [pod for pod, each in needs if each.is_exclusive(listed.union(reported))]
