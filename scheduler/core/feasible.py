"""Which nodes a pod can run on, and why it cannot run on the others."""

from dataclasses import dataclass

import numpy as np

from scheduler.framework import NO_NODES, Code, CycleState, Diagnosis, PodInfo, ProfileRunner, RowArray, Status
from scheduler.state import Snapshot

_NONE: RowArray = np.zeros(0, dtype=np.intp)


@dataclass(slots=True)
class Search:
    """The outcome: feasible rows, how many were looked at, why the rest is not feasible; or an error before any was
    looked at."""

    rows: RowArray
    evaluated: int
    diagnosis: Diagnosis
    error: str | None = None


def find_feasible(snapshot: Snapshot, pod: PodInfo, profile: ProfileRunner, state: CycleState) -> Search:
    """Run PreFilter and Filter for a pod (schedulePod and findNodesThatFitPod of kube-scheduler 1.34).

    Raises:
        PluginError: a plugin failed.
    """
    diagnosis = Diagnosis(snapshot.node_count)
    if not snapshot.node_count:
        return Search(_NONE, 0, diagnosis, NO_NODES)
    status, names, restricting = profile.run_pre_filter(state, pod, snapshot)
    if not status.is_success:
        diagnosis.pre_filter = status
        return Search(_NONE, 0, diagnosis)
    rows = snapshot.rows
    if pod.nominated_node:
        row = snapshot.row(pod.nominated_node)
        if row >= 0:
            feasible = _filter(snapshot, pod, profile, state, np.array([row], dtype=np.intp), Diagnosis(1))
            if len(feasible):
                return Search(feasible, 1, diagnosis)
    if names is not None:
        rows = np.array(sorted(row for name in names if (row := snapshot.row(name)) >= 0), dtype=np.intp)
        diagnosis.absent = snapshot.node_count - len(rows)
        diagnosis.absent_plugins = restricting
    feasible = _filter(snapshot, pod, profile, state, rows, diagnosis)
    return Search(feasible, len(rows), diagnosis)


def _filter(
    snapshot: Snapshot, pod: PodInfo, profile: ProfileRunner, state: CycleState, rows: RowArray, diagnosis: Diagnosis
) -> RowArray:
    """Filter rows, in two passes where pods of equal or higher priority are nominated.

    There the pod must fit with the nominated pods (they may arrive) and without them (it must not depend on them).
    """
    nominated = {
        row: others
        for name, pods in snapshot.nominations.items()
        if (row := snapshot.row(name)) >= 0
        and (others := [one for one in pods if one.priority >= pod.priority and one.uid != pod.uid])
    }
    if nominated:
        wanted = np.isin(rows, list(nominated))
        passed = [
            row
            for row in rows[wanted].tolist()
            if _fits_with(snapshot, pod, profile, state, row, nominated[row], diagnosis)
        ]
        keep = ~wanted | np.isin(rows, passed)
        rows = rows if keep.all() else rows[keep]
    return profile.run_filters(state, pod, snapshot, rows, diagnosis)


def _fits_with(
    snapshot: Snapshot,
    pod: PodInfo,
    profile: ProfileRunner,
    state: CycleState,
    row: int,
    nominated: list[PodInfo],
    diagnosis: Diagnosis,
) -> bool:
    overlay = snapshot.overlay()
    trial = state.clone()
    for other in nominated:
        overlay.add_pod(other, row)
        profile.run_add_pod(trial, pod, other, overlay, row)
    return len(profile.run_filters(trial, pod, overlay, np.array([row], dtype=np.intp), diagnosis)) == 1


def status_of_all(search: Search) -> Status | None:
    """Return the status that stands for every node: PreFilter's, or the error before any node was looked at."""
    if search.error is not None:
        return Status(Code.ERROR, (), "", search.error)
    return search.diagnosis.pre_filter
