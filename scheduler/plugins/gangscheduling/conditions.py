"""The condition of a PodGroup that says whether it is scheduled (updatePodGroupCondition of kube-scheduler)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from scheduler import framework as fw
from scheduler.kube.model import PodGroupCondition, SchedulingPodGroup
from scheduler.kube.primitives import format_seconds
from scheduler.plugins.gangscheduling.words import Words

_MESSAGE_LENGTH = 32_768
"""The API server refuses longer ones."""
_SCHEDULED_REMEMBERED = 10_000
_REPEATS, _REPEAT_SECONDS = 5, 1.0


class PodGroupConditions:
    """Writes the condition of PodGroups, one request per group at a time: what is said meanwhile is written after it.

    A write that fails is repeated only if the group was scheduled, as no later attempt says so.
    """

    def __init__(self, handle: fw.Handle, kind: str, words: Words, newest: Callable[[str, str], Any]) -> None:
        """Configure.

        Args:
            handle: patches the status.
            kind: of the groups, as the store of objects calls it.
            words: of the version.
            newest: returns the group of a namespace and name as the watch shows it, or None.
        """
        self._handle = handle
        self._kind = kind
        self._type = words.condition
        self._words = words
        self._newest = newest
        self._writing: dict[str, fw.Status | None] = {}
        """By UID of a group that is being written: what was said of it since, if anything was."""
        self._scheduled: OrderedDict[str, None] = OrderedDict()
        """UIDs of groups of which it was said that they are scheduled: the watch may not show it yet."""

    def publish(self, group: SchedulingPodGroup, outcome: fw.Status) -> None:
        """Say what became of a group; a group that was scheduled once stays so."""
        uid = group.metadata.uid
        former = self._former(group)
        if not outcome.is_success and (uid in self._scheduled or (former is not None and former.status == "True")):
            return
        if outcome.is_success:
            self._scheduled[uid] = None
            while len(self._scheduled) > _SCHEDULED_REMEMBERED:
                self._scheduled.popitem(last=False)
        if uid in self._writing:
            self._writing[uid] = outcome
        elif self._condition(group, outcome) != former:
            self._writing[uid] = None
            self._handle.spawn(self._write(group, outcome), f"condition of pod group {group.metadata.key}")

    def _former(self, group: SchedulingPodGroup) -> PodGroupCondition | None:
        return next((each for each in group.status.conditions if each.type == self._type), None)

    def _condition(self, group: SchedulingPodGroup, outcome: fw.Status) -> PodGroupCondition:
        former = self._former(group)
        if outcome.is_success:
            status, reason, message = "True", "Scheduled", ""
        else:
            reason = "Unschedulable" if outcome.is_rejection else self._words.reason_of(outcome)
            status, message = "False", outcome.message[:_MESSAGE_LENGTH]
        if former is not None and former.status == status:
            since = former.last_transition_time
        else:
            since = format_seconds(self._handle.now())
        return PodGroupCondition(self._type, status, group.metadata.generation, since, reason, message)

    async def _write(self, group: SchedulingPodGroup, outcome: fw.Status, failures: int = 0) -> None:
        """Write an outcome, and those that come meanwhile; `failures` is how often it could not be written."""
        uid = group.metadata.uid
        try:
            while True:
                status, written = await self._patch(group, outcome)
                since, self._writing[uid] = self._writing[uid], None
                if status.is_success and since is not None:
                    group, outcome = written, since
                    continue
                outcome = since or outcome
                if status.is_success or failures == _REPEATS or not outcome.is_success:
                    del self._writing[uid]
                    break
                # Most often the status was changed, and the watch has not shown it yet.
                self._handle.call_later(_REPEAT_SECONDS, partial(self._repeat, group, outcome, failures + 1))
                return
        except BaseException:
            self._writing.pop(uid, None)
            raise
        if not status.is_success:
            self._warn(group, status)

    async def _patch(self, group: SchedulingPodGroup, outcome: fw.Status) -> tuple[fw.Status, Any]:
        others = [each for each in group.status.conditions if each.type != self._type]
        conditions = msgspec.to_builtins([*others, self._condition(group, outcome)])
        return await self._handle.patch_object(self._kind, group, {"status": {"conditions": conditions}}, "status")

    def _repeat(self, group: SchedulingPodGroup, outcome: fw.Status, failures: int) -> None:
        newest = self._newest(group.metadata.namespace, group.metadata.name)
        if newest is None or newest.metadata.uid != group.metadata.uid:
            del self._writing[group.metadata.uid]
            return
        self._handle.spawn(
            self._write(newest, outcome, failures), f"condition of pod group {group.metadata.key}, once more"
        )

    def _warn(self, group: SchedulingPodGroup, status: fw.Status) -> None:
        self._handle.log(
            "warning",
            "GangScheduling",
            "a pod group's condition was not written",
            podGroup=group.metadata.key,
            error=status.message[:300],
        )
