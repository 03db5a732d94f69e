"""Volumes of a pod, as far as the volume plugins look into them."""

from __future__ import annotations

from msgspec import Struct, field

from scheduler.kube.model.meta import FewResources, Int32, LabelSelector, Listed


class PersistentVolumeClaimVolume(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PersistentVolumeClaimVolumeSource."""

    claim_name: str = ""
    read_only: bool = False


class VolumeResources(Struct, frozen=True, gc=False, rename="camel"):
    """v1.VolumeResourceRequirements."""

    requests: FewResources = {}
    limits: FewResources = {}


class PersistentVolumeClaimSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PersistentVolumeClaimSpec."""

    access_modes: Listed[str] = ()
    selector: LabelSelector | None = None
    resources: VolumeResources = VolumeResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class TemplateMeta(Struct, frozen=True, gc=False, rename="camel"):
    """The metadata a template gives; the API server adds null times, which are left out to stay on the fast path."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class PersistentVolumeClaimTemplate(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PersistentVolumeClaimTemplate."""

    metadata: TemplateMeta = TemplateMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class Ephemeral(Struct, frozen=True, gc=False, rename="camel"):
    """v1.EphemeralVolumeSource: the claim is named `<pod>-<volume>`."""

    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class GcePersistentDisk(Struct, frozen=True, gc=False, rename="camel"):
    """v1.GCEPersistentDiskVolumeSource."""

    pd_name: str = ""
    read_only: bool = False


class AwsElasticBlockStore(Struct, frozen=True, gc=False, rename="camel"):
    """v1.AWSElasticBlockStoreVolumeSource."""

    volume_id: str = field(default="", name="volumeID")
    read_only: bool = False


class Iscsi(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ISCSIVolumeSource."""

    iqn: str = ""
    lun: Int32 = 0
    target_portal: str = ""
    read_only: bool = False


class Rbd(Struct, frozen=True, gc=False, rename="camel"):
    """v1.RBDVolumeSource."""

    monitors: Listed[str] = ()
    image: str = ""
    pool: str = "rbd"
    read_only: bool = False


class Csi(Struct, frozen=True, gc=False, rename="camel"):
    """v1.CSIVolumeSource: an inline volume."""

    driver: str = ""
    read_only: bool = False


class AzureDisk(Struct, frozen=True, gc=False, rename="camel"):
    """v1.AzureDiskVolumeSource."""

    disk_name: str = ""
    disk_uri: str = field(default="", name="diskURI")
    kind: str | None = None


class Cinder(Struct, frozen=True, gc=False, rename="camel"):
    """v1.CinderVolumeSource."""

    volume_id: str = field(default="", name="volumeID")


class VsphereVolume(Struct, frozen=True, gc=False, rename="camel"):
    """v1.VsphereVirtualDiskVolumeSource."""

    volume_path: str = ""


class Portworx(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PortworxVolumeSource."""

    volume_id: str = field(default="", name="volumeID")


class ImageVolume(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ImageVolumeSource."""

    reference: str = ""


class Volume(Struct, frozen=True, gc=False, rename="camel"):
    """v1.Volume; sources that no plugin reads are left out."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolume | None = None
    ephemeral: Ephemeral | None = None
    gce_persistent_disk: GcePersistentDisk | None = None
    aws_elastic_block_store: AwsElasticBlockStore | None = None
    iscsi: Iscsi | None = None
    rbd: Rbd | None = None
    csi: Csi | None = None
    azure_disk: AzureDisk | None = None
    cinder: Cinder | None = None
    vsphere_volume: VsphereVolume | None = None
    portworx_volume: Portworx | None = None
    image: ImageVolume | None = None
