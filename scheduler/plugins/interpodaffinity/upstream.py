"""What `compatibility: upstream` changes in InterPodAffinity: plugins/interpodaffinity of kube-scheduler as it is."""

from collections.abc import Sequence

from scheduler.framework import AffinityTerm, Hint, HintRegistration, PodInfo
from scheduler.kube.primitives import Selector
from scheduler.plugins.interpodaffinity.hints import AffinityHints
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

    They evaluate namespace selectors against no labels. Before 1.36 a pod rejected for other pods' anti-affinity is not
    woken when these are deleted, nor when its own labels change. Before 1.37, of several anti-affinity terms only a pod
    that all of them match counts.
    """

    def registrations(self) -> tuple[HintRegistration, ...]:
        """Return the events of interest with their hints: changes of Namespaces are none."""
        return self.pod_registration(), self.node_registration()

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
        return self._matches([_unresolved(term) for term in before.spec.terms.anti_affinity], pod)

    def _matches(self, terms: Sequence[OwnTerm], pod: PodInfo) -> bool:
        if self._kubernetes.hints_match_any_term:
            return any(matches_all_terms((term,), pod) for term in terms)
        return matches_all_terms(terms, pod)

    def any_node_may_help(self, pod: PodInfo) -> bool:
        """Never: only the pod's own terms are looked at."""
        return False

    def terms_of(self, pod: PodInfo) -> tuple[Sequence[OwnTerm], Sequence[OwnTerm]]:
        """Return the pod's terms with their namespace selectors evaluated against no labels."""
        terms = pod.spec.terms
        return [_unresolved(term) for term in terms.affinity], [_unresolved(term) for term in terms.anti_affinity]


def _unresolved(term: AffinityTerm) -> OwnTerm:
    namespaces = None if term.namespace_selector.matches({}) else term.namespaces
    return own_term(term, namespaces)
