"""Choosing a node for a pod (schedulePod and selectHost of kube-scheduler 1.34). No I/O, no clock.

The same snapshot and the same seed give the same choice: the conformance tests, `simulate` and the tests that compare
fast paths with slow ones rest on it. So chance is drawn exactly once per choice among equals, on every path.
"""

from collections.abc import Sequence

import numpy as np

from scheduler.core.classes import choose_by_class, usable_columns
from scheduler.core.feasible import find_feasible, too_much_work
from scheduler.core.placement import Choice, Placement, failed, load_ages, placed, rejected
from scheduler.framework import (
    Code,
    CycleState,
    IntArray,
    OverBudgetError,
    PluginError,
    PluginScores,
    PodInfo,
    ProfileRunner,
    RandomSource,
    RowArray,
    Work,
)
from scheduler.state import Snapshot

_MIN_SAMPLE = 100
"""Upstream scores at least so many nodes, whatever the percentage."""


def decide(
    snapshot: Snapshot,
    pod: PodInfo,
    profile: ProfileRunner,
    rng: RandomSource,
    *,
    from_scratch: bool = False,
    work: Work | None = None,
) -> Placement:
    """Choose a node for one pod; `decide_gang_asking` does it for several that belong together.

    Args:
        snapshot: the cluster.
        pod: to be placed.
        profile: the pod's.
        rng: for ties.
        from_scratch: use nothing that earlier decisions about pods of the same class showed: every plugin is asked
            about every node. The decision is the same.
        work: of the attempt that this is a part of; by default it is one of its own.
    """
    timing = profile.timing
    state = CycleState(rng, timing, work)
    if timing is not None:
        timing.begin()
    ages = load_ages(snapshot)
    columns = None if from_scratch else usable_columns(snapshot, pod, profile)
    try:
        if columns is None:
            filtered = find_feasible(snapshot, pod, profile, state)
        else:
            result = choose_by_class(columns, snapshot, pod, profile, state, rng)
            if isinstance(result, Choice):
                return placed(snapshot, pod, state, result, ages)
            filtered = result
        if filtered.error is not None:
            return failed(snapshot, pod, state, filtered.error, ages)
        if not len(filtered.rows):
            return rejected(snapshot, pod, state, filtered, ages)
        chosen = _choose(snapshot, pod, profile, state, filtered.rows, rng)
    except OverBudgetError as error:
        return rejected(snapshot, pod, state, too_much_work(snapshot, state, error), ages)
    except PluginError as error:
        if timing is not None:
            timing.lap(error.point, Code.ERROR)
        return failed(snapshot, pod, state, error, ages)
    choice = Choice(*chosen, len(filtered.rows), filtered.evaluated)
    return placed(snapshot, pod, state, choice, ages, filtered.diagnosis.remark())


def _choose(
    snapshot: Snapshot, pod: PodInfo, profile: ProfileRunner, state: CycleState, rows: RowArray, rng: RandomSource
) -> tuple[int, int, int]:
    """Return (row, its total, how many share it). A single feasible node is taken without scoring, as upstream does."""
    if len(rows) == 1:
        return int(rows[0]), 0, 1
    rows = sample(rows, snapshot.node_count, profile.effective.percentage_of_nodes_to_score, rng)
    totals = total_scores(profile.run_scores(state, pod, snapshot, rows), len(rows), bool(profile.scores))
    if state.timing is not None:
        state.timing.lap("Score")
    return pick_best(rows, totals, rng)


def pick_best(rows: RowArray, totals: IntArray, rng: RandomSource) -> tuple[int, int, int]:
    """Return (a row with the best total, this total, how many share it)."""
    best = np.maximum.reduce(totals)
    ties = (totals == best).nonzero()[0]
    # One draw over the ties, where upstream draws at each tie it meets (reservoir sampling): as uniform, and the number
    # of draws does not depend on the order of the nodes. random() costs a third of randrange.
    pick = int(ties[int(rng.random() * len(ties))])
    return int(rows[pick]), int(best), len(ties)


def sample(rows: RowArray, nodes: int, percentage: int | None, rng: RandomSource) -> RowArray:
    """Return the feasible rows that are scored: all, unless the configuration asks for a share of the nodes.

    The share is upstream's: at least 100 nodes, taken in a row from a random start (upstream's start moves on by
    chance too).
    """
    if not percentage or nodes < _MIN_SAMPLE:
        return rows
    wanted = max(_MIN_SAMPLE, nodes * percentage // 100)
    if len(rows) <= wanted:
        return rows
    start = int(rng.random() * len(rows))
    return np.sort(np.roll(rows, -start)[:wanted])


def total_scores(scores: Sequence[PluginScores], count: int, has_scorers: bool) -> IntArray:
    """Return the weighted sums; 1 for every node of a profile without score plugins, as upstream."""
    if not has_scorers:
        return np.ones(count, dtype=np.int64)
    totals = np.zeros(count, dtype=np.int64)
    for score in scores:
        totals += score.weighted
    return totals
