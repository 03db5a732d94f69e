"""Spreading and affinity between pods, written node by node and pod by pod from kube-scheduler 1.34's rules.

Slow and plain on purpose: the plugins are held against it. Works on the API's own terms, not on compiled ones.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from scheduler.framework import NodeInfo, PodInfo
from scheduler.kube.model import LabelSelector, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from tests.unit.scheduler.plugins.reference import tolerates

HOST = "kubernetes.io/hostname"
U, UU = 2, 3


@dataclass
class Cluster:
    """Nodes with their pods, labels by namespace, selectors of Services by namespace, of controllers by key."""

    nodes: list[tuple[NodeInfo, list[PodInfo]]]
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    services: Mapping[str, list[Mapping[str, str]]] = field(default_factory=dict)
    owners: Mapping[tuple[str, str, str], Mapping[str, str]] = field(default_factory=dict)


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.match_labels.items()):
        return False
    for expression in selector.match_expressions:
        present = expression.key in labels
        ok = {
            "In": present and labels.get(expression.key) in expression.values,
            "NotIn": not present or labels[expression.key] not in expression.values,
            "Exists": present,
            "DoesNotExist": not present,
        }[expression.operator]
        if not ok:
            return False
    return True


def is_empty(selector: LabelSelector | None) -> bool:
    return selector is not None and not selector.match_labels and not selector.match_expressions


def node_affinity_ok(pod: PodInfo, node: NodeInfo) -> bool:
    if any(node.labels.get(key) != value for key, (value,) in pod.spec.node_selector.required.items()):
        return False
    return pod.spec.required is None or pod.spec.required.matches(node.name, node.labels)


def tolerates_hard_taints(pod: PodInfo, node: NodeInfo) -> bool:
    return all(tolerates(pod, taint) for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute"))


# Spreading --------------------------------------------------------------------------------------------------------


@dataclass
class Rule:
    """A constraint with its extra labels (matchLabelKeys)."""

    source: TopologySpreadConstraint
    selector: LabelSelector | None
    extra: Mapping[str, str]

    @property
    def key(self) -> str:
        return self.source.topology_key

    def selects(self, labels: Mapping[str, str]) -> bool:
        return selects(self.selector, labels) and all(labels.get(key) == value for key, value in self.extra.items())

    def counts(self, pods: Sequence[PodInfo], namespace: str) -> int:
        if is_empty(self.selector) and not self.extra:
            return 0
        return sum(1 for pod in pods if pod.namespace == namespace and not pod.deleting and self.selects(pod.labels))

    def admits(self, pod: PodInfo, node: NodeInfo) -> bool:
        if self.source.node_affinity_policy != "Ignore" and not node_affinity_ok(pod, node):
            return False
        return self.source.node_taints_policy != "Honor" or tolerates_hard_taints(pod, node)


def default_labels(pod: PodInfo, world: Cluster) -> dict[str, str]:
    matched: dict[str, str] = {}
    for selector in world.services.get(pod.namespace, []):
        if selector and all(pod.labels.get(key) == value for key, value in selector.items()):
            matched.update(selector)
    if pod.controller is not None:
        matched.update(world.owners.get((pod.namespace, pod.controller.kind, pod.controller.name), {}))
    return matched


def rules(pod: PodInfo, world: Cluster, action: str, defaults: Sequence[TopologySpreadConstraint]) -> list[Rule]:
    if pod.spec.topology_spread:
        return [
            Rule(
                constraint,
                constraint.label_selector,
                {key: pod.labels[key] for key in constraint.match_label_keys if key in pod.labels},
            )
            for constraint in pod.spec.topology_spread
            if constraint.when_unsatisfiable == action
        ]
    labels = default_labels(pod, world)
    if not labels:
        return []
    return [
        Rule(constraint, LabelSelector(match_labels=labels), {})
        for constraint in defaults
        if constraint.when_unsatisfiable == action
    ]


def spread_verdicts(
    pod: PodInfo, world: Cluster, defaults: Sequence[TopologySpreadConstraint]
) -> dict[str, tuple[int, str]] | None:
    """Node -> (code, reason) of those rejected; None where the filter is skipped."""
    hard = rules(pod, world, "DoNotSchedule", defaults)
    if not hard:
        return None
    domains: list[Counter[str]] = [Counter() for _ in hard]
    for node, pods in world.nodes:
        if all(rule.key in node.labels for rule in hard):
            for rule, counts in zip(hard, domains, strict=True):
                if rule.admits(pod, node):
                    counts[node.labels[rule.key]] += rule.counts(pods, pod.namespace)
    rejected = {}
    for node, _ in world.nodes:
        for rule, counts in zip(hard, domains, strict=True):
            if rule.key not in node.labels:
                reason = "node(s) didn't match pod topology spread constraints (missing required label)"
                rejected[node.name] = (UU, reason)
                break
            wanted = 1 if rule.source.min_domains is None else rule.source.min_domains
            least = 0 if len(counts) < wanted else min(counts.values())
            if counts[node.labels[rule.key]] + rule.selects(pod.labels) - least > rule.source.max_skew:
                rejected[node.name] = (U, "node(s) didn't match pod topology spread constraints")
                break
    return rejected


def spread_scores(
    pod: PodInfo,
    world: Cluster,
    feasible: Sequence[str],
    defaults: Sequence[TopologySpreadConstraint],
    *,
    system: bool,
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Raw and normalised scores; None where the score is skipped."""
    soft = rules(pod, world, "ScheduleAnyway", defaults)
    if not soft:
        return None
    require_all = bool(pod.spec.topology_spread) or not system
    nodes = {node.name: (node, pods) for node, pods in world.nodes}
    has_all = {name for name, (node, _) in nodes.items() if all(rule.key in node.labels for rule in soft)}
    ignored = {name for name in feasible if require_all and name not in has_all}
    sums: list[dict[str, int]] = []
    weights: list[float] = []
    for rule in soft:
        domains = {nodes[name][0].labels.get(rule.key, "") for name in feasible if name not in ignored}
        if rule.key == HOST:
            domains = set()
        counts = dict.fromkeys(domains, 0)
        for name, (node, pods) in nodes.items():
            value = node.labels.get(rule.key, "")
            if (not require_all or name in has_all) and rule.admits(pod, node) and value in counts:
                counts[value] += rule.counts(pods, pod.namespace)
        sums.append(counts)
        weights.append(math.log((len(feasible) - len(ignored) if rule.key == HOST else len(domains)) + 2))
    raw = {}
    for name in feasible:
        node, pods = nodes[name]
        score = 0.0
        for rule, counts, weight in zip(soft, sums, weights, strict=True):
            if name in ignored or rule.key not in node.labels:
                continue
            count = rule.counts(pods, pod.namespace) if rule.key == HOST else counts[node.labels[rule.key]]
            score += float(count) * weight + float(rule.source.max_skew - 1)
        raw[name] = math.floor(score + 0.5) if score % 1 == 0.5 else round(score)
    taking_part = [raw[name] for name in feasible if name not in ignored]
    most, least = max(taking_part, default=0), min(taking_part, default=0)
    normalized = {}
    for name in feasible:
        if name in ignored:
            normalized[name] = 0
        else:
            normalized[name] = 100 * (most + least - raw[name]) // most if most else 100
    return raw, normalized


# Affinity ---------------------------------------------------------------------------------------------------------


def own_term_means(term: PodAffinityTerm, owner: PodInfo, other: PodInfo, world: Cluster, *, upstream: bool) -> bool:
    """A term of the pod being placed against a pod that runs."""
    if not term.namespaces and term.namespace_selector is None:
        meant = other.namespace == owner.namespace
    else:
        meant = other.namespace in term.namespaces
        if term.namespace_selector is not None:
            labels = world.namespaces.get(other.namespace)
            meant |= is_empty(term.namespace_selector)
            meant |= labels is not None and selects(term.namespace_selector, labels)
            # The selector is evaluated once more, against no labels.
            meant |= upstream and selects(term.namespace_selector, {})
    return meant and selects(term.label_selector, other.labels)


def their_term_means(term: PodAffinityTerm, owner: PodInfo, incoming: PodInfo, world: Cluster) -> bool:
    """A term of a pod that runs against the pod being placed."""
    if not term.namespaces and term.namespace_selector is None:
        meant = incoming.namespace == owner.namespace
    else:
        labels = world.namespaces.get(incoming.namespace, {})
        meant = incoming.namespace in term.namespaces or selects(term.namespace_selector, labels)
    return meant and selects(term.label_selector, incoming.labels)


def parts(pod: PodInfo) -> tuple[PodAffinity, PodAffinity]:
    affinity = pod.spec.affinity
    if affinity is None:
        return PodAffinity(), PodAffinity()
    return affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAffinity()


def required(part: PodAffinity) -> tuple[PodAffinityTerm, ...]:
    return part.required_during_scheduling_ignored_during_execution


def preferred(part: PodAffinity) -> tuple[Any, ...]:
    return part.preferred_during_scheduling_ignored_during_execution


def affinity_verdicts(pod: PodInfo, world: Cluster, *, upstream: bool) -> dict[str, tuple[int, str]] | None:
    """Node -> (code, reason) of those rejected; None where the filter is skipped."""
    wanted, unwanted = map(required, parts(pod))
    near: Counter[tuple[str, str]] = Counter()
    far: Counter[tuple[str, str]] = Counter()
    existing: Counter[tuple[str, str]] = Counter()
    for node, pods in world.nodes:
        for other in pods:
            for term in required(parts(other)[1]):
                if their_term_means(term, other, pod, world) and term.topology_key in node.labels:
                    existing[term.topology_key, node.labels[term.topology_key]] += 1
            if wanted and all(own_term_means(term, pod, other, world, upstream=upstream) for term in wanted):
                for term in wanted:
                    if term.topology_key in node.labels:
                        near[term.topology_key, node.labels[term.topology_key]] += 1
            for term in unwanted:
                if own_term_means(term, pod, other, world, upstream=upstream) and term.topology_key in node.labels:
                    far[term.topology_key, node.labels[term.topology_key]] += 1
    if not wanted and not unwanted and not existing:
        return None
    own_kind = bool(wanted) and all(own_term_means(term, pod, pod, world, upstream=upstream) for term in wanted)
    rejected = {}
    for node, _ in world.nodes:
        pairs = set(node.labels.items())
        has_keys = all(term.topology_key in node.labels for term in wanted)
        satisfied = has_keys and all((term.topology_key, node.labels[term.topology_key]) in near for term in wanted)
        if not satisfied and not (has_keys and not near and own_kind):
            rejected[node.name] = (UU, "node(s) didn't match pod affinity rules")
        elif pairs & far.keys():
            rejected[node.name] = (U, "node(s) didn't match pod anti-affinity rules")
        elif pairs & existing.keys():
            rejected[node.name] = (U, "node(s) didn't satisfy existing pods anti-affinity rules")
    return rejected


def affinity_scores(
    pod: PodInfo,
    world: Cluster,
    feasible: Sequence[str],
    *,
    hard_weight: int = 1,
    ignore_existing: bool = False,
    upstream: bool = False,
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Raw and normalised scores; None where the score is skipped."""
    wanted, unwanted = parts(pod)
    own = [(weighted.weight, weighted.pod_affinity_term) for weighted in preferred(wanted)]
    own += [(-weighted.weight, weighted.pod_affinity_term) for weighted in preferred(unwanted)]
    if ignore_existing and not own:
        return None
    sums: dict[tuple[str, str], int] = {}
    for node, pods in world.nodes:
        for other in pods:
            near, far = parts(other)
            terms = [each for each in own if own_term_means(each[1], pod, other, world, upstream=upstream)]
            existing = [(hard_weight, term) for term in required(near)] if hard_weight else []
            existing += [(weighted.weight, weighted.pod_affinity_term) for weighted in preferred(near)]
            existing += [(-weighted.weight, weighted.pod_affinity_term) for weighted in preferred(far)]
            terms += [(weight, term) for weight, term in existing if their_term_means(term, other, pod, world)]
            for weight, term in terms:
                if term.topology_key in node.labels:
                    pair = (term.topology_key, node.labels[term.topology_key])
                    sums[pair] = sums.get(pair, 0) + weight
    if not sums:
        return None
    labels = {node.name: node.labels for node, _ in world.nodes}
    raw = {name: sum(sums.get(pair, 0) for pair in labels[name].items()) for name in feasible}
    least, most = min(raw.values()), max(raw.values())
    spread = most - least
    normalized = {name: int(100.0 * ((score - least) / spread)) if spread else 0 for name, score in raw.items()}
    return raw, normalized
