"""What of a node's load is a pod's, and what a move changes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.framework import NodeInfo, PodInfo, is_fresh
from secondary_scheduler.rebalancing.objects import Usage
from secondary_scheduler.rebalancing.settings import RESOURCES

PREDICTED = "requests"


@dataclass(frozen=True, slots=True)
class Share:
    """What a pod uses: CPU in milli-units, memory in bytes.

    Attributes:
        source: `cAdvisor` or `PodMetrics` where it was measured, `requests` where it is what the pod requests.
        assumed: resources about which neither says anything: the amount is what a scheduler counts then.
    """

    cpu: float
    memory: float
    source: str
    assumed: frozenset[str] = frozenset()

    def of(self, resource: str) -> float:
        """Return the amount of `cpu` or `memory`."""
        return self.cpu if resource == "cpu" else self.memory

    def per_cent(self, node: NodeInfo) -> dict[str, float]:
        """Return it in per cent of a node's capacity, by resource; NaN where either is not known."""
        return {resource: _per_cent(self.of(resource), capacity_of(node, resource)) for resource in RESOURCES}


def capacity_of(node: NodeInfo, resource: str) -> int:
    """Return a node's capacity: milli-units of CPU, or bytes."""
    return node.capacity_cpu if resource == "cpu" else node.capacity_memory


def share_of(
    pod: PodInfo, usage: Mapping[str, Usage], node: NodeInfo, load: Mapping[str, float], now: float, max_age: float
) -> Share:
    """Return what a pod uses of its node: as measured, if that is fresh, else what it requests.

    It is never more than the node's own load: a measurement of seconds beside an average of minutes can be.

    Args:
        pod: on the node.
        usage: measurements by pod.
        node: where it runs.
        load: the node's load in per cent, by resource; NaN where it was not measured.
        now: seconds since the epoch.
        max_age: seconds after which a measurement is not used.
    """
    measured = usage.get(pod.key)
    # Without its time a measurement of seconds is no measure.
    if measured is not None and measured.at > 0.0 and is_fresh(measured.at, now, max_age):
        amounts, source = {"cpu": measured.cpu, "memory": measured.memory}, measured.source
    else:
        amounts, source = {resource: pod.requests.get(resource) or math.nan for resource in RESOURCES}, PREDICTED
    assumed = frozenset(resource for resource, amount in amounts.items() if math.isnan(amount))
    defaults = {"cpu": float(pod.nonzero_cpu), "memory": float(pod.nonzero_memory)}
    capped = {
        resource: _capped(defaults[resource] if resource in assumed else amount, node, load, resource)
        for resource, amount in amounts.items()
    }
    return Share(capped["cpu"], capped["memory"], source, assumed)


def _capped(amount: float, node: NodeInfo, load: Mapping[str, float], resource: str) -> float:
    used = load.get(resource, math.nan) / 100.0 * capacity_of(node, resource)
    return amount if math.isnan(used) else min(amount, used)


def _per_cent(amount: float, capacity: int) -> float:
    return 100.0 * amount / capacity if capacity > 0 else math.nan
