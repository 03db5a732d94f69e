"""Nodes and pods of a cluster, page by page: of each pod no more is kept than its node's sums. And the nodes' load as
the running scheduler sees it: its `/debug/nodes`, through a forwarded port (docs/adr/0025).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from scheduler.answers import NodeLoadReport, SourceLoads
from scheduler.kube.client import SyncConnection, api_path
from scheduler.kube.model import Node, Pod, pod_requests
from scheduler.kube.primitives import QuantityError, quantity_milli_value, quantity_value
from secondary_scheduler.cli.errors import CommandError
from secondary_scheduler.cli.schedulers import Schedulers
from secondary_scheduler.clusterstatus.listing import list_raw
from secondary_scheduler.kubeobjects import decode_bare_pod

if TYPE_CHECKING:
    from scheduler.catalog import KubernetesVersion


@dataclass
class ReportedLoads:
    """What the schedulers answered.

    Attributes:
        sources: by name; of two schedulers that read the same, the first.
        missing: why a load is not shown, a line each.
    """

    sources: dict[str, SourceLoads] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)


def read_loads(schedulers: Schedulers) -> ReportedLoads:
    """Ask each for the nodes' load."""
    loads = ReportedLoads()
    for answer in schedulers.answers("/debug/nodes", {}, "get nodes", NodeLoadReport):
        if isinstance(answer, CommandError):
            loads.missing.append(f"load: {answer}")
            continue
        for source in answer.sources:
            loads.sources.setdefault(source.source, source)
    return loads


_NODES_PER_PAGE, _PODS_PER_PAGE = 250, 500
MAX_NODES, MAX_PODS = 20_000, 500_000
"""As many are counted: beyond, the answer would no longer be one that a person waits for."""
_ON_A_NODE = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

_node = msgspec.json.Decoder(Node)
_pod = msgspec.json.Decoder(Pod)


@dataclass(slots=True)
class NodeSums:
    """What the pods of a node have together: CPU in milli-units, memory in bytes, and how many there are of each
    scheduler name."""

    cpu: int = 0
    memory: int = 0
    pods: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class PodSums:
    """The pods that have a node and have not ended.

    Attributes:
        by_node: sums by the node's name.
        unreadable: pods that are counted, but whose requests could not be read.
        complete: whether all pods were counted.
    """

    by_node: dict[str, NodeSums] = field(default_factory=dict)
    unreadable: int = 0
    complete: bool = True


@dataclass(frozen=True, slots=True)
class NodeCapacity:
    """A node: allocatable CPU in milli-units, memory in bytes, and pods."""

    name: str
    cpu: int
    memory: int
    pods: int
    ready: bool
    schedulable: bool


def read_nodes(connection: SyncConnection, selector: str) -> list[NodeCapacity]:
    """Return the nodes with these labels, all if the selector is empty, at most 20,000.

    Raises:
        KubeError: they cannot be listed.
    """
    params: dict[str, str | int] = {"limit": _NODES_PER_PAGE, **({"labelSelector": selector} if selector else {})}
    nodes: list[NodeCapacity] = []
    for raw in list_raw(connection, api_path("v1", "nodes"), params):
        if len(nodes) == MAX_NODES:
            break
        try:
            nodes.append(_capacity(_node.decode(raw)))
        except (msgspec.MsgspecError, QuantityError):
            # One that nobody can read, the scheduler does not use either.
            continue
    return nodes


def _capacity(node: Node) -> NodeCapacity:
    allocatable = node.status.allocatable
    return NodeCapacity(
        node.name,
        quantity_milli_value(allocatable.get("cpu", 0)),
        quantity_value(allocatable.get("memory", 0)),
        quantity_value(allocatable.get("pods", 0)),
        any(condition.type == "Ready" and condition.status == "True" for condition in node.status.conditions),
        not node.spec.unschedulable,
    )


def read_pods(connection: SyncConnection, kubernetes: KubernetesVersion) -> PodSums:
    """Return the sums of the pods by node; at most 500,000 pods are counted.

    Args:
        connection: to the API server.
        kubernetes: says how a pod counts that is being resized.

    Raises:
        KubeError: they cannot be listed.
    """
    sums = PodSums()
    params: dict[str, str | int] = {"limit": _PODS_PER_PAGE, "fieldSelector": _ON_A_NODE}
    for number, raw in enumerate(list_raw(connection, api_path("v1", "pods"), params)):
        if number == MAX_PODS:
            sums.complete = False
            break
        _add(sums, raw, kubernetes)
    return sums


def _add(sums: PodSums, raw: msgspec.Raw, kubernetes: KubernetesVersion) -> None:
    cpu = memory = 0
    try:
        pod = _pod.decode(raw)
        requests = pod_requests(pod, use_status=True, rules=kubernetes).requests
        cpu, memory = requests.get("cpu", 0), requests.get("memory", 0)
        node, scheduler = str(pod.spec.node_name), pod.spec.scheduler_name
    except (msgspec.MsgspecError, QuantityError):
        sums.unreadable += 1
        try:
            spec = decode_bare_pod(raw).spec
        except msgspec.MsgspecError:
            return
        node, scheduler = spec.node_name, spec.scheduler_name
    node_sums = sums.by_node.get(node)
    if node_sums is None:
        node_sums = sums.by_node[node] = NodeSums()
    node_sums.cpu += cpu
    node_sums.memory += memory
    node_sums.pods[scheduler] += 1


def most_common(pods: Mapping[str, int], limit: int) -> Iterator[tuple[str, int]]:
    """Yield scheduler names and how many pods each has, the most first, then by name."""
    yield from sorted(pods.items(), key=lambda item: (-item[1], item[0]))[:limit]
