"""What a rebalancer reads of the cluster beyond what a scheduler does: the kinds, and the facts about a cluster."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from scheduler.kube.model import Codec, Int32, Int64, LabelSelector, Object, Pod, PodSpec, ResourceList, Volume
from scheduler.kube.primitives import epoch_seconds, quantity_milli_value, quantity_value


class _Anything(Struct, frozen=True, gc=False):
    """An object of which only its presence counts."""


class MovableVolume(Volume, frozen=True, gc=False, rename="camel"):
    """A volume with the sources that lose their content when the pod moves."""

    empty_dir: _Anything | None = None
    host_path: _Anything | None = None


class MovablePodSpec(PodSpec, frozen=True, gc=False, rename="camel"):
    """A pod's spec with such volumes."""

    volumes: tuple[MovableVolume, ...] = ()


class MovablePod(Pod, frozen=True, gc=False, rename="camel"):
    """A pod as the rebalancer reads it."""

    spec: MovablePodSpec = MovablePodSpec()


class ReplicaCounts(Struct, frozen=True, gc=False, rename="camel"):
    """Status of a workload; None where it does not say."""

    replicas: Int32 | None = None
    ready_replicas: Int32 | None = None
    updated_replicas: Int32 | None = None
    observed_generation: Int64 | None = None


class CountedSpec(Struct, frozen=True, gc=False, rename="camel"):
    """Spec of a workload of apps/v1: its pods, and how many it wants."""

    selector: LabelSelector | None = None
    replicas: Int32 | None = None


class CountedControllerSpec(Struct, frozen=True, gc=False, rename="camel"):
    """The same of a ReplicationController."""

    selector: dict[str, str] = {}
    replicas: Int32 | None = None


class CountedWorkload(Object, frozen=True, gc=False, rename="camel"):
    """apps/v1 Deployment, ReplicaSet or StatefulSet with its numbers."""

    spec: CountedSpec = CountedSpec()
    status: ReplicaCounts = ReplicaCounts()


class CountedReplicationController(Object, frozen=True, gc=False, rename="camel"):
    """v1.ReplicationController with its numbers."""

    spec: CountedControllerSpec = CountedControllerSpec()
    status: ReplicaCounts = ReplicaCounts()


class ContainerUsage(Struct, frozen=True, gc=False, rename="camel"):
    """metrics.k8s.io ContainerMetrics."""

    name: str = ""
    usage: ResourceList = {}


class PodMetrics(Object, frozen=True, gc=False, rename="camel"):
    """metrics.k8s.io/v1beta1 PodMetrics: what a pod used."""

    timestamp: str = ""
    containers: tuple[ContainerUsage, ...] = ()


Workload = CountedWorkload | CountedReplicationController

MOVABLE_PODS = Codec(MovablePod)
POD_METRICS = Codec(PodMetrics)
WORKLOADS: Mapping[str, Codec[Any]] = {
    "Deployment": Codec(CountedWorkload),
    "ReplicaSet": Codec(CountedWorkload),
    "StatefulSet": Codec(CountedWorkload),
    "ReplicationController": Codec(CountedReplicationController),
}
"""Workloads whose pods are replaced, by kind."""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """What the scheduler's view of a pod does not have."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    local_storage: bool = False
    persistent_volumes: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """What a pod used: CPU in milli-units, memory in bytes; NaN where it was not measured."""

    cpu: float = math.nan
    memory: float = math.nan
    at: float = math.nan
    """Seconds since the epoch."""
    source: str = "PodMetrics"
    """Where it is from."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What objects say that a scheduler does not read.

    Attributes:
        pods: by `namespace/name`; a pod that is missing here cannot be judged, and stays where it is.
        workloads: by kind, namespace and name.
        usage: measured use by pod (`namespace/name`).
        node_created: seconds since the epoch by node; a node whose age is unknown is missing.
    """

    pods: Mapping[str, PodFacts] = field(default_factory=dict)
    workloads: Mapping[tuple[str, str, str], Workload] = field(default_factory=dict)
    usage: Mapping[str, Usage] = field(default_factory=dict)
    node_created: Mapping[str, float] = field(default_factory=dict)


def facts_of_pod(pod: MovablePod) -> PodFacts:
    """Return the facts about a pod. A hostPath counts as local storage, as the autoscaler has it."""
    volumes = pod.spec.volumes
    return PodFacts(
        pod.metadata.annotations,
        any(volume.empty_dir is not None or volume.host_path is not None for volume in volumes),
        any(volume.persistent_volume_claim is not None or volume.ephemeral is not None for volume in volumes),
    )


def usage_of(metrics: PodMetrics) -> Usage:
    """Return what a pod's containers used together; NaN of a resource that one of them does not name.

    Raises:
        ValueError: a quantity or the time cannot be read.
    """
    used = [container.usage for container in metrics.containers]
    complete = {name: bool(used) and all(name in usage for usage in used) for name in ("cpu", "memory")}
    return Usage(
        float(sum(max(0, quantity_milli_value(usage["cpu"])) for usage in used)) if complete["cpu"] else math.nan,
        float(sum(max(0, quantity_value(usage["memory"])) for usage in used)) if complete["memory"] else math.nan,
        epoch_seconds(metrics.timestamp),
    )
