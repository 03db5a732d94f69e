"""Small built-in kinds: what selects pods, budgets, priorities, Leases.

scheduling.k8s.io PodGroup: pods that Kubernetes itself wants placed together. The fields read here are alike in
v1alpha2 (Kubernetes 1.36) and v1beta1 (1.37), but for `disruptionMode`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from scheduler.kube.model.meta import (
    FewResources,
    Int32,
    Int64,
    Labels,
    LabelSelector,
    Listed,
    NodeName,
    Object,
    require_short,
)


# --- Namespaces, Services and controllers -----------------------------------------------------------------------------
class Namespace(Object, frozen=True, gc=False, rename="camel"):
    """v1.Namespace: its labels."""


class ServiceSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ServiceSpec; an empty selector selects no pod."""

    selector: Labels = {}


class Service(Object, frozen=True, gc=False, rename="camel"):
    """v1.Service."""

    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ReplicationControllerSpec."""

    selector: Labels = {}


class ReplicationController(Object, frozen=True, gc=False, rename="camel"):
    """v1.ReplicationController."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class WorkloadSpec(Struct, frozen=True, gc=False, rename="camel"):
    """The part that apps/v1 ReplicaSet and StatefulSet have in common."""

    selector: LabelSelector | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a selector that lists too much."""
        require_short(self.selector)


class ReplicaSet(Object, frozen=True, gc=False, rename="camel"):
    """apps/v1 ReplicaSet."""

    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(Object, frozen=True, gc=False, rename="camel"):
    """apps/v1 StatefulSet."""

    spec: WorkloadSpec = WorkloadSpec()


# --- PodDisruptionBudget (policy/v1) ----------------------------------------------------------------------------------
class PodDisruptionBudgetSpec(Struct, frozen=True, gc=False, rename="camel"):
    """policy/v1 PodDisruptionBudgetSpec; without a selector it covers no pod."""

    selector: LabelSelector | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a selector that lists too much."""
        require_short(self.selector)


class PodDisruptionBudgetStatus(Struct, frozen=True, gc=False, rename="camel"):
    """policy/v1 PodDisruptionBudgetStatus; `disrupted_pods` are on their way out and counted already."""

    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str | None] = {}


class PodDisruptionBudget(Object, frozen=True, gc=False, rename="camel"):
    """policy/v1 PodDisruptionBudget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


# --- PriorityClass (scheduling.k8s.io/v1) -----------------------------------------------------------------------------
class PriorityClass(Object, frozen=True, gc=False, rename="camel"):
    """scheduling.k8s.io/v1 PriorityClass."""

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = ""


# --- Lease (coordination.k8s.io/v1) -----------------------------------------------------------------------------------
class LeaseSpec(Struct, frozen=True, gc=False, rename="camel"):
    """Times are text and only ever compared for change: clocks of other machines prove nothing."""

    holder_identity: str = ""
    lease_duration_seconds: Int32 | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: Int32 = 0


class Lease(Object, frozen=True, gc=False, rename="camel"):
    """A lock that one process at a time renews."""

    spec: LeaseSpec = LeaseSpec()


class Taint(Struct, frozen=True, gc=False, rename="camel"):
    """v1.Taint."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1.NodeSpec."""

    unschedulable: bool = False
    taints: Listed[Taint] = ()
    provider_id: str = ""
    pod_cidrs: Listed[str] = ()


class ContainerImage(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ContainerImage: an image present on the node, under all its names."""

    names: Listed[str] = ()
    size_bytes: Int64 = 0


class NodeAddress(Struct, frozen=True, gc=False, rename="camel"):
    """v1.NodeAddress."""

    type: str = ""
    address: str = ""


class NodeCondition(Struct, frozen=True, gc=False, rename="camel"):
    """v1.NodeCondition without its times."""

    type: str = ""
    status: str = ""
    reason: str = ""


class NodeStatus(Struct, frozen=True, gc=False, rename="camel"):
    """v1.NodeStatus."""

    capacity: FewResources = {}
    allocatable: FewResources = {}
    images: Annotated[tuple[ContainerImage, ...], Meta(max_length=8192)] = ()
    addresses: Listed[NodeAddress] = ()
    conditions: Listed[NodeCondition] = ()
    declared_features: Listed[str] = ()


class Node(Object, frozen=True, gc=False, rename="camel"):
    """v1.Node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def name(self) -> NodeName:
        """The node's name, which pods are bound to."""
        return NodeName(self.metadata.name)


class GangSchedulingPolicy(Struct, frozen=True, gc=False, rename="camel"):
    """GangSchedulingPolicy: how many pods must be placed at once."""

    min_count: Int32 = 1


class PodGroupSchedulingPolicy(Struct, frozen=True, gc=False, rename="camel"):
    """PodGroupSchedulingPolicy; without `gang` it is the basic policy, which wants nothing together."""

    gang: GangSchedulingPolicy | None = None


class AllDisruptionMode(Struct, frozen=True, gc=False):
    """AllDisruptionMode: it has no fields."""


class DisruptionMode(Struct, frozen=True, gc=False, rename="camel"):
    """DisruptionMode of 1.37: with `all`, pods of the group are preempted together or not at all."""

    all: AllDisruptionMode | None = None


class PodGroupTopologyConstraint(Struct, frozen=True, gc=False, rename="camel"):
    """TopologyConstraint: the label of nodes of which all pods have one value."""

    key: str = ""


class PodGroupSchedulingConstraints(Struct, frozen=True, gc=False, rename="camel"):
    """PodGroupSchedulingConstraints; the API server lets one topology through."""

    topology: Listed[PodGroupTopologyConstraint] = ()


class PodGroupResourceClaim(Struct, frozen=True, gc=False, rename="camel"):
    """PodGroupResourceClaim: a claim that pods of the group share if they name it alike."""

    name: str = ""


class SchedulingPodGroupSpec(Struct, frozen=True, gc=False, rename="camel"):
    """PodGroupSpec; `disruption_mode` may be a word in alpha versions, which have no `priority`."""

    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: DisruptionMode | str | None = None
    priority: Int32 | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None
    resource_claims: Listed[PodGroupResourceClaim] = ()

    @property
    def is_disrupted_as_one(self) -> bool:
        """Whether its pods are preempted together or not at all."""
        return isinstance(self.disruption_mode, DisruptionMode) and self.disruption_mode.all is not None


class PodGroupCondition(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.Condition, with all fields: conditions are written as a whole list."""

    type: str = ""
    status: str = ""
    observed_generation: Int64 = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class SchedulingPodGroupStatus(Struct, frozen=True, gc=False, rename="camel"):
    """PodGroupStatus."""

    conditions: Listed[PodGroupCondition] = ()


class SchedulingPodGroup(Object, frozen=True, gc=False, rename="camel"):
    """PodGroup of scheduling.k8s.io: pods name it in `spec.schedulingGroup.podGroupName`."""

    spec: SchedulingPodGroupSpec = SchedulingPodGroupSpec()
    status: SchedulingPodGroupStatus = SchedulingPodGroupStatus()
