"""Choosing a node by the columns of the pod's class; only plugins that cannot be answered for are asked."""

import random
from typing import NamedTuple

import numpy as np

from scheduler.core.classes import ClassColumns, columns_of
from scheduler.core.feasible import Search, filter_nodes
from scheduler.framework import CycleState, IntArray, PodInfo, ProfileRunner, RowArray
from scheduler.state import Snapshot


class Choice(NamedTuple):
    """The chosen row, its total, how many rows share it, how many were feasible and how many looked at."""

    row: int
    total: int
    best: int
    feasible: int
    evaluated: int


def usable_columns(view: Snapshot, pod: PodInfo, profile: ProfileRunner) -> ClassColumns | None:
    """Return the columns of a pod's class where they tell all: not on what-if views, nor where nominations matter."""
    if type(view) is not Snapshot or pod.nominated_node or pod.node_name or not view.table.row_of:
        return None
    if profile.effective.percentage_of_nodes_to_score or _room_promised(view, pod):
        return None
    return columns_of(view, pod, profile)


def _room_promised(view: Snapshot, pod: PodInfo) -> bool:
    return any(
        one.priority >= pod.priority and one.uid != pod.uid for pods in view.nominations.values() for one in pods
    )


def choose_by_class(
    columns: ClassColumns,
    view: Snapshot,
    pod: PodInfo,
    profile: ProfileRunner,
    state: CycleState,
    rng: random.Random,
) -> Choice | Search:
    """Return the choice; where no node fits, the full search that says why.

    Raises:
        PluginError: a plugin failed.
    """
    plan = columns.plan
    outcome = profile.run_pre_filter(state, pod, view, plan.vouched)
    if not outcome[0].is_success or outcome[1] is not None:
        return filter_nodes(view, pod, profile, state, outcome)
    rows: RowArray | None = None
    if plan.filters:
        counted = dict(state.counters)
        rows = columns.rows(view)
        rows = profile.passing(state, pod, view, rows, plan.filters)
    feasible = columns.feasible if rows is None else len(rows)
    if not feasible:
        if plan.filters:
            state.counters = counted
        profile.make_up_pre_filter(state, pod, view, plan.vouched)
        return filter_nodes(view, pod, profile, state, outcome)
    evaluated = len(view.rows)
    if feasible == 1:
        return Choice(int((columns.rows(view) if rows is None else rows)[0]), 0, 1, 1, evaluated)
    scores = profile.run_scores(
        state, pod, view, columns.rows(view) if rows is None else rows, plan.pre_scores, plan.scores
    )
    varying = plan.varying
    if rows is None and not scores and not varying:
        ties, best = columns.best(view)
        return Choice(_pick(ties, rng), best + plan.constant, len(ties), feasible, evaluated)
    if rows is None:
        rows = columns.rows(view)
    totals: IntArray = columns.totals.take(rows, mode="clip").astype(np.int64)
    for one in scores:
        totals += one.weighted
    for ranged, column in varying:
        raw = column.take(rows, mode="clip")
        totals += profile.finished(state, pod, view, rows, ranged.plugin.name, ranged.weight, raw).weighted
    best = int(np.maximum.reduce(totals))
    ties = (totals == best).nonzero()[0]
    return Choice(int(rows[_pick(ties, rng)]), best + plan.constant, len(ties), feasible, evaluated)


def _pick(ties: RowArray, rng: random.Random) -> int:
    # As without columns, so that the same seed picks the same node.
    return int(ties.item(int(rng.random() * len(ties))))
