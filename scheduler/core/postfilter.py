"""What follows when a pod fits nowhere: PostFilter plugins, one of which may make room by preemption."""

from dataclasses import dataclass

from scheduler.core.budget import is_over_budget, preemption_rejection
from scheduler.core.decide import Placement
from scheduler.framework import PodInfo, ProfileRunner, Status
from scheduler.state import Snapshot


@dataclass(frozen=True, slots=True)
class PostFilterOutcome:
    """What PostFilter made of a rejection.

    Attributes:
        message: the whole FailedScheduling text.
        nominated_node: what becomes of `status.nominatedNodeName`: None leaves it, "" clears it.
        victims: pods to be evicted for the pod, if a node was found; their deletion is under way where the profile has
            a handle.
        status: PostFilter's status as a whole; None where the profile has no such plugin.
    """

    message: str
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    status: Status | None = None


def run_post_filters(snapshot: Snapshot, placement: Placement, profile: ProfileRunner) -> PostFilterOutcome:
    """Run a profile's PostFilter plugins for a pod that was rejected, on the snapshot it was rejected on.

    Raises:
        ValueError: the placement is no rejection.
    """
    diagnosis = placement.diagnosis
    if placement.node is not None or diagnosis is None:
        raise ValueError(f"pod {placement.pod.key} was not rejected")
    if not profile.post_filters or is_over_budget(diagnosis.pre_filter):
        return PostFilterOutcome(diagnosis.message())
    too_much = preemption_rejection(snapshot, placement.pod, placement.state)
    if too_much:
        return PostFilterOutcome(diagnosis.message(too_much))
    codes = placement.node_codes(snapshot)
    result, status = profile.run_post_filter(placement.state, placement.pod, snapshot, codes)
    message = diagnosis.message(status.message)
    if result is None:
        return PostFilterOutcome(message, status=status)
    return PostFilterOutcome(message, result.nominated_node, result.victims, status)
