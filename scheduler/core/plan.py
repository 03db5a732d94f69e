"""Which of a profile's plugins a class of pods can be answered for in advance, and which are asked in every attempt.

Plugins are sorted by what they declare in `locality`. Those that depend on the node alone make the base, computed once
per change of a node. Those that depend on the pods too are added for rows that change. A normalised score depends on
all feasible nodes and cannot be part of a sum that is kept; but its raw scores can be kept, and where they are equal on
all nodes the plugin adds a constant.
"""

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scheduler.framework import (
    MAX_SCORE,
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
    ScorePlugin,
)
from scheduler.state import Snapshot

Fits = Callable[[NodeView, int], bool]
Rate = Callable[[NodeView, int], int]
FitsBlock = Callable[[FloatArray], BoolArray]
RateBlock = Callable[[FloatArray], IntArray]
Weighted = tuple[ScorePlugin, int]
Column = NDArray[np.int16] | NDArray[np.int64]
"""Totals; in 16 bits where they fit, which is quicker to search."""


class NotLocal(Exception):
    """A plugin's answers cannot be kept: it gave a score out of range, left itself out, or counted something.

    An out-of-range score has to be clamped and counted once per attempt, so such a class is decided without columns.
    """


@dataclass(slots=True)
class Ranged:
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

    def raw_scores(self, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
        """Return raw scores.

        Raises:
            NotLocal: the plugin leaves itself out.
        """
        return _raw_scores(self.plugin, pod, view, rows)


@dataclass(slots=True)
class Plan:
    """The plugins of a profile, for one class of pods.

    Attributes:
        skippable: PreFilter plugins that need not be asked, and
        all_skippable: whether that is all of them.
        filters, pre_scores, scores: those that are asked in every attempt.
        node_filters, node_scores: those that look at the node alone;
        pod_filters, pod_scores: those that look at the pods on it too.
        row_by_row: functions for single rows of the latter; None unless all of them have some;
        by_block: functions of `NodeView.basics`, and those of them that have none.
        ranged: those that are normalised over the feasible rows.
        versions: what else answers follow from.
        largest: bound of the totals.
        floor: what every total starts from: 1 without any score plugin, as upstream.
    """

    skippable: frozenset[str]
    all_skippable: bool
    filters: tuple[FilterPlugin, ...]
    pre_scores: tuple[PreScorePlugin, ...]
    scores: tuple[Weighted, ...]
    node_filters: tuple[FilterPlugin, ...]
    pod_filters: tuple[FilterPlugin, ...]
    node_scores: tuple[Weighted, ...]
    pod_scores: tuple[Weighted, ...]
    row_by_row: tuple[tuple[Fits, ...], tuple[tuple[Rate, int], ...]] | None
    by_block: tuple[list[FitsBlock], list[tuple[RateBlock, int]], list[FilterPlugin], list[Weighted]] | None
    ranged: list[Ranged]
    versions: tuple[Callable[[NodeView], Hashable], ...]
    largest: int
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
        return summed(pod, view, rows, start, self.node_filters, self.node_scores)

    def with_pod_plugins(self, pod: PodInfo, view: NodeView, rows: RowArray, base: Column) -> IntArray:
        """Return the base with the plugins that look at the pods on a node added; -1 where one of them rejects it."""
        if self.by_block is None:
            return summed(pod, view, rows, base, self.pod_filters, self.pod_scores)
        fits, rates, filters, scores = self.by_block
        everyone = rows is view.rows and view.dense
        block = view.basics[:, : view.size] if everyone else view.basics.take(rows, axis=1, mode="clip")
        total, passed = base, base >= 0
        if filters or scores:
            total = summed(pod, view, rows, base, filters, scores)
            passed = total >= 0
        for rate, weight in rates:
            total = total + (rate(block) if weight == 1 else rate(block) * weight)
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
        score = _raw_scores(scorer, pod, view, rows)
        if len(score) and np.maximum.reduce(score.view(np.uint64)) > MAX_SCORE:
            raise NotLocal
        total += score if weight == 1 else score * weight
    if out.any():
        total[out] = -1
    if state.counters:
        raise NotLocal
    return total


def _raw_scores(scorer: ScorePlugin, pod: PodInfo, view: NodeView, rows: RowArray) -> IntArray:
    state = CycleState()
    score = scorer.score(state, pod, view, rows)
    if score is None or state.counters:
        raise NotLocal
    return score


def make_plan(view: Snapshot, pod: PodInfo, profile: ProfileRunner) -> Plan:
    """Ask a profile's plugins what their answers follow from, for pods of this one's class."""
    localities: dict[int, Locality] = {}

    def locality_of(plugin: object) -> Locality:
        # One object stands at several extension points, unless a wrapper is around it at one of them.
        locality = localities.get(id(plugin))
        if locality is None:
            locality = localities[id(plugin)] = (
                plugin.locality(pod, view) if isinstance(plugin, LocalPlugin) else Locality()
            )
        return locality

    skippable = frozenset(
        plugin.name for plugin in profile.pre_filters if locality_of(plugin).filters is not DependsOn.ANYTHING
    )
    filters = [(plugin, locality_of(plugin)) for plugin in profile.filters]
    pre_scores = tuple([plugin for plugin in profile.pre_scores if locality_of(plugin).scores is DependsOn.ANYTHING])
    asked_pre_scores = {plugin.name for plugin in pre_scores}
    scores = []
    for scorer, weight in profile.scores:
        locality = locality_of(scorer)
        if scorer.name in asked_pre_scores and locality.scores is not DependsOn.ANYTHING:
            # PreScore is watched by a wrapper, or has something to say: then Score is asked too.
            locality = Locality()
        scores.append((scorer, weight, locality))
    plain, ranged, later = [], [], []
    for scorer, weight, locality in scores:
        if locality.scores is DependsOn.NOTHING:
            continue
        if locality.scores is not DependsOn.ANYTHING and not profile.normalizes(scorer.name):
            plain.append((scorer, weight, locality))
        elif locality.scores is DependsOn.NODE:
            ranged.append(_ranged(view, pod, profile, scorer, weight, locality))
        else:
            later.append((scorer, weight))
    pod_filters = [(plugin, locality) for plugin, locality in filters if locality.filters is DependsOn.PODS]
    pod_scores = [(scorer, weight, locality) for scorer, weight, locality in plain if locality.scores is DependsOn.PODS]
    fits = [locality.fits for _, locality in pod_filters if locality.fits is not None]
    rates = [(locality.rate, weight) for _, weight, locality in pod_scores if locality.rate is not None]
    have_row_functions = len(fits) == len(pod_filters) and len(rates) == len(pod_scores)
    return Plan(
        skippable=skippable,
        all_skippable=len(skippable) == len(profile.pre_filters),
        filters=tuple([plugin for plugin, locality in filters if locality.filters is DependsOn.ANYTHING]),
        pre_scores=pre_scores,
        scores=tuple(later),
        node_filters=tuple([plugin for plugin, locality in filters if locality.filters is DependsOn.NODE]),
        pod_filters=tuple([plugin for plugin, _ in pod_filters]),
        node_scores=tuple(
            [(scorer, weight) for scorer, weight, locality in plain if locality.scores is DependsOn.NODE]
        ),
        pod_scores=tuple([(scorer, weight) for scorer, weight, _ in pod_scores]),
        row_by_row=(tuple(fits), tuple(rates)) if have_row_functions else None,
        by_block=_by_block(pod_filters, pod_scores) if view.table.complete else None,
        ranged=ranged,
        versions=tuple([locality.version for locality in localities.values() if locality.version is not None]),
        largest=1 + MAX_SCORE * sum(weight for _, weight, _ in plain),
        floor=0 if profile.scores else 1,
    )


def _by_block(
    filters: list[tuple[FilterPlugin, Locality]], scores: list[tuple[ScorePlugin, int, Locality]]
) -> tuple[list[FitsBlock], list[tuple[RateBlock, int]], list[FilterPlugin], list[Weighted]] | None:
    fits = [locality.fits_block for _, locality in filters if locality.fits_block is not None]
    rates = [(locality.rate_block, weight) for _, weight, locality in scores if locality.rate_block is not None]
    if not fits and not rates:
        return None
    others = [plugin for plugin, locality in filters if locality.fits_block is None]
    return fits, rates, others, [(scorer, weight) for scorer, weight, locality in scores if locality.rate_block is None]


def _ranged(
    view: Snapshot, pod: PodInfo, profile: ProfileRunner, scorer: ScorePlugin, weight: int, locality: Locality
) -> Ranged:
    rows = view.rows
    raw = _raw_scores(scorer, pod, view, rows)
    first = int(raw[0])
    if locality.by_range and (raw == first).all():
        state = CycleState()
        scores = profile.finish_scores(state, pod, view, rows[:1], scorer.name, weight, raw[:1])
        if not state.counters:
            return Ranged(scorer, weight, uniform=first, constant=int(scores.weighted[0]))
    column = np.zeros(view.table.capacity, dtype=np.int64)
    column[rows] = raw
    return Ranged(scorer, weight, column=column)
