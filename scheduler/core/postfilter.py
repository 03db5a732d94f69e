"""What follows when a pod fits nowhere: PostFilter plugins, one of which may make room by preemption."""

from collections.abc import Sequence

from msgspec import Struct

from scheduler.core.feasible import BUDGET_REJECTOR, is_over_budget
from scheduler.core.placement import Placement
from scheduler.framework import (
    Asking,
    Diagnosis,
    Extender,
    OverBudgetError,
    PodInfo,
    PostFilterResult,
    ProfileRunner,
    Status,
)
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


def run_post_filters(snapshot: Snapshot, placement: Placement, profile: ProfileRunner) -> PostFilterOutcome:
    """Run a profile's PostFilter plugins for a pod that was rejected, on the snapshot it was rejected on.

    Raises:
        ValueError: the placement is no rejection.
    """
    diagnosis = _diagnosis(placement)
    outcome = _without_plugins(diagnosis, profile)
    if outcome is not None:
        return outcome
    codes = placement.node_codes(snapshot)
    try:
        return _outcome(diagnosis, *profile.run_post_filter(placement.state, placement.pod, snapshot, codes))
    except OverBudgetError as error:
        return _given_up(diagnosis, error)


def post_filters_asking(
    snapshot: Snapshot, placement: Placement, profile: ProfileRunner, extenders: Sequence[Extender]
) -> Asking[PostFilterOutcome]:
    """As `run_post_filters`, with those of the extenders interested in the pod that have a preemptVerb.

    Raises:
        ValueError: the placement is no rejection.
    """
    preempting = [extender for extender in extenders if extender.preempt_verb]
    if not preempting:
        return run_post_filters(snapshot, placement, profile)
    diagnosis = _diagnosis(placement)
    outcome = _without_plugins(diagnosis, profile)
    if outcome is not None:
        return outcome
    codes = placement.node_codes(snapshot)
    try:
        answer = yield from profile.run_post_filter_asking(placement.state, placement.pod, snapshot, codes, preempting)
    except OverBudgetError as error:
        return _given_up(diagnosis, error)
    return _outcome(diagnosis, *answer)


def _diagnosis(placement: Placement) -> Diagnosis:
    if placement.node is not None or placement.diagnosis is None:
        raise ValueError(f"pod {placement.pod.key} was not rejected")
    return placement.diagnosis


def _without_plugins(diagnosis: Diagnosis, profile: ProfileRunner) -> PostFilterOutcome | None:
    """Return the outcome where no plugin is to be called."""
    if not profile.post_filters:
        return PostFilterOutcome(diagnosis.message(), "" if profile.nominates_before_binding else None)
    if is_over_budget(diagnosis.pre_filter):
        return PostFilterOutcome(diagnosis.message())
    return None


def _given_up(diagnosis: Diagnosis, error: OverBudgetError) -> PostFilterOutcome:
    return PostFilterOutcome(diagnosis.message(f"preemption: {error}."), over_budget=error.plugin or BUDGET_REJECTOR)


def _outcome(diagnosis: Diagnosis, result: PostFilterResult | None, status: Status) -> PostFilterOutcome:
    message = diagnosis.message(status.message)
    if result is None:
        return PostFilterOutcome(message, status=status)
    return PostFilterOutcome(message, result.nominated_node, result.victims, status)
