"""The nodes of a cluster for commands that have no cache of them: names, addresses, capacities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
from msgspec import Struct, field

from scheduler.kube.primitives import QuantityError, quantity_milli_value, quantity_value

NODES_PATH = "/api/v1/nodes"
_PAGE = 250


Get = Callable[[str, Mapping[str, str | int] | None], bytes]
"""`SyncConnection.get`."""


@dataclass(frozen=True, slots=True)
class KnownNode:
    """A node's name, its addresses of every type, and its capacity: CPU in milli-units, memory in bytes."""

    name: str
    addresses: tuple[str, ...]
    capacity: tuple[int, int]


def list_nodes(get: Get, selector: str = "") -> list[KnownNode]:
    """List the nodes that match a label selector in kubectl's form, page by page.

    Raises:
        KubeError: the API server does not answer, or refuses.
        ValueError: its answer is not a list of nodes.
    """
    nodes: list[KnownNode] = []
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


class _Metadata(Struct, frozen=True, gc=False):
    name: str = ""
    more: str = field(default="", name="continue")


class _Address(Struct, frozen=True, gc=False):
    address: str = ""


class _Status(Struct, frozen=True, gc=False):
    addresses: list[_Address] | None = None
    capacity: dict[str, str] | None = None


class _Node(Struct, frozen=True, gc=False):
    metadata: _Metadata = _Metadata()
    status: _Status = _Status()


class _Page(Struct):
    """Of nodes, just what is asked for here: their images alone can make a page of the whole objects 10 MB."""

    metadata: _Metadata = _Metadata()
    items: list[_Node] | None = None


_pages = msgspec.json.Decoder(_Page)


def _known(node: _Node) -> KnownNode:
    amounts = node.status.capacity or {}
    try:
        capacity = quantity_milli_value(amounts.get("cpu", "0")), quantity_value(amounts.get("memory", "0"))
    except QuantityError:
        capacity = (0, 0)
    addresses = tuple(entry.address for entry in node.status.addresses or () if entry.address)
    return KnownNode(node.metadata.name, addresses, capacity)
