"""What is said of the nodes, and the worst of it over time."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.framework import FloatArray
from secondary_scheduler.balance import NodeFigures, spread_of

REQUESTS = "requests"
LOAD = "estimatedLoad"
FIGURES = ((REQUESTS, "cpu"), (REQUESTS, "memory"), (LOAD, "cpu"), (LOAD, "memory"))
"""What is said of each node, by kind and resource."""
STATISTICS = ("stddev", "p95", "max")


def figure_values(figures: NodeFigures, kind: str, resource: str) -> FloatArray:
    """Return a figure of `FIGURES` per node, in per cent."""
    if kind == REQUESTS:
        return figures.cpu_requests if resource == "cpu" else figures.memory_requests
    return figures.cpu_load if resource == "cpu" else figures.memory_load


@dataclass(frozen=True, slots=True)
class Peak:
    """The highest of a value, and the first time it was reached, in seconds since the epoch."""

    value: float
    time: float


@dataclass(slots=True)
class Worst:
    """The highest values over time.

    Attributes:
        spreads: by figure of `FIGURES` and statistic; those that were never known are missing.
        waiting: pods without a node.
    """

    spreads: dict[tuple[str, str, str], Peak] = field(default_factory=dict)
    waiting: Peak = field(default_factory=lambda: Peak(0.0, 0.0))

    def note(self, moment: float, figures: NodeFigures, waiting: int) -> None:
        """Take in how things are at a time."""
        if waiting > self.waiting.value:
            self.waiting = Peak(float(waiting), moment)
        for kind, resource in FIGURES:
            spread = spread_of(figure_values(figures, kind, resource))
            for statistic in STATISTICS if spread is not None else ():
                value = float(getattr(spread, statistic))
                peak = self.spreads.get((kind, resource, statistic))
                if peak is None or value > peak.value:
                    self.spreads[kind, resource, statistic] = Peak(value, moment)
