"""How few zones a request needs, and how near each other they are (pkg/noderesourcetopology/least_numa.go)."""

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from scheduler.framework import MAX_SCORE, BoolArray, IntArray, Resources, RowArray
from scheduler.plugins.noderesourcetopologymatch.align import Needs
from scheduler.plugins.noderesourcetopologymatch.topology import POD, NodeGroup

DebitedZone = Callable[[NodeGroup, int], int]
"""(group, chosen zone) -> the zone whose amounts are reduced."""
UNKNOWN_DISTANCE = 255
MAX_COMBINATIONS = 20_000
"""Combinations of one size that are looked at; more of them (14 zones have 3,432) would hold up the scheduler."""
_MAX_SUMS = 2_000_000
"""Sums worked out at once: 16 MB."""


class _ZoneChoice(NamedTuple):
    """Of each node: how many zones a request needs (0: it does not fit), whether no others of that number are nearer,
    and which they are."""

    zones: IntArray
    nearest: BoolArray
    chosen: BoolArray


def score(group: NodeGroup, available: IntArray, needs: Needs, debited_zone: DebitedZone) -> IntArray:
    """Return the score of each node; `available` belongs to the caller and is not changed.

    Args:
        group: nodes whose zones have the same shape.
        available: amounts by node, zone and resource.
        needs: what the pod asks for.
        debited_zone: which zone a container's request is subtracted from before the next container is looked at.
    """
    if group.manager.scope == POD:
        if _is_outside_zones(group, needs.whole):
            return np.full(len(available), MAX_SCORE, dtype=np.int64)
        need = _choose_zones(group, available, needs.whole)
        return np.where(need.zones > 0, _score(group, need.zones, need.nearest), 0)
    max_zones_needed: IntArray = np.zeros(len(available), dtype=np.int64)
    nearest: BoolArray = np.ones(len(available), dtype=np.bool_)
    fits: BoolArray = np.ones(len(available), dtype=np.bool_)
    zone_containers = [container for container in needs.containers if not _is_outside_zones(group, container.requests)]
    if not zone_containers:
        return np.full(len(available), MAX_SCORE, dtype=np.int64)
    if len(zone_containers) > 1:
        available = available.copy()
    for index, container in enumerate(zone_containers):
        need = _choose_zones(group, available, container.requests)
        fits &= need.zones > 0
        nearest &= need.nearest
        max_zones_needed = np.maximum(max_zones_needed, need.zones)
        if index < len(zone_containers) - 1:
            _subtract_from_zones(group, available, container.requests, need.chosen, debited_zone)
    return np.where(fits, _score(group, max_zones_needed, nearest), 0)


def _score(group: NodeGroup, count: IntArray, nearest: BoolArray) -> IntArray:
    step = MAX_SCORE // group.manager.max_zones
    return MAX_SCORE - count * step + np.where(nearest, step // 2, 0)


def _is_outside_zones(group: NodeGroup, request: Resources) -> bool:
    return all(name not in group.columns for name in request)


def _choose_zones(group: NodeGroup, available: IntArray, request: Resources) -> _ZoneChoice:
    members, zones = available.shape[:2]
    need = _ZoneChoice(
        np.zeros(members, dtype=np.int64),
        np.zeros(members, dtype=np.bool_),
        np.zeros((members, zones), dtype=np.bool_),
    )
    usable = _zones_listing_all(group, request)
    if usable is None or not len(usable):
        return need
    wanted = {group.columns[name]: amount for name, amount in request.items() if amount}
    min_zones = _min_zones(available[:, usable], wanted)
    for size in range(1, len(usable) + 1):
        rows: RowArray = np.flatnonzero((need.zones == 0) & (min_zones <= size))
        if len(rows):
            if math.comb(zones, size) > MAX_COMBINATIONS:
                break
            _choose_of_size(group, available, usable, wanted, size, rows, need)
    return need


def _zones_listing_all(group: NodeGroup, request: Resources) -> RowArray | None:
    """Return the zones that list every resource of a request; None when a resource is in no zone."""
    columns = [group.columns[name] for name in request if name in group.columns]
    if len(columns) < len(request):
        return None
    return np.flatnonzero(group.listed[:, columns].all(axis=1))


def _min_zones(available: IntArray, wanted: dict[int, int]) -> IntArray:
    """Return a number of zones below which a request cannot fit, more than there are where it never does."""
    zones = available.shape[1]
    min_zones: IntArray = np.ones(len(available), dtype=np.int64)
    for column, amount in wanted.items():
        amounts = -np.sort(-available[:, :, column], axis=1)
        enough = np.maximum.accumulate(amounts.cumsum(axis=1), axis=1) >= amount
        min_zones = np.maximum(min_zones, np.where(enough.any(axis=1), enough.argmax(axis=1) + 1, zones + 1))
    return min_zones


def _choose_of_size(
    group: NodeGroup,
    available: IntArray,
    usable: RowArray,
    wanted: dict[int, int],
    size: int,
    rows: RowArray,
    need: _ZoneChoice,
) -> None:
    """Choose among the combinations of a size: the nearest, then the first one that fits.

    Args:
        group: nodes whose zones have the same shape.
        available: amounts by node, zone and resource.
        usable: zones that list every requested resource.
        wanted: amounts by column of `available`.
        size: number of zones per combination.
        rows: the nodes to choose for.
        need: the choices; updated.
    """
    members, distances, min_distance = _combinations(group.shape.numbers, group.shape.costs, size)
    allowed = np.flatnonzero(np.isin(members, usable).all(axis=1) & (distances < UNKNOWN_DISTANCE + 1))
    allowed = allowed[np.argsort(distances[allowed], kind="stable")]
    if not len(allowed):
        return
    batch_size = max(1, _MAX_SUMS // (len(allowed) * size))
    if len(rows) > batch_size:
        for start in range(0, len(rows), batch_size):
            _choose_of_size(group, available, usable, wanted, size, rows[start : start + batch_size], need)
        return
    fits: BoolArray = np.ones((len(rows), len(allowed)), dtype=np.bool_)
    amounts = available[rows]
    for column, amount in wanted.items():
        fits &= amounts[:, :, column][:, members[allowed]].sum(axis=2) >= amount
    first = fits.argmax(axis=1)
    has_fit = fits[np.arange(len(rows)), first]
    rows, combination = rows[has_fit], allowed[first[has_fit]]
    need.zones[rows] = size
    need.nearest[rows] = distances[combination] == min_distance
    need.chosen[rows[:, None], members[combination]] = True


@lru_cache(maxsize=4096)
def _combinations(
    numbers: tuple[int, ...], costs: tuple[tuple[tuple[int, int], ...], ...], size: int
) -> tuple[RowArray, np.ndarray[tuple[int], np.dtype[np.float32]], np.float32]:
    """Return the combinations of a size in lexical order, the mean distance of each, and the least of these."""
    rows = [[dict(costs_of_zone).get(number, UNKNOWN_DISTANCE) for number in numbers] for costs_of_zone in costs]
    matrix = np.array(rows, dtype=np.int64)
    members: RowArray = np.array(list(itertools.combinations(range(len(numbers)), size)), dtype=np.intp)
    sums = matrix[members[:, :, None], members[:, None, :]].sum(axis=(1, 2))
    distances = sums.astype(np.float32) / np.float32(size * size)
    return members, distances, np.float32(min(np.float32(UNKNOWN_DISTANCE), distances.min()))


def same_zone(group: NodeGroup, zone: int) -> int:
    """Return the zone itself."""
    return zone


def _subtract_from_zones(
    group: NodeGroup, available: IntArray, request: Resources, chosen: BoolArray, debited_zone: DebitedZone
) -> None:
    """Subtract a request from the chosen zones, in the order of their numbers, as far as each has something."""
    remaining = {
        column: np.full(len(available), amount, dtype=np.int64)
        for name, amount in request.items()
        if (column := group.columns.get(name)) is not None
    }
    for zone in group.by_number.tolist():
        target = debited_zone(group, zone)
        for column in remaining:
            if group.listed[target, column]:
                amounts = available[:, target, column]
                share = np.where(chosen[:, zone] & (remaining[column] > 0), np.minimum(remaining[column], amounts), 0)
                available[:, target, column] -= share
                remaining[column] -= share
