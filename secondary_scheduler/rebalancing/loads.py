"""The nodes' load as a round judges it: which are overloaded, which have room, and how uneven it is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from scheduler.framework import FloatArray, NodeInfo
from secondary_scheduler.balance import NodeFigures
from secondary_scheduler.rebalancing.settings import RESOURCES, RebalanceSettings
from secondary_scheduler.rebalancing.shares import Share

Loads = Mapping[str, float]
"""Per cent of a node's capacity by resource; NaN where it was not measured."""


@dataclass(frozen=True, slots=True)
class Limits:
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


class NodeLoads:
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
            name: {resource: float(columns[resource][index]) for resource in RESOURCES}
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

    def after(self, share: Share, source: str, target: str) -> tuple[dict[str, float], dict[str, float]]:
        """Return the load of both nodes once a pod has moved."""
        less, more = share.per_cent(self._nodes[source]), share.per_cent(self._nodes[target])
        from_, to = self._loads[source], self._loads[target]
        return (
            {resource: max(0.0, from_[resource] - _known(less[resource])) for resource in RESOURCES},
            {resource: to[resource] + _known(more[resource]) for resource in RESOURCES},
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
            known = values[np.isfinite(values)]
            result[resource] = float(known.std()) if len(known) else 0.0
        return result


def unevenness(spread: Mapping[str, float]) -> float:
    """Return one number for the spread of all resources: the root of the sum of their squares."""
    return math.hypot(*spread.values())


def _limits(columns: Mapping[str, FloatArray], settings: RebalanceSettings) -> Limits:
    low, high = {}, {}
    for resource in RESOURCES:
        below, above = settings.thresholds.of(resource), settings.target_thresholds.of(resource)
        known = columns[resource][np.isfinite(columns[resource])]
        if below is None or above is None or not len(known):
            continue
        if settings.use_deviation_thresholds:
            mean = float(known.mean())
            below, above = max(0.0, mean - below), min(100.0, mean + above)
        low[resource], high[resource] = below, above
    return Limits(low, high)


def _known(value: float) -> float:
    return 0.0 if math.isnan(value) else value
