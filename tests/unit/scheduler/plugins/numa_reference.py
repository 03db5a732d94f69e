"""The rules for one node at a time, as simply as they can be written down: lists, dictionaries and whole numbers.

Follows pkg/noderesourcetopology of scheduler-plugins v0.34.7 for Guaranteed pods and for others, and where a rule has
the argument `upstream`, without it the kubelet; a zone is (number, {resource: available}, {number: cost}), a container
(kind, {resource: amount}).
"""

import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction

Zone = tuple[int, dict[str, int], dict[int, int]]
Container = tuple[str, dict[str, int]]
SHARED = ("cpu", "memory", "hugepages-2Mi")


def effective(containers: Sequence[Container], *, upstream: bool = False) -> dict[str, int]:
    names = {name for _, request in containers for name in request}
    total = {}
    for name in names:
        running = starting = 0
        for kind, request in containers:
            amount = request.get(name, 0)
            if kind == "init" or (kind == "sidecar" and upstream):
                starting = max(starting, amount + running)
            elif kind == "sidecar":
                running += amount
        total[name] = max(
            starting, running + sum(request.get(name, 0) for kind, request in containers if kind == "app")
        )
    return total


def _fits(request: Mapping[str, int], zones: Sequence[Zone], guaranteed: bool, on_node: frozenset[str]) -> int | None:
    """The zone's number, -1 when none matters, None when there is none."""
    candidates: set[int] | None = None
    for name, amount in request.items():
        if amount == 0:
            continue
        if name not in on_node:
            return None
        listing = [zone for zone in zones if name in zone[1]]
        if not listing:
            if name == "ephemeral-storage" or "/" in name:
                continue
            return None
        free = not guaranteed and name in SHARED
        good = {zone[0] for zone in listing if free or zone[1][name] >= amount}
        candidates = good if candidates is None else candidates & good
        if not candidates:
            return None
    return -1 if candidates is None else min(candidates)


def verdict(
    scope: str,
    containers: Sequence[Container],
    zones: Sequence[Zone],
    guaranteed: bool,
    on_node: frozenset[str],
    *,
    upstream: bool = False,
) -> str:
    if scope == "pod":
        whole = effective(containers, upstream=upstream)
        return "cannot align pod" if _fits(whole, zones, guaranteed, on_node) is None else ""
    zones = [(number, dict(available), costs) for number, available, costs in zones]
    for kind, request in containers:
        chosen = _fits(request, zones, guaranteed, on_node)
        if chosen is None:
            return "cannot align container" if kind == "app" else f"cannot align {kind} container"
        if kind == "app" or (kind == "sidecar" and not upstream):
            for number, available, _ in zones:
                if number == chosen:
                    for name, amount in request.items():
                        if name in available and (guaranteed or name not in SHARED):
                            available[name] -= amount
    return ""


def _value(name: str, amount: int) -> int:
    return -(-amount // 1000) if name == "cpu" else amount


def _zone_score(
    strategy: str, request: Mapping[str, int], available: Mapping[str, int], weights: Mapping[str, int]
) -> int:
    if strategy == "BalancedAllocation":
        shares = []
        for name, amount in request.items():
            capacity = _value(name, available.get(name, 0))
            shares.append(Fraction(_value(name, amount), capacity) if capacity else Fraction(1))
        if any(share > 1 for share in shares):
            return 0
        mean = sum(shares, Fraction(0)) / len(shares)
        variance = sum(((share - mean) ** 2 for share in shares), Fraction(0)) / (len(shares) - 1)
        return int((1 - variance) * 100)
    total = divisor = 0
    for name, amount in request.items():
        weight = max(1, weights.get(name, 1))
        divisor += weight
        capacity, wanted = _value(name, available.get(name, 0)), _value(name, amount)
        if available.get(name, 0) > 0 and amount <= available[name]:
            part = wanted if strategy == "MostAllocated" else capacity - wanted
            total += part * 100 // capacity * weight
    return total // divisor


def _node_score(strategy: str, request: Mapping[str, int], zones: Sequence[Zone], weights: Mapping[str, int]) -> int:
    each = [_zone_score(strategy, request, available, weights) for _, available, _ in zones]
    return min((number for number in each if number), default=0)


def score(
    strategy: str,
    scope: str,
    containers: Sequence[Container],
    zones: Sequence[Zone],
    *,
    weights: Mapping[str, int],
    most_zones: int,
) -> int:
    if strategy == "LeastNUMANodes":
        return _least_numa(scope, containers, zones, most_zones)
    if scope == "pod":
        return _node_score(strategy, effective(containers), zones, weights)
    each = [_node_score(strategy, request, zones, weights) for _, request in containers]
    return int(sum(each) / len(each))


def _least_numa(scope: str, containers: Sequence[Container], zones: Sequence[Zone], most_zones: int) -> int:
    zones = [(number, dict(available), costs) for number, available, costs in zones]
    requests = [effective(containers)] if scope == "pod" else [request for _, request in containers]
    most, nearest = 0, True
    for request in requests:
        if not any(name in zone[1] for name in request for zone in zones):
            continue
        chosen, near = _zones_needed(request, zones)
        if not chosen:
            return 0
        nearest &= near
        most = max(most, len(chosen))
        for name, amount in request.items():
            left = amount
            for index in sorted(chosen, key=lambda index: zones[index][0]):
                share = min(left, zones[index][1][name])
                zones[index][1][name] -= share
                left -= share
    step = 100 // most_zones
    return 100 if most == 0 else 100 - most * step + (step // 2 if nearest else 0)


def _zones_needed(request: Mapping[str, int], zones: Sequence[Zone]) -> tuple[tuple[int, ...], bool]:
    def distance(combination: tuple[int, ...]) -> Fraction:
        pairs = itertools.product(combination, repeat=2)
        return Fraction(
            sum(zones[origin][2].get(zones[other][0], 255) for origin, other in pairs), len(combination) ** 2
        )

    for size in range(1, len(zones) + 1):
        combinations = list(itertools.combinations(range(len(zones)), size))
        least = min(map(distance, combinations))
        fitting = [
            combination
            for combination in combinations
            if all(name in zones[index][1] for name in request for index in combination)
            and all(
                sum(zones[index][1][name] for index in combination) >= amount
                for name, amount in request.items()
                if amount
            )
        ]
        if fitting:
            best = min(fitting, key=distance)
            return best, distance(best) == least
    return (), False
