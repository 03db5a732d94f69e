"""What a plan says: moves in order, why other pods stay, and what it rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from secondary_scheduler.rebalancing.loads import Limits, Loads, Share
from secondary_scheduler.rebalancing.oracle import Gain
from secondary_scheduler.rebalancing.rules.reasons import Reason, Refusal

_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class NodeChange:
    """A node's load before and after a move, in per cent of its capacity by resource."""

    name: str
    before: Loads
    after: Loads


@dataclass(frozen=True, slots=True)
class Move:
    """A pod to evict, and where the scheduler will put its replacement.

    Attributes:
        round: from 1; a round begins once the moves before it show in the load.
        pod: `namespace/name`.
        workload: kind, namespace, name.
        best: the nodes that the scheduler may choose among; all of them were checked.
        minimum_gain: points that were needed.
        share: what the pod uses.
        forbids_next: why no other pod of the same node is moved in this round.
    """

    round: int
    pod: str
    uid: str
    workload: tuple[str, str, str]
    source: NodeChange
    target: NodeChange
    best: tuple[str, ...]
    gain: Gain
    minimum_gain: int
    share: Share
    forbids_next: str

    @property
    def equally_good(self) -> int:
        """How many nodes the scheduler may choose among."""
        return len(self.best)


@dataclass(slots=True)
class Stays:
    """Pods that are not moved for one reason."""

    count: int = 0
    examples: list[tuple[str, str]] = field(default_factory=list)
    """Some of the pods, each with its case."""


@dataclass(slots=True)
class PlanSummary:
    """A round as it was found, or what came of several.

    Attributes:
        limits: thresholds in per cent, by resource.
        spread: standard deviation of the load over the nodes, in points by resource.
        overloaded: nodes above a threshold, worst first.
        with_room: number of nodes below all low thresholds.
    """

    limits: Limits
    spread: Mapping[str, float]
    overloaded: tuple[str, ...]
    with_room: int


@dataclass(slots=True)
class RebalancePlan:
    """All rounds.

    Attributes:
        stopped: why the last round moved nothing at all; empty if its pods were judged one by one.
        stays: pods that are not moved, by reason, as the last round found them.
        before, after: the nodes before the first round and after the last; None without load.
        assumptions: what could not be known and was taken for granted, in words.
        pods: how many are on nodes.
    """

    moves: list[Move] = field(default_factory=list)
    stopped: list[Refusal] = field(default_factory=list)
    stays: dict[Reason, Stays] = field(default_factory=dict)
    before: PlanSummary | None = None
    after: PlanSummary | None = None
    assumptions: list[str] = field(default_factory=list)
    pods: int = 0
    rounds: int = 0

    def note(self, pod: str, refusal: Refusal) -> None:
        """Count a pod that stays."""
        entry = self.stays.setdefault(refusal.reason, Stays())
        entry.count += 1
        if len(entry.examples) < _EXAMPLES:
            entry.examples.append((pod, refusal.detail))

    @property
    def counts(self) -> Counter[Reason]:
        """Pods that stay, by reason."""
        return Counter({reason: entry.count for reason, entry in self.stays.items()})
