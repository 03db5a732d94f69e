"""NodeVolumeLimits: how many volumes of a CSI driver a node can have attached (plugins/nodevolumelimits/csi.go)."""

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from scheduler.catalog import ActionType
from scheduler.framework import (
    POD,
    SKIP,
    SUCCESS,
    Code,
    CycleState,
    Hint,
    HintRegistration,
    NodeView,
    PluginContext,
    PodInfo,
    PreFilterResult,
    RowArray,
    Status,
    Verdicts,
    reject,
)
from scheduler.helpers.csimigration import migration_of, source_of
from scheduler.helpers.volumes import ATTACHMENT, CLAIM, CSI_NODE, claim_not_found, uses_claim
from scheduler.plugins.nodevolumelimits.attachable import (
    AttachedByApi,
    MissingClaim,
    Volumes,
    attachable_volumes,
    has_attachable,
)
from secondary_scheduler.kube.model import CSINode, PersistentVolumeClaim, VolumeAttachment

REASON = "node(s) exceed max volume count"


class NodeVolumeLimits:
    """Filter over what drivers allow per node, and what is attached or about to be."""

    name = "NodeVolumeLimits"

    def __init__(self, args: object, context: PluginContext) -> None:
        # Unbound claims are counted under a made-up handle, which must not meet a real one.
        self._prefix = secrets.token_hex(16)
        self._attached_by_api = AttachedByApi()

    def pre_filter(self, state: CycleState, pod: PodInfo, view: NodeView) -> tuple[PreFilterResult | None, Status]:
        """Skip pods without a volume that a driver could have to attach."""
        return None, SUCCESS if has_attachable(pod) else SKIP

    def filter(self, state: CycleState, pod: PodInfo, view: NodeView, rows: RowArray) -> Verdicts | None:
        """Reject nodes where a driver of the pod's volumes has no slot left."""
        full = np.zeros(len(rows), dtype=np.bool_)
        try:
            for index, row in enumerate(rows.tolist()):
                node: CSINode | None = view.objects.get(CSI_NODE, "", view.name(row))
                # Looked up on every node: which volumes are a driver's depends on what the node migrated.
                new = attachable_volumes(pod, view.objects, node, self._prefix, required=True)
                limits = _limits(node)
                if any(driver in limits for driver in new.values()):
                    full[index] = self._exceeds(new, limits, node, view, row)
        except MissingClaim as missing:
            everywhere = np.ones(len(rows), dtype=np.bool_)
            reason = f"looking up PVC {pod.namespace}/{missing.name}: {claim_not_found(missing.name)}"
            return reject(everywhere, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reason)
        return reject(full, Code.UNSCHEDULABLE, REASON)

    def _exceeds(self, new: Volumes, limits: Mapping[str, int], node: CSINode | None, view: NodeView, row: int) -> bool:
        attached: Volumes = {}
        for other in view.pods_on(row):
            if other.spec.volumes:
                attached |= attachable_volumes(other, view.objects, node, self._prefix, required=False)
        by_api = self._attached_by_api.on(view.objects, view.name(row))
        current = Counter(attached.values())
        current.update(driver for volume, driver in by_api.items() if volume not in attached)
        wanted = Counter(driver for volume, driver in new.items() if volume not in attached)
        return any(driver in limits and current[driver] + count > limits[driver] for driver, count in wanted.items())

    def events_to_register(self) -> Sequence[HintRegistration]:
        """Limits that appear or grow, pods and attachments that go, the pod's claim."""
        return (
            HintRegistration(CSI_NODE, ActionType.ADD),
            HintRegistration(CSI_NODE, ActionType.UPDATE, _limits_changed),
            HintRegistration(POD, ActionType.DELETE, _pod_left),
            HintRegistration(CLAIM, ActionType.ADD, _claim_added),
            HintRegistration(ATTACHMENT, ActionType.DELETE, _detached),
        )


def _limits(node: CSINode | None) -> dict[str, int]:
    if node is None:
        return {}
    return {
        driver.name: driver.allocatable.count
        for driver in node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def _limits_changed(pod: PodInfo, old: object, new: object) -> Hint:
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return Hint.QUEUE
    before = _limits(old)
    return Hint.QUEUE if any(limit > before.get(driver, 0) for driver, limit in _limits(new).items()) else Hint.SKIP


def _pod_left(pod: PodInfo, old: object, new: object) -> Hint:
    if not isinstance(old, PodInfo):
        return Hint.QUEUE
    assigned = old.node_name or old.nominated_node
    return Hint.QUEUE if assigned and has_attachable(old) else Hint.SKIP


def _claim_added(pod: PodInfo, old: object, new: object) -> Hint:
    if not isinstance(new, PersistentVolumeClaim):
        return Hint.QUEUE
    return Hint.QUEUE if uses_claim(pod, new) else Hint.SKIP


def _detached(pod: PodInfo, old: object, new: object) -> Hint:
    if not isinstance(old, VolumeAttachment):
        return Hint.QUEUE
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return Hint.QUEUE
        source = source_of(volume)
        if source is not None and migration_of(source).driver == old.spec.attacher:
            return Hint.QUEUE
    return Hint.SKIP
