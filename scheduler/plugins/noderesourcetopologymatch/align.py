"""Whether a pod fits into single zones (pkg/noderesourcetopology/filter.go of scheduler-plugins v0.34.7)."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from msgspec import Struct

from scheduler.framework import BoolArray, ContainerResources, IntArray, Resources, RowArray, SpecInfo
from scheduler.helpers.upstreamsums import upstream_requests
from scheduler.kube.model import amount_text
from scheduler.plugins.noderesourcetopologymatch.topology import POD, NodeGroup, is_host_level, is_native, is_shared

# What a pod asks of NUMA zones, worked out once per class of pods.

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


MESSAGES = (
    "cannot align init container",
    "cannot align sidecar container",
    "cannot align container",
    "cannot align pod",
)
_FAILURE_OF_KIND = {"init": 1, "sidecar": 2, "app": 3}
_POD_FAILURE = 4
_MAX_NAMED = 4
"""Resources that a rejection names: a container may ask for any number of them."""

HasResource = Callable[[str], BoolArray]
"""Tells which nodes of the question have a resource at all."""


class Shortfall(NamedTuple):
    """Nodes on which something does not fit into one zone.

    Attributes:
        failure: the position of its message in MESSAGES, counted from 1.
        name: of the container; "" for a pod.
        request: what it requests.
        positions: of the nodes, among those of the question.
        most: by resource that zones limit, what the zone with the most of it has left, by node; 0 where there is none.
    """

    failure: int
    name: str
    request: Resources
    positions: RowArray
    most: Mapping[str, IntArray]

    def describe(self, nodes: RowArray) -> str:
        """Return what is missing on some of its nodes, given by their index in `positions`."""
        most = {name: amounts[nodes] for name, amounts in self.most.items()}
        texts, explained = [], np.zeros(len(nodes), dtype=np.bool_)
        for name, amounts in most.items():
            short = amounts < self.request[name]
            if short.any():
                explained |= short
                low, high = (amount_text(name, int(amount)) for amount in (amounts[short].min(), amounts[short].max()))
                left = low if low == high else f"{low} to {high}"
                texts.append(f"{name}: {amount_text(name, self.request[name])} requested, {left} left in one zone")
        if not explained.all():
            together = ", ".join(f"{amount_text(name, self.request[name])} {name}" for name in list(most)[:_MAX_NAMED])
            texts.append(f"no zone has all of {together}")
        subject = f"{self.name}: " if self.name else ""
        return subject + "; ".join(texts[:_MAX_NAMED])


class Shortfalls:
    """What is missing on the nodes of one question, for whoever asks."""

    def __init__(self, reasons: IntArray) -> None:
        """`reasons` are those of the nodes, filled by the caller: 0 for none, 1 for numbers that cannot be counted on,
        else one above the position of a message."""
        self._reasons = reasons
        self._each: list[tuple[RowArray, Shortfall]] = []

    def add(self, positions: RowArray, shortfalls: Iterable[Shortfall]) -> None:
        """Take in those of a part of the nodes, which are at these positions of the question."""
        self._each += [(positions[shortfall.positions], shortfall) for shortfall in shortfalls]

    def of_row(self, index: int) -> str:
        """Return what is missing on one node."""
        return self._describe(int(self._reasons[index]), lambda positions: positions == index)

    def of_reason(self, reason: int) -> str:
        """Return what is missing on all nodes with a reason, in ranges."""
        return self._describe(reason, lambda positions: self._reasons[positions] == reason)

    def _describe(self, reason: int, is_asked_for: Callable[[RowArray], BoolArray]) -> str:
        texts: dict[str, None] = {}
        for positions, shortfall in self._each:
            if shortfall.failure + 1 == reason and len(nodes := np.flatnonzero(is_asked_for(positions))):
                texts[shortfall.describe(nodes)] = None
        return "; ".join(list(texts)[:_MAX_NAMED])


def with_missing(words: str, missing: str) -> str:
    """Return a message with what is missing."""
    return f"{words} ({missing})" if missing else words


class _ZoneFit(NamedTuple):
    """Which nodes have a zone that fits, and which zones (None: no zone matters)."""

    nodes: BoolArray
    zones: BoolArray | None


def alignment_failures(
    group: NodeGroup, available: IntArray, needs: Needs, has_resource: HasResource
) -> tuple[IntArray, list[Shortfall]]:
    """Return 0 for each node that can take the pod, else the position in MESSAGES, counted from 1, of what to say; and
    what is missing there.

    Ordinary init containers run one after the other, each beside the sidecars before it; sidecars (not by upstream's
    count) and app containers in order take from the zone with the lowest number that fits. `available` belongs to the
    caller and is not changed.
    """
    shortfalls: list[Shortfall] = []
    reasons: IntArray = np.zeros(len(available), dtype=np.int64)

    def fail(nodes: BoolArray, failure: int, name: str, request: Resources) -> None:
        positions = np.flatnonzero((reasons == 0) & ~nodes)
        if len(positions):
            reasons[positions] = failure
            most = dict(
                _most_in_a_zone(group, available[positions], request, needs.guaranteed, has_resource, positions)
            )
            shortfalls.append(Shortfall(failure, name, request, positions, most))

    if group.manager.scope == POD:
        fit = _zones_that_fit(group, available, needs.whole, needs.guaranteed, has_resource)
        fail(fit.nodes, _POD_FAILURE, "", needs.whole)
        return reasons, shortfalls
    last = len(needs.containers) - 1
    owned = False
    for index, container in enumerate(needs.containers):
        fit = _zones_that_fit(group, available, container.requests, needs.guaranteed, has_resource)
        fail(fit.nodes, _FAILURE_OF_KIND[container.kind], container.name, container.requests)
        if index == last or (reasons != 0).all():
            break
        if container.kind in needs.holding and fit.zones is not None:
            if not owned:
                available, owned = available.copy(), True
            _subtract_from_zone(group, available, container.requests, needs.guaranteed, fit)
    return reasons, shortfalls


def _most_in_a_zone(
    group: NodeGroup,
    available: IntArray,
    request: Resources,
    guaranteed: bool,
    has_resource: HasResource,
    positions: RowArray,
) -> Iterator[tuple[str, IntArray]]:
    """Yield, by resource that zones limit or a node lacks, what the zone with the most has left of it.

    Args:
        group: nodes whose zones have the same shape.
        available: amounts by node, zone and resource, of the nodes at the positions.
        request: what a container or the pod requests.
        guaranteed: whether cpu, memory and huge pages come from zones of the pod's own.
        has_resource: tells which nodes of the question have a resource at all.
        positions: the nodes' positions in the question.
    """
    for resource, amount in request.items():
        if amount == 0:
            continue
        present = has_resource(resource)[positions]
        column = group.columns.get(resource)
        is_limited = column is not None and (guaranteed or not is_shared(resource))
        if is_limited:
            yield resource, np.where(present, available[:, :, column].max(axis=1, initial=0), 0)
        elif column is None and not is_host_level(resource):
            yield resource, np.zeros(len(positions), dtype=np.int64)
        elif not present.all():
            yield resource, np.where(present, amount, 0)


def _zones_that_fit(
    group: NodeGroup, available: IntArray, request: Resources, guaranteed: bool, has_resource: HasResource
) -> _ZoneFit:
    """Return where a request fits into one zone (resourcesAvailableInAnyNUMANodes).

    Args:
        group: nodes whose zones have the same shape.
        available: amounts by node, zone and resource.
        request: what a container or the pod requests.
        guaranteed: whether cpu, memory and huge pages come from zones of the pod's own.
        has_resource: tells which nodes have a resource at all.
    """
    nodes: BoolArray = np.ones(len(available), dtype=np.bool_)
    zones: BoolArray | None = None
    for resource, amount in request.items():
        if amount == 0:
            continue
        column = group.columns.get(resource)
        nodes &= has_resource(resource)
        if column is None:
            # Not all devices say where they are; everything else must.
            if not is_host_level(resource):
                nodes[:] = False
            continue
        listed = group.listed[:, column]
        if is_shared(resource) and not guaranteed:
            suitable = np.broadcast_to(listed, (len(available), len(listed)))
        else:
            suitable = (available[:, :, column] >= amount) & listed
        zones = suitable if zones is None else zones & suitable
    if zones is not None:
        nodes &= zones.any(axis=1)
    return _ZoneFit(nodes, zones)


def _subtract_from_zone(
    group: NodeGroup, available: IntArray, request: Resources, guaranteed: bool, fit: _ZoneFit
) -> None:
    """Subtract a request, on each node where it fits, from the zone with the lowest number that fits.

    Args:
        group: nodes whose zones have the same shape.
        available: amounts by node, zone and resource; changed.
        request: what a container requests.
        guaranteed: whether cpu, memory and huge pages come from zones of the pod's own.
        fit: where the request fits.
    """
    assert fit.zones is not None
    members: RowArray = np.flatnonzero(fit.nodes)
    chosen = group.by_number[fit.zones[members][:, group.by_number].argmax(axis=1)]
    for resource, amount in request.items():
        column = group.columns.get(resource)
        if column is None or amount == 0 or (is_shared(resource) and not guaranteed):
            continue
        # A zone without the resource holds 0 of it and is left so.
        available[members, chosen, column] -= amount * group.listed[chosen, column]
