"""Rule 2, and the part of rule 3 that concerns one move: only with a plan that makes the cluster better.

The scheduler itself names another node, which is better by the minimum gain; that node stays below its threshold with
the pod's share; the first node was overloaded for several rounds in a row; and the load becomes more even, between the
two and over all nodes. A pod that would overload every node stays. Nothing lifts this.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.config import RebalanceSettings
from scheduler.framework import NodeInfo
from secondary_scheduler.rebalancing.history import History
from secondary_scheduler.rebalancing.loads import ClusterLoads, PodShare, unevenness
from secondary_scheduler.rebalancing.oracle import MoveVerdict
from secondary_scheduler.rebalancing.rules.reasons import MoveRefusal, Reason

LEAVING = frozenset(
    {"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "karpenter.sh/disrupted"}
)
"""Taints of nodes that an autoscaler is about to remove."""
_TENTH = 10
_SLIGHTEST = 1e-9


@dataclass(frozen=True, slots=True)
class TargetRules:
    """What a node must be to take a pod.

    Attributes:
        created: when nodes were made, seconds since the epoch; a node that is missing is old.
        window: seconds of load that a node must have behind it.
    """

    created: Mapping[str, float]
    window: float
    now: float

    def refusal(self, node: NodeInfo) -> MoveRefusal | None:
        """Return why a node does not count as a target, whatever the scheduler thinks of it."""
        if taint := leaving(node):
            return MoveRefusal(Reason.TARGET_UNFIT, f"{node.name} has the taint {taint}")
        if self.now - self.created.get(node.name, -math.inf) < self.window:
            return MoveRefusal(Reason.TARGET_UNFIT, f"{node.name} is younger than {self.window:.0f} s")
        return None


def leaving(node: NodeInfo) -> str:
    """Return the taint by which an autoscaler removes a node; "" without."""
    return next((taint.key for taint in node.taints if taint.key in LEAVING), "")


def left_alone(node: NodeInfo) -> MoveRefusal | None:
    """Return why no pod is taken from a node: somebody else empties it."""
    if node.unschedulable:
        return MoveRefusal(Reason.NODE_IS_LEFT_ALONE, f"{node.name} is cordoned")
    if taint := leaving(node):
        return MoveRefusal(Reason.NODE_IS_LEFT_ALONE, f"{node.name} has the taint {taint}")
    return None


def overloaded_long_enough(node: str, history: History, settings: RebalanceSettings) -> MoveRefusal | None:
    """Return whether a node was overloaded for too few rounds; the history has this round already."""
    rounds, needed = history.overloaded.get(node, 0), settings.consecutive_abnormalities
    if not history.known or rounds >= needed:
        return None
    return MoveRefusal(Reason.NOT_LONG_ENOUGH, f"{node} in {rounds} of {needed} rounds")


def share_is_known(share: PodShare, exceeded: tuple[str, ...]) -> MoveRefusal | None:
    """Return whether nobody knows what the pod uses of that of which its node has too little."""
    unknown = [resource for resource in exceeded if resource in share.assumed]
    if not unknown:
        return None
    return MoveRefusal(Reason.NO_SHARE, f"neither PodMetrics nor requests of {' and '.join(unknown)}")


def choice(verdict: MoveVerdict, settings: RebalanceSettings) -> MoveRefusal | None:
    """Return why the scheduler's own decision is no reason to move a pod."""
    if verdict.node is None:
        return MoveRefusal(Reason.FITS_NOWHERE, verdict.message)
    gain = verdict.gain
    if gain is None:
        return MoveRefusal(Reason.STAYS)
    needed = minimum_gain(gain.attainable, settings)
    # Where the scheduler would not even let it, any other node is better.
    if not gain.refused_by and gain.total < needed:
        return MoveRefusal(Reason.SMALL_GAIN, f"{gain.total} points, and {needed} are needed")
    return MoveRefusal(Reason.UNSURE, verdict.unsure) if verdict.unsure else None


def minimum_gain(attainable: int, settings: RebalanceSettings) -> int:
    """Return by how many points another node must be better; at least 1."""
    if settings.minimum_gain is not None:
        return settings.minimum_gain
    return max(1, -(-attainable // _TENTH))


def effect_on_pair(loads: ClusterLoads, share: PodShare, source: str, target: str) -> MoveRefusal | None:
    """Return why a move would not make the load of both nodes better; it must be fresh (rule 3)."""
    for node in (source, target):
        if not loads.is_measured(node):
            return MoveRefusal(Reason.STALE_LOAD, node)
    source_after, target_after = loads.after(share, source, target)
    over = loads.limits.exceeded(target_after)
    if over:
        figures = ", ".join(f"{resource} {target_after[resource]:.0f} %" for resource in over)
        return MoveRefusal(Reason.TARGET_OVERLOADED, f"{target} would have {figures}")
    for resource in loads.limits.exceeded(loads.of(source)):
        before = abs(loads.of(source)[resource] - loads.of(target)[resource])
        after = abs(source_after[resource] - target_after[resource])
        if after >= before - _SLIGHTEST:
            return MoveRefusal(
                Reason.NO_BETTER_SPREAD, f"{resource} of {source} and {target} apart by {before:.0f} → {after:.0f}"
            )
    return None


def effect_on_all(loads: ClusterLoads, share: PodShare, source: str, target: str) -> MoveRefusal | None:
    """Return why a move would not make the load of all nodes more even."""
    source_after, target_after = loads.after(share, source, target)
    before = unevenness(loads.spread())
    after = unevenness(loads.spread({source: source_after, target: target_after}))
    if after < before - _SLIGHTEST:
        return None
    return MoveRefusal(Reason.NO_BETTER_SPREAD, f"of all nodes: standard deviation {before:.1f} → {after:.1f}")
