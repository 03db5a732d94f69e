"""Volumes, claims, classes, and what drivers say about nodes: the kinds the volume plugins read."""

from __future__ import annotations

from msgspec import Struct, field

from scheduler.kube.model.meta import FewResources, Int32, LabelSelector, Listed, Object, require_short
from scheduler.kube.model.pod import NodeSelector, require_few
from scheduler.kube.model.volume import (
    AwsElasticBlockStore,
    AzureDisk,
    Cinder,
    GcePersistentDisk,
    PersistentVolumeClaimSpec,
    Portworx,
    VsphereVolume,
)


class PersistentVolumeClaimStatus(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PersistentVolumeClaimStatus."""

    phase: str = ""


class PersistentVolumeClaim(Object, frozen=True, gc=False, rename="camel"):
    """v1.PersistentVolumeClaim."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class ObjectReference(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ObjectReference."""

    kind: str = ""
    api_version: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class VolumeNodeAffinity(Struct, frozen=True, gc=False, rename="camel"):
    """v1.VolumeNodeAffinity."""

    required: NodeSelector | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a node selector that lists too much."""
        require_few(self.required)


class CsiPersistentVolume(Struct, frozen=True, gc=False, rename="camel"):
    """v1.CSIPersistentVolumeSource."""

    driver: str = ""
    volume_handle: str = ""


class AzureFilePersistentVolume(Struct, frozen=True, gc=False, rename="camel"):
    """v1.AzureFilePersistentVolumeSource."""

    share_name: str = ""


class PersistentVolumeSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PersistentVolumeSpec; sources that cannot become a CSI volume, save `csi` itself, are left out."""

    capacity: FewResources = {}
    access_modes: Listed[str] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiPersistentVolume | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    azure_file: AzureFilePersistentVolume | None = None
    cinder: Cinder | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: Portworx | None = None


class PersistentVolumeStatus(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PersistentVolumeStatus."""

    phase: str = ""


class PersistentVolume(Object, frozen=True, gc=False, rename="camel"):
    """v1.PersistentVolume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(Struct, frozen=True, gc=False, rename="camel"):
    """v1.TopologySelectorLabelRequirement."""

    key: str = ""
    values: Listed[str] = ()


class TopologySelectorTerm(Struct, frozen=True, gc=False, rename="camel"):
    """v1.TopologySelectorTerm."""

    match_label_expressions: Listed[TopologySelectorLabelRequirement] = ()


class StorageClass(Object, frozen=True, gc=False, rename="camel"):
    """storage.k8s.io/v1 StorageClass; the API server always sets the binding mode."""

    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: Listed[TopologySelectorTerm] = ()


class VolumeNodeResources(Struct, frozen=True, gc=False, rename="camel"):
    """storage.k8s.io/v1 VolumeNodeResources; no count means no limit."""

    count: Int32 | None = None


class CSINodeDriver(Struct, frozen=True, gc=False, rename="camel"):
    """storage.k8s.io/v1 CSINodeDriver."""

    name: str = ""
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Struct, frozen=True, gc=False, rename="camel"):
    """storage.k8s.io/v1 CSINodeSpec."""

    drivers: Listed[CSINodeDriver] = ()


class CSINode(Object, frozen=True, gc=False, rename="camel"):
    """storage.k8s.io/v1 CSINode: what drivers say about the node of the same name."""

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Struct, frozen=True, gc=False, rename="camel"):
    """storage.k8s.io/v1 CSIDriverSpec."""

    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Object, frozen=True, gc=False, rename="camel"):
    """storage.k8s.io/v1 CSIDriver."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object, frozen=True, gc=False, rename="camel"):
    """storage.k8s.io/v1 CSIStorageCapacity: free room for a class on the nodes a selector picks; None selects none."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: str | int | float | None = None
    maximum_volume_size: str | int | float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for a selector that lists too much."""
        require_short(self.node_topology)


class VolumeAttachmentSource(Struct, frozen=True, gc=False, rename="camel"):
    """storage.k8s.io/v1 VolumeAttachmentSource."""

    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(Struct, frozen=True, gc=False, rename="camel"):
    """storage.k8s.io/v1 VolumeAttachmentSpec."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = field(default_factory=VolumeAttachmentSource)


class VolumeAttachment(Object, frozen=True, gc=False, rename="camel"):
    """storage.k8s.io/v1 VolumeAttachment."""

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
