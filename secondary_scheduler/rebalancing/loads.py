"""The nodes' load as a round judges it: which are overloaded, which have room, and how uneven it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from scheduler.config import REBALANCED_RESOURCES, RebalanceSettings
from scheduler.framework import FloatArray, NodeInfo, PodInfo, is_fresh
from secondary_scheduler.balance import NodeFigures
from secondary_scheduler.rebalancing.objects import PodUsage

Loads = Mapping[str, float]
"""Per cent of a node's capacity by resource; NaN where it was not measured."""


@dataclass(frozen=True, slots=True)
class LoadThresholds:
    """The thresholds by resource, in per cent; only resources that are judged."""

    low: Mapping[str, float]
    high: Mapping[str, float]

    @property
    def resources(self) -> tuple[str, ...]:
        """The resources that are judged."""
        return tuple(self.high)

    def exceeded(self, load: Loads) -> tuple[str, ...]:
        """Return the resources of which a node has too much load."""
        return tuple(resource for resource, high in self.high.items() if load[resource] > high)

    def excess(self, load: Loads) -> float:
        """Return by how many points a node is above its thresholds, at the resource where that is most."""
        return max((load[resource] - high for resource, high in self.high.items()), default=-math.inf)

    def has_room(self, load: Loads) -> bool:
        """Tell whether a node is below all low thresholds."""
        return all(load[resource] < low for resource, low in self.low.items())


class ClusterLoads:
    """The load of every node, which moves change.

    Args:
        figures: from fresh measurements only.
        nodes: by name.
        settings: say which resources are judged.
    """

    def __init__(self, figures: NodeFigures, nodes: Mapping[str, NodeInfo], settings: RebalanceSettings) -> None:
        columns = {"cpu": figures.cpu_load, "memory": figures.memory_load}
        self._nodes = nodes
        self._loads: dict[str, dict[str, float]] = {
            name: {resource: float(columns[resource][index]) for resource in REBALANCED_RESOURCES}
            for index, name in enumerate(figures.names)
        }
        self.limits = _limits(columns, settings)

    def of(self, node: str) -> Loads:
        """Return the load of a node."""
        return self._loads[node]

    def is_measured(self, node: str) -> bool:
        """Tell whether all that is judged was measured on a node, and lately."""
        return all(math.isfinite(self._loads[node][resource]) for resource in self.limits.resources)

    @property
    def coverage(self) -> float:
        """Share of the nodes on which all that is judged was measured; 0 without nodes or load."""
        if not self._loads or not self.limits.resources:
            return 0.0
        return sum(map(self.is_measured, self._loads)) / len(self._loads)

    @property
    def unmeasured(self) -> list[str]:
        """The nodes without fresh load, by name."""
        return sorted(name for name in self._loads if not self.is_measured(name))

    @property
    def overloaded(self) -> list[str]:
        """The nodes above a threshold, the one that is furthest above it first."""
        above = [name for name, load in self._loads.items() if self.is_measured(name) and self.limits.exceeded(load)]
        return sorted(above, key=lambda name: (-self.limits.excess(self._loads[name]), name))

    def with_room(self, names: Iterable[str]) -> list[str]:
        """Return those of some nodes that are below all low thresholds."""
        return [name for name in names if self.is_measured(name) and self.limits.has_room(self._loads[name])]

    def after(self, share: PodShare, source: str, target: str) -> tuple[dict[str, float], dict[str, float]]:
        """Return the load of both nodes once a pod has moved."""
        less, more = share.per_cent(self._nodes[source]), share.per_cent(self._nodes[target])
        from_, to = self._loads[source], self._loads[target]
        return (
            {resource: max(0.0, from_[resource] - _known(less[resource])) for resource in REBALANCED_RESOURCES},
            {resource: to[resource] + _known(more[resource]) for resource in REBALANCED_RESOURCES},
        )

    def spread(self, changed: Mapping[str, Loads] | None = None) -> dict[str, float]:
        """Return how uneven the load is: the standard deviation over measured nodes, in points, by judged resource.

        Args:
            changed: loads that some nodes would have.
        """
        result = {}
        for resource in self.limits.resources:
            values: FloatArray = np.array(
                [(changed or {}).get(name, load)[resource] for name, load in self._loads.items()], dtype=np.float64
            )
            numbers = values[np.isfinite(values)]
            result[resource] = float(numbers.std()) if len(numbers) else 0.0
        return result


def unevenness(spread: Mapping[str, float]) -> float:
    """Return one number for the spread of all resources: the root of the sum of their squares."""
    return math.hypot(*spread.values())


def _limits(columns: Mapping[str, FloatArray], settings: RebalanceSettings) -> LoadThresholds:
    low, high = {}, {}
    for resource in REBALANCED_RESOURCES:
        below, above = settings.thresholds.of(resource), settings.target_thresholds.of(resource)
        numbers = columns[resource][np.isfinite(columns[resource])]
        if below is None or above is None or not len(numbers):
            continue
        if settings.use_deviation_thresholds:
            mean = float(numbers.mean())
            below, above = max(0.0, mean - below), min(100.0, mean + above)
        low[resource], high[resource] = below, above
    return LoadThresholds(low, high)


def _known(value: float) -> float:
    return 0.0 if math.isnan(value) else value


PREDICTED = "requests"


@dataclass(frozen=True, slots=True)
class PodShare:
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
        return {name: _per_cent(self.of(name), capacity_of(node, name)) for name in REBALANCED_RESOURCES}


def capacity_of(node: NodeInfo, resource: str) -> int:
    """Return a node's capacity: milli-units of CPU, or bytes."""
    return node.capacity_cpu if resource == "cpu" else node.capacity_memory


def share_of(
    pod: PodInfo, usage: Mapping[str, PodUsage], node: NodeInfo, load: Mapping[str, float], now: float, max_age: float
) -> PodShare:
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
        amounts, source = {name: pod.requests.get(name) or math.nan for name in REBALANCED_RESOURCES}, PREDICTED
    assumed = frozenset(resource for resource, amount in amounts.items() if math.isnan(amount))
    defaults = {"cpu": float(pod.nonzero_cpu), "memory": float(pod.nonzero_memory)}
    capped = {
        resource: _capped(defaults[resource] if resource in assumed else amount, node, load, resource)
        for resource, amount in amounts.items()
    }
    return PodShare(capped["cpu"], capped["memory"], source, assumed)


def _capped(amount: float, node: NodeInfo, load: Mapping[str, float], resource: str) -> float:
    used = load.get(resource, math.nan) / 100.0 * capacity_of(node, resource)
    return amount if math.isnan(used) else min(amount, used)


def _per_cent(amount: float, capacity: int) -> float:
    return 100.0 * amount / capacity if capacity > 0 else math.nan
