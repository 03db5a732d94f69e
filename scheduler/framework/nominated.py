"""Whether a pod fits beside the pods that are nominated to a node: they may arrive before or after it."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from scheduler.framework.cycle import CycleState
from scheduler.framework.diagnosis import Diagnosis
from scheduler.framework.handle import (
    FilterRunner,
)
from scheduler.framework.objects import PodInfo
from scheduler.framework.status import RowArray
from scheduler.framework.view import NodeView

_FEW_ROWS = 32
"""Up to so many rows are looked up one by one for pods nominated to them."""


def rows_fitting_beside_nominated(
    filters: FilterRunner,
    pod: PodInfo,
    view: NodeView,
    rows: RowArray,
    diagnosis: Diagnosis,
    pre_filtered: Callable[[], CycleState],
) -> RowArray:
    """Return the rows without those where a pod does not fit once the pods nominated there have arrived.

    Args:
        filters: the profile's.
        pod: to be placed; nominated pods of lower priority do not count for it.
        view: without the nominated pods.
        rows: to be looked at.
        diagnosis: gets the rejections.
        pre_filtered: returns the state after PreFilter; called only where some of the rows have nominated pods.

    Raises:
        PluginError: a plugin raised, or gave a node something else than Success or a rejection.
    """
    # Measured at 5,000 nodes: a look at one row's nominations costs 0.7 us, the view with all nominated pods 36 us.
    overlay: NodeView | None = None
    if len(rows) <= _FEW_ROWS:
        nominated = nominated_for(pod, view, rows)
        is_nominated = np.isin(rows, list(nominated)) if nominated else np.zeros(len(rows), dtype=np.bool_)
    else:
        nominated_rows, overlay = view.with_nominated(pod)
        marked = np.zeros(view.size, dtype=np.bool_)
        marked[nominated_rows] = True
        is_nominated = marked[rows]
    checked = rows[is_nominated]
    if not len(checked):
        return rows
    state = pre_filtered()
    if filters.looks_beyond_node(state):
        # A nominated pod elsewhere may change the verdict here: each node is a what-if run of its own.
        nominated = nominated_for(pod, view, checked)
        runs = np.split(checked, len(checked))
        fitting = np.concatenate([_fitting_with(filters, state, pod, view, run, nominated, diagnosis) for run in runs])
    elif filters.watches_pods(state):
        fitting = _fitting_with(filters, state, pod, view, checked, nominated_for(pod, view, checked), diagnosis)
    else:
        # Every verdict depends on its own node, and no plugin follows the moves: one run over the view with
        # all nominated pods answers for all rows. Adding the pods one by one costs as much for one row, and eight
        # times as much for 200.
        if overlay is None:
            _, overlay = view.with_nominated(pod)
        fitting = filters.run_filters(state, pod, overlay, checked, diagnosis)
    if len(fitting) == len(checked):
        return rows
    return rows[~is_nominated | np.isin(rows, fitting)]


def _fitting_with(
    filters: FilterRunner,
    state: CycleState,
    pod: PodInfo,
    view: NodeView,
    rows: RowArray,
    nominated: Mapping[int, Sequence[PodInfo]],
    diagnosis: Diagnosis,
) -> RowArray:
    overlay = view.overlay()
    trial = state.clone()
    for row in rows.tolist():
        for other in nominated[row]:
            overlay.add_pod(other, row)
            filters.run_add_pod(trial, pod, other, overlay, row)
    return filters.run_filters(trial, pod, overlay, rows, diagnosis)


def nominated_for(pod: PodInfo, view: NodeView, rows: RowArray) -> dict[int, list[PodInfo]]:
    """Return the pods nominated to rows that are no less important than a pod, by row; also of other rows where that
    saves looking."""
    if len(rows) < len(view.nominations):
        pairs = [(row, view.nominations.get(view.name(row), ())) for row in rows.tolist()]
    else:
        pairs = [(view.row(name), pods) for name, pods in view.nominations.items()]
    return {
        row: others
        for row, pods in pairs
        if row >= 0
        and (others := [nominee for nominee in pods if nominee.priority >= pod.priority and nominee.uid != pod.uid])
    }
