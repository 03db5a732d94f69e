"""What a NodeResourceTopology says: the node's topology manager and its NUMA zones.

CPU in milli-units, everything else in whole units, as pods are counted.
"""

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from scheduler.framework import BoolArray, IntArray, NodeView, RowArray
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


# The zones of all nodes as arrays: nodes whose zones have one shape share them, and are looked at together.

_INITIAL_CAPACITY = 16


class Shape(NamedTuple):
    """What nodes of a group have in common: settings, zones, which of them lists which resource, distances."""

    manager: TopologyManager
    numbers: tuple[int, ...]
    resources: tuple[tuple[str, ...], ...]
    costs: tuple[tuple[tuple[int, int], ...], ...]


def shape_of(topology: Topology) -> Shape:
    """Return the shape of a node's zones."""
    return Shape(
        topology.manager,
        tuple(zone.number for zone in topology.zones),
        tuple(tuple(sorted(zone.available)) for zone in topology.zones),
        tuple(tuple(sorted(zone.costs.items())) for zone in topology.zones),
    )


class NodeGroup:
    """Nodes of one shape. `available[member, zone, column]` is 0 where a zone does not list the resource.

    Attributes:
        columns: the column of each resource that some zone lists.
        listed: (zone, column): whether the zone lists the resource.
        by_number: zone indices in the order of their numbers.
    """

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.manager = shape.manager
        self.numbers = shape.numbers
        names = sorted({name for zone in shape.resources for name in zone})
        self.columns = {name: column for column, name in enumerate(names)}
        self.listed: BoolArray = np.array(
            [[name in zone for name in names] for zone in shape.resources], dtype=np.bool_
        ).reshape(len(shape.numbers), len(names))
        self.by_number: RowArray = np.argsort(np.array(shape.numbers, dtype=np.intp), kind="stable")
        self.members: list[str] = []
        self._amounts: IntArray = np.zeros((_INITIAL_CAPACITY, len(shape.numbers), len(names)), dtype=np.int64)

    @property
    def available(self) -> IntArray:
        """Return what is available: a live array, to be copied before it is changed."""
        return self._amounts[: len(self.members)]

    def add(self, node: str) -> int:
        """Take a node in; returns its index."""
        index = len(self.members)
        if index == len(self._amounts):
            self._amounts = np.concatenate([self._amounts, np.zeros_like(self._amounts)])
        self.members.append(node)
        return index

    def set(self, index: int, topology: Topology, reserved: Mapping[str, int]) -> None:
        """Write what a node has left once `reserved` is subtracted from each of its zones, never below 0."""
        for position, zone in enumerate(topology.zones):
            for name, amount in zone.available.items():
                held = reserved.get(name)
                self._amounts[index, position, self.columns[name]] = amount if held is None else max(0, amount - held)

    def remove(self, index: int) -> str | None:
        """Drop a node; the last one takes its place, whose name is returned."""
        last = self.members.pop()
        if index == len(self.members):
            return None
        self.members[index] = last
        self._amounts[index] = self._amounts[len(self.members)]
        return last


class Part(NamedTuple):
    """The rows that belong to one group: their positions in the rows given, and their indexes in the group."""

    group: NodeGroup
    positions: RowArray
    members: RowArray


class ZoneTable:
    """Zones by node name, and by the rows of a view."""

    def __init__(self) -> None:
        self._topologies: dict[str, Topology] = {}
        self._places: dict[str, tuple[NodeGroup, int]] = {}
        self._groups: dict[Shape, NodeGroup] = {}
        self._changes = 0
        # The rows are the same object while no node is added or removed.
        self._arranged_for: tuple[RowArray | None, int] = (None, -1)
        self._group_list: list[NodeGroup] = []
        self._group_of: RowArray = np.zeros(0, dtype=np.intp)
        self._member_of: RowArray = np.zeros(0, dtype=np.intp)
        self._flawed: BoolArray = np.zeros(0, dtype=np.bool_)

    def __contains__(self, node: str) -> bool:
        return node in self._topologies

    def names(self) -> Iterator[str]:
        """Yield the nodes that have zones here."""
        yield from self._topologies

    def get(self, node: str) -> Topology | None:
        """Return a node's zones as they were put in."""
        return self._topologies.get(node)

    def put(self, node: str, topology: Topology, reserved: Mapping[str, int]) -> None:
        """Set a node's zones and what has been reserved of them."""
        shape = shape_of(topology)
        former = self._topologies.get(node)
        place = self._places.get(node)
        if place is None or place[0].shape != shape:
            if place is not None:
                self._remove_from_group(node)
            group = self._groups.get(shape)
            if group is None:
                group = self._groups[shape] = NodeGroup(shape)
            place = self._places[node] = (group, group.add(node))
            self._changes += 1
        elif former is None or bool(former.flaws) != bool(topology.flaws):
            self._changes += 1
        self._topologies[node] = topology
        place[0].set(place[1], topology, reserved)

    def reserve(self, node: str, reserved: Mapping[str, int]) -> None:
        """Set what has been reserved of a node's zones; nothing happens for one without zones."""
        place = self._places.get(node)
        if place is not None:
            place[0].set(place[1], self._topologies[node], reserved)

    def remove(self, node: str) -> None:
        """Forget a node's zones."""
        if self._topologies.pop(node, None) is not None:
            self._remove_from_group(node)
            self._changes += 1

    def parts(self, view: NodeView, rows: RowArray) -> Iterator[Part]:
        """Yield the groups that rows belong to; a row without zones is in none."""
        self._arrange(view)
        group_of = self._group_of[rows]
        for number, group in enumerate(self._group_list):
            positions = np.flatnonzero(group_of == number)
            if len(positions):
                yield Part(group, positions, self._member_of[rows[positions]])

    def missing(self, view: NodeView, rows: RowArray) -> BoolArray:
        """Tell which rows have no zones."""
        self._arrange(view)
        return self._group_of[rows] < 0

    def flawed(self, view: NodeView, rows: RowArray) -> int:
        """Count the rows whose object holds something that makes no sense."""
        self._arrange(view)
        return int(np.count_nonzero(self._flawed[rows]))

    def _arrange(self, view: NodeView) -> None:
        rows, changes = self._arranged_for
        if rows is view.rows and changes == self._changes:
            return
        self._group_list = list(self._groups.values())
        number_of = {id(group): number for number, group in enumerate(self._group_list)}
        self._group_of = np.full(view.size, -1, dtype=np.intp)
        self._member_of = np.zeros(view.size, dtype=np.intp)
        self._flawed = np.zeros(view.size, dtype=np.bool_)
        for node, (group, member) in self._places.items():
            row = view.row(node)
            if row >= 0:
                self._group_of[row] = number_of[id(group)]
                self._member_of[row] = member
                self._flawed[row] = bool(self._topologies[node].flaws)
        self._arranged_for = (view.rows, self._changes)

    def _remove_from_group(self, node: str) -> None:
        group, index = self._places.pop(node)
        moved = group.remove(index)
        if moved is not None:
            self._places[moved] = (group, index)
        if not group.members:
            del self._groups[group.shape]
