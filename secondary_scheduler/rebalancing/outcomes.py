"""How moves end: where the replacement of an evicted pod was placed, and whether that is where it was to be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from scheduler.framework import PodInfo
from secondary_scheduler.rebalancing.history import Outcome, PastMove
from secondary_scheduler.rebalancing.rules.evictions import EVACUATION_SECONDS
from secondary_scheduler.rebalancing.workloads import revision_of

CLOCKS_SECONDS = 5.0
"""So much the clock of the API server, which dates pods to the second, may be behind ours."""


def outcome_of(
    move: PastMove, pod: Callable[[str], PodInfo | None], siblings: Iterable[PodInfo], now: float
) -> Outcome | None:
    """Return how a move has ended; None while it is in flight, which is 10 minutes at most.

    Args:
        move: in flight.
        pod: returns the pod with a UID; None once it is gone.
        siblings: pods of the controller whose pod was evicted.
        now: seconds since the epoch.
    """
    too_late = now - move.begun_at >= EVACUATION_SECONDS
    evicted = pod(move.uid)
    if evicted is not None and not evicted.deleting and not evicted.terminal:
        # Somebody else carries it out, or nobody ever will.
        return Outcome.EXPIRED if too_late else None
    placed = replacement_of(move, siblings)
    if placed is None or not placed.node_name:
        return Outcome.EXPIRED if too_late else None
    if placed.node_name == move.source:
        return Outcome.BACK
    if placed.node_name in (move.target, *move.targets) or not move.all_targets:
        return Outcome.LANDED
    return Outcome.ELSEWHERE


def replacement_of(move: PastMove, siblings: Iterable[PodInfo]) -> PodInfo | None:
    """Return the pod that was made in place of an evicted one; None while there is none.

    It has the same controller and the same revision of its template, and was made after the eviction. As a workload
    has one move at a time and does not scale meanwhile (rule 5), the first such pod is the one.
    """
    newer = (
        pod
        for pod in siblings
        if pod.uid != move.uid
        and pod.controller is not None
        and pod.controller.uid == move.controller
        and revision_of(pod) == move.revision
        and _was_made_after(pod, move.begun_at)
    )
    return min(newer, key=lambda pod: (pod.created_at, pod.key), default=None)


def _was_made_after(pod: PodInfo, begun_at: float) -> bool:
    return not math.isnan(pod.created_at) and pod.created_at >= begun_at - CLOCKS_SECONDS
