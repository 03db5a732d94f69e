"""NodeResourcesFit: room for the pod's requests, and how full the node would be
(pkg/scheduler/framework/plugins/noderesources/fit.go)."""

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.catalog import ActionType, NodeResourcesFitArgs
from scheduler.framework import (
    MAX_REASONS,
    NODE,
    POD,
    SUCCESS,
    BoolArray,
    Code,
    CycleState,
    DependsOn,
    EnqueueExtensions,
    FilterPlugin,
    FloatArray,
    Hint,
    HintRegistration,
    IntArray,
    Locality,
    LocalPlugin,
    NodeInfo,
    NodeView,
    ObjectReader,
    Objects,
    PluginContext,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Resources,
    RowArray,
    ScorePlugin,
    SmallIntArray,
    Status,
    Verdicts,
    gather,
)
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
from scheduler.plugins.noderesources.kernels import (
    BASIC,
    COLUMNS,
    NUMBERS,
    exact_percent,
    is_insufficient,
    least_requested_score,
    most_requested_score,
    too_many_pods,
    utilization_percent,
    wide_percent,
)

NAME = "NodeResourcesFit"


class _ScoredResource(NamedTuple):
    """One resource of the scoring strategy: what the score of a node for it follows from."""

    allocatable: FloatArray
    requested: FloatArray
    request: int
    weight: int
    wide: bool


def _class_generation(view: NodeView) -> int:
    return view.objects.derived(ExtendedResources).generation


class NodeResourcesFit(
    PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, EnqueueExtensions, LocalPlugin, ObjectReader
):
    """Filter and score over cpu, memory, ephemeral storage and extended resources."""

    name = NAME

    def __init__(self, args: NodeResourcesFitArgs, context: PluginContext) -> None:
        self._backs_resources = context.kubernetes.backs_extended_resources
        self._scores_pod_level = context.kubernetes.scores_pod_level
        self._wakes_at_shrunken_node = context.kubernetes.wakes_at_shrunken_node
        self._percent = exact_percent if context.kubernetes.scores_exactly else wide_percent
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.strategy
        self._objects: Objects | None = None
        self._weights = [(spec.name, spec.effective_weight) for spec in strategy.effective_resources]
        self._is_capacity_ratio = strategy.type == "RequestedToCapacityRatio"
        self._shape: Sequence[tuple[int, int]] = ()
        if self._is_capacity_ratio:
            points = strategy.requested_to_capacity_ratio.shape if strategy.requested_to_capacity_ratio else []
            if not points:
                raise ValueError("requestedToCapacityRatio.shape: at least one point must be specified")
            self._shape = [(point.utilization, point.score * 10) for point in points]
        self._most = strategy.type == "MostAllocated"
        if self._most:
            self._score_of_columns, self._score_of_node = most_requested_score(COLUMNS), most_requested_score(NUMBERS)
        else:
            self._score_of_columns, self._score_of_node = least_requested_score(COLUMNS), least_requested_score(NUMBERS)

    def pre_filter(self, state: CycleState, pod: PodInfo, view: NodeView) -> tuple[PreFilterResult | None, Status]:
        """Nothing to prepare: requests were reduced when the pod arrived. Never skipped, as every pod takes a pod
        slot."""
        return None, SUCCESS

    def pre_score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Status:
        """Nothing to prepare."""
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Reject nodes without room, with every reason; unresolvable where the request exceeds the node itself."""
        if pod.spec.lists_much:
            _charge(state, pod, rows)
        failures: list[tuple[str, BoolArray]] = []
        exceeds_node = np.zeros(len(rows), dtype=np.bool_)
        full = too_many_pods(gather(view, view.pod_count, rows), gather(view, view.allowed_pods, rows))
        if full.any():
            failures.append(("Too many pods", full))
        requests = pod.spec.requests
        for resource in _in_message_order(requests):
            request = requests[resource]
            if request <= 0 or self._is_ignored(resource):
                continue
            allocatable = gather(view, view.allocatable(resource), rows)
            insufficient = is_insufficient(request, allocatable, gather(view, view.requested(resource), rows))
            if self._is_backed(resource, view.objects):
                # Where a node has none of it, DynamicResources finds devices.
                insufficient &= allocatable > 0
            if insufficient.any():
                failures.append((f"Insufficient {resource}", insufficient))
                exceeds_node |= request > allocatable
        if not failures:
            return None
        bits = np.zeros(len(rows), dtype=np.int64)
        for index, (_, mask) in enumerate(failures):
            bits |= mask.astype(np.int64) << min(index, MAX_REASONS - 1)
        codes = np.where(
            bits == 0, 0, np.where(exceeds_node, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE)
        ).astype(np.int8)
        return Verdicts(codes, bits, tuple(reason for reason, _ in failures[:MAX_REASONS]))

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Score by the strategy: weighted mean over resources (resource_allocation.go, score)."""
        if pod.spec.lists_much:
            _charge(state, pod, rows)
        total = np.zeros(len(rows))
        weights: FloatArray = np.zeros(1)  # one number for all rows, until a row lacks a resource
        for resource in self._scored_resources(pod, view):
            allocatable = gather(view, resource.allocatable, rows)
            requested = gather(view, resource.requested, rows) + resource.request
            score = self._resource_score(allocatable, requested, wide=resource.wide)
            counted = allocatable > 0
            if self._is_capacity_ratio:
                counted &= score > 0
            weight = float(resource.weight)
            weighted = score if weight == 1.0 else score * weight
            if counted.all():
                total += weighted
                weights = weights + weight
            else:
                total += np.where(counted, weighted, 0.0)
                weights = weights + counted * weight
        mean = total / np.maximum(weights, 1.0)
        if self._is_capacity_ratio:
            return round_half_away(mean).astype(np.int64)
        # Numbers are not negative, so that truncation is floor.
        return mean.astype(np.int64)

    def _resource_score(self, allocatable: FloatArray, requested: FloatArray, *, wide: bool) -> FloatArray:
        """Return the score of one resource; any number where nothing is allocatable. Overwrites `requested`."""
        if self._is_capacity_ratio:
            percent = self._percent if wide else None
            return interpolate(utilization_percent(allocatable, requested, percent), self._shape)
        if wide:
            part = np.minimum(requested, allocatable) if self._most else np.maximum(allocatable - requested, 0.0)
            return self._percent(part, allocatable)
        return self._score_of_columns(np.maximum(allocatable, 1.0), requested)

    def _scored_resources(self, pod: PodInfo, view: NodeView) -> list[_ScoredResource]:
        """Return the resources that count for a pod: an extended one only if the pod requests it.

        Of cpu and memory a pod without a request counts with a default, so that such pods spread as well
        (GetNonzeroRequests).
        """
        scored = []
        for name, weight in self._weights:
            request = self._score_request(pod, name)
            if name in BASIC:
                requested = view.nonzero_requested(name)
            elif name == "ephemeral-storage" or request:
                requested = view.requested(name)
            else:
                continue
            scored.append(_ScoredResource(view.allocatable(name), requested, request, weight, view.wide(name)))
        return scored

    def _score_request(self, pod: PodInfo, resource: str) -> int:
        """Return what counts of a pod's request for the score: since 1.38 that of the pod as a whole, where it has
        one."""
        spec = pod.spec
        if self._scores_pod_level and resource in spec.pod_level.requests:
            return spec.pod_level.requests[resource] + spec.overhead.get(resource, 0)
        return spec.score_requests.get(resource, 0)

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Both follow from the node's amounts and what its pods request; of extended resources that may be devices also
        from the DeviceClasses."""
        by_classes = self._backs_resources and asks_for_devices(pod.spec.requests)
        return Locality(
            DependsOn.PODS,
            DependsOn.PODS,
            by_row=lambda now: (self._fits(pod, now), self._rate(pod, now)),
            fits_block=self._fits_block(pod),
            rate_block=self._rate_block(pod, view),
            version=_class_generation if by_classes else None,
        )

    def _fits_block(self, pod: PodInfo) -> Callable[[FloatArray], BoolArray] | None:
        """Return `filter` on a block, for pods that request nothing but cpu and memory."""
        requests = {name: amount for name, amount in pod.spec.requests.items() if amount > 0}
        if not requests.keys() <= set(BASIC):
            return None
        checks = [(requests[name], index) for index, name in enumerate(BASIC) if name in requests]

        def fits(block: FloatArray) -> BoolArray:
            failed: BoolArray = too_many_pods(block[7], block[6])
            for request, index in checks:
                failed |= is_insufficient(request, block[index], block[index + 2])
            return ~failed

        return fits

    def _rate_block(self, pod: PodInfo, view: NodeView) -> Callable[[FloatArray], SmallIntArray] | None:
        """Return `score` on a block, for a strategy over cpu and memory alone."""
        weights = dict(self._weights)
        if self._is_capacity_ratio or len(self._weights) != 2 or weights.keys() != set(BASIC):
            return None
        if any(map(view.wide, BASIC)):
            return None
        requests = np.array([[self._score_request(pod, name)] for name in BASIC], dtype=np.float64)
        cpu, memory = (float(weights[name]) for name in BASIC)
        equal_weights = cpu == memory == 1.0
        kernel = self._score_of_columns

        def rate(block: FloatArray) -> SmallIntArray:
            scores = kernel(block[:2], block[4:6] + requests)
            if equal_weights:
                total = scores[0] + scores[1]
                total *= 0.5
            else:
                total = (scores[0] * cpu + scores[1] * memory) / (cpu + memory)
            whole: SmallIntArray = total.astype(np.int16)
            return whole

        return rate

    def _fits(self, pod: PodInfo, view: NodeView) -> Callable[[NodeView, int], bool]:
        """Return `filter` on one row."""
        count, allowed = view.pod_count.item, view.allowed_pods.item
        requests = [
            (
                request,
                view.allocatable(resource).item,
                view.requested(resource).item,
                self._is_backed(resource, view.objects),
            )
            for resource, request in pod.spec.requests.items()
            if request > 0 and not self._is_ignored(resource)
        ]

        def fits(now: NodeView, row: int) -> bool:
            if too_many_pods(count(row), allowed(row)):
                return False
            for request, allocatable, requested, backed in requests:
                if is_insufficient(request, allocatable(row), requested(row)) and not (backed and not allocatable(row)):
                    return False
            return True

        return fits

    def _rate(self, pod: PodInfo, view: NodeView) -> Callable[[NodeView, int], int] | None:
        """Return `score` on one row; None for the formulas that are not worth it."""
        scored = self._scored_resources(pod, view)
        if self._is_capacity_ratio or any(resource.wide for resource in scored):
            return None
        resources = [
            (resource.allocatable.item, resource.requested.item, resource.request, resource.weight)
            for resource in scored
        ]
        kernel = self._score_of_node

        def rate(now: NodeView, row: int) -> int:
            total = weights = 0.0
            for allocatable_at, requested_at, request, weight in resources:
                allocatable = allocatable_at(row)
                if allocatable > 0.0:
                    total += kernel(allocatable, requested_at(row) + request) * weight
                    weights += weight
            return int(total / weights) if weights else 0

        return rate

    def events_to_register(self) -> Sequence[HintRegistration]:
        """Register pods that are deleted or shrink, and nodes that are added or grow."""
        node_actions = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        return (
            HintRegistration(POD, ActionType.DELETE, self._pod_deleted),
            HintRegistration(POD, ActionType.UPDATE_POD_SCALE_DOWN, self._pod_scaled_down),
            HintRegistration(NODE, node_actions, self._node_changed),
            *(
                (HintRegistration(DEVICE_CLASS, ActionType.ADD | ActionType.UPDATE, self._class_changed),)
                if self._backs_resources
                else ()
            ),
        )

    def _is_backed(self, resource: str, objects: Objects) -> bool:
        """Tell whether a resource is the devices of a class, on nodes that have none of it."""
        if not self._backs_resources or not may_be_devices(resource):
            return False
        return objects.derived(ExtendedResources).class_of(resource) is not None

    def _is_ignored(self, resource: str) -> bool:
        if "/" not in resource or "kubernetes.io/" in resource:
            return False
        return resource in self._ignored or resource.partition("/")[0] in self._ignored_groups

    @staticmethod
    def _pod_deleted(pod: PodInfo, old: object, new: object) -> Hint:
        assigned = isinstance(old, PodInfo) and bool(old.node_name or old.nominated_node)
        return Hint.QUEUE if assigned else Hint.SKIP

    @staticmethod
    def _pod_scaled_down(pod: PodInfo, old: object, new: object) -> Hint:
        if not isinstance(old, PodInfo) or not isinstance(new, PodInfo):
            return Hint.QUEUE
        if new.uid == pod.uid:
            return Hint.QUEUE
        if not new.node_name:
            return Hint.SKIP
        wanted = (name for name, amount in pod.spec.requests.items() if amount > 0)
        return (
            Hint.QUEUE if any(new.requests.get(name, 0) < old.requests.get(name, 0) for name in wanted) else Hint.SKIP
        )

    def use_objects(self, objects: Objects) -> None:
        """Take the store, for the hints."""
        self._objects = objects

    @staticmethod
    def _class_changed(pod: PodInfo, old: object, new: object) -> Hint:
        if not isinstance(new, DeviceClass):
            return Hint.QUEUE
        named, requests = new.spec.extended_resource_name or "", pod.spec.requests
        if isinstance(old, DeviceClass):
            return Hint.QUEUE if named != (old.spec.extended_resource_name or "") and named in requests else Hint.SKIP
        return Hint.QUEUE if named in requests or implicit_name(new) in requests else Hint.SKIP

    def _node_changed(self, pod: PodInfo, old: object, new: object) -> Hint:
        if not isinstance(new, NodeInfo):
            return Hint.QUEUE
        devices = self._devices_on(pod, new)
        if not _fits_empty(pod, new, devices):
            return Hint.QUEUE if self._lost_its_node(pod, old, new) else Hint.SKIP
        if devices or not isinstance(old, NodeInfo) or new.allowed_pods > old.allowed_pods:
            return Hint.QUEUE
        wanted = (name for name, amount in pod.spec.requests.items() if amount > 0)
        grew = any(new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for name in wanted)
        return Hint.QUEUE if grew else Hint.SKIP

    def _devices_on(self, pod: PodInfo, node: NodeInfo) -> Collection[str]:
        """Return the resources that a pod requests and that would be devices on a node."""
        requests, objects = pod.spec.requests, self._objects
        if not self._backs_resources or objects is None or not asks_for_devices(requests):
            return ()
        absent = [name for name, amount in requests.items() if amount > 0 and not node.allocatable.get(name, 0)]
        return {name for name in absent if self._is_backed(name, objects)}

    def _lost_its_node(self, pod: PodInfo, old: object, new: NodeInfo) -> bool:
        """Tell whether the nominated node became too small for a pod, which may then preempt elsewhere. Of extended
        resources a node may have none for a moment, while their plugin restarts: these do not count."""
        if not self._wakes_at_shrunken_node or pod.nominated_node != new.name or pod.scheduling_group:
            return False
        native = {name: pod.spec.requests.get(name, 0) for name in (*BASIC, "ephemeral-storage")}
        return (
            not covers(new.allocatable, native)
            and isinstance(old, NodeInfo)
            and _fits_empty(pod, old, self._devices_on(pod, old))
        )


def _fits_empty(pod: PodInfo, node: NodeInfo, devices: Collection[str]) -> bool:
    """Tell whether a pod would fit a node that no other pod runs on; `devices` are resources that the node need not
    have."""
    own = {name: amount for name, amount in pod.spec.requests.items() if name not in devices}
    return node.allowed_pods > 0 and covers(node.allocatable, own)


def _in_message_order(requests: Resources) -> list[str]:
    """Return resource names in the order upstream reports them: cpu, memory, ephemeral-storage, then the others by
    name."""
    basic = [name for name in ("cpu", "memory", "ephemeral-storage") if name in requests]
    return [*basic, *sorted(requests.keys() - basic)]


def _charge(state: CycleState, pod: PodInfo, rows: RowArray) -> None:
    requested = sum(1 for amount in pod.spec.requests.values() if amount)
    state.work.charge(len(pod.spec.requests) + requested * (20 + len(rows) // 50), "resources x nodes")
