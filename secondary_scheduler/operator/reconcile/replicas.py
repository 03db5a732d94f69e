"""How many replicas to run, given the nodes that can run one."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from scheduler.config import SecondarySchedulerSpec
from secondary_scheduler.operator.reconcile.model import Json, Observed


class Replicas(NamedTuple):
    """The number to run.

    Attributes:
        shortage: where it is fewer than was asked for, both numbers and why.
        remedy: which nodes count, and what to do about it.
    """

    number: int
    shortage: str = ""
    remedy: str = ""


def desired_replicas(observed: Observed, spec: SecondarySchedulerSpec) -> Replicas:
    """One, or in high availability as many as there are nodes for them, at most `maxReplicas`.

    A node counts if it has the labels of the node selector, is not cordoned and has no taint that the scheduler does
    not tolerate. That it is not ready keeps a replica from being added, but takes none away: it may be back before
    another node has started one.
    """
    if not spec.highly_available:
        return Replicas(1)
    most = spec.replicas
    if "Node" in observed.unreadable:
        return Replicas(most)
    topology = spec.topology.highly_available_topology
    selector = {**topology.node_selector, **spec.node_selector}
    tolerations = [*topology.tolerations, *spec.tolerations]
    eligible = [node for node in observed.of_kind("Node") if _can_run(node, selector, tolerations)]
    ready = sum(map(_is_ready, eligible))
    live = observed.get("Deployment", observed.names.operand)
    running = int(live["spec"].get("replicas", 1)) if live is not None else 0
    count = max(1, min(most, ready), min(most, running, len(eligible)))
    if count >= most:
        return Replicas(count)
    described = ", ".join(f"{key}={value}" for key, value in sorted(selector.items())) or "no selector"
    return Replicas(
        count,
        f"{count} of {most} wanted: {_suitable(len(eligible), ready)}",
        f"a node counts that could run one ({described}) and is ready; add nodes, or lower maxReplicas",
    )


def _suitable(eligible: int, ready: int) -> str:
    if ready < eligible:
        return f"{ready} of {eligible} suitable nodes {'is' if ready == 1 else 'are'} ready"
    return {0: "no suitable node", 1: "one suitable node"}.get(eligible, f"{eligible} suitable nodes")


def _can_run(node: Json, selector: Mapping[str, str], tolerations: Sequence[Json]) -> bool:
    labels = node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in selector.items()):
        return False
    spec = node.get("spec") or {}
    if spec.get("unschedulable"):
        return False
    hard = (taint for taint in spec.get("taints") or [] if taint.get("effect") in ("NoSchedule", "NoExecute"))
    # What the cluster itself sets on a node in trouble is what `_is_ready` is about.
    lasting = (taint for taint in hard if not str(taint.get("key", "")).startswith("node.kubernetes.io/"))
    return all(any(_tolerates(toleration, taint) for toleration in tolerations) for taint in lasting)


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key = toleration.get("key") or ""
    if toleration.get("operator") == "Exists":
        return not key or key == taint.get("key")
    return bool(key) and key == taint.get("key") and (toleration.get("value") or "") == (taint.get("value") or "")


def _is_ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
