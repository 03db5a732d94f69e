"""Choosing a node for a pod (schedulePod and selectHost of kube-scheduler 1.34). No I/O, no clock.

The same snapshot and the same seed give the same choice: the conformance tests, `simulate` and the tests that compare
fast paths with slow ones rest on it. So chance is drawn exactly once per choice among equals, on every path.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from scheduler.core.byclass import Choice, choose_by_class, usable_columns
from scheduler.core.feasible import FeasibleNodes, find_feasible, too_much_work
from scheduler.framework import (
    FEW_PARTS,
    Code,
    CodeArray,
    CycleState,
    Diagnosis,
    IntArray,
    NodeCodes,
    PluginError,
    PluginScores,
    PodInfo,
    ProfileRunner,
    RandomSource,
    RowArray,
)
from scheduler.state import Snapshot

_MIN_SAMPLE = 100
"""Upstream scores at least so many nodes, whatever the percentage."""


@dataclass(slots=True)
class Placement:
    """What became of one pod in one attempt.

    Attributes:
        pod: the pod.
        node: the chosen node; None when there is none.
        code: SUCCESS, UNSCHEDULABLE (rejected by `rejectors`) or ERROR.
        message: the FailedScheduling text without PostFilter's part; None on success.
        total: the chosen node's score; 0 where only one node was feasible, which is then not scored.
        evaluated: nodes that filters looked at.
        feasible: nodes that passed them.
        best: nodes that shared the best score.
        rejectors, pending: plugins that rejected the pod, and those of them that wait for something outside.
        diagnosis: who rejected which node; None on success and on an error.
        state: the cycle's state, for the extension points that follow.
        generation: of the node table the decision was made on.
        load_ages: seconds since each load source answered, as seen by the decision.
        failure: what a plugin raised, which knows plugin and extension point; None where none failed.
    """

    pod: PodInfo
    node: str | None
    code: Code
    message: str | None
    state: CycleState
    total: int = 0
    evaluated: int = 0
    feasible: int = 0
    best: int = 0
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    diagnosis: Diagnosis | None = None
    generation: int = 0
    load_ages: Mapping[str, float] = field(default_factory=dict)
    failure: PluginError | None = None

    @property
    def counters(self) -> Mapping[str, int]:
        """Return what plugins counted, for metrics."""
        return self.state.counters

    def node_codes(self, snapshot: Snapshot) -> NodeCodes:
        """Return every node's status code: what PostFilter chooses candidates from.

        Raises:
            ValueError: the pod was not rejected.
        """
        if self.diagnosis is None:
            raise ValueError(f"pod {self.pod.key} was not rejected")
        everyone = Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        if self.diagnosis.pre_filter is not None:
            everyone = self.diagnosis.pre_filter.code
        codes: CodeArray = np.full(snapshot.size, everyone, dtype=np.int8)
        for rejection in self.diagnosis.rejections:
            codes[rejection.rows] = rejection.codes
        return NodeCodes(snapshot, codes)


def decide(
    snapshot: Snapshot,
    pod: PodInfo,
    profile: ProfileRunner,
    rng: RandomSource,
    *,
    from_scratch: bool = False,
) -> Placement:
    """Choose a node for one pod; `decide_gang` does it for several that belong together.

    With `from_scratch`, nothing is used that earlier decisions about pods of the same class showed: every plugin is
    asked about every node. The decision is the same.
    """
    timing = profile.timing
    state = CycleState(rng, timing)
    if timing is not None:
        timing.begin()
    ages = load_ages(snapshot)
    too_much = too_much_work(snapshot, pod, profile, state) if pod.spec.parts > FEW_PARTS else None
    if too_much is not None:
        return _rejected(snapshot, pod, state, too_much, ages)
    columns = None if from_scratch else usable_columns(snapshot, pod, profile)
    try:
        if columns is None:
            filtered = find_feasible(snapshot, pod, profile, state)
        else:
            result = choose_by_class(columns, snapshot, pod, profile, state, rng)
            if isinstance(result, Choice):
                return _placed(snapshot, pod, state, result, ages)
            filtered = result
        if filtered.error is not None:
            return Placement(
                pod,
                None,
                Code.ERROR,
                filtered.error,
                state,
                diagnosis=None,
                generation=snapshot.generation,
                load_ages=ages,
            )
        if not len(filtered.rows):
            return _rejected(snapshot, pod, state, filtered, ages)
        chosen = _choose(snapshot, pod, profile, state, filtered.rows, rng)
    except PluginError as error:
        if timing is not None:
            timing.lap(error.point, Code.ERROR)
        return Placement(
            pod, None, Code.ERROR, str(error), state, generation=snapshot.generation, load_ages=ages, failure=error
        )
    return _placed(snapshot, pod, state, Choice(*chosen, len(filtered.rows), filtered.evaluated), ages)


def _placed(
    snapshot: Snapshot, pod: PodInfo, state: CycleState, choice: Choice, ages: Mapping[str, float]
) -> Placement:
    return Placement(
        pod,
        snapshot.name(choice.row),
        Code.SUCCESS,
        None,
        state,
        total=choice.total,
        evaluated=choice.evaluated,
        feasible=choice.feasible,
        best=choice.best,
        generation=snapshot.generation,
        load_ages=ages,
    )


def _rejected(
    snapshot: Snapshot, pod: PodInfo, state: CycleState, filtered: FeasibleNodes, ages: Mapping[str, float]
) -> Placement:
    rejectors, pending = filtered.diagnosis.rejectors()
    return Placement(
        pod,
        None,
        Code.UNSCHEDULABLE,
        filtered.diagnosis.message(),
        state,
        evaluated=filtered.evaluated,
        rejectors=rejectors,
        pending=pending,
        diagnosis=filtered.diagnosis,
        generation=snapshot.generation,
        load_ages=ages,
    )


def _choose(
    snapshot: Snapshot, pod: PodInfo, profile: ProfileRunner, state: CycleState, rows: RowArray, rng: RandomSource
) -> tuple[int, int, int]:
    """Return (row, its total, how many share it). A single feasible node is taken without scoring, as upstream does."""
    if len(rows) == 1:
        return int(rows[0]), 0, 1
    rows = _sample(rows, snapshot.node_count, profile.effective.percentage_of_nodes_to_score, rng)
    totals = total_scores(profile.run_scores(state, pod, snapshot, rows), len(rows), bool(profile.scores))
    if state.timing is not None:
        state.timing.lap("Score")
    best = np.maximum.reduce(totals)
    ties = (totals == best).nonzero()[0]
    # One draw over the ties, where upstream draws at each tie it meets (reservoir sampling): as uniform, and the number
    # of draws does not depend on the order of the nodes. random() costs a third of randrange.
    pick = int(ties[int(rng.random() * len(ties))])
    return int(rows[pick]), int(best), len(ties)


def _sample(rows: RowArray, nodes: int, percentage: int | None, rng: RandomSource) -> RowArray:
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


def load_ages(snapshot: Snapshot) -> dict[str, float]:
    """Return, per load source, the seconds since its last answer; 0 where the answer has no time."""
    return {
        source: max(0.0, snapshot.now - load.timestamp) if load.timestamp else 0.0
        for source, load in snapshot.table.load_sources().items()
    }
