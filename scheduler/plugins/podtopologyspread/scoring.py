"""Scores of soft constraints (plugins/podtopologyspread/scoring.go)."""

import math
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from scheduler import framework as fw
from scheduler.helpers.scoring import floor_divide
from scheduler.plugins.podtopologyspread.constraints import (
    HOSTNAME,
    Constraint,
    CountedNodes,
    NodeSets,
    lists_many,
    matching_pods,
)


class PreScoreState(Struct):
    """What PreScore found for the feasible rows.

    Attributes:
        scores_by_constraint: per constraint, what it adds to each row.
        ignored: rows that lack a key; None where none does.
    """

    scores_by_constraint: list[fw.FloatArray]
    ignored: fw.BoolArray | None


def pre_score_state(
    view: fw.NodeView,
    pod: fw.PodInfo,
    rows: fw.RowArray,
    constraints: Sequence[Constraint],
    require_all: bool,
    sets: NodeSets,
) -> PreScoreState:
    """Compute every constraint's part of the score (initPreScoreState and processAllNode).

    Args:
        view: the nodes.
        pod: the pod to place.
        rows: the feasible nodes.
        constraints: the pod's soft constraints.
        require_all: whether nodes that lack one of the keys take no part at all.
        sets: remembers which nodes count for a constraint.
    """
    if require_all and not all(view.labels(constraint.topology_key).values for constraint in constraints):
        # No node has all keys.
        return PreScoreState([np.zeros(len(rows))], np.ones(len(rows), dtype=np.bool_))
    columns = [fw.gather_codes(view, view.labels(constraint.topology_key).codes, rows) for constraint in constraints]
    ignored: fw.BoolArray | None = None
    if require_all:
        lacking = np.logical_or.reduce([codes < 0 for codes in columns])
        ignored = lacking if lacking.any() else None
    keys = [constraint.topology_key for constraint in constraints] if require_all else ()
    scores_by_constraint = []
    for constraint, codes in zip(constraints, columns, strict=True):
        query = constraint.query(pod.namespace)
        if constraint.topology_key == HOSTNAME:
            size = len(rows) - (0 if ignored is None else int(np.count_nonzero(ignored)))
            counts = None if query is None else fw.gather_codes(view, view.pods_by_node(query), rows)
            scores_by_constraint.append(_host_scores(constraint, counts, codes, size))
            continue
        size = _count_domains(view, constraint, codes, ignored)
        counted = sets.counted(view, pod, constraint, keys)
        sums = np.zeros(len(counted.present), dtype=np.int64)
        if require_all and lists_many(pod):
            sums = matching_pods(view, pod, constraint, counted, kept=False)
        elif query is not None:
            sums = _counts_by_domain(view, constraint.topology_key, query, counted, require_all)
        table = _score_for_counts(constraint, sums, size)
        table[-1] = 0.0
        scores_by_constraint.append(table.take(codes, mode="wrap"))
    return PreScoreState(scores_by_constraint, ignored)


def _count_domains(view: fw.NodeView, constraint: Constraint, codes: fw.RowArray, ignored: fw.BoolArray | None) -> int:
    """Return the number of domains of feasible nodes. A node without the label is in the domain ""."""
    column = view.labels(constraint.topology_key)
    seen = np.zeros(len(column.values) + 1, dtype=np.bool_)
    seen[codes if ignored is None else codes[~ignored]] = True
    empty = column.index.get("")
    if empty is not None and seen[-1]:
        seen[empty] = True
        seen[-1] = False
    return int(np.count_nonzero(seen))


def _counts_by_domain(
    view: fw.NodeView, key: str, query: fw.PodQuery, counted: CountedNodes, require_all: bool
) -> fw.IntArray:
    """Return matching pods by domain; those on nodes without the label count for the domain "".

    Args:
        view: the nodes.
        key: the constraint's topology key.
        query: the pods that match.
        counted: the nodes that count.
        require_all: whether nodes that lack a key take no part, so that none counts for the domain "".
    """
    counts = view.pods_by_domain(query, key, counted.nodes)
    column = view.labels(key)
    empty = column.index.get("")
    if empty is None or require_all:
        return counts
    unlabelled = column.codes < 0
    if counted.nodes is not None:
        unlabelled &= counted.nodes.mask
    if unlabelled.any():
        counts = counts.copy()
        counts[empty] += int(view.pods_by_node(query)[unlabelled].sum())
    return counts


def _host_scores(constraint: Constraint, counts: fw.IntArray | None, codes: fw.RowArray, size: int) -> fw.FloatArray:
    """Return what a host name constraint adds: pods on the node itself count, whatever the policies."""
    part = _score_for_counts(constraint, np.zeros(len(codes), dtype=np.int64) if counts is None else counts, size)
    absent = codes < 0
    if absent.any():
        part[absent] = 0.0
    return part


def _score_for_counts(constraint: Constraint, counts: fw.IntArray, size: int) -> fw.FloatArray:
    # In upstream's order of operations: the product first, then the skew.
    part = counts.astype(np.float64)
    part *= math.log(size + 2)
    part += float(constraint.max_skew - 1)
    return part


def summed_scores(state: PreScoreState) -> fw.IntArray:
    """Return the sums, rounded half away from zero; 0 for ignored rows."""
    total = state.scores_by_constraint[0]
    for part in state.scores_by_constraint[1:]:
        total = total + part
    # Rounded half away from zero; nothing is negative here.
    whole = np.floor(total)
    scores: fw.IntArray = whole.astype(np.int64)
    scores += total - whole >= 0.5
    if state.ignored is not None:
        scores[state.ignored] = 0
    return scores


def normalize_scores(scores: fw.IntArray, ignored: fw.BoolArray | None) -> fw.IntArray:
    """Scale so that the least spread row gets the least: 100 * (max + min - score) / max; ignored rows get 0."""
    scored = scores if ignored is None else scores[~ignored]
    if not len(scored):
        return np.zeros_like(scores)
    lowest, highest = int(scored.min()), int(scored.max())
    if highest:
        result: fw.IntArray = floor_divide(fw.MAX_SCORE * (highest + lowest - scores), highest)
    else:
        result = np.full_like(scores, fw.MAX_SCORE)
    if ignored is not None:
        result[ignored] = 0
    return result
