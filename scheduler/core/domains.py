"""Domains of a topology: racks, blocks and the like, and in which of them the members of a gang are tried first.

How many members a node has room for is known by columns (`RoomFilter`), so most domains that are too small are never
tried. What is counted is only an order: a domain is chosen when every member was decided in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from scheduler.answers import DomainRoom
from scheduler.core.feasible import FeasibleNodes, filter_all
from scheduler.framework import (
    BoolArray,
    CycleState,
    FloatArray,
    GangTopology,
    OverBudgetError,
    PluginError,
    PodInfo,
    ProfileRunner,
    RandomSource,
    RowArray,
    Work,
)
from scheduler.state import Snapshot

_MAX_CLASSES = 32
"""Kinds of members whose room is counted; a gang of more kinds finds its domain by being tried."""
_CLASS_UNITS, _NODES_PER_UNIT = 150, 20
"""Filtering all nodes for one pod, and summing up the room by domains, measured: 0.4 ms at 5,000 nodes."""


class Domain(Struct, frozen=True):
    """Nodes that share the values of labels.

    Attributes:
        labels: (key, value), that of the domain's own level first, then those of the wider levels; none for the whole
            cluster.
    """

    labels: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Name it as a selector would."""
        return ",".join(f"{key}={value}" for key, value in self.labels) or "the cluster"

    def rows(self, view: Snapshot) -> RowArray:
        """Return the rows of its nodes, as the labels are now."""
        rows = view.rows
        for key, value in self.labels:
            column = view.labels(key)
            code = column.index.get(value, -2)
            rows = rows[column.codes[rows] == code]
        return rows


WHOLE_CLUSTER = Domain()


class Level(Struct, frozen=True, eq=False):
    """The domains of one label.

    Attributes:
        keys: the label, and those of the wider levels.
        codes: by row, which domain the node is in; -1 where it lacks one of the labels.
        values: by domain, the codes of its labels' values, in the order of `keys`.
        possible: by domain, whether it holds all nodes that members have already.
        first: by domain, one of its rows.
    """

    keys: tuple[str, ...]
    codes: RowArray
    values: tuple[RowArray, ...]
    possible: BoolArray
    first: RowArray

    @property
    def count(self) -> int:
        """Number of domains."""
        return len(self.possible)

    def ranks(self, view: Snapshot) -> RowArray:
        """Return by domain its place in the order of names."""
        by_value = []
        for key, codes in zip(self.keys, self.values, strict=True):
            order = np.argsort(np.array([*view.labels(key).values, ""]))
            places = np.empty(len(order), dtype=np.intp)
            places[order] = np.arange(len(order))
            by_value.append(places[codes])
        ranks = np.empty(self.count, dtype=np.intp)
        ranks[np.lexsort(by_value[::-1]) if by_value else slice(None)] = np.arange(self.count)
        return ranks

    def with_nodes(self, view: Snapshot, nodes: Sequence[str]) -> Level:
        """Return the level where domains are possible that hold all of these nodes."""
        return replace(self, possible=_possible(view, self.codes, self.count, nodes))

    def domain(self, view: Snapshot, index: int) -> Domain:
        """Return one of them."""
        return Domain(
            tuple(
                (key, view.labels(key).values[int(codes[index])])
                for key, codes in zip(self.keys, self.values, strict=True)
            )
        )


def levels_of(view: Snapshot, topology: GangTopology) -> list[Level]:
    """Return the levels, the narrowest first; without labels that of the whole cluster, where the members may go
    anywhere."""
    levels = [level_of(view, topology.levels[index:], topology.nodes) for index in range(len(topology.levels))]
    if topology.anywhere:
        levels.append(level_of(view, (), topology.nodes))
    return levels


def level_of(view: Snapshot, keys: tuple[str, ...], nodes: Sequence[str]) -> Level:
    """Number the domains of the view's candidates by the path of their labels."""
    codes: RowArray = np.full(view.size, -1, dtype=np.intp)
    codes[view.candidates] = 0
    count = min(1, len(view.candidates))
    for key in reversed(keys):
        column = view.labels(key)
        lacks = (codes < 0) | (column.codes < 0) | (column.codes == column.index.get("", -1))
        pairs = np.where(lacks, -1, codes * len(column.values) + column.codes)
        known, inverse = np.unique(pairs, return_inverse=True)
        offset = int(bool(len(known)) and known[0] < 0)
        codes, count = inverse.reshape(-1).astype(np.intp) - offset, len(known) - offset
    first = np.zeros(count, dtype=np.intp)
    rows = (codes >= 0).nonzero()[0]
    first[codes[rows][::-1]] = rows[::-1]
    possible = _possible(view, codes, count, nodes)
    return Level(keys, codes, tuple(view.labels(key).codes[first] for key in keys), possible, first)


def _possible(view: Snapshot, codes: RowArray, count: int, nodes: Sequence[str]) -> BoolArray:
    possible = np.ones(count, dtype=np.bool_)
    codes_taken = {int(codes[row]) for name in nodes if (row := view.row(name)) >= 0}
    if codes_taken:
        possible[:] = False
        if len(codes_taken) == 1 and (index := codes_taken.pop()) >= 0:
            possible[index] = True
    return possible


class _Room(Struct, frozen=True, eq=False):
    """How many members of one kind each node would take.

    Attributes:
        at_most: by row, an upper bound: filters that look at pods elsewhere may let more members pass once others are
            placed.
        now: by row, as the filters are now.
        members: how many of the kind there are.
    """

    at_most: FloatArray
    now: FloatArray
    members: int


class DomainSearch:
    """The domains that a gang may be tried in, and what keeps it from all of them.

    Args:
        view: the cluster.
        levels: of the topology, the narrowest first (`levels_of`).
        nodes: of members that have one.
        pods: the members that may be placed, in the order in which they are.
        enough: how many of them must be.
        classes: tells which pods are equal.
        runner_of: returns a pod's profile.
        rng, work: of the attempt.
        ranks: by the labels of a level, its `ranks`: made where they are needed, and kept for other searches.
        slices: domains that take whole slices of so many members only; None without slices, and where some have nodes.

    Raises:
        OverBudgetError: it is more work than the attempt may be.
    """

    def __init__(
        self,
        view: Snapshot,
        levels: Sequence[Level],
        nodes: Sequence[str],
        pods: Sequence[PodInfo],
        enough: int,
        classes: Callable[[PodInfo], object],
        runner_of: Callable[[PodInfo], ProfileRunner],
        rng: RandomSource,
        work: Work,
        slices: tuple[Level, int] | None = None,
        ranks: dict[tuple[str, ...], RowArray] | None = None,
    ) -> None:
        self._view = view
        self._levels = levels
        self._nodes = nodes
        self._slices = slices
        self._ranks = {} if ranks is None else ranks
        self._pods = pods
        self._enough = enough
        self._runner_of = runner_of
        self._rng = rng
        self._work = work
        counts: dict[object, int] = {}
        heads: dict[object, PodInfo] = {}
        for pod in pods:
            key = classes(pod)
            counts[key] = counts.get(key, 0) + 1
            heads.setdefault(key, pod)
        self._rooms = [self._room_of(heads[key], count) for key, count in list(counts.items())[:_MAX_CLASSES]]
        self._uncounted = sum(list(counts.values())[_MAX_CLASSES:])
        self._load: FloatArray | None = None

    def all(self) -> Iterator[Domain]:
        """Yield the domains by name, however much room they have."""
        for level in self._levels:
            named = [level.domain(self._view, int(index)) for index in level.possible.nonzero()[0]]
            yield from sorted(named, key=lambda domain: domain.labels)

    def obstacle(self) -> str:
        """Return why there is no domain at all, or ""."""
        if any(level.possible.any() for level in self._levels):
            return ""
        widest = self._levels[-1]
        if not widest.count:
            missing = [key for key in widest.keys if not (self._view.labels(key).codes >= 0).any()]
            return f"no node has the label {' and the label '.join(missing or widest.keys)}"
        names = sorted({self._domain_of(widest, name) for name in self._nodes} - {""})
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        return f"its members run in {shown}, and no domain of {widest.keys[0]} holds all of them"

    def report(self, shown: int) -> list[DomainRoom]:
        """Return so many domains of each level, those with most room first."""
        rooms = []
        for level in self._levels:
            likely, _, _ = self._sums(level)
            nodes = np.bincount(level.codes[level.codes >= 0], minlength=level.count)
            indices = level.possible.nonzero()[0]
            best = indices[np.argsort(-likely[indices], kind="stable")[:shown]]
            rooms += [
                DomainRoom(str(level.domain(self._view, index)), int(nodes[index]), int(likely[index]))
                for index in best.tolist()
            ]
        return rooms

    @property
    def count(self) -> int:
        """Number of domains of all levels that members may go to."""
        return sum(int(level.possible.sum()) for level in self._levels)

    def beside(self, domain: Domain) -> int:
        """Return how many domains there are at the level of one, itself among them."""
        keys = tuple(key for key, _ in domain.labels)
        return sum(int(level.possible.sum()) for level in self._levels if level.keys == keys)

    def _domain_of(self, level: Level, node: str) -> str:
        row = self._view.row(node)
        if row < 0:
            return ""
        code = int(level.codes[row])
        return f"node {node} without the label" if code < 0 else str(level.domain(self._view, code))

    def __iter__(self) -> Iterator[Domain]:
        """Yield the domains in the order in which they are tried; where none looks large enough, the one that is the
        least too small, so that its nodes say what is missing.

        First those where all members find room, then those with room for enough, then those that filters keep members
        from and where that may change while members are placed. Among these the narrowest level; in it the domain with
        the least room to spare, which keeps the large ones free; of equal ones that whose nodes the load-aware plugins
        score best; then by name.
        """
        sums = [self._sums(level) for level in self._levels]
        everybody = len(self._pods)
        tried = False
        for least, most in ((everybody, None), (self._enough, everybody)):
            for level, (likely, possible, multiples) in zip(self._levels, sums, strict=True):
                chosen = level.possible & (likely >= least) & (possible >= self._enough)
                if most is not None:
                    chosen &= likely < most
                for index in self._ordered(level, chosen, multiples if most is None else -likely):
                    tried = True
                    yield level.domain(self._view, index)
        for level, (likely, possible, _) in zip(self._levels, sums, strict=True):
            chosen = level.possible & (likely < self._enough) & (possible >= self._enough)
            for index in self._ordered(level, chosen, -likely):
                tried = True
                yield level.domain(self._view, index)
        if not tried:
            yield from self._roomiest(sums)

    def with_room(self, before: DomainSearch) -> Iterator[Domain]:
        """Yield the domains with room for enough members, of the narrowest level that has any: first those where most
        had room already on another view, then those with the least room to spare, then by name."""
        for level, was in zip(self._levels, before._levels, strict=True):
            likely, _, multiples = self._sums(level)
            indices = (level.possible & (likely >= self._enough)).nonzero()[0]
            if not len(indices):
                continue
            had = np.minimum(before._sums(was)[0], self._enough)
            order = np.lexsort((self._ranks_of(level)[indices], multiples[indices], -had[indices]))
            for index in indices[order].tolist():
                yield level.domain(self._view, index)
            return

    def _roomiest(self, sums: Sequence[tuple[FloatArray, FloatArray, FloatArray]]) -> Iterator[Domain]:
        """Yield the domain of the widest level that has room for most members."""
        for level, (likely, possible, _) in reversed(list(zip(self._levels, sums, strict=True))):
            indices = level.possible.nonzero()[0]
            if len(indices):
                best = max(indices.tolist(), key=lambda index: (likely[index], possible[index], -index))
                yield level.domain(self._view, best)
                return

    def _ordered(self, level: Level, chosen: BoolArray, first: FloatArray) -> list[int]:
        indices = chosen.nonzero()[0]
        if len(indices) < 2:
            return [int(index) for index in indices]
        loads, ranks = self._loads(level)[indices], self._ranks_of(level)[indices]
        ordered: list[int] = indices[np.lexsort((ranks, -loads, first[indices]))].tolist()
        return ordered

    def _ranks_of(self, level: Level) -> RowArray:
        ranks = self._ranks.get(level.keys)
        if ranks is None:
            ranks = self._ranks[level.keys] = level.ranks(self._view)
        return ranks

    def _sums(self, level: Level) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return by domain for how many members there is room as filters are now, for how many at most, and how often
        the whole gang would fit."""
        likely = np.full(level.count, float(self._uncounted))
        possible = likely.copy()
        multiples = np.full(level.count, np.inf)
        for room in self._rooms:
            now = self._by_domain(level, room.now)
            likely += np.minimum(now, room.members)
            possible += np.minimum(self._by_domain(level, room.at_most), room.members)
            multiples = np.minimum(multiples, now / room.members)
        return likely, possible, multiples

    def _by_domain(self, level: Level, room: FloatArray) -> FloatArray:
        """Return the room of each domain; where there are slices of equal members, in whole ones."""
        if self._slices is not None and len(self._rooms) == 1:
            slices, size = self._slices
            whole = _summed(slices, room) // size * size
            room = np.zeros(len(room))
            # Each slice's room stands at one of its nodes: its domain is within one of the level.
            room[slices.first] = whole
        return _summed(level, room)

    # Members by columns ---------------------------------------------------------------------------------------------

    def _room_of(self, pod: PodInfo, members: int) -> _Room:
        """Count the room for members like a pod; no more than there are members."""
        view, runner = self._view, self._runner_of(pod)
        self._work.charge(
            _CLASS_UNITS + view.size * (1 + len(self._levels)) // _NODES_PER_UNIT, "kinds of members x nodes"
        )
        room: FloatArray = np.full(view.size, float(len(self._pods)))
        for plugin in runner.rooms:
            room = np.minimum(room, plugin.room(pod.spec, view))
        room = np.maximum(room, 0.0)
        filtered = self._filtered(pod, CycleState(self._rng, work=self._work))
        if filtered is None:
            return _Room(room, room, members)
        beyond = [
            rejection.rows for rejection in filtered.diagnosis.rejections if rejection.plugin in runner.pod_watchers
        ]
        return _Room(_only(room, np.concatenate((filtered.rows, *beyond))), _only(room, filtered.rows), members)

    def _filtered(self, pod: PodInfo, state: CycleState) -> FeasibleNodes | None:
        """Filter all nodes for a pod; None where they cannot be asked: trying says why."""
        runner = self._runner_of(pod)
        try:
            outcome = runner.run_pre_filter(state, pod, self._view)
            return filter_all(self._view, pod, runner, state, outcome) if outcome[0].is_success else None
        except PluginError:
            return None

    def _loads(self, level: Level) -> FloatArray:
        """Return by domain what the load-aware plugins of the first member's profile score its nodes, in the mean; 0
        without such plugins."""
        if self._load is None:
            self._load = self._scored_by_load(self._pods[0])
        rows = ~np.isnan(self._load) & (level.codes >= 0)
        codes = level.codes[rows]
        total = np.bincount(codes, self._load[rows], minlength=level.count)
        mean: FloatArray = total / np.maximum(np.bincount(codes, minlength=level.count), 1)
        return mean

    def _scored_by_load(self, pod: PodInfo) -> FloatArray:
        """Return the scores by row, NaN where the pod cannot go; NaN everywhere if plugins fail, or it is too much:
        trying the first domain says that."""
        scored: FloatArray = np.full(self._view.size, np.nan)
        runner = self._runner_of(pod)
        if not runner.load_scores:
            return scored
        state = CycleState(self._rng, work=self._work)
        names = {scorer.name for scorer, _ in runner.load_scores}
        pre_scores = [plugin for plugin in runner.pre_scores if plugin.name in names]
        try:
            filtered = self._filtered(pod, state)
            if filtered is None or not len(rows := filtered.rows):
                return scored
            scores = runner.run_scores(state, pod, self._view, rows, pre_scores, runner.load_scores)
        except (PluginError, OverBudgetError):
            return scored
        scored[rows] = 0.0
        for score in scores:
            scored[rows] += score.weighted
        return scored


def _only(room: FloatArray, rows: RowArray) -> FloatArray:
    """Return the room of some rows, and none elsewhere."""
    result: FloatArray = np.zeros(len(room))
    result[rows] = room[rows]
    return result


def _summed(level: Level, room: FloatArray) -> FloatArray:
    known = level.codes >= 0
    return np.bincount(level.codes[known], room[known], minlength=level.count).astype(np.float64)
