"""Which node an instance of a source is: by the node's name, or by one of its addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from scheduler.framework import LoadReading, NodeLoad


def match_nodes(reading: LoadReading, node_of_address: Callable[[str], str | None]) -> tuple[LoadReading, list[str]]:
    """Return a reading with its loads by node name, and the instances that are no node of the cluster.

    An instance is looked up as it is, then without its port; `node_of_address` knows a node by its name and by its
    addresses. A load under the node's name wins over one under an address; of several the last wins.
    """
    by_name: dict[str, NodeLoad] = {}
    by_address: dict[str, NodeLoad] = {}
    unmatched: list[str] = []
    for instance, load in reading.loads.items():
        host = _without_port(instance)
        node = node_of_address(instance) or node_of_address(host)
        if node is None:
            unmatched.append(instance)
        elif node in (instance, host):
            by_name[node] = load
        else:
            by_address[node] = load
    return replace(reading, loads={**by_address, **by_name}), unmatched


def nodes_by_address(nodes: Iterable[tuple[str, Iterable[str]]]) -> dict[str, str]:
    """Return node names by name and by address, from pairs of a node's name and its addresses.

    A node's name wins over another node's address; of nodes that share an address the first has it.
    """
    names: dict[str, str] = {}
    by_address: dict[str, str] = {}
    for name, addresses in nodes:
        names[name] = name
        for address in addresses:
            by_address.setdefault(address, name)
    return {**by_address, **names}


def _without_port(instance: str) -> str:
    """`10.0.0.1:9100` and `[fd00::1]:9100` without their port; a bare IPv6 address stays whole."""
    if instance.startswith("["):
        return instance[1:].partition("]")[0]
    host, colon, port = instance.rpartition(":")
    return host if colon and port.isdigit() and ":" not in host else instance
