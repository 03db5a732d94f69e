"""Costs of the network between zones and between regions, as a NetworkTopology lists them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.framework import BoolArray, IntArray
from scheduler.kube.model import NetworkOrigin, NetworkTopology, NetworkTopologyInfo

REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
MEASURED = "NetperfCosts"
"""Name of the weights that a controller writes, in order; all others are written by people."""
UNKNOWN_COST = 100
"""Cost of a path that is not listed, and of any path to a node without zone and region (MaxCost upstream)."""
SAME_ZONE_COST = 1
_MAX_COST = 1 << 40
"""Higher costs count as this, so that sums over all pods of a cluster stay within 64 bits."""


class Place(NamedTuple):
    """Where a node is; "" where its label is missing."""

    region: str
    zone: str


class NetworkPaths(NamedTuple):
    """The network path from each place (row) to each place (column): square matrices over a list of places.

    Attributes:
        cost: what the path adds to a node's cost.
        local: same place, where every limit is kept.
        unlabelled: the target has neither region nor zone, where every limit is exceeded.
        listed: the topology lists the path, and a dependency's limit is compared with `cost`. A path that is neither
            of the three counts neither as satisfied nor as violated.
    """

    cost: IntArray
    local: BoolArray
    unlabelled: BoolArray
    listed: BoolArray


class CostTable:
    """The costs under one name of weights."""

    def __init__(self, topology: NetworkTopology | None, weights_name: str, *, in_order: bool) -> None:
        """`in_order`: sort the lists before the binary search; upstream trusts its controller's lists."""
        self._sorted_origins = [
            {key: _sorted_origins(weight.topology_list, key, in_order) for key in (REGION, ZONE)}
            for weight in (topology.spec.weights if topology is not None else ())
            if weight.name == weights_name
        ]

    def paths(self, places: Sequence[Place]) -> NetworkPaths:
        """Return the paths between all pairs of places."""
        size = (len(places), len(places))
        cost = np.full(size, UNKNOWN_COST, dtype=np.int64)
        local, unlabelled, listed = (np.zeros(size, dtype=np.bool_) for _ in range(3))
        for row, origin in enumerate(places):
            costs = self._costs_from(origin)
            for column, target in enumerate(places):
                if not target.region and not target.zone:
                    unlabelled[row, column] = True
                elif origin == target:
                    local[row, column] = True
                    cost[row, column] = SAME_ZONE_COST
                else:
                    same = origin.region == target.region
                    listed_cost = costs.get((origin.zone, target.zone) if same else (origin.region, target.region))
                    if listed_cost is not None:
                        listed[row, column] = True
                        cost[row, column] = min(listed_cost, _MAX_COST)
        return NetworkPaths(cost, local, unlabelled, listed)

    def _costs_from(self, origin: Place) -> dict[tuple[str, str], int]:
        """Return the costs from a place by (origin, destination); a zone's overwrite those of a region of its name."""
        costs: dict[tuple[str, str], int] = {}
        for origins in self._sorted_origins:
            for key, name in ((REGION, origin.region), (ZONE, origin.zone)):
                index = _binary_search([entry.origin for entry in origins[key]], name) if name else None
                if index is not None:
                    costs.update(
                        ((name, entry.destination), entry.network_cost) for entry in origins[key][index].cost_list
                    )
        return costs


def _sorted_origins(topologies: Sequence[NetworkTopologyInfo], key: str, in_order: bool) -> Sequence[NetworkOrigin]:
    listed = sorted(topologies, key=lambda info: info.topology_key) if in_order else topologies
    index = _binary_search([info.topology_key for info in listed], key)
    origins = listed[index].origin_list if index is not None else ()
    return sorted(origins, key=lambda entry: entry.origin) if in_order else origins


def _binary_search(names: Sequence[str], wanted: str) -> int | None:
    """Search as upstream does; in a list that is out of order, a name may be missed."""
    low, high = 0, len(names) - 1
    while low <= high:
        middle = (low + high) // 2
        if names[middle] == wanted:
            return middle
        if names[middle] < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return None
