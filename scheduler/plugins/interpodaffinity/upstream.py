"""What `compatibility: upstream` changes in InterPodAffinity: plugins/interpodaffinity of kube-scheduler 1.34 as it
is."""

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

    They evaluate namespace selectors against no labels; a pod rejected for other pods' anti-affinity is not woken when
    these are deleted; and of several anti-affinity terms only a pod that all of them match counts.
    """

    def registrations(self) -> tuple[HintRegistration, ...]:
        """Return the events of interest with their hints: changes of Namespaces are none."""
        return self.pod_registration(), self.node_registration()

    def own_pod_changed(self) -> Hint:
        """Ignore the pod's own labels."""
        return Hint.SKIP

    def anti_affinity_gone(
        self, pod: PodInfo, unwanted: Sequence[OwnTerm], before: PodInfo, after: PodInfo | None
    ) -> bool:
        """Tell whether a pod that all terms together match no longer matches all of them."""
        return matches_all_terms(unwanted, before) and not (after is not None and matches_all_terms(unwanted, after))

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
