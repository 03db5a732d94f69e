"""What a pod asks of NUMA zones, worked out once per class of pods."""

from collections.abc import Mapping
from weakref import WeakKeyDictionary

from msgspec import Struct

from scheduler.framework import ContainerResources, Resources, SpecInfo
from scheduler.plugins.noderesourcetopologymatch.topology import is_native


class Needs(Struct, frozen=True):
    """Attributes:
    guaranteed: whether cpu, memory and huge pages come from zones of its own.
    ignored: whether no zone can matter: a best-effort pod without devices.
    containers: init containers first.
    whole: what the pod needs as a whole.
    exclusive: whether it holds something that no other pod can use meanwhile: whole cpus, memory, huge pages, devices.
    """

    guaranteed: bool
    ignored: bool
    containers: tuple[ContainerResources, ...]
    whole: Resources
    exclusive: bool


class NeedsOfPods:
    """Remembers the needs of each class of pods for as long as the class is in use."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[SpecInfo, Needs] = WeakKeyDictionary()

    def of(self, spec: SpecInfo) -> Needs:
        """Return a pod's needs."""
        needs = self._known.get(spec)
        if needs is None:
            guaranteed = spec.qos == "Guaranteed"
            native = all(is_native(name) for container in spec.containers for name in container.requests)
            needs = self._known[spec] = Needs(
                guaranteed=guaranteed,
                ignored=spec.qos == "BestEffort" and native,
                containers=spec.containers,
                whole=effective_request(spec),
                exclusive=any(
                    is_exclusive(guaranteed, name, amount)
                    for container in spec.containers
                    for name, amount in container.requests.items()
                ),
            )
        return needs


def effective_request(spec: SpecInfo) -> dict[str, int]:
    """Return what the pod needs at once: the app containers together, or the largest init container, and overhead
    (GetPodEffectiveRequest in pkg/util/resource.go of scheduler-plugins; sidecars count as init containers)."""
    total: dict[str, int] = {}
    largest: dict[str, int] = {}
    for container in spec.containers:
        if container.kind == "app":
            _add(total, container.requests)
        else:
            for name, amount in container.requests.items():
                largest[name] = max(amount, largest.get(name, 0))
    for name, amount in largest.items():
        total[name] = max(amount, total.get(name, 0))
    _add(total, spec.overhead)
    return total


def is_exclusive(guaranteed: bool, resource: str, amount: int) -> bool:
    """Tell whether an amount of a resource is the container's alone (pkg/noderesourcetopology/resourcerequests)."""
    if not is_native(resource):
        return True
    if not guaranteed or amount <= 0:
        return False
    if resource == "cpu":
        return amount % 1000 == 0
    return resource == "memory" or resource.startswith("hugepages-")


def _add(total: dict[str, int], amounts: Mapping[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount
