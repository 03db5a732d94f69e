"""What became of a pending pod, in a word."""

from __future__ import annotations

from scheduler.framework import PodInfo, ProfileRunner
from scheduler.state import ClusterState
from secondary_scheduler.simulation.deciding import Outcome

PLACED, UNSCHEDULABLE, GATED, UNDECIDED = "placed", "unschedulable", "gated", "undecided"
RESULTS = (PLACED, UNSCHEDULABLE, GATED, UNDECIDED)


def result_of(outcome: Outcome, pod: PodInfo, runner: ProfileRunner, state: ClusterState) -> str:
    """Return one of `RESULTS`, once the outcome is in the state."""
    if outcome.node is not None:
        return PLACED
    if outcome.placement is not None or not state.node_count:
        return UNSCHEDULABLE
    return UNDECIDED if pod.deleting or runner.run_pre_enqueue(pod).is_success else GATED


def waited(pod: PodInfo, now: float) -> float | None:
    """Return the seconds since a pod was created; None where the object does not say when."""
    # NaN where the object does not say.
    return max(0.0, now - pod.created_at) if pod.created_at == pod.created_at else None
