"""Two configurations on one cluster: where each places the pods, what differs, and how full the nodes are then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from scheduler.config import Configuration, differences
from scheduler.core import Change, change_of
from scheduler.framework import FloatArray
from secondary_scheduler.balance import FIGURES, FigureSpread, NodeFigures, Worst
from secondary_scheduler.simulation.deciding import PodOutcome


class PodDecided(Protocol):
    """Where a configuration places a pod, or why nowhere."""

    @property
    def scheduler_name(self) -> str:
        """The profile that decided."""

    @property
    def node(self) -> str | None:
        """The node's name."""

    @property
    def message(self) -> str | None:
        """Why there is none."""


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """A `PodDecided` and nothing else."""

    scheduler_name: str
    node: str | None
    message: str | None = None


class Against:
    """What the other side has placed, while this side decides.

    A decision's matrix is computed only where both differ: it tells whether chance alone chose another node.

    Args:
        decided: of the other side, by the pod's name; empty for the first one.
    """

    def __init__(self, decided: Mapping[str, PodDecided] | None = None) -> None:
        self._decided = decided or {}
        self._equally_good: set[str] = set()

    @property
    def equally_good(self) -> AbstractSet[str]:
        """Pods whose old node was among the best of this side, too."""
        return self._equally_good

    def needs_matrix(self, pod: str, node: str | None) -> bool:
        """Tell whether the decision about a pod needs its matrix."""
        old = self._decided.get(pod)
        return old is not None and change_of(old.node, node) is Change.MOVED

    def note(self, pod: str, outcome: PodOutcome) -> None:
        """Take in a decision while its matrix is valid; of several about one pod the last one counts."""
        best = outcome.explanation.best if outcome.explanation is not None else ()
        if self.needs_matrix(pod, outcome.node) and self._decided[pod].node in best:
            self._equally_good.add(pod)
        else:
            self._equally_good.discard(pod)


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """What one configuration decided.

    Attributes:
        decided: by the pod's name, in the order of the decisions.
        figures: of the nodes after that.
        equally_good: as `Against` says.
        worst: of a replay, over time.
        recorded_nodes: of a replay: where the recording has a pod on a node, by the pod's name.
    """

    configuration: Configuration
    decided: Mapping[str, PodDecided]
    figures: NodeFigures
    equally_good: AbstractSet[str] = frozenset()
    worst: Worst | None = None
    recorded_nodes: Mapping[str, str] = field(default_factory=dict)

    @property
    def as_recorded(self) -> int:
        """How many pods are on the node where the recording has them."""
        return sum(self.decided[pod].node == node for pod, node in self.recorded_nodes.items())


@dataclass(frozen=True, slots=True)
class ComparedPod:
    """A pod under both configurations."""

    name: str
    old: PodDecided
    new: PodDecided
    equally_good: bool = False

    @property
    def change(self) -> Change:
        """What becomes of it."""
        return change_of(self.old.node, self.new.node)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides, and all pods in the order of the decisions."""

    old: ComparedSide
    new: ComparedSide
    pods: tuple[ComparedPod, ...]

    @property
    def sides(self) -> Mapping[str, ComparedSide]:
        """The sides by their names."""
        return {"old": self.old, "new": self.new}

    @property
    def changes(self) -> list[str]:
        """What the new configuration changes, in words."""
        return differences(self.old.configuration, self.new.configuration)

    @property
    def counts(self) -> Mapping[Change, int]:
        """How many pods there are of each change."""
        counted = Counter(pod.change for pod in self.pods)
        return {change: counted[change] for change in Change}

    @property
    def equally_good(self) -> int:
        """How many of the pods on another node would have been as well off on the old one."""
        return sum(pod.equally_good for pod in self.pods)

    @property
    def recorded(self) -> int:
        """How many pods the recording has on a node."""
        return max(len(side.recorded_nodes) for side in self.sides.values())

    def of(self, *changes: Change) -> list[ComparedPod]:
        """Return the pods with one of these changes."""
        return [pod for pod in self.pods if pod.change in changes]

    @property
    def differing(self) -> list[ComparedPod]:
        """The pods that are placed differently."""
        return self.of(Change.MOVED, Change.GAINED, Change.LOST)

    def spreads(self) -> Iterator[tuple[str, str, FigureSpread, FigureSpread]]:
        """Yield kind and resource of the figures that both sides have, and how they are spread."""
        for kind, resource in FIGURES:
            old, new = (side.figures.spread(kind, resource) for side in (self.old, self.new))
            if old is not None and new is not None:
                yield kind, resource, old, new

    def nodes_by_change(self) -> list[int]:
        """Return the indexes of all nodes, those first of which a figure or the number of pods changes most."""
        changes: FloatArray = np.zeros(len(self.old.figures.names))
        for old, new in self._figures():
            changes = np.maximum(changes, np.nan_to_num(np.abs(new - old)))
        pods = np.abs(self.new.figures.pods - self.old.figures.pods)
        return [int(index) for index in np.lexsort((-pods, -changes))]

    def node_changes(self, index: int) -> bool:
        """Tell whether anything is different on a node."""
        pairs = [(self.old.figures.pods, self.new.figures.pods), *self._figures()]
        return any(not np.array_equal(old[index], new[index], equal_nan=True) for old, new in pairs)

    def _figures(self) -> Iterator[tuple[FloatArray, FloatArray]]:
        for kind, resource in FIGURES:
            yield self.old.figures.values(kind, resource), self.new.figures.values(kind, resource)


def compare(old: ComparedSide, new: ComparedSide) -> Comparison:
    """Put the decisions of both sides together, by pod.

    A pod that only one side has belongs to a profile that the other does not have: nothing would schedule it.
    """
    pods = (
        ComparedPod(
            name,
            old.decided.get(name) or _without_profile(new.decided[name]),
            new.decided.get(name) or _without_profile(old.decided[name]),
            name in new.equally_good,
        )
        for name in dict.fromkeys((*old.decided, *new.decided))
    )
    return Comparison(old, new, tuple(pods))


def _without_profile(other: PodDecided) -> PodPlacement:
    reason = f"no profile of this configuration is called {other.scheduler_name}: nothing schedules the pod"
    return PodPlacement(other.scheduler_name, None, reason)
