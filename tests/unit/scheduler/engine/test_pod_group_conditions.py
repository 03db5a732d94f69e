"""The condition of a PodGroup of scheduling.k8s.io, while its status changes and writes fail."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from scheduler.catalog import KUBERNETES_VERSIONS
from scheduler.framework import SUCCESS, Status, failure, unschedulable
from scheduler.kube.model import (
    ObjectMeta,
    PodGroupCondition,
    ResourceVersion,
    SchedulingPodGroup,
    SchedulingPodGroupStatus,
)
from scheduler.plugins.gangscheduling.conditions import PodGroupConditions
from scheduler.plugins.gangscheduling.words import words_of

TYPE = "PodGroupInitiallyScheduled"
CONFLICT = failure("409 Conflict")


def group_of(uid: str, version: str) -> SchedulingPodGroup:
    meta = ObjectMeta(name="g", namespace="ns", uid=uid, resource_version=ResourceVersion(version))
    return SchedulingPodGroup(meta)


class Stage:
    """The group as the API server has it, and the handle of the plugin that writes its condition."""

    def __init__(self) -> None:
        self.group = group_of("g-uid", "1")
        self.shown = self.group
        self.answering = asyncio.Event()
        self.answering.set()
        self.writes: list[str] = []
        self.warnings: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        words = words_of(KUBERNETES_VERSIONS[37])
        self.conditions = PodGroupConditions(self, "PodGroup", words, lambda *key: self.shown)  # type: ignore[arg-type]

    def publish(self, *outcomes: Status) -> None:
        for outcome in outcomes:
            self.conditions.publish(self.shown, outcome)

    async def settle(self) -> None:
        """Wait for what is under way, and for all repetitions."""
        self.answering.set()
        await asyncio.sleep(60)

    def statuses(self) -> list[str]:
        return [condition.status for condition in self.group.status.conditions if condition.type == TYPE]

    # The handle ---------------------------------------------------------------------------------------------------

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.tasks.append(asyncio.create_task(work, name=name))

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(seconds, call)

    def now(self) -> float:
        return 0.0

    def log(self, level: str, plugin: str, text: str, **fields: str) -> None:
        self.warnings.append(text)

    async def patch_object(
        self, kind: str, group: SchedulingPodGroup, patch: dict[str, Any], subresource: str
    ) -> tuple[Status, Any]:
        await self.answering.wait()
        written = patch["status"]["conditions"][-1]["status"]
        self.writes.append(written)
        if group.metadata.resource_version != self.group.metadata.resource_version:
            return CONFLICT, None
        version = str(int(group.metadata.resource_version) + 1)
        condition = PodGroupCondition(TYPE, written, 0, None, "", "")
        self.group = replace(
            self.group,
            metadata=replace(self.group.metadata, resource_version=version),
            status=SchedulingPodGroupStatus((condition,)),
        )
        return SUCCESS, self.group


async def test_what_is_said_during_a_write_is_written_after_it() -> None:
    stage = Stage()
    stage.answering.clear()
    stage.publish(unschedulable("no room"), unschedulable("still none"), SUCCESS)
    await stage.settle()
    assert (stage.writes, stage.statuses()) == (["False", "True"], ["True"])


async def test_a_group_that_was_scheduled_stays_so_before_the_watch_shows_it() -> None:
    stage = Stage()
    stage.publish(SUCCESS)
    await stage.settle()
    stage.publish(unschedulable("the others do not fit"))
    await stage.settle()
    assert stage.writes == ["True"]


async def test_a_group_of_the_same_name_is_another_one() -> None:
    stage = Stage()
    stage.publish(SUCCESS)
    await stage.settle()
    stage.group = stage.shown = group_of("new", "9")
    stage.publish(unschedulable("no room"))
    await stage.settle()
    assert stage.writes == ["True", "False"]


async def test_that_a_group_is_scheduled_is_written_once_the_watch_shows_what_changed() -> None:
    stage = Stage()
    stage.group = replace(stage.group, metadata=replace(stage.group.metadata, resource_version="7"))
    stage.publish(SUCCESS)
    await asyncio.sleep(1.5)
    assert (stage.statuses(), stage.writes) == ([], ["True", "True"])
    stage.shown = stage.group
    await stage.settle()
    assert stage.statuses() == ["True"]


async def test_a_write_that_fails_again_and_again_is_given_up_with_a_warning() -> None:
    stage = Stage()
    stage.group = replace(stage.group, metadata=replace(stage.group.metadata, resource_version="7"))
    stage.publish(SUCCESS)
    await stage.settle()
    assert len(stage.writes) == 6
    assert stage.warnings == ["a pod group's condition was not written"]


async def test_a_reason_that_could_not_be_written_is_left_to_the_next_attempt() -> None:
    stage = Stage()
    stage.group = replace(stage.group, metadata=replace(stage.group.metadata, resource_version="7"))
    stage.publish(unschedulable("no room"))
    await stage.settle()
    assert (stage.writes, len(stage.warnings)) == (["False"], 1)
    stage.shown = stage.group
    stage.publish(unschedulable("no room"))
    await stage.settle()
    assert stage.statuses() == ["False"]


async def test_nothing_is_written_of_a_group_that_is_gone() -> None:
    stage = Stage()
    stage.group = replace(stage.group, metadata=replace(stage.group.metadata, resource_version="7"))
    stage.publish(SUCCESS)
    stage.shown = group_of("new", "9")
    await stage.settle()
    assert stage.writes == ["True"]
