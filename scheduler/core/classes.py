"""What pods of one class share: which nodes pass the filters whose verdicts depend on the node and its pods, and the
sum of the scores that do. Kept per class as columns, and brought up to date by the log of rows that changed.

Most pods of a cluster are replicas: a Deployment's pods have one spec, so each plugin gives the same answers for the
next of them, except about the node that the last one was put on. So an attempt recomputes one row, and takes a row with
the best total. Upstream limits the work per pod by looking at a sample of the nodes instead
(percentageOfNodesToScore); all nodes at this price give better placements, and the cost hardly grows with the cluster.

The first pod of a class gets columns for its attempt alone: what other classes share of them is there already
(`scheduler.core.shared`), and many a class has no second pod.

Considered and left out: buckets of nodes by total (the pick would depend on the history of the buckets), and one heap
per class (ties must be drawn from evenly). Measurements are in docs/performance.md.

It must give exactly what asking every plugin about every node would; a property test holds it to that.

Choosing a node by the columns of the pod's class; only plugins that cannot be answered for are asked.

A fast path with the same result as `feasible` and `decide`, never another one: where it cannot tell, it steps aside
(`usable_columns` returns None), and where no node fits, the full search runs, as the message needs every filter's
reasons.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from scheduler.core.feasible import FeasibleNodes, filter_nodes
from scheduler.core.placement import Choice
from scheduler.core.shared import (
    Ask,
    Base,
    Column,
    NotLocal,
    SharedAnswer,
    SharedAnswers,
    Side,
    SortedPlugins,
    answers_of_profile,
    are_current,
    in_range,
)
from scheduler.framework import (
    FEW_PARTS,
    SUCCESS,
    AnyArray,
    CycleState,
    Diagnosis,
    ManyNodes,
    OneNode,
    PluginScores,
    PodInfo,
    PreFilterOutcome,
    ProfileRunner,
    RandomSource,
    RowArray,
    Rule,
    SpecInfo,
    Value,
    rows_fitting_beside_nominated,
)
from scheduler.state import NodeTable, Overlay, Snapshot

_FEW_ROWS = 16
"""Up to so many changed rows are recomputed one by one, where the plugins can: numpy's calls cost as much as some 20
rows."""
_BYTES = 16 << 20
"""Bound on the columns of all classes of one profile; but a few are kept whatever their size."""
_OVERHEAD = 32 << 10
"""Bytes of a class beside its columns, measured: without, a cluster of few nodes kept tens of thousands of classes."""
_MIN_CLASSES = 256
"""So many classes keep their columns however large these are: 200 deployments at once are ordinary."""
_MAX_SEEN = 8192
"""Classes without columns that are remembered to have had a pod."""
_MANY_REJECTED = 4
_TRY_EVERY = 16
"""After so many classes in a row whose first pod passed no node, one in so many gets columns for it: where nothing
fits, every filter is asked all the same, for its reasons or because it steps back."""
_KEY = "core.classes"
_T = TypeVar("_T")
_SEEN = object()
"""Stands for the columns of a class that an overlay has had one pod of."""


class RowRules(NamedTuple):
    """The rules of plugins for one row, and what they read it by."""

    nodes: OneNode
    filters: list[Rule]
    scores: list[tuple[Rule, int]]


class Plan(Struct, eq=False):
    """The plugins of a profile, for one class of pods.

    Attributes:
        sorted: which are asked in every attempt;
        base: what other classes share of the rest.
        nodes: what rules for many rows read by.
        filters, scores: those rules, and the weights of scores;
        asked_filters, asked_scores: the plugins that have none.
        shared_scores: answers of scores that some classes share, which are not among `own_scores`.
        kept: the plugins that these rules are of.
        row_rules: rules for single rows; None unless all of them have one, and in a plan for one moment.
        values: what else answers follow from.
    """

    sorted: SortedPlugins
    base: Base
    nodes: ManyNodes
    filters: list[Rule]
    scores: list[tuple[Rule, int]]
    asked_filters: list[Ask]
    asked_scores: list[tuple[Ask, int]]
    own_scores: list[tuple[Rule, int]]
    shared_scores: list[SharedAnswer]
    kept: list[Side]
    row_rules: RowRules | None
    values: tuple[Value, ...]
    varying: list[SharedAnswer]
    constant: int

    @property
    def local(self) -> bool:
        """Whether every verdict follows from the node and the pods on it."""
        return self.sorted.all_skippable and not self.sorted.filters

    def is_current(self, view: Snapshot) -> bool:
        """Tell whether it still holds, with the base as of now."""
        return are_current(self.values, view) and self.base.catch_up(view)

    def whole_totals(self, view: Snapshot) -> Column:
        """Return `totals` of all nodes as a column, from what other classes share; -1 also where there is no node.

        Raises:
            Exception: whatever a plugin raises; NotLocal where one does not keep to its word.
        """
        rows: slice | RowArray = slice(view.size) if view.dense else view.rows
        base: AnyArray = self.base.column
        start: AnyArray = base[rows]
        if self.shared_scores:
            rejected = start < 0
            for answer in self.shared_scores:
                assert answer.column is not None
                column, weight = answer.column[rows], answer.side.weight
                start = start + (column if weight == 1 else column.astype(base.dtype) * weight)
            start[rejected] = -1
        totals = np.full_like(base, -1)
        totals[rows] = self._totals(view, view.rows, start, self.own_scores)
        return totals

    def totals(self, view: Snapshot, rows: RowArray) -> Column:
        """Return the base with the plugins that look at the pods on a node added; -1 where one of them rejects it."""
        return self._totals(view, rows, self.base.column.take(rows, mode="clip"), self.scores)

    def _totals(self, view: Snapshot, rows: RowArray, start: Column, scores: list[tuple[Rule, int]]) -> Column:
        total: AnyArray = start
        passed = start >= 0
        for ask in self.asked_filters:
            passed &= ~ask(view, rows)
        for scorer, weight in self.asked_scores:
            total = total + in_range(scorer(view, rows)).astype(start.dtype) * weight
        if self.filters or scores:
            self.nodes.look(view, rows)
        for score, weight in scores:
            # Half of the columns' time is in sums: numpy is several times quicker with 16 bits.
            rated = score(rows)
            rated = rated.astype(start.dtype) if isinstance(rated, np.ndarray) else int(rated)
            total = total + (rated if weight == 1 else rated * weight)
        for masks in self.filters:
            for failed in masks(rows):
                passed &= ~failed
        return np.where(passed, total, -1)


def make_plan(
    view: Snapshot, pod: PodInfo, profile: ProfileRunner, shared: SharedAnswers, *, once: bool = False
) -> Plan:
    """Find out what a profile's plugins read for pods of this one's class.

    With `once`, the plan is good for this moment alone.

    Raises:
        Exception: whatever a plugin raises; NotLocal where one does not keep to its word.
    """
    memory = answers_of_profile(profile, shared)
    base, nodes = memory.base_of(pod, view)
    nodes.look(view, view.rows)
    spec, sides = pod.spec, memory.of_class
    recorded = [side.record(spec, nodes) for side in sides]
    plugins = memory.sort(base, tuple([each.reads for each in recorded]))
    filters: list[Rule] = []
    scores: list[tuple[Rule, int]] = []
    own_scores: list[tuple[Rule, int]] = []
    asked_filters: list[Ask] = []
    asked_scores: list[tuple[Ask, int]] = []
    shared_scores: list[SharedAnswer] = []
    for side, each, is_kept in zip(sides, recorded, plugins.of_class, strict=True):
        if not is_kept:
            continue
        rule = each.rule
        if side.is_filter:
            if rule is None:
                asked_filters.append(side.ask(each, spec, nodes))
            else:
                filters.append(rule)
        elif rule is None:
            asked_scores.append((side.ask(each, spec, nodes), side.weight))
        else:
            scores.append((rule, side.weight))
            if side.is_shared:
                shared_scores.append(shared.answer(side, each, spec, view, nodes, of_pods=True))
            else:
                own_scores.append((rule, side.weight))
    row_rules: RowRules | None = None
    values: tuple[Value, ...] = ()
    kept = [side for side, is_kept in zip(sides, plugins.of_class, strict=True) if is_kept]
    if not once:
        read = [*base.values, *[value for each in recorded for value in each.values]]
        if not asked_filters and not asked_scores:
            row_rules, more = _row_rules(OneNode(view), spec, kept)
            read += more
        values = tuple(dict.fromkeys(read))
    return Plan(
        sorted=plugins,
        base=base,
        nodes=nodes,
        filters=filters,
        scores=scores,
        asked_filters=asked_filters,
        asked_scores=asked_scores,
        own_scores=own_scores,
        shared_scores=shared_scores,
        kept=kept,
        row_rules=row_rules,
        values=values,
        varying=[answer for answer in base.ranged if answer.normalized is None],
        constant=sum([answer.normalized for answer in base.ranged if answer.normalized is not None]),
    )


def _row_rules(nodes: OneNode, spec: SpecInfo, sides: list[Side]) -> tuple[RowRules | None, tuple[Value, ...]]:
    recorded = [(side, nodes.record(side.rule_of, spec)) for side in sides if side.rule_of is not None]
    rules = RowRules(nodes, [], [])
    for side, each in recorded:
        if each.rule is None:
            return None, ()
        if side.is_filter:
            rules.filters.append(each.rule)
        else:
            rules.scores.append((each.rule, side.weight))
    return rules, tuple([value for _, each in recorded for value in each.values])


def plan_on_overlay(plan: Plan, view: Overlay, spec: SpecInfo) -> Plan | None:
    """Return a plan whose rules read the pods of an overlay of the table; None where a plugin has no rule for a row.

    Raises:
        Exception: whatever a plugin raises.
    """
    if plan.row_rules is None:
        return None
    row_rules, values = _row_rules(OneNode(view, what_if=True), spec, plan.kept)
    nodes = ManyNodes(view, what_if=True)
    nodes.look(view, view.rows)
    recorded = [(side, side.record(spec, nodes)) for side in plan.kept]
    rules = [(side, each.rule) for side, each in recorded if each.rule is not None]
    if row_rules is None or len(rules) < len(plan.kept):
        return None
    return replace(
        plan,
        nodes=nodes,
        filters=[rule for side, rule in rules if side.is_filter],
        scores=[(rule, side.weight) for side, rule in rules if not side.is_filter],
        row_rules=row_rules,
        values=tuple(dict.fromkeys([*plan.values, *values, *[value for _, each in recorded for value in each.values]])),
    )


class ClassColumns(Struct):
    """The columns of one class.

    Attributes:
        plan: which plugins the columns stand for, and which are still to be asked.
        totals: the sum over all plugins the columns stand for; -1 where one of them rejects the node.
        feasible: rows with a total.
    """

    plan: Plan
    totals: Column
    feasible: int
    generation: int
    layout: int
    _rows: RowArray | None = None
    _ties: RowArray | None = None
    _best: int = -1

    def rows(self, view: Snapshot) -> RowArray:
        """Return the rows with a total, ascending."""
        if self.feasible == len(view.rows):
            return view.rows
        if self._rows is None:
            self._rows = np.flatnonzero(self.totals[: view.size] >= 0)
        return self._rows

    def rows_among(self, view: Snapshot) -> RowArray:
        """Return those of them that a pod may be given."""
        candidates = view.candidates
        if len(candidates) == len(view.rows):
            return self.rows(view)
        return candidates[self.totals[candidates] >= 0]

    def best(self, view: Snapshot) -> tuple[RowArray, int]:
        """Return the rows with the largest total, ascending, and that total."""
        if self._ties is None:
            totals = self.totals[: view.size]
            self._best = int(np.maximum.reduce(totals))
            self._ties = (totals == self._best).nonzero()[0]
        return self._ties, self._best

    def catch_up(self, view: Snapshot) -> bool:
        """Take in what changed since the last use; False when the columns have to be made again.

        Raises:
            Exception: whatever a plugin raises; the columns are of no use then.
        """
        table = view.table
        if self.layout != table.layout or not self.plan.is_current(view):
            return False
        changed = table.log.since(self.generation)
        if changed is None:
            return False
        if not len(changed):
            return True
        if len(changed) > _FEW_ROWS or self.plan.row_rules is None:
            self._update_rows(view, changed if 4 * len(changed) < view.size else view.rows)
        else:
            self._update_row_by_row(view, changed.tolist())
        self.generation = table.generation
        return True

    def on_overlay(self, view: Overlay, spec: SpecInfo) -> "ClassColumns | None":
        """Return a copy that follows the pods of an overlay (`follow`); None where it cannot.

        Raises:
            Exception: whatever a plugin raises.
        """
        plan = plan_on_overlay(self.plan, view, spec)
        # The ties are changed in place.
        return None if plan is None else replace(self, plan=plan, totals=self.totals.copy(), generation=0, _ties=None)

    def follow(self, view: Overlay) -> bool:
        """Take in the rows that an overlay moved pods on or off since the last use, which `generation` counts; False
        where the plan does not hold on it.

        Raises:
            Exception: whatever a plugin raises; the columns are of no use then.
        """
        if not are_current(self.plan.values, view):
            return False
        changed = list(dict.fromkeys(view.moved_log[self.generation :]))
        self.generation = len(view.moved_log)
        if len(changed) > _FEW_ROWS:
            self._update_rows(view, np.array(sorted(changed), dtype=np.intp))
        else:
            self._update_row_by_row(view, changed)
        return True

    def _update_rows(self, view: Snapshot, rows: RowArray) -> None:
        totals = self.plan.totals(view, rows)
        everywhere = self.feasible == len(view.rows)
        self.totals[rows] = totals
        self._ties = None
        if not everywhere or np.minimum.reduce(totals) < 0:
            self._rows = None
            self.feasible = int(np.count_nonzero(self.totals[: view.size] >= 0))

    def _update_row_by_row(self, view: Snapshot, rows: list[int]) -> None:
        assert self.plan.row_rules is not None
        nodes, filters, scores = self.plan.row_rules
        nodes.look(view)
        base = self.plan.base.column
        for row in rows:
            total = int(base.item(row))
            if total >= 0:
                for masks in filters:
                    if True in masks(row):
                        total = -1
                        break
                else:
                    for rate, weight in scores:
                        score = int(rate(row))
                        if not 0 <= score <= 100:
                            raise NotLocal
                        total += score * weight
            old = self.totals.item(row)
            if old != total:
                self.totals[row] = total
                self._update_best(row, old, total)

    def _update_best(self, row: int, old: int, total: int) -> None:
        """Keep the rows with the best total up to date.

        A placement lowers one total: mostly of a row among the best, which leaves them. Looking for the maximum again
        is needed only once the last of them is gone.
        """
        if (old < 0) != (total < 0):
            self._rows = None
            self.feasible += 1 if old < 0 else -1
        ties = self._ties
        if ties is None or (total < self._best and old < self._best):
            return
        if total > self._best:
            self._ties, self._best = np.array([row], dtype=np.intp), total
            return
        at = int(ties.searchsorted(row))
        if total == self._best:
            self._ties = np.insert(ties, at, row)
        elif len(ties) == 1:
            self._ties = None
        else:
            ties[at:-1] = ties[at + 1 :]
            self._ties = ties[:-1]


class _Memory(Struct):
    """What is kept of one profile and one table.

    Attributes:
        shared: what classes have in common.
        columns: by class, the one unused longest first.
        seen: classes without columns that there was a pod of, the oldest first, with that pod's UID (None: any
            pod will do now); for a class whose plugins could not be answered for, when that was.
        rejected: classes in a row whose first pod passed no node.
    """

    table: NodeTable
    shared: SharedAnswers
    columns: OrderedDict[bytes, ClassColumns] = field(default_factory=OrderedDict)
    seen: OrderedDict[bytes, tuple[int, int] | str | None] = field(default_factory=OrderedDict)
    rejected: int = 0

    def is_worth_columns(self) -> bool:
        """Tell whether the first pod of a class probably passes a node."""
        if self.rejected < _MANY_REJECTED:
            return True
        self.rejected += 1
        return not self.rejected % _TRY_EVERY

    def note_without_columns(self, key: bytes, why: tuple[int, int] | str | None = None) -> None:
        """Note a class without columns; `why` as in `seen`."""
        self.columns.pop(key, None)
        self.seen[key] = why
        if len(self.seen) > _MAX_SEEN:
            self.seen.popitem(last=False)

    def keep(self, key: bytes, columns: ClassColumns) -> None:
        """Keep a class's columns, and drop others where they are too many."""
        self.seen.pop(key, None)
        self.columns[key] = columns
        limit = max(_MIN_CLASSES, _BYTES // (_OVERHEAD + columns.totals.nbytes))
        while len(self.columns) > limit:
            self.note_without_columns(next(iter(self.columns)))


def columns_on_overlay(view: Overlay, pod: PodInfo, profile: ProfileRunner) -> ClassColumns | None:
    """Return the columns of a pod's class with the pods that an overlay of the table moves: a member of a gang changes
    one row for the next. None on other overlays, where every plugin has to be asked, and for the first pod of a class:
    a gang whose members are all of different classes would make others lose their columns."""
    if type(view.base) is not Snapshot:
        return None
    key = (_KEY, profile.scheduler_name, pod.spec.class_key)
    if key not in view.notes:
        view.notes[key] = _SEEN
        return None
    if view.notes[key] is _SEEN:
        below = columns_of(view.base, pod, profile, for_one=False)
        view.notes[key] = None if below is None else _tried(lambda: below.on_overlay(view, pod.spec))
    columns: ClassColumns | None = view.notes[key]
    if columns is not None and _tried(partial(columns.follow, view)):
        return columns
    view.notes[key] = None
    return None


def _tried(make: Callable[[], _T]) -> _T | None:
    """Return what a function returns; None where a plugin raises: asking every plugin meets the same failure and
    reports it."""
    try:
        return make()
    except Exception:
        return None


def columns_of(view: Snapshot, pod: PodInfo, profile: ProfileRunner, *, for_one: bool = True) -> ClassColumns | None:
    """Return the columns of a pod's class as of now; None where every plugin has to be asked.

    That is so where a plugin fails or does not keep to its word, and for the first pod of a class when it is
    tried again: it probably fits nowhere, and columns would spare nothing, as its rejection needs every filter's
    reasons. The first attempt of a class gets columns that are not kept, as many a class has no second pod; where it
    is known to have one, as in a gang, they are kept (`for_one`).
    """
    table, key = view.table, pod.spec.class_key
    memory = profile.memory.get(_KEY)
    if not isinstance(memory, _Memory) or memory.table is not table:
        memory = profile.memory[_KEY] = _Memory(table, SharedAnswers(table))
    now = (table.layout, table.log.start)
    cached = memory.columns.get(key)
    first = for_one and cached is None and key not in memory.seen
    if first:
        memory.note_without_columns(key, pod.uid or None)
        if not memory.is_worth_columns():
            return None
    elif cached is None and (why := memory.seen.get(key)) is not None and why in (now, pod.uid):
        return None
    try:
        if cached is not None and cached.catch_up(view):
            memory.columns.move_to_end(key)
            return cached
        columns = make_columns(view, pod, profile, memory.shared, once=first)
    except Exception:
        # Asking every plugin meets the same failure and reports it; if not, this class goes without columns until the
        # table has changed a good deal.
        memory.note_without_columns(key, now)
        return None
    if first:
        memory.rejected = 0 if columns.feasible else memory.rejected + 1
        return columns
    memory.keep(key, columns)
    memory.columns.move_to_end(key)
    return columns


def make_columns(
    view: Snapshot, pod: PodInfo, profile: ProfileRunner, shared: SharedAnswers, *, once: bool = False
) -> ClassColumns:
    """Make the columns of a class, from nothing but what classes share; with `once`, good for this moment alone.

    Raises:
        Exception: whatever a plugin raises; NotLocal where one does not keep to its word.
    """
    table = view.table
    plan = make_plan(view, pod, profile, shared, once=once)
    totals = plan.whole_totals(view)
    return ClassColumns(plan, totals, int(np.count_nonzero(totals >= 0)), table.generation, table.layout)


_NO_PRE_FILTERS: PreFilterOutcome = (SUCCESS, None, ())


def usable_columns(view: Snapshot, pod: PodInfo, profile: ProfileRunner) -> ClassColumns | None:
    """Return the columns of a pod's class where they tell enough: not where a plugin has to be asked how it takes the
    nominations of others; nor for pods that list many things, of which there are few: digests of these, and answers
    that hardly anybody shares, would cost more than they spare, and each plugin has to charge for its work
    (`scheduler.framework.Work`)."""
    if pod.spec.parts > FEW_PARTS:
        return None
    if pod.nominated_node or pod.node_name or not view.table.row_of:
        return None
    if profile.effective.percentage_of_nodes_to_score:
        return None
    columns = columns_on_overlay(view, pod, profile) if isinstance(view, Overlay) else columns_of(view, pod, profile)
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
    plan, plugins = columns.plan, columns.plan.sorted
    skippable = plugins.skippable
    outcome = _NO_PRE_FILTERS if plugins.all_skippable else profile.run_pre_filter(state, pod, view, skippable)
    timing = state.timing
    if timing is not None:
        timing.lap("PreFilter", outcome[0].code)
    if outcome is not _NO_PRE_FILTERS and (not outcome[0].is_success or outcome[1] is not None):
        return filter_nodes(view, pod, profile, state, outcome)
    all_rows = columns.rows_among(view)
    filters = [plugin for plugin in plugins.filters if plugin.name not in state.skip_filter]
    counted, work = (dict(state.counters), state.work.save()) if filters else (state.counters, state.work)
    rows = profile.rows_passing(state, pod, view, all_rows, filters) if filters else all_rows
    if plan.local and view.nominations:
        # Nodes with nominated pods alone need another look, as all verdicts follow from the node.
        rows = rows_fitting_beside_nominated(
            profile, pod, view, rows, Diagnosis(len(rows)), lambda: _pre_filtered(view, pod, profile, skippable)
        )
    if not len(rows):
        state.counters = counted
        state.work.restore(work)
        profile.run_skipped_pre_filters(state, pod, view, skippable)
        return filter_nodes(view, pod, profile, state, outcome)
    if timing is not None:
        timing.lap("Filter")
    evaluated = len(view.candidates)
    if len(rows) == 1:
        return Choice(int(rows[0]), 0, 1, 1, evaluated)
    ties, total = _best(
        columns, view, pod, profile, state, rows, all_of_class=rows is all_rows and evaluated == len(view.rows)
    )
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
    plan, plugins = columns.plan, columns.plan.sorted
    scores: list[PluginScores] = []
    if plugins.pre_scores or plugins.scores:
        scores = profile.run_scores(state, pod, view, rows, plugins.pre_scores, plugins.scores)
    if all_of_class and not scores and not plan.varying:
        ties, best = columns.best(view)
        return _Ties(ties), best + plan.constant
    totals: Column = columns.totals.take(rows, mode="clip")
    if scores or plan.varying:
        totals = totals.astype(np.int64)
    for score in scores:
        totals += score.weighted
    for answer in plan.varying:
        side, raw = answer.side, answer.at(rows)
        totals += profile.finish_scores(state, pod, view, rows, side.plugin.name, side.weight, raw).weighted
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
