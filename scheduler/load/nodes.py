"""The nodes of a cluster for commands that have no cache of them: names, addresses, capacities."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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
        page = json.loads(get(NODES_PATH, parameters))
        if not isinstance(page, dict) or not isinstance(page.get("items") or [], list):
            raise ValueError(f"{NODES_PATH}: the answer is not a list of objects")
        nodes.extend(_node(item) for item in page.get("items") or [] if isinstance(item, dict))
        token = _part(page, "metadata").get("continue")
        if not token:
            return nodes
        parameters["continue"] = str(token)


def _node(item: Mapping[str, Any]) -> KnownNode:
    metadata, status = _part(item, "metadata"), _part(item, "status")
    addresses = status.get("addresses")
    listed = addresses if isinstance(addresses, list) else []
    amounts = _part(status, "capacity")
    try:
        capacity = quantity_milli_value(amounts.get("cpu", "0")), quantity_value(amounts.get("memory", "0"))
    except (QuantityError, TypeError):
        capacity = (0, 0)
    return KnownNode(
        str(metadata.get("name") or ""),
        tuple(str(entry["address"]) for entry in listed if isinstance(entry, dict) and entry.get("address")),
        capacity,
    )


def _part(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = data.get(name)
    return part if isinstance(part, dict) else {}
