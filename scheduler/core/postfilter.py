"""What follows when a pod fits nowhere: PostFilter plugins, one of which may make room by preemption."""

from collections.abc import Sequence

from msgspec import Struct

from scheduler.core.feasible import BUDGET_REJECTOR, is_over_budget
from scheduler.core.placement import Placement
from scheduler.framework import Asking, Extender, OverBudgetError, PodInfo, ProfileRunner, Status
from scheduler.state import Snapshot


class PostFilterOutcome(Struct, frozen=True):
    """What PostFilter made of a rejection.

    Attributes:
        message: the whole FailedScheduling text.
        nominated_node: what becomes of `status.nominatedNodeName`: None leaves it, "" clears it.
        victims: pods to be evicted for the pod, if a node was found; their deletion is under way where the profile has
            a handle.
        status: PostFilter's status as a whole; None where the profile has no such plugin.
        over_budget: the plugin with which it became more work than the attempt may be; "" where it did not.
    """

    message: str
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    status: Status | None = None
    over_budget: str = ""


def run_post_filters(
    snapshot: Snapshot, placement: Placement, profile: ProfileRunner, extenders: Sequence[Extender] = ()
) -> Asking[PostFilterOutcome]:
    """Run a profile's PostFilter plugins for a pod that was rejected, on the snapshot it was rejected on.

    It asks those of the extenders that have a preemptVerb and are interested in the pod; where there are none, it asks
    nothing and can be concluded at once.

    Raises:
        ValueError: the placement is no rejection.
    """
    pod, diagnosis = placement.pod, placement.diagnosis
    if placement.node is not None or diagnosis is None:
        raise ValueError(f"pod {pod.key} was not rejected")
    if not profile.post_filters:
        return PostFilterOutcome(diagnosis.message(), "" if profile.nominates_before_binding else None)
    if is_over_budget(diagnosis.pre_filter):
        return PostFilterOutcome(diagnosis.message())
    preempting = [extender for extender in extenders if extender.preempt_verb and extender.is_interested(pod)]
    try:
        result, status = yield from profile.run_post_filter(
            placement.state, pod, snapshot, placement.node_codes(snapshot), preempting
        )
    except OverBudgetError as error:
        message = diagnosis.message(f"preemption: {error}.")
        return PostFilterOutcome(message, over_budget=error.plugin or BUDGET_REJECTOR)
    message = diagnosis.message(status.message)
    if result is None:
        return PostFilterOutcome(message, status=status)
    return PostFilterOutcome(message, result.nominated_node, result.victims, status)
