"""The workloads of a run, and where their pods are in the beginning: the same for the same seed.

All pods request the same; what they use is something else, as on real clusters. They are placed by requests, and the
busy ones have come together on some nodes: so these are hot while the requests are even.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from devcluster.inventory import SimulatedNode
from devcluster.pod_loads import CPU_ANNOTATION, MEMORY_ANNOTATION

NAMESPACE = "rebalancing"
PROFILE = "mine"
"""The scheduler name of all pods."""
LABEL = "app"
BASE_CPU, BASE_MEMORY = 0.02, 0.1
"""What a node without pods uses, as a fraction."""
REQUEST_CPU, REQUEST_MEMORY = 0.5, "256Mi"
_USED_MEMORY = "200Mi"
_FULLEST_BY_REQUESTS = 0.6
_FULLEST_BY_USE = 0.96
_HOT_SHARE = 0.25
_ATTRACTION = 8.0
_BUSY_SHARE = 0.3
_QUIET = (0.1, 0.3)
_BUSY = (0.7, 1.3)


class Guard(enum.StrEnum):
    """What keeps a workload's pods where they are."""

    NONE = ""
    BUDGET = "budget"
    """A PodDisruptionBudget that allows no disruption."""
    SINGLE = "single"
    """It has one replica."""
    ANNOTATION = "annotation"
    """Its pods say that they are not to be evicted."""


@dataclass(frozen=True)
class PlacedWorkload:
    """A Deployment.

    Attributes:
        cpu: what each of its pods uses, in cores.
    """

    name: str
    replicas: int
    cpu: float
    guard: Guard = Guard.NONE


@dataclass(frozen=True)
class InitialPlacement:
    """What a run begins with.

    Attributes:
        nodes: simulated ones.
        node_names: of each workload, the nodes of its pods.
    """

    nodes: Sequence[SimulatedNode]
    workloads: Sequence[PlacedWorkload]
    node_names: Mapping[str, Sequence[str]]

    @property
    def pods(self) -> int:
        """How many there are."""
        return sum(workload.replicas for workload in self.workloads)

    @property
    def cores(self) -> dict[str, int]:
        """Of each node."""
        return {node.name: node.size.cpus for node in self.nodes}


def place_pods(nodes: Sequence[SimulatedNode], pods: int, seed: int) -> InitialPlacement:
    """Return the placement of a seed.

    Raises:
        ValueError: the pods do not fit.
    """
    chance = random.Random(seed)
    workloads = list(_workloads(pods, chance))
    placer = _Placer(nodes, chance)
    # The busy ones first: they find room where they gather.
    node_names = {
        workload.name: [placer.place(workload) for _ in range(workload.replicas)]
        for workload in sorted(workloads, key=lambda workload: -workload.cpu)
    }
    return InitialPlacement(nodes, workloads, node_names)


def _workloads(pods: int, chance: random.Random) -> Iterator[PlacedWorkload]:
    guards = {3: Guard.BUDGET, 5: Guard.SINGLE, 7: Guard.ANNOTATION}
    number, left = 0, pods
    while left > 0:
        guard = guards.get(number % 12, Guard.NONE)
        replicas = 1 if guard is Guard.SINGLE else min(left, chance.randint(4, 14))
        # One of each kind of guard is busy: a busy pod that has to stay is what is in the way on real clusters.
        busy = guard is not Guard.NONE or chance.random() < _BUSY_SHARE
        cpu = round(chance.uniform(*(_BUSY if busy else _QUIET)), 2)
        yield PlacedWorkload(f"web-{number:02d}", replicas, cpu, guard)
        number, left = number + 1, left - replicas


class _Placer:
    def __init__(self, nodes: Sequence[SimulatedNode], chance: random.Random) -> None:
        self._chance = chance
        self._cores = {node.name: node.size.cpus for node in nodes}
        self._requested = dict.fromkeys(self._cores, 0.0)
        self._used = {name: BASE_CPU * cores for name, cores in self._cores.items()}
        names = list(self._cores)
        self._hot = set(chance.sample(names, max(1, round(_HOT_SHARE * len(names)))))

    def place(self, workload: PlacedWorkload) -> str:
        """Choose a node by its free requests; the busy gather on some."""
        weights = {}
        for name, cores in self._cores.items():
            free = _FULLEST_BY_REQUESTS * cores - self._requested[name]
            if free < REQUEST_CPU or self._used[name] + workload.cpu > _FULLEST_BY_USE * cores:
                continue
            attraction = _ATTRACTION if workload.cpu >= _BUSY[0] and name in self._hot else 1.0
            weights[name] = free / cores * attraction
        if not weights:
            raise ValueError("the pods do not fit: take fewer, or more nodes")
        (name,) = self._chance.choices(list(weights), list(weights.values()))
        self._requested[name] += REQUEST_CPU
        self._used[name] += workload.cpu
        return name


def manifests(workload: PlacedWorkload) -> Iterator[dict[str, Any]]:
    """Yield the objects of a workload."""
    labels = {LABEL: workload.name}
    annotations = {CPU_ANNOTATION: f"{round(workload.cpu * 1000)}m", MEMORY_ANNOTATION: _USED_MEMORY}
    if workload.guard is Guard.ANNOTATION:
        annotations |= {
            "secondary-scheduler.io/rebalance": "false",
            "descheduler.alpha.kubernetes.io/prefer-no-eviction": "true",
        }
    requests = {"cpu": f"{round(REQUEST_CPU * 1000)}m", "memory": REQUEST_MEMORY}
    image = "registry.example.com/shop/web:1"
    spec = {
        "schedulerName": PROFILE,
        # Simulated nodes only: on a real one they would be processes.
        "nodeSelector": {"type": "kwok"},
        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "web", "image": image, "resources": {"requests": requests}}],
    }
    metadata = {"name": workload.name, "namespace": NAMESPACE}
    yield {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata,
        "spec": {
            "replicas": workload.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": spec},
        },
    }
    if workload.guard is Guard.BUDGET:
        yield {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata,
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": labels}},
        }
