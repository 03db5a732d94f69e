"""Whether a pod may be on a node, judged from the two objects and the pods beside it, with code of its own: nothing of
the scheduler is imported. Covers what a scheduler may never get wrong: amounts, selectors, taints, ports, required
affinity to nodes and away from pods, and the rack of a gang. Spreading, volumes and NUMA are judged by their
conformance tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from tests.faults.history import GROUP, POD, State

Json = dict[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
TOPOLOGY_REQUIRED = "secondary-scheduler.io/topology-required"


def requests(pod: Json) -> dict[str, Decimal]:
    """What a pod asks for: its containers together, or its largest init container, and the overhead."""
    spec = pod["spec"]
    total: dict[str, Decimal] = {"pods": Decimal(1)}
    sidecars: dict[str, Decimal] = {}
    for container in spec.get("containers", ()):
        _add(total, _amounts(container))
    largest: dict[str, Decimal] = {}
    for container in spec.get("initContainers", ()):
        amounts = _amounts(container)
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            needed = dict(sidecars)
        else:
            needed = dict(sidecars)
            _add(needed, amounts)
        for name, amount in needed.items():
            largest[name] = max(largest.get(name, Decimal(0)), amount)
    for name, amount in largest.items():
        total[name] = max(total.get(name, Decimal(0)), amount)
    _add(total, {name: parse_quantity(amount) for name, amount in (spec.get("overhead") or {}).items()})
    return total


def allocatable(node: Json) -> dict[str, Decimal]:
    """What a node has for pods."""
    return {name: parse_quantity(amount) for name, amount in node.get("status", {}).get("allocatable", {}).items()}


def _amounts(container: Json) -> dict[str, Decimal]:
    wanted = (container.get("resources") or {}).get("requests") or {}
    return {name: parse_quantity(amount) for name, amount in wanted.items()}


def _add(total: dict[str, Decimal], amounts: Mapping[str, Decimal]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, Decimal(0)) + amount


def overcommitted(pod: Json, node: Json, others: Iterable[Json]) -> str:
    """What the pod asks for and the node has not left beside the others; empty when it fits."""
    used: dict[str, Decimal] = {}
    for other in others:
        if other["metadata"]["uid"] != pod["metadata"]["uid"]:
            _add(used, requests(other))
    free = allocatable(node)
    return ", ".join(
        f"{name}: {used.get(name, Decimal(0))} + {amount} > {free.get(name, Decimal(0))}"
        for name, amount in requests(pod).items()
        if amount > 0 and used.get(name, Decimal(0)) + amount > free.get(name, Decimal(0))
    )


def refused(pod: Json, node: Json, state: State) -> str:
    """Which constraint keeps the pod off the node; empty when none does."""
    checks = (
        _selector(pod, node),
        _node_affinity(pod, node),
        _taints(pod, node),
        _ports(pod, node, state),
        _away(pod, node, state),
        _domain(pod, node, state),
    )
    return next(filter(None, checks), "")


def _labels(item: Json) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}


def _domain(pod: Json, node: Json, state: State) -> str:
    """Whether the node is in another rack than the members of the pod's gang that have nodes, or in none."""
    meta = pod["metadata"]
    group = state.of(GROUP).get((meta["namespace"], (meta.get("labels") or {}).get(GROUP_LABEL, "")))
    label = ((group or {}).get("metadata", {}).get("annotations") or {}).get(TOPOLOGY_REQUIRED)
    if not label:
        return ""
    value = _labels(node).get(label)
    members = [
        other
        for (home, _), other in state.of(POD).items()
        if home == meta["namespace"] and _labels(other).get(GROUP_LABEL) == _labels(pod).get(GROUP_LABEL)
    ]
    nodes = {name for other in members if (name := other["spec"].get("nodeName"))}
    others = {_labels(home_node).get(label) for name in nodes if (home_node := state.node(name))} - {value}
    return f"{label}={value} beside members in {sorted(map(str, others))}" if value is None or others else ""


def _selector(pod: Json, node: Json) -> str:
    labels = _labels(node)
    missing = [f"{k}={v}" for k, v in (pod["spec"].get("nodeSelector") or {}).items() if labels.get(k) != v]
    return f"nodeSelector {', '.join(missing)}" if missing else ""


def _node_affinity(pod: Json, node: Json) -> str:
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
    if not required:
        return ""
    fields = {"metadata.name": node["metadata"]["name"]}
    for term in required.get("nodeSelectorTerms", ()):
        expressions, on_fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
        if (
            (expressions or on_fields)
            and all(_matches(expression, _labels(node)) for expression in expressions)
            and all(_matches(expression, fields) for expression in on_fields)
        ):
            return ""
    return "required node affinity"


def _matches(expression: Json, labels: Mapping[str, str]) -> bool:
    key, operator, values = expression["key"], expression["operator"], expression.get("values") or []
    value = labels.get(key)
    if operator == "In":
        return value in values
    if operator == "NotIn":
        return value not in values
    if operator == "Exists":
        return value is not None
    if operator == "DoesNotExist":
        return value is None
    try:
        number, bound = int(value or ""), int(values[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else number < bound


def _taints(pod: Json, node: Json) -> str:
    taints = list(node.get("spec", {}).get("taints") or ())
    if node.get("spec", {}).get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    tolerations = pod["spec"].get("tolerations") or ()
    for taint in taints:
        if taint["effect"] in ("NoSchedule", "NoExecute") and not any(_tolerates(each, taint) for each in tolerations):
            return f"taint {taint['key']}"
    return ""


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", "")


def _host_ports(pod: Json) -> set[tuple[str, int]]:
    return {
        (port.get("protocol", "TCP"), port["hostPort"])
        for container in pod["spec"].get("containers", ())
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def _ports(pod: Json, node: Json, state: State) -> str:
    wanted = _host_ports(pod)
    for other in state.pods_on(node["metadata"]["name"]) if wanted else ():
        if other["metadata"]["uid"] != pod["metadata"]["uid"] and wanted & _host_ports(other):
            return f"host port of {other['metadata']['name']}"
    return ""


def _away(pod: Json, node: Json, state: State) -> str:
    """Required anti-affinity, of the pod to others and of others to the pod."""
    keeps_away = bool(_anti_affinity(pod))
    for other in state.of("pods").values():
        # Of thousands of pods, most keep nobody away.
        if not keeps_away and not _anti_affinity(other):
            continue
        place = state.node(other["spec"].get("nodeName", ""))
        if other["metadata"]["uid"] == pod["metadata"]["uid"] or place is None:
            continue
        if other.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for mine, theirs in ((pod, other), (other, pod)):
            for term in _anti_affinity(mine):
                key = term["topologyKey"]
                same = _labels(node).get(key) is not None and _labels(node).get(key) == _labels(place).get(key)
                if same and _selects(term, mine, theirs):
                    return f"anti-affinity between {mine['metadata']['name']} and {theirs['metadata']['name']}"
    return ""


def _anti_affinity(pod: Json) -> list[Json]:
    affinity = pod["spec"].get("affinity")
    return (affinity.get("podAntiAffinity") or {}).get(_REQUIRED) or [] if affinity else []


def _selects(term: Json, owner: Json, pod: Json) -> bool:
    namespaces = term.get("namespaces") or [owner["metadata"]["namespace"]]
    selector = term.get("labelSelector")
    if selector is None or pod["metadata"]["namespace"] not in namespaces:
        return False
    labels = _labels(pod)
    return all(labels.get(k) == v for k, v in (selector.get("matchLabels") or {}).items()) and all(
        _matches(expression, labels) for expression in selector.get("matchExpressions") or ()
    )
