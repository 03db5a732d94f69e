"""What a NodeResourceTopology says: the node's topology manager and its NUMA zones.

CPU in milli-units, everything else in whole units, as pods are counted.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from scheduler.kube.model import NodeResourceTopology, TopologyAttribute, TopologyZone
from scheduler.kube.primitives import QuantityError, quantity_milli_value, quantity_value

NAME = "NodeResourceTopologyMatch"
KIND = "NodeResourceTopology"
MAX_ZONE_ID = 63
"""Upstream lets 64 through and ends in a panic."""
MAX_AMOUNT = 1 << 55
"""Amounts are bounded so that the sum over all zones stays within 64 bits."""
SINGLE_NUMA_NODE, POD, CONTAINER = "single-numa-node", "pod", "container"
_POLICIES = frozenset({"none", "best-effort", "restricted", SINGLE_NUMA_NODE})
_SCOPES = frozenset({CONTAINER, POD})
_MAX_ZONES = 1024
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DEPRECATED = {
    "SingleNUMANodePodLevel": (SINGLE_NUMA_NODE, POD),
    "SingleNUMANodeContainerLevel": (SINGLE_NUMA_NODE, CONTAINER),
    "BestEffortPodLevel": ("best-effort", POD),
    "BestEffortContainerLevel": ("best-effort", CONTAINER),
    "RestrictedPodLevel": ("restricted", POD),
    "RestrictedContainerLevel": ("restricted", CONTAINER),
}
_IGNORED_POLICIES = frozenset({"", "None", "BestEffort", "Restricted"})


class TopologyManager(Struct, frozen=True):
    """How the node's kubelet aligns resources (pkg/noderesourcetopology/nodeconfig of scheduler-plugins)."""

    policy: str = "none"
    scope: str = CONTAINER
    max_zones: int = 8


class Zone(Struct, frozen=True):
    """A NUMA zone: what pods may still take from it, and how far other zones are, by their numbers."""

    number: int
    available: Mapping[str, int]
    costs: Mapping[int, int]


class Topology(Struct, frozen=True):
    """A node's zones in the order in which they are listed. `flaws` says what in the object made no sense."""

    manager: TopologyManager
    zones: tuple[Zone, ...]
    flaws: tuple[str, ...] = ()


def read(item: NodeResourceTopology) -> Topology:
    """Return what an object says. What cannot be read is left out and named among the flaws."""
    flaws: list[str] = []
    zones: dict[int, Zone] = {}
    for zone in item.zones:
        if zone.type != "Node":
            continue
        number = zone_number(zone.name)
        if number is None or number > MAX_ZONE_ID:
            flaws.append(f"zone {zone.name!r} is left out: expected node-0 to node-{MAX_ZONE_ID}")
        elif number in zones:
            flaws.append(f"zone {zone.name!r} is listed twice: the first one counts")
        else:
            zones[number] = Zone(number, _available(zone, flaws), _costs(zone))
    manager = topology_manager(item.topology_policies, item.attributes, flaws)
    return Topology(manager, tuple(zones.values()), tuple(flaws))


def topology_manager(
    policies: Iterable[str], attributes: Iterable[TopologyAttribute], flaws: list[str] | None = None
) -> TopologyManager:
    """Return the topology manager's settings: the first of the deprecated policies, then the attributes, which win.

    Unknown values are ignored, and named among the flaws.
    """
    flaws = [] if flaws is None else flaws
    policy, scope, most = "none", CONTAINER, 8
    first = next(iter(policies), "")
    if first in _DEPRECATED:
        policy, scope = _DEPRECATED[first]
    elif first not in _IGNORED_POLICIES:
        flaws.append(f"topology policy {first!r} is ignored: it is not known")
    for attribute in attributes:
        name, text = attribute.name, attribute.value
        if name == "topologyManagerScope" and text in _SCOPES:
            scope = text
        elif name == "topologyManagerPolicy" and text in _POLICIES:
            policy = text
        elif name == "topologyManagerMaxNUMANodes" and (number := _integer(text)) is not None and number > 1:
            most = min(number, _MAX_ZONES)
        elif name in ("topologyManagerScope", "topologyManagerPolicy", "topologyManagerMaxNUMANodes"):
            flaws.append(f"attribute {name} is ignored: {text!r} is no value of it")
    return TopologyManager(policy, scope, most)


def zone_number(name: str) -> int | None:
    """Return N of `node-N`, None for another name."""
    if not name.startswith("node-"):
        return None
    number = _integer(name.removeprefix("node-"))
    return number if number is not None and number >= 0 else None


def is_native(resource: str) -> bool:
    """Tell whether a resource is Kubernetes' own."""
    return "/" not in resource or "kubernetes.io/" in resource


def is_host_level(resource: str) -> bool:
    """Tell whether a resource may be in no zone at all."""
    return resource in ("ephemeral-storage", "storage") or not is_native(resource)


def is_shared(resource: str) -> bool:
    """Tell whether a resource comes from a zone for Guaranteed pods only."""
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def whole_units(resource: str, amount: int) -> int:
    """Return an amount in whole units, rounded up (Go's Quantity.Value)."""
    return -(-amount // 1000) if resource == "cpu" else amount


def allocatable_of(item: NodeResourceTopology) -> dict[int, dict[str, int]]:
    """Return what zones may have at most, by number; resources that cannot be read are left out."""
    most: dict[int, dict[str, int]] = {}
    for zone in item.zones:
        number = zone_number(zone.name)
        if zone.type == "Node" and number is not None:
            amounts = most.setdefault(number, {})
            for resource in zone.resources:
                with contextlib.suppress(QuantityError):
                    amounts[resource.name] = _amount(resource.name, resource.allocatable)
    return most


def _amount(name: str, quantity: str | int | float) -> int:
    return quantity_milli_value(quantity) if name == "cpu" else quantity_value(quantity)


def _available(zone: TopologyZone, flaws: list[str]) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for resource in zone.resources:
        try:
            amount = _amount(resource.name, resource.available)
        except QuantityError as error:
            flaws.append(f"zone {zone.name!r}: {resource.name} is left out: {error}")
            continue
        if amount < 0:
            flaws.append(f"zone {zone.name!r}: {resource.name} has a negative amount")
        amounts[resource.name] = max(-MAX_AMOUNT, min(MAX_AMOUNT, amount))
    return amounts


def _costs(zone: TopologyZone) -> dict[int, int]:
    return dict(_numbered_costs(zone))


def _numbered_costs(zone: TopologyZone) -> Iterator[tuple[int, int]]:
    for cost in zone.costs:
        number = zone_number(cost.name)
        if number is not None and number <= MAX_ZONE_ID:
            yield number, cost.value


def _integer(text: str) -> int | None:
    """Read a number as Go's strconv.Atoi does."""
    if len(text) > 20 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else None
