"""Which nodes a pod can run on, and why it cannot run on the others.

Upstream stops filtering once it has found enough feasible nodes. Here every node is filtered: by columns that costs
little, and the message of a pod that fits nowhere is complete either way.
"""

from collections.abc import Collection, Iterable

import numpy as np
from msgspec import Struct

from scheduler.framework import (
    NO_NODES,
    OVER_BUDGET,
    Code,
    CycleState,
    Diagnosis,
    OverBudgetError,
    PodInfo,
    PreFilterOutcome,
    ProfileRunner,
    RowArray,
    Status,
    unresolvable,
)
from scheduler.state import Snapshot

BUDGET_REJECTOR = "AttemptBudget"
"""Stands for the budget of an attempt (`scheduler.framework.Work`) among the plugins that rejected a pod. No event
wakes such a pod, as asking the plugin whether an event helps would be work of the same size: it is tried again every
five minutes, as the cluster may have shrunk."""
_NONE: RowArray = np.zeros(0, dtype=np.intp)


class FeasibleNodes(Struct):
    """The outcome: feasible rows, how many were looked at, why the rest is not feasible; or an error before any was
    looked at."""

    rows: RowArray
    evaluated: int
    diagnosis: Diagnosis
    error: str | None = None


def park(state: CycleState, error: OverBudgetError) -> Status:
    """Return the rejection of a pod whose attempt was given up as too much work, and count it."""
    state.count(f"{OVER_BUDGET}/{error.plugin or BUDGET_REJECTOR}")
    return unresolvable(str(error), plugin=BUDGET_REJECTOR)


def is_over_budget(status: Status | None) -> bool:
    """Tell whether a pod's rejection is for the work that it would be."""
    return status is not None and status.plugin == BUDGET_REJECTOR


def too_much_work(snapshot: Snapshot, state: CycleState, error: OverBudgetError) -> FeasibleNodes:
    """Return the outcome of an attempt that was given up."""
    return FeasibleNodes(_NONE, 0, Diagnosis(len(snapshot.candidates), pre_filter=park(state, error)))


def find_feasible(snapshot: Snapshot, pod: PodInfo, profile: ProfileRunner, state: CycleState) -> FeasibleNodes:
    """Run PreFilter and Filter for a pod (schedulePod and findNodesThatFitPod of kube-scheduler 1.34).

    Raises:
        PluginError: a plugin failed.
        OverBudgetError: it is more work than an attempt may be.
    """
    if not snapshot.node_count:
        return FeasibleNodes(_NONE, 0, Diagnosis(0), NO_NODES)
    outcome = profile.run_pre_filter(state, pod, snapshot)
    if state.timing is not None:
        state.timing.lap("PreFilter", outcome[0].code)
    return filter_nodes(snapshot, pod, profile, state, outcome)


def filter_nodes(
    snapshot: Snapshot, pod: PodInfo, profile: ProfileRunner, state: CycleState, outcome: PreFilterOutcome
) -> FeasibleNodes:
    """Run Filter for a pod, given what PreFilter answered.

    Raises:
        PluginError: a plugin failed.
    """
    if outcome[0].is_success and pod.nominated_node:
        # Its rejection is not part of the diagnosis, as the search over all nodes that follows finds it again.
        feasible = filter_nominated(snapshot, pod, profile, state)
        if len(feasible):
            return FeasibleNodes(feasible, 1, Diagnosis(len(snapshot.candidates)))
    return filter_all(snapshot, pod, profile, state, outcome)


def filter_nominated(snapshot: Snapshot, pod: PodInfo, profile: ProfileRunner, state: CycleState) -> RowArray:
    """Return the row of the node where preemption made room for the pod, if it fits there: then no other node is
    filtered (evaluateNominatedNode).

    Raises:
        PluginError: a plugin failed.
    """
    row = snapshot.row(pod.nominated_node)
    if row < 0 or not _is_candidate(snapshot, row):
        return _NONE
    feasible = profile.run_filters_with_nominated(state, pod, snapshot, np.array([row], dtype=np.intp), Diagnosis(1))
    if len(feasible) and state.timing is not None:
        state.timing.lap("Filter")
    return feasible


def filter_all(
    snapshot: Snapshot,
    pod: PodInfo,
    profile: ProfileRunner,
    state: CycleState,
    outcome: PreFilterOutcome,
    among: Collection[str] | None = None,
) -> FeasibleNodes:
    """Run Filter on all nodes that PreFilter left, nominated or not; with `among`, on those of these names.

    Raises:
        PluginError: a plugin failed.
    """
    status, names, restricting = outcome
    rows = snapshot.candidates
    diagnosis = Diagnosis(len(rows))
    if not status.is_success:
        diagnosis.pre_filter = status
        profile.step_back(state, diagnosis)
        return FeasibleNodes(_NONE, 0, diagnosis)
    if names is not None:
        rows = _rows_of(snapshot, names)
        diagnosis.absent = diagnosis.total - len(rows)
        diagnosis.absent_plugins = restricting
    if among is not None:
        rows = _rows_of(snapshot, among if names is None else names.intersection(among))
    feasible = profile.run_filters_with_nominated(state, pod, snapshot, rows, diagnosis)
    if not len(feasible) and (taken_back := profile.step_back(state, diagnosis)):
        diagnosis.rejections = []
        feasible = profile.run_filters_with_nominated(state, pod, snapshot, rows, diagnosis)
        if len(feasible):
            diagnosis.taken_back = tuple(rejection.only(feasible) for rejection in taken_back)
            for name in sorted({rejection.plugin for rejection in taken_back}):
                state.count(f"stepped_back/{name}")
    if state.timing is not None:
        state.timing.lap("Filter")
    return FeasibleNodes(feasible, len(rows), diagnosis)


def _rows_of(snapshot: Snapshot, names: Iterable[str]) -> RowArray:
    rows: RowArray = np.array(sorted(row for name in names if (row := snapshot.row(name)) >= 0), dtype=np.intp)
    if len(snapshot.candidates) < snapshot.node_count:
        rows = rows[np.isin(rows, snapshot.candidates, assume_unique=True)]
    return rows


def _is_candidate(snapshot: Snapshot, row: int) -> bool:
    candidates = snapshot.candidates
    index = int(np.searchsorted(candidates, row))
    return index < len(candidates) and int(candidates[index]) == row


def status_of_all(filtered: FeasibleNodes) -> Status | None:
    """Return the status that stands for every node: PreFilter's, or the error before any node was looked at."""
    if filtered.error is not None:
        return Status(Code.ERROR, (), "", filtered.error)
    return filtered.diagnosis.pre_filter
