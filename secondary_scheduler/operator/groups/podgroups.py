"""What the status of a PodGroup should be (pkg/controllers/podgroup_controller.go of scheduler-plugins 0.34.7).

One step at a time, as upstream: the change that a step makes brings the next one. Upstream counts the pods of all
namespaces that name a group like this one; here a group counts those of its own.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from scheduler.kube.model import Pod, PodGroup, PodGroupStatus
from scheduler.kube.primitives import TimestampError, epoch_seconds

PENDING, SCHEDULING, RUNNING = "Pending", "Scheduling", "Running"
FINISHED, FAILED = "Finished", "Failed"
TERMINAL = frozenset({FINISHED, FAILED})
GIVE_UP_AFTER = 48 * 3600.0
"""Seconds between a group's creation and the time it says its scheduling began. Nothing writes that time any more; a
group that has it from an older controller is left alone as before."""


class Member(NamedTuple):
    """What counts of a pod that names a group; `owners` are the names of its owners."""

    name: str
    namespace: str
    created: str
    phase: str
    owners: tuple[str, ...]

    @classmethod
    def of(cls, pod: Pod) -> "Member":
        """Return what counts of a pod."""
        meta = pod.metadata
        owners = tuple(owner.name for owner in meta.owner_references)
        return cls(meta.name, meta.namespace, meta.creation_timestamp, pod.status.phase, owners)


def is_overdue(group: PodGroup) -> bool:
    """Tell whether a group was waiting for so long that its pods may have been collected as garbage."""
    status = group.status
    if status.phase not in (SCHEDULING, PENDING) or status.running or not status.schedule_start_time:
        return False
    try:
        waited = epoch_seconds(status.schedule_start_time) - epoch_seconds(group.metadata.creation_timestamp)
    except TimestampError:
        return False
    return waited > GIVE_UP_AFTER


def next_status(group: PodGroup, members: Sequence[Member]) -> PodGroupStatus:
    """Return the status after one step; the same one where there is nothing to change."""
    status, wanted = group.status, group.spec.min_member
    if status.phase in TERMINAL or is_overdue(group):
        return status
    if not status.phase:
        return _with(status, phase=PENDING)
    if status.phase == PENDING:
        if len(members) < wanted:
            return status
        return _with(status, phase=SCHEDULING, occupied_by=_occupied_by(members) or status.occupied_by)
    counts = {phase: sum(member.phase == phase for member in members) for phase in ("Running", "Succeeded", "Failed")}
    running, succeeded, failed = counts.values()
    return _with(
        status,
        phase=_phase(len(members), running, succeeded, failed, wanted),
        running=running,
        succeeded=succeeded,
        failed=failed,
    )


def _phase(members: int, running: int, succeeded: int, failed: int, wanted: int) -> str:
    if members < wanted:
        return PENDING
    if succeeded >= wanted:
        return FINISHED
    if failed and failed + running + succeeded >= wanted:
        return FAILED
    return RUNNING if succeeded + running >= wanted else SCHEDULING


def _occupied_by(members: Sequence[Member]) -> str:
    """Name the owners of the oldest pod; upstream takes the first one of a list in no order."""
    if not members:
        return ""
    oldest = min(members, key=lambda member: (member.created, member.name))
    return ",".join(sorted(f"{oldest.namespace}/{owner}" for owner in oldest.owners))


def patch_of(before: PodGroupStatus, after: PodGroupStatus) -> dict[str, Any]:
    """Return the fields that differ, as they stand in the object."""
    names = {"occupied_by": "occupiedBy"}
    return {
        names.get(field, field): getattr(after, field)
        for field in ("phase", "occupied_by", "running", "succeeded", "failed")
        if getattr(after, field) != getattr(before, field)
    }


def _with(status: PodGroupStatus, **changes: object) -> PodGroupStatus:
    return msgspec.structs.replace(status, **changes)
