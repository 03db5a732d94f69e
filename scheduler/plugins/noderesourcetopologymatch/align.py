"""Whether a pod fits into single zones (pkg/noderesourcetopology/filter.go of scheduler-plugins v0.34.7)."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scheduler.framework import BoolArray, IntArray, Resources, RowArray
from scheduler.plugins.noderesourcetopologymatch.needs import Needs
from scheduler.plugins.noderesourcetopologymatch.table import Group
from scheduler.plugins.noderesourcetopologymatch.topology import POD, is_host_level, is_shared

MESSAGES = (
    "cannot align init container",
    "cannot align sidecar container",
    "cannot align container",
    "cannot align pod",
)
_FAILURE_OF_KIND = {"init": 1, "sidecar": 2, "app": 3}
_POD_FAILURE = 4

HasResource = Callable[[str], BoolArray]
"""Tells which nodes of the question have a resource at all."""


class _ZoneFit(NamedTuple):
    """Which nodes have a zone that fits, and which zones (None: no zone matters)."""

    nodes: BoolArray
    zones: BoolArray | None


def alignment_failures(group: Group, available: IntArray, needs: Needs, has_resource: HasResource) -> IntArray:
    """Return 0 for each node that can take the pod, else the position in MESSAGES, counted from 1, of what to say.

    Init containers run one after the other, each by itself; app containers in order take from the zone with the
    lowest number that fits. `available` belongs to the caller and is not changed.
    """
    if group.manager.scope == POD:
        fit = _zones_that_fit(group, available, needs.whole, needs.guaranteed, has_resource)
        return np.where(fit.nodes, 0, _POD_FAILURE)
    reasons: IntArray = np.zeros(len(available), dtype=np.int64)
    last = len(needs.containers) - 1
    owned = False
    for index, container in enumerate(needs.containers):
        fit = _zones_that_fit(group, available, container.requests, needs.guaranteed, has_resource)
        reasons[(reasons == 0) & ~fit.nodes] = _FAILURE_OF_KIND[container.kind]
        if index == last or (reasons != 0).all():
            break
        if container.kind == "app" and fit.zones is not None:
            if not owned:
                available, owned = available.copy(), True
            _subtract_from_zone(group, available, container.requests, needs.guaranteed, fit)
    return reasons


def _zones_that_fit(
    group: Group, available: IntArray, request: Resources, guaranteed: bool, has_resource: HasResource
) -> _ZoneFit:
    """Return where a request fits into one zone (resourcesAvailableInAnyNUMANodes).

    Args:
        group: nodes whose zones have the same shape.
        available: amounts by node, zone and resource.
        request: what a container or the pod requests.
        guaranteed: whether cpu, memory and huge pages come from zones of the pod's own.
        has_resource: tells which nodes have a resource at all.
    """
    nodes: BoolArray = np.ones(len(available), dtype=np.bool_)
    zones: BoolArray | None = None
    for resource, amount in request.items():
        if amount == 0:
            continue
        column = group.columns.get(resource)
        nodes &= has_resource(resource)
        if column is None:
            # Not all devices say where they are; everything else must.
            if not is_host_level(resource):
                nodes[:] = False
            continue
        listed = group.listed[:, column]
        if is_shared(resource) and not guaranteed:
            suitable = np.broadcast_to(listed, (len(available), len(listed)))
        else:
            suitable = (available[:, :, column] >= amount) & listed
        zones = suitable if zones is None else zones & suitable
    if zones is not None:
        nodes &= zones.any(axis=1)
    return _ZoneFit(nodes, zones)


def _subtract_from_zone(group: Group, available: IntArray, request: Resources, guaranteed: bool, fit: _ZoneFit) -> None:
    """Subtract a request, on each node where it fits, from the zone with the lowest number that fits.

    Args:
        group: nodes whose zones have the same shape.
        available: amounts by node, zone and resource; changed.
        request: what a container requests.
        guaranteed: whether cpu, memory and huge pages come from zones of the pod's own.
        fit: where the request fits.
    """
    assert fit.zones is not None
    members: RowArray = np.flatnonzero(fit.nodes)
    chosen = group.by_number[fit.zones[members][:, group.by_number].argmax(axis=1)]
    for resource, amount in request.items():
        column = group.columns.get(resource)
        if column is None or amount == 0 or (is_shared(resource) and not guaranteed):
            continue
        # A zone without the resource holds 0 of it and is left so.
        available[members, chosen, column] -= amount * group.listed[chosen, column]
