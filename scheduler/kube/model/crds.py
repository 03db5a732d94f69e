"""Custom resources that scheduler-plugins reads or writes: its own, and those of other projects.

The definitions are short and read together; each section names the API they come from.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from scheduler.kube.model.meta import FewResources, Int32, Int64, Listed, Object
from scheduler.kube.primitives.quantity import quantity_milli_value

# --- AppGroup: workloads that communicate (appgroup.diktyo.x-k8s.io/v1alpha1) -----------------------------------------
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
    dependencies: Listed[AppGroupDependency] = ()


class AppGroupSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.AppGroupSpec."""

    workloads: Listed[AppGroupWorkload] = ()


class AppGroupTopologyInfo(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.AppGroupTopologyInfo: the place of a workload in the order of the application."""

    workload: AppGroupWorkloadInfo = AppGroupWorkloadInfo()
    index: Int32 = 0


class AppGroupStatus(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.AppGroupStatus, written by the AppGroup controller, which lists the workloads by their selector."""

    topology_order: Listed[AppGroupTopologyInfo] = ()


class AppGroup(Object, frozen=True, gc=False, rename="camel"):
    """appgroup.diktyo.x-k8s.io/v1alpha1 AppGroup."""

    spec: AppGroupSpec = AppGroupSpec()
    status: AppGroupStatus = AppGroupStatus()


# --- ElasticQuota: guaranteed and maximum use of a namespace (scheduling.x-k8s.io/v1alpha1) ---------------------------
class ElasticQuotaSpec(Struct, frozen=True, gc=False, rename="camel"):
    """ElasticQuotaSpec. None is another thing than an empty list: no `max` at all means no limit."""

    min: FewResources | None = None
    max: FewResources | None = None

    def __post_init__(self) -> None:
        """Raise QuantityError (a ValueError) for an amount that cannot be read."""
        for amounts in (self.min, self.max):
            for amount in (amounts or {}).values():
                quantity_milli_value(amount)


class ElasticQuotaStatus(Struct, frozen=True, gc=False, rename="camel"):
    """ElasticQuotaStatus; written by the controller, not read by the scheduler."""

    used: FewResources = {}


class ElasticQuota(Object, frozen=True, gc=False, rename="camel"):
    """scheduling.x-k8s.io/v1alpha1 ElasticQuota of its namespace."""

    spec: ElasticQuotaSpec = ElasticQuotaSpec()
    status: ElasticQuotaStatus = ElasticQuotaStatus()


def effective_quota(quotas: Iterable[ElasticQuota]) -> ElasticQuota | None:
    """Return the one of a namespace's quotas that counts: the oldest, of equally old ones the first by name."""
    return min(quotas, key=lambda quota: (quota.metadata.creation_timestamp, quota.metadata.name), default=None)


# --- NetworkTopology: network costs between zones and regions (networktopology.diktyo.x-k8s.io/v1alpha1) --------------
class NetworkCost(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.CostInfo."""

    destination: str = ""
    network_cost: Int64 = 0


class NetworkOrigin(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.OriginInfo: what it costs to get from one zone or region to others."""

    origin: str = ""
    cost_list: Listed[NetworkCost] = ()


class NetworkTopologyInfo(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.TopologyInfo: costs between the values of one label of nodes."""

    topology_key: str = ""
    origin_list: Listed[NetworkOrigin] = ()


class NetworkWeight(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.WeightInfo: costs from one source, such as UserDefined or NetperfCosts."""

    name: str = ""
    topology_list: Listed[NetworkTopologyInfo] = ()


class NetworkTopologySpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha1.NetworkTopologySpec."""

    weights: Listed[NetworkWeight] = ()


class NetworkTopology(Object, frozen=True, gc=False, rename="camel"):
    """networktopology.diktyo.x-k8s.io/v1alpha1 NetworkTopology."""

    spec: NetworkTopologySpec = NetworkTopologySpec()


# --- NodeResourceTopology: free resources per NUMA zone (topology.node.k8s.io/v1alpha2) -------------------------------
class TopologyAttribute(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha2.AttributeInfo."""

    name: str = ""
    value: str = ""


class TopologyCost(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha2.CostInfo: the distance to another zone."""

    name: str = ""
    value: Int64 = 0


class TopologyResource(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha2.ResourceInfo, without capacity, which no decision needs."""

    name: str = ""
    available: str | int | float = "0"
    allocatable: str | int | float = "0"


class TopologyZone(Struct, frozen=True, gc=False, rename="camel"):
    """v1alpha2.Zone; NUMA nodes have the type `Node` and names such as `node-0`."""

    name: str = ""
    type: str = ""
    costs: Listed[TopologyCost] = ()
    resources: Listed[TopologyResource] = ()
    attributes: Listed[TopologyAttribute] = ()


class NodeResourceTopology(Object, frozen=True, gc=False, rename="camel"):
    """v1alpha2.NodeResourceTopology; its name is the node's. `topology_policies` is deprecated."""

    topology_policies: Listed[str] = ()
    attributes: Listed[TopologyAttribute] = ()
    zones: Listed[TopologyZone] = ()


# --- PodGroup: pods that are scheduled together (scheduling.x-k8s.io/v1alpha1) ----------------------------------------
class PodGroupSpec(Struct, frozen=True, gc=False, rename="camel"):
    """PodGroupSpec; `schedule_timeout_seconds` None leaves the plugin's own timeout."""

    min_member: Int32 = 0
    min_resources: FewResources | None = None
    schedule_timeout_seconds: Int32 | None = None


class PodGroupStatus(Struct, frozen=True, gc=False, rename="camel"):
    """PodGroupStatus; written by the controller, not read by the scheduler."""

    phase: str = ""
    occupied_by: str = ""
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0
    schedule_start_time: str | None = None


class PodGroup(Object, frozen=True, gc=False, rename="camel"):
    """scheduling.x-k8s.io/v1alpha1 PodGroup: pods name it in their label `POD_GROUP_LABEL`."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


POD_GROUP_LABEL = "scheduling.x-k8s.io/pod-group"
"""Label by which a pod belongs to a PodGroup of its own namespace."""


# --- SeccompProfile: permitted system calls (security-profiles-operator.x-k8s.io/v1beta1) -----------------------------
_MAX_CALLS = 4096


class Syscall(Struct, frozen=True, gc=False, rename="camel"):
    """v1beta1.Syscall: system calls, and the action when a container makes one."""

    names: Listed[str] = ()
    action: str = ""


class SeccompProfileSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1beta1.SeccompProfileSpec."""

    syscalls: Listed[Syscall] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for more names than there can be system calls."""
        names = sum(len(rule.names) for rule in self.syscalls)
        if names > _MAX_CALLS:
            raise ValueError(f"the profile names {names} system calls, at most {_MAX_CALLS} are read")


class SeccompProfileObject(Object, frozen=True, gc=False, rename="camel"):
    """security-profiles-operator.x-k8s.io/v1beta1 SeccompProfile; the name is taken by the field of v1.Pod."""

    spec: SeccompProfileSpec = SeccompProfileSpec()
