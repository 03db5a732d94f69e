"""Which of a pod's volumes a CSI driver attaches to the node, under names that tell one volume from another."""

from collections.abc import Callable, Mapping

import numpy as np
from msgspec import Struct, field

from scheduler.framework import BoolArray, IntArray, NodeView, Objects, PodInfo
from scheduler.helpers.csimigration import (
    Migration,
    TranslationError,
    handle_of,
    migrated_plugins,
    migration_of,
    migration_of_plugin,
    source_of,
)
from scheduler.helpers.volumes import ATTACHMENT, CLAIM, CLASS, CSI_NODE, VOLUME, claim_class, claim_of, ownership_error
from scheduler.kube.model import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    Volume as PodVolume,
    VolumeAttachment,
)

# What drivers say about nodes, as columns.

NO_LIMIT = np.iinfo(np.int64).max


def limits_of(node: CSINode | None) -> dict[str, int]:
    """Return the volumes each driver can attach to a node; a driver without a limit is absent."""
    if node is None:
        return {}
    return {
        driver.name: driver.allocatable.count
        for driver in node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def drivers_of(node: CSINode | None) -> set[str]:
    """Return the drivers that a node has."""
    return set() if node is None else {driver.name for driver in node.spec.drivers}


class Columns(Struct):
    """Entries for rows without a node, and where a driver has no limit, are NO_LIMIT.

    Attributes:
        kinds: per row, which of `examples` the node is like in what decides whether a driver counts in-tree volumes:
            whether there is a CSINode, and the plugins it migrated.
        limits: per driver, its limit on each row.
        installed: per driver, whether each row has it; empty where nobody asks.
    """

    migration_kinds: IntArray
    examples: list[CSINode | None] = field(default_factory=list)
    limits: dict[str, IntArray] = field(default_factory=dict)
    installed: dict[str, BoolArray] = field(default_factory=dict)


class CSINodeLimits:
    """The columns, rebuilt when a CSINode changes or nodes are added or removed."""

    def __init__(self, *, with_installed: bool) -> None:
        """`with_installed`: whether `Columns.installed` is wanted."""
        self._with_installed = with_installed
        self._objects: Objects | None = None
        self._versions = (-1, -1)
        self._columns = Columns(np.zeros(0, dtype=np.int64))

    def columns(self, view: NodeView) -> Columns:
        """Return the columns for a view."""
        versions = (view.membership, view.objects.generation(CSI_NODE))
        if self._objects is not view.objects or self._versions != versions:
            self._objects, self._versions, self._columns = view.objects, versions, self._built(view)
        return self._columns

    def _built(self, view: NodeView) -> Columns:
        columns = Columns(np.zeros(view.size, dtype=np.int64))
        known: dict[frozenset[str] | None, int] = {}
        for row in view.rows.tolist():
            node: CSINode | None = view.objects.get(CSI_NODE, "", view.name(row))
            migration_kind = None if node is None else migrated_plugins(node)
            if migration_kind not in known:
                known[migration_kind] = len(known)
                columns.examples.append(node)
            columns.migration_kinds[row] = known[migration_kind]
            for driver in drivers_of(node) if self._with_installed else ():
                if driver not in columns.installed:
                    columns.installed[driver] = np.zeros(view.size, dtype=np.bool_)
                columns.installed[driver][row] = True
            for driver, limit in limits_of(node).items():
                if driver not in columns.limits:
                    columns.limits[driver] = np.full(view.size, NO_LIMIT, dtype=np.int64)
                columns.limits[driver][row] = limit
        return columns


Volumes = dict[str, str]
"""Driver by unique volume name (`driver/handle`)."""
IsMigrated = Callable[[Migration], bool]
"""Tells whether a node's volumes of an in-tree plugin count as the driver's."""


class MissingClaim(LookupError):
    """A pod's claim does not exist."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def attachable_volumes(
    pod: PodInfo, objects: Objects, is_migrated: IsMigrated, prefix: str, *, required: bool
) -> Volumes:
    """Return the volumes that count against a driver's limit on a node.

    Args:
        is_migrated: of the node; it decides which in-tree volumes are a driver's.
        prefix: begins the names of volumes that do not exist yet.
        required: whether a missing claim matters; a running pod's is left out.

    Raises:
        MissingClaim: a claim does not exist.
        ValueError: a claim is another pod's, or has no name; an in-tree volume cannot be translated.
    """
    attached: Volumes = {}
    for volume in pod.spec.volumes:
        named = claim_of(pod, volume)
        if named is None:
            _add_inline(volume, is_migrated, attached)
            continue
        name, ephemeral = named
        if not name:
            raise ValueError("PersistentVolumeClaim had no name")
        claim: PersistentVolumeClaim | None = objects.get(CLAIM, pod.namespace, name)
        if claim is None:
            if required:
                raise MissingClaim(name)
            continue
        foreign = ownership_error(pod, claim) if ephemeral else ""
        if foreign:
            raise ValueError(foreign)
        driver, handle = _volume_of_claim(claim, objects, is_migrated, prefix)
        if driver and handle:
            attached[f"{driver}/{handle}"] = driver
    return attached


def _add_inline(volume: PodVolume, is_migrated: IsMigrated, attached: Volumes) -> None:
    source = source_of(volume)
    if source is None:
        return
    migration = migration_of(source)
    if not is_migrated(migration):
        return
    try:
        handle = handle_of(volume, source)
    except TranslationError as error:
        raise ValueError(f"converting volume({volume.name}) from inline to csi: {error}") from error
    attached[f"{migration.driver}/{handle}"] = migration.driver


def _volume_of_claim(
    claim: PersistentVolumeClaim, objects: Objects, is_migrated: IsMigrated, prefix: str
) -> tuple[str, str]:
    """Return (driver, handle) of a claim's volume; empty texts where no driver attaches it."""
    name = claim.spec.volume_name
    volume: PersistentVolume | None = objects.get(VOLUME, "", name) if name else None
    if volume is None:
        # Not provisioned, or pre-bound to a volume still to come: counted as one of the class.
        return _volume_of_class(claim, objects, is_migrated, prefix)
    if volume.spec.csi is not None:
        return volume.spec.csi.driver, volume.spec.csi.volume_handle
    source = source_of(volume)
    if source is None or not is_migrated(migration_of(source)):
        return "", ""
    try:
        return migration_of(source).driver, handle_of(volume, source)
    except TranslationError:
        return "", ""


def _volume_of_class(
    claim: PersistentVolumeClaim, objects: Objects, is_migrated: IsMigrated, prefix: str
) -> tuple[str, str]:
    name = claim_class(claim)
    storage_class: StorageClass | None = objects.get(CLASS, "", name) if name else None
    if storage_class is None:
        return "", ""
    handle = f"{prefix}-{claim.metadata.key}"
    migration = migration_of_plugin(storage_class.provisioner)
    if migration is None:
        return storage_class.provisioner, handle
    return (migration.driver, handle) if is_migrated(migration) else ("", "")


class AttachmentIndex:
    """Volumes that VolumeAttachments say are on a node; looked through once per change."""

    def __init__(self) -> None:
        self._objects: Objects | None = None
        self._generation = -1
        self._by_node: dict[str, Volumes] = {}
        self._counts: IntArray = np.zeros(0, dtype=np.int64)
        self._counts_versions = (-1, -1)

    def on_node(self, objects: Objects, node: str) -> Mapping[str, str]:
        """Return driver by unique volume name."""
        generation = objects.generation(ATTACHMENT, VOLUME)
        if self._objects is not objects or self._generation != generation:
            self._objects, self._generation = objects, generation
            self._by_node = _by_node(objects)
            self._counts_versions = (-1, -1)
        return self._by_node.get(node, {})

    def counts(self, view: NodeView) -> IntArray:
        """Return how many there are per row."""
        self.on_node(view.objects, "")
        versions = (view.membership, self._generation)
        if self._counts_versions != versions:
            self._counts_versions = versions
            self._counts = np.zeros(view.size, dtype=np.int64)
            for node, volumes in self._by_node.items():
                row = view.row(node)
                if row >= 0:
                    self._counts[row] = len(volumes)
        return self._counts


def _by_node(objects: Objects) -> dict[str, Volumes]:
    by_node: dict[str, Volumes] = {}
    attachment: VolumeAttachment
    for attachment in objects.every(ATTACHMENT):
        spec = attachment.spec
        name = spec.source.persistent_volume_name
        volume: PersistentVolume | None = objects.get(VOLUME, "", name) if name is not None else None
        if spec.attacher and volume is not None and volume.spec.csi is not None:
            unique = f"{spec.attacher}/{volume.spec.csi.volume_handle}"
            by_node.setdefault(spec.node_name, {})[unique] = spec.attacher
    return by_node
