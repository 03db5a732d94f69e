"""Choosing nodes for the pods of a gang, together and on one snapshot. Pure, as `decide` is."""

import dataclasses
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.core.decide import Placement, decide
from scheduler.framework import Gang, PodInfo, ProfileRunner
from scheduler.state import Snapshot


@dataclass(frozen=True, slots=True)
class GangDecision:
    """What became of the members that were tried.

    Attributes:
        gang: who belongs together.
        placements: one per pod, in the order of the pods.
    """

    gang: Gang
    placements: tuple[Placement, ...]

    @property
    def placed(self) -> tuple[Placement, ...]:
        """Return the placements that have a node."""
        return tuple(one for one in self.placements if one.node is not None)

    @property
    def unplaced(self) -> tuple[Placement, ...]:
        """Return the placements that have none."""
        return tuple(one for one in self.placements if one.node is None)

    @property
    def is_complete(self) -> bool:
        """Tell whether enough members have a node."""
        return len(self.placed) >= self.gang.missing


def decide_gang(
    snapshot: Snapshot,
    gang: Gang,
    pods: Sequence[PodInfo],
    runner_of: Callable[[PodInfo], ProfileRunner],
    rng: random.Random,
) -> GangDecision:
    """Place pods one after the other, each seeing the earlier ones; those that do not fit are passed over, and tried
    once more when others found a place, as they may want to be next to one of these.

    Nothing is said here about whether they may run: that is `is_complete`.
    """
    overlay = snapshot.overlay()
    found: dict[str, Placement] = {}
    refused: dict[tuple[object, ...], Placement] = {}
    open_pods, progress = list(pods), True
    while progress and open_pods:
        progress, again = False, []
        for pod in open_pods:
            kind = _kind(pod)
            known = refused.get(kind)
            if known is not None:
                found[pod.uid] = dataclasses.replace(known, pod=pod)
                again.append(pod)
                continue
            placement = decide(overlay, (pod,), runner_of(pod), rng).only
            found[pod.uid] = placement
            if placement.node is None:
                refused[kind] = placement
                again.append(pod)
            else:
                overlay.add_pod(pod, overlay.row(placement.node))
                refused.clear()
                progress = True
        # Whoever was refused last, after everybody who was placed, would be refused again.
        open_pods = [pod for pod in again if _kind(pod) not in refused]
    return GangDecision(gang, tuple(found[pod.uid] for pod in pods))


def _kind(pod: PodInfo) -> tuple[object, ...]:
    """Pods of one kind get the same answer from the same view."""
    return pod.scheduler_name, pod.spec.class_key, pod.priority, pod.nominated_node, tuple(sorted(pod.labels.items()))


def gang_message(decision: GangDecision, own: str | None = None) -> str:
    """Return what a member is told of a gang that does not fit: how many do, and why the others do not.

    `own` is what keeps this very member off; else the reason most others have is given.
    """
    gang = decision.gang
    fit = gang.placed + len(decision.placed)
    members = gang.placed + len(decision.placements)
    text = f"{gang.name}: {fit} of {members} members fit, minMember is {gang.minimum}"
    elsewhere = len(gang.waiting) - len(decision.placements)
    if elsewhere > 0:
        text += f", {elsewhere} cannot be tried by this scheduler now"
    reason = own or _common_reason(decision)
    return f"{text}: {reason}" if reason else text


def _common_reason(decision: GangDecision) -> str:
    """Return why most of the members without a node have none; the first of equals."""
    reasons = Counter(one.message for one in decision.unplaced if one.message)
    return reasons.most_common(1)[0][0] if reasons else ""
