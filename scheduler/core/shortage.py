"""How much room a pod lacks where nothing but room is missing: what an operator may add or free to place it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from scheduler.answers import NodeShortage, Shortage
from scheduler.core.feasible import find_feasible
from scheduler.framework import (
    BoolArray,
    CycleState,
    FloatArray,
    OverBudgetError,
    PluginError,
    PodInfo,
    ProfileRunner,
    RowArray,
)
from scheduler.kube.primitives import format_milli, format_value
from scheduler.state import Snapshot

NEAREST = 3
"""Nodes that are named."""
_CPU = "cpu"


def find_shortage(snapshot: Snapshot, pod: PodInfo, profile: ProfileRunner) -> Shortage | None:
    """Return what a pod that fits nowhere lacks; None where no node is short of room alone.

    The pod is tried once more without requests: the nodes that it passes then are those that only lack room. Nodes
    whose number of pods is reached, and what other plugins count (devices, volumes, zones of NUMA), are not in it.
    """
    requests = {resource: amount for resource, amount in pod.spec.requests.items() if amount > 0}
    if not requests:
        return None
    rows = _rows_without_requests(snapshot, pod, profile)
    if not len(rows):
        return None
    missing = {resource: _missing(snapshot, resource, amount, rows) for resource, amount in requests.items()}
    shares = np.maximum.reduce([missing[resource] / amount for resource, amount in requests.items()])
    short = shares > 0
    if not short.any():
        return None
    small = _too_small(snapshot, requests, rows)
    reachable = (short & ~small).nonzero()[0]
    order = reachable[np.argsort(shares[reachable], kind="stable")[:NEAREST]]
    nearest = tuple(_of_node(snapshot, missing, rows, index) for index in order.tolist())
    return Shortage(int(short.sum()), int((short & small).sum()), nearest)


def _rows_without_requests(snapshot: Snapshot, pod: PodInfo, profile: ProfileRunner) -> RowArray:
    # Another class of pods: what plugins remember of this one must not be used for it, nor the other way round.
    spec = msgspec.structs.replace(pod.spec, requests={}, class_key=pod.spec.class_key + b"without requests")
    free, state = msgspec.structs.replace(pod, spec=spec, requests={}), CycleState()
    try:
        filtered = find_feasible(snapshot, free, profile, state)
    except (PluginError, OverBudgetError):
        return np.zeros(0, dtype=np.intp)
    return filtered.rows


def _missing(snapshot: Snapshot, resource: str, amount: int, rows: RowArray) -> FloatArray:
    free = snapshot.allocatable(resource)[rows] - snapshot.requested(resource)[rows]
    result: FloatArray = np.maximum(0.0, amount - free)
    return result


def _too_small(snapshot: Snapshot, requests: Mapping[str, int], rows: RowArray) -> BoolArray:
    small: BoolArray = np.zeros(len(rows), dtype=np.bool_)
    for resource, amount in requests.items():
        small |= snapshot.allocatable(resource)[rows] < amount
    return small


def _of_node(snapshot: Snapshot, missing: Mapping[str, FloatArray], rows: RowArray, index: int) -> NodeShortage:
    amounts = {resource: int(short[index]) for resource, short in missing.items() if short[index] > 0}
    formatted = {
        resource: format_milli(amount) if resource == _CPU else format_value(amount)
        for resource, amount in sorted(amounts.items())
    }
    return NodeShortage(snapshot.name(int(rows[index])), formatted)
