"""NodeResourcesFit: room for the pod's requests, and how full the node would be
(pkg/scheduler/framework/plugins/noderesources/fit.go)."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from scheduler.catalog import ActionType, NodeResourcesFitArgs
from scheduler.framework import (
    MAX_SCORE,
    NODE,
    POD,
    SUCCESS,
    BoolArray,
    Code,
    CycleState,
    EnqueueExtensions,
    FilterPlugin,
    FloatArray,
    Hint,
    HintRegistration,
    IntArray,
    NodeInfo,
    NodeView,
    PluginContext,
    PodInfo,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    Resources,
    RowArray,
    ScorePlugin,
    Status,
    Verdicts,
    gather,
)
from scheduler.framework.locality import DependsOn, Locality, LocalPlugin
from scheduler.framework.status import MAX_REASONS
from scheduler.helpers import covers, round_half_away
from scheduler.plugins.noderesources.kernels import BASIC, amounts_after, has_requests, interpolate, ratio

NAME = "NodeResourcesFit"

Formula = Callable[[FloatArray, FloatArray, bool], FloatArray]
"""(allocatable, requested, wide) -> score of one resource."""


class NodeResourcesFit:
    """Filter and score over cpu, memory, ephemeral storage and extended resources."""

    name = NAME

    def __init__(self, args: NodeResourcesFitArgs, context: PluginContext) -> None:
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        strategy = args.strategy
        self._weights = [(spec.name, spec.effective_weight) for spec in strategy.effective_resources]
        self._is_capacity_ratio = strategy.type == "RequestedToCapacityRatio"
        self._most = strategy.type == "MostAllocated"
        if self._is_capacity_ratio:
            points = strategy.requested_to_capacity_ratio.shape if strategy.requested_to_capacity_ratio else []
            if not points:
                raise ValueError("requestedToCapacityRatio.shape: at least one point must be specified")
            shape = [(point.utilization, point.score * 10) for point in points]
            self._formula: Formula = lambda allocatable, requested, wide: _requested_to_capacity_ratio(
                allocatable, requested, wide, shape
            )
        else:
            self._formula = _most_allocated if self._most else _least_allocated

    def pre_filter(self, state: CycleState, pod: PodInfo, view: NodeView) -> tuple[PreFilterResult | None, Status]:
        """Nothing to prepare: requests were reduced when the pod arrived. Never skipped, as every pod takes a pod
        slot."""
        return None, SUCCESS

    def pre_score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Status:
        """Nothing to prepare."""
        return SUCCESS

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Reject nodes without room, with every reason; unresolvable where the request exceeds the node itself."""
        failures: list[tuple[str, BoolArray]] = []
        beyond = np.zeros(len(rows), dtype=np.bool_)
        full = gather(view, view.pod_count, rows) + 1 > gather(view, view.allowed_pods, rows)
        if full.any():
            failures.append(("Too many pods", full))
        requests = pod.spec.requests
        if has_requests(requests):
            for resource in _in_message_order(requests):
                request = requests[resource]
                if request <= 0 or self._is_ignored(resource):
                    continue
                allocatable = gather(view, view.allocatable(resource), rows)
                lacking = request > allocatable - gather(view, view.requested(resource), rows)
                if lacking.any():
                    failures.append((f"Insufficient {resource}", lacking))
                    beyond |= request > allocatable
        if not failures:
            return None
        bits = np.zeros(len(rows), dtype=np.int64)
        for index, (_, mask) in enumerate(failures):
            bits |= mask.astype(np.int64) << min(index, MAX_REASONS - 1)
        codes = np.where(
            bits == 0, 0, np.where(beyond, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.UNSCHEDULABLE)
        ).astype(np.int8)
        return Verdicts(codes, bits, tuple(reason for reason, _ in failures[:MAX_REASONS]))

    def score(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Score by the strategy: weighted mean over resources, an extended one only if the pod requests it."""
        total = np.zeros(len(rows))
        weights: FloatArray = np.zeros(1)  # one number for all rows, until a row lacks a resource
        requests = pod.spec.score_requests
        for resource, weight in self._weights:
            request = requests.get(resource, 0)
            basic = resource in ("cpu", "memory")
            if not basic and resource != "ephemeral-storage" and request == 0:
                continue
            allocatable, requested = amounts_after(view, rows, resource, request, nonzero=basic)
            score = self._formula(allocatable, requested, view.wide(resource))
            counted = allocatable > 0
            if self._is_capacity_ratio:
                counted &= score > 0
            weighted = score if weight == 1 else score * float(weight)
            if counted.all():
                total += weighted
                weights = weights + float(weight)
            else:
                total += np.where(counted, weighted, 0.0)
                weights = weights + counted * float(weight)
        mean = total / np.maximum(weights, 1.0)
        if self._is_capacity_ratio:
            return round_half_away(mean).astype(np.int64)
        # Numbers are not negative, so that truncation is floor.
        return mean.astype(np.int64)

    def locality(self, pod: PodInfo, view: NodeView) -> Locality:
        """Both follow from the node's amounts and what its pods request."""
        return Locality(
            DependsOn.PODS,
            DependsOn.PODS,
            fits=self._fits(pod, view),
            rate=self._rate(pod, view),
            fits_block=self._fits_block(pod),
            rate_block=self._rate_block(pod, view),
        )

    def _fits_block(self, pod: PodInfo) -> Callable[[FloatArray], BoolArray] | None:
        """`filter` for pods that want nothing but cpu and memory."""
        wanted = {name: amount for name, amount in pod.spec.requests.items() if amount > 0}
        if not wanted.keys() <= set(BASIC):
            return None
        checks = [(wanted[name], index) for index, name in enumerate(BASIC) if name in wanted]

        def fits(block: FloatArray) -> BoolArray:
            passed: BoolArray = block[7] + 1.0 <= block[6]
            for request, index in checks:
                passed &= request <= block[index] - block[index + 2]
            return passed

        return fits

    def _rate_block(self, pod: PodInfo, view: NodeView) -> Callable[[FloatArray], IntArray] | None:
        """`score` by cpu and memory alone, in the same operations."""
        weights = dict(self._weights)
        if self._is_capacity_ratio or len(self._weights) != 2 or weights.keys() != set(BASIC):
            return None
        if any(map(view.wide, BASIC)):
            return None
        requests = np.array([[pod.spec.score_requests.get(name, 0)] for name in BASIC], dtype=np.float64)
        cpu, memory = (float(weights[name]) for name in BASIC)
        even = cpu == memory == 1.0

        def rate(block: FloatArray) -> IntArray:
            allocatable = block[:2]
            shares = block[4:6] + requests
            if self._most:
                np.minimum(shares, allocatable, out=shares)
            else:
                np.subtract(allocatable, shares, out=shares)
                np.maximum(shares, 0.0, out=shares)
            shares *= 100.0
            shares /= allocatable
            np.floor(shares, out=shares)
            total = shares[0] + shares[1] if even else shares[0] * cpu + shares[1] * memory
            whole: IntArray = (total / (cpu + memory)).astype(np.int64)
            return whole

        return rate

    def _fits(self, pod: PodInfo, view: NodeView) -> Callable[[NodeView, int], bool]:
        count, allowed = view.pod_count.item, view.allowed_pods.item
        wanted = [
            (request, view.allocatable(resource).item, view.requested(resource).item)
            for resource, request in pod.spec.requests.items()
            if request > 0 and not self._is_ignored(resource)
        ]

        def fits(now: NodeView, row: int) -> bool:
            if count(row) + 1.0 > allowed(row):
                return False
            for request, allocatable, requested in wanted:  # noqa: SIM110 -- a generator would take as long again
                if request > allocatable(row) - requested(row):
                    return False
            return True

        return fits

    def _rate(self, pod: PodInfo, view: NodeView) -> Callable[[NodeView, int], int] | None:
        """`score` in the same operations on one row; None for the formulas that are not worth it."""
        requests = pod.spec.score_requests
        parts = []
        for resource, weight in self._weights:
            request = requests.get(resource, 0)
            basic = resource in ("cpu", "memory")
            if not basic and resource != "ephemeral-storage" and request == 0:
                continue
            if self._is_capacity_ratio or view.wide(resource):
                return None
            used = view.nonzero_requested(resource) if basic else view.requested(resource)
            parts.append((view.allocatable(resource).item, used.item, request, weight))
        most = self._most

        def rate(now: NodeView, row: int) -> int:
            total = weights = 0
            for allocatable_at, used_at, request, weight in parts:
                allocatable = allocatable_at(row)
                if allocatable <= 0.0:
                    continue
                weights += weight
                requested = used_at(row) + request
                counted = requested if most else allocatable - requested
                if most:
                    counted = min(counted, allocatable)
                if counted > 0.0:
                    total += math.floor(counted * 100.0 / max(allocatable, 1.0)) * weight
            return int(total / weights) if weights else 0

        return rate

    def events_to_register(self) -> Sequence[HintRegistration]:
        """Pods leaving or shrinking, nodes coming or growing."""
        node_actions = ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE
        return (
            HintRegistration(POD, ActionType.DELETE, self._pod_left),
            HintRegistration(POD, ActionType.UPDATE_POD_SCALE_DOWN, self._pod_shrank),
            HintRegistration(NODE, node_actions, self._node_changed),
        )

    def _is_ignored(self, resource: str) -> bool:
        if "/" not in resource or "kubernetes.io/" in resource:
            return False
        return resource in self._ignored or resource.partition("/")[0] in self._ignored_groups

    @staticmethod
    def _pod_left(pod: PodInfo, old: object, new: object) -> Hint:
        assigned = isinstance(old, PodInfo) and bool(old.node_name or old.nominated_node)
        return Hint.QUEUE if assigned else Hint.SKIP

    @staticmethod
    def _pod_shrank(pod: PodInfo, old: object, new: object) -> Hint:
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

    @staticmethod
    def _node_changed(pod: PodInfo, old: object, new: object) -> Hint:
        if not isinstance(new, NodeInfo):
            return Hint.QUEUE
        if new.allowed_pods < 1 or not covers(new.allocatable, pod.spec.requests):
            return Hint.SKIP
        if not isinstance(old, NodeInfo) or new.allowed_pods > old.allowed_pods:
            return Hint.QUEUE
        wanted = (name for name, amount in pod.spec.requests.items() if amount > 0)
        grew = any(new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for name in wanted)
        return Hint.QUEUE if grew else Hint.SKIP


def _in_message_order(requests: Resources) -> list[str]:
    """Return resource names in the order upstream reports them: cpu, memory, ephemeral-storage, then the others by
    name."""
    basic = [name for name in ("cpu", "memory", "ephemeral-storage") if name in requests]
    return [*basic, *sorted(requests.keys() - basic)]


def _least_allocated(allocatable: FloatArray, requested: FloatArray, wide: bool) -> FloatArray:
    return ratio(np.maximum(allocatable - requested, 0.0), allocatable, wide=wide)


def _most_allocated(allocatable: FloatArray, requested: FloatArray, wide: bool) -> FloatArray:
    return ratio(np.minimum(requested, allocatable), allocatable, wide=wide)


def _requested_to_capacity_ratio(
    allocatable: FloatArray, requested: FloatArray, wide: bool, shape: Sequence[tuple[int, int]]
) -> FloatArray:
    utilization = np.where(requested > allocatable, float(MAX_SCORE), ratio(requested, allocatable, wide=wide))
    return interpolate(utilization, shape)


# Checked by mypy: the extension points of the descriptor, and the optional Protocols that the framework looks for.
_PRE_FILTER: type[PreFilterPlugin] = NodeResourcesFit
_FILTER: type[FilterPlugin] = NodeResourcesFit
_PRE_SCORE: type[PreScorePlugin] = NodeResourcesFit
_SCORE: type[ScorePlugin] = NodeResourcesFit
_ENQUEUE_EXTENSIONS: type[EnqueueExtensions] = NodeResourcesFit
_LOCAL: type[LocalPlugin] = NodeResourcesFit
