"""Load-aware scores node by node, as upstream's loops have them: what the columnar plugins must agree with."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.framework import NodeInfo, NodeLoad, PodInfo
from scheduler.helpers.upstreamsums import upstream_amounts

MIB = 1024.0 * 1024.0


def half_away(value: float) -> int:
    """Go's math.Round for what is not negative."""
    return math.floor(value) + (1 if value - math.floor(value) >= 0.5 else 0)


def _read(load: NodeLoad | None, resource: str) -> tuple[float, float] | None:
    if load is None:
        return None
    average, deviation = getattr(load, f"{resource}_average"), getattr(load, f"{resource}_stddev")
    if not math.isfinite(average) and not math.isfinite(deviation):
        return None
    return (average if math.isfinite(average) else 0.0, deviation if math.isfinite(deviation) else 0.0)


def balance_score(
    load: NodeLoad | None,
    capacity: tuple[float, float],
    request: tuple[float, float],
    margin: float,
    sensitivity: float,
) -> int:
    """LoadVariationRiskBalancing of one node; cpu in milli-units and memory in MiB."""
    scores = []
    for index, resource in enumerate(("cpu", "memory")):
        seen = _read(load, resource)
        if seen is None:
            continue
        total = capacity[index]
        used, spread = (max(0.0, min(percent * total / 100, total)) for percent in seen)
        mu = max(0.0, min(1.0, (used + request[index]) / total))
        sigma = max(0.0, min(1.0, spread / total))
        sigma = (1.0 if sigma == 1.0 else 0.0) if sensitivity == 0 else math.pow(sigma, 1 / sensitivity)
        scores.append((1.0 - (mu + max(0.0, min(1.0, sigma * margin))) / 2) * 100)
    return half_away(min(scores)) if scores else 0


def over_commitment(
    load: NodeLoad | None,
    node: NodeInfo,
    pods: Iterable[PodInfo],
    pod: PodInfo,
    window: int,
    weights: Mapping[str, float],
) -> float:
    """LowRiskOverCommitment of one node, before rounding."""
    amounts = {resource: upstream_amounts(resource) for resource in ("cpu", "memory")}
    if not any(limit(pod) for _, limit in amounts.values()):
        return 0.0
    if _read(load, "cpu") is None and _read(load, "memory") is None:
        return 0.0
    before = list(pods)
    risks = []
    for resource, (request_of, limit_of) in amounts.items():
        capacity = node.allocatable[resource]
        request_before = min(sum(map(request_of, before)), capacity)
        request = min(sum(map(request_of, [*before, pod])), capacity)
        limit_before = sum(map(limit_of, before))
        limit = limit_before + limit_of(pod)
        by_limits = (limit - capacity) / (limit - request) if limit > capacity else 0.0
        seen = _read(load, resource)
        by_load = 0.0
        if seen is not None:
            by_load = 1 - _within(seen, request_before, limit_before, capacity, window)
        risks.append(max(0.0, min(1.0, weights[resource] * by_limits + (1 - weights[resource]) * by_load)))
    return (1 - max(risks)) * 100


def _within(seen: tuple[float, float], request: int, limit: int, capacity: int, window: int) -> float:
    mu, sigma = (max(0.0, min(1.0, percent * capacity / 100 / capacity)) for percent in seen)
    sigma *= math.sqrt(window)
    sigma = min(sigma, math.sqrt((mu * (1 - mu) if 0 < mu < 1 else 0.0) * 0.99))
    threshold = max(0.0, min(1.0, request / capacity))
    parameters = None
    if mu == 0 or (sigma == 0 and mu <= threshold):
        probability = 1.0
    elif sigma == 0:
        probability = 0.0
    else:
        variance = sigma * sigma + mu * mu - mu * mu
        if variance < 0 or variance >= mu * (1 - mu):
            probability = 0.0
        else:
            size = mu * (1 - mu) / variance - 1 if variance else math.inf
            parameters = (mu * size, (1 - mu) * size)
            probability = _cdf(*parameters, threshold)
    if limit < capacity and request <= limit:
        if limit == 0:
            probability = 1.0
        elif parameters is not None and (bound := _cdf(*parameters, limit / capacity)) > 0:
            probability = max(0.0, min(1.0, probability / bound))
    return probability


def _cdf(alpha: float, beta: float, x: float, *, turned: bool = False) -> float:
    """Regularised incomplete beta by Lentz's method on its classic continued fraction."""
    if math.isinf(alpha) or math.isinf(beta):
        return 0.0
    if x in (0.0, 1.0):
        return x
    if x >= (alpha + 1) / (alpha + beta + 2) and not turned:
        return 1 - _cdf(beta, alpha, 1 - x, turned=True) if 1 - x > 0 else 1.0
    front = math.lgamma(alpha + beta) - math.lgamma(alpha) - math.lgamma(beta)
    front += alpha * math.log(x) + beta * math.log1p(-x)
    tiny, result, c, d = 1e-300, 1.0, 1.0, 0.0
    for step in range(200_000):
        m = step // 2
        if step == 0:
            factor = 1.0
        elif step % 2 == 0:
            factor = m * (beta - m) * x / ((alpha + 2 * m - 1) * (alpha + 2 * m))
        else:
            factor = -(alpha + m) * (alpha + beta + m) * x / ((alpha + 2 * m) * (alpha + 2 * m + 1))
        d = 1 / (1 + factor * d or tiny)
        c = 1 + factor / c or tiny
        result *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return math.exp(front) * (result - 1) / alpha


def power_growth(load: float | None, model: Mapping[str, float] | None, capacity: int, request: int) -> int:
    """Peaks of one node, raw."""
    if load is None:
        return 0
    after = 100 * (load / 100 * capacity + request) / capacity
    if after > 100:
        return 0
    k1, k2 = (model["k1"], model["k2"]) if model else (0.0, 0.0)
    return int(k1 * (math.exp(k2 * after) - math.exp(k2 * load)) * 1e15)


def power_normalized(scores: list[int]) -> list[Any]:
    """Peaks' normalisation."""
    low, high = min(scores), max(scores)
    if low == high == 0:
        return scores
    return [100 if low == high else 100 - int(100.0 * (score - low) / (high - low)) for score in scores]
