"""What becomes of an attempt that is more work than it may be (`scheduler.framework.Work`): the pod is parked with a
reason, and others go on."""

from scheduler.framework import OVER_BUDGET, CycleState, OverBudgetError, Status, unresolvable

REJECTOR = "AttemptBudget"
"""Stands for the budget among the plugins that rejected a pod. No event wakes such a pod, as asking the plugin whether
an event helps would be work of the same size: it is tried again every five minutes, as the cluster may have shrunk."""


def park(state: CycleState, error: OverBudgetError) -> Status:
    """Return the rejection of a pod whose attempt was given up, and count it."""
    state.count(f"{OVER_BUDGET}/{error.plugin or REJECTOR}")
    return unresolvable(str(error), plugin=REJECTOR)


def is_over_budget(status: Status | None) -> bool:
    """Tell whether a pod's rejection is for the work that it would be."""
    return status is not None and status.plugin == REJECTOR
