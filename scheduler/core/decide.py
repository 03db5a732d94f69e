"""Choosing a node for a pod (schedulePod and selectHost of kube-scheduler 1.34). No I/O, no clock.

The same snapshot and the same seed give the same choice: the conformance tests, `simulate` and the tests that compare
fast paths with slow ones rest on it. So chance is drawn exactly once per choice among equals, on every path.

Extenders have a say after Filter and after Score (findNodesThatPassExtenders and prioritizeNodes). The cluster goes on
while a question is out, so nothing that was read before it counts afterwards: nodes that the extenders left are
filtered once more, on the cluster as it is then, and scored there. Where none of them is left, the decision begins
again, once. Scores are computed on our nodes with their pods, whatever Node objects an extender answers with: upstream
scores those objects as if no pod ran there (kubernetes#141781).
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from msgspec import Struct

from scheduler.core.classes import choose_by_class, usable_columns
from scheduler.core.feasible import (
    BUDGET_REJECTOR,
    FeasibleNodes,
    filter_all,
    find_feasible,
    is_over_budget,
    too_much_work,
)
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
    PluginScores,
    PodInfo,
    PrioritizeAnswer,
    PrioritizeQuestion,
    ProfileRunner,
    RandomSource,
    Rejection,
    RowArray,
    Status,
    Work,
)
from scheduler.state import Snapshot

_MIN_SAMPLE = 100
"""Upstream scores at least so many nodes, whatever the percentage."""
_MIN_PERCENT = 5
_MAX_TRIES = 2
_MAX_TOTAL = 1 << 62
"""Totals are cut there: an extender's numbers are anything, and must not overflow."""


def decide(
    snapshot: Snapshot,
    pod: PodInfo,
    profile: ProfileRunner,
    rng: RandomSource,
    extenders: Sequence[Extender] = (),
    *,
    from_scratch: bool = False,
    work: Work | None = None,
) -> Asking[Placement]:
    """Choose a node for one pod; `decide_gang` does it for several that belong together.

    It yields what it asks those of the extenders that are interested in the pod, and is resumed with the answer and a
    view of the same kind as the snapshot, of the cluster as it is then. Where none is interested, it asks nothing and
    can be concluded at once (`scheduler.framework.conclude`).

    Args:
        snapshot: the cluster.
        pod: to be placed.
        profile: the pod's.
        rng: for ties.
        extenders: of the configuration, in calling order.
        from_scratch: use nothing that earlier decisions about pods of the same class showed: every plugin is asked
            about every node. The decision is the same.
        work: of the attempt that this is a part of; by default it is one of its own.
    """
    interested = [extender for extender in extenders if extender.is_interested(pod)] if extenders else ()
    return _Decision(snapshot, pod, profile, rng, interested, work).run(from_scratch=from_scratch)


def sample_size(nodes: int, percentage: int | None = None) -> int:
    """Return among how many feasible nodes upstream chooses (numFeasibleNodesToFind); without a percentage, by
    default."""
    if nodes < _MIN_SAMPLE:
        return nodes
    percent = percentage or max(_MIN_PERCENT, 50 - nodes // 125)
    return max(_MIN_SAMPLE, nodes * percent // 100)


def total_scores(scores: Sequence[PluginScores], count: int, has_scorers: bool) -> IntArray:
    """Return the weighted sums; 1 for every node of a profile without score plugins, as upstream."""
    if not has_scorers:
        return np.ones(count, dtype=np.int64)
    totals = np.zeros(count, dtype=np.int64)
    for score in scores:
        totals += score.weighted
    return totals


class _Decision:
    """One attempt at one pod. `snapshot` and `state` are replaced at each answer."""

    __slots__ = ("_extenders", "_filtering", "_pod", "_profile", "_reasons", "_rng", "_snapshot", "_state")

    def __init__(
        self,
        snapshot: Snapshot,
        pod: PodInfo,
        profile: ProfileRunner,
        rng: RandomSource,
        extenders: Sequence[Extender],
        work: Work | None,
    ) -> None:
        self._snapshot = snapshot
        self._pod = pod
        self._profile = profile
        self._rng = rng
        self._extenders = extenders
        self._filtering = [extender for extender in extenders if extender.filter_verb] if extenders else ()
        self._reasons: dict[str, tuple[Code, str]] = {}
        self._state = CycleState(rng, profile.timing, work)

    def run(self, *, from_scratch: bool) -> Asking[Placement]:
        """Decide, and turn whatever a plugin or an extender raises into the outcome of this attempt."""
        timing = self._state.timing
        if timing is not None:
            timing.begin()
        try:
            result = None if from_scratch else self._search_by_class()
            if isinstance(result, Choice):
                return self._placed(result)
            return (yield from self._search(result))
        except OverBudgetError as error:
            return self._rejected(too_much_work(self._snapshot, self._state, error))
        except ExtenderError as error:
            return self._failed(str(error))
        except PluginError as error:
            if timing is not None:
                timing.lap(error.point, Code.ERROR)
            return self._failed(error)

    def _search(self, filtered: FeasibleNodes | None) -> Asking[Placement]:
        """Filter, unless that is done, and score; where extenders took their time, once more on the cluster as it is
        by then. A third time would find the cluster changed as well."""
        for _ in range(_MAX_TRIES):
            if filtered is None:
                filtered = yield from self._find()
            if filtered is not None:
                if filtered.error is not None:
                    return self._failed(filtered.error)
                if not len(filtered.rows):
                    return self._rejected(filtered)
                choice = yield from self._choose(filtered)
                if choice is not None:
                    return self._placed(choice, filtered.diagnosis.remark())
                filtered = None
            self._begin()
        filtered = self._filter()
        if not len(filtered.rows):
            return self._rejected(filtered)
        return self._failed("the nodes that the extenders kept changed while they were asked, twice in a row")

    def _placed(self, choice: Choice, remark: str = "") -> Placement:
        return placed(self._snapshot, self._pod, self._state, choice, load_ages(self._snapshot), remark)

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
        self._state = CycleState(self._rng, self._state.timing, self._state.work)

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

    def _search_by_class(self) -> Choice | FeasibleNodes | None:
        """Choose by the columns of the pod's class, which tell the best node at once: so only where no extender has a
        say in between. None where they do not tell enough."""
        if self._extenders:
            return None
        columns = usable_columns(self._snapshot, self._pod, self._profile)
        if columns is None:
            return None
        return choose_by_class(columns, self._snapshot, self._pod, self._profile, self._state, self._rng)

    def _find(self) -> Asking[FeasibleNodes | None]:
        """Return the nodes that plugins and extenders let through, or why there are none; None where the cluster has
        changed so that none is left of them."""
        filtered = find_feasible(self._snapshot, self._pod, self._profile, self._state)
        if not self._filtering or not len(filtered.rows):
            return filtered
        self._reasons.clear()
        if len(filtered.rows) == 1 and self._snapshot.name(int(filtered.rows[0])) == self._pod.nominated_node:
            left = yield from self._ask_about_nominated()
            if left is not None:
                return left
            self._begin()
            filtered = self._filter()
            if not len(filtered.rows):
                return filtered
        names = yield from self._ask_filters(self._names(self._sampled(filtered.rows)))
        self._begin()
        if not names:
            return self._rejected_by_extenders()
        left = self._filter(among=names)
        return FeasibleNodes(left.rows, filtered.evaluated, left.diagnosis) if len(left.rows) else None

    def _ask_about_nominated(self) -> Asking[FeasibleNodes | None]:
        """Return the nominated node if the extenders leave it (evaluateNominatedNode)."""
        try:
            names = yield from self._ask_filters((self._pod.nominated_node,))
        except ExtenderError:
            # As upstream, which goes on to the other nodes and asks again.
            return None
        if not names:
            return None
        self._begin()
        left = self._filter(among=names)
        return FeasibleNodes(left.rows, 1, left.diagnosis) if len(left.rows) else None

    def _sampled(self, rows: RowArray) -> RowArray:
        """Return the feasible rows that extenders see and that are scored: all, unless the configuration asks for a
        share of the nodes, or some extender is sent whole Nodes: 5,000 are some 50 MB. Then as many as upstream has,
        taken in a row from a random start (upstream's start moves on by chance too)."""
        percentage = self._profile.effective.percentage_of_nodes_to_score
        if not percentage and not any(_is_sent_nodes(extender) for extender in self._extenders):
            return rows
        limit = sample_size(len(self._snapshot.candidates), percentage)
        if len(rows) <= limit:
            return rows
        start = int(self._rng.random() * len(rows))
        return np.sort(np.roll(rows, -start)[:limit])

    def _ask_filters(self, names: tuple[str, ...]) -> Asking[tuple[str, ...]]:
        """Return the nodes that all extenders leave; each gets what the one before left."""
        for extender in self._filtering:
            if not names:
                break
            answered = yield FilterQuestion(extender, self._pod, names)
            self._resume(answered)
            answer = answered.answer
            assert isinstance(answer, FilterAnswer)
            if answer.error:
                if extender.ignorable:
                    continue
                raise ExtenderError(answer.error)
            self._note_reasons(names, answer)
            left = frozenset(answer.kept)
            names = tuple(name for name in names if name in left)
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
        """Return the best node; None where none is left by then. A single feasible node is taken without scoring, as
        upstream does."""
        rows, feasible = filtered.rows, len(filtered.rows)
        if feasible == 1:
            return Choice(int(rows[0]), 0, 1, 1, filtered.evaluated)
        if not self._filtering:
            rows = self._sampled(rows)
        extra: Mapping[str, int] = {}
        prioritizers = tuple([extender for extender in self._extenders if extender.prioritize_verb])
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
        best = np.maximum.reduce(totals)
        ties = (totals == best).nonzero()[0]
        # One draw over the ties, where upstream draws at each tie it meets (reservoir sampling): as uniform, and the
        # number of draws does not depend on the order of the nodes. random() costs a third of randrange.
        row = rows[int(ties[int(self._rng.random() * len(ties))])]
        return Choice(int(row), int(best), len(ties), feasible, filtered.evaluated)


def _is_sent_nodes(extender: Extender) -> bool:
    return not extender.cache_capable and bool(extender.filter_verb or extender.prioritize_verb)


def _added(names: Sequence[str], extra: Mapping[str, int]) -> IntArray:
    amounts = [max(-_MAX_TOTAL, min(_MAX_TOTAL, extra.get(name, 0))) for name in names]
    return np.array(amounts, dtype=np.int64)


def _rejections(rows: RowArray, names: Sequence[str], reasons: Mapping[str, tuple[Code, str]]) -> list[Rejection]:
    """Return what the extenders said of rows. There is at least one rejection, maybe of no row: they are to blame, and
    of a node that is in none of their maps nothing is known."""
    reasoned = [(row, *reasons[name]) for row, name in zip(rows.tolist(), names, strict=True) if name in reasons]
    texts = list(dict.fromkeys(text for _, _, text in reasoned))
    result: list[Rejection] = []
    for first in range(0, max(1, len(texts)), MAX_REASONS):
        batch = texts[first : first + MAX_REASONS]
        bit = {text: 1 << index for index, text in enumerate(batch)}
        chosen = [(row, code, bit[text]) for row, code, text in reasoned if text in bit]
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


# After a rejection ---------------------------------------------------------------------------------------------------


class PostFilterOutcome(Struct, frozen=True):
    """What PostFilter made of a rejection.

    Attributes:
        message: the whole FailedScheduling text.
        nominated_node: what becomes of `status.nominatedNodeName`: None leaves it, "" clears it.
        victims: pods to be evicted for the pod, if a node was found; their deletion is under way where the profile has
            a handle.
        status: PostFilter's status as a whole; None where the profile has no such plugin.
        over_budget: the plugin with which it became more work than the attempt may be; "" where it did not.
    """

    message: str
    nominated_node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    status: Status | None = None
    over_budget: str = ""


def run_post_filters(
    snapshot: Snapshot, placement: Placement, profile: ProfileRunner, extenders: Sequence[Extender] = ()
) -> Asking[PostFilterOutcome]:
    """Run a profile's PostFilter plugins for a pod that was rejected, on the snapshot it was rejected on.

    It asks those of the extenders that have a preemptVerb and are interested in the pod; where there are none, it asks
    nothing and can be concluded at once.

    Raises:
        ValueError: the placement is no rejection.
    """
    pod, diagnosis = placement.pod, placement.diagnosis
    if placement.node is not None or diagnosis is None:
        raise ValueError(f"pod {pod.key} was not rejected")
    if not profile.post_filters:
        return PostFilterOutcome(diagnosis.message(), "" if profile.nominates_before_binding else None)
    if is_over_budget(diagnosis.pre_filter):
        return PostFilterOutcome(diagnosis.message())
    preempting = [extender for extender in extenders if extender.preempt_verb and extender.is_interested(pod)]
    try:
        result, status = yield from profile.run_post_filter(
            placement.state, pod, snapshot, placement.node_codes(snapshot), preempting
        )
    except OverBudgetError as error:
        message = diagnosis.message(f"preemption: {error}.")
        return PostFilterOutcome(message, over_budget=error.plugin or BUDGET_REJECTOR)
    message = diagnosis.message(status.message)
    if result is None:
        return PostFilterOutcome(message, status=status)
    return PostFilterOutcome(message, result.nominated_node, result.victims, status)
