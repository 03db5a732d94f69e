"""Whether a cluster as a whole has the room that a group asks for (CheckClusterResource of pkg/coscheduling/core)."""

from collections.abc import Iterable

import numpy as np

from scheduler.framework import FloatArray, NodeView, PodInfo
from scheduler.kube.model import PodGroup
from scheduler.kube.primitives import parse_quantity, quantity_milli_value, quantity_value

PODS = "pods"


def resource_gap(group: PodGroup, view: NodeView, members: Iterable[tuple[PodInfo, int]]) -> str:
    """Return upstream's words for what is missing, or "" when `minResources` and room for `minMember` pods are there.

    It is a sum over nodes: that it suffices does not prove that each pod fits on some node.

    Args:
        group: the group.
        view: the nodes.
        members: the group's own pods on nodes, with their rows; what they take counts as free.
    """
    wanted: dict[str, str | int | float] = {**(group.spec.min_resources or {}), PODS: group.spec.min_member}
    members_with_rows = list(members)
    missing = {}
    for resource, amount in wanted.items():
        free = _free_by_row(view, resource, members_with_rows)
        need = quantity_milli_value(amount) if resource == "cpu" else quantity_value(amount)
        # Upstream goes from node to node and stops asking for a resource once it has enough: an overcommitted node
        # further on takes nothing away.
        if not len(free) or np.maximum.accumulate(np.cumsum(free))[-1] < need:
            missing[resource] = _format_quantity(amount, free, resource)
    return (
        f"resource gap: map[{' '.join(f'{name}:{text}' for name, text in sorted(missing.items()))}]" if missing else ""
    )


def _free_by_row(view: NodeView, resource: str, members: Iterable[tuple[PodInfo, int]]) -> FloatArray:
    rows = view.rows
    if resource == PODS:
        free: FloatArray = (view.allowed_pods - view.pod_count).copy()
        for _, row in members:
            free[row] += 1
    else:
        free = view.allocatable(resource) - view.requested(resource)
        for pod, row in members:
            free[row] += pod.requests.get(resource, 0)
    return free[rows]


def _format_quantity(amount: str | int | float, free: FloatArray, resource: str) -> str:
    """Return Go's print of the Quantity struct that is left after the subtractions."""
    left = parse_quantity(str(amount))
    mantissa, exponent = left.mantissa, left.exponent
    if free.any():
        unit = -3 if resource == "cpu" else 0
        lowest = min(exponent, unit)
        mantissa = mantissa * 10 ** (exponent - lowest) - int(free.sum()) * 10 ** (unit - lowest)
        exponent = lowest
    return f"{{{{{mantissa} {exponent}}} {{<nil>}}  {left.format}}}"
