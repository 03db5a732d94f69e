"""What a pod asks of NUMA zones, worked out once per class of pods."""

from collections.abc import Callable, Collection, Iterator
from weakref import WeakKeyDictionary

from msgspec import Struct

from scheduler.framework import ContainerResources, Resources, SpecInfo
from scheduler.helpers.upstreamsums import upstream_requests
from scheduler.plugins.noderesourcetopologymatch.topology import is_native

_RUN_ON = frozenset({"app", "sidecar"})


class Needs(Struct, frozen=True):
    """Attributes:
    guaranteed: whether cpu, memory and huge pages come from zones of its own.
    ignored: whether no zone can matter: a best-effort pod without devices.
    containers: init containers first.
    holding: the kinds of containers that keep what they were given while later ones start.
    whole: what the pod needs as a whole.
    exclusive: whether it holds something, on every node, that no other pod can use meanwhile.
    devices: the extended resources that it holds so on nodes with a zone that lists them.
    """

    guaranteed: bool
    ignored: bool
    containers: tuple[ContainerResources, ...]
    holding: frozenset[str]
    whole: Resources
    exclusive: bool
    devices: frozenset[str]

    def is_exclusive(self, listed: Collection[str]) -> bool:
        """Tell whether the pod holds something that no other pod can use meanwhile, on a node whose zones list these
        resources."""
        return self.exclusive or not self.devices.isdisjoint(listed)


NeedsOf = Callable[[SpecInfo], Needs]


class NeedsOfPods:
    """Remembers the needs of each class of pods for as long as the class is in use: as the kubelet counts them, or as
    upstream does."""

    def __init__(self, *, upstream: bool) -> None:
        self._work_out = _as_upstream if upstream else _as_kubelet
        self._known: WeakKeyDictionary[SpecInfo, Needs] = WeakKeyDictionary()

    def of(self, spec: SpecInfo) -> Needs:
        """Return a pod's needs."""
        needs = self._known.get(spec)
        if needs is None:
            needs = self._known[spec] = self._work_out(spec)
        return needs


def _as_kubelet(spec: SpecInfo) -> Needs:
    """Count as kubelets since 1.29 do (podGuaranteedCPUs of pkg/kubelet/cm/cpumanager, and the like for memory).

    Sidecars run beside the app containers. Where a pod has resources as a whole, kubelets align neither its cpus nor
    its memory: PodLevelResourceManagers is off by default. Ordinary init containers are over when the pod runs,
    and kubelets report nothing as held by them (scheduler-plugins pull request 978).
    """
    has_pod_level = bool(spec.pod_level.requests or spec.pod_level.limits)
    guaranteed = spec.qos == "Guaranteed" and not has_pod_level
    running = [container for container in spec.containers if container.kind in _RUN_ON]
    return Needs(
        guaranteed=guaranteed,
        ignored=_is_ignored(spec),
        containers=spec.containers,
        holding=_RUN_ON,
        whole=spec.requests,
        exclusive=guaranteed and _holds_natives(running),
        devices=frozenset(_devices(running)),
    )


def _as_upstream(spec: SpecInfo) -> Needs:
    """Count as scheduler-plugins 0.34.7 does: sidecars are init containers, and every device is exclusive."""
    guaranteed = spec.qos == "Guaranteed"
    return Needs(
        guaranteed=guaranteed,
        ignored=_is_ignored(spec),
        containers=spec.containers,
        holding=frozenset({"app"}),
        whole=upstream_requests(spec),
        exclusive=any(_devices(spec.containers)) or (guaranteed and _holds_natives(spec.containers)),
        devices=frozenset(),
    )


def _is_ignored(spec: SpecInfo) -> bool:
    return spec.qos == "BestEffort" and not any(_devices(spec.containers))


def _devices(containers: Collection[ContainerResources]) -> Iterator[str]:
    return (name for container in containers for name in container.requests if not is_native(name))


def _holds_natives(containers: Collection[ContainerResources]) -> bool:
    """Tell whether containers of a Guaranteed pod hold cpus, memory or huge pages for themselves
    (pkg/noderesourcetopology/resourcerequests)."""
    return any(_is_held(name, amount) for container in containers for name, amount in container.requests.items())


def _is_held(name: str, amount: int) -> bool:
    return amount > 0 and (amount % 1000 == 0 if name == "cpu" else name == "memory" or name.startswith("hugepages-"))


def held_by(spec: SpecInfo, needs: Needs, listed: Collection[str]) -> Iterator[tuple[ContainerResources, Resources]]:
    """Yield the containers that hold something while the pod runs which no other pod can use meanwhile, on a node whose
    zones list these resources; and what."""
    for container in spec.containers:
        if container.kind not in _RUN_ON:
            continue
        amounts = {
            name: amount
            for name, amount in container.requests.items()
            if (needs.guaranteed and _is_held(name, amount)) or (name in listed and not is_native(name))
        }
        if amounts:
            yield container, amounts
