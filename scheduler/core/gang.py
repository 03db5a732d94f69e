"""Choosing nodes for the pods of a gang, together and on one snapshot. Pure, as `decide` is.

Upstream's Coscheduling decides members one by one and holds them in Permit: two gangs that each hold half of the
cluster wait for each other until they time out. Members decided together hold nothing unless enough of them fit. They
are still decided one after the other, each on an overlay with the earlier ones: an optimal packing of all members at
once would be another problem (and NP-hard), and the plugins are written for one pod.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scheduler.core.decide import decide
from scheduler.core.placement import Placement
from scheduler.framework import (
    Code,
    Gang,
    GangPlugin,
    PodInfo,
    ProfileRunner,
    RandomSource,
    Status,
)
from scheduler.state import Snapshot


@dataclass(frozen=True, slots=True)
class GangDecision:
    """What became of the members that were tried.

    Attributes:
        gang: who belongs together.
        placements: one per pod that was tried, in the order of the pods.
    """

    gang: Gang
    placements: tuple[Placement, ...]

    @property
    def placed(self) -> tuple[Placement, ...]:
        """Return the placements that have a node."""
        return tuple(placement for placement in self.placements if placement.node is not None)

    @property
    def unplaced(self) -> tuple[Placement, ...]:
        """Return the placements that have none."""
        return tuple(placement for placement in self.placements if placement.node is None)


def decide_gang(
    snapshot: Snapshot,
    gang: Gang,
    pods: Sequence[PodInfo],
    runner_of: Callable[[PodInfo], ProfileRunner],
    rng: RandomSource,
    enough: int,
    on_decision: Callable[[Snapshot, Placement], None] | None = None,
) -> GangDecision:
    """Place pods one after the other, each seeing the earlier ones, until there are `enough`.

    Those that do not fit are passed over, and tried once more when others found a place, as they may want to be next
    to one of these. `on_decision` is called with each decision and the view that it was made on.
    """
    overlay = snapshot.overlay()
    placements: dict[str, Placement] = {}
    rejected: dict[tuple[object, ...], Placement] = {}
    unplaced, placed, progress = list(pods), 0, True
    while progress and unplaced and placed < enough:
        progress, again = False, []
        for pod in unplaced:
            if placed == enough:
                break
            key = _equivalence_key(pod)
            known = rejected.get(key)
            if known is not None:
                placements[pod.uid] = dataclasses.replace(known, pod=pod)
                if on_decision is not None:
                    on_decision(overlay, placements[pod.uid])
                again.append(pod)
                continue
            placement = decide(overlay, pod, runner_of(pod), rng)
            placements[pod.uid] = placement
            if on_decision is not None:
                on_decision(overlay, placement)
            if placement.node is None:
                rejected[key] = placement
                again.append(pod)
            else:
                overlay.add_pod(pod, overlay.row(placement.node))
                rejected.clear()
                placed += 1
                progress = True
        # A member rejected after the last one was placed would be rejected again: nothing has changed for it.
        unplaced = [pod for pod in again if _equivalence_key(pod) not in rejected]
    return GangDecision(gang, tuple(placements[pod.uid] for pod in pods if pod.uid in placements))


def _equivalence_key(pod: PodInfo) -> tuple[object, ...]:
    """Return what the answer for a pod depends on, given one view: a member that equals a rejected one need not be
    tried. Claims made of one template are equal in what they ask for, not in what they have been given."""
    labels = tuple(sorted(pod.labels.items()))
    return pod.scheduler_name, pod.spec.class_key, pod.priority, pod.nominated_node, labels, pod.claim_names


def place_gang(
    gang: Gang,
    pods: Sequence[PodInfo],
    decide_now: Callable[[Sequence[PodInfo], int], GangDecision],
    reserve: Callable[[Placement], Status],
) -> GangDecision:
    """Decide about as many members as are missing, and take their nodes; `placed` are then those that hold one.

    Members beyond these are not tried: once the gang may run, they are pods like any other.

    What is rejected when it is taken (two members counted on one volume) is decided again, now that the others' nodes
    are taken. When the result is not complete, the caller undoes every reservation.

    Args:
        gang: who belongs together.
        pods: the members to place, in queue order.
        decide_now: decides about some of them, until so many have a place, on the cluster as it is at that moment.
        reserve: reserves what was decided; anything but Success has been undone.
    """
    left, held = list(pods), 0
    placements: dict[str, Placement] = {}
    while held < gang.missing:
        decision = decide_now(left, gang.missing - held)
        placements.update((placement.pod.uid, placement) for placement in decision.placements)
        if held + len(decision.placed) < gang.missing:
            break
        before, kept = held, set()
        for placement in decision.placed:
            status = reserve(placement)
            if status.is_success:
                held += 1
                kept.add(placement.pod.uid)
            else:
                placements[placement.pod.uid] = _rejected(placement, status)
        if held == before:
            break
        left = [pod for pod in left if pod.uid not in kept]
    return GangDecision(gang, tuple(placements[pod.uid] for pod in pods if pod.uid in placements))


def _rejected(placement: Placement, status: Status) -> Placement:
    """Return what a placement becomes that Reserve or Permit does not let happen."""
    if status.is_rejection:
        message = f"0/1 nodes are available: 1 {status.message}."
        rejectors = frozenset({status.plugin} - {""})
        return dataclasses.replace(placement, node=None, code=Code.UNSCHEDULABLE, message=message, rejectors=rejectors)
    return dataclasses.replace(placement, node=None, code=Code.ERROR, message=status.message)


def gang_plugin(runner: ProfileRunner) -> GangPlugin | None:
    """Return the plugin of a profile that forms gangs; one that only orders the queue does not."""
    permitting = {plugin.name for plugin in runner.permit}
    return next(
        (plugin for plugin in runner.plugins.values() if isinstance(plugin, GangPlugin) and plugin.name in permitting),
        None,
    )


def gang_message(decision: GangDecision, own: str | None = None) -> str:
    """Return the message for a member of a gang that does not fit: how many members fit, and why the others do not.

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
    reasons = Counter(placement.message for placement in decision.unplaced if placement.message)
    return reasons.most_common(1)[0][0] if reasons else ""
