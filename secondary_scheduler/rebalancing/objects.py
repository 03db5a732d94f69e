"""What a rebalancer reads of the cluster beyond what a scheduler does: the kinds, and the facts about a cluster."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from scheduler.framework import PodInfo
from scheduler.kube.model import (
    Codec,
    Int32,
    Int64,
    LabelSelector,
    Object,
    OwnerReference,
    Pod,
    PodSpec,
    ResourceList,
    Volume,
)
from scheduler.kube.primitives import epoch_seconds, quantity_milli_value, quantity_value

REPLACING = frozenset({"ReplicaSet", "StatefulSet", "ReplicationController", "Job"})
"""Kinds of controllers that make another pod for one that was evicted. Of other kinds nobody can know."""
WAITING_FOR_THE_END = frozenset({"StatefulSet"})
"""Kinds that make the other pod only once the first one has gone."""
_REVISIONS = ("pod-template-hash", "controller-revision-hash")
_Key = tuple[str, str, str]


def is_ready(pod: PodInfo) -> bool:
    """Tell whether a pod runs and serves."""
    ready = any(condition.type == "Ready" and condition.status == "True" for condition in pod.conditions)
    return pod.phase == "Running" and ready


@dataclass(slots=True)
class WorkloadState:
    """A workload as it is.

    Attributes:
        key: kind, namespace, name.
        pods: those that have not ended, pending ones included.
        unsettled: why it does not stand still; "" if it does.
        counted: whether its object says how many pods it wants.
    """

    key: _Key
    pods: list[PodInfo] = field(default_factory=list)
    unsettled: str = ""
    counted: bool = False

    @property
    def title(self) -> str:
        """How messages name it."""
        kind, namespace, name = self.key
        return f"{kind} {namespace}/{name}"

    @property
    def replicas(self) -> int:
        """How many of its pods are ready."""
        return sum(is_ready(pod) and not pod.deleting for pod in self.pods)


class Workloads:
    """The workloads of a cluster.

    Args:
        pods: on nodes and pending.
        objects: by kind, namespace and name.
    """

    def __init__(self, pods: Iterable[PodInfo], objects: Mapping[_Key, Workload]) -> None:
        self._objects = objects
        self._states: dict[_Key, WorkloadState] = {}
        for pod in pods:
            key = self.key_of(pod)
            if key is not None:
                self._states.setdefault(key, WorkloadState(key)).pods.append(pod)
        for state in self._states.values():
            item = objects.get(state.key)
            state.counted = item is not None and item.spec.replicas is not None
            state.unsettled = next(_signs_of_change(state, item), "")

    def key_of(self, pod: PodInfo) -> _Key | None:
        """Return the workload of a pod; None for a pod without a controller."""
        owner = pod.controller
        if owner is None:
            return None
        if owner.kind == "ReplicaSet":
            above = self._owner(owner, pod.namespace)
            if above is not None:
                return above.kind, pod.namespace, above.name
        return owner.kind, pod.namespace, owner.name

    def of(self, pod: PodInfo) -> WorkloadState | None:
        """Return the workload of a pod; None for a pod without a controller."""
        key = self.key_of(pod)
        return None if key is None else self._states.get(key)

    def controller(self, pod: PodInfo) -> tuple[bool, int | None]:
        """Return whether the pod's controller may exist, and how many pods that wants; None where it does not say.

        A controller that is another object than the pod names (its UID) has not made the pod, and replaces nothing.
        """
        owner = pod.controller
        if owner is None:
            return False, None
        item = self._objects.get((owner.kind, pod.namespace, owner.name))
        if item is None:
            return True, None
        same = not owner.uid or not item.metadata.uid or owner.uid == item.metadata.uid
        return same, item.spec.replicas

    @property
    def uncounted(self) -> Sequence[WorkloadState]:
        """Workloads about which only their pods are known."""
        return [state for state in self._states.values() if not state.counted]

    def _owner(self, owner: OwnerReference, namespace: str) -> OwnerReference | None:
        item = self._objects.get((owner.kind, namespace, owner.name))
        return None if item is None else item.metadata.controller


def _signs_of_change(state: WorkloadState, item: Workload | None) -> Iterator[str]:
    """Yield why a workload is not at rest, by its object first."""
    if item is not None:
        yield from _changes_of_object(item)
    revisions = {revision for pod in state.pods for revision in [revision_of(pod)] if revision}
    if len(revisions) > 1:
        yield f"its pods are of {len(revisions)} revisions"
    for pod in state.pods:
        if pod.deleting:
            yield f"{pod.key} is being deleted"
        elif not is_ready(pod):
            yield f"{pod.key} is not ready"


def _changes_of_object(item: Workload) -> Iterator[str]:
    replicas, status = item.spec.replicas, item.status
    observed = status.observed_generation
    if observed is not None and observed < item.metadata.generation:
        yield "its controller has not seen its newest version"
    if replicas is None:
        return
    updated = None if isinstance(item, CountedReplicationController) else status.updated_replicas
    for count, words in ((status.replicas, "exist"), (updated, "are up to date"), (status.ready_replicas, "are ready")):
        if count is not None and count != replicas:
            yield f"{count} of its {replicas} pods {words}"
            return
    if replicas and status.replicas is not None and status.ready_replicas is None:
        # The API leaves out a zero.
        yield f"none of its {replicas} pods is ready"


def revision_of(pod: PodInfo) -> str:
    """Return the revision of the template that a pod was made from; "" where its labels do not say."""
    return next((pod.labels[label] for label in _REVISIONS if label in pod.labels), "")


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
class MovedPodFacts:
    """What the scheduler's view of a pod does not have."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    local_storage: bool = False
    persistent_volumes: bool = False


@dataclass(frozen=True, slots=True)
class PodUsage:
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

    pods: Mapping[str, MovedPodFacts] = field(default_factory=dict)
    workloads: Mapping[tuple[str, str, str], Workload] = field(default_factory=dict)
    usage: Mapping[str, PodUsage] = field(default_factory=dict)
    node_created: Mapping[str, float] = field(default_factory=dict)


def facts_of_pod(pod: MovablePod) -> MovedPodFacts:
    """Return the facts about a pod. A hostPath counts as local storage, as the autoscaler has it."""
    volumes = pod.spec.volumes
    return MovedPodFacts(
        pod.metadata.annotations,
        any(volume.empty_dir is not None or volume.host_path is not None for volume in volumes),
        any(volume.persistent_volume_claim is not None or volume.ephemeral is not None for volume in volumes),
    )


def usage_of(metrics: PodMetrics) -> PodUsage:
    """Return what a pod's containers used together; NaN of a resource that one of them does not name.

    Raises:
        ValueError: a quantity or the time cannot be read.
    """
    used = [container.usage for container in metrics.containers]
    complete = {name: bool(used) and all(name in usage for usage in used) for name in ("cpu", "memory")}
    return PodUsage(
        float(sum(max(0, quantity_milli_value(usage["cpu"])) for usage in used)) if complete["cpu"] else math.nan,
        float(sum(max(0, quantity_value(usage["memory"])) for usage in used)) if complete["memory"] else math.nan,
        epoch_seconds(metrics.timestamp),
    )
