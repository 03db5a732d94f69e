"""NodeResourcesFit: room for the pod's requests, and how full the node would be
(pkg/scheduler/framework/plugins/noderesources/fit.go)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import ActionType, NodeResourcesFitArgs
from scheduler.framework import FloatArray, Nodes
from scheduler.helpers import (
    DEVICE_CLASS,
    ExtendedResources,
    asks_for_devices,
    covers,
    implicit_name,
    interpolate,
    may_be_devices,
    round_half_away,
)
from scheduler.kube.model import DeviceClass

_LARGEST_PART = float((1 << 63) // 100)
"""A hundred times a larger amount is beyond int64."""
BASIC = ("cpu", "memory")
"""What every node of a complete view has (`NodeView.complete`)."""

Kernel = Callable[[Any, Any], Any]
"""kernel(allocatable, requested with the pod). `requested` belongs to the kernel, which overwrites a column: a new
column of 5,000 nodes costs as much as the nodes. No `allocatable` may be 0."""


def too_many_pods(pod_count: Any, allowed_pods: Any) -> Any:
    """Tell whether a node has no pod slot left (fit.go, fitsRequest); a bool, or a column of them."""
    return pod_count + 1.0 > allowed_pods


def is_insufficient(request: float, allocatable: Any, requested: Any) -> Any:
    """Tell whether a node has less of a resource left than a pod requests (fit.go, fitsRequest)."""
    return request > allocatable - requested


def least_requested_score(nodes: Nodes) -> Kernel:
    """Return the kernel of (allocatable - requested) * 100 / allocatable (least_allocated.go, leastRequestedScore).

    Go divides integers: the quotient is rounded down, and requests beyond the capacity score 0.
    """
    at_least, floor = nodes.at_least, nodes.floor

    def kernel(allocatable: Any, requested: Any) -> Any:
        # The difference is taken the wrong way round, and its sign turned by the factor, so that it can overwrite
        # `requested`. Negation loses no digit.
        requested -= allocatable
        requested *= -100.0
        requested = at_least(requested, 0.0)
        requested /= allocatable
        return floor(requested)

    return kernel


def most_requested_score(nodes: Nodes) -> Kernel:
    """Return the kernel of requested * 100 / allocatable (most_allocated.go, mostRequestedScore).

    Go divides integers: the quotient is rounded down. Requests beyond the capacity count as the capacity.
    """
    at_most, floor = nodes.at_most, nodes.floor

    def kernel(allocatable: Any, requested: Any) -> Any:
        requested = at_most(requested, allocatable)
        requested *= 100.0
        requested /= allocatable
        return floor(requested)

    return kernel


def used_fraction(nodes: Nodes) -> Kernel:
    """Return the kernel of requested / allocatable, at most 1 (balanced_allocation.go, balancedResourceScorer)."""
    at_most = nodes.at_most

    def kernel(allocatable: Any, requested: Any) -> Any:
        requested /= allocatable
        return at_most(requested, 1.0)

    return kernel


def balance_of_two(fraction: Any, other: Any) -> Any:
    """Return (1 - std) * 100 for two fractions, whose standard deviation is half their distance
    (balanced_allocation.go, balancedResourceScorer); not yet truncated."""
    score = abs(fraction - other)
    score *= -0.5
    score += 1.0
    score *= 100.0
    return score


def rate_change(nodes: Nodes, after: Any, before: Any) -> Any:
    """Return 50 to 100 for a balance that a pod worsens to improves; both balances are truncated, and so is half their
    difference (balanced_allocation.go, balancedResourceScorer since 1.36)."""
    return nodes.floor((50.0 + after - before) * 0.5) + 50.0


def wide_percent(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return Go's `part * 100 / whole` in int64, which overflows where Go's does; `part * 100` where whole is 0.

    For columns beyond 82 TiB (`NodeView.wide`); below that float64 is exact and quicker.
    """
    quotient = part.astype(np.int64) * 100 // np.maximum(whole.astype(np.int64), 1)
    return quotient.astype(np.float64)


def exact_percent(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return `part * 100 / whole` rounded down, at most 100, also where `part * 100` is beyond int64; any number where
    whole is 0 (requested_to_capacity_ratio.go, scaledFraction since 1.38)."""
    huge = np.maximum(part, whole) > _LARGEST_PART
    percent = wide_percent(np.where(huge, 0.0, part), np.where(huge, 1.0, whole))
    # Amounts beyond 92 PB are hardly ever real: they may cost time.
    for row in np.flatnonzero(huge).tolist():
        percent[row] = min(int(part[row]) * 100 // max(int(whole[row]), 1), 100)
    return percent


def utilization_percent(
    allocatable: FloatArray, requested: FloatArray, percent_of: Callable[[FloatArray, FloatArray], FloatArray] | None
) -> FloatArray:
    """Return requested * 100 / allocatable rounded down, 100 where more is requested than there is
    (requested_to_capacity_ratio.go, resourceScoringFunction); `percent_of` divides columns beyond 82 TiB."""
    if percent_of is not None:
        percent = percent_of(requested, allocatable)
    else:
        percent = np.floor(requested * 100.0 / np.maximum(allocatable, 1.0))
    return np.where(requested > allocatable, 100.0, percent)


NAME = "NodeResourcesFit"
_BASIC = frozenset(BASIC)
_ALWAYS_SCORED = (*BASIC, "ephemeral-storage")


_NOTHING: frozenset[str] = frozenset()


class NodeResourcesFit(
    fw.PreFilterPlugin,
    fw.FilterPlugin,
    fw.PreScorePlugin,
    fw.ScorePlugin,
    fw.EnqueueExtensions,
    fw.FilterRule,
    fw.ScoreRule,
    fw.ObjectReader,
    fw.RoomFilter,
    fw.DomainScorer,
):
    """Filter and score over cpu, memory, ephemeral storage and extended resources."""

    name = NAME

    def __init__(self, args: NodeResourcesFitArgs, context: fw.PluginContext) -> None:
        self._backs_resources = context.kubernetes.backs_extended_resources
        self._scores_pod_level = context.kubernetes.scores_pod_level
        self._wakes_at_shrunken_node = context.kubernetes.wakes_at_shrunken_node
        self._percent = exact_percent if context.kubernetes.scores_exactly else wide_percent
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.strategy
        self._objects: fw.Objects | None = None
        self._weights = [(spec.name, float(spec.effective_weight)) for spec in strategy.effective_resources]
        self._is_capacity_ratio = strategy.type == "RequestedToCapacityRatio"
        self._shape: Sequence[tuple[int, int]] = ()
        if self._is_capacity_ratio:
            points = strategy.requested_to_capacity_ratio.shape if strategy.requested_to_capacity_ratio else []
            if not points:
                raise ValueError("requestedToCapacityRatio.shape: at least one point must be specified")
            self._shape = [(point.utilization, point.score * 10) for point in points]
        self._most = strategy.type == "MostAllocated"

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Nothing to prepare: requests were reduced when the pod arrived. Never skipped, as every pod takes a pod
        slot."""
        return None, fw.SUCCESS

    def pre_score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Status:
        """Nothing to prepare."""
        return fw.SUCCESS

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes without room, with every reason; unresolvable where the request exceeds the node itself."""
        if pod.spec.lists_much:
            _charge(state, pod, rows)
        masks = fw.masks_of(self.filter_rule, pod.spec, view, rows)
        resources = self._checked(pod.spec)
        exceeds_node = np.zeros(len(rows), dtype=np.bool_)
        for (resource, request), insufficient in zip(resources, masks[1:], strict=True):
            if insufficient.any():
                exceeds_node |= insufficient & (request > fw.gather(view, view.allocatable(resource), rows))
        reasons = ("Too many pods", *(f"Insufficient {resource}" for resource, _ in resources))
        return fw.verdicts_of(masks, reasons, fw.Code.UNSCHEDULABLE, exceeds_node)

    def score(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.IntArray:
        """Score by the strategy: weighted mean over resources (resource_allocation.go, score)."""
        if pod.spec.lists_much:
            _charge(state, pod, rows)
        return fw.scores_of(self._rule_of_score, pod.spec, view, rows)

    def room(self, spec: fw.SpecInfo, view: fw.NodeView) -> fw.FloatArray:
        """Return how many pods of a spec each node has room for, by pods and by each resource of `_checked`; of
        resources that may be devices nothing is known here."""
        room: fw.FloatArray = view.allowed_pods - view.pod_count
        for resource, request in self._checked(spec):
            if not (self._backs_resources and may_be_devices(resource)):
                free = view.allocatable(resource) - view.requested(resource)
                room = np.minimum(room, np.floor(free / request))
        return room

    def score_domain(self, pods: Sequence[fw.PodInfo], view: fw.NodeView, rows: fw.RowArray) -> int:
        """Return how full the domain is, whatever the strategy of nodes (ScorePlacement of 1.37: MostAllocated over the
        sums of all nodes); of extended resources those that a member requests count."""
        total = divisor = 0
        for name, weight in self._weights:
            if name not in _ALWAYS_SCORED and not any(pod.spec.score_requests.get(name, 0) for pod in pods):
                continue
            allocatable = int(view.allocatable(name)[rows].sum())
            if not allocatable:
                continue
            column = view.nonzero_requested(name) if name in BASIC else view.requested(name)
            has_any = view.allocatable(name)[rows] > 0
            requested = min(int(column[rows][has_any].sum()), allocatable)
            total += requested * 100 // allocatable * int(weight)
            divisor += int(weight)
        return total // divisor if divisor else 0

    def _checked(self, spec: fw.SpecInfo) -> list[tuple[str, int]]:
        """Return what a pod requests of resources that are not ignored, in the order of upstream's message."""
        requests = spec.requests
        return [
            (resource, requests[resource])
            for resource in _in_message_order(requests)
            if requests[resource] > 0 and not self._is_ignored(resource)
        ]

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Return the rule of `filter`: too many pods, then each resource of `_checked`."""
        count, allowed = nodes.pod_count, nodes.allowed_pods
        backed = self._backed(spec, nodes)
        amounts = [
            (request, nodes.allocatable(name), nodes.requested(name), name in backed)
            for name, request in self._checked(spec)
        ]

        def failures(node: fw.Node) -> Sequence[Any]:
            masks = [too_many_pods(count(node), allowed(node))]
            for request, allocatable_at, requested, has_devices in amounts:
                allocatable = allocatable_at(node)
                insufficient = is_insufficient(request, allocatable, requested(node))
                # Where a node has none of a backed resource, DynamicResources finds devices.
                masks.append(insufficient & (allocatable > 0) if has_devices else insufficient)
            return masks

        return failures

    def score_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Return the rule of `score`, where its formula is worth a form for plain numbers."""
        if not nodes.in_columns and (
            self._is_capacity_ratio or any(nodes.wide(name) for name, *_ in self._scored_resources(spec))
        ):
            return fw.Reads.PODS
        return self._rule_of_score(spec, nodes)

    def _rule_of_score(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule:
        scored = self._scored_resources(spec)
        resources = [
            (
                nodes.allocatable(name),
                nodes.nonzero_requested(name) if name in BASIC else nodes.requested(name),
                float(request),
                weight,
                self._formula(nodes, wide=nodes.wide(name)),
            )
            for name, request, weight in scored
        ]
        weights = sum([weight for *_, weight in scored])

        def mean_of_all(node: fw.Node) -> Any:
            total: Any = None
            for allocatable, requested, request, weight, formula in resources:
                score = formula(allocatable(node), requested(node) + request)
                if weight != 1.0:
                    score = score * weight
                total = score if total is None else total + score
            return total / weights

        def mean(node: fw.Node) -> Any:
            total: Any = 0.0
            divisor: Any = 0.0
            for allocatable_at, requested, request, weight, formula in resources:
                allocatable = allocatable_at(node)
                counted = allocatable > 0.0
                score = formula(nodes.at_least(allocatable + 0.0, 1.0), requested(node) + request)
                if self._is_capacity_ratio:
                    counted = counted & (score > 0.0)
                total = total + score * (counted * weight)
                divisor = divisor + counted * weight
            total = total / nodes.at_least(divisor + 0.0, 1.0) if resources else 0.0
            return round_half_away(total) if self._is_capacity_ratio else total

        # Then nothing is left out of the mean, which spares half of the arithmetic.
        have_all = nodes.complete and {name for name, *_ in scored} <= _BASIC
        all_count = weights and have_all and not self._is_capacity_ratio
        return mean_of_all if all_count else mean

    def _formula(self, nodes: fw.Nodes, *, wide: bool) -> Kernel:
        """Return the score of one resource, by what is allocatable, at least 1, and what would be requested."""
        if self._is_capacity_ratio:
            percent = self._percent if wide else None
            return lambda allocatable, requested: interpolate(
                utilization_percent(allocatable, requested, percent), self._shape
            )
        if wide:
            return lambda allocatable, requested: self._percent(
                np.minimum(requested, allocatable) if self._most else np.maximum(allocatable - requested, 0.0),
                allocatable,
            )
        return most_requested_score(nodes) if self._most else least_requested_score(nodes)

    def _scored_resources(self, spec: fw.SpecInfo) -> list[tuple[str, int, float]]:
        """Return the resources that count for a pod, what it requests and their weight: an extended one only if the
        pod requests it.

        Of cpu and memory a pod without a request counts with a default, so that such pods spread as well
        (GetNonzeroRequests).
        """
        requests = [(name, self._score_request(spec, name), weight) for name, weight in self._weights]
        return [each for each in requests if each[0] in _ALWAYS_SCORED or each[1]]

    def _score_request(self, spec: fw.SpecInfo, resource: str) -> int:
        """Return what counts of a pod's request for the score: since 1.38 that of the pod as a whole, where it has
        one."""
        if self._scores_pod_level and resource in spec.pod_level.requests:
            return spec.pod_level.requests[resource] + spec.overhead.get(resource, 0)
        return spec.score_requests.get(resource, 0)

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register pods that are deleted or shrink, and nodes that are added or grow."""
        node_actions = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        return (
            fw.HintRegistration(fw.POD, ActionType.DELETE, self._pod_deleted),
            fw.HintRegistration(fw.POD, ActionType.UPDATE_POD_SCALE_DOWN, self._pod_scaled_down),
            fw.HintRegistration(fw.NODE, node_actions, self._node_changed),
            *(
                (fw.HintRegistration(DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE, self._class_changed),)
                if self._backs_resources
                else ()
            ),
        )

    def _is_backed(self, resource: str, objects: fw.Objects) -> bool:
        """Tell whether a resource is the devices of a class, on nodes that have none of it."""
        if not self._backs_resources or not may_be_devices(resource):
            return False
        return objects.derived(ExtendedResources).class_of(resource) is not None

    def _backed(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> frozenset[str]:
        """Return the resources of a pod that are the devices of a class."""
        if not self._backs_resources or not asks_for_devices(spec.requests):
            return _NOTHING
        names = tuple(spec.requests)
        backed: frozenset[str] = nodes.value(
            lambda view: frozenset([name for name in names if self._is_backed(name, view.objects)])
        )
        return backed

    def _is_ignored(self, resource: str) -> bool:
        if "/" not in resource or "kubernetes.io/" in resource:
            return False
        return resource in self._ignored or resource.partition("/")[0] in self._ignored_groups

    @staticmethod
    def _pod_deleted(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        assigned = isinstance(old, fw.PodInfo) and bool(old.node_name or old.nominated_node)
        return fw.Hint.QUEUE if assigned else fw.Hint.SKIP

    @staticmethod
    def _pod_scaled_down(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        if not isinstance(old, fw.PodInfo) or not isinstance(new, fw.PodInfo):
            return fw.Hint.QUEUE
        if new.uid == pod.uid:
            return fw.Hint.QUEUE
        if not new.node_name:
            return fw.Hint.SKIP
        wanted = (name for name, amount in pod.spec.requests.items() if amount > 0)
        return (
            fw.Hint.QUEUE
            if any(new.requests.get(name, 0) < old.requests.get(name, 0) for name in wanted)
            else fw.Hint.SKIP
        )

    def use_objects(self, objects: fw.Objects) -> None:
        """Take the store, for the hints."""
        self._objects = objects

    @staticmethod
    def _class_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        if not isinstance(new, DeviceClass):
            return fw.Hint.QUEUE
        named, requests = new.spec.extended_resource_name or "", pod.spec.requests
        if isinstance(old, DeviceClass):
            return (
                fw.Hint.QUEUE
                if named != (old.spec.extended_resource_name or "") and named in requests
                else fw.Hint.SKIP
            )
        return fw.Hint.QUEUE if named in requests or implicit_name(new) in requests else fw.Hint.SKIP

    def _node_changed(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        if not isinstance(new, fw.NodeInfo):
            return fw.Hint.QUEUE
        devices = self._devices_on(pod, new)
        if not _fits_empty(pod, new, devices):
            return fw.Hint.QUEUE if self._lost_its_node(pod, old, new) else fw.Hint.SKIP
        if devices or not isinstance(old, fw.NodeInfo) or new.allowed_pods > old.allowed_pods:
            return fw.Hint.QUEUE
        wanted = (name for name, amount in pod.spec.requests.items() if amount > 0)
        grew = any(new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for name in wanted)
        return fw.Hint.QUEUE if grew else fw.Hint.SKIP

    def _devices_on(self, pod: fw.PodInfo, node: fw.NodeInfo) -> Collection[str]:
        """Return the resources that a pod requests and that would be devices on a node."""
        requests, objects = pod.spec.requests, self._objects
        if not self._backs_resources or objects is None or not asks_for_devices(requests):
            return ()
        absent = [name for name, amount in requests.items() if amount > 0 and not node.allocatable.get(name, 0)]
        return {name for name in absent if self._is_backed(name, objects)}

    def _lost_its_node(self, pod: fw.PodInfo, old: object, new: fw.NodeInfo) -> bool:
        """Tell whether the nominated node became too small for a pod, which may then preempt elsewhere. Of extended
        resources a node may have none for a moment, while their plugin restarts: these do not count."""
        if not self._wakes_at_shrunken_node or pod.nominated_node != new.name or pod.scheduling_group:
            return False
        native = {name: pod.spec.requests.get(name, 0) for name in (*BASIC, "ephemeral-storage")}
        return (
            not covers(new.allocatable, native)
            and isinstance(old, fw.NodeInfo)
            and _fits_empty(pod, old, self._devices_on(pod, old))
        )


def _fits_empty(pod: fw.PodInfo, node: fw.NodeInfo, devices: Collection[str]) -> bool:
    """Tell whether a pod would fit a node that no other pod runs on; `devices` are resources that the node need not
    have."""
    own = {name: amount for name, amount in pod.spec.requests.items() if name not in devices}
    return node.allowed_pods > 0 and covers(node.allocatable, own)


def _in_message_order(requests: fw.Resources) -> list[str]:
    """Return resource names in the order upstream reports them: cpu, memory, ephemeral-storage, then the others by
    name."""
    basic = [name for name in ("cpu", "memory", "ephemeral-storage") if name in requests]
    return [*basic, *sorted(requests.keys() - basic)]


def _charge(state: fw.CycleState, pod: fw.PodInfo, rows: fw.RowArray) -> None:
    requested = sum(1 for amount in pod.spec.requests.values() if amount)
    state.work.charge(len(pod.spec.requests) + requested * (20 + len(rows) // 50), "resources x nodes")
