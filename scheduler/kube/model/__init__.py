"""Typed API objects that hold only what a scheduler reads, and the decoders that make them. No I/O.

Field names are the API's in snake_case. Lists are tuples and never None: the API server's `null` reads as empty.
Objects are frozen, compare by value and are not tracked by the garbage collector (they hold no cycles).
A kind that is missing here is a subclass of `Object` with the fields wanted, and a `Codec` for it.
"""

from scheduler.kube.model.appgroup import APP_GROUP_LABEL, WORKLOAD_LABEL, AppGroup, AppGroupDependency
from scheduler.kube.model.codec import (
    Codec,
    DecodeError,
    InvalidObject,
    Page,
    Unstructured,
    UnstructuredCodec,
    WatchEvent,
    continue_token,
)
from scheduler.kube.model.elasticquota import ElasticQuota, ElasticQuotaSpec, ElasticQuotaStatus, effective_quota
from scheduler.kube.model.lease import Lease, LeaseSpec
from scheduler.kube.model.meta import (
    EventType,
    Int32,
    Int64,
    LabelSelector,
    LabelSelectorRequirement,
    ListMeta,
    NodeName,
    Object,
    ObjectMeta,
    OwnerReference,
    PodUID,
    ResourceList,
    ResourceVersion,
    Status,
    StatusCause,
    newer_version,
)
from scheduler.kube.model.networktopology import NetworkOrigin, NetworkTopology, NetworkTopologyInfo
from scheduler.kube.model.node import (
    ContainerImage,
    Node,
    NodeAddress,
    NodeCondition,
    NodeSpec,
    NodeStatus,
    Taint,
)
from scheduler.kube.model.noderesourcetopology import (
    NodeResourceTopology,
    TopologyAttribute,
    TopologyCost,
    TopologyResource,
    TopologyZone,
)
from scheduler.kube.model.pod import (
    Affinity,
    Container,
    ContainerPort,
    ContainerStatus,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodResourceClaim,
    PodResourceClaimStatus,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceClaim,
    ResourceRequirements,
    SchedulingGate,
    SeccompProfile,
    SecurityContext,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from scheduler.kube.model.podgroup import POD_GROUP_LABEL, PodGroup, PodGroupSpec, PodGroupStatus
from scheduler.kube.model.policy import PodDisruptionBudget
from scheduler.kube.model.priorityclass import PriorityClass
from scheduler.kube.model.seccompprofile import SeccompProfileObject
from scheduler.kube.model.storage import (
    CSIDriver,
    CSINode,
    CSINodeDriver,
    CSIStorageCapacity,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
    VolumeAttachment,
)
from scheduler.kube.model.volume import (
    AwsElasticBlockStore,
    AzureDisk,
    Cinder,
    Csi,
    Ephemeral,
    GcePersistentDisk,
    Iscsi,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolume,
    Portworx,
    Rbd,
    Volume,
    VsphereVolume,
)
from scheduler.kube.model.workload import (
    Namespace,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)

APPGROUPS = Codec(AppGroup)
CSIDRIVERS = Codec(CSIDriver)
CSINODES = Codec(CSINode)
CSISTORAGECAPACITIES = Codec(CSIStorageCapacity)
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
SECCOMPPROFILES = Codec(SeccompProfileObject)
SERVICES = Codec(Service)
STATEFULSETS = Codec(StatefulSet)
STORAGECLASSES = Codec(StorageClass)
VOLUMEATTACHMENTS = Codec(VolumeAttachment)

decode_lease = LEASES.decode
decode_node = NODES.decode
decode_pod = PODS.decode

__all__ = [
    "APPGROUPS",
    "APP_GROUP_LABEL",
    "CSIDRIVERS",
    "CSINODES",
    "CSISTORAGECAPACITIES",
    "ELASTICQUOTAS",
    "LEASES",
    "NAMESPACES",
    "NETWORKTOPOLOGIES",
    "NODERESOURCETOPOLOGIES",
    "NODES",
    "PERSISTENTVOLUMECLAIMS",
    "PERSISTENTVOLUMES",
    "PODDISRUPTIONBUDGETS",
    "PODGROUPS",
    "PODS",
    "POD_GROUP_LABEL",
    "PRIORITYCLASSES",
    "REPLICASETS",
    "REPLICATIONCONTROLLERS",
    "SECCOMPPROFILES",
    "SERVICES",
    "STATEFULSETS",
    "STORAGECLASSES",
    "VOLUMEATTACHMENTS",
    "WORKLOAD_LABEL",
    "Affinity",
    "AppGroup",
    "AppGroupDependency",
    "AwsElasticBlockStore",
    "AzureDisk",
    "CSIDriver",
    "CSINode",
    "CSINodeDriver",
    "CSIStorageCapacity",
    "Cinder",
    "Codec",
    "Container",
    "ContainerImage",
    "ContainerPort",
    "ContainerStatus",
    "Csi",
    "DecodeError",
    "ElasticQuota",
    "ElasticQuotaSpec",
    "ElasticQuotaStatus",
    "Ephemeral",
    "EventType",
    "GcePersistentDisk",
    "Int32",
    "Int64",
    "InvalidObject",
    "Iscsi",
    "LabelSelector",
    "LabelSelectorRequirement",
    "Lease",
    "LeaseSpec",
    "ListMeta",
    "Namespace",
    "NetworkOrigin",
    "NetworkTopology",
    "NetworkTopologyInfo",
    "Node",
    "NodeAddress",
    "NodeAffinity",
    "NodeCondition",
    "NodeName",
    "NodeResourceTopology",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeSpec",
    "NodeStatus",
    "Object",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
    "Page",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimTemplate",
    "PersistentVolumeClaimVolume",
    "Pod",
    "PodAffinity",
    "PodAffinityTerm",
    "PodCondition",
    "PodDisruptionBudget",
    "PodGroup",
    "PodGroupSpec",
    "PodGroupStatus",
    "PodResourceClaim",
    "PodResourceClaimStatus",
    "PodSpec",
    "PodStatus",
    "PodUID",
    "Portworx",
    "PreferredSchedulingTerm",
    "PriorityClass",
    "Rbd",
    "ReplicaSet",
    "ReplicationController",
    "ResourceClaim",
    "ResourceList",
    "ResourceRequirements",
    "ResourceVersion",
    "SchedulingGate",
    "SeccompProfile",
    "SeccompProfileObject",
    "SecurityContext",
    "Service",
    "StatefulSet",
    "Status",
    "StatusCause",
    "StorageClass",
    "Taint",
    "Toleration",
    "TopologyAttribute",
    "TopologyCost",
    "TopologyResource",
    "TopologySelectorTerm",
    "TopologySpreadConstraint",
    "TopologyZone",
    "Unstructured",
    "UnstructuredCodec",
    "Volume",
    "VolumeAttachment",
    "VsphereVolume",
    "WatchEvent",
    "WeightedPodAffinityTerm",
    "continue_token",
    "decode_lease",
    "decode_node",
    "decode_pod",
    "effective_quota",
    "newer_version",
]
