"""Counts of pods by selector, and of the affinity terms that pods have, kept up to date as pods come and go.

Selectors are evaluated once per *label class*: the pods that agree in namespace, in whether they are being deleted, and
in the label keys that some selector in use mentions. A count that was asked for once is then moved by one addition per
pod, and read per topology domain.

Upstream counts the pods that match a selector on all nodes in each PreFilter: 30,000 label maps at 5,000 nodes. Here a
pod that comes costs an addition per query that its class answers, and an attempt reads a finished array: 3,000
decisions per second with a hard zone spread became 10,600 (docs/performance.md, with the columns per class).

Terms are counted the other way round: which pods have a term is kept per term, and whether a term matches an incoming
pod is remembered by the pod's namespace and labels.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from scheduler.framework import (
    AffinityTerm,
    IntArray,
    NodeSet,
    Objects,
    PodInfo,
    PodQuery,
    PodTerms,
    TermCounts,
    TermKind,
)
from scheduler.state.holdings import Holdings
from scheduler.state.objects import ObjectStore
from scheduler.state.table import NodeTable
from scheduler.state.tallies import SumPool, Tally

_MOST_QUERIES = 2048
"""Queries answered incrementally at once; the one unused longest is dropped."""
_MOST_ANSWERS = 4096
"""Sets of labels for which the matching terms are remembered."""
_PRUNE_AT = 4096
"""Specs whose terms are remembered; beyond that, terms that no pod has any more are looked for."""

_ClassKey = tuple[str, bool, tuple[str | None, ...]]


class _LabelClass:
    """Pods that no selector in use tells apart."""

    __slots__ = ("alive", "feeds", "labels", "namespace", "tally")

    def __init__(self, namespace: str, alive: bool, labels: Mapping[str, str], tally: Tally) -> None:
        self.namespace = namespace
        self.alive = alive
        self.labels = labels
        self.tally = tally
        self.feeds: list[Tally] = []

    def answers(self, query: PodQuery) -> bool:
        """Tell whether the pods of the class are among those asked for."""
        if query.alive and not self.alive:
            return False
        return all(clause.matches(self.namespace, self.labels) for clause in query.clauses)


class _TermTally:
    """A term, and how many pods have it on each node."""

    __slots__ = ("kind", "tally", "term", "weight")

    def __init__(self, kind: TermKind, weight: int, term: AffinityTerm, pool: SumPool) -> None:
        self.kind = kind
        self.weight = weight
        self.term = term
        self.tally = Tally(pool)


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
        self._keys: tuple[str, ...] = ()
        self._classes: dict[_ClassKey, _LabelClass] = {}
        self._queries: OrderedDict[PodQuery, Tally] = OrderedDict()
        self._terms: dict[tuple[TermKind, int, AffinityTerm], _TermTally] = {}
        self._terms_of_spec: dict[bytes, tuple[_TermTally, ...]] = {}
        self._terms_version = 0
        self._answers: dict[tuple[str, frozenset[tuple[str, str]]], dict[TermKind, tuple[_TermTally, ...]]] = {}
        self._answers_for = (-1, -1)
        self.holdings = Holdings()

    # Feeding --------------------------------------------------------------------------------------------------------

    def add(self, row: int, pod: PodInfo, sign: int) -> None:
        """Count a pod on a row (+1), or no longer (-1)."""
        if pod.spec.holds:
            self.holdings.add(row, pod, sign)
        topology = self._table.topology
        key = self._class_key(pod)
        label_class = self._classes.get(key)
        if label_class is None:
            label_class = self._classes[key] = self._new_class(pod)
            label_class.feeds = [tally for query, tally in self._queries.items() if label_class.answers(query)]
        label_class.tally.add(row, sign, topology)
        for tally in label_class.feeds:
            tally.add(row, sign, topology)
        if not label_class.tally.total:
            del self._classes[key]
        if pod.spec.terms.any:
            for term_tally in self._term_tallies(pod.spec.class_key, pod.spec.terms):
                term_tally.tally.add(row, sign, topology)

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

    @property
    def has_terms(self) -> bool:
        """Whether any pod may have a term."""
        return bool(self._terms)

    def terms_matching(self, pod: PodInfo, kind: TermKind) -> list[TermCounts]:
        """Return the terms of a kind that match a pod, with how many pods have them in each domain."""
        if not self._terms:
            return []
        return [
            TermCounts(
                term_tally.term, term_tally.weight, self._domains(term_tally.tally, term_tally.term.topology_key, None)
            )
            for term_tally in self._matching(pod)[kind]
            if term_tally.tally.total
        ]

    # Internals ------------------------------------------------------------------------------------------------------

    def _domains(self, tally: Tally, key: str, nodes: NodeSet | None) -> IntArray:
        column = self._table.labels(key)
        return tally.by_domain(key, column.codes, len(column.values), nodes, self._table.topology)

    def _class_key(self, pod: PodInfo) -> _ClassKey:
        labels = pod.labels
        return pod.namespace, pod.deleting, tuple([labels.get(key) for key in self._keys])

    def _new_class(self, pod: PodInfo) -> _LabelClass:
        labels = {key: pod.labels[key] for key in self._keys if key in pod.labels}
        return _LabelClass(pod.namespace, not pod.deleting, labels, Tally(self._pool))

    def _tally(self, query: PodQuery) -> Tally:
        tally = self._queries.get(query)
        if tally is not None:
            self._queries.move_to_end(query)
            return tally
        keys = frozenset[str]().union(*(clause.selector.keys for clause in query.clauses))
        if not keys <= set(self._keys):
            self._split(keys)
        if len(self._queries) >= _MOST_QUERIES:
            _, oldest = self._queries.popitem(last=False)
            for label_class in self._classes.values():
                if oldest in label_class.feeds:
                    label_class.feeds.remove(oldest)
        tally = self._queries[query] = Tally(self._pool)
        topology = self._table.topology
        for label_class in self._classes.values():
            if label_class.answers(query):
                label_class.feeds.append(tally)
                for row, count in label_class.tally.rows.items():
                    tally.add(row, count, topology)
        return tally

    def _split(self, keys: Iterable[str]) -> None:
        """Take more label keys into account: the classes are made again from the pods, once per new key."""
        self._keys = tuple(sorted({*self._keys, *keys}))
        self._classes = {}
        topology = self._table.topology
        for row, pod in self._everyone():
            key = self._class_key(pod)
            label_class = self._classes.get(key)
            if label_class is None:
                label_class = self._classes[key] = self._new_class(pod)
            label_class.tally.add(row, 1, topology)
        for label_class in self._classes.values():
            label_class.feeds = [tally for query, tally in self._queries.items() if label_class.answers(query)]

    def _term_tallies(self, class_key: bytes, terms: PodTerms) -> tuple[_TermTally, ...]:
        term_tallies = self._terms_of_spec.get(class_key)
        if term_tallies is None:
            if len(self._terms_of_spec) >= _PRUNE_AT:
                self._prune()
            term_tallies = self._terms_of_spec[class_key] = tuple(self._intern(*entry) for entry in terms_of(terms))
        return term_tallies

    def _intern(self, kind: TermKind, weight: int, term: AffinityTerm) -> _TermTally:
        key = (kind, weight, term)
        term_tally = self._terms.get(key)
        if term_tally is None:
            term_tally = self._terms[key] = _TermTally(kind, weight, term, self._pool)
            self._terms_version += 1
        return term_tally

    def _prune(self) -> None:
        """Forget terms that no pod has any more."""
        self._terms_of_spec.clear()
        self._terms = {key: term_tally for key, term_tally in self._terms.items() if term_tally.tally.total}
        self._terms_version += 1

    def _matching(self, pod: PodInfo) -> dict[TermKind, tuple[_TermTally, ...]]:
        versions = (self._terms_version, self.objects.generation("Namespace"))
        if versions != self._answers_for or len(self._answers) > _MOST_ANSWERS:
            self._answers.clear()
            self._answers_for = versions
        key = (pod.namespace, frozenset(pod.labels.items()))
        answer = self._answers.get(key)
        if answer is None:
            labels = namespace_labels(self.objects, pod.namespace)
            by_kind: dict[TermKind, list[_TermTally]] = {kind: [] for kind in TermKind}
            for term_tally in self._terms.values():
                if term_tally.term.matches(pod.namespace, pod.labels, labels):
                    by_kind[term_tally.kind].append(term_tally)
            answer = self._answers[key] = {kind: tuple(terms) for kind, terms in by_kind.items()}
        return answer


def namespace_labels(objects: Objects, namespace: str) -> Mapping[str, str]:
    """Return a Namespace's labels; none for one that is not known, as upstream assumes."""
    namespace_object = objects.get("Namespace", "", namespace)
    labels: Mapping[str, str] = {} if namespace_object is None else namespace_object.metadata.labels
    return labels


def terms_of(terms: PodTerms) -> Iterable[tuple[TermKind, int, AffinityTerm]]:
    """Yield every term with its kind and weight; 0 for a required one."""
    for term in terms.affinity:
        yield TermKind.AFFINITY, 0, term
    for term in terms.anti_affinity:
        yield TermKind.ANTI_AFFINITY, 0, term
    for weighted in terms.preferred_affinity:
        yield TermKind.PREFERRED_AFFINITY, weighted.weight, weighted.term
    for weighted in terms.preferred_anti_affinity:
        yield TermKind.PREFERRED_ANTI_AFFINITY, weighted.weight, weighted.term
