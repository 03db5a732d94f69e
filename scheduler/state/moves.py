"""What a few added and removed pods change in the counts below them.

Each function returns the base's answer corrected by the moves, which are few: an overlay has no counts of its own that
would have to be set up for each what-if.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.framework import IntArray, NodeSet, NodeView, PodInfo, PodQuery, RowArray, TermCounts, TermKind
from scheduler.state.termcounts import namespace_labels, terms_of


class Move(NamedTuple):
    """A pod put on a row (+1) or taken from it (-1)."""

    row: int
    pod: PodInfo
    sign: int


def moved_by_node(counts: IntArray, query: PodQuery, moves: Sequence[Move]) -> IntArray:
    """Return the counts per row after the moves."""
    counts = counts.copy()
    for row, pod, sign in moves:
        if query.matches(pod):
            counts[row] += sign
    return counts


def moved_by_domain(
    counts: IntArray, query: PodQuery, codes: RowArray, nodes: NodeSet | None, moves: Sequence[Move]
) -> IntArray:
    """Return the counts per domain after the moves."""
    counts = counts.copy()
    for row, pod, sign in moves:
        if codes[row] >= 0 and (nodes is None or nodes.mask[row]) and query.matches(pod):
            counts[codes[row]] += sign
    return counts


def moved_terms(
    terms: Sequence[TermCounts], pod: PodInfo, kind: TermKind, view: NodeView, moves: Sequence[Move]
) -> list[TermCounts]:
    """Return the terms that match a pod after the moves: those below, and one entry more per term of moved pods."""
    labels = namespace_labels(view.objects, pod.namespace)
    # The members of a gang are of one class and share their terms: one count for all of them.
    extra: dict[int, TermCounts | None] = {}
    for row, moved, sign in moves:
        if not moved.spec.terms.any:
            continue
        for of_kind, weight, term in terms_of(moved.spec.terms):
            if of_kind is not kind:
                continue
            column = view.labels(term.topology_key)
            if id(term) not in extra:
                matches = term.matches(pod.namespace, pod.labels, labels)
                counts = np.zeros(len(column.values) + 1, dtype=np.int64)
                extra[id(term)] = TermCounts(term, weight, counts) if matches else None
            known = extra[id(term)]
            if known is not None and column.codes[row] >= 0:
                known.counts[column.codes[row]] += sign
    return [*terms, *(counts for counts in extra.values() if counts is not None)]
