"""NodeResourceTopologyMatch: nodes whose NUMA zones can take the pod, and how well
(pkg/noderesourcetopology of scheduler-plugins v0.34.7)."""

from collections.abc import Sequence

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import ActionType, NodeResourceTopologyMatchArgs
from scheduler.plugins.noderesourcetopologymatch import leastnuma
from scheduler.plugins.noderesourcetopologymatch.align import (
    MESSAGES,
    Needs,
    NeedsOfPods,
    Shortfalls,
    alignment_failures,
    with_missing,
)
from scheduler.plugins.noderesourcetopologymatch.caches import (
    DiscardReserved,
    OverReserve,
    Passthrough,
    TopologyCache,
    UpstreamDiscardReserved,
    UpstreamOverReserve,
    assumed_amounts,
    zone_at_number,
)
from scheduler.plugins.noderesourcetopologymatch.placement import Placements
from scheduler.plugins.noderesourcetopologymatch.removing import removed_by_node, without_pods
from scheduler.plugins.noderesourcetopologymatch.resync import Resync
from scheduler.plugins.noderesourcetopologymatch.strategies import score, strategy_of
from scheduler.plugins.noderesourcetopologymatch.topology import KIND, NAME, SINGLE_NUMA_NODE, Part

STALE = "invalid node topology data"
_LEAST_NUMA_NODES = "LeastNUMANodes"
_REASONS = (STALE, *MESSAGES)
_ON_EVERY_NODE = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})


class NodeResourceTopologyMatch(
    fw.PreFilterPlugin,
    fw.FilterPlugin,
    fw.ScorePlugin,
    fw.ReservePlugin,
    fw.PostBindPlugin,
    fw.EnqueueExtensions,
    fw.FilterRule,
    fw.ScoreRule,
    fw.ObjectReader,
):
    """Filter and score by the zones in NodeResourceTopology objects. A node without one passes, and scores 0.

    Counted per attempt, in nodes: `stale_topology` (rejected because their zones are not reliable for now),
    `missing_topology` (no object) and `flawed_topology` (an object that makes no sense in parts).
    """

    name = NAME

    def __init__(self, args: NodeResourceTopologyMatchArgs, context: fw.PluginContext) -> None:
        strategy = args.scoring_strategy
        self._strategy = None
        if strategy.type != _LEAST_NUMA_NODES:
            self._strategy = strategy_of(
                strategy.type, {resource.name: resource.weight for resource in strategy.resources}
            )
        self._debited_zone = zone_at_number if context.upstream else leastnuma.same_zone
        self._upstream = context.upstream
        self._needs = NeedsOfPods(upstream=context.upstream)
        self._placements: Placements | None = None
        if args.preemption_mode == "Enabled":
            self._placements = Placements(self._needs.of, args.cache.resync_method)
        self._resync: Resync | None = None
        self._cache = self._new_cache(args, context)

    def _new_cache(self, args: NodeResourceTopologyMatchArgs, context: fw.PluginContext) -> TopologyCache:
        handle = context.handle
        if args.discard_reserved_nodes:
            discard_reserved = UpstreamDiscardReserved if context.upstream else DiscardReserved
            return discard_reserved(handle=handle, placements=self._placements)
        period = args.cache_resync_period_seconds
        if period <= 0:
            return Passthrough(handle=handle, placements=self._placements)
        over_reserve = UpstreamOverReserve if context.upstream else OverReserve
        cache = over_reserve(args, context.scheduler_name, self._needs.of, handle=handle, placements=self._placements)
        if handle is not None:
            handle.watch_pods(cache.pod_changed)
            self._resync = Resync(cache, handle, period, wakes=not context.upstream)
        return cache

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Let every node through: upstream notes the victims of a dry run from here on, which a view shows anyway."""
        return None, fw.SUCCESS

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes of the policy single-numa-node on which the pod, or one of its containers, fits no zone."""
        needs = self._needs.of(pod.spec)
        if needs.ignored:
            return None
        _charge(state, pod, rows)
        self._cache.refresh(view.objects)
        stale = self._stale(view, rows)
        reasons: fw.IntArray = stale.astype(np.int64)
        shortfalls = Shortfalls(reasons)
        for part in self._cache.table.parts(view, rows):
            if part.group.manager.policy != SINGLE_NUMA_NODE:
                continue
            failures, missing = alignment_failures(
                part.group,
                self._available(part, state, view),
                needs,
                lambda resource, part=part: _has_resource(view, rows[part.positions], resource),  # type: ignore[misc]
            )
            reasons[part.positions] = np.where(stale[part.positions], 1, np.where(failures > 0, failures + 1, 0))
            shortfalls.add(part.positions, missing)
        self._count(state, view, rows, stale)
        if not reasons.any():
            return None
        self._record_rejection(pod, view, rows[reasons > 1])
        codes = np.where(reasons > 0, fw.Code.UNSCHEDULABLE, 0).astype(np.int8)
        bits = np.where(reasons > 0, np.left_shift(1, np.maximum(reasons - 1, 0)), 0)
        if self._upstream:
            return fw.Verdicts(codes, bits, _REASONS, detail=shortfalls.of_row)
        # Upstream's words name no resource and no amounts.
        texts = tuple(with_missing(words, shortfalls.of_reason(number)) for number, words in enumerate(_REASONS, 1))

        def describe(index: int) -> tuple[str, ...]:
            number = int(reasons[index])
            return (with_missing(_REASONS[number - 1], shortfalls.of_row(index)),) if number else ()

        return fw.Verdicts(codes, bits, texts, describe)

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Score by the strategy. Pods that are not Guaranteed take nothing of a zone for themselves: all nodes are
        equally good."""
        needs = self._needs.of(pod.spec)
        if not needs.guaranteed:
            return np.full(len(rows), fw.MAX_SCORE, dtype=np.int64)
        _charge(state, pod, rows)
        self._cache.refresh(view.objects)
        scores: fw.IntArray = np.zeros(len(rows), dtype=np.int64)
        for part in self._cache.table.parts(view, rows):
            scores[part.positions] = self._score(part, state, view, needs)
        scores[self._stale(view, rows)] = 0
        return scores

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Some pods are not filtered."""
        return fw.Reads.NOTHING if spec.of(self._is_ignored) else fw.Reads.ANYTHING

    def score_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Pods that take nothing of a zone for themselves find all nodes equally good."""
        return fw.Reads.ANYTHING if spec.of(self._is_guaranteed) else lambda node: fw.MAX_SCORE

    def _is_ignored(self, spec: fw.SpecInfo) -> bool:
        return self._needs.of(spec).ignored

    def _is_guaranteed(self, spec: fw.SpecInfo) -> bool:
        return self._needs.of(spec).guaranteed

    def reserve(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> fw.Status:
        """Note that the pod is on its way to the node."""
        self._cache.reserve(pod, node)
        if self._resync is not None:
            self._resync.placed(pod)
        return fw.SUCCESS

    def unreserve(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> None:
        """Note that the pod does not go to the node after all."""
        self._cache.unreserve(pod, node)

    async def post_bind(self, state: fw.CycleState, pod: fw.PodInfo, node: str) -> None:
        """Note that the pod is bound."""
        self._cache.bound(pod, node)

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register deleted pods, nodes that are added or change in size, and what the agents publish."""
        return (
            fw.HintRegistration(fw.POD, ActionType.DELETE),
            fw.HintRegistration(fw.NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE),
            fw.HintRegistration(KIND, ActionType.ADD | ActionType.UPDATE),
        )

    def use_objects(self, objects: fw.Objects) -> None:
        """Begin to compare what is published with the pods on the nodes, where that is called for."""
        if self._resync is not None:
            self._resync.start(objects)

    def _stale(self, view: fw.NodeView, rows: fw.RowArray) -> fw.BoolArray:
        nodes = set(self._cache.stale())
        if self._cache.closes_promised_nodes:
            nodes.update(assignment.node for assignment in view.overlay_assignments if assignment.sign > 0)
        marked: fw.BoolArray = np.zeros(view.size, dtype=np.bool_)
        if nodes:
            marked[[row for name in nodes if (row := view.row(name)) >= 0]] = True
        return marked[rows]

    def _available(self, part: Part, state: fw.CycleState, view: fw.NodeView) -> fw.IntArray:
        """What the zones have left, less what other pods of this attempt are promised: read only."""
        group = part.group
        available = group.available.take(part.members, axis=0)
        placements = self._placements if view.removed_pods else None
        promises = self._cache.deducts_promised and view.overlay_assignments
        if placements is None and not promises:
            return available
        at = {group.members[member]: index for index, member in enumerate(part.members.tolist())}
        if placements is not None:
            for node, pods in removed_by_node(view).items():
                if node in at:
                    zones = without_pods(self._cache, placements, group, view, node, pods, state.work)
                    available[at[node]] = zones
        if promises:
            added = ((assignment.node, assignment.spec) for assignment in promises if assignment.sign > 0)
            for node, amounts in assumed_amounts(added, self._needs.of).items():
                for name, amount in amounts.items():
                    column = group.columns.get(name)
                    if column is not None and node in at:
                        index = at[node]
                        available[index, :, column] = np.maximum(available[index, :, column] - amount, 0)
        return available

    def _score(self, part: Part, state: fw.CycleState, view: fw.NodeView, needs: Needs) -> fw.IntArray:
        group, available = part.group, self._available(part, state, view)
        if self._strategy is None:
            return leastnuma.score(group, available, needs, self._debited_zone)
        if group.manager.policy != SINGLE_NUMA_NODE:
            return np.zeros(len(available), dtype=np.int64)
        return score(self._strategy, group, available, needs)

    def _record_rejection(self, pod: fw.PodInfo, view: fw.NodeView, rejecting_rows: fw.RowArray) -> None:
        if isinstance(self._cache, OverReserve):
            self._cache.mark_maybe_over_reserved(view.name(row) for row in rejecting_rows.tolist())
        if self._resync is not None:
            self._resync.pod_rejected(pod)

    def _count(self, state: fw.CycleState, view: fw.NodeView, rows: fw.RowArray, stale: fw.BoolArray) -> None:
        table = self._cache.table
        missing = table.missing(view, rows)
        state.count(f"stale_topology/{NAME}", int(np.count_nonzero(stale)))
        state.count(f"missing_topology/{NAME}", int(np.count_nonzero(missing & ~stale)))
        state.count(f"flawed_topology/{NAME}", table.flawed(view, rows))


def _has_resource(view: fw.NodeView, rows: fw.RowArray, resource: str) -> fw.BoolArray:
    """Tell which nodes have a resource at all, be it none of it."""
    if resource in _ON_EVERY_NODE:
        return np.ones(len(rows), dtype=np.bool_)
    have: fw.BoolArray = view.allocatable(resource)[rows] > 0
    for index in np.flatnonzero(~have).tolist():
        have[index] = resource in view.info(int(rows[index])).allocatable
    return have


def _charge(state: fw.CycleState, pod: fw.PodInfo, rows: fw.RowArray) -> None:
    if pod.spec.lists_much:
        # A few passes of numpy over all zones of all nodes.
        requests = sum(1 + len(container.requests) for container in pod.spec.containers)
        state.work.charge(requests * (30 + len(rows) // 20), "requests of containers x nodes")
