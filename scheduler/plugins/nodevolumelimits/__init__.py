"""NodeVolumeLimits: how many volumes of a CSI driver a node can have attached (plugins/nodevolumelimits/csi.go)."""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from scheduler import framework as fw
from scheduler.catalog import ActionType
from scheduler.helpers.csimigration import is_migration_on, migration_of, source_of
from scheduler.helpers.volumes import (
    ATTACHMENT,
    CLAIM,
    CLAIM_CONCERN,
    CSI_DRIVER,
    CSI_NODE,
    claim_not_found,
    uses_claim,
)
from scheduler.kube.model import CSIDriver, CSINode, PersistentVolumeClaim, VolumeAttachment
from scheduler.plugins.nodevolumelimits.attachable import (
    AttachmentIndex,
    Columns,
    CSINodeLimits,
    IsMigrated,
    MissingClaim,
    Volumes,
    attachable_volumes,
    drivers_of,
    limits_of,
)

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
        self, volumes: Mapping[int, Volumes], columns: Columns, view: fw.NodeView, rows: fw.RowArray
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

    def _may_exceed_limits(self, new: Volumes, columns: Columns, view: fw.NodeView) -> fw.BoolArray:
        """Return where a limit would be exceeded if no volume were shared and all were the driver's; others fit."""
        near = np.zeros(view.size, dtype=np.bool_)
        most = view.attachable + self._attachments.counts(view)
        for driver, count in Counter(new.values()).items():
            if driver in columns.limits:
                near |= most > columns.limits[driver] - count
        return near

    def _exceeds_limits(self, new: Volumes, columns: Columns, view: fw.NodeView, row: int) -> bool:
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
