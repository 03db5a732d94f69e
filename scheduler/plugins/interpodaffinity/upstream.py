"""What `compatibility: upstream` changes in InterPodAffinity: plugins/interpodaffinity of kube-scheduler as it is."""

from collections.abc import Sequence

from scheduler.framework import AffinityTerm, Hint, HintRegistration, PodInfo
from scheduler.kube.primitives import Selector
from scheduler.plugins.interpodaffinity.hints import AffinityHints, selects_namespaces
from scheduler.plugins.interpodaffinity.terms import OwnTerm, TermResolver, matches_all_terms, own_term


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

    def registrations(self) -> tuple[HintRegistration, ...]:
        """Return the events of interest with their hints: changes of Namespaces are none."""
        return self.pod_registration(), self.node_registration()

    def pod_changed(self, pod: PodInfo, old: object, new: object) -> Hint:
        """As usual; since 1.38 a pod is also woken where it takes a Namespace that is not known to tell."""
        hint = super().pod_changed(pod, old, new)
        if hint is Hint.QUEUE or not self._kubernetes.hints_read_namespaces:
            return hint
        others = [other for other in (old, new) if isinstance(other, PodInfo)]
        if not all(map(self._is_placed, others)):
            return hint
        terms = pod.spec.terms
        own = (*terms.affinity, *terms.anti_affinity)
        unknown = any(self._takes_unknown_namespace(own, other) for other in others) or (
            not isinstance(new, PodInfo)
            and any(self._takes_unknown_namespace(other.spec.terms.anti_affinity, pod) for other in others)
        )
        return Hint.QUEUE if unknown else hint

    def _takes_unknown_namespace(self, terms: Sequence[AffinityTerm], pod: PodInfo) -> bool:
        """Tell whether it takes a pod's Namespace, which is not known, to tell whether terms match it."""
        objects = self._objects()
        if objects is None or objects.get("Namespace", "", pod.namespace) is not None:
            return False
        return any(
            selects_namespaces(term) and pod.namespace not in term.namespaces and term.selector.matches(pod.labels)
            for term in terms
        )

    def own_pod_changed(self) -> Hint:
        """Ignore the pod's own labels, before 1.36."""
        return Hint.QUEUE if self._kubernetes.nominated_pods_spread else Hint.SKIP

    def anti_affinity_gone(
        self, pod: PodInfo, unwanted: Sequence[OwnTerm], before: PodInfo, after: PodInfo | None
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

    def _matches(self, terms: Sequence[OwnTerm], pod: PodInfo) -> bool:
        if self._kubernetes.hints_match_any_term:
            return any(matches_all_terms((term,), pod) for term in terms)
        return matches_all_terms(terms, pod)

    def any_node_may_help(self, pod: PodInfo) -> bool:
        """Never: only the pod's own terms are looked at."""
        return False

    def terms_of(self, pod: PodInfo) -> tuple[Sequence[OwnTerm], Sequence[OwnTerm]]:
        """Return the pod's terms, before 1.38 with their namespace selectors evaluated against no labels."""
        if self._kubernetes.hints_read_namespaces:
            return super().terms_of(pod)
        terms = pod.spec.terms
        return [_unresolved(term) for term in terms.affinity], [_unresolved(term) for term in terms.anti_affinity]


def _unresolved(term: AffinityTerm) -> OwnTerm:
    namespaces = None if term.namespace_selector.matches({}) else term.namespaces
    return own_term(term, namespaces)
