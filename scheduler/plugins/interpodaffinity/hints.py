"""Which events may make room for a pod that was rejected for its affinity, or for that of others."""

from collections.abc import Callable, Sequence

from scheduler.catalog import ActionType, KubernetesVersion
from scheduler.framework import (
    NODE,
    POD,
    AffinityTerm,
    Hint,
    HintRegistration,
    NodeInfo,
    Objects,
    PodInfo,
)
from scheduler.plugins.interpodaffinity.terms import OwnTerm, TermResolver, matches_all_terms

_A = ActionType


class AffinityHints:
    """The hints (isSchedulableAfterPodChange and isSchedulableAfterNodeChange of kube-scheduler), with repairs of
    what upstream's overlook: see `UpstreamAffinityHints`."""

    def __init__(
        self, resolver: TermResolver, objects: Callable[[], Objects | None], kubernetes: KubernetesVersion
    ) -> None:
        """`objects` returns the store of Namespaces once a pod has been looked at; hints get no view."""
        self._kubernetes = kubernetes
        self._resolver = resolver
        self._objects = objects

    def registrations(self) -> tuple[HintRegistration, ...]:
        """Return the events of interest with their hints."""
        namespaces = HintRegistration("Namespace", _A.ADD | _A.UPDATE, self.namespace_changed)
        return self.pod_registration(), self.node_registration(), namespaces

    def pod_registration(self) -> HintRegistration:
        """Return the events of pods."""
        return HintRegistration(POD, _A.ADD | _A.DELETE | _A.UPDATE_POD_LABEL, self.pod_changed)

    def node_registration(self) -> HintRegistration:
        """Return the events of nodes."""
        return HintRegistration(NODE, _A.ADD | _A.UPDATE_NODE_LABEL, self.node_changed)

    def pod_changed(self, pod: PodInfo, old: object, new: object) -> Hint:
        """A pod wanted nearby came, or one not wanted went; by itself or by a change of labels."""
        before = old if isinstance(old, PodInfo) else None
        after = new if isinstance(new, PodInfo) else None
        if after is not None and after.uid == pod.uid:
            return self.own_pod_changed()
        if any(other is not None and not self._is_placed(other) for other in (before, after)):
            return Hint.SKIP
        wanted, unwanted = self.terms_of(pod)
        if (
            after is not None
            and matches_all_terms(wanted, after)
            and not (before is not None and matches_all_terms(wanted, before))
        ):
            return Hint.QUEUE
        if before is None:
            return Hint.SKIP
        gone = self.anti_affinity_gone(pod, unwanted, before, after)
        return Hint.QUEUE if gone else Hint.SKIP

    def _is_placed(self, other: PodInfo) -> bool:
        return bool(other.node_name or (self._kubernetes.nominated_pods_spread and other.nominated_node))

    def node_changed(self, pod: PodInfo, old: object, new: object) -> Hint:
        """A node came with a key the pod needs, or moved to another domain."""
        before = old if isinstance(old, NodeInfo) else None
        if not isinstance(new, NodeInfo):
            return Hint.QUEUE
        terms = pod.spec.terms
        if before is None:
            # A node without the key always takes a pod with anti-affinity.
            helps = any(term.topology_key in new.labels for term in terms.affinity) or bool(terms.anti_affinity)
        else:
            helps = any(_gained_domain(term, before, new) for term in terms.affinity) or any(
                _lost_domain(term, before, new) for term in terms.anti_affinity
            )
        helps = helps or self.any_node_may_help(pod)
        return Hint.QUEUE if helps else Hint.SKIP

    @staticmethod
    def namespace_changed(pod: PodInfo, old: object, new: object) -> Hint:
        """A namespace has other labels: terms that select namespaces mean other pods."""
        selecting = [
            term for term in (*pod.spec.terms.affinity, *pod.spec.terms.anti_affinity) if selects_namespaces(term)
        ]
        own = getattr(new, "metadata", None)
        # Other pods' terms may select this pod's namespace.
        return Hint.QUEUE if selecting or (own is not None and own.name == pod.namespace) else Hint.SKIP

    def own_pod_changed(self) -> Hint:
        """Queue a pod whose own labels changed: other pods' terms look at them."""
        return Hint.QUEUE

    def anti_affinity_gone(
        self, pod: PodInfo, unwanted: Sequence[OwnTerm], before: PodInfo, after: PodInfo | None
    ) -> bool:
        """Tell whether a pod that one of the terms matched no longer matches it, or a deleted one had anti-affinity
        to this pod."""
        return any(
            matches_all_terms((term,), before) and not (after is not None and matches_all_terms((term,), after))
            for term in unwanted
        ) or (after is None and self._has_anti_affinity_to(before, pod))

    def any_node_may_help(self, pod: PodInfo) -> bool:
        """Tell whether only other pods' terms can have kept the pod away: they may be about any key."""
        return not pod.spec.terms.affinity and not pod.spec.terms.anti_affinity

    def terms_of(self, pod: PodInfo) -> tuple[Sequence[OwnTerm], Sequence[OwnTerm]]:
        """Return a pod's required affinity and anti-affinity terms."""
        objects = self._objects()
        if objects is None:
            raise LookupError("no pod has been looked at yet")
        own = self._resolver.own(pod, objects)
        return own.affinity, own.anti_affinity

    def _has_anti_affinity_to(self, other: PodInfo, pod: PodInfo) -> bool:
        objects = self._objects()
        namespace = objects.get("Namespace", "", pod.namespace) if objects is not None else None
        labels = {} if namespace is None else namespace.metadata.labels
        return any(term.matches(pod.namespace, pod.labels, labels) for term in other.spec.terms.anti_affinity)


def selects_namespaces(term: AffinityTerm) -> bool:
    """Tell whether it takes the labels of Namespaces to tell which a term is about."""
    return not term.namespace_selector.nothing and not term.namespace_selector.everything


def _gained_domain(term: AffinityTerm, before: NodeInfo, after: NodeInfo) -> bool:
    new = after.labels.get(term.topology_key)
    return new is not None and new != before.labels.get(term.topology_key)


def _lost_domain(term: AffinityTerm, before: NodeInfo, after: NodeInfo) -> bool:
    old = before.labels.get(term.topology_key)
    return old is not None and old != after.labels.get(term.topology_key)
