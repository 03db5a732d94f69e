"""The full matrix behind a decision: the first filter that rejects each node, every plugin's score, and the load data
used. For `simulate`, the conformance tests and users who ask why; it never uses the columns of a class, so that it also
explains a decision that was made by them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from scheduler.answers import MatrixNode, NodeRejection, Score
from scheduler.core.decide import total_scores
from scheduler.core.feasible import FeasibleNodes, find_feasible, status_of_all, too_much_work
from scheduler.core.placement import load_ages
from scheduler.framework import (
    Code,
    CycleState,
    Diagnosis,
    IntArray,
    OverBudgetError,
    PluginError,
    PluginScores,
    PodInfo,
    ProfileRunner,
    RowArray,
    Status,
)
from scheduler.state import Snapshot

CODE_NAMES = {
    Code.ERROR: "Error",
    Code.UNSCHEDULABLE: "Unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "UnschedulableAndUnresolvable",
    Code.PENDING: "Pending",
}
_NO_SCORES: IntArray = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class NodeExplanation:
    """One node: whether the pod fits, the first filter that says no, the scores."""

    feasible: bool
    rejection: Status | None
    scores: Mapping[str, Score]
    total: int

    def answer(self) -> MatrixNode:
        """Return the node's part of a SimulationResult."""
        status = self.rejection
        rejection = None
        if status is not None:
            rejection = NodeRejection(
                status.plugin, CODE_NAMES.get(status.code, status.code.name), tuple(status.reasons)
            )
        return MatrixNode(self.feasible, rejection, self.scores, self.total)


@dataclass(slots=True)
class Explanation:
    """Everything about one pod on one snapshot.

    Attributes:
        message: the FailedScheduling text (or error) when it fits nowhere, else None.
        best: names of the nodes with the best score; a decision picks one of them.
        feasible: rows that passed all filters, and
        totals: their scores. Unlike a decision, a single feasible node is scored too.
        load_ages: seconds since each load source answered.
        evaluated: nodes that filters looked at: of a pod that fits where preemption made room for it, this node alone.
    """

    pod: PodInfo
    message: str | None
    best: tuple[str, ...]
    feasible: RowArray
    totals: IntArray
    scores: list[PluginScores]
    diagnosis: Diagnosis
    load_ages: Mapping[str, float]
    counters: Mapping[str, int]
    _snapshot: Snapshot
    _everyone: Status | None = None
    evaluated: int = 0
    _by_row: dict[int, Status] | None = field(default=None, init=False)

    @property
    def error(self) -> str | None:
        """Why nothing could be said about any node; None where something could."""
        everyone = self._everyone
        return everyone.message if everyone is not None and everyone.code is Code.ERROR else None

    @property
    def nominated(self) -> bool:
        """Whether only the node was looked at where preemption made room for the pod, as it fits there."""
        nominee = self.pod.nominated_node
        return bool(nominee) and self.evaluated == len(self.feasible) == 1 and self.best == (nominee,)

    def node(self, name: str) -> NodeExplanation:
        """Return one node's part; KeyError for an unknown node."""
        row = self._snapshot.row(name)
        if row < 0:
            raise KeyError(name)
        return self._node(row)

    def nodes(self, detail: Literal["full", "none"] | int = "full") -> Iterator[tuple[str, NodeExplanation]]:
        """Yield (name, explanation): of all nodes, of none, or of the best K and nothing else."""
        if detail == "none":
            return
        rows = self.best_rows(detail) if isinstance(detail, int) else self._snapshot.rows
        for row in rows.tolist():
            yield self._snapshot.name(row), self._node(row)

    def best_rows(self, limit: int) -> RowArray:
        """Return so many of the feasible rows, those with the largest totals first, equal ones in the table's order."""
        totals = self.totals
        if not 0 < limit < len(totals):
            sorted_rows: RowArray = self.feasible[np.argsort(-totals, kind="stable")[:limit]]
            return sorted_rows
        # Not all of them are sorted: that takes as long as all filters.
        least = np.partition(totals, -limit)[-limit]
        above = (totals > least).nonzero()[0]
        equal = (totals == least).nonzero()[0][: limit - len(above)]
        best: RowArray = self.feasible[np.concatenate((above[np.argsort(-totals[above], kind="stable")], equal))]
        return best

    def _node(self, row: int) -> NodeExplanation:
        index = int(np.searchsorted(self.feasible, row))
        if index < len(self.feasible) and self.feasible[index] == row:
            scores = {
                score.plugin: Score(int(score.raw[index]), int(score.normalized[index]), int(score.weighted[index]))
                for score in self.scores
            }
            return NodeExplanation(True, None, scores, int(self.totals[index]))
        rejection = self._rejections().get(row) or self._everyone
        if rejection is None and not self.nominated:
            rejection = self.diagnosis.absent_status
        return NodeExplanation(False, rejection, {}, 0)

    def _rejections(self) -> dict[int, Status]:
        # Made when somebody asks: for 5,000 nodes it takes as long as all filters.
        if self._by_row is None:
            self._by_row = {
                row: rejection.status(index)
                for rejection in self.diagnosis.rejections
                for index, row in enumerate(rejection.rows.tolist())
            }
        return self._by_row


def explain(snapshot: Snapshot, pod: PodInfo, profile: ProfileRunner) -> Explanation:
    """Return the matrix for a pod. It runs the same plugins the same way as `decide`, which picks one of its `best`."""
    state = CycleState()
    empty: RowArray = np.zeros(0, dtype=np.intp)
    ages = load_ages(snapshot)
    diagnosis = Diagnosis(len(snapshot.candidates))
    try:
        filtered, scores = _filtered_and_scored(state, pod, snapshot, profile)
    except PluginError as error:
        return Explanation(
            pod, str(error), (), empty, _NO_SCORES, [], diagnosis, ages, state.counters, snapshot, error.status
        )
    diagnosis, rows = filtered.diagnosis, filtered.rows
    totals = total_scores(scores, len(rows), bool(profile.scores))
    best: tuple[str, ...] = ()
    message = filtered.error
    if len(rows):
        best = tuple(snapshot.name(row) for row in rows[totals == totals.max()].tolist())
    elif message is None:
        message = diagnosis.message()
    return Explanation(
        pod,
        message,
        best,
        rows,
        totals,
        scores,
        diagnosis,
        ages,
        state.counters,
        snapshot,
        status_of_all(filtered),
        filtered.evaluated,
    )


def _filtered_and_scored(
    state: CycleState, pod: PodInfo, snapshot: Snapshot, profile: ProfileRunner
) -> tuple[FeasibleNodes, list[PluginScores]]:
    try:
        filtered = find_feasible(snapshot, pod, profile, state)
        return filtered, _scores(state, pod, snapshot, profile, filtered.rows)
    except OverBudgetError as error:
        return too_much_work(snapshot, state, error), []


def _scores(
    state: CycleState, pod: PodInfo, snapshot: Snapshot, profile: ProfileRunner, rows: RowArray
) -> list[PluginScores]:
    if not len(rows):
        return []
    try:
        return profile.run_scores(state, pod, snapshot, rows)
    except (PluginError, OverBudgetError):
        if len(rows) > 1:
            raise
        # A decision takes the only feasible node without scoring it, so this plugin keeps no pod from it.
        return []
