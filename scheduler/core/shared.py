"""What plugins say of nodes, kept for all pods that are alike in the part of the spec that a plugin reads.

Pods of many classes mostly differ in what they request, and share tolerations, selectors and images. So a plugin that
names this part (`Locality.part`) is asked once about all nodes, for all classes with this part; a pod of a class of its
own then costs little more than the plugins that look at its requests. Scores that depend on the pods of a node, too,
are shared by classes that are alike in what these scores read (`Locality.pods_part`), such as the CPU that the pod will
use. Measurements are in docs/performance.md.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

import numpy as np
from msgspec import Struct

from scheduler.framework import (
    MAX_SCORE,
    AnyArray,
    BoolArray,
    CycleState,
    FilterPlugin,
    IntArray,
    Locality,
    NodeView,
    PodInfo,
    RowArray,
    ScorePlugin,
)
from scheduler.state import NodeTable, Snapshot

_BYTES = 8 << 20
"""Bound on what one profile keeps; but a few answers are kept whatever their size."""
_OVERHEAD = 2 << 10
"""Bytes of an answer beside its column, with room to spare."""
_FEWEST = 16
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
    """The answers of one profile's plugins about one table, those unused longest first."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._layout = table.layout
        self._kept: OrderedDict[Hashable, SharedAnswer] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

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
            self._kept.clear()
            self._bytes, self._layout = 0, self._table.layout
        key = (ask, plugin.name, part, of_pods)
        kept = self._kept.get(key)
        if kept is not None:
            if (locality.version is None or kept.version == locality.version(view)) and kept.catch_up(
                ask, plugin, pod, view
            ):
                self._kept.move_to_end(key)
                return kept
            del self._kept[key]
            self._bytes -= kept.cost
        fresh = self._kept[key] = _made(ask, plugin, locality.version, pod, view, of_pods=of_pods)
        self._bytes += fresh.cost
        while self._bytes > _BYTES and len(self._kept) > _FEWEST:
            self._bytes -= self._kept.popitem(last=False)[1].cost
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
