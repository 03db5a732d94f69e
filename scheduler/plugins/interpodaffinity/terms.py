"""A pod's own terms, with the namespaces they select written out."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from scheduler.framework import AffinityTerm, NodeView, Objects, PodClause, PodInfo, PodQuery, SpecInfo
from scheduler.kube.primitives import Selector, conjunction

_MAX_CACHED = 4096
_MOST_KEPT = 8
"""A pod with more terms has them evaluated together in each attempt, and nothing kept: the counts of one pod must not
become a burden to all others. Manifests of real workloads mostly have one or two."""


class OwnTerm(NamedTuple):
    """A term of the pod that is being placed: where it applies and which pods it means; a weight, negative for
    anti-affinity, 0 where it is required."""

    topology_key: str
    query: PodQuery
    weight: int = 0

    @property
    def clause(self) -> PodClause:
        """The pods the term means, as the only clause of the query."""
        return self.query.clauses[0]


class OwnTerms(NamedTuple):
    """A pod's own terms by kind.

    Attributes:
        all_affinity: the pods that every required affinity term means: only they count, for each of the terms.
        weighed_together: there are more terms than are worth a count each.
    """

    affinity: tuple[OwnTerm, ...]
    anti_affinity: tuple[OwnTerm, ...]
    preferred: tuple[OwnTerm, ...]
    all_affinity: PodQuery
    weighed_together: bool = False


_NO_TERMS = OwnTerms((), (), (), PodQuery(()))


class TermResolver:
    """Resolves namespace selectors against the Namespaces there are, once per class of pods."""

    def __init__(self) -> None:
        self._cache: dict[bytes, OwnTerms] = {}
        # Until the last pod of the class is gone: 4,096 lists of thousands of terms would be gigabytes.
        self._many: WeakKeyDictionary[SpecInfo, OwnTerms] = WeakKeyDictionary()
        self._generation = -1
        self._objects: Objects | None = None

    def own(self, pod: PodInfo, objects: Objects) -> OwnTerms:
        """Return a pod's terms as they are at this moment."""
        terms = pod.spec.terms
        if not terms.any:
            return _NO_TERMS
        generation = objects.generation("Namespace")
        if generation != self._generation or objects is not self._objects or len(self._cache) >= _MAX_CACHED:
            self._cache.clear()
            self._many.clear()
            self._generation, self._objects = generation, objects
        own = self._cache.get(pod.spec.class_key) or self._many.get(pod.spec)
        if own is None:
            wanted = tuple(self._term(weighted.term, objects, weighted.weight) for weighted in terms.preferred_affinity)
            unwanted = tuple(
                self._term(weighted.term, objects, -weighted.weight) for weighted in terms.preferred_anti_affinity
            )
            affinity = tuple(self._term(term, objects) for term in terms.affinity)
            own = OwnTerms(
                affinity,
                tuple(self._term(term, objects) for term in terms.anti_affinity),
                wanted + unwanted,
                # Made once: an attempt asks for it, and a query that is made anew is also hashed anew.
                _query_of_all(affinity),
                weighed_together=weighs_together(pod.spec),
            )
            if own.weighed_together:
                self._many[pod.spec] = own
            else:
                self._cache[pod.spec.class_key] = own
        return own

    @staticmethod
    def matches_every_namespace(selector: Selector) -> bool:
        """Tell whether a selector needs no look at the Namespaces."""
        return selector.everything

    def _term(self, term: AffinityTerm, objects: Objects, weight: int = 0) -> OwnTerm:
        namespaces = self._namespaces(term, objects)
        return own_term(term, namespaces, weight)

    def _namespaces(self, term: AffinityTerm, objects: Objects) -> frozenset[str] | None:
        selector: Selector = term.namespace_selector
        if selector.nothing:
            return term.namespaces
        if self.matches_every_namespace(selector):
            return None
        selected = [
            namespace.metadata.name
            for namespace in objects.every("Namespace")
            if selector.matches(namespace.metadata.labels)
        ]
        return term.namespaces.union(selected)


def weighs_together(spec: SpecInfo) -> bool:
    """Tell whether a pod has more terms, or longer ones, than are worth a count each."""
    return spec.terms.number > _MOST_KEPT or spec.lists_much


def _query_of_all(terms: Iterable[OwnTerm]) -> PodQuery:
    """Return the query for the pods that every term means."""
    selectors: dict[frozenset[str] | None, list[Selector]] = {}
    for term in terms:
        namespaces, selector = term.clause
        selectors.setdefault(namespaces, []).append(selector)
    return PodQuery(tuple(PodClause(namespaces, conjunction(group)) for namespaces, group in selectors.items()))


def own_term(term: AffinityTerm, namespaces: frozenset[str] | None, weight: int = 0) -> OwnTerm:
    """Return a term with the namespaces it means."""
    return OwnTerm(term.topology_key, PodQuery((PodClause(namespaces, term.selector),)), weight)


def by_topology_key(view: NodeView, terms: Iterable[OwnTerm]) -> dict[str, list[tuple[PodQuery, int]]]:
    """Return the queries of terms with their weights, by topology key; a key that no node has is left out."""
    by_key: dict[str, list[tuple[PodQuery, int]]] = {}
    for term in terms:
        queries = by_key.get(term.topology_key)
        if queries is None:
            queries = by_key[term.topology_key] = []
        queries.append((term.query, term.weight))
    return {key: queries for key, queries in by_key.items() if view.labels(key).values}


def matches_all_terms(terms: Sequence[OwnTerm], pod: PodInfo) -> bool:
    """Tell whether there are terms and each of them means a pod (podMatchesAllAffinityTerms)."""
    return bool(terms) and all(term.clause.matches(pod.namespace, pod.labels) for term in terms)
