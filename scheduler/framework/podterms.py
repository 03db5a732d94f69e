"""Affinity terms between pods, compiled once per class of pods (k8s.io/kube-scheduler/framework, AffinityTerm)."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct, field

from scheduler.kube.model import Affinity, PodAffinity, PodAffinityTerm, WeightedPodAffinityTerm, compiled_selector
from scheduler.kube.primitives import Selector, SelectorError


class AffinityTerm(Struct, frozen=True):
    """One term. A pod is meant when its namespace is listed or selected, and its labels are selected.

    The API server has folded matchLabelKeys and mismatchLabelKeys into the selector.
    """

    topology_key: str
    namespaces: frozenset[str]
    namespace_selector: Selector
    selector: Selector

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Tell whether a pod of these labels in a namespace of these labels is meant."""
        if namespace not in self.namespaces and not self.namespace_selector.matches(namespace_labels):
            return False
        return self.selector.matches(labels)


class WeightedAffinityTerm(Struct, frozen=True):
    """A preferred term; the weight of an anti-affinity term is positive too."""

    weight: int
    term: AffinityTerm


class PodTerms(Struct, frozen=True):
    """A pod's terms by kind.

    `error` is set where a selector cannot be read; the kind it stands in is then empty, as upstream leaves it.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedAffinityTerm, ...] = ()
    error: str = ""
    any: bool = field(default=False)
    """Whether there is any term at all."""
    selecting: int = 0
    """How many terms choose namespaces by their labels."""

    @property
    def number(self) -> int:
        """How many terms there are."""
        return (
            len(self.affinity)
            + len(self.anti_affinity)
            + len(self.preferred_affinity)
            + len(self.preferred_anti_affinity)
        )

    @property
    def required(self) -> Iterator[AffinityTerm]:
        """Yield the required terms, of affinity and of anti-affinity."""
        yield from self.affinity
        yield from self.anti_affinity

    @property
    def preferred(self) -> Iterator[AffinityTerm]:
        """Yield the preferred terms, of affinity and of anti-affinity."""
        for weighted in (*self.preferred_affinity, *self.preferred_anti_affinity):
            yield weighted.term


NO_TERMS = PodTerms()


def pod_terms(affinity: Affinity | None, namespace: str) -> PodTerms:
    """Compile the terms of a pod of a namespace."""
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    errors: list[str] = []
    wanted = affinity.pod_affinity or PodAffinity()
    unwanted = affinity.pod_anti_affinity or PodAffinity()
    required = wanted.required_during_scheduling_ignored_during_execution
    anti = unwanted.required_during_scheduling_ignored_during_execution
    preferred = wanted.preferred_during_scheduling_ignored_during_execution
    preferred_anti = unwanted.preferred_during_scheduling_ignored_during_execution
    terms = PodTerms(
        affinity=_required(required, namespace, "requiredAffinityTerms", errors),
        anti_affinity=_required(anti, namespace, "requiredAntiAffinityTerms", errors),
        preferred_affinity=_preferred(preferred, namespace, "preferredAffinityTerms", errors),
        preferred_anti_affinity=_preferred(preferred_anti, namespace, "preferredAntiAffinityTerms", errors),
        any=bool(required or anti or preferred or preferred_anti),
        error="",
        selecting=sum(
            term.namespace_selector is not None
            for term in (*required, *anti, *(each.pod_affinity_term for each in (*preferred, *preferred_anti)))
        ),
    )
    if not errors:
        return terms
    return PodTerms(
        terms.affinity,
        terms.anti_affinity,
        terms.preferred_affinity,
        terms.preferred_anti_affinity,
        "; ".join(errors),
        any=True,
        selecting=terms.selecting,
    )


def _required(
    terms: Iterable[PodAffinityTerm], namespace: str, kind: str, errors: list[str]
) -> tuple[AffinityTerm, ...]:
    try:
        return tuple(_term(term, namespace) for term in terms)
    except SelectorError as error:
        errors.append(f"{kind}: {error}")
        return ()


def _preferred(
    terms: Iterable[WeightedPodAffinityTerm], namespace: str, kind: str, errors: list[str]
) -> tuple[WeightedAffinityTerm, ...]:
    try:
        return tuple(
            WeightedAffinityTerm(weighted.weight, _term(weighted.pod_affinity_term, namespace)) for weighted in terms
        )
    except SelectorError as error:
        errors.append(f"{kind}: {error}")
        return ()


def _term(term: PodAffinityTerm, namespace: str) -> AffinityTerm:
    own = not term.namespaces and term.namespace_selector is None
    return AffinityTerm(
        term.topology_key,
        frozenset((namespace,)) if own else frozenset(term.namespaces),
        compiled_selector(term.namespace_selector),
        compiled_selector(term.label_selector),
    )
