"""What selects pods, or says something about where they live: Services, controllers, Namespaces."""

from __future__ import annotations

from msgspec import Struct

from scheduler.kube.model.meta import LabelSelector, Object


class Namespace(Object, frozen=True, gc=False, rename="camel"):
    """v1.Namespace: its labels."""


class ServiceSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ServiceSpec; an empty selector selects no pod."""

    selector: dict[str, str] = {}


class Service(Object, frozen=True, gc=False, rename="camel"):
    """v1.Service."""

    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ReplicationControllerSpec."""

    selector: dict[str, str] = {}


class ReplicationController(Object, frozen=True, gc=False, rename="camel"):
    """v1.ReplicationController."""

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class WorkloadSpec(Struct, frozen=True, gc=False, rename="camel"):
    """The part that apps/v1 ReplicaSet and StatefulSet have in common."""

    selector: LabelSelector | None = None


class ReplicaSet(Object, frozen=True, gc=False, rename="camel"):
    """apps/v1 ReplicaSet."""

    spec: WorkloadSpec = WorkloadSpec()


class StatefulSet(Object, frozen=True, gc=False, rename="camel"):
    """apps/v1 StatefulSet."""

    spec: WorkloadSpec = WorkloadSpec()
