"""Which of a profile's plugins a class of pods can be answered for in advance, and which are asked in every attempt.

Plugins are sorted by what they declare in `locality`. Those that depend on the node alone make the base, computed once
per change of a node. Those that depend on the pods too are added for rows that change. A normalised score depends on
all feasible nodes and cannot be part of a sum that is kept; but its raw scores can be kept, and where they are equal on
all nodes the plugin adds a constant.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping

import numpy as np
from msgspec import Struct

from scheduler.core.shared import NotLocal, SharedAnswers, raw_scores, rejections, scores_in_range
from scheduler.framework import (
    MAX_SCORE,
    AnyArray,
    BoolArray,
    CycleState,
    DependsOn,
    FilterPlugin,
    FloatArray,
    IntArray,
    Locality,
    LocalPlugin,
    NodeView,
    PodInfo,
    PreScorePlugin,
    ProfileRunner,
    RowArray,
    RowFunctions,
    ScorePlugin,
    SmallIntArray,
)
from scheduler.state import Snapshot

Fits = Callable[[NodeView, int], bool]
Rate = Callable[[NodeView, int], int]
FitsBlock = Callable[[FloatArray], BoolArray]
RateBlock = Callable[[FloatArray], SmallIntArray | IntArray]
Declare = Callable[[PodInfo, NodeView], Locality]
Weighted = tuple[ScorePlugin, int]
Blocks = tuple[list[FitsBlock], list[tuple[RateBlock, int]], list[FilterPlugin], list[Weighted]]
Column = SmallIntArray | IntArray
"""Totals; in 16 bits where they fit, which is quicker to search."""
_LARGEST_SMALL = 2**15 - 1
_MOST_SORTED = 256
"""Ways of sorting a profile's plugins that are kept; there are a handful, as most plugins always say the same."""
_ANYTHING = Locality()
_KEY = "core.plan"


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
        row_by_row: functions for single rows of the latter; None unless all of them have some;
        by_block: functions of `NodeView.basics`, and those of them that have none.
        shared_scores: those of pod_scores that some classes share;
        own_scores, own_blocks: pod_scores and by_block without them.
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
    pod_scores: tuple[Weighted, ...]
    row_by_row: tuple[tuple[Fits, ...], tuple[tuple[Rate, int], ...]] | None
    by_block: Blocks | None
    shared_scores: tuple[tuple[ScorePlugin, int, Locality], ...]
    own_scores: tuple[Weighted, ...]
    own_blocks: Blocks | None
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
        totals[rows] = self._with_pod_plugins(pod, view, view.rows, start, self.own_scores, self.own_blocks)
        return totals

    def with_pod_plugins(self, pod: PodInfo, view: NodeView, rows: RowArray, base: Column) -> Column:
        """Return the base with the plugins that look at the pods on a node added; -1 where one of them rejects it."""
        return self._with_pod_plugins(pod, view, rows, base, self.pod_scores, self.by_block)

    def _with_pod_plugins(
        self,
        pod: PodInfo,
        view: NodeView,
        rows: RowArray,
        base: Column,
        pod_scores: tuple[Weighted, ...],
        by_block: Blocks | None,
    ) -> Column:
        if by_block is None:
            return summed(pod, view, rows, base, self.pod_filters, pod_scores)
        fits, rates, filters, scores = by_block
        everyone = rows is view.rows and view.dense
        block = view.basics[:, : view.size] if everyone else view.basics.take(rows, axis=1, mode="clip")
        total: AnyArray = summed(pod, view, rows, base, filters, scores) if filters or scores else base
        passed = total >= 0
        for rate, weight in rates:
            rated = rate(block)
            total = total + (rated if weight == 1 else rated.astype(self.dtype) * weight)
        for passes in fits:
            passed &= passes(block)
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
    """What is kept of a profile's plugins: `locality` by their ids, None for those without, and how they are sorted.

    Looked up once, as isinstance against a Protocol costs more than most plugins.
    """

    declare: dict[int, Declare | None]
    sorted: dict[tuple[DependsOn, ...], _Sorted]


def _memory_of(profile: ProfileRunner) -> _Memory:
    memory = profile.memory.get(_KEY)
    if not isinstance(memory, _Memory):
        scorers = [scorer for scorer, _ in profile.scores]
        plugins = (*profile.pre_filters, *profile.filters, *profile.pre_scores, *scorers)
        # One object stands at several extension points, unless a wrapper is around it at one of them.
        declare: dict[int, Declare | None] = {
            id(plugin): plugin.locality if isinstance(plugin, LocalPlugin) else None for plugin in plugins
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
    localities = {key: _ANYTHING if declare is None else declare(pod, view) for key, declare in memory.declare.items()}
    declared = (*[each.filters for each in localities.values()], *[each.scores for each in localities.values()])
    plugins = memory.sorted.get(declared)
    if plugins is None:
        if len(memory.sorted) >= _MOST_SORTED:
            memory.sorted.clear()
        plugins = memory.sorted[declared] = _sort(profile, localities)
    pod_filters = [(plugin, localities[key]) for plugin, key in plugins.pod_filters]
    pod_scores = [(scorer, weight, localities[key]) for scorer, weight, key in plugins.pod_scores]
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
        pod_scores=tuple([(scorer, weight) for scorer, weight, _ in pod_scores]),
        row_by_row=None if once else _row_by_row(view, pod_filters, pod_scores),
        by_block=_by_block(pod_filters, pod_scores) if view.table.complete else None,
        shared_scores=tuple([each for each in pod_scores if each[2].pods_part is not None]),
        own_scores=tuple([(scorer, weight) for scorer, weight, _ in own_scores]),
        own_blocks=_by_block(pod_filters, own_scores) if view.table.complete else None,
        ranged=ranged,
        versions=tuple([each.version for each in localities.values() if each.version is not None]),
        dtype=np.int16 if plugins.largest <= _LARGEST_SMALL else np.int64,
        floor=0 if profile.scores else 1,
    )


def _row_by_row(
    view: Snapshot, filters: list[tuple[FilterPlugin, Locality]], scores: list[tuple[ScorePlugin, int, Locality]]
) -> tuple[tuple[Fits, ...], tuple[tuple[Rate, int], ...]] | None:
    fits = [_row_functions(view, locality)[0] for _, locality in filters]
    rates = [(_row_functions(view, locality)[1], weight) for _, weight, locality in scores]
    quick_fits = tuple([each for each in fits if each is not None])
    quick_rates = tuple([(rate, weight) for rate, weight in rates if rate is not None])
    complete = len(quick_fits) == len(fits) and len(quick_rates) == len(rates)
    return (quick_fits, quick_rates) if complete else None


def _row_functions(view: Snapshot, locality: Locality) -> RowFunctions:
    return (locality.fits, locality.rate) if locality.by_row is None else locality.by_row(view)


def _by_block(
    filters: list[tuple[FilterPlugin, Locality]], scores: list[tuple[ScorePlugin, int, Locality]]
) -> Blocks | None:
    fits = [locality.fits_block for _, locality in filters if locality.fits_block is not None]
    rates = [(locality.rate_block, weight) for _, weight, locality in scores if locality.rate_block is not None]
    if not fits and not rates:
        return None
    others = [plugin for plugin, locality in filters if locality.fits_block is None]
    return fits, rates, others, [(scorer, weight) for scorer, weight, locality in scores if locality.rate_block is None]


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
