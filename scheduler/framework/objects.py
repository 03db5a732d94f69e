"""Pods and nodes reduced to what filters and scores look at. Built by `scheduler.helpers`; never changed afterwards.

CPU is counted in milli-units and every other resource in whole units, as kube-scheduler counts them.

Upstream keeps the whole API object of each pod. At 30,000 pods the decoded objects would be most of the process's
memory, and each attempt would parse quantities and selectors again. What many pods have in common (their `SpecInfo`) is
one object per class of pods, so that a pod of a Deployment costs its names and a reference.
"""

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Struct

from scheduler.framework.podterms import NO_TERMS, PodTerms
from scheduler.kube.model import (
    Affinity,
    OwnerReference,
    PodCondition,
    PodResourceClaim,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from scheduler.kube.primitives import CompiledNodeSelector, Selector, WeightedTerm

Resources = Mapping[str, int]
T = TypeVar("T")


class HostPort(Struct, frozen=True):
    """A port a container wants on the node itself."""

    protocol: str
    ip: str
    port: int


class ContainerResources(Struct, frozen=True):
    """What one container requests, and its limits. `kind` is init, sidecar (an init container that keeps running) or
    app."""

    kind: str
    requests: Resources
    name: str = ""
    limits: Resources = {}


class PodLevelResources(Struct, frozen=True):
    """What the pod as a whole requests, and its limits (`spec.resources`): of cpu, memory and huge pages."""

    requests: Resources = {}
    limits: Resources = {}


NO_POD_LEVEL = PodLevelResources()


class SeccompPaths(Struct, frozen=True):
    """Paths of seccomp profiles: those of security contexts, and those that annotations name."""

    contexts: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()


NO_SECCOMP_PATHS = SeccompPaths()


FEW_PARTS = 256
"""A pod that lists no more than so many things (terms, values, tolerations, ports, volumes, containers ...) is an
ordinary one. Of real workloads hardly one lists a hundred."""


class SpecInfo(Struct, frozen=True, eq=False, weakref=True):
    """What a filter or score can see of a pod, except its labels and identity; pods of one class share one.

    Attributes:
        class_key: digest of everything below and of the namespace; equal keys mean equal scheduling behaviour.
        requests: effective request (init, sidecars, pod-level, overhead): what the node must have free.
        score_requests: same without pod-level requests and with 100m/200Mi where a container names none; upstream's
            NodeResourcesFit scores with these.
        nonzero_cpu, nonzero_memory: what the pod adds to the node's sums for scoring.
        node_selector: compiled nodeSelector.
        required: compiled required node affinity; None without one.
        preferred: compiled preferred terms.
        preferred_error: why the preferred terms cannot be compiled, or "".
        images: normalised images of init and main containers.
        terms: compiled terms of affinity and anti-affinity between pods.
        holds: keys of what others may want too, see `scheduler.helpers.holding`.
        volumes: those with a source that some plugin reads.
        attachable: number of volumes that may have to be attached to the node.
        limits: most that it may use, counted as the requests are; only resources that have a limit.
        containers: what each container requests and its limits, init containers first.
        pod_level: the same of the pod as a whole.
        overhead: what the pod takes beside its containers.
        qos: Guaranteed, Burstable or BestEffort.
        seccomp: the seccomp profiles it names.
        image_volumes: normalised images of volumes.
        features: of the kubelet, which the node must declare.
        parts: how many things it lists that plugins loop over, such as terms, values, ports and volumes.
        namespace: the pods' own.
    """

    class_key: bytes
    requests: Resources
    score_requests: Resources
    nonzero_cpu: int
    nonzero_memory: int
    tolerations: tuple[Toleration, ...]
    node_selector: Selector
    required: CompiledNodeSelector | None
    preferred: tuple[WeightedTerm, ...]
    preferred_error: str
    affinity: Affinity | None
    topology_spread: tuple[TopologySpreadConstraint, ...]
    host_ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    gates: tuple[str, ...]
    volumes: tuple[Volume, ...]
    claims: tuple[PodResourceClaim, ...]
    preemption_policy: str
    terms: PodTerms = NO_TERMS
    holds: frozenset[str] = frozenset()
    attachable: int = 0
    containers: tuple[ContainerResources, ...] = ()
    pod_level: PodLevelResources = NO_POD_LEVEL
    overhead: Resources = {}
    limits: Resources = {}
    qos: str = "BestEffort"
    seccomp: SeccompPaths = NO_SECCOMP_PATHS
    parts: int = 0
    image_volumes: tuple[str, ...] = ()
    features: frozenset[str] = frozenset()
    namespace: str = ""

    def of(self, read: Callable[["SpecInfo"], T]) -> T:
        """Return what a function makes of the spec: what a rule reads so is kept for all pods of which it returns the
        same (`scheduler.framework.rules`). It has to be the same function each time."""
        return read(self)

    @property
    def lists_much(self) -> bool:
        """Whether it lists more than is worth remembering: for such a pod, plugins and state keep nothing longer than
        an attempt takes, or the pod lives. What is kept of one pod must not become a burden to all others."""
        return self.parts > FEW_PARTS


SCHEDULING_GROUP = "/spec/schedulingGroup"
"""Stands for a pod's PodGroup of scheduling.k8s.io where labels are indexed; no label begins with a slash."""


class PodInfo(Struct, frozen=True, eq=False):
    """A pod. Compared by identity; `uid` says whether two are the same pod.

    Attributes:
        key: `namespace/name`.
        node_name: "" while it is not bound.
        requests, nonzero_cpu, nonzero_memory: what it occupies on its node; differs from `spec` while it is being
            resized.
        limits: most that it may use there; differs from `spec` while it is being resized.
        created_at, assigned_at: seconds since the epoch; NaN where the object does not say. `assigned_at` is the
        moment the
            pod was bound (its PodScheduled condition), else when it was started.
        deleting: a deletion timestamp is set.
        terminal: it has ended and occupies nothing.
        phase: as its status says.
        conditions: PodScheduled, DisruptionTarget and, of a pod that is ready, Ready without its time and reason.
        reason: why it ended, as its status says; "" while it has not.
        priority_class: name of the class its priority was taken from, or "".
        scheduling_group: name of its PodGroup of scheduling.k8s.io, in its own namespace, or "".
        workload_ref: workload and pod group of 1.35's `spec.workloadRef`, which is not followed, or "".
        peer_topology: annotations, as key and value, by which a member of a gang asks other schedulers for a topology.
    """

    uid: str
    name: str
    namespace: str
    key: str
    spec: SpecInfo
    requests: Resources
    nonzero_cpu: int
    nonzero_memory: int
    labels: Mapping[str, str]
    limits: Resources = {}
    priority: int = 0
    node_name: str = ""
    nominated_node: str = ""
    scheduler_name: str = ""
    resource_version: str = ""
    generation: int = 0
    created_at: float = math.nan
    assigned_at: float = math.nan
    started_at: float = math.nan
    deleting: bool = False
    terminal: bool = False
    controller: OwnerReference | None = None
    conditions: tuple[PodCondition, ...] = ()
    claim_names: tuple[str, ...] = ()
    phase: str = ""
    reason: str = ""
    priority_class: str = ""
    scheduling_group: str = ""
    workload_ref: str = ""
    peer_topology: tuple[tuple[str, str], ...] = ()

    @property
    def local_key(self) -> tuple[object, ...]:
        """What the answers of filters about a node follow from that look at it and its pods alone; pods of DaemonSets
        are exempt from some."""
        owner = self.controller and (self.controller.api_version, self.controller.kind)
        return self.spec.class_key, self.priority, self.nominated_node, self.claim_names, owner


class NodeInfo(Struct, frozen=True, eq=False):
    """A node. `addresses` are its IP addresses and host names, by which a metric source may know it;
    `declared_features` are those of its kubelet."""

    name: str
    uid: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    allocatable: Resources
    allowed_pods: int
    capacity_cpu: int
    capacity_memory: int
    images: Mapping[str, int]
    conditions: Mapping[str, str]
    addresses: tuple[str, ...] = ()
    resource_version: str = ""
    declared_features: tuple[str, ...] = ()
