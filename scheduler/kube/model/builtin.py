"""Small built-in kinds: what selects pods, budgets, priorities, Leases."""

from __future__ import annotations

from msgspec import Struct

from scheduler.kube.model.meta import Int32, Labels, LabelSelector, Object, require_short


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
