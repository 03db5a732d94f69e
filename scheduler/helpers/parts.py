"""How many things a pod lists that plugins loop over: what an attempt at it costs grows with them."""

from collections.abc import Iterable

from scheduler.kube.model import Affinity, LabelSelector, NodeSelectorTerm, PodAffinity, PodAffinityTerm, PodSpec
from scheduler.kube.primitives import RequirementLike


def parts(spec: PodSpec) -> int:
    """Return the number of terms, requirements, their values, constraints, tolerations, containers, ports, resources,
    volumes and claims of a pod."""
    containers = (*spec.init_containers, *spec.containers)
    constraints = spec.topology_spread_constraints
    return (
        len(spec.node_selector)
        + (0 if spec.affinity is None else _of_affinity(spec.affinity))
        + len(spec.tolerations)
        + sum(
            1 + len(each.ports) + len(each.resources.requests) + len(each.restart_policy_rules) for each in containers
        )
        + sum(1 + _of_selector(each.label_selector) + len(each.match_label_keys) for each in constraints)
        + len(spec.volumes)
        + len(spec.resource_claims)
    )


def _of_affinity(affinity: Affinity) -> int:
    total = sum(
        _of_pod_affinity(each) for each in (affinity.pod_affinity, affinity.pod_anti_affinity) if each is not None
    )
    nodes = affinity.node_affinity
    if nodes is None:
        return total
    required = nodes.required_during_scheduling_ignored_during_execution
    terms = [] if required is None else list(required.node_selector_terms)
    terms += [each.preference for each in nodes.preferred_during_scheduling_ignored_during_execution]
    return total + sum(map(_of_node_term, terms))


def _of_node_term(term: NodeSelectorTerm) -> int:
    return 1 + _of_requirements(term.match_expressions) + _of_requirements(term.match_fields)


def _of_pod_affinity(affinity: PodAffinity) -> int:
    required = affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    return sum(map(_of_pod_term, (*required, *(each.pod_affinity_term for each in preferred))))


def _of_pod_term(term: PodAffinityTerm) -> int:
    selectors = _of_selector(term.label_selector) + _of_selector(term.namespace_selector)
    return 1 + len(term.namespaces) + selectors


def _of_selector(selector: LabelSelector | None) -> int:
    return 0 if selector is None else len(selector.match_labels) + _of_requirements(selector.match_expressions)


def _of_requirements(requirements: Iterable[RequirementLike]) -> int:
    return sum(1 + len(each.values) for each in requirements)
