"""Counts of pods by selector, and of the affinity terms that pods have, kept up to date as pods come and go.

A count that was asked for once is moved by one addition per pod, and read per topology domain. Upstream counts the pods
that match a selector on all nodes in each PreFilter: 30,000 label maps at 5,000 nodes. Here a pod that comes costs an
addition per query that its label group answers, and an attempt reads a finished array: 3,000 decisions per second with
a hard zone spread became 10,600 (docs/performance.md, with the columns per class).

A pod that asks more than is worth keeping uses `weigh` instead, which keeps nothing.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np

from scheduler.framework import (
    Holder,
    IntArray,
    NodeSet,
    PodAmounts,
    PodInfo,
    PodQuery,
    PodWeights,
    Resources,
    TermCounts,
    TermKind,
)
from scheduler.kube.primitives import Selector
from scheduler.state.columns import grown
from scheduler.state.labelgroups import (
    LabelGroup,
    LabelGroups,
    LabelKey,
    QueryCount,
    WeightedQuery,
    label_sets,
    labels_and_keys,
    required_labels,
    weigh,
    weights_by_domain,
)
from scheduler.state.objects import ObjectStore
from scheduler.state.table import NodeTable
from scheduler.state.tallies import SumPool, Tally
from scheduler.state.termcounts import TermTallies

_MAX_QUERIES = 2048
"""Queries answered incrementally at once; the one unused longest is dropped."""
_MAX_UNASKED = 1024
"""A query is dropped after so many pods that it counted in vain: counting again costs about as much."""
_NO_DOMAINS: IntArray = np.zeros(1, dtype=np.int64)
_NO_DOMAINS.flags.writeable = False


class PodAggregates:
    """The counts over one node table. Its owner reports every pod that comes onto or leaves a row."""

    def __init__(
        self, table: NodeTable, objects: ObjectStore, everyone: Callable[[], Iterable[tuple[int, PodInfo]]]
    ) -> None:
        """`everyone` yields every pod on a row of the table, with its row."""
        self._everyone = everyone
        self.objects = objects
        self._table = table
        self._pool = SumPool()
        self._groups = LabelGroups()
        self._queries: OrderedDict[PodQuery, QueryCount] = OrderedDict()
        self._queries_by_label: dict[LabelKey | None, dict[QueryCount, None]] = {}
        self._terms = TermTallies(self._pool, table, objects)
        self.holdings = Holdings()

    # Feeding --------------------------------------------------------------------------------------------------------

    def add(self, row: int, pod: PodInfo, sign: int) -> None:
        """Count a pod on a row (+1), or no longer (-1)."""
        if pod.spec.holds:
            self.holdings.add(row, pod, sign)
        topology = self._table.topology
        group = self._groups.find(pod)
        if group is None:
            group = self._groups.make(pod)
            group.feeds = dict.fromkeys(self._queries_answered_by(group))
        count = group.rows.get(row, 0) + sign
        group.total += sign
        if count:
            group.rows[row] = count
        else:
            del group.rows[row]
        if group.feeds:
            self._feed(group, row, sign, topology)
        if not group.total:
            self._groups.drop(group)
        if pod.spec.terms.any:
            self._terms.add(row, pod, sign, topology)

    def add_all(self) -> None:
        """Count all pods, where none has been counted yet."""
        for row, pod in self._everyone():
            self.add(row, pod, 1)

    # Asking ---------------------------------------------------------------------------------------------------------

    def by_row(self, query: PodQuery) -> IntArray:
        """Return the pods asked for per row."""
        return self._tally(query).by_row(self._table.size, self._table.topology)

    def by_domain(self, query: PodQuery, key: str, nodes: NodeSet | None = None) -> IntArray:
        """Return the pods asked for per domain of a topology key."""
        return self._domains(self._tally(query), key, nodes)

    def weigh(self, terms: Sequence[WeightedQuery], key: str, nodes: NodeSet | None = None) -> PodWeights:
        """Return the weights of the pods asked for per domain of a topology key, and how many they are."""
        column = self._table.labels(key)
        weights = weigh(self._groups, terms) if column.values else {}
        return weights_by_domain(weights, column.codes, len(column.values), nodes)

    def label_sets(self, selector: Selector) -> int:
        """Return with how many sets of pod labels a selector has to be compared."""
        return label_sets(self._groups, selector)

    @property
    def label_set_count(self) -> int:
        """Number of sets of labels that pods have."""
        return len(self._groups)

    @property
    def has_terms(self) -> bool:
        """Whether any pod may have a term."""
        return bool(self._terms)

    @property
    def bundled_terms(self) -> int:
        """Number of the terms of pods that have more than a few."""
        return self._terms.bundled

    def terms_matching(self, pod: PodInfo, kind: TermKind) -> list[TermCounts]:
        """Return the terms of a kind that match a pod, with how many pods have them in each domain."""
        if not self._terms:
            return []
        counts = []
        for match in self._terms.matching(pod, kind):
            if match.tally.total:
                in_domains = self._domains(match.tally, match.term.topology_key, None)
                # The weights of several preferred terms are added up already.
                times = match.times if not match.weight else 1
                counts.append(TermCounts(match.term, match.weight, in_domains if times == 1 else in_domains * times))
        return counts

    # Internals ------------------------------------------------------------------------------------------------------

    def _domains(self, tally: Tally, key: str, nodes: NodeSet | None) -> IntArray:
        column = self._table.labels(key)
        if not column.values:
            return _NO_DOMAINS
        return tally.by_domain(key, column.codes, len(column.values), nodes, self._table.topology)

    def _feed(self, group: LabelGroup, row: int, sign: int, topology: int) -> None:
        in_vain: list[QueryCount] = []
        for query in group.feeds:
            query.add(row, sign, topology)
            query.unasked += 1
            if query.unasked > _MAX_UNASKED:
                in_vain.append(query)
        for query in in_vain:
            self._drop_query(query)

    def _tally(self, query: PodQuery) -> Tally:
        tally = self._queries.get(query)
        if tally is not None:
            self._queries.move_to_end(query)
            tally.unasked = 0
            return tally
        if len(self._queries) >= _MAX_QUERIES:
            self._drop_query(next(iter(self._queries.values())))
        tally = self._queries[query] = QueryCount(query, self._pool)
        for label in _listed_under(query):
            self._queries_by_label.setdefault(label, {})[tally] = None
        topology = self._table.topology
        for group in self._groups.answering(query):
            group.feeds[tally] = None
            for row, count in group.rows.items():
                tally.add(row, count, topology)
        return tally

    def _drop_query(self, query: QueryCount) -> None:
        del self._queries[query.query]
        for label in _listed_under(query.query):
            queries = self._queries_by_label[label]
            del queries[query]
            if not queries:
                del self._queries_by_label[label]
        for group in self._groups.candidates(query.query):
            group.feeds.pop(query, None)
        query.forget_all()

    def _queries_answered_by(self, group: LabelGroup) -> Iterable[QueryCount]:
        if not self._queries:
            return
        for label in (None, *labels_and_keys(group.labels)):
            for query in self._queries_by_label.get(label, ()):
                if group.answers(query.query):
                    yield query


def _listed_under(query: PodQuery) -> Sequence[LabelKey | None]:
    """Return the labels of which a pod must have one to be asked for; None where it need not have any."""
    return required_labels(clause.selector for clause in query.clauses) or (None,)


class Holdings:
    """Pods by key of `SpecInfo.holds`, and how many volumes that may have to be attached there are per row."""

    def __init__(self) -> None:
        self._holders: dict[str, dict[str, Holder]] = {}
        self._attachable: IntArray = np.zeros(0, dtype=np.int64)

    def add(self, row: int, pod: PodInfo, sign: int) -> None:
        """Take a pod in that came onto a row (+1), or drop it (-1)."""
        for key in pod.spec.holds:
            if sign > 0:
                self._holders.setdefault(key, {})[pod.uid] = Holder(row, pod)
                continue
            holders = self._holders.get(key, {})
            holders.pop(pod.uid, None)
            if not holders:
                self._holders.pop(key, None)
        if pod.spec.attachable:
            if row >= len(self._attachable):
                self._attachable = grown(self._attachable, 2 * row + 64)
            self._attachable[row] += sign * pod.spec.attachable

    def of(self, key: str) -> Collection[Holder]:
        """Return the pods that hold something."""
        return self._holders.get(key, {}).values()

    def attachable(self, size: int) -> IntArray:
        """Return how many volumes of pods on each row may have to be attached."""
        if size > len(self._attachable):
            self._attachable = grown(self._attachable, size)
        return self._attachable[:size]


def moved_holders(base: Collection[Holder], key: str, moves: Iterable[tuple[int, PodInfo, int]]) -> Collection[Holder]:
    """Return the holders after some pods were added and removed."""
    changed = [(row, pod, sign) for row, pod, sign in moves if key in pod.spec.holds]
    if not changed:
        return base
    holders = {holder.pod.uid: holder for holder in base}
    for row, pod, sign in changed:
        if sign > 0:
            holders[pod.uid] = Holder(row, pod)
        else:
            holders.pop(pod.uid, None)
    return holders.values()


Sums = Mapping[str, Resources]


class NamespaceSums:
    """What the pods with a node request, added up by namespace: quotas are judged by it. A sum that a plugin has asked
    for once is kept up to date from then on; no other sum is kept.

    Upstream's CapacityScheduling counts along in Reserve and in handlers of pod events, and stays wrong once it has
    missed one. These sums follow from the pods in the cache, as everything else here.

    The owner reports every pod that is placed or removed, also on nodes that are not known.
    """

    def __init__(self, everyone: Callable[[], Iterable[PodInfo]]) -> None:
        """`everyone` yields every pod with a node."""
        self._everyone = everyone
        self._sums: dict[PodAmounts, dict[str, dict[str, int]]] = {}

    def sums_of(self, amounts: PodAmounts) -> Sums:
        """Return the sums of what a function says of a pod; what sums up to 0 is left out. A live mapping."""
        sums = self._sums.get(amounts)
        if sums is None:
            sums = self._sums[amounts] = {}
            for pod in self._everyone():
                _add(sums, pod.namespace, amounts(pod), 1)
        return sums

    def add(self, pod: PodInfo, sign: int) -> None:
        """Count a pod (+1), or no longer (-1)."""
        for amounts, sums in self._sums.items():
            _add(sums, pod.namespace, amounts(pod), sign)

    def replace(self, old: PodInfo, new: PodInfo) -> None:
        """Count a pod as it is now instead of as it was."""
        for amounts, sums in self._sums.items():
            before, after = amounts(old), amounts(new)
            if before != after:
                _add(sums, old.namespace, before, -1)
                _add(sums, new.namespace, after, 1)


def moved_sums(sums: Sums, amounts: PodAmounts, moves: Iterable[tuple[PodInfo, int]]) -> Sums:
    """Return the sums after pods were put on nodes (+1) or taken from them (-1)."""
    changed: dict[str, dict[str, int]] = {}
    for pod, sign in moves:
        total = changed.get(pod.namespace)
        if total is None:
            total = changed[pod.namespace] = dict(sums.get(pod.namespace, {}))
        _count(total, amounts(pod), sign)
    return {**sums, **changed}


def _add(sums: dict[str, dict[str, int]], namespace: str, amounts: Resources, sign: int) -> None:
    total = sums.setdefault(namespace, {})
    _count(total, amounts, sign)
    if not total:
        del sums[namespace]


def _count(total: dict[str, int], amounts: Resources, sign: int) -> None:
    for name, amount in amounts.items():
        if left := total.get(name, 0) + sign * amount:
            total[name] = left
        else:
            total.pop(name, None)
