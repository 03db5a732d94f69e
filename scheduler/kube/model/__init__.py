"""Typed API objects that hold only what a scheduler reads, and the decoders that make them. No I/O.

Field names are the API's in snake_case. Lists are tuples and never None: the API server's `null` reads as empty.
Objects are frozen, compare by value and are not tracked by the garbage collector (they hold no cycles).
A kind that is missing here is a subclass of `Object` with the fields wanted, and a `Codec` for it.
"""

from scheduler.kube.model.builtin import (
    ContainerImage as ContainerImage,
    GangSchedulingPolicy as GangSchedulingPolicy,
    Lease as Lease,
    LeaseSpec as LeaseSpec,
    Namespace as Namespace,
    Node as Node,
    NodeAddress as NodeAddress,
    NodeCondition as NodeCondition,
    NodeSpec as NodeSpec,
    NodeStatus as NodeStatus,
    PodDisruptionBudget as PodDisruptionBudget,
    PodGroupCondition as PodGroupCondition,
    PodGroupResourceClaim as PodGroupResourceClaim,
    PodGroupSchedulingConstraints as PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy as PodGroupSchedulingPolicy,
    PodGroupTopologyConstraint as PodGroupTopologyConstraint,
    PriorityClass as PriorityClass,
    ReplicaSet as ReplicaSet,
    ReplicationController as ReplicationController,
    SchedulingPodGroup as SchedulingPodGroup,
    SchedulingPodGroupSpec as SchedulingPodGroupSpec,
    SchedulingPodGroupStatus as SchedulingPodGroupStatus,
    Service as Service,
    StatefulSet as StatefulSet,
    Taint as Taint,
)
from scheduler.kube.model.codec import (
    Codec as Codec,
    DecodeError as DecodeError,
    InvalidObject as InvalidObject,
    ListPage as ListPage,
    Unstructured as Unstructured,
    UnstructuredCodec as UnstructuredCodec,
    WatchEvent as WatchEvent,
    continue_token as continue_token,
)
from scheduler.kube.model.crds import (
    APP_GROUP_LABEL as APP_GROUP_LABEL,
    POD_GROUP_LABEL as POD_GROUP_LABEL,
    WORKLOAD_LABEL as WORKLOAD_LABEL,
    AppGroup as AppGroup,
    AppGroupDependency as AppGroupDependency,
    ElasticQuota as ElasticQuota,
    ElasticQuotaSpec as ElasticQuotaSpec,
    ElasticQuotaStatus as ElasticQuotaStatus,
    NetworkOrigin as NetworkOrigin,
    NetworkTopology as NetworkTopology,
    NetworkTopologyInfo as NetworkTopologyInfo,
    NodeResourceTopology as NodeResourceTopology,
    PodGroup as PodGroup,
    PodGroupSpec as PodGroupSpec,
    PodGroupStatus as PodGroupStatus,
    SeccompProfileObject as SeccompProfileObject,
    TopologyAttribute as TopologyAttribute,
    TopologyCost as TopologyCost,
    TopologyResource as TopologyResource,
    TopologyZone as TopologyZone,
    effective_quota as effective_quota,
)
from scheduler.kube.model.meta import (
    EventType as EventType,
    Int32 as Int32,
    Int64 as Int64,
    LabelSelector as LabelSelector,
    LabelSelectorRequirement as LabelSelectorRequirement,
    ListMeta as ListMeta,
    NodeName as NodeName,
    Object as Object,
    ObjectMeta as ObjectMeta,
    OwnerReference as OwnerReference,
    PodUID as PodUID,
    ResourceList as ResourceList,
    ResourceVersion as ResourceVersion,
    Status as Status,
    StatusCause as StatusCause,
    compiled_selector as compiled_selector,
    newer_version as newer_version,
)
from scheduler.kube.model.pod import (
    Affinity as Affinity,
    Container as Container,
    ContainerPort as ContainerPort,
    ContainerResourceClaim as ContainerResourceClaim,
    ContainerRestartRule as ContainerRestartRule,
    ContainerStatus as ContainerStatus,
    NodeAffinity as NodeAffinity,
    NodeSelector as NodeSelector,
    NodeSelectorRequirement as NodeSelectorRequirement,
    NodeSelectorTerm as NodeSelectorTerm,
    Pod as Pod,
    PodAffinity as PodAffinity,
    PodAffinityTerm as PodAffinityTerm,
    PodCondition as PodCondition,
    PodResourceClaim as PodResourceClaim,
    PodResourceClaimStatus as PodResourceClaimStatus,
    PodSpec as PodSpec,
    PodStatus as PodStatus,
    PreferredSchedulingTerm as PreferredSchedulingTerm,
    ResourceRequirements as ResourceRequirements,
    SchedulingGate as SchedulingGate,
    SeccompProfile as SeccompProfile,
    SecurityContext as SecurityContext,
    Toleration as Toleration,
    TopologySpreadConstraint as TopologySpreadConstraint,
    WeightedPodAffinityTerm as WeightedPodAffinityTerm,
)
from scheduler.kube.model.requests import (
    DEFAULT_CPU as DEFAULT_CPU,
    DEFAULT_MEMORY as DEFAULT_MEMORY,
    PodRequests as PodRequests,
    ResizeRules as ResizeRules,
    add_amounts as add_amounts,
    amount_text as amount_text,
    is_scalar_resource as is_scalar_resource,
    of_pod_level as of_pod_level,
    parse_resources as parse_resources,
    pod_limits as pod_limits,
    pod_requests as pod_requests,
    raise_amounts as raise_amounts,
    runs_as_specified as runs_as_specified,
)
from scheduler.kube.model.resource import (
    AllocationResult as AllocationResult,
    Amount as Amount,
    CapacityRequestPolicy as CapacityRequestPolicy,
    ClaimAllocation as ClaimAllocation,
    ClaimConsumer as ClaimConsumer,
    ClaimDeviceStatus as ClaimDeviceStatus,
    ClaimMeta as ClaimMeta,
    CounterConsumption as CounterConsumption,
    CounterSet as CounterSet,
    Device as Device,
    DeviceAttribute as DeviceAttribute,
    DeviceCapacity as DeviceCapacity,
    DeviceClaim as DeviceClaim,
    DeviceClass as DeviceClass,
    DeviceClassSpec as DeviceClassSpec,
    DeviceConfig as DeviceConfig,
    DeviceConstraint as DeviceConstraint,
    DeviceRequest as DeviceRequest,
    DeviceResult as DeviceResult,
    DeviceSelector as DeviceSelector,
    DeviceTaint as DeviceTaint,
    DeviceTaintRule as DeviceTaintRule,
    DeviceTaintRuleSpec as DeviceTaintRuleSpec,
    DeviceTaintSelector as DeviceTaintSelector,
    DeviceToleration as DeviceToleration,
    ExactRequest as ExactRequest,
    ResourceClaim as ResourceClaim,
    ResourceClaimSpec as ResourceClaimSpec,
    ResourceClaimStatus as ResourceClaimStatus,
    ResourceClaimTemplate as ResourceClaimTemplate,
    ResourcePool as ResourcePool,
    ResourceSlice as ResourceSlice,
    ResourceSliceSpec as ResourceSliceSpec,
)
from scheduler.kube.model.storage import (
    CSIDriver as CSIDriver,
    CSINode as CSINode,
    CSINodeDriver as CSINodeDriver,
    CSIStorageCapacity as CSIStorageCapacity,
    ObjectReference as ObjectReference,
    PersistentVolume as PersistentVolume,
    PersistentVolumeClaim as PersistentVolumeClaim,
    StorageClass as StorageClass,
    TopologySelectorTerm as TopologySelectorTerm,
    VolumeAttachment as VolumeAttachment,
)
from scheduler.kube.model.volume import (
    AwsElasticBlockStore as AwsElasticBlockStore,
    AzureDisk as AzureDisk,
    Cinder as Cinder,
    Csi as Csi,
    Ephemeral as Ephemeral,
    GcePersistentDisk as GcePersistentDisk,
    Iscsi as Iscsi,
    PersistentVolumeClaimSpec as PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate as PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolume as PersistentVolumeClaimVolume,
    Portworx as Portworx,
    Rbd as Rbd,
    Volume as Volume,
    VsphereVolume as VsphereVolume,
)

APPGROUPS = Codec(AppGroup)
CSIDRIVERS = Codec(CSIDriver)
CSINODES = Codec(CSINode)
CSISTORAGECAPACITIES = Codec(CSIStorageCapacity)
DEVICECLASSES = Codec(DeviceClass)
DEVICETAINTRULES = Codec(DeviceTaintRule)
ELASTICQUOTAS = Codec(ElasticQuota)
LEASES = Codec(Lease)
NAMESPACES = Codec(Namespace)
NETWORKTOPOLOGIES = Codec(NetworkTopology)
NODERESOURCETOPOLOGIES = Codec(NodeResourceTopology)
NODES = Codec(Node)
PERSISTENTVOLUMECLAIMS = Codec(PersistentVolumeClaim)
PERSISTENTVOLUMES = Codec(PersistentVolume)
PODDISRUPTIONBUDGETS = Codec(PodDisruptionBudget)
PODGROUPS = Codec(PodGroup)
PODS = Codec(Pod)
PRIORITYCLASSES = Codec(PriorityClass)
REPLICASETS = Codec(ReplicaSet)
REPLICATIONCONTROLLERS = Codec(ReplicationController)
RESOURCECLAIMS = Codec(ResourceClaim)
RESOURCECLAIMTEMPLATES = Codec(ResourceClaimTemplate)
RESOURCESLICES = Codec(ResourceSlice)
SCHEDULINGPODGROUPS = Codec(SchedulingPodGroup)
SECCOMPPROFILES = Codec(SeccompProfileObject)
SERVICES = Codec(Service)
STATEFULSETS = Codec(StatefulSet)
STORAGECLASSES = Codec(StorageClass)
VOLUMEATTACHMENTS = Codec(VolumeAttachment)

decode_node = NODES.decode
decode_pod = PODS.decode
