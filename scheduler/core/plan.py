"""Which of a profile's plugins a class of pods can be answered for in advance, and which are asked in every attempt.

Plugins are sorted by what they declare in `locality`. Those that depend on the node alone make the base, computed once
per change of a node. Those that depend on the pods too are added for rows that change. A normalised score depends on
all feasible nodes and cannot be part of a sum that is kept; but its raw scores can be kept, and where they are equal on
all nodes the plugin adds a constant.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct

from scheduler.framework import (
    MAX_SCORE,
    AnyArray,
    BoolArray,
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
from scheduler.state import NodeTable, Snapshot

_BYTES = 8 << 20
"""Bound on what one profile keeps; but a few answers are kept whatever their size."""
_OVERHEAD = 2 << 10
"""Bytes of an answer beside its column, with room to spare."""
_MIN_ANSWERS = 16
_FEW_ROWS = 16

P = TypeVar("P", FilterPlugin, ScorePlugin)
Ask = Callable[[P, PodInfo, NodeView, RowArray], AnyArray]
Version = Callable[[NodeView], Hashable]


class NotLocal(Exception):
    """A plugin's answers cannot be kept: it gave a score out of range, left itself out, or counted something.

    An out-of-range score has to be clamped and counted once per attempt, so such a class is decided without columns.
    """


def rejections(plugin: FilterPlugin, pod: PodInfo, view: NodeView, rows: RowArray) -> BoolArray:
    """Return per row whether a filter rejects it.

    Raises:
        NotLocal: the plugin counted something.
    """
    state = CycleState()
    verdicts = plugin.filter(state, pod, view, rows)
    if state.counters:
        raise NotLocal
    return np.zeros(len(rows), dtype=np.bool_) if verdicts is None else verdicts.codes != 0


def raw_scores(scorer: ScorePlugin, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
    """Return raw scores.

    Raises:
        NotLocal: the plugin leaves itself out, or counted something.
    """
    state = CycleState()
    score = scorer.score(state, pod, view, rows)
    if score is None or state.counters:
        raise NotLocal
    return score


def scores_in_range(scorer: ScorePlugin, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
    """Return scores that are not normalised.

    Raises:
        NotLocal: as `raw_scores`, or a score is out of range.
    """
    score = raw_scores(scorer, pod, view, rows)
    # Read as unsigned, a negative score is a huge one: one pass finds both.
    if len(score) and np.maximum.reduce(score.view(np.uint64)) > MAX_SCORE:
        raise NotLocal
    return score


class SharedAnswer(Struct):
    """What one plugin says of every node.

    Attributes:
        same: what it says of all of them, where that is the same; else
        column: its answers by row.
        position: in the log of the changes that it has taken in:
        of_pods: of nodes and the pods on them, or of nodes alone.
        normalized: what the same raw score everywhere adds to every total, once somebody found out.
    """

    same: int
    column: AnyArray | None
    position: int
    version: Hashable
    of_pods: bool
    normalized: int | None = None

    @property
    def cost(self) -> int:
        """Return the bytes it takes."""
        return _OVERHEAD + (0 if self.column is None else self.column.nbytes)

    def catch_up(self, ask: "Ask[P]", plugin: P, pod: PodInfo, view: Snapshot) -> bool:
        """Take in the nodes that changed since the last use; False where it has to be made again."""
        log = view.table.log if self.of_pods else view.table.node_log
        if self.position == log.end:
            return True
        rows = log.since(self.position)
        # The log repeats rows, and to ask about some of them costs more for each than to ask about all.
        if rows is None or len(rows) > max(_FEW_ROWS, len(view.rows) // 4):
            return False
        answers = ask(plugin, pod, view, rows)
        if self.column is not None:
            self.column[rows] = answers
        elif not (answers == self.same).all():
            return False
        self.position = log.end
        return True


class SharedAnswers:
    """The answers of one profile's plugins about one table, those unused longest first.

    They are kept for all pods that are alike in the part of the spec that a plugin reads. Pods of many classes mostly
    differ in what they request, and share tolerations, selectors and images. So a plugin that names this part
    (`Locality.part`) is asked once about all nodes, for all classes with this part; a pod of a class of its own then
    costs little more than the plugins that look at its requests. Scores that depend on the pods of a node, too, are
    shared by classes that are alike in what these scores read (`Locality.pods_part`), such as the CPU that the pod will
    use. Measurements are in docs/performance.md.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._layout = table.layout
        self._answers: OrderedDict[Hashable, SharedAnswer] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def answer(
        self, ask: "Ask[P]", plugin: P, locality: Locality, pod: PodInfo, view: Snapshot, *, of_pods: bool = False
    ) -> SharedAnswer:
        """Return what a plugin says of every node, of the pods there too if asked for, as of now: what was kept for
        another pod with the same part of the spec, where the plugin names one. Do not change it, and do not keep it.

        Raises:
            Exception: whatever the plugin raises; NotLocal where it does not keep to what it declared.
        """
        part = locality.pods_part if of_pods else locality.part
        if part is None:
            return _made(ask, plugin, None, pod, view, of_pods=of_pods)
        if self._layout != self._table.layout:
            self._answers.clear()
            self._bytes, self._layout = 0, self._table.layout
        key = (ask, plugin.name, part, of_pods)
        cached = self._answers.get(key)
        if cached is not None:
            if (locality.version is None or cached.version == locality.version(view)) and cached.catch_up(
                ask, plugin, pod, view
            ):
                self._answers.move_to_end(key)
                return cached
            del self._answers[key]
            self._bytes -= cached.cost
        fresh = self._answers[key] = _made(ask, plugin, locality.version, pod, view, of_pods=of_pods)
        self._bytes += fresh.cost
        while self._bytes > _BYTES and len(self._answers) > _MIN_ANSWERS:
            self._bytes -= self._answers.popitem(last=False)[1].cost
        return fresh


def _made(
    ask: "Ask[P]", plugin: P, version: Version | None, pod: PodInfo, view: Snapshot, *, of_pods: bool
) -> SharedAnswer:
    table = view.table
    version_now, position = None if version is None else version(view), (table.log if of_pods else table.node_log).end
    answers = ask(plugin, pod, view, view.rows)
    first = answers[0]
    # What is the same everywhere seldom stays so where it depends on the pods.
    if not of_pods and (answers == first).all():
        return SharedAnswer(int(first), None, position, version_now, of_pods)
    # Scores that are in range: an eighth of the memory.
    column = np.zeros(table.capacity, dtype=np.int8 if ask is scores_in_range else answers.dtype)
    if view.dense:
        column[: view.size] = answers
    else:
        column[view.rows] = answers
    return SharedAnswer(0, column, position, version_now, of_pods)


Masks = Callable[[Node], Sequence[Any]]
Score = Callable[[Node], Any]
Weighted = tuple[ScorePlugin, int]
Column = SmallIntArray | IntArray
"""Totals; in 16 bits where they fit, which is quicker to search."""
_MAX_SMALL = 2**15 - 1
_MAX_SORTED = 256
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

    def with_scores(self, scores: Iterable[tuple[ScorePlugin, int, Locality]]) -> "ColumnRules":
        """Return these and the rules of more scores; what is there already is not made again."""
        rules, others = list(self.scores), list(self.other_scores)
        for scorer, weight, locality in scores:
            if locality.score_rule is None:
                others.append((scorer, weight))
            else:
                rules.append((locality.score_rule(self.nodes), weight))
        return ColumnRules(self.nodes, self.filters, rules, self.other_filters, others)


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
        rules: the same for many rows, and those of them that have none. Both are None in a plan for one moment.
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
    rules: ColumnRules | None
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
        assert self.rules is not None
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
    sorted; and what their rules read by.

    Looked up once, as isinstance against a Protocol costs more than most plugins.
    """

    declare: dict[int, LocalPlugin | None]
    sorted: dict[tuple[DependsOn, ...], _Sorted]
    nodes: ManyNodes | None = None

    def nodes_of(self, view: NodeView) -> ManyNodes:
        """Return what rules for many rows read by: those of all classes share its readers while the layout stays."""
        if self.nodes is None or self.nodes.layout != view.layout:
            self.nodes = ManyNodes(view)
        return self.nodes


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
        node_scores=[entry for entry in plain if localities[entry[2]].scores is DependsOn.NODE],
        pod_scores=[entry for entry in plain if localities[entry[2]].scores is DependsOn.PODS],
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
        if len(memory.sorted) >= _MAX_SORTED:
            memory.sorted.clear()
        plugins = memory.sorted[declarations] = _sort(profile, localities)
    pod_filters = [(plugin, localities[key]) for plugin, key in plugins.pod_filters]
    pod_scores = [(scorer, weight, localities[key]) for scorer, weight, key in plugins.pod_scores]
    shared_scores = tuple([each for each in pod_scores if each[2].pods_part is not None])
    own_scores = [each for each in pod_scores if each[2].pods_part is None]
    own_rules = _column_rules(memory.nodes_of(view), pod_filters, own_scores)
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
        rules=None if once else own_rules.with_scores(shared_scores) if shared_scores else own_rules,
        shared_scores=shared_scores,
        own_rules=own_rules,
        ranged=ranged,
        versions=tuple([each.version for each in localities.values() if each.version is not None]),
        dtype=np.int16 if plugins.largest <= _MAX_SMALL else np.int64,
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
    filter_rules = [locality.filter_rule(nodes) for _, locality in filters if locality.filter_rule is not None]
    other_filters = [plugin for plugin, locality in filters if locality.filter_rule is None]
    return ColumnRules(nodes, filter_rules, [], other_filters, []).with_scores(scores)


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
