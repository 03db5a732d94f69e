"""The placements of two configurations side by side."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from secondary_scheduler.cli.replay.replaying import PodPlacement


class Change(enum.StrEnum):
    """What becomes of a pod with the new configuration."""

    SAME = "sameNode"
    MOVED = "otherNode"
    SCHEDULABLE = "newlySchedulable"
    UNSCHEDULABLE = "newlyUnschedulable"
    NEITHER = "unschedulableInBoth"


@dataclass(frozen=True, slots=True)
class ComparedPod:
    """A pod (`namespace/name`) under both configurations.

    Attributes:
        equally_good: the old node was among the best of the new configuration, too; chance chose between them.
    """

    pod: str
    old: PodPlacement
    new: PodPlacement
    equally_good: bool = False

    @property
    def change(self) -> Change:
        """What becomes of it."""
        if self.old.node == self.new.node:
            return Change.NEITHER if self.new.node is None else Change.SAME
        if self.old.node is None:
            return Change.SCHEDULABLE
        return Change.UNSCHEDULABLE if self.new.node is None else Change.MOVED


@dataclass(frozen=True, slots=True)
class Comparison:
    """All pods, in the order of the decisions."""

    pods: tuple[ComparedPod, ...]

    @property
    def counts(self) -> Mapping[Change, int]:
        """How many pods there are of each change."""
        counted = Counter(pod.change for pod in self.pods)
        return {change: counted[change] for change in Change}

    @property
    def equally_good(self) -> int:
        """How many of the pods on another node would have been as well off on the old one."""
        return sum(pod.equally_good for pod in self.pods)

    def of(self, *changes: Change) -> list[ComparedPod]:
        """Return the pods with one of these changes."""
        return [pod for pod in self.pods if pod.change in changes]

    @property
    def differs(self) -> bool:
        """Whether any pod is placed differently."""
        return any(pod.old.node != pod.new.node for pod in self.pods)


def compare(
    old: Mapping[str, PodPlacement], new: Mapping[str, PodPlacement], equally_good: Collection[str]
) -> Comparison:
    """Put the placements of both sides together, by pod.

    A pod that only one side knows belongs to a profile that the other does not have: nothing would schedule it.
    """
    names = [*old, *(name for name in new if name not in old)]
    return Comparison(
        tuple(
            ComparedPod(
                name,
                old.get(name) or _without_profile(new[name]),
                new.get(name) or _without_profile(old[name]),
                name in equally_good,
            )
            for name in names
        )
    )


def _without_profile(other: PodPlacement) -> PodPlacement:
    reason = f"no profile of this configuration is called {other.scheduler_name}: nothing schedules the pod"
    return PodPlacement(other.scheduler_name, None, reason)
