"""What plugins say of nodes, kept for all pods that are alike in what is read of them; and which plugins are asked in
every attempt.

Plugins are sorted by what is read of a node for their answers. Those that look at the node alone make the base, which
pods share. Those that look at the pods on it too are added for each class (`scheduler.core.classes`). A normalised
score depends on all feasible nodes and cannot be part of a sum that is kept; but its raw scores can be kept, and where
they are equal on all nodes the plugin adds a constant.
"""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from hashlib import blake2b
from operator import attrgetter
from typing import Any, cast

import msgspec
import numpy as np
from msgspec import Struct, field

from scheduler.framework import (
    MAX_SCORE,
    AnyArray,
    ClassPod,
    CycleState,
    FilterPlugin,
    FilterRule,
    IntArray,
    ManyNodes,
    Nodes,
    NodeView,
    PodInfo,
    PreScorePlugin,
    ProfileRunner,
    Reads,
    RecordedRule,
    RowArray,
    Rule,
    ScorePlugin,
    ScoreRule,
    SmallIntArray,
    SpecInfo,
    SpecReads,
    Value,
    as_scores,
)
from scheduler.state import NodeTable, Snapshot

_BYTES = 8 << 20
"""Bound on what one profile keeps, of answers and of bases each; but a few are kept whatever their size."""
_OVERHEAD = 2 << 10
"""Bytes of an answer beside its column, with room to spare."""
_MIN_ANSWERS = 16
_FEW_ROWS = 16
_MAX_SORTED = 64
"""Ways of sorting a profile's plugins that are kept beside one base; mostly there is one."""
_MAX_SMALL = 2**15 - 1
_KEPT = (Reads.NODE, Reads.PODS)
_KEY = "core.shared"

Ask = Callable[[Snapshot, RowArray], AnyArray]
Weighted = tuple[ScorePlugin, int]
Column = SmallIntArray | IntArray
"""Totals; in 16 bits where they fit, which is quicker to search."""
ReadOfSpec = str | Callable[[SpecInfo], Any]


class NotLocal(Exception):
    """A plugin's answers cannot be kept: it gave a score out of range, left itself out, or counted something.

    An out-of-range score has to be clamped and counted once per attempt, so such a class is decided without columns.
    """


def are_current(values: Iterable[Value], view: NodeView) -> bool:
    """Tell whether what was read of the cluster is still the same."""
    for read, value in values:  # noqa: SIM110 -- runs in every attempt, and a generator takes twice as long
        if read(view) != value:
            return False
    return True


# One plugin --------------------------------------------------------------------------------------------------------


class Side(Struct, eq=False):
    """One plugin at Filter, with its PreFilter, or at Score, with its PreScore.

    Attributes:
        rule_of: the plugin's method; None where it has none, and is asked in every attempt.
        is_asked: whether the plugin stands at Filter or Score, and not at PreFilter or PreScore alone.
        normalizes: whether the scores are normalised, and
        by_range: by nothing but the least and the largest of them.
        read: what was read of a spec so far, in that order.
        of_class: whether answers are made for each class: they follow from the pods on a node, or from what classes
            seldom have in common, such as requests.
    """

    plugin: Any
    is_filter: bool
    rule_of: Callable[[SpecInfo, Nodes], Rule | Reads] | None
    is_asked: bool
    weight: int = 0
    normalizes: bool = False
    by_range: bool = False
    read: dict[ReadOfSpec, None] = field(default_factory=dict)
    of_class: bool = False

    @property
    def is_shared(self) -> bool:
        """Whether pods of several classes are mostly alike in what is read of them."""
        return len(self.read) <= _MAX_READS and _OF_ONE_CLASS.isdisjoint(self.read)

    def record(self, spec: SpecInfo, nodes: Nodes) -> RecordedRule:
        """Return the rule for a spec and what it reads; what it reads of the spec is noted.

        Raises:
            Exception: whatever the plugin raises.
        """
        assert self.rule_of is not None
        if not self.is_shared:
            return nodes.record(self.rule_of, spec)
        reads = SpecReads(spec, self.read)
        recorded = nodes.record(self.rule_of, cast(SpecInfo, reads))
        reads.close()
        return recorded

    def key(self, spec: SpecInfo) -> Hashable:
        """Return what was read of a spec."""
        return comparable([getattr(spec, read) if isinstance(read, str) else read(spec) for read in self.read])

    def ask(self, recorded: RecordedRule, spec: SpecInfo, nodes: ManyNodes) -> Ask:
        """Return a function that answers about rows: 1 where a filter rejects them, or the raw scores.

        Raises (the function does):
            Exception: whatever the plugin raises; NotLocal where it does not keep to its word.
        """
        rule = recorded.rule
        if rule is None:
            pod = cast(PodInfo, ClassPod(cast(SpecInfo, SpecReads(spec, self.read))))
            ask = _rejections if self.is_filter else _raw_scores
            return lambda view, rows: ask(self.plugin, pod, view, rows)
        answer = rule

        def rejections(view: Snapshot, rows: RowArray) -> AnyArray:
            nodes.look(view, rows)
            rejected = np.zeros(len(rows), dtype=np.bool_)
            for failed in answer(rows):
                rejected |= failed
            return rejected

        def scores(view: Snapshot, rows: RowArray) -> AnyArray:
            nodes.look(view, rows)
            return as_scores(answer(rows), rows)

        return rejections if self.is_filter else scores


_OF_ONE_CLASS = frozenset({"class_key", "requests", "score_requests", "limits", "containers", "pod_level", "overhead"})
"""What of a spec differs between most classes."""
_MAX_READS = 64
"""More are made by a plugin that gives `spec.of` another function each time."""
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


def comparable(values: Iterable[Any]) -> tuple[Hashable, ...]:
    """Return values as a key: in short, where they cannot be hashed."""
    key = tuple(values)
    try:
        hash(key)
    except TypeError:
        return tuple([value if _is_hashable(value) else _digest(value) for value in key])
    return key


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _digest(value: Any) -> bytes:
    return blake2b(_ENCODER.encode(value), digest_size=16).digest()


def _rejections(plugin: FilterPlugin, pod: PodInfo, view: NodeView, rows: RowArray) -> AnyArray:
    state = CycleState()
    verdicts = plugin.filter(state, pod, view, rows)
    if state.counters:
        raise NotLocal
    return np.zeros(len(rows), dtype=np.bool_) if verdicts is None else verdicts.codes != 0


def _raw_scores(scorer: ScorePlugin, pod: PodInfo, view: NodeView, rows: RowArray) -> AnyArray:
    state = CycleState()
    score = scorer.score(state, pod, view, rows)
    if score is None or state.counters:
        raise NotLocal
    return score


def in_range(scores: AnyArray) -> AnyArray:
    """Return scores that are not normalised.

    Raises:
        NotLocal: one is out of range.
    """
    # Read as unsigned, a negative score is a huge one: one pass finds both.
    if len(scores) and np.maximum.reduce(scores.view(np.uint64)) > MAX_SCORE:
        raise NotLocal
    return scores


# What pods share ----------------------------------------------------------------------------------------------------


class SharedAnswer(Struct, eq=False):
    """What one plugin says of every node.

    Attributes:
        same: what it says of all of them, where that is the same; else
        column: its answers by row.
        position: in the log of the changes that it has taken in:
        of_pods: of nodes and the pods on them, or of nodes alone.
        normalized: what the plugin adds to every total, where the same raw score everywhere means that its normalised
            scores are the same, too; None in any other case, or while nobody has found out.
    """

    side: Side
    ask: Ask
    read: int
    same: int
    column: AnyArray | None
    position: int
    values: tuple[Value, ...]
    of_pods: bool
    normalized: int | None = None

    def at(self, rows: RowArray) -> AnyArray:
        """Return what the plugin says of rows."""
        return np.full(len(rows), self.same) if self.column is None else self.column.take(rows, mode="clip")

    @property
    def cost(self) -> int:
        """Return the bytes it takes."""
        return _OVERHEAD + (0 if self.column is None else self.column.nbytes)

    def catch_up(self, view: Snapshot) -> bool:
        """Take in the nodes that changed since the last use; False where it has to be made again."""
        log = view.table.log if self.of_pods else view.table.node_log
        if self.position == log.end:
            return True
        rows = log.since(self.position)
        # The log repeats rows, and to ask about some of them costs more for each than to ask about all.
        if rows is None or len(rows) > max(_FEW_ROWS, len(view.rows) // 4):
            return False
        answers = _checked(self.side, self.ask(view, rows))
        if len(self.side.read) != self.read:
            return False
        if self.column is not None:
            self.column[rows] = answers
        elif not (answers == self.same).all():
            return False
        self.position = log.end
        return True


def _checked(side: Side, answers: AnyArray) -> AnyArray:
    return answers if side.is_filter or side.normalizes else in_range(answers)


class SharedAnswers:
    """The answers of one profile's plugins about one table, those unused longest first.

    They are kept for all pods that are alike in what a plugin reads of the spec. Pods of many classes mostly differ in
    what they request, and share tolerations, selectors and images; so a plugin that reads these is asked once about all
    nodes, for all classes. A pod of a class of its own then costs little more than the plugins that look at its
    requests. Scores that follow from the pods of a node, too, are shared by classes that are alike in what these scores
    read, such as the CPU that the pod will use. Measurements are in docs/performance.md.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._layout = table.layout
        self._answers: OrderedDict[Hashable, SharedAnswer] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._answers)

    def answer(
        self,
        side: Side,
        recorded: RecordedRule,
        spec: SpecInfo,
        view: Snapshot,
        nodes: ManyNodes,
        *,
        of_pods: bool = False,
    ) -> SharedAnswer:
        """Return what a plugin says of every node, of the pods there too if asked for, as of now: what was kept for
        another pod of which it reads the same. Do not change it.

        Raises:
            Exception: whatever the plugin raises; NotLocal where it does not keep to its word.
        """
        if self._layout != self._table.layout:
            self._answers.clear()
            self._bytes, self._layout = 0, self._table.layout
        key = (id(side), of_pods, side.key(spec))
        cached = self._answers.get(key)
        if cached is not None:
            # The same functions, mostly made anew: what was read before them was the same.
            same = [value for _, value in cached.values] == [value for _, value in recorded.values]
            if same and cached.catch_up(view):
                self._answers.move_to_end(key)
                return cached
            del self._answers[key]
            self._bytes -= cached.cost
        fresh = _made(side, recorded, spec, view, nodes, of_pods=of_pods)
        # What the plugin reads of a spec is known for certain only now.
        self._answers[id(side), of_pods, side.key(spec)] = fresh
        self._bytes += fresh.cost
        while self._bytes > _BYTES and len(self._answers) > _MIN_ANSWERS:
            self._bytes -= self._answers.popitem(last=False)[1].cost
        return fresh


def _made(
    side: Side, recorded: RecordedRule, spec: SpecInfo, view: Snapshot, nodes: ManyNodes, *, of_pods: bool
) -> SharedAnswer:
    table = view.table
    position = (table.log if of_pods else table.node_log).end
    ask = side.ask(recorded, spec, nodes)
    answers = _checked(side, ask(view, view.rows))
    read, values, first = len(side.read), recorded.values, answers[0]
    # What is the same everywhere seldom stays so where it depends on the pods.
    if not of_pods and (answers == first).all():
        return SharedAnswer(side, ask, read, int(first), None, position, values, of_pods)
    # Scores that are in range: an eighth of the memory.
    is_small = not side.is_filter and not side.normalizes
    column = np.zeros(table.capacity, dtype=np.int8 if is_small else answers.dtype)
    if view.dense:
        column[: view.size] = answers
    else:
        column[view.rows] = answers
    return SharedAnswer(side, ask, read, 0, column, position, values, of_pods)


class Base(Struct, eq=False):
    """What pods that are alike in all that is read of them have in common, their requests and the like excepted.

    Attributes:
        reads: of each plugin that is not `Side.of_class`.
        values: what answers follow from, beside the nodes.
        filters, scores: the answers of plugins that look at the node alone;
        ranged: those that are normalised over the feasible rows.
        column: the sum of the scores; -1 where a filter rejects the node, or there is none.
        position: in the log of changes to nodes.
        sorted: by what the other plugins read, how a profile's are sorted.
    """

    reads: dict[int, Reads]
    values: tuple[Value, ...]
    filters: list[SharedAnswer]
    scores: list[SharedAnswer]
    ranged: list[SharedAnswer]
    column: Column
    position: int
    floor: int
    sorted: dict[tuple[Reads, ...], "SortedPlugins"] = field(default_factory=dict)

    def catch_up(self, view: Snapshot) -> bool:
        """Take in the nodes that changed since the last use; False where it has to be made again."""
        end = view.table.node_log.end
        if self.position == end:
            return True
        for answer in (*self.filters, *self.scores, *self.ranged):
            if not answer.catch_up(view):
                return False
        self.sum_up(view)
        self.position = end
        return True

    def sum_up(self, view: Snapshot) -> None:
        """Make the column."""
        column: AnyArray = self.column
        column[:] = self.floor + sum([answer.same * answer.side.weight for answer in self.scores])
        for answer in self.scores:
            if answer.column is not None:
                column += answer.column.astype(column.dtype) * answer.side.weight
        for answer in self.filters:
            if answer.column is not None:
                column[answer.column] = -1
            elif answer.same:
                column[:] = -1
        column[view.size :] = -1
        if not view.dense:
            empty = np.ones(len(column), dtype=np.bool_)
            empty[view.rows] = False
            column[empty] = -1


class SortedPlugins(Struct, eq=False):
    """The plugins of a profile, by what is read for them.

    Attributes:
        skippable: PreFilter plugins that need not be asked, and
        all_skippable: whether that is all of them.
        filters, pre_scores, scores: those that are asked in every attempt.
        of_class: whether each plugin that is `Side.of_class` is a part of the columns.
    """

    skippable: frozenset[str]
    all_skippable: bool
    filters: tuple[FilterPlugin, ...]
    pre_scores: tuple[PreScorePlugin, ...]
    scores: tuple[Weighted, ...]
    of_class: tuple[bool, ...]


# One profile -------------------------------------------------------------------------------------------------------


class ProfileAnswers:
    """What is kept of a profile's plugins about one table, and what their rules for many rows read by."""

    def __init__(self, profile: ProfileRunner, shared: SharedAnswers) -> None:
        self.profile, self.shared = profile, shared
        self.by_plugin: dict[tuple[int, bool], Side] = {}
        # Looked up once, as isinstance against a Protocol costs more than most plugins. One object stands at several
        # extension points, unless a wrapper is around it at one of them, which then wants to see every call.
        filters = {id(plugin) for plugin in profile.filters}
        for plugin in (*profile.pre_filters, *profile.filters):
            rule_of = plugin.filter_rule if isinstance(plugin, FilterRule) else None
            self.by_plugin[id(plugin), True] = Side(plugin, True, rule_of, id(plugin) in filters)
        weights = {id(scorer): weight for scorer, weight in profile.scores}
        watched = {plugin.name for plugin in profile.pre_scores if id(plugin) not in weights}
        for scorer in (*profile.pre_scores, *[scorer for scorer, _ in profile.scores]):
            rule = scorer.score_rule if isinstance(scorer, ScoreRule) else None
            if id(scorer) in weights and scorer.name in watched:
                rule = None
            side = Side(scorer, False, rule, id(scorer) in weights)
            side.weight, side.normalizes = weights.get(id(scorer), 0), profile.normalizes(scorer.name)
            side.by_range = bool(getattr(scorer, "by_range", False))
            self.by_plugin[id(scorer), False] = side
        largest = 1 + MAX_SCORE * sum(
            weight for scorer, weight in profile.scores if not profile.normalizes(scorer.name)
        )
        self.dtype: type[np.int16 | np.int64] = np.int16 if largest <= _MAX_SMALL else np.int64
        self.nodes: ManyNodes | None = None
        self.bases: OrderedDict[Hashable, Base] = OrderedDict()
        self._key_of: Callable[[SpecInfo], tuple[Any, ...]]
        self.of_class: list[Side] = []
        self._of_base: list[Side] = []
        self._part()

    def _part(self) -> None:
        """Part the plugins into those that are answered for by class and the others."""
        sides = [side for side in self.by_plugin.values() if side.rule_of is not None]
        self.of_class = [side for side in sides if side.of_class]
        self._of_base = [side for side in sides if not side.of_class]
        reads = list(dict.fromkeys([read for side in self._of_base for read in side.read]))
        names = [read for read in reads if isinstance(read, str)]
        functions = [read for read in reads if not isinstance(read, str)]
        # With one name, it would return no tuple.
        fields: Callable[[SpecInfo], Any] = attrgetter("namespace", "namespace", *names)
        self._key_of = lambda spec: (*fields(spec), *[function(spec) for function in functions])
        self._reads = self._count_reads()
        self.bases.clear()

    def _count_reads(self) -> int:
        return sum([len(side.read) for side in self._of_base])

    def base_of(self, pod: PodInfo, view: Snapshot) -> tuple[Base, ManyNodes]:
        """Return what a pod shares with others, and what rules for many rows read by.

        Raises:
            Exception: whatever a plugin raises; NotLocal where one does not keep to its word.
        """
        nodes = self.nodes
        if nodes is None or nodes.layout != view.layout:
            nodes = self.nodes = ManyNodes(view)
            self.bases.clear()
        while True:
            key = self._key_of(pod.spec)
            try:
                base = self.bases.get(key)
            except TypeError:
                key = comparable(key)
                base = self.bases.get(key)
            if base is not None:
                if are_current(base.values, view) and base.catch_up(view):
                    self.bases.move_to_end(key)
                    return base, nodes
                del self.bases[key]
            base = self._make_base(pod, view, nodes)
            if base is None or self._count_reads() != self._reads:
                # A plugin read more of the spec than is in the key, or is not for all pods that are alike in it.
                self._part()
                continue
            self.bases[key] = base
            limit = max(_MIN_ANSWERS, _BYTES // (_OVERHEAD + base.column.nbytes))
            while len(self.bases) > limit:
                self.bases.popitem(last=False)
            return base, nodes

    def _make_base(self, pod: PodInfo, view: Snapshot, nodes: ManyNodes) -> Base | None:
        """Return what a pod shares with others; None where it turns out that a plugin is answered for by class."""
        nodes.look(view, view.rows)
        column: AnyArray = np.zeros(view.table.capacity, dtype=self.dtype)
        base = Base({}, (), [], [], [], column, view.table.node_log.end, 0 if self.profile.scores else 1)
        values: list[Value] = []
        changed = False
        for side in self._of_base:
            known = len(side.read)
            recorded = side.record(pod.spec, nodes)
            reads = base.reads[id(side)] = recorded.reads
            values += recorded.values
            side.of_class = reads is Reads.PODS or not side.is_shared
            if reads is Reads.NODE and side.is_asked and not side.of_class:
                answer = self.shared.answer(side, recorded, pod.spec, view, nodes)
                (base.filters if side.is_filter else base.scores).append(answer)
                side.of_class = not side.is_shared
            changed |= len(side.read) != known or side.of_class
        if changed:
            return None
        base.values = tuple(values)
        base.ranged = [answer for answer in base.scores if answer.side.normalizes]
        base.scores = [answer for answer in base.scores if not answer.side.normalizes]
        for answer in base.ranged:
            self._normalize(pod, view, answer)
        base.sum_up(view)
        return base

    def _normalize(self, pod: PodInfo, view: Snapshot, answer: SharedAnswer) -> None:
        """Find out what a plugin adds to every total."""
        side = answer.side
        if answer.column is None and side.by_range and answer.normalized is None:
            state, raw = CycleState(), np.array([answer.same], dtype=np.int64)
            scores = self.profile.finish_scores(state, pod, view, view.rows[:1], side.plugin.name, side.weight, raw)
            if not state.counters:
                answer.normalized = int(scores.weighted[0])

    def sort(self, base: Base, reads: tuple[Reads, ...]) -> SortedPlugins:
        """Return how the plugins are sorted, given what those that are answered for by class read."""
        known = base.sorted.get(reads)
        if known is None:
            if len(base.sorted) >= _MAX_SORTED:
                base.sorted.clear()
            known = base.sorted[reads] = self._sort(base, reads)
        return known

    def _sort(self, base: Base, reads: tuple[Reads, ...]) -> SortedPlugins:
        of_class = {id(side): read for side, read in zip(self.of_class, reads, strict=True)}

        def reads_of(plugin: Any, *, is_filter: bool) -> Reads:
            side = self.by_plugin[id(plugin), is_filter]
            return of_class.get(id(side), base.reads.get(id(side), Reads.ANYTHING))

        profile = self.profile
        later: list[Weighted] = []
        for scorer, weight in profile.scores:
            reads_now, side = reads_of(scorer, is_filter=False), self.by_plugin[id(scorer), False]
            is_kept = reads_now in _KEPT and (not side.normalizes or not side.of_class)
            if reads_now is not Reads.NOTHING and not is_kept:
                later.append((scorer, weight))
        per_attempt = {scorer.name for scorer, _ in later}
        skippable = frozenset(
            plugin.name for plugin in profile.pre_filters if reads_of(plugin, is_filter=True) is not Reads.ANYTHING
        )
        return SortedPlugins(
            skippable=skippable,
            all_skippable=len(skippable) == len(profile.pre_filters),
            filters=tuple([plugin for plugin in profile.filters if reads_of(plugin, is_filter=True) is Reads.ANYTHING]),
            pre_scores=tuple(
                [
                    plugin
                    for plugin in profile.pre_scores
                    if plugin.name in per_attempt or reads_of(plugin, is_filter=False) is Reads.ANYTHING
                ]
            ),
            scores=tuple(later),
            of_class=tuple(
                [
                    side.is_asked and read in _KEPT and (side.is_filter or side.plugin.name not in per_attempt)
                    for side, read in zip(self.of_class, reads, strict=True)
                ]
            ),
        )


def answers_of_profile(profile: ProfileRunner, shared: SharedAnswers) -> ProfileAnswers:
    """Return what is kept of a profile, beside these answers."""
    memory = profile.memory.get(_KEY)
    if not isinstance(memory, ProfileAnswers) or memory.shared is not shared:
        memory = profile.memory[_KEY] = ProfileAnswers(profile, shared)
    return memory
