"""A pod's own terms, with the namespaces they select written out."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from scheduler import framework as fw
from scheduler.catalog import ActionType, KubernetesVersion
from scheduler.kube.primitives import Selector, conjunction

_MAX_CACHED = 4096
_MAX_KEPT = 8
"""A pod with more terms has them evaluated together in each attempt, and nothing kept: the counts of one pod must not
become a burden to all others. Manifests of real workloads mostly have one or two."""


class OwnTerm(NamedTuple):
    """A term of the pod that is being placed: where it applies and which pods it means; a weight, negative for
    anti-affinity, 0 where it is required."""

    topology_key: str
    query: fw.PodQuery
    weight: int = 0

    @property
    def clause(self) -> fw.PodClause:
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
    all_affinity: fw.PodQuery
    weighed_together: bool = False


_NO_TERMS = OwnTerms((), (), (), fw.PodQuery(()))


class TermResolver:
    """Resolves namespace selectors against the Namespaces there are, once per class of pods."""

    def __init__(self) -> None:
        self._cache: dict[bytes, OwnTerms] = {}
        # Until the last pod of the class is gone: 4,096 lists of thousands of terms would be gigabytes.
        self._many: WeakKeyDictionary[fw.SpecInfo, OwnTerms] = WeakKeyDictionary()
        self._generation = -1
        self._objects: fw.Objects | None = None

    def own(self, pod: fw.PodInfo, objects: fw.Objects) -> OwnTerms:
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

    def _term(self, term: fw.AffinityTerm, objects: fw.Objects, weight: int = 0) -> OwnTerm:
        namespaces = self._namespaces(term, objects)
        return own_term(term, namespaces, weight)

    def _namespaces(self, term: fw.AffinityTerm, objects: fw.Objects) -> frozenset[str] | None:
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


def weighs_together(spec: fw.SpecInfo) -> bool:
    """Tell whether a pod has more terms, or longer ones, than are worth a count each."""
    return spec.terms.number > _MAX_KEPT or spec.lists_much


def _query_of_all(terms: Iterable[OwnTerm]) -> fw.PodQuery:
    """Return the query for the pods that every term means."""
    selectors: dict[frozenset[str] | None, list[Selector]] = {}
    for term in terms:
        namespaces, selector = term.clause
        selectors.setdefault(namespaces, []).append(selector)
    return fw.PodQuery(tuple(fw.PodClause(namespaces, conjunction(group)) for namespaces, group in selectors.items()))


def own_term(term: fw.AffinityTerm, namespaces: frozenset[str] | None, weight: int = 0) -> OwnTerm:
    """Return a term with the namespaces it means."""
    return OwnTerm(term.topology_key, fw.PodQuery((fw.PodClause(namespaces, term.selector),)), weight)


def by_topology_key(view: fw.NodeView, terms: Iterable[OwnTerm]) -> dict[str, list[tuple[fw.PodQuery, int]]]:
    """Return the queries of terms with their weights, by topology key; a key that no node has is left out."""
    by_key: dict[str, list[tuple[fw.PodQuery, int]]] = {}
    for term in terms:
        queries = by_key.get(term.topology_key)
        if queries is None:
            queries = by_key[term.topology_key] = []
        queries.append((term.query, term.weight))
    return {key: queries for key, queries in by_key.items() if view.labels(key).values}


def matches_all_terms(terms: Sequence[OwnTerm], pod: fw.PodInfo) -> bool:
    """Tell whether there are terms and each of them means a pod (podMatchesAllAffinityTerms)."""
    return bool(terms) and all(term.clause.matches(pod.namespace, pod.labels) for term in terms)


# Which events may make room for a pod that was rejected for its affinity, or for that of others.

_A = ActionType


class AffinityHints:
    """The hints (isSchedulableAfterPodChange and isSchedulableAfterNodeChange of kube-scheduler), with repairs of
    what upstream's overlook: see `UpstreamAffinityHints`."""

    def __init__(
        self, resolver: TermResolver, objects: Callable[[], fw.Objects | None], kubernetes: KubernetesVersion
    ) -> None:
        """`objects` returns the store of Namespaces once a pod has been looked at; hints get no view."""
        self._kubernetes = kubernetes
        self._resolver = resolver
        self._objects = objects

    def registrations(self) -> tuple[fw.HintRegistration, ...]:
        """Return the events of interest with their hints."""
        namespaces = fw.HintRegistration("Namespace", _A.ADD | _A.UPDATE, self.namespace_changed)
        return self.pod_registration(), self.node_registration(), namespaces

    def pod_registration(self) -> fw.HintRegistration:
        """Return the events of pods."""
        return fw.HintRegistration(fw.POD, _A.ADD | _A.DELETE | _A.UPDATE_POD_LABEL, self.pod_changed)

    def node_registration(self) -> fw.HintRegistration:
        """Return the events of nodes."""
        return fw.HintRegistration(fw.NODE, _A.ADD | _A.UPDATE_NODE_LABEL, self.node_changed)

    def pod_changed(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        """A pod wanted nearby came, or one not wanted went; by itself or by a change of labels."""
        before = old if isinstance(old, fw.PodInfo) else None
        after = new if isinstance(new, fw.PodInfo) else None
        if after is not None and after.uid == pod.uid:
            return self.own_pod_changed()
        if any(other is not None and not self._is_placed(other) for other in (before, after)):
            return fw.Hint.SKIP
        wanted, unwanted = self.terms_of(pod)
        if (
            after is not None
            and matches_all_terms(wanted, after)
            and not (before is not None and matches_all_terms(wanted, before))
        ):
            return fw.Hint.QUEUE
        if before is None:
            return fw.Hint.SKIP
        gone = self.anti_affinity_gone(pod, unwanted, before, after)
        return fw.Hint.QUEUE if gone else fw.Hint.SKIP

    def _is_placed(self, other: fw.PodInfo) -> bool:
        return bool(other.node_name or (self._kubernetes.nominated_pods_spread and other.nominated_node))

    def node_changed(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        """A node came with a key the pod needs, or moved to another domain."""
        before = old if isinstance(old, fw.NodeInfo) else None
        if not isinstance(new, fw.NodeInfo):
            return fw.Hint.QUEUE
        terms = pod.spec.terms
        if before is None:
            # A node without the key always takes a pod with anti-affinity.
            helps = any(term.topology_key in new.labels for term in terms.affinity) or bool(terms.anti_affinity)
        else:
            helps = any(_gained_domain(term, before, new) for term in terms.affinity) or any(
                _lost_domain(term, before, new) for term in terms.anti_affinity
            )
        helps = helps or self.any_node_may_help(pod)
        return fw.Hint.QUEUE if helps else fw.Hint.SKIP

    @staticmethod
    def namespace_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        """A namespace has other labels: terms that select namespaces mean other pods."""
        selecting = [
            term for term in (*pod.spec.terms.affinity, *pod.spec.terms.anti_affinity) if selects_namespaces(term)
        ]
        own = getattr(new, "metadata", None)
        # Other pods' terms may select this pod's namespace.
        return fw.Hint.QUEUE if selecting or (own is not None and own.name == pod.namespace) else fw.Hint.SKIP

    def own_pod_changed(self) -> fw.Hint:
        """Queue a pod whose own labels changed: other pods' terms look at them."""
        return fw.Hint.QUEUE

    def anti_affinity_gone(
        self, pod: fw.PodInfo, unwanted: Sequence[OwnTerm], before: fw.PodInfo, after: fw.PodInfo | None
    ) -> bool:
        """Tell whether a pod that one of the terms matched no longer matches it, or a deleted one had anti-affinity
        to this pod."""
        return any(
            matches_all_terms((term,), before) and not (after is not None and matches_all_terms((term,), after))
            for term in unwanted
        ) or (after is None and self._has_anti_affinity_to(before, pod))

    def any_node_may_help(self, pod: fw.PodInfo) -> bool:
        """Tell whether only other pods' terms can have kept the pod away: they may be about any key."""
        return not pod.spec.terms.affinity and not pod.spec.terms.anti_affinity

    def terms_of(self, pod: fw.PodInfo) -> tuple[Sequence[OwnTerm], Sequence[OwnTerm]]:
        """Return a pod's required affinity and anti-affinity terms."""
        objects = self._objects()
        if objects is None:
            raise LookupError("no pod has been looked at yet")
        own = self._resolver.own(pod, objects)
        return own.affinity, own.anti_affinity

    def _has_anti_affinity_to(self, other: fw.PodInfo, pod: fw.PodInfo) -> bool:
        objects = self._objects()
        namespace = objects.get("Namespace", "", pod.namespace) if objects is not None else None
        labels = {} if namespace is None else namespace.metadata.labels
        return any(term.matches(pod.namespace, pod.labels, labels) for term in other.spec.terms.anti_affinity)


def selects_namespaces(term: fw.AffinityTerm) -> bool:
    """Tell whether it takes the labels of Namespaces to tell which a term is about."""
    return not term.namespace_selector.nothing and not term.namespace_selector.everything


def _gained_domain(term: fw.AffinityTerm, before: fw.NodeInfo, after: fw.NodeInfo) -> bool:
    new = after.labels.get(term.topology_key)
    return new is not None and new != before.labels.get(term.topology_key)


def _lost_domain(term: fw.AffinityTerm, before: fw.NodeInfo, after: fw.NodeInfo) -> bool:
    old = before.labels.get(term.topology_key)
    return old is not None and old != after.labels.get(term.topology_key)


# What `compatibility: upstream` changes in InterPodAffinity: plugins/interpodaffinity of kube-scheduler as it is.
class UpstreamTermResolver(TermResolver):
    """Resolves namespace selectors, and then still evaluates them, against no labels: a selector of NotIn and
    DoesNotExist alone matches every namespace (mergeAffinityTermNamespacesIfNotEmpty, AffinityTerm.Matches)."""

    @staticmethod
    def matches_every_namespace(selector: Selector) -> bool:
        """Tell whether a selector matches a namespace without labels."""
        return selector.everything or selector.matches({})


class UpstreamAffinityHints(AffinityHints):
    """The hints without the repairs.

    Before 1.38 they evaluate namespace selectors against no labels. Before 1.36 a pod rejected for other pods'
    anti-affinity is not woken when these are deleted, nor when its own labels change. Before 1.37, of several
    anti-affinity terms only a pod that all of them match counts.
    """

    def registrations(self) -> tuple[fw.HintRegistration, ...]:
        """Return the events of interest with their hints: changes of Namespaces are none."""
        return self.pod_registration(), self.node_registration()

    def pod_changed(self, pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
        """As usual; since 1.38 a pod is also woken where it takes a Namespace that is not known to tell."""
        hint = super().pod_changed(pod, old, new)
        if hint is fw.Hint.QUEUE or not self._kubernetes.hints_read_namespaces:
            return hint
        others = [other for other in (old, new) if isinstance(other, fw.PodInfo)]
        if not all(map(self._is_placed, others)):
            return hint
        terms = pod.spec.terms
        own = (*terms.affinity, *terms.anti_affinity)
        unknown = any(self._takes_unknown_namespace(own, other) for other in others) or (
            not isinstance(new, fw.PodInfo)
            and any(self._takes_unknown_namespace(other.spec.terms.anti_affinity, pod) for other in others)
        )
        return fw.Hint.QUEUE if unknown else hint

    def _takes_unknown_namespace(self, terms: Sequence[fw.AffinityTerm], pod: fw.PodInfo) -> bool:
        """Tell whether it takes a pod's Namespace, which is not known, to tell whether terms match it."""
        objects = self._objects()
        if objects is None or objects.get("Namespace", "", pod.namespace) is not None:
            return False
        return any(
            selects_namespaces(term) and pod.namespace not in term.namespaces and term.selector.matches(pod.labels)
            for term in terms
        )

    def own_pod_changed(self) -> fw.Hint:
        """Ignore the pod's own labels, before 1.36."""
        return fw.Hint.QUEUE if self._kubernetes.nominated_pods_spread else fw.Hint.SKIP

    def anti_affinity_gone(
        self, pod: fw.PodInfo, unwanted: Sequence[OwnTerm], before: fw.PodInfo, after: fw.PodInfo | None
    ) -> bool:
        """Tell whether a pod that all terms together match, or one of them, no longer does; since 1.36 also whether one
        whose own terms match this pod is deleted."""
        if self._matches(unwanted, before):
            return after is None or not self._matches(unwanted, after)
        if after is not None or not self._kubernetes.nominated_pods_spread:
            return False
        if self._kubernetes.hints_read_namespaces:
            return self._has_anti_affinity_to(before, pod)
        return self._matches([_unresolved(term) for term in before.spec.terms.anti_affinity], pod)

    def _matches(self, terms: Sequence[OwnTerm], pod: fw.PodInfo) -> bool:
        if self._kubernetes.hints_match_any_term:
            return any(matches_all_terms((term,), pod) for term in terms)
        return matches_all_terms(terms, pod)

    def any_node_may_help(self, pod: fw.PodInfo) -> bool:
        """Never: only the pod's own terms are looked at."""
        return False

    def terms_of(self, pod: fw.PodInfo) -> tuple[Sequence[OwnTerm], Sequence[OwnTerm]]:
        """Return the pod's terms, before 1.38 with their namespace selectors evaluated against no labels."""
        if self._kubernetes.hints_read_namespaces:
            return super().terms_of(pod)
        terms = pod.spec.terms
        return [_unresolved(term) for term in terms.affinity], [_unresolved(term) for term in terms.anti_affinity]


def _unresolved(term: fw.AffinityTerm) -> OwnTerm:
    namespaces = None if term.namespace_selector.matches({}) else term.namespaces
    return own_term(term, namespaces)
