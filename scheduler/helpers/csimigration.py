"""In-tree volumes as the CSI volumes that stand for them (k8s.io/csi-translation-lib v0.34), as far as placement and
counting look at them: driver, handle, node affinity."""

import re
from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import urlsplit

from scheduler.kube.model import (
    AwsElasticBlockStore,
    AzureDisk,
    Cinder,
    CSINode,
    GcePersistentDisk,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    Portworx,
    Volume,
    VsphereVolume,
)

MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER = "__"

_AWS_VOLUME = re.compile(r"vol-[^/]*")
_GCE_HANDLE = "projects/UNSPECIFIED/{kind}/{place}/disks/{name}"

Source = GcePersistentDisk | AwsElasticBlockStore | AzureDisk | Cinder | VsphereVolume | Portworx


class TranslationError(ValueError):
    """An in-tree volume that has no CSI counterpart; the text is upstream's."""


class Migration(NamedTuple):
    """An in-tree plugin and the driver that took over from it.

    Only volumes of a plugin that is `enabled` are ever taken for the driver's; `always` says that NodeVolumeLimits
    does so whatever a node's CSINode says. A plugin without `topology` keeps its volumes' node affinity.
    """

    plugin: str
    driver: str
    always: bool
    enabled: bool
    topology: str = ""


_BY_SOURCE: dict[type[Source], Migration] = {
    GcePersistentDisk: Migration("kubernetes.io/gce-pd", "pd.csi.storage.gke.io", True, True, "topology.gke.io/zone"),
    AwsElasticBlockStore: Migration(
        "kubernetes.io/aws-ebs", "ebs.csi.aws.com", True, True, "topology.ebs.csi.aws.com/zone"
    ),
    AzureDisk: Migration("kubernetes.io/azure-disk", "disk.csi.azure.com", True, True),
    Cinder: Migration(
        "kubernetes.io/cinder", "cinder.csi.openstack.org", True, True, "topology.cinder.csi.openstack.org/zone"
    ),
    Portworx: Migration("kubernetes.io/portworx-volume", "pxd.portworx.com", False, True),
    VsphereVolume: Migration("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", False, False),
}
_BY_PLUGIN = {migration.plugin: migration for migration in _BY_SOURCE.values()} | {
    "kubernetes.io/azure-file": Migration("kubernetes.io/azure-file", "file.csi.azure.com", False, False)
}


def source_of(volume: Volume | PersistentVolume) -> Source | None:
    """Return the in-tree source of a pod's volume or a PersistentVolume that a CSI driver has taken over."""
    holder = volume.spec if isinstance(volume, PersistentVolume) else volume
    return (
        holder.gce_persistent_disk
        or holder.aws_elastic_block_store
        or holder.azure_disk
        or holder.cinder
        or holder.portworx_volume
        or holder.vsphere_volume
    )


def migration_of(source: Source) -> Migration:
    """Return the plugin and driver of a source."""
    return _BY_SOURCE[type(source)]


def migration_of_plugin(plugin: str) -> Migration | None:
    """Return the migration of an in-tree plugin or provisioner by name; None for another."""
    return _BY_PLUGIN.get(plugin)


def migrated_plugins(node: CSINode | None) -> frozenset[str]:
    """Return the in-tree plugins that a node's kubelet has handed over to drivers."""
    listed = node.metadata.annotations.get(MIGRATED_PLUGINS, "") if node is not None else ""
    return frozenset(listed.split(",")) if listed else frozenset()


def is_migration_on(migration: Migration, node: CSINode | None, *, all_nodes: bool = False) -> bool:
    """Tell whether NodeVolumeLimits counts an in-tree plugin's volumes as the driver's (isCSIMigrationOn); with
    `all_nodes`, whatever a node says about the plugin."""
    if node is None or not migration.enabled:
        return False
    return migration.always or all_nodes or migration.plugin in migrated_plugins(node)


def handle_of(volume: Volume | PersistentVolume, source: Source) -> str:
    """Return the CSI volume handle of an in-tree volume.

    Raises:
        TranslationError: the volume's own name of its disk cannot be read.
    """
    match source:
        case GcePersistentDisk():
            zones = _zone_label(volume).split(ZONE_DELIMITER) if isinstance(volume, PersistentVolume) else [""]
            if len(zones) > 1:
                return _GCE_HANDLE.format(kind="regions", place=_gce_region(zones), name=source.pd_name)
            return _GCE_HANDLE.format(kind="zones", place=zones[0] or "UNSPECIFIED", name=source.pd_name)
        case AwsElasticBlockStore():
            return _aws_handle(source.volume_id)
        case AzureDisk():
            if source.kind is not None and source.kind.lower() != "managed":
                raise TranslationError(f"kind({source.kind}) is not supported in csi migration")
            return source.disk_uri
        case VsphereVolume():
            return source.volume_path
        case _:
            return source.volume_id


def translated_affinity(volume: PersistentVolume, migration: Migration) -> NodeSelector | None:
    """Return the node affinity of the CSI volume that stands for an in-tree one (translateTopologyFromInTreeToCSI)."""
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    if not migration.topology:
        return required
    terms = required.node_selector_terms if required is not None else ()
    zone_key, region_key = _topology_keys(volume, terms)
    if _values_of_key(terms, zone_key):
        terms = _rename_key(terms, zone_key, migration.topology)
    elif zone_key in volume.metadata.labels:
        zones = {zone.strip() for zone in volume.metadata.labels[zone_key].split(ZONE_DELIMITER)} - {""}
        if zones:
            extra = NodeSelectorRequirement(migration.topology, "In", tuple(sorted(zones)))
            terms = tuple(
                NodeSelectorTerm((*term.match_expressions, extra), term.match_fields)
                for term in terms or (NodeSelectorTerm(),)
            )
    if region_key == BETA_REGION and _values_of_key(terms, region_key):
        terms = _rename_key(terms, region_key, REGION)
    return NodeSelector(terms) if terms or required is not None else None


def _topology_keys(volume: PersistentVolume, terms: Iterable[NodeSelectorTerm]) -> tuple[str, str]:
    """Return the zone and region keys a volume uses, stable or beta; its affinity takes precedence over its labels."""
    keys = {expression.key for term in terms for expression in term.match_expressions}
    for used_keys in (keys, volume.metadata.labels):
        if ZONE in used_keys:
            return ZONE, REGION
        if BETA_ZONE in used_keys:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _values_of_key(terms: Iterable[NodeSelectorTerm], key: str) -> set[str]:
    return {
        value
        for term in terms
        for expression in term.match_expressions
        if expression.key == key
        for value in expression.values
    }


def _rename_key(terms: Iterable[NodeSelectorTerm], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        NodeSelectorTerm(
            tuple(
                NodeSelectorRequirement(
                    new if expression.key == old else expression.key, expression.operator, expression.values
                )
                for expression in term.match_expressions
            ),
            term.match_fields,
        )
        for term in terms
    )


def _zone_label(volume: PersistentVolume) -> str:
    labels = volume.metadata.labels
    return labels.get(BETA_ZONE) or labels.get(ZONE) or ""


def _gce_region(zones: Iterable[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: zone in unexpected format, expected: "
                f"{{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        raise TranslationError(f"failed to get region from zones: multiple or no regions gotten from zones: {regions}")
    return regions.pop()


def _aws_handle(volume_id: str) -> str:
    if not volume_id.startswith("aws://"):
        return volume_id
    name = urlsplit(volume_id).path.strip("/")
    if _AWS_VOLUME.fullmatch(name) is None:
        raise TranslationError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({volume_id})"
        )
    return name
