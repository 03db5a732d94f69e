"""Choosing a node for a pod about which extenders are asked: `decide` as a computation that yields questions.

Follows findNodesThatPassExtenders and prioritizeNodes of kube-scheduler 1.34. The cluster goes on while a question is
out, so nothing that was read before it counts afterwards: nodes that the extenders kept are filtered once more, on the
cluster as it is then, and scored there. Where none of them is left, the decision begins again, once.

Scores are computed on our nodes with their pods, whatever Node objects an extender answers with: upstream scores those
objects as if no pod ran there (kubernetes#141781).
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from scheduler.core.decide import pick_best, sample, total_scores
from scheduler.core.feasible import FeasibleNodes, filter_all, filter_nominated, too_much_work
from scheduler.core.placement import Choice, Placement, failed, load_ages, placed, rejected
from scheduler.framework import (
    EXTENDER,
    MAX_REASONS,
    NO_NODES,
    Answered,
    Asking,
    Code,
    CycleState,
    Diagnosis,
    Extender,
    ExtenderError,
    FilterAnswer,
    FilterQuestion,
    IntArray,
    OverBudgetError,
    PluginError,
    PodInfo,
    PrioritizeAnswer,
    PrioritizeQuestion,
    ProfileRunner,
    RandomSource,
    Rejection,
    RowArray,
    Work,
)
from scheduler.state import Snapshot

_ATTEMPTS = 2
_FEWEST_SENT = 100
_FEWEST_PERCENT = 5
_LARGEST_TOTAL = 1 << 62
"""Totals are cut there: an extender's numbers are anything, and must not overflow."""


def decide_asking(
    snapshot: Snapshot,
    pod: PodInfo,
    profile: ProfileRunner,
    rng: RandomSource,
    extenders: Sequence[Extender],
    work: Work | None = None,
) -> Asking[Placement]:
    """Choose a node for one pod with the extenders that are interested in it, in calling order.

    It is resumed with the answer and a view of the same kind as the snapshot, of the cluster as it is then. `work` is
    that of the attempt that this is a part of; by default it is one of its own.
    """
    return (yield from _Decision(snapshot, pod, profile, rng, extenders, work or Work()).run())


def sample_size(nodes: int) -> int:
    """Return among how many feasible nodes upstream chooses by default (numFeasibleNodesToFind)."""
    if nodes < _FEWEST_SENT:
        return nodes
    percent = max(_FEWEST_PERCENT, 50 - nodes // 125)
    return max(_FEWEST_SENT, nodes * percent // 100)


class _Decision:
    """One attempt at one pod. `snapshot` and `state` are replaced at each answer."""

    def __init__(
        self,
        snapshot: Snapshot,
        pod: PodInfo,
        profile: ProfileRunner,
        rng: RandomSource,
        extenders: Sequence[Extender],
        work: Work,
    ) -> None:
        self._work = work
        self._snapshot = snapshot
        self._pod = pod
        self._profile = profile
        self._rng = rng
        self._extenders = extenders
        self._reasons: dict[str, tuple[Code, str]] = {}
        self._state = CycleState(rng, profile.timing, work)

    def run(self) -> Asking[Placement]:
        """Decide; begin again once if the cluster took away every node that the extenders kept."""
        timing = self._profile.timing
        if timing is not None:
            timing.begin()
        try:
            for _ in range(_ATTEMPTS):
                filtered = yield from self._find()
                if filtered is None:
                    continue
                if filtered.error is not None:
                    return self._failed(filtered.error)
                if not len(filtered.rows):
                    return self._rejected(filtered)
                chosen = yield from self._choose(filtered)
                if chosen is not None:
                    ages, remark = load_ages(self._snapshot), filtered.diagnosis.remark()
                    return placed(self._snapshot, self._pod, self._state, chosen, ages, remark)
            self._begin()
            filtered = self._filter()
            if not len(filtered.rows):
                return self._rejected(filtered)
            return self._failed("the nodes that the extenders kept changed while they were asked, twice in a row")
        except OverBudgetError as error:
            return self._rejected(too_much_work(self._snapshot, self._state, error))
        except ExtenderError as error:
            return self._failed(str(error))
        except PluginError as error:
            if timing is not None:
                timing.lap(error.point, Code.ERROR)
            return self._failed(error)

    def _failed(self, reason: str | PluginError) -> Placement:
        return failed(self._snapshot, self._pod, self._state, reason, load_ages(self._snapshot))

    def _rejected(self, filtered: FeasibleNodes) -> Placement:
        return rejected(self._snapshot, self._pod, self._state, filtered, load_ages(self._snapshot))

    # The cluster goes on --------------------------------------------------------------------------------------------

    def _resume(self, answered: Answered) -> None:
        assert isinstance(answered.view, Snapshot)
        self._snapshot = answered.view
        if self._state.timing is not None:
            self._state.timing.begin()

    def _begin(self) -> None:
        """Begin with a state of its own: what plugins keep there is of the cluster before the question."""
        self._state = CycleState(self._rng, self._profile.timing, self._work)

    def _filter(self, among: Collection[str] | None = None) -> FeasibleNodes:
        """Run PreFilter and Filter on the cluster as it is now; the node of a nomination has no preference."""
        if not self._snapshot.node_count:
            return FeasibleNodes(np.zeros(0, dtype=np.intp), 0, Diagnosis(0), NO_NODES)
        outcome = self._profile.run_pre_filter(self._state, self._pod, self._snapshot)
        if self._state.timing is not None:
            self._state.timing.lap("PreFilter", outcome[0].code)
        return filter_all(self._snapshot, self._pod, self._profile, self._state, outcome, among)

    def _names(self, rows: RowArray) -> tuple[str, ...]:
        return tuple(self._snapshot.name(row) for row in rows.tolist())

    # Filter ---------------------------------------------------------------------------------------------------------

    def _find(self) -> Asking[FeasibleNodes | None]:
        """Return the nodes that plugins and extenders let through, or why there are none; None where the cluster has
        changed so that none is left of them."""
        self._begin()
        self._reasons.clear()
        if self._pod.nominated_node and self._snapshot.node_count:
            nominated = yield from self._find_nominated()
            if nominated is not None:
                return nominated
            self._begin()
        filtered = self._filter()
        if filtered.error is not None or not len(filtered.rows):
            return filtered
        names = yield from self._ask_filters(self._names(self._sampled(filtered.rows)))
        if not names:
            self._begin()
            return self._rejected_by_extenders()
        self._begin()
        kept = self._filter(among=names)
        if not len(kept.rows):
            return None
        return FeasibleNodes(kept.rows, filtered.evaluated, kept.diagnosis)

    def _find_nominated(self) -> Asking[FeasibleNodes | None]:
        """Return the nominated node if it fits and the extenders keep it (evaluateNominatedNode)."""
        outcome = self._profile.run_pre_filter(self._state, self._pod, self._snapshot)
        if not outcome[0].is_success:
            return filter_all(self._snapshot, self._pod, self._profile, self._state, outcome)
        rows = filter_nominated(self._snapshot, self._pod, self._profile, self._state)
        if not len(rows):
            return None
        try:
            names = yield from self._ask_filters(self._names(rows))
        except ExtenderError:
            # As upstream, which goes on to the other nodes and asks again.
            return None
        if not names:
            return None
        self._begin()
        kept = self._filter(among=names)
        return FeasibleNodes(kept.rows, 1, kept.diagnosis) if len(kept.rows) else None

    def _sampled(self, rows: RowArray) -> RowArray:
        """Return the feasible nodes that the extenders see: those that a configured percentage leaves; without one
        all, unless some extender is sent whole Nodes. Then as many as upstream would send: 5,000 are some 50 MB."""
        nodes = self._snapshot.node_count
        percentage = self._profile.effective.percentage_of_nodes_to_score
        if percentage:
            return sample(rows, nodes, percentage, self._rng)
        if all(extender.cache_capable or not _asks_about_nodes(extender) for extender in self._extenders):
            return rows
        wanted = sample_size(nodes)
        if len(rows) <= wanted:
            return rows
        start = int(self._rng.random() * len(rows))
        return np.sort(np.roll(rows, -start)[:wanted])

    def _ask_filters(self, names: tuple[str, ...]) -> Asking[tuple[str, ...]]:
        """Return the nodes that all extenders keep; each gets what the one before left."""
        for extender in self._extenders:
            if not names:
                break
            if not extender.filter_verb:
                continue
            answered = yield FilterQuestion(extender, self._pod, names)
            self._resume(answered)
            answer = answered.answer
            assert isinstance(answer, FilterAnswer)
            if answer.error:
                if extender.ignorable:
                    continue
                raise ExtenderError(answer.error)
            self._note_reasons(names, answer)
            kept = frozenset(answer.kept)
            names = tuple(name for name in names if name in kept)
        return names

    def _note_reasons(self, names: tuple[str, ...], answer: FilterAnswer) -> None:
        # Of the nodes that it was asked about: no extender overrules what a plugin says of another one.
        for name in names:
            if (reason := answer.unresolvable.get(name)) is not None:
                self._reasons[name] = Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason
            elif (reason := answer.failed.get(name)) is not None:
                self._reasons[name] = Code.UNSCHEDULABLE, reason

    def _rejected_by_extenders(self) -> FeasibleNodes:
        """Return why there is no node, on the cluster as it is now: what plugins say, then what extenders said."""
        filtered = self._filter()
        diagnosis = filtered.diagnosis
        rows = filtered.rows
        diagnosis.rejections += _rejections(rows, self._names(rows), self._reasons)
        if diagnosis.absent_plugins:
            # As upstream words it: nodes of which nobody says anything pass for left out by PreFilter.
            diagnosis.absent += sum(name not in self._reasons for name in self._names(rows))
        return FeasibleNodes(np.zeros(0, dtype=np.intp), filtered.evaluated, diagnosis, filtered.error)

    # Score ----------------------------------------------------------------------------------------------------------

    def _choose(self, filtered: FeasibleNodes) -> Asking[Choice | None]:
        """Return the best node; None where none is left by then."""
        rows, feasible = filtered.rows, len(filtered.rows)
        if feasible == 1:
            return Choice(int(rows[0]), 0, 1, 1, filtered.evaluated)
        extra: Mapping[str, int] = {}
        prioritizers = tuple(extender for extender in self._extenders if extender.prioritize_verb)
        if prioritizers:
            names = self._names(rows)
            answered = yield PrioritizeQuestion(prioritizers, self._pod, names)
            self._resume(answered)
            assert isinstance(answered.answer, PrioritizeAnswer)
            extra = answered.answer.scores
            self._begin()
            rows = self._filter(among=names).rows
            if not len(rows):
                return None
        scores = self._profile.run_scores(self._state, self._pod, self._snapshot, rows)
        totals = total_scores(scores, len(rows), bool(self._profile.scores))
        if extra:
            totals = totals + _added(self._names(rows), extra)
        if self._state.timing is not None:
            self._state.timing.lap("Score")
        return Choice(*pick_best(rows, totals, self._rng), feasible, filtered.evaluated)


def _asks_about_nodes(extender: Extender) -> bool:
    return bool(extender.filter_verb or extender.prioritize_verb)


def _added(names: Sequence[str], extra: Mapping[str, int]) -> IntArray:
    amounts = [max(-_LARGEST_TOTAL, min(_LARGEST_TOTAL, extra.get(name, 0))) for name in names]
    return np.array(amounts, dtype=np.int64)


def _rejections(rows: RowArray, names: Sequence[str], reasons: Mapping[str, tuple[Code, str]]) -> list[Rejection]:
    """Return what the extenders said of rows. There is at least one rejection, maybe of no row: they are to blame, and
    of a node that is in none of their maps nothing is known."""
    known = [(row, *reasons[name]) for row, name in zip(rows.tolist(), names, strict=True) if name in reasons]
    texts = list(dict.fromkeys(text for _, _, text in known))
    result: list[Rejection] = []
    for first in range(0, max(1, len(texts)), MAX_REASONS):
        batch = texts[first : first + MAX_REASONS]
        bit = {text: 1 << index for index, text in enumerate(batch)}
        chosen = [(row, code, bit[text]) for row, code, text in known if text in bit]
        result.append(
            Rejection(
                EXTENDER,
                np.array([row for row, _, _ in chosen], dtype=np.intp),
                np.array([code for _, code, _ in chosen], dtype=np.int8),
                np.array([bits for _, _, bits in chosen], dtype=np.int64),
                tuple(batch),
            )
        )
    return result
