"""The affinity terms that pods on nodes have: which of them mean an incoming pod, and how many pods have them where.

Counted the other way round than selectors of incoming pods: which pods have a term is kept per term, and whether a term
means an incoming pod is remembered by the pod's namespace and labels. A term is listed by a label that decides it, so
that a pod is compared only with the terms that its labels make a difference to.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scheduler.framework import AffinityTerm, Objects, PodInfo, PodTerms, TermKind
from scheduler.kube.primitives import Selector
from scheduler.state.labelgroups import LabelKey, deciding_labels, labels_and_keys
from scheduler.state.objects import ObjectStore
from scheduler.state.table import NodeTable
from scheduler.state.tallies import SumPool, Tally

_MAX_ANSWERS = 4096
"""Sets of labels for which the matching terms are remembered."""
_PRUNE_AT = 4096
"""Specs whose terms are remembered; beyond that, terms that no pod has any more are looked for."""
_MAX_IDLE = 256
"""Terms that no pod has any more and that are kept all the same: a pod is often replaced by one like it."""
_MAX_SHARED = 8
"""A pod with more terms has them counted as one: an ordinary one may share each of its few with other pods."""


class _CountedTerm:
    """A term, and the count of the pods that have it.

    Attributes:
        bundled: the count is that of all terms of a spec.
        always: the term means a pod without labels.
    """

    __slots__ = ("always", "bundled", "kind", "tally", "term", "weight")

    def __init__(self, kind: TermKind, weight: int, term: AffinityTerm, tally: Tally, bundled: bool) -> None:
        self.kind = kind
        self.weight = weight
        self.term = term
        self.tally = tally
        self.bundled = bundled
        self.always = term.selector.matches({})


class _TermMatch(NamedTuple):
    """A term that means a pod; of a bundle, `times` terms of a kind and topology key whose weights are added up."""

    tally: Tally
    term: AffinityTerm
    weight: int
    times: int = 1


_Matches = dict[tuple[Tally, TermKind, str | AffinityTerm], _TermMatch]


class _Scope:
    """The terms of one choice of namespaces.

    Attributes:
        always: those that mean a pod without labels.
        by_label: all by the labels that may change that; None: by more labels than are worth listing.
    """

    __slots__ = ("always", "by_label", "size")

    def __init__(self) -> None:
        self.always: _Matches = {}
        self.by_label: dict[LabelKey | None, dict[_CountedTerm, None]] = {}
        self.size = 0

    def add(self, counted: _CountedTerm) -> None:
        self.size += 1
        if counted.always:
            _add(self.always, counted, 1)
        for label in deciding_labels(counted.term.selector):
            self.by_label.setdefault(label, {})[counted] = None

    def remove(self, counted: _CountedTerm) -> None:
        self.size -= 1
        if counted.always:
            _add(self.always, counted, -1)
        for label in deciding_labels(counted.term.selector):
            terms = self.by_label[label]
            terms.pop(counted, None)
            if not terms:
                del self.by_label[label]

    def meaning(self, labels: Mapping[str, str], table: NodeTable) -> _Matches:
        """Return the terms that mean pods of some labels; those on keys that no node has may be left out."""
        matches = dict(self.always)
        undecided = {counted for label in (None, *labels_and_keys(labels)) for counted in self.by_label.get(label, ())}
        for counted in undecided:
            if table.has_label(counted.term.topology_key):
                change = counted.term.selector.matches(labels) - counted.always
                if change:
                    _add(matches, counted, change)
        return matches


_ScopeKey = tuple[frozenset[str], Selector, Tally | None]


def _scope_key(counted: _CountedTerm) -> _ScopeKey:
    # A bundle has scopes of its own, which go as a whole: an emptied dictionary keeps the room it once needed.
    return counted.term.namespaces, counted.term.namespace_selector, counted.tally if counted.bundled else None


def _add(matches: _Matches, counted: _CountedTerm, times: int) -> None:
    """Add a term, or take it away (-1)."""
    key = (counted.tally, counted.kind, counted.term.topology_key if counted.bundled else counted.term)
    previous = matches.get(key)
    if previous is None:
        previous = _TermMatch(counted.tally, counted.term, 0, 0)
    match = _TermMatch(previous.tally, previous.term, previous.weight + times * counted.weight, previous.times + times)
    if match.times:
        matches[key] = match
    else:
        matches.pop(key, None)


class TermTallies:
    """The terms of the pods on the rows of one table; `bundled`: how many there are of pods with more than a few."""

    def __init__(self, pool: SumPool, table: NodeTable, objects: ObjectStore) -> None:
        self._pool = pool
        self._table = table
        self._objects = objects
        self._terms: dict[tuple[TermKind, int, AffinityTerm], _CountedTerm] = {}
        self._of_spec: dict[bytes, tuple[_CountedTerm, ...]] = {}
        self._bundles: dict[bytes, tuple[_CountedTerm, ...]] = {}
        self._scopes: dict[_ScopeKey, _Scope] = {}
        self._idle = 0
        self._version = 0
        self.bundled = 0
        self._answers: dict[tuple[str, frozenset[tuple[str, str]]], dict[TermKind, tuple[_TermMatch, ...]]] = {}
        self._answers_for = (-1, -1, -1)

    def __bool__(self) -> bool:
        """Tell whether any pod may have a term."""
        return bool(self._terms or self._bundles)

    def __len__(self) -> int:
        return len(self._terms) + sum(map(len, self._bundles.values()))

    def add(self, row: int, pod: PodInfo, sign: int, topology: int) -> None:
        """Count the terms of a pod on a row (+1), or no longer (-1)."""
        key, terms = pod.spec.class_key, pod.spec.terms
        if not terms.number:
            return
        if terms.number > _MAX_SHARED or pod.spec.lists_much:
            self._add_bundle(row, key, terms, sign, topology)
            return
        for counted in self._counted_of(key, terms):
            tally = counted.tally
            self._idle -= not tally.total
            tally.add(row, sign, topology)
            self._idle += not tally.total
        if self._idle > _MAX_IDLE and 2 * self._idle > len(self._terms):
            self._prune()

    def matching(self, pod: PodInfo, kind: TermKind) -> Iterable[_TermMatch]:
        """Return the terms of a kind that mean a pod."""
        versions = (self._version, self._table.label_keys, self._objects.generation("Namespace"))
        if versions != self._answers_for or len(self._answers) > _MAX_ANSWERS:
            self._answers.clear()
            self._answers_for = versions
        key = (pod.namespace, frozenset(pod.labels.items()))
        answer = self._answers.get(key)
        if answer is None:
            answer = self._answers[key] = self._meaning(pod)
        return answer[kind]

    def _meaning(self, pod: PodInfo) -> dict[TermKind, tuple[_TermMatch, ...]]:
        labels = namespace_labels(self._objects, pod.namespace)
        by_kind: dict[TermKind, list[_TermMatch]] = {kind: [] for kind in TermKind}
        for (namespaces, selector, _), scope in self._scopes.items():
            if pod.namespace not in namespaces and not selector.matches(labels):
                continue
            for (_, kind, _), match in scope.meaning(pod.labels, self._table).items():
                # On a key that no node has, there is nothing to count.
                if self._table.has_label(match.term.topology_key):
                    by_kind[kind].append(match)
        return {kind: tuple(matches) for kind, matches in by_kind.items()}

    def _counted_of(self, class_key: bytes, terms: PodTerms) -> tuple[_CountedTerm, ...]:
        counted = self._of_spec.get(class_key)
        if counted is None:
            if len(self._of_spec) >= _PRUNE_AT:
                self._prune()
            counted = self._of_spec[class_key] = tuple(self._intern(*entry) for entry in terms_of(terms))
        return counted

    def _intern(self, kind: TermKind, weight: int, term: AffinityTerm) -> _CountedTerm:
        key = (kind, weight, term)
        counted = self._terms.get(key)
        if counted is None:
            counted = self._terms[key] = _CountedTerm(kind, weight, term, Tally(self._pool), False)
            self._idle += 1
            self._enter(counted)
        return counted

    def _add_bundle(self, row: int, class_key: bytes, terms: PodTerms, sign: int, topology: int) -> None:
        """Count a pod with more terms than are worth a count each: they all have the same pods."""
        bundle = self._bundles.get(class_key)
        if bundle is None:
            tally = Tally(self._pool)
            bundle = self._bundles[class_key] = tuple(_CountedTerm(*entry, tally, True) for entry in terms_of(terms))
            for counted in bundle:
                self._enter(counted)
            self.bundled += len(bundle)
        tally = bundle[0].tally
        tally.add(row, sign, topology)
        if not tally.total:
            del self._bundles[class_key]
            self.bundled -= len(bundle)
            # Its scopes hold nothing else, so none of its terms has to be taken out.
            for key in {_scope_key(counted) for counted in bundle}:
                del self._scopes[key]
            self._version += 1

    def _enter(self, counted: _CountedTerm) -> None:
        self._scopes.setdefault(_scope_key(counted), _Scope()).add(counted)
        self._version += 1

    def _leave(self, counted: _CountedTerm) -> None:
        key = _scope_key(counted)
        scope = self._scopes[key]
        scope.remove(counted)
        if not scope.size:
            del self._scopes[key]
        self._version += 1

    def _prune(self) -> None:
        """Forget terms that no pod has any more."""
        self._of_spec.clear()
        for key, counted in list(self._terms.items()):
            if not counted.tally.total:
                del self._terms[key]
                self._leave(counted)
        self._idle = 0


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
