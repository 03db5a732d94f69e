"""Which changes are worth another attempt at a pod that VolumeBinding rejected."""

from scheduler.framework import Hint, PodInfo
from scheduler.helpers.csimigration import MIGRATED_PLUGINS
from scheduler.helpers.volumes import uses_claim
from scheduler.kube.model import CSIDriver, CSINode, CSIStorageCapacity, PersistentVolumeClaim, StorageClass
from scheduler.plugins.volumebinding.provisioning import volume_limit


def _queue_if(is_relevant: bool) -> Hint:
    return Hint.QUEUE if is_relevant else Hint.SKIP


def class_changed(pod: PodInfo, old: object, new: object) -> Hint:
    """Queue for a new class, and for other allowed topologies; the binding mode never changes."""
    if not isinstance(old, StorageClass) or not isinstance(new, StorageClass):
        return Hint.QUEUE
    return _queue_if(old.allowed_topologies != new.allowed_topologies)


def claim_changed(pod: PodInfo, old: object, new: object) -> Hint:
    """Queue for the pod's own claims."""
    return _queue_if(not isinstance(new, PersistentVolumeClaim) or uses_claim(pod, new))


def csi_node_changed(pod: PodInfo, old: object, new: object) -> Hint:
    """Queue for a new one, and when other plugins are migrated."""
    if not isinstance(old, CSINode) or not isinstance(new, CSINode):
        return Hint.QUEUE
    before, after = old.metadata.annotations.get(MIGRATED_PLUGINS), new.metadata.annotations.get(MIGRATED_PLUGINS)
    return _queue_if((before or "") != (after or ""))


def driver_changed(pod: PodInfo, old: object, new: object) -> Hint:
    """Queue when a driver of the pod's inline volumes no longer tracks capacity."""
    if not isinstance(old, CSIDriver) or not isinstance(new, CSIDriver):
        return Hint.QUEUE
    if not old.spec.storage_capacity or new.spec.storage_capacity:
        return Hint.SKIP
    used = any(volume.csi is not None and volume.csi.driver == new.metadata.name for volume in pod.spec.volumes)
    return _queue_if(used)


def capacity_changed(pod: PodInfo, old: object, new: object) -> Hint:
    """Queue for a new one, and when larger volumes fit than before."""
    if not isinstance(old, CSIStorageCapacity) or not isinstance(new, CSIStorageCapacity):
        return Hint.QUEUE
    before, after = volume_limit(old), volume_limit(new)
    return _queue_if(after is not None and (before is None or after > before))
