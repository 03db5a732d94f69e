"""Applications of several workloads that talk to each other (appgroup.diktyo.x-k8s.io/v1alpha1)."""

from __future__ import annotations

from msgspec import Struct

from scheduler.kube.model.meta import Int32, Int64, Object

APP_GROUP_LABEL = "appgroup.diktyo.x-k8s.io"
"""Label of a pod: the name of its AppGroup."""
WORKLOAD_LABEL = f"{APP_GROUP_LABEL}.workload"
"""Label of a pod: which of the AppGroup's workloads it belongs to."""


class AppGroupWorkloadInfo(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.AppGroupWorkloadInfo; `selector` is the value of the pods' workload label."""

    selector: str = ""


class AppGroupDependency(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.DependenciesInfo: a workload to talk to, and the most that this may cost."""

    workload: AppGroupWorkloadInfo = AppGroupWorkloadInfo()
    max_network_cost: Int64 = 0


class AppGroupWorkload(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.AppGroupWorkload."""

    workload: AppGroupWorkloadInfo = AppGroupWorkloadInfo()
    dependencies: tuple[AppGroupDependency, ...] = ()


class AppGroupSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.AppGroupSpec."""

    workloads: tuple[AppGroupWorkload, ...] = ()


class AppGroupTopologyInfo(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.AppGroupTopologyInfo: the place of a workload in the order of the application."""

    workload: AppGroupWorkloadInfo = AppGroupWorkloadInfo()
    index: Int32 = 0


class AppGroupStatus(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.AppGroupStatus, written by the AppGroup controller, which lists the workloads by their selector."""

    topology_order: tuple[AppGroupTopologyInfo, ...] = ()


class AppGroup(Object, frozen=True, gc=False, rename="camel"):
    """appgroup.diktyo.x-k8s.io/v1alpha1 AppGroup."""

    spec: AppGroupSpec = AppGroupSpec()
    status: AppGroupStatus = AppGroupStatus()
