"""Which of a profile's plugins a class of pods can be answered for in advance, and which are asked in every attempt.

Plugins are sorted by what they declare in `locality`. Those that depend on the node alone make the base, computed once
per change of a node. Those that depend on the pods too are added for rows that change. A normalised score depends on
all feasible nodes and cannot be part of a sum that is kept; but its raw scores can be kept, and where they are equal on
all nodes the plugin adds a constant.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from scheduler.core.shared import NotLocal, SharedAnswers, raw_scores, rejections, scores_in_range
from scheduler.framework import (
    MAX_SCORE,
    AnyArray,
    CycleState,
    DependsOn,
    FilterPlugin,
    IntArray,
    Locality,
    LocalPlugin,
    ManyNodes,
    Node,
    NodeView,
    OneNode,
    PodInfo,
    PreScorePlugin,
    ProfileRunner,
    RowArray,
    ScorePlugin,
    SmallIntArray,
    declared,
)
from scheduler.state import Snapshot

Masks = Callable[[Node], Sequence[Any]]
Score = Callable[[Node], Any]
Weighted = tuple[ScorePlugin, int]
Column = SmallIntArray | IntArray
"""Totals; in 16 bits where they fit, which is quicker to search."""
_LARGEST_SMALL = 2**15 - 1
_MOST_SORTED = 256
"""Ways of sorting a profile's plugins that are kept; there are a handful, as most plugins always say the same."""
_ANYTHING = Locality()
_KEY = "core.plan"


class RowRules(NamedTuple):
    """The rules of plugins for one row, and what they read it by."""

    nodes: OneNode
    filters: tuple[Masks, ...]
    scores: tuple[tuple[Score, int], ...]


class ColumnRules(NamedTuple):
    """The rules of plugins for many rows, what they read these by, and the plugins that have none."""

    nodes: ManyNodes
    filters: list[Masks]
    scores: list[tuple[Score, int]]
    other_filters: list[FilterPlugin]
    other_scores: list[Weighted]


class Ranged(Struct):
    """A plugin whose raw scores follow from the node, to be normalised over the feasible rows of each attempt.

    Attributes:
        everywhere: the raw score of all nodes, where it is the same, and the plugin's normalised scores then are too;
        column: else the raw scores by row.
        constant: what the plugin adds to every total in the first case.
    """

    plugin: ScorePlugin
    weight: int
    uniform: int = 0
    constant: int = 0
    column: IntArray | None = None


class Plan(Struct):
    """The plugins of a profile, for one class of pods.

    Attributes:
        skippable: PreFilter plugins that need not be asked, and
        all_skippable: whether that is all of them.
        filters, pre_scores, scores: those that are asked in every attempt.
        node_filters, node_scores: those that look at the node alone;
        pod_filters, pod_scores: those that look at the pods on it too.
        row_rules: rules of the latter; None unless all of them have one;
        rules: the same for many rows, and those of them that have none.
        shared_scores: those of pod_scores that some classes share;
        own_rules: `rules` without them.
        ranged: those that are normalised over the feasible rows.
        versions: what else answers follow from.
        dtype: of the totals.
        floor: what every total starts from: 1 without any score plugin, as upstream.
    """

    skippable: frozenset[str]
    all_skippable: bool
    filters: tuple[FilterPlugin, ...]
    pre_scores: tuple[PreScorePlugin, ...]
    scores: tuple[Weighted, ...]
    node_filters: tuple[tuple[FilterPlugin, Locality], ...]
    pod_filters: tuple[FilterPlugin, ...]
    node_scores: tuple[tuple[ScorePlugin, int, Locality], ...]
    row_rules: RowRules | None
    rules: ColumnRules
    shared_scores: tuple[tuple[ScorePlugin, int, Locality], ...]
    own_rules: ColumnRules
    ranged: list[Ranged]
    versions: tuple[Callable[[NodeView], Hashable], ...]
    dtype: type[np.int16 | np.int64]
    floor: int
    varying: tuple[tuple[Ranged, IntArray], ...] = ()
    constant: int = 0

    def __post_init__(self) -> None:
        """Part normalised plugins into those that add the same to every total and those that do not."""
        self.varying = tuple([(ranged, ranged.column) for ranged in self.ranged if ranged.column is not None])
        self.constant = sum(ranged.constant for ranged in self.ranged)

    @property
    def local(self) -> bool:
        """Whether every verdict follows from the node and the pods on it."""
        return self.all_skippable and not self.filters

    def versions_now(self, view: NodeView) -> tuple[Hashable, ...]:
        """Return what else answers follow from, as of now."""
        return tuple([version(view) for version in self.versions])

    def base(self, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Return the sum over plugins that look at the node alone; -1 where one of them rejects it."""
        start = np.full(len(rows), self.floor, dtype=np.int64)
        filters = [plugin for plugin, _ in self.node_filters]
        return summed(pod, view, rows, start, filters, [(scorer, weight) for scorer, weight, _ in self.node_scores])

    def whole_base(self, pod: PodInfo, view: Snapshot, shared: SharedAnswers) -> Column:
        """Return `base` of all nodes as a column, from what other classes share; -1 also where there is no node.

        Raises:
            Exception: whatever a plugin raises; NotLocal where one does not keep to what it declared.
        """
        total = self.floor
        columns: list[tuple[AnyArray, int]] = []
        rejecting: list[AnyArray] = []
        for scorer, weight, locality in self.node_scores:
            answer = shared.answer(scores_in_range, scorer, locality, pod, view)
            total += answer.same * weight
            if answer.column is not None:
                columns.append((answer.column, weight))
        for plugin, locality in self.node_filters:
            verdicts = shared.answer(rejections, plugin, locality, pod, view)
            if verdicts.column is not None:
                rejecting.append(verdicts.column)
            elif verdicts.same:
                total = -1
        base: AnyArray = np.full(view.table.capacity, total, dtype=self.dtype)
        if total < 0:
            return base
        for column, weight in columns:
            base += column.astype(self.dtype) * weight
        for column in rejecting:
            base[column] = -1
        base[view.size :] = -1
        if not view.dense:
            empty = np.ones(len(base), dtype=np.bool_)
            empty[view.rows] = False
            base[empty] = -1
        return base

    def whole_totals(self, pod: PodInfo, view: Snapshot, base: Column, shared: SharedAnswers) -> Column:
        """Return `with_pod_plugins` of all nodes as a column, from what other classes share; -1 also where there is no
        node.

        Raises:
            Exception: whatever a plugin raises; NotLocal where one does not keep to what it declared.
        """
        rows: slice | RowArray = slice(view.size) if view.dense else view.rows
        start: AnyArray = base[rows]
        for scorer, weight, locality in self.shared_scores:
            answer = shared.answer(scores_in_range, scorer, locality, pod, view, of_pods=True)
            assert answer.column is not None
            column = answer.column[rows]
            start = start + (column if weight == 1 else column.astype(self.dtype) * weight)
        if self.shared_scores and np.minimum.reduce(base[rows]) < 0:
            start[base[rows] < 0] = -1
        totals = np.full_like(base, -1)
        totals[rows] = self._with_pod_plugins(pod, view, view.rows, start, self.own_rules)
        return totals

    def with_pod_plugins(self, pod: PodInfo, view: NodeView, rows: RowArray, base: Column) -> Column:
        """Return the base with the plugins that look at the pods on a node added; -1 where one of them rejects it."""
        return self._with_pod_plugins(pod, view, rows, base, self.rules)

    def _with_pod_plugins(
        self,
        pod: PodInfo,
        view: NodeView,
        rows: RowArray,
        base: Column,
        rules: ColumnRules,
    ) -> Column:
        nodes, filters, scores, other_filters, other_scores = rules
        has_others = other_filters or other_scores
        total: AnyArray = summed(pod, view, rows, base, other_filters, other_scores) if has_others else base
        if not filters and not scores:
            return total
        nodes.look(view, rows)
        passed = total >= 0
        for score, weight in scores:
            # Half of the columns' time is in sums: numpy is several times quicker with 16 bits.
            rated = score(rows).astype(self.dtype)
            total = total + (rated if weight == 1 else rated * weight)
        for masks in filters:
            for failed in masks(rows):
                passed &= ~failed
        return np.where(passed, total, -1)


def summed(
    pod: PodInfo,
    view: NodeView,
    rows: RowArray,
    start: Column,
    filters: Iterable[FilterPlugin],
    scores: Iterable[Weighted],
) -> IntArray:
    """Return sums that some plugins' scores were added to; -1 stays, and comes where a filter rejects.

    Raises:
        NotLocal: a score is out of range, or a plugin counted something.
    """
    state = CycleState()
    out = start < 0
    for plugin in filters:
        verdicts = plugin.filter(state, pod, view, rows)
        if verdicts is not None:
            out |= verdicts.codes != 0
    total = start.astype(np.int64)
    for scorer, weight in scores:
        score = scores_in_range(scorer, pod, view, rows)
        total += score if weight == 1 else score * weight
    if out.any():
        total[out] = -1
    if state.counters:
        raise NotLocal
    return total


class _Sorted(Struct):
    """The plugins of a profile where they say this of what their answers depend on; attributes as in `Plan`, with the
    ids of plugins beside those of which more than that is needed."""

    skippable: frozenset[str]
    filters: tuple[FilterPlugin, ...]
    pre_scores: tuple[PreScorePlugin, ...]
    scores: tuple[Weighted, ...]
    node_filters: list[tuple[FilterPlugin, int]]
    pod_filters: list[tuple[FilterPlugin, int]]
    node_scores: list[tuple[ScorePlugin, int, int]]
    pod_scores: list[tuple[ScorePlugin, int, int]]
    ranged: list[tuple[ScorePlugin, int, int]]
    largest: int


class _Memory(Struct):
    """What is kept of a profile's plugins: those with `locality` by their ids, None for the others, and how they are
    sorted.

    Looked up once, as isinstance against a Protocol costs more than most plugins.
    """

    declare: dict[int, LocalPlugin | None]
    sorted: dict[tuple[DependsOn, ...], _Sorted]


def _memory_of(profile: ProfileRunner) -> _Memory:
    memory = profile.memory.get(_KEY)
    if not isinstance(memory, _Memory):
        scorers = [scorer for scorer, _ in profile.scores]
        plugins = (*profile.pre_filters, *profile.filters, *profile.pre_scores, *scorers)
        # One object stands at several extension points, unless a wrapper is around it at one of them.
        declare: dict[int, LocalPlugin | None] = {
            id(plugin): plugin if isinstance(plugin, LocalPlugin) else None for plugin in plugins
        }
        memory = profile.memory[_KEY] = _Memory(declare, {})
    return memory


def _sort(profile: ProfileRunner, localities: Mapping[int, Locality]) -> _Sorted:
    """Sort a profile's plugins by what they declared."""
    filters = [(plugin, id(plugin), localities[id(plugin)].filters) for plugin in profile.filters]
    pre_scores = [plugin for plugin in profile.pre_scores if localities[id(plugin)].scores is DependsOn.ANYTHING]
    asked_pre_scores = {plugin.name for plugin in pre_scores}
    plain, ranged, later = [], [], []
    for scorer, weight in profile.scores:
        depends = localities[id(scorer)].scores
        if depends is DependsOn.NOTHING and scorer.name not in asked_pre_scores:
            continue
        if depends is DependsOn.ANYTHING or scorer.name in asked_pre_scores:
            # PreScore may be watched by a wrapper, or have something to say: then Score is asked too.
            later.append((scorer, weight))
        elif not profile.normalizes(scorer.name):
            plain.append((scorer, weight, id(scorer)))
        elif depends is DependsOn.NODE:
            ranged.append((scorer, weight, id(scorer)))
        else:
            later.append((scorer, weight))
    return _Sorted(
        skippable=frozenset(
            plugin.name for plugin in profile.pre_filters if localities[id(plugin)].filters is not DependsOn.ANYTHING
        ),
        filters=tuple([plugin for plugin, _, depends in filters if depends is DependsOn.ANYTHING]),
        pre_scores=tuple(pre_scores),
        scores=tuple(later),
        node_filters=[(plugin, key) for plugin, key, depends in filters if depends is DependsOn.NODE],
        pod_filters=[(plugin, key) for plugin, key, depends in filters if depends is DependsOn.PODS],
        node_scores=[each for each in plain if localities[each[2]].scores is DependsOn.NODE],
        pod_scores=[each for each in plain if localities[each[2]].scores is DependsOn.PODS],
        ranged=ranged,
        largest=1 + MAX_SCORE * sum(weight for _, weight, _ in plain),
    )


def make_plan(
    view: Snapshot, pod: PodInfo, profile: ProfileRunner, shared: SharedAnswers, *, once: bool = False
) -> Plan:
    """Ask a profile's plugins what their answers follow from, for pods of this one's class.

    With `once`, the plan is good for this moment alone.
    """
    memory = _memory_of(profile)
    localities = {
        key: _ANYTHING if local is None else declared(local, pod, view) for key, local in memory.declare.items()
    }
    declarations = (*[each.filters for each in localities.values()], *[each.scores for each in localities.values()])
    plugins = memory.sorted.get(declarations)
    if plugins is None:
        if len(memory.sorted) >= _MOST_SORTED:
            memory.sorted.clear()
        plugins = memory.sorted[declarations] = _sort(profile, localities)
    pod_filters = [(plugin, localities[key]) for plugin, key in plugins.pod_filters]
    pod_scores = [(scorer, weight, localities[key]) for scorer, weight, key in plugins.pod_scores]
    nodes = ManyNodes(view)
    rules = _column_rules(nodes, pod_filters, pod_scores)
    shared_scores = tuple([each for each in pod_scores if each[2].pods_part is not None])
    own_scores = [each for each in pod_scores if each[2].pods_part is None]
    ranged = [
        _ranged(view, pod, profile, (scorer, weight, localities[key]), shared, once)
        for scorer, weight, key in plugins.ranged
    ]
    return Plan(
        skippable=plugins.skippable,
        all_skippable=len(plugins.skippable) == len(profile.pre_filters),
        filters=plugins.filters,
        pre_scores=plugins.pre_scores,
        scores=plugins.scores,
        node_filters=tuple([(plugin, localities[key]) for plugin, key in plugins.node_filters]),
        pod_filters=tuple([plugin for plugin, _ in pod_filters]),
        node_scores=tuple([(scorer, weight, localities[key]) for scorer, weight, key in plugins.node_scores]),
        row_rules=None if once else _row_rules(view, pod_filters, pod_scores),
        rules=rules,
        shared_scores=shared_scores,
        own_rules=_column_rules(nodes, pod_filters, own_scores) if shared_scores else rules,
        ranged=ranged,
        versions=tuple([each.version for each in localities.values() if each.version is not None]),
        dtype=np.int16 if plugins.largest <= _LARGEST_SMALL else np.int64,
        floor=0 if profile.scores else 1,
    )


def _row_rules(
    view: Snapshot, filters: list[tuple[FilterPlugin, Locality]], scores: list[tuple[ScorePlugin, int, Locality]]
) -> RowRules | None:
    filter_rules = [locality.filter_rule for _, locality in filters if locality.filter_rule is not None]
    score_rules = [(locality.score_rule, weight) for _, weight, locality in scores if locality.score_rule is not None]
    if len(filter_rules) != len(filters) or len(score_rules) != len(scores):
        return None
    nodes = OneNode(view)
    return RowRules(
        nodes,
        tuple([rule(nodes) for rule in filter_rules]),
        tuple([(rule(nodes), weight) for rule, weight in score_rules]),
    )


def _column_rules(
    nodes: ManyNodes, filters: list[tuple[FilterPlugin, Locality]], scores: list[tuple[ScorePlugin, int, Locality]]
) -> ColumnRules:
    return ColumnRules(
        nodes,
        [locality.filter_rule(nodes) for _, locality in filters if locality.filter_rule is not None],
        [(locality.score_rule(nodes), weight) for _, weight, locality in scores if locality.score_rule is not None],
        [plugin for plugin, locality in filters if locality.filter_rule is None],
        [(scorer, weight) for scorer, weight, locality in scores if locality.score_rule is None],
    )


def _ranged(
    view: Snapshot,
    pod: PodInfo,
    profile: ProfileRunner,
    scored: tuple[ScorePlugin, int, Locality],
    shared: SharedAnswers,
    once: bool,
) -> Ranged:
    scorer, weight, locality = scored
    answer = shared.answer(raw_scores, scorer, locality, pod, view)
    if locality.by_range and answer.column is None:
        constant = answer.normalized
        if constant is None:
            state, raw = CycleState(), np.array([answer.same], dtype=np.int64)
            scores = profile.finish_scores(state, pod, view, view.rows[:1], scorer.name, weight, raw)
            if not state.counters:
                constant = answer.normalized = int(scores.weighted[0])
        if constant is not None:
            return Ranged(scorer, weight, uniform=answer.same, constant=constant)
    if answer.column is None:
        return Ranged(scorer, weight, column=np.full(view.table.capacity, answer.same, dtype=np.int64))
    return Ranged(scorer, weight, column=answer.column if once else answer.column.copy())
