"""Which node an instance of a source is: by the node's name, or by one of its addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from scheduler.load.nodes import KnownNode
from scheduler.load.reading import InstanceLoad, LoadReading


def match_instances(
    reading: LoadReading, node_of_address: Callable[[str], str | None]
) -> tuple[dict[str, InstanceLoad], list[str]]:
    """Match a source's instance labels to nodes: by name first, then by an address of the node, port cut off.

    A node that has a series under its name keeps that one. Returns the loads by node name, and the instances that are
    no node of the cluster.
    """
    by_name: dict[str, InstanceLoad] = {}
    by_address: dict[str, InstanceLoad] = {}
    unmatched: list[str] = []
    for instance, load in reading.instances.items():
        host = _without_port(instance)
        node = node_of_address(instance) or node_of_address(host)
        if node is None:
            unmatched.append(instance)
        elif node in (instance, host):
            by_name[node] = load
        else:
            by_address[node] = load
    return {**by_address, **by_name}, unmatched


def by_address(nodes: Iterable[KnownNode]) -> dict[str, str]:
    """Return node names by name and by address; a node's name wins over another node's address."""
    names: dict[str, str] = {}
    others: dict[str, str] = {}
    for node in nodes:
        names[node.name] = node.name
        for address in node.addresses:
            others.setdefault(address, node.name)
    return {**others, **names}


def _without_port(instance: str) -> str:
    """`10.0.0.1:9100` and `[fd00::1]:9100` without their port; a bare IPv6 address stays whole."""
    if instance.startswith("["):
        return instance[1:].partition("]")[0]
    host, colon, port = instance.rpartition(":")
    return host if colon and port.isdigit() and ":" not in host else instance
