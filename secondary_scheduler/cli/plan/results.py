"""What `plan` has found out, for any form of output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scheduler.config import Configuration
from scheduler.framework import FloatArray
from secondary_scheduler.balance import NodeFigures, Spread, spread_of
from secondary_scheduler.cli.plan.comparing import Comparison
from secondary_scheduler.cli.plan.options import Over
from secondary_scheduler.cli.replay.replaying import FIGURES, Worst, figure_values


@dataclass(frozen=True, slots=True)
class ReplayedSide:
    """What is said of a replay beside its end.

    Attributes:
        worst: over time.
        as_recorded: pods on the node where the recording has them.
    """

    worst: Worst
    as_recorded: int


@dataclass(frozen=True, slots=True)
class ReplayedTime:
    """The time that was replayed, in seconds since the epoch.

    Attributes:
        gaps: what the recording does not hold, a line each.
        recorded: pods that the recording has on a node.
    """

    start: float
    end: float
    gaps: tuple[str, ...]
    recorded: int


@dataclass(frozen=True, slots=True)
class SideSummary:
    """One configuration and the nodes after its decisions.

    Attributes:
        source: the file, as the user named it.
        replayed: where a recording was replayed.
    """

    source: str
    configuration: Configuration
    figures: NodeFigures
    replayed: ReplayedSide | None = None

    def values(self, kind: str, resource: str) -> FloatArray:
        """Return a figure of `FIGURES` per node, in per cent."""
        return figure_values(self.figures, kind, resource)

    def spread(self, kind: str, resource: str) -> Spread | None:
        """Return how a figure of `FIGURES` is spread over the nodes."""
        return spread_of(self.values(kind, resource))


@dataclass(frozen=True, slots=True)
class PlanResult:
    """Both sides.

    Attributes:
        changes: what the new configuration changes, in words.
        replayed: the time of the recording, where one was replayed.
    """

    over: Over
    seed: int
    old: SideSummary
    new: SideSummary
    changes: tuple[str, ...]
    comparison: Comparison
    replayed: ReplayedTime | None = None

    @property
    def sides(self) -> Mapping[str, SideSummary]:
        """The sides by their names."""
        return {"old": self.old, "new": self.new}

    def nodes_by_change(self) -> list[int]:
        """Return the indexes of all nodes, those first of which a figure or the number of pods changes most."""
        changes: FloatArray = np.zeros(len(self.old.figures.names))
        for kind, resource in FIGURES:
            change = np.abs(self.new.values(kind, resource) - self.old.values(kind, resource))
            changes = np.maximum(changes, np.nan_to_num(change))
        pods = np.abs(self.new.figures.pods - self.old.figures.pods)
        return [int(index) for index in np.lexsort((-pods, -changes))]

    def node_changes(self, index: int) -> bool:
        """Tell whether anything is different on a node."""
        pairs = [(self.old.figures.pods, self.new.figures.pods)]
        pairs += [(self.old.values(*figure), self.new.values(*figure)) for figure in FIGURES]
        return any(not np.array_equal(old[index], new[index], equal_nan=True) for old, new in pairs)
