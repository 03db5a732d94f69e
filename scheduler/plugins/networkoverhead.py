"""NetworkOverhead: put a pod near the workloads it talks to
(scheduler-plugins v0.34.7, pkg/networkaware/networkoverhead)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from scheduler import framework as fw
from scheduler.catalog import ActionType, NetworkOverheadArgs
from scheduler.kube.model import (
    APP_GROUP_LABEL,
    WORKLOAD_LABEL,
    AppGroup,
    AppGroupDependency,
    NetworkOrigin,
    NetworkTopology,
    NetworkTopologyInfo,
)
from scheduler.kube.primitives import ANY_VALUE, Selector, selector_from_set

# Costs of the network between zones and between regions, as a NetworkTopology lists them.

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

    cost: fw.IntArray
    local: fw.BoolArray
    unlabelled: fw.BoolArray
    listed: fw.BoolArray


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


# What `compatibility: upstream` changes in NetworkOverhead: pkg/networkaware/networkoverhead of scheduler-plugins
# v0.34.7 as it is.
def reject_with_reason_per_node(
    satisfied: fw.IntArray, violated: fw.IntArray, view: fw.NodeView, rows: fw.RowArray
) -> fw.Verdicts | None:
    """Reject the nodes from which more limits are exceeded than kept, each with a reason that names it.

    The pod's message grows with the cluster. There is room for `MAX_REASONS` texts; further nodes get the last one.
    """
    failed = violated > satisfied
    if not failed.any():
        return None
    reasons: list[str] = []
    bits = np.zeros(len(rows), dtype=np.int64)
    for index in np.flatnonzero(failed).tolist():
        if len(reasons) < fw.MAX_REASONS:
            reasons.append(
                f"Node {view.name(int(rows[index]))} does not meet several network requirements from Workload "
                f"dependencies: Satisfied: {satisfied[index]} Violated: {violated[index]}"
            )
        bits[index] = np.int64(1) << (len(reasons) - 1)
    return fw.Verdicts(failed.astype(np.int8) * np.int8(fw.Code.UNSCHEDULABLE), bits, tuple(reasons))


NAME = "NetworkOverhead"
REASON = "node(s) exceeded more network cost limits of the pod's dependencies than they kept"


class _Overhead(Struct, frozen=True):
    """By row: dependencies whose limit is kept, those whose limit is exceeded, and the sum of costs."""

    satisfied: fw.IntArray
    violated: fw.IntArray
    cost: fw.IntArray


class _Places(Struct, frozen=True):
    """Places of nodes, valid until a node's labels change."""

    version: int
    place_of_row: fw.RowArray
    places: list[Place]


class _Paths(Struct, frozen=True):
    """The paths between places, valid until these or a NetworkTopology change."""

    versions: tuple[int, int]
    paths: NetworkPaths


class NetworkOverhead(
    fw.PreFilterPlugin,
    fw.FilterPlugin,
    fw.ScorePlugin,
    fw.PreFilterExtensions,
    fw.ScoreNormalizer,
    fw.EnqueueExtensions,
):
    """Filter and score over the pods, on nodes, of the workloads that a pod's own workload depends on.

    A pod without AppGroup, whose AppGroup is not there, or whose workload has no dependencies is left alone. Without
    the NetworkTopology no cost is known between zones and regions.
    """

    name = NAME

    def __init__(self, args: NetworkOverheadArgs, context: fw.PluginContext) -> None:
        self._namespaces = tuple(args.namespaces)
        self._weights_name = args.weights_name
        self._topology_name = args.network_topology_name
        self._reject = reject_with_reason_per_node if context.upstream else _reject_together
        # Upstream takes what was measured to be in order; a list that is not loses costs.
        self._in_order = not context.upstream or args.weights_name != MEASURED
        self._cached_places: _Places | None = None
        self._cached_paths: _Paths | None = None

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Count, for every node, limits kept and exceeded, and sum up the costs."""
        group = self._app_group(pod, view)
        dependencies = _dependencies(pod, group) if group is not None else ()
        if group is not None and dependencies:
            places = self._places(view)
            _charge(state, len(dependencies), places, view)
            state.write(NAME, self._overhead(group.metadata.name, dependencies, places, view))
        elif group is None and pod.labels.get(APP_GROUP_LABEL):
            state.count(f"app_group_missing/{NAME}")
        return None, fw.SUCCESS

    def add_pod(self, state: fw.CycleState, pod: fw.PodInfo, added: fw.PodInfo, view: fw.NodeView, row: int) -> None:
        """Change nothing: as upstream, verdicts are those over the pods as they are."""

    def remove_pod(
        self, state: fw.CycleState, pod: fw.PodInfo, removed: fw.PodInfo, view: fw.NodeView, row: int
    ) -> None:
        """Change nothing: no pod is evicted for the network's sake."""

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes from which more limits are exceeded than kept."""
        overhead = state.read(NAME, _Overhead)
        if overhead is None:
            return None
        return self._reject(overhead.satisfied[rows], overhead.violated[rows], view, rows)

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Return the sums of costs."""
        overhead = state.read(NAME, _Overhead)
        return overhead.cost[rows] if overhead is not None else np.zeros(len(rows), dtype=np.int64)

    def normalize(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray, scores: fw.IntArray
    ) -> fw.IntArray:
        """Turn the lowest cost into 100 and the highest into 0; 0 for all where there are no costs."""
        if not scores.any():
            return scores
        lowest = scores.min()
        spread = float(scores.max() - lowest)
        stretched = float(fw.MAX_SCORE) * (scores - lowest).astype(np.float64) / (spread or 1.0)
        normalized: fw.IntArray = fw.MAX_SCORE - stretched.astype(np.int64)
        return normalized

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register pods of the same AppGroup, nodes, AppGroups and NetworkTopologies."""
        return (
            fw.HintRegistration(
                fw.POD, ActionType.ADD | ActionType.DELETE | ActionType.UPDATE_POD_LABEL, _same_app_group
            ),
            fw.HintRegistration(fw.NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL),
            fw.HintRegistration("AppGroup", ActionType.ALL),
            fw.HintRegistration("NetworkTopology", ActionType.ALL),
        )

    # Internals ------------------------------------------------------------------------------------------------------

    def _app_group(self, pod: fw.PodInfo, view: fw.NodeView) -> AppGroup | None:
        name = pod.labels.get(APP_GROUP_LABEL, "")
        group: AppGroup | None = self._first_in_namespaces(view, "AppGroup", name) if name else None
        return group

    def _first_in_namespaces(self, view: fw.NodeView, kind: str, name: str) -> Any:
        for namespace in self._namespaces:
            candidate = view.objects.get(kind, namespace, name)
            if candidate is not None:
                return candidate
        return None

    def _overhead(
        self, group: str, dependencies: Sequence[AppGroupDependency], places: _Places, view: fw.NodeView
    ) -> _Overhead:
        paths, place_of_row = self._paths(places, view), places.place_of_row
        satisfied, violated, all_pods = (np.zeros(len(paths.cost), dtype=np.int64) for _ in range(3))
        own: fw.IntArray = np.zeros(view.size, dtype=np.int64)
        for dependency in dependencies:
            pods = _pods_of_workload(group, dependency.workload.selector, view)
            if not pods.any():
                continue
            own += pods
            # float64 counts pods exactly, and multiplies fast.
            counts: fw.FloatArray = np.bincount(place_of_row, weights=pods, minlength=len(all_pods)).astype(np.float64)
            limit = dependency.max_network_cost
            for total, ruled in (
                (satisfied, paths.local | (paths.listed & (paths.cost <= limit))),
                (violated, paths.unlabelled | (paths.listed & (paths.cost > limit))),
            ):
                np.add(total, (ruled.astype(np.float64) @ counts).astype(np.int64), out=total)
            all_pods += counts.astype(np.int64)
        # Pods on the very node cost nothing and keep their limits, whatever the way within the place.
        local, unlabelled, cost = paths.local.diagonal(), paths.unlabelled.diagonal(), paths.cost.diagonal()
        return _Overhead(
            satisfied[place_of_row] + np.where(local[place_of_row], 0, own),
            violated[place_of_row] - np.where(unlabelled[place_of_row], own, 0),
            (paths.cost @ all_pods)[place_of_row] - cost[place_of_row] * own,
        )

    def _places(self, view: fw.NodeView) -> _Places:
        known = self._cached_places
        if known is None or known.version != view.topology:
            regions, zones = view.labels(REGION), view.labels(ZONE)
            pairs, place_of_row = np.unique(np.stack((regions.codes, zones.codes), axis=1), axis=0, return_inverse=True)
            region_names, zone_names = [*regions.values, ""], [*zones.values, ""]
            places = [Place(region_names[region], zone_names[zone]) for region, zone in pairs.tolist()]
            known = self._cached_places = _Places(view.topology, place_of_row.reshape(-1).astype(np.intp), places)
        return known

    def _paths(self, places: _Places, view: fw.NodeView) -> NetworkPaths:
        versions = (places.version, view.objects.generation("NetworkTopology"))
        known = self._cached_paths
        if known is None or known.versions != versions:
            topology: NetworkTopology | None = self._first_in_namespaces(view, "NetworkTopology", self._topology_name)
            table = CostTable(topology, self._weights_name, in_order=self._in_order)
            known = self._cached_paths = _Paths(versions, table.paths(places.places))
        return known.paths


def _charge(state: fw.CycleState, dependencies: int, places: _Places, view: fw.NodeView) -> None:
    # Paths between all pairs are looked up once per change of the nodes or of the NetworkTopology, and multiplied for
    # each dependency, whose pods are counted per node.
    pairs = len(places.places) ** 2
    state.work.charge_once((NAME, "paths"), pairs // 2, "places of nodes x places of nodes")
    per_dependency = 100 + len(view.rows) // 20 + pairs // 500
    state.work.charge(dependencies * per_dependency, "dependencies of the workload x (nodes + pairs of places)")


def _reject_together(
    satisfied: fw.IntArray, violated: fw.IntArray, view: fw.NodeView, rows: fw.RowArray
) -> fw.Verdicts | None:
    """Reject the nodes from which more limits are exceeded than kept, all with one reason."""
    return fw.reject(violated > satisfied, fw.Code.UNSCHEDULABLE, REASON)


def _dependencies(pod: fw.PodInfo, group: AppGroup) -> tuple[AppGroupDependency, ...]:
    workload = pod.labels.get(WORKLOAD_LABEL, "")
    return tuple(
        dependency
        for listed in group.spec.workloads
        if listed.workload.selector == workload
        for dependency in listed.dependencies
    )


def _pods_of_workload(group: str, workload: str, view: fw.NodeView) -> fw.IntArray:
    """Return the pods of a workload per row; those without the label are of the workload with the empty selector."""
    pods = view.pods_by_node(_query(selector_from_set({APP_GROUP_LABEL: group, WORKLOAD_LABEL: workload})))
    if not workload:
        unlabelled = Selector(selector_from_set({APP_GROUP_LABEL: group}).required, {WORKLOAD_LABEL: ANY_VALUE})
        pods = pods + view.pods_by_node(_query(unlabelled))
    return pods


def _query(selector: Selector) -> fw.PodQuery:
    return fw.PodQuery((fw.PodClause(None, selector),))


def _same_app_group(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    """The pod itself may have got another label; of other pods those of its AppGroup count."""
    group = pod.labels.get(APP_GROUP_LABEL)
    changed = [changed_pod for changed_pod in (old, new) if isinstance(changed_pod, fw.PodInfo)]
    concerned = any(
        changed_pod.uid == pod.uid or changed_pod.labels.get(APP_GROUP_LABEL) == group for changed_pod in changed
    )
    return fw.Hint.QUEUE if concerned else fw.Hint.SKIP
