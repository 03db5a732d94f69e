"""The nodes of a cluster for commands that have no cache of them: names, addresses, capacities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import msgspec
from msgspec import Struct, field

from scheduler.framework import LoadReading, NodeLoad
from scheduler.kube.primitives import QuantityError, quantity_milli_value, quantity_value

NODES_PATH = "/api/v1/nodes"
_PAGE = 250


Get = Callable[[str, Mapping[str, str | int] | None], bytes]
"""`SyncConnection.get`."""


@dataclass(frozen=True, slots=True)
class AddressedNode:
    """A node's name, its addresses of every type, and its capacity: CPU in milli-units, memory in bytes."""

    name: str
    addresses: tuple[str, ...]
    capacity: tuple[int, int]


def list_nodes(get: Get, selector: str = "") -> list[AddressedNode]:
    """List the nodes that match a label selector in kubectl's form, page by page.

    Raises:
        KubeError: the API server does not answer, or refuses.
        ValueError: its answer is not a list of nodes.
    """
    nodes: list[AddressedNode] = []
    parameters: dict[str, str | int] = {"limit": _PAGE, **({"labelSelector": selector} if selector else {})}
    while True:
        try:
            page = _pages.decode(get(NODES_PATH, parameters))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise ValueError(f"{NODES_PATH}: the answer is not a list of nodes ({error})") from error
        nodes.extend(map(_known, page.items or ()))
        if not page.metadata.more:
            return nodes
        parameters["continue"] = page.metadata.more


class _NodeMeta(Struct, frozen=True, gc=False):
    name: str = ""
    more: str = field(default="", name="continue")


class _Address(Struct, frozen=True, gc=False):
    address: str = ""


class _NodeStatus(Struct, frozen=True, gc=False):
    addresses: list[_Address] | None = None
    capacity: dict[str, str] | None = None


class _ListedNode(Struct, frozen=True, gc=False):
    metadata: _NodeMeta = _NodeMeta()
    status: _NodeStatus = _NodeStatus()


class _NodePage(Struct):
    """Of nodes, just what is asked for here: their images alone can make a page of the whole objects 10 MB."""

    metadata: _NodeMeta = _NodeMeta()
    items: list[_ListedNode] | None = None


_pages = msgspec.json.Decoder(_NodePage)


def _known(node: _ListedNode) -> AddressedNode:
    amounts = node.status.capacity or {}
    try:
        capacity = quantity_milli_value(amounts.get("cpu", "0")), quantity_value(amounts.get("memory", "0"))
    except QuantityError:
        capacity = (0, 0)
    addresses = tuple(entry.address for entry in node.status.addresses or () if entry.address)
    return AddressedNode(node.metadata.name, addresses, capacity)


def match_nodes(reading: LoadReading, node_of_address: Callable[[str], str | None]) -> tuple[LoadReading, list[str]]:
    """Return a reading with its loads by node name, and the instances that are no node of the cluster.

    An instance is looked up as it is, then without its port; `node_of_address` knows a node by its name and by its
    addresses. A load under the node's name wins over one under an address; of several the last wins.
    """
    by_name: dict[str, NodeLoad] = {}
    by_address: dict[str, NodeLoad] = {}
    unmatched: list[str] = []
    for instance, load in reading.loads.items():
        host = without_port(instance)
        node = node_of_address(instance) or node_of_address(host)
        if node is None:
            unmatched.append(instance)
        elif node in (instance, host):
            by_name[node] = load
        else:
            by_address[node] = load
    return replace(reading, loads={**by_address, **by_name}), unmatched


class NodeAddresses:
    """Nodes by name and by address, as they come, change and go.

    A node's name wins over another node's address. An address of several nodes is none's: their load would go to the
    wrong one. `node_of` may be called from another thread meanwhile.
    """

    def __init__(self) -> None:
        self._addresses: dict[str, frozenset[str]] = {}
        self._holders: dict[str, tuple[str, ...]] = {}

    def node_of(self, address: str) -> str | None:
        """Return the node that has this name, or alone has this address."""
        if address in self._addresses:
            return address
        holders = self._holders.get(address, ())
        return holders[0] if len(holders) == 1 else None

    def holders(self, address: str) -> tuple[str, ...]:
        """Return the nodes that have an address."""
        return self._holders.get(address, ())

    def set(self, node: str, addresses: Iterable[str]) -> frozenset[str]:
        """Take in all addresses of a node; returns those that it did not have and another node has."""
        latest = frozenset(addresses)
        previous = self._addresses.get(node, frozenset())
        self._addresses[node] = latest
        for address in previous - latest:
            self._give_up(node, address)
        gained = latest - previous
        for address in gained:
            self._holders[address] = (*self._holders.get(address, ()), node)
        return frozenset(address for address in gained if len(self._holders[address]) > 1)

    def remove(self, node: str) -> None:
        """Forget a node."""
        for address in self._addresses.pop(node, ()):
            self._give_up(node, address)

    def _give_up(self, node: str, address: str) -> None:
        left = tuple(holder for holder in self._holders[address] if holder != node)
        if left:
            self._holders[address] = left
        else:
            del self._holders[address]


def nodes_by_address(nodes: Iterable[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """Return node names by name and by address, from pairs of a node's name and its addresses.

    The rules are those of `NodeAddresses`.
    """
    directory = NodeAddresses()
    listed = [(name, tuple(addresses)) for name, addresses in nodes]
    for name, addresses in listed:
        directory.set(name, addresses)
    keys = (key for name, addresses in listed for key in (name, *addresses))
    return {key: node for key in keys if (node := directory.node_of(key)) is not None}


def without_port(instance: str) -> str:
    """`10.0.0.1:9100` and `[fd00::1]:9100` without their port; a bare IPv6 address stays whole."""
    if instance.startswith("["):
        return instance[1:].partition("]")[0]
    host, colon, port = instance.rpartition(":")
    return host if colon and port.isdigit() and ":" not in host else instance
