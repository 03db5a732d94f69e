"""NodeVolumeLimits: how many volumes of a CSI driver a node can have attached (plugins/nodevolumelimits/csi.go)."""

import secrets
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from msgspec import Struct, field

from scheduler import framework as fw
from scheduler.catalog import ActionType
from scheduler.framework import BoolArray, IntArray, NodeView, Objects, PodInfo
from scheduler.helpers.csimigration import (
    Migration,
    TranslationError,
    handle_of,
    is_migration_on,
    migrated_plugins,
    migration_of,
    migration_of_plugin,
    source_of,
)
from scheduler.helpers.volumes import (
    ATTACHMENT,
    CLAIM,
    CLAIM_CONCERN,
    CLASS,
    CSI_DRIVER,
    CSI_NODE,
    VOLUME,
    claim_class,
    claim_not_found,
    claim_of,
    ownership_error,
    uses_claim,
)
from scheduler.kube.model import (
    CSIDriver,
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


class VolumeLimitColumns(Struct):
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
        self._columns = VolumeLimitColumns(np.zeros(0, dtype=np.int64))

    def columns(self, view: NodeView) -> VolumeLimitColumns:
        """Return the columns for a view."""
        versions = (view.membership, view.objects.generation(CSI_NODE))
        if self._objects is not view.objects or self._versions != versions:
            self._objects, self._versions, self._columns = view.objects, versions, self._built(view)
        return self._columns

    def _built(self, view: NodeView) -> VolumeLimitColumns:
        columns = VolumeLimitColumns(np.zeros(view.size, dtype=np.int64))
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


REASON = "node(s) exceed max volume count"


class NodeVolumeLimits(fw.PreFilterPlugin, fw.FilterPlugin, fw.EnqueueExtensions, fw.FilterRule):
    """Filter over what drivers allow per node, and what is attached or about to be."""

    name = "NodeVolumeLimits"

    def __init__(self, args: object, context: fw.PluginContext) -> None:
        # Unbound claims are counted under a made-up handle, which must not meet a real one.
        self._prefix = secrets.token_hex(16)
        self._attachments = AttachmentIndex()
        self._nodes = CSINodeLimits(with_installed=context.kubernetes.rejects_missing_drivers)
        self._all_migrated = context.kubernetes.migrates_portworx
        self._rejects_missing_drivers = context.kubernetes.rejects_missing_drivers

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Skip pods without a volume that a driver could have to attach."""
        return None, fw.SUCCESS if pod.spec.attachable else fw.SKIP

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes where a driver of the pod's volumes has no slot left, or that lack one that must be there."""
        columns = self._nodes.columns(view)
        state.work.charge(5 * pod.spec.attachable * len(columns.examples), "volumes of the pod x kinds of CSINodes")
        near = np.zeros(view.size, dtype=np.bool_)
        volumes: dict[int, Volumes] = {}
        try:
            # Which volumes are a driver's depends on what a node migrated; few nodes differ in that.
            for migration_kind, example in enumerate(columns.examples):
                of_kind = columns.migration_kinds == migration_kind
                if of_kind[rows].any():
                    new = attachable_volumes(pod, view.objects, self._is_migrated(example), self._prefix, required=True)
                    volumes[migration_kind] = new
                    near |= of_kind & self._may_exceed_limits(new, columns, view)
        except MissingClaim as missing:
            everywhere = np.ones(len(rows), dtype=np.bool_)
            reason = f"looking up PVC {pod.namespace}/{missing.name}: {claim_not_found(missing.name)}"
            return fw.reject(everywhere, fw.Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
        # Of all nodes, not of those that are left: which these are depends on how the attempt is made.
        attached = int(view.attachable[near].sum())
        units = 5 * attached + int(near.sum()) * (20 + pod.spec.attachable // 5)
        walked = "volumes of the pod and of the pods on nodes near their limit"
        state.work.charge_once((self.name, pod.uid), units, walked)
        lacking = self._lacking(volumes, columns, view, rows)
        full = near[rows]
        for missing_driver in lacking.values():
            full &= ~missing_driver
        for index in np.flatnonzero(full).tolist():
            row = int(rows[index])
            full[index] = self._exceeds_limits(volumes[int(columns.migration_kinds[row])], columns, view, row)
        if not lacking:
            return fw.reject(full, fw.Code.UNSCHEDULABLE, REASON)
        reasons = {REASON: full} | {
            f"{name} CSI driver is not installed on the node": at for name, at in lacking.items()
        }
        bits = np.zeros(len(rows), dtype=np.int64)
        for number, rejected in enumerate(reasons.values()):
            bits |= rejected.astype(np.int64) << min(number, fw.MAX_REASONS - 1)
        codes = np.where(bits != 0, fw.Code.UNSCHEDULABLE, 0).astype(np.int8)
        return fw.Verdicts(codes, bits, tuple(reasons)[: fw.MAX_REASONS])

    def _lacking(
        self, volumes: Mapping[int, Volumes], columns: VolumeLimitColumns, view: fw.NodeView, rows: fw.RowArray
    ) -> dict[str, fw.BoolArray]:
        """Return by driver the rows without it, of drivers that reject such nodes (checkCSIDriverOnNode).

        A row is there once, with the first driver by name; upstream takes any.
        """
        lacking: dict[str, fw.BoolArray] = {}
        if not self._rejects_missing_drivers:
            return lacking
        known = np.zeros(len(rows), dtype=np.bool_)
        for driver in sorted({driver for new in volumes.values() for driver in new.values()}):
            item: CSIDriver | None = view.objects.get(CSI_DRIVER, "", driver)
            if item is None or not item.spec.prevent_pod_scheduling_if_missing:
                continue
            kinds = [kind for kind, new in volumes.items() if driver in new.values()]
            absent = np.isin(columns.migration_kinds[rows], kinds) & ~known
            if driver in columns.installed:
                absent &= ~columns.installed[driver][rows]
            if absent.any():
                lacking[driver] = absent
                known |= absent
        return lacking

    def _may_exceed_limits(self, new: Volumes, columns: VolumeLimitColumns, view: fw.NodeView) -> fw.BoolArray:
        """Return where a limit would be exceeded if no volume were shared and all were the driver's; others fit."""
        near = np.zeros(view.size, dtype=np.bool_)
        most = view.attachable + self._attachments.counts(view)
        for driver, count in Counter(new.values()).items():
            if driver in columns.limits:
                near |= most > columns.limits[driver] - count
        return near

    def _exceeds_limits(self, new: Volumes, columns: VolumeLimitColumns, view: fw.NodeView, row: int) -> bool:
        migrated = self._is_migrated(columns.examples[int(columns.migration_kinds[row])])
        attached: Volumes = {}
        for other in view.pods_on(row):
            if other.spec.attachable:
                attached |= attachable_volumes(other, view.objects, migrated, self._prefix, required=False)
        by_api = self._attachments.on_node(view.objects, view.name(row))
        current = Counter(attached.values())
        current.update(driver for volume, driver in by_api.items() if volume not in attached)
        wanted = Counter(driver for volume, driver in new.items() if volume not in attached)
        return any(
            driver in columns.limits and current[driver] + count > columns.limits[driver][row]
            for driver, count in wanted.items()
        )

    def _is_migrated(self, node: CSINode | None) -> IsMigrated:
        return partial(is_migration_on, node=node, all_nodes=self._all_migrated)

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Pods without volumes to attach pass."""
        return fw.Reads.ANYTHING if spec.attachable else fw.Reads.NOTHING

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register limits that appear or grow, deleted pods and attachments, and the pod's claim."""
        return (
            fw.HintRegistration(CSI_NODE, ActionType.ADD),
            fw.HintRegistration(CSI_NODE, ActionType.UPDATE, _csi_node_changed),
            fw.HintRegistration(fw.POD, ActionType.DELETE, _pod_deleted),
            fw.HintRegistration(CLAIM, ActionType.ADD, _claim_added, CLAIM_CONCERN),
            fw.HintRegistration(ATTACHMENT, ActionType.DELETE, _volume_detached),
        )


def _csi_node_changed(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return fw.Hint.QUEUE
    if drivers_of(new) - drivers_of(old):
        # Upstream, too, rejects nodes without a driver, but is woken by its limit only.
        return fw.Hint.QUEUE
    before = limits_of(old)
    return (
        fw.Hint.QUEUE
        if any(limit > before.get(driver, 0) for driver, limit in limits_of(new).items())
        else fw.Hint.SKIP
    )


def _pod_deleted(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    if not isinstance(old, fw.PodInfo):
        return fw.Hint.QUEUE
    assigned = old.node_name or old.nominated_node
    return fw.Hint.QUEUE if assigned and old.spec.attachable else fw.Hint.SKIP


def _claim_added(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    if not isinstance(new, PersistentVolumeClaim):
        return fw.Hint.QUEUE
    return fw.Hint.QUEUE if uses_claim(pod, new) else fw.Hint.SKIP


def _volume_detached(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    if not isinstance(old, VolumeAttachment):
        return fw.Hint.QUEUE
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return fw.Hint.QUEUE
        source = source_of(volume)
        if source is not None and migration_of(source).driver == old.spec.attacher:
            return fw.Hint.QUEUE
    return fw.Hint.SKIP
