"""What is worth keeping of an explanation: who rejected how many nodes, and the scores of the best ones with the load
that they were computed from. Small whatever the number of nodes, so that the engine can keep many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec.structs import replace

from scheduler.answers import DecisionDetail, LoadInput, RejectedNodes, ScoredNode
from scheduler.core.explain import Explanation
from scheduler.core.shortage import find_shortage
from scheduler.framework import Diagnosis, LoadColumns, ProfileRunner, Rejection
from scheduler.state import Snapshot

EXAMPLES = 3
"""Names of nodes that stand for all that a plugin rejected for a reason."""
_MAX_GROUPS = 50
MAX_REASON = 500
"""Characters of a reason: an extender or a CEL expression may write a long one."""


def detail_of(
    explanation: Explanation, snapshot: Snapshot, profile: ProfileRunner, chosen: str | None, limit: int
) -> DecisionDetail:
    """Return the detail of a decision.

    Args:
        explanation: made on `snapshot`, which has not changed since, with this profile.
        chosen: the node that the pod got, if it got one.
        limit: scored nodes to keep, the chosen one not counted.
    """
    names = [snapshot.name(row) for row in explanation.best_rows(limit).tolist()]
    lacks_room = not len(explanation.feasible) and explanation.error is None
    if chosen is not None and chosen not in names and snapshot.row(chosen) >= 0:
        names.append(chosen)
    return DecisionDetail(
        evaluated=explanation.diagnosis.total,
        feasible=len(explanation.feasible),
        ties=len(explanation.best),
        rejected=rejected_nodes(explanation.diagnosis, snapshot),
        nodes=tuple(scored_node(explanation, snapshot, name, chosen) for name in names),
        shortage=find_shortage(snapshot, explanation.pod, profile) if lacks_room else None,
        error=explanation.error and explanation.error[:MAX_REASON],
        nominated=explanation.nominated,
        taken_back=_merged(
            group for rejection in explanation.diagnosis.taken_back for group in _of_rejection(rejection, snapshot)
        ),
    )


def rejected_nodes(diagnosis: Diagnosis, snapshot: Snapshot) -> tuple[RejectedNodes, ...]:
    """Return who rejected how many nodes, the largest groups first."""
    return _merged(_groups(diagnosis, snapshot))


def _merged(groups: Iterable[RejectedNodes]) -> tuple[RejectedNodes, ...]:
    """One group per plugin and reason, the largest first."""
    merged: dict[tuple[str, str], RejectedNodes] = {}
    for group in groups:
        # A filter is asked twice where pods are nominated: with these, and without them.
        key = group.plugin, group.reason
        known = merged.get(key)
        if known is None:
            merged[key] = group
        else:
            examples = (*known.examples, *group.examples)[:EXAMPLES]
            merged[key] = replace(known, nodes=known.nodes + group.nodes, examples=examples)
    ordered = sorted(merged.values(), key=lambda group: (-group.nodes, group.plugin, group.reason))
    return tuple(ordered[:_MAX_GROUPS])


def _groups(diagnosis: Diagnosis, snapshot: Snapshot) -> Iterator[RejectedNodes]:
    if diagnosis.pre_filter is not None:
        status = diagnosis.pre_filter
        yield RejectedNodes(status.plugin, with_detail(status.message, status.detail), diagnosis.total, ())
        return
    for rejection in diagnosis.rejections:
        yield from _of_rejection(rejection, snapshot)
    absent = diagnosis.absent_status
    if absent is not None and diagnosis.absent:
        yield RejectedNodes(absent.plugin, absent.message[:MAX_REASON], diagnosis.absent, ())


def _of_rejection(rejection: Rejection, snapshot: Snapshot) -> Iterator[RejectedNodes]:
    for bit, reason in enumerate(rejection.reasons):
        rows = rejection.rows[(rejection.bits >> bit & 1).astype(bool)]
        if len(rows):
            examples = tuple(snapshot.name(row) for row in rows[:EXAMPLES].tolist())
            detail = ""
            if rejection.detail is not None:
                # One node's amounts stand for those of the others.
                detail = rejection.detail(int(np.flatnonzero(rejection.rows == rows[0])[0]))
                if detail and len(rows) > 1:
                    detail = f"{examples[0]}: {detail}"
            yield RejectedNodes(rejection.plugin, with_detail(reason, detail), len(rows), examples)


def with_detail(reason: str, detail: str) -> str:
    """Return a reason with what a plugin adds for who asks why."""
    return (f"{reason} ({detail})" if detail else reason)[:MAX_REASON]


def scored_node(explanation: Explanation, snapshot: Snapshot, name: str, chosen: str | None) -> ScoredNode:
    """Return a feasible node with its scores and load; `chosen` is the node that the pod got."""
    node = explanation.node(name)
    return ScoredNode(name, node.total, name == chosen, node.scores, load_of_node(snapshot, snapshot.row(name)))


def load_of_node(snapshot: Snapshot, row: int) -> dict[str, LoadInput]:
    """Return the load of the node in a row, by source; without the sources that say nothing of it."""
    return {
        source: loaded
        for source, columns in snapshot.table.load_sources().items()
        if (loaded := _load_of(columns, row, snapshot.now)) is not None
    }


def _load_of(columns: LoadColumns, row: int, now: float) -> LoadInput | None:
    cpu, memory = _number(columns.cpu_average[row]), _number(columns.memory_average[row])
    if cpu is None and memory is None:
        return None
    sampled_at = float(columns.sampled_at[row])
    return LoadInput(cpu, memory, round(max(0.0, now - sampled_at), 1) if sampled_at else None)


def _number(value: np.float64) -> float | None:
    return None if np.isnan(value) else round(float(value), 2)
