"""The condition of a PodGroup that says whether it is scheduled (updatePodGroupCondition of kube-scheduler)."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from scheduler.framework import Handle, Status
from scheduler.kube.model import PodGroupCondition, SchedulingPodGroup
from scheduler.kube.primitives import format_time

_MESSAGE_LENGTH = 32_768
"""The API server refuses longer ones."""


class PodGroupConditions:
    """Writes the condition of PodGroups, one request per group at a time.

    A write that fails is not repeated: the next attempt at the gang says the same again.
    """

    def __init__(self, handle: Handle, kind: str, condition: str) -> None:
        """Configure.

        Args:
            handle: patches the status.
            kind: of the groups, as the store of objects calls it.
            condition: its type.
        """
        self._handle = handle
        self._kind = kind
        self._type = condition
        self._writing: set[str] = set()

    def publish(self, group: SchedulingPodGroup, outcome: Status) -> None:
        """Say what became of a group; a group that was scheduled once stays so."""
        former = next((each for each in group.status.conditions if each.type == self._type), None)
        if former is not None and former.status == "True" and not outcome.is_success:
            return
        condition = self._condition(group, former, outcome)
        if condition == former or group.metadata.uid in self._writing:
            return
        self._writing.add(group.metadata.uid)
        self._handle.spawn(self._write(group, condition), f"condition of pod group {group.metadata.key}")

    def _condition(
        self, group: SchedulingPodGroup, former: PodGroupCondition | None, outcome: Status
    ) -> PodGroupCondition:
        if outcome.is_success:
            status, reason, message = "True", "Scheduled", ""
        else:
            reason = "Unschedulable" if outcome.is_rejection else "SchedulerError"
            status, message = "False", outcome.message[:_MESSAGE_LENGTH]
        if former is not None and former.status == status:
            since = former.last_transition_time
        else:
            since = format_time(datetime.fromtimestamp(self._handle.now(), UTC))
        return PodGroupCondition(self._type, status, group.metadata.generation, since, reason, message)

    async def _write(self, group: SchedulingPodGroup, condition: PodGroupCondition) -> None:
        others = [each for each in group.status.conditions if each.type != self._type]
        patch = {"status": {"conditions": msgspec.to_builtins([*others, condition])}}
        try:
            status, _ = await self._handle.patch_object(self._kind, group, patch, "status")
        finally:
            self._writing.discard(group.metadata.uid)
        if not status.is_success:
            self._handle.log(
                "warning",
                "GangScheduling",
                "a pod group's condition was not written",
                podGroup=group.metadata.key,
                error=status.message[:300],
            )
