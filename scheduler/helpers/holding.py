"""What pods hold that others may want, as keys under which the state lists the pods on nodes."""

from collections.abc import Iterable

from scheduler.framework import HostPort
from scheduler.helpers.csimigration import source_of
from scheduler.kube.model import Volume

DISKS = "disks"
"""Key of the pods that name a disk only one of them may mount."""
ATTACHABLE = "attachable"
"""Key of the pods with a volume that may have to be attached."""


def port_key(port: HostPort) -> str:
    """Return the key of the pods with a host port of a number and protocol, at whatever address."""
    return f"port/{port.protocol}/{port.port}"


def claim_key(namespace: str, name: str) -> str:
    """Return the key of the pods that use a claim (other than an ephemeral volume's)."""
    return f"claim/{namespace}/{name}"


def is_disk(volume: Volume) -> bool:
    """Tell whether a volume is a disk that VolumeRestrictions looks at."""
    return (
        volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.iscsi is not None
        or volume.rbd is not None
    )


def is_attachable(volume: Volume) -> bool:
    """Tell whether a driver may have to attach a volume."""
    return volume.persistent_volume_claim is not None or volume.ephemeral is not None or source_of(volume) is not None


def holds(namespace: str, ports: Iterable[HostPort], volumes: Iterable[Volume]) -> frozenset[str]:
    """Return the keys of a pod."""
    keys = {port_key(port) for port in ports}
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            keys.add(claim_key(namespace, volume.persistent_volume_claim.claim_name))
        if is_disk(volume):
            keys.add(DISKS)
        if is_attachable(volume):
            keys.add(ATTACHABLE)
    return frozenset(keys)
