"""`preemptionMode: Enabled`: what a node's zones have once some of its pods are gone."""

from collections.abc import Collection, Mapping

import numpy as np

from scheduler.framework import IntArray, NodeView, PodInfo, Work
from scheduler.kube.model import NodeResourceTopology
from scheduler.plugins.noderesourcetopologymatch.caches import TopologyCache
from scheduler.plugins.noderesourcetopologymatch.fingerprint import is_started
from scheduler.plugins.noderesourcetopologymatch.placement import Held, Placements
from scheduler.plugins.noderesourcetopologymatch.topology import NodeGroup, allocatable_of


def removed_by_node(view: NodeView) -> dict[str, list[PodInfo]]:
    """Return the pods that a view takes from the table, by node."""
    pods: dict[str, list[PodInfo]] = {}
    for row, pod in view.removed_pods:
        pods.setdefault(view.name(row), []).append(pod)
    return pods


def without_pods(
    cache: TopologyCache,
    placements: Placements,
    group: NodeGroup,
    view: NodeView,
    node: str,
    removed: Collection[PodInfo],
    work: Work,
) -> IntArray:
    """Return what each zone of a node has left of each resource of its group without some pods: what is held back for
    them is given back to every zone, and what its agent says they hold to the zone that it is of.

    A pod of which neither is known gives nothing back: the agent's numbers may be older than it. Nor does any pod where
    a zone would have more than it can, as then the numbers do not fit together. The node is then found wanting, so that
    it is compared again, and the pod tried again.
    """
    topology, item = cache.table.get(node), cache.item(node)
    assert topology is not None
    assert item is not None
    reserved = cache.reserved_amounts(node, without={pod.uid for pod in removed})
    available: IntArray = np.zeros((len(topology.zones), len(group.columns)), dtype=np.int64)
    for position, zone in enumerate(topology.zones):
        for name, amount in zone.available.items():
            available[position, group.columns[name]] = max(0, amount - reserved[name]) if name in reserved else amount
    row = view.row(node)
    started = [pod for pod in (*view.pods_on(row), *removed) if is_started(pod)]
    containers = sum(len(pod.spec.containers) for pod in started if pod.spec.lists_much)
    if containers:
        work.charge_once((placements, node), 10 * containers, "containers of pods on nodes")
    known = placements.of(item, started)
    released = [known[pod.uid] for pod in removed if pod.uid in known and not cache.is_reserved(pod.uid, node)]
    remaining = available.copy()
    positions = _zone_positions(group)
    for held in released:
        _give_back(remaining, group, positions, held)
    return remaining if _is_possible(remaining, available, group, item) else available


def _zone_positions(group: NodeGroup) -> Mapping[int, int]:
    """Return the position of each zone by its number."""
    return {number: position for position, number in enumerate(group.numbers)}


def _give_back(available: IntArray, group: NodeGroup, positions: Mapping[int, int], held: Held) -> None:
    for number, amounts in held.items():
        position = positions.get(number)
        for name, amount in amounts.items():
            column = group.columns.get(name)
            if position is not None and column is not None and group.listed[position, column]:
                available[position, column] += amount


def _is_possible(remaining: IntArray, available: IntArray, group: NodeGroup, item: NodeResourceTopology) -> bool:
    """Tell whether no zone gets more than its object says that it can have."""
    positions = _zone_positions(group)
    for number, limits in allocatable_of(item).items():
        position = positions.get(number)
        for name, limit in limits.items():
            column = group.columns.get(name)
            if position is None or column is None:
                continue
            if available[position, column] < remaining[position, column] > limit:
                return False
    return True
