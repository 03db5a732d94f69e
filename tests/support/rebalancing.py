"""Small clusters with an overloaded node, and the plans that the rebalancer makes for them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from scheduler.config import load_configuration, read_rebalance_settings
from scheduler.framework import LoadReading, NodeLoad
from secondary_scheduler.cli.rebalance.running import read_facts
from secondary_scheduler.rebalancing import History, Oracle, PlanInput, RebalancePlan, SchedulerHealth, make_plan
from secondary_scheduler.simulation.cluster import PodSelection, build_cluster
from secondary_scheduler.simulation.documents import Entry
from secondary_scheduler.simulation.objects import RecordedObjects
from secondary_scheduler.simulation.report import InputReport, ObjectPlace
from secondary_scheduler.simulation.settingup import Conditions, ReadyCluster, load_sources, make_ready
from tests.support.simulating import LOAD_AWARE, node, pod

START = 1_767_225_600
"""2026-01-01T00:00:00Z: when all pods were started."""
NOW = START + 7200
_TIME = "2026-01-01T00:00:00Z"
Object = dict[str, Any]


def owned(kind: str, name: str, *, uid: str | None = None) -> list[Object]:
    """The ownerReferences of a pod with this controller."""
    version = "batch/v1" if kind == "Job" else "v1" if kind in ("Node", "ReplicationController") else "apps/v1"
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": uid or f"uid-{name}", "controller": True}]


def running(name: str, on: str, *, cpu: str | None = "500m", owner: str = "web", **spec: Any) -> Object:
    """A pod of a ReplicaSet that runs and is ready for two hours."""
    meta = {"uid": f"uid-{name}", "labels": {"app": owner}, "ownerReferences": owned("ReplicaSet", owner)}
    item = pod(name, cpu=cpu, meta=meta, nodeName=on, **spec)
    item["status"] = {
        "phase": "Running",
        "startTime": _TIME,
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": _TIME},
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": _TIME},
        ],
    }
    return item


def encoded(item: Object) -> bytes:
    """The object as an API server sends it."""
    metadata = {"resourceVersion": "1", "uid": item["metadata"]["name"], **item["metadata"]}
    return msgspec.json.encode({**item, "metadata": metadata})


def metrics(name: str, *, cpu: str, memory: str = "100Mi", at: str = "2026-01-01T02:00:00Z") -> Object:
    """What a pod used."""
    usage = {"cpu": cpu, "memory": memory}
    return {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "PodMetrics",
        "metadata": {"name": name, "namespace": "default"},
        "timestamp": at,
        "window": "15s",
        "containers": [{"name": "c", "usage": usage}],
    }


def replica_set(name: str, *, replicas: int, ready: int | None = None, **meta: Any) -> Object:
    """A ReplicaSet that wants so many pods."""
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1, **meta},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}},
        "status": {
            "replicas": replicas,
            "readyReplicas": replicas if ready is None else ready,
            "observedGeneration": 1,
        },
    }


@dataclass
class Scene:
    """A cluster and its load in per cent of CPU by node.

    Attributes:
        memory: the same of memory; nodes that are missing have none measured.
        measured_at: when a node's load was measured, seconds since the epoch.
        window_end: the same of all loads together.
    """

    objects: list[Object]
    cpu: dict[str, float]
    memory: dict[str, float] = field(default_factory=dict)
    configuration: str = LOAD_AWARE
    measured_at: dict[str, float] = field(default_factory=dict)
    now: float = NOW
    window_end: float = NOW
    reported: list[str] = field(default_factory=list)

    def change(self, name: str, how: Callable[[Object], object]) -> Scene:
        """A copy in which the object of this name is another."""
        changed = copy.deepcopy(self)
        (item,) = [item for item in changed.objects if item["metadata"]["name"] == name]
        how(item)
        return changed

    def with_objects(self, *objects: Object) -> Scene:
        """A copy with more objects."""
        changed = copy.deepcopy(self)
        changed.objects += objects
        return changed

    def ready(self, seed: int = 0) -> tuple[ReadyCluster, RecordedObjects]:
        """The cluster with its configuration."""
        report = InputReport(self.reported.append)
        configuration = load_configuration(
            self.configuration, source="scene", external_load=True, allow_token_in_config_map=True
        )
        objects = RecordedObjects(report)
        objects.add(
            Entry(ObjectPlace("scene", number), item["apiVersion"], item["kind"], msgspec.json.encode(item))
            for number, item in enumerate(self.objects, 1)
        )
        cluster = build_cluster(objects, report, PodSelection(configuration.scheduler_names))
        ready = make_ready(cluster, configuration, Conditions(seed, self.now, self._load()))
        return ready, objects

    def plan(
        self,
        settings: Mapping[str, Any] | None = None,
        *,
        rounds: int = 1,
        history: History | None = None,
        health: SchedulerHealth | None = None,
        own_namespaces: Iterable[str] = (),
        seed: int = 0,
    ) -> RebalancePlan:
        """The plan for it."""
        ready, objects = self.ready(seed)
        configuration, attempts = ready.configuration, ready.assembly.attempts
        situation = PlanInput(
            read_rebalance_settings(dict(settings or {})),
            read_facts(objects, InputReport(self.reported.append)),
            ready.cluster.pending,
            tuple(configuration.scheduler_names),
            max_age=300.0,
            window=900.0,
            history=history if history is not None else History.unknown(),
            health=health,
            own_namespaces=frozenset(own_namespaces),
        )
        assert ready.load is not None
        oracle = Oracle(
            attempts.state, attempts.runners, load_sources(configuration), ready.load, ready.now, ready.chance
        )
        return make_plan(situation, oracle, rounds)

    def _load(self) -> LoadReading:
        names = [item["metadata"]["name"] for item in self.objects if item["kind"] == "Node"]
        loads = {
            name: NodeLoad(
                cpu_average=self.cpu.get(name, float("nan")),
                memory_average=self.memory.get(name, float("nan")),
                measured_at=self.measured_at.get(name, float("nan")),
            )
            for name in names
            if name in self.cpu
        }
        return LoadReading(loads, window_end=self.window_end)


def one_hot_node(nodes: int = 4, *, pods: int = 1, hot: float = 95.0, others: float = 20.0) -> Scene:
    """A node with too much load and so many pods of one ReplicaSet, and others with a pod each of the same."""
    names = [f"n{number}" for number in range(nodes)]
    objects = [node(name) for name in names]
    objects += [running(f"hot-{number}", "n0") for number in range(pods)]
    objects += [running(f"cool-{name}", name) for name in names[1:]]
    return Scene(objects, {name: hot if name == "n0" else others for name in names})


def moved(plan: RebalancePlan) -> list[tuple[str, str, str]]:
    """Pod, source and target of each move."""
    return [(move.pod, move.source.name, move.target.name) for move in plan.moves]
