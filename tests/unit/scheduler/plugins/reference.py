"""Filters and scores written node by node in plain Python integers, as the specification words them: what columns
must equal."""

import math
from collections.abc import Sequence

from scheduler.framework import NodeInfo, PodInfo
from scheduler.helpers import go_round


def used(pods: Sequence[PodInfo], resource: str, *, nonzero: bool = False) -> int:
    if nonzero and resource == "cpu":
        return sum(pod.nonzero_cpu for pod in pods)
    if nonzero and resource == "memory":
        return sum(pod.nonzero_memory for pod in pods)
    return sum(pod.requests.get(resource, 0) for pod in pods)


def tolerates(pod: PodInfo, taint: object) -> bool:
    for toleration in pod.spec.tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.operator == "Exists" or (
            toleration.operator in ("", "Equal") and toleration.value == taint.value
        ):
            return True
    return False


def first_rejection(pod: PodInfo, node: NodeInfo, pods: Sequence[PodInfo]) -> tuple[str, int, frozenset[str]] | None:
    """The first filter in default order that says no: (plugin, code, reasons)."""
    if node.unschedulable and not any(
        (not toleration.effect or toleration.effect == "NoSchedule")
        and (not toleration.key or toleration.key == "node.kubernetes.io/unschedulable")
        and (toleration.operator == "Exists" or (toleration.operator in ("", "Equal") and toleration.value == ""))
        for toleration in pod.spec.tolerations
    ):
        return "NodeUnschedulable", 3, frozenset({"node(s) were unschedulable"})
    if any(taint.effect in ("NoSchedule", "NoExecute") and not tolerates(pod, taint) for taint in node.taints):
        return "TaintToleration", 3, frozenset({"node(s) had untolerated taint(s)"})
    matches = all(node.labels.get(key) == value for key, (value,) in pod.spec.node_selector.required.items())
    if pod.spec.required is not None:
        matches = matches and pod.spec.required.matches(node.name, node.labels)
    if not matches:
        return "NodeAffinity", 3, frozenset({"node(s) didn't match Pod's node affinity/selector"})
    reasons, code = set(), 2
    if len(pods) + 1 > node.allowed_pods:
        reasons.add("Too many pods")
    for resource, request in pod.spec.requests.items():
        allocatable = node.allocatable.get(resource, 0)
        if request > 0 and request > allocatable - used(pods, resource):
            reasons.add(f"Insufficient {resource}")
            if request > allocatable:
                code = 3
    return ("NodeResourcesFit", code, frozenset(reasons)) if reasons else None


def fit_score(
    pod: PodInfo,
    node: NodeInfo,
    pods: Sequence[PodInfo],
    strategy: str,
    weights: dict[str, int],
    shape: Sequence[tuple[int, int]],
) -> int:
    total = weight_sum = 0
    for resource, weight in weights.items():
        request = pod.spec.score_requests.get(resource, 0)
        if request == 0 and resource not in ("cpu", "memory", "ephemeral-storage"):
            continue
        allocatable = node.allocatable.get(resource, 0)
        if allocatable == 0:
            continue
        requested = used(pods, resource, nonzero=True) + request
        if strategy == "LeastAllocated":
            score = 0 if requested > allocatable else (allocatable - requested) * 100 // allocatable
        elif strategy == "MostAllocated":
            score = min(requested, allocatable) * 100 // allocatable
        else:
            score = broken_line(100 if requested > allocatable else requested * 100 // allocatable, shape)
            if score == 0:
                continue
        total += score * weight
        weight_sum += weight
    if weight_sum == 0:
        return 0
    return go_round(total / weight_sum) if strategy == "RequestedToCapacityRatio" else total // weight_sum


def broken_line(utilization: int, shape: Sequence[tuple[int, int]]) -> int:
    points = [(x, y * 10) for x, y in shape]
    for index, (x, y) in enumerate(points):
        if utilization <= x:
            if index == 0:
                return y
            x0, y0 = points[index - 1]
            numerator, span = (y - y0) * (utilization - x0), x - x0
            return y0 + (abs(numerator) // span) * (1 if numerator >= 0 else -1)
    return points[-1][1]


def change_of_balance(pod: PodInfo, node: NodeInfo, pods: Sequence[PodInfo], resources: Sequence[str]) -> int:
    """As since 1.36: 50 and half of 50 more or less the change of the balance, everything truncated."""
    counted = [name for name in resources if pod.spec.requests.get(name, 0) or "." not in name]
    before = balanced_score(pod, node, pods, counted, with_pod=False)
    return 50 + (50 + balanced_score(pod, node, pods, counted) - before) // 2


def balanced_score(
    pod: PodInfo, node: NodeInfo, pods: Sequence[PodInfo], resources: Sequence[str], *, with_pod: bool = True
) -> int:
    fractions = []
    for resource in resources:
        allocatable = node.allocatable.get(resource, 0)
        request = pod.spec.requests.get(resource, 0)
        if allocatable == 0 or (request == 0 and resource not in ("cpu", "memory", "ephemeral-storage")):
            continue
        fractions.append(min(1.0, (used(pods, resource) + (request if with_pod else 0)) / allocatable))
    deviation = 0.0
    if len(fractions) == 2:
        deviation = abs(fractions[0] - fractions[1]) / 2
    elif len(fractions) > 2:
        mean = sum(fractions) / len(fractions)
        deviation = math.sqrt(sum((fraction - mean) * (fraction - mean) for fraction in fractions) / len(fractions))
    return int((1 - deviation) * 100)


def taint_score(pod: PodInfo, node: NodeInfo) -> int:
    def preferring(taint: object) -> bool:
        return any(
            toleration.effect in ("", "PreferNoSchedule")
            and (not toleration.key or toleration.key == taint.key)
            and (
                toleration.operator == "Exists"
                or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
            )
            for toleration in pod.spec.tolerations
        )

    return sum(1 for taint in node.taints if taint.effect == "PreferNoSchedule" and not preferring(taint))


def packing_score(utilization: float, target: float) -> int:
    if utilization > target:
        return 0 if utilization > 100 else go_round(target * (100 - utilization) / (100 - target))
    return go_round((100 - target) * utilization / target + target)
