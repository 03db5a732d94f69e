"""Choosing a node by the columns of the pod's class; only plugins that cannot be answered for are asked.

A fast path with the same result as `feasible` and `decide`, never another one: where it cannot tell, it steps aside
(`usable_columns` returns None), and where no node fits, the full search runs, as the message needs every filter's
reasons.
"""

from typing import NamedTuple

import numpy as np

from scheduler.core.classes import ClassColumns, columns_of
from scheduler.core.feasible import FeasibleNodes, filter_nodes
from scheduler.core.placement import Choice
from scheduler.core.plan import Column
from scheduler.framework import (
    FEW_PARTS,
    SUCCESS,
    CycleState,
    Diagnosis,
    PluginScores,
    PodInfo,
    PreFilterOutcome,
    ProfileRunner,
    RandomSource,
    RowArray,
    rows_fitting_beside_nominated,
)
from scheduler.state import Snapshot

_NO_PRE_FILTERS: PreFilterOutcome = (SUCCESS, None, ())


def usable_columns(view: Snapshot, pod: PodInfo, profile: ProfileRunner) -> ClassColumns | None:
    """Return the columns of a pod's class where they tell enough: not on what-if views, nor where a plugin has to be
    asked how it takes the nominations of others; nor for pods that list many things, of which there are few: digests
    of these, and answers that hardly anybody shares, would cost more than they spare, and each plugin has to charge for
    its work (`scheduler.framework.Work`)."""
    if pod.spec.parts > FEW_PARTS:
        return None
    if type(view) is not Snapshot or pod.nominated_node or pod.node_name or not view.table.row_of:
        return None
    if profile.effective.percentage_of_nodes_to_score:
        return None
    columns = columns_of(view, pod, profile)
    if columns is not None and not columns.plan.local and _others_nominated(view, pod):
        return None
    return columns


def _others_nominated(view: Snapshot, pod: PodInfo) -> bool:
    return any(
        nominee.priority >= pod.priority and nominee.uid != pod.uid
        for pods in view.nominations.values()
        for nominee in pods
    )


def choose_by_class(
    columns: ClassColumns,
    view: Snapshot,
    pod: PodInfo,
    profile: ProfileRunner,
    state: CycleState,
    rng: RandomSource,
) -> Choice | FeasibleNodes:
    """Return the choice; where no node fits, the full search that says why.

    Raises:
        PluginError: a plugin failed.
        OverBudgetError: it is more work than an attempt may be.
    """
    plan = columns.plan
    outcome = _NO_PRE_FILTERS if plan.all_skippable else profile.run_pre_filter(state, pod, view, plan.skippable)
    timing = state.timing
    if timing is not None:
        timing.lap("PreFilter", outcome[0].code)
    if outcome is not _NO_PRE_FILTERS and (not outcome[0].is_success or outcome[1] is not None):
        return filter_nodes(view, pod, profile, state, outcome)
    all_rows = columns.rows(view)
    filters = [plugin for plugin in plan.filters if plugin.name not in state.skip_filter] if plan.filters else ()
    counted, work = (dict(state.counters), state.work.save()) if filters else (state.counters, state.work)
    rows = profile.rows_passing(state, pod, view, all_rows, filters) if filters else all_rows
    if plan.local and view.nominations:
        # Nodes with nominated pods alone need another look, as all verdicts follow from the node.
        rows = rows_fitting_beside_nominated(
            profile, pod, view, rows, Diagnosis(len(rows)), lambda: _pre_filtered(view, pod, profile, plan.skippable)
        )
    if not len(rows):
        state.counters = counted
        state.work.restore(work)
        profile.run_skipped_pre_filters(state, pod, view, plan.skippable)
        return filter_nodes(view, pod, profile, state, outcome)
    if timing is not None:
        timing.lap("Filter")
    evaluated = len(view.rows)
    if len(rows) == 1:
        return Choice(int(rows[0]), 0, 1, 1, evaluated)
    ties, total = _best(columns, view, pod, profile, state, rows, all_of_class=rows is all_rows)
    row = _pick(ties.of, rng) if ties.among is None else int(ties.among[_pick(ties.of, rng)])
    if timing is not None:
        timing.lap("Score")
    return Choice(row, total, len(ties.of), len(rows), evaluated)


class _Ties(NamedTuple):
    """The rows that share the best total: numbers of rows, or positions among some rows."""

    of: RowArray
    among: RowArray | None = None


def _best(
    columns: ClassColumns,
    view: Snapshot,
    pod: PodInfo,
    profile: ProfileRunner,
    state: CycleState,
    rows: RowArray,
    *,
    all_of_class: bool,
) -> tuple[_Ties, int]:
    """Return the feasible rows that share the best total, and this total."""
    plan = columns.plan
    scores: list[PluginScores] = []
    if plan.pre_scores or plan.scores:
        scores = profile.run_scores(state, pod, view, rows, plan.pre_scores, plan.scores)
    if all_of_class and not scores and not plan.varying:
        ties, best = columns.best(view)
        return _Ties(ties), best + plan.constant
    totals: Column = columns.totals.take(rows, mode="clip")
    if scores or plan.varying:
        totals = totals.astype(np.int64)
    for score in scores:
        totals += score.weighted
    for ranged, column in plan.varying:
        raw = column.take(rows, mode="clip")
        totals += profile.finish_scores(state, pod, view, rows, ranged.plugin.name, ranged.weight, raw).weighted
    best = int(np.maximum.reduce(totals))
    ties = (totals == best).nonzero()[0]
    return _Ties(ties, rows), best + plan.constant


def _pre_filtered(view: Snapshot, pod: PodInfo, profile: ProfileRunner, skippable: frozenset[str]) -> CycleState:
    """Return a state of its own after PreFilter: the attempt's own stays without what only this question needs."""
    state = CycleState()
    profile.run_skipped_pre_filters(state, pod, view, skippable)
    return state


def _pick(ties: RowArray, rng: RandomSource) -> int:
    # As without columns, so that the same seed picks the same node.
    return int(ties.item(int(rng.random() * len(ties))))
