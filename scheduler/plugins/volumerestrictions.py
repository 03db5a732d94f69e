"""VolumeRestrictions: disks named in the pod that only one pod of a node may mount, and claims that only one pod of
the cluster may use (plugins/volumerestrictions)."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from scheduler import framework as fw
from scheduler.catalog import ActionType
from scheduler.helpers.holding import DISKS, claim_key, is_disk
from scheduler.helpers.volumes import CLAIM, CLAIM_CONCERN, claim_not_found, uses_claim
from scheduler.kube.model import PersistentVolumeClaim, Volume

REASON_DISK = "node(s) had no available disk"
REASON_IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
_READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class _ReadWriteOncePodState(Struct):
    """The pod's claims for one pod only, and how many uses of them by other pods there are."""

    claims: frozenset[str]
    uses: int

    def clone(self) -> "_ReadWriteOncePodState":
        return _ReadWriteOncePodState(self.claims, self.uses)

    def update_count(self, other: fw.PodInfo, sign: int) -> None:
        # As upstream, by the name alone: pods of other namespaces count in a what-if run too.
        self.uses += sign * sum(
            volume.persistent_volume_claim is not None and volume.persistent_volume_claim.claim_name in self.claims
            for volume in other.spec.volumes
        )


class VolumeRestrictions(
    fw.PreFilterPlugin, fw.FilterPlugin, fw.PreFilterExtensions, fw.EnqueueExtensions, fw.FilterRule
):
    """Filter over the volumes of the pods on each node, and of all pods."""

    name = "VolumeRestrictions"

    def __init__(self, args: object, context: fw.PluginContext) -> None:
        pass

    def pre_filter(
        self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView
    ) -> tuple[fw.PreFilterResult | None, fw.Status]:
        """Skip pods without restricted volumes, and those whose claims no other pod uses."""
        if not pod.spec.volumes:
            return None, fw.SKIP
        state.work.charge(2 * len(pod.spec.volumes), "volumes of the pod")
        claims = set()
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is None:
                continue
            name = volume.persistent_volume_claim.claim_name
            claim: PersistentVolumeClaim | None = view.objects.get(CLAIM, pod.namespace, name)
            if claim is None:
                return None, fw.unresolvable(claim_not_found(name))
            if _READ_WRITE_ONCE_POD in claim.spec.access_modes:
                claims.add(name)
        uses = sum(bool(view.holders(claim_key(pod.namespace, name))) for name in claims)
        exclusive = _ReadWriteOncePodState(frozenset(claims), uses)
        if not exclusive.uses and not _disks(pod):
            return None, fw.SKIP
        state.write(self.name, exclusive)
        return None, fw.SUCCESS

    def add_pod(self, state: fw.CycleState, pod: fw.PodInfo, added: fw.PodInfo, view: fw.NodeView, row: int) -> None:
        """Count the uses of a pod put on a node."""
        exclusive = state.read(self.name, _ReadWriteOncePodState)
        if exclusive is not None:
            exclusive.update_count(added, 1)

    def remove_pod(
        self, state: fw.CycleState, pod: fw.PodInfo, removed: fw.PodInfo, view: fw.NodeView, row: int
    ) -> None:
        """No longer count the uses of a pod taken from a node."""
        exclusive = state.read(self.name, _ReadWriteOncePodState)
        if exclusive is not None:
            exclusive.update_count(removed, -1)

    def filter(self, state: fw.CycleState, pod: fw.PodInfo, view: fw.NodeView, rows: fw.RowArray) -> fw.Verdicts | None:
        """Reject nodes with a pod on a disk of ours, and every node while a claim for one pod is in use."""
        bits = np.zeros(len(rows), dtype=np.int64)
        disks = _disks(pod)
        if disks:
            others = sum(len(holder.pod.spec.volumes) for holder in view.holders(DISKS))
            state.work.charge(len(disks) * others, "disks of the pod x volumes of pods with disks")
            conflicting_rows = {holder.row for holder in view.holders(DISKS) if _conflict(disks, _disks(holder.pod))}
            bits[np.isin(rows, list(conflicting_rows))] = 1
        exclusive = state.read(self.name, _ReadWriteOncePodState)
        if exclusive is not None and exclusive.uses > 0:
            bits[bits == 0] = 2
        if not bits.any():
            return None
        codes = np.where(bits != 0, fw.Code.UNSCHEDULABLE, 0).astype(np.int8)
        return fw.Verdicts(codes, bits, (REASON_DISK, REASON_IN_USE))

    def filter_rule(self, spec: fw.SpecInfo, nodes: fw.Nodes) -> fw.Rule | fw.Reads:
        """Pods without volumes pass."""
        return fw.Reads.ANYTHING if spec.volumes else fw.Reads.NOTHING

    def events_to_register(self) -> Sequence[fw.HintRegistration]:
        """Register deleted pods, which may release a disk or claim, new nodes and the pod's claim."""
        return (
            fw.HintRegistration(fw.POD, ActionType.DELETE, _pod_deleted),
            fw.HintRegistration(fw.NODE, ActionType.ADD),
            fw.HintRegistration(CLAIM, ActionType.ADD, _claim_added, CLAIM_CONCERN),
        )


def _disks(pod: fw.PodInfo) -> tuple[Volume, ...]:
    return tuple(filter(is_disk, pod.spec.volumes)) if DISKS in pod.spec.holds else ()


def _conflict(wanted: Sequence[Volume], used: Sequence[Volume]) -> bool:
    return any(_same_disk(volume, other) for volume in wanted for other in used)


def _same_disk(volume: Volume, other: Volume) -> bool:
    """Tell whether two volumes are one disk that both may not mount: any but two readers; of EBS not even those."""
    gce, other_gce = volume.gce_persistent_disk, other.gce_persistent_disk
    if gce is not None and other_gce is not None and gce.pd_name == other_gce.pd_name:
        return not (gce.read_only and other_gce.read_only)
    aws, other_aws = volume.aws_elastic_block_store, other.aws_elastic_block_store
    if aws is not None and other_aws is not None and aws.volume_id == other_aws.volume_id:
        return True
    iscsi, other_iscsi = volume.iscsi, other.iscsi
    if iscsi is not None and other_iscsi is not None and iscsi.iqn == other_iscsi.iqn:
        return not (iscsi.read_only and other_iscsi.read_only)
    rbd, other_rbd = volume.rbd, other.rbd
    if rbd is None or other_rbd is None or rbd.pool != other_rbd.pool or rbd.image != other_rbd.image:
        return False
    return not set(rbd.monitors).isdisjoint(other_rbd.monitors) and not (rbd.read_only and other_rbd.read_only)


def _claim_names(pod: fw.PodInfo) -> set[str]:
    return {volume.persistent_volume_claim.claim_name for volume in pod.spec.volumes if volume.persistent_volume_claim}


def _pod_deleted(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    if not isinstance(old, fw.PodInfo):
        return fw.Hint.QUEUE
    if old.namespace != pod.namespace:
        return fw.Hint.SKIP
    if _conflict(_disks(pod), _disks(old)):
        return fw.Hint.QUEUE
    shared = _claim_names(pod) & _claim_names(old)
    return fw.Hint.QUEUE if shared else fw.Hint.SKIP


def _claim_added(pod: fw.PodInfo, old: object, new: object) -> fw.Hint:
    if not isinstance(new, PersistentVolumeClaim):
        return fw.Hint.QUEUE
    return fw.Hint.QUEUE if uses_claim(pod, new, ephemeral=False) else fw.Hint.SKIP
