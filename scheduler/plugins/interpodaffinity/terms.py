"""A pod's own terms, with the namespaces they select written out."""

from collections.abc import Sequence
from typing import NamedTuple

from scheduler.framework import AffinityTerm, Objects, PodClause, PodInfo, PodQuery
from scheduler.kube.primitives import Selector

_MAX_CACHED = 4096


class OwnTerm(NamedTuple):
    """A term of the pod that is being placed: where it applies and which pods it means; a weight, negative for
    anti-affinity, 0 where it is required."""

    topology_key: str
    clause: PodClause
    weight: int = 0

    @property
    def query(self) -> PodQuery:
        """The pods the term means."""
        return PodQuery((self.clause,))


class OwnTerms(NamedTuple):
    """A pod's own terms by kind."""

    affinity: tuple[OwnTerm, ...]
    anti_affinity: tuple[OwnTerm, ...]
    preferred: tuple[OwnTerm, ...]

    @property
    def all_affinity(self) -> PodQuery:
        """The pods that every required affinity term means: only they count, for each of the terms."""
        return PodQuery(tuple(term.clause for term in self.affinity))


_NO_TERMS = OwnTerms((), (), ())


class TermResolver:
    """Resolves namespace selectors against the Namespaces there are, once per class of pods."""

    def __init__(self) -> None:
        self._cache: dict[bytes, OwnTerms] = {}
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
            self._generation, self._objects = generation, objects
        own = self._cache.get(pod.spec.class_key)
        if own is None:
            wanted = tuple(self._term(weighted.term, objects, weighted.weight) for weighted in terms.preferred_affinity)
            unwanted = tuple(
                self._term(weighted.term, objects, -weighted.weight) for weighted in terms.preferred_anti_affinity
            )
            own = self._cache[pod.spec.class_key] = OwnTerms(
                tuple(self._term(term, objects) for term in terms.affinity),
                tuple(self._term(term, objects) for term in terms.anti_affinity),
                wanted + unwanted,
            )
        return own

    @staticmethod
    def matches_every_namespace(selector: Selector) -> bool:
        """Tell whether a selector needs no look at the Namespaces."""
        return selector.everything

    def _term(self, term: AffinityTerm, objects: Objects, weight: int = 0) -> OwnTerm:
        namespaces = self._namespaces(term, objects)
        return OwnTerm(term.topology_key, PodClause(namespaces, term.selector), weight)

    def _namespaces(self, term: AffinityTerm, objects: Objects) -> frozenset[str] | None:
        selector: Selector = term.namespace_selector
        if self.matches_every_namespace(selector):
            return None
        if selector.nothing:
            return term.namespaces
        selected = [
            namespace.metadata.name
            for namespace in objects.every("Namespace")
            if selector.matches(namespace.metadata.labels)
        ]
        return term.namespaces.union(selected)


def matches_all_terms(terms: Sequence[OwnTerm], pod: PodInfo) -> bool:
    """Tell whether there are terms and each of them means a pod (podMatchesAllAffinityTerms)."""
    return bool(terms) and all(term.clause.matches(pod.namespace, pod.labels) for term in terms)
