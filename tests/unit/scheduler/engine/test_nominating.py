"""From 1.35 on a pod is shown as nominated before a binding that takes long, until that has failed or is done."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from scheduler.engine.nominating import PATIENCE_SECONDS
from scheduler.framework import SUCCESS, Code, CycleState, PodInfo, Status, failure
from scheduler.kube.model import EventType
from tests.unit.scheduler.engine.fakes import Engine, behaving_as, eventually, started
from tests.unit.scheduler.engine.pods import pod_info

VERSIONS = ("1.34", "1.35", "1.36", "1.37", "1.38")
WITHOUT_POST_FILTER = "{multiPoint: {disabled: [{name: DefaultPreemption}, {name: DynamicResources}]}}"


class Slow:
    """Permit and PreBind of a plugin that other components are waited for with."""

    name = "Slow"

    def __init__(self, *, permits: bool = True, is_slow: bool = True) -> None:
        self.permits, self.is_slow = permits, is_slow
        self.outcome: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status, float]:
        return (SUCCESS, 0.0) if self.permits else (Status(Code.WAIT), 600.0)

    def pre_bind_pre_flight(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        return self.is_slow

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        return await self.outcome


def running(
    kubernetes: str, plugins: str = "{}", compatibility: str = "upstream"
) -> AbstractAsyncContextManager[Engine]:
    return started(Engine(configuration=behaving_as(kubernetes, plugins=plugins, compatibility=compatibility)))


def with_slow_plugin(engine: Engine, **behavior: Any) -> Slow:
    plugin, runner = Slow(**behavior), next(iter(engine.runners.values()))
    runner.permit, runner.pre_bind, runner._pre_flights = (plugin,), (plugin,), (plugin,)
    return plugin


def nominations(engine: Engine) -> list[str | None]:
    """What was written to the pods' nominatedNodeName, in order."""
    statuses = [patch["status"] for _, patch in engine.api.patches if "status" in patch]
    return [status["nominatedNodeName"] for status in statuses if "nominatedNodeName" in status]


@pytest.mark.parametrize("kubernetes", VERSIONS)
async def test_a_pod_is_nominated_before_its_volumes_are_waited_for(kubernetes: str) -> None:
    async with running(kubernetes) as engine:
        plugin = with_slow_plugin(engine)
        engine.add_node("n1")
        engine.add_pod("p")
        await eventually(lambda: engine.state.is_assumed("p-uid"), "it has a node")
        await asyncio.sleep(1)
        assert not engine.api.bindings
        assert nominations(engine) == ([] if kubernetes == "1.34" else ["n1"])
        plugin.outcome.set_result(SUCCESS)
        await eventually(lambda: len(engine.api.bindings) == 1, "bound")
        await asyncio.sleep(1)
        # The API server clears it.
        assert nominations(engine) == ([] if kubernetes == "1.34" else ["n1"])


async def test_a_new_pod_is_nominated_only_when_its_volumes_take_long() -> None:
    async with running("1.36", compatibility="safe") as engine:
        plugin = with_slow_plugin(engine)
        engine.add_node("n1")
        engine.add_pod("p")
        await eventually(lambda: engine.state.is_assumed("p-uid"), "it has a node")
        await asyncio.sleep(PATIENCE_SECONDS - 0.1)
        assert nominations(engine) == []
        await asyncio.sleep(0.2)
        assert nominations(engine) == ["n1"]
        plugin.outcome.set_result(failure("no volume"))
        await eventually(lambda: nominations(engine) == ["n1", None], "taken back")


async def test_a_new_pod_whose_volumes_come_in_time_is_never_nominated() -> None:
    async with running("1.36", compatibility="safe") as engine:
        plugin = with_slow_plugin(engine)
        engine.add_node("n1")
        engine.add_pod("p")
        await eventually(lambda: engine.state.is_assumed("p-uid"), "it has a node")
        plugin.outcome.set_result(SUCCESS)
        await eventually(lambda: len(engine.api.bindings) == 1, "bound")
        await asyncio.sleep(2 * PATIENCE_SECONDS)
        assert not engine.api.patches


async def test_a_pod_that_was_unschedulable_is_nominated_before_its_volumes_are_waited_for() -> None:
    async with running("1.36", compatibility="safe") as engine:
        with_slow_plugin(engine)
        engine.add_pod("p")
        await eventually(lambda: len(engine.api.patches) == 1, "there is no node")
        engine.add_node("n1")
        await eventually(lambda: engine.state.is_assumed("p-uid"), "it has a node", 60)
        await eventually(lambda: nominations(engine) == ["n1"], "autoscalers know at once", PATIENCE_SECONDS / 2)


async def test_the_binding_comes_after_a_nomination_that_is_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running("1.36", compatibility="safe") as engine:
        plugin = with_slow_plugin(engine)
        answered: asyncio.Future[Status] = asyncio.get_running_loop().create_future()

        async def hang(*_: object, **__: object) -> Status:
            return await answered

        monkeypatch.setattr(engine.handle, "patch_pod", hang)
        engine.add_node("n1")
        engine.add_pod("p")
        await eventually(lambda: engine.state.is_assumed("p-uid"), "it has a node")
        await asyncio.sleep(PATIENCE_SECONDS + 0.1)
        plugin.outcome.set_result(SUCCESS)
        await asyncio.sleep(1)
        assert not engine.api.bindings
        answered.set_result(SUCCESS)
        await eventually(lambda: len(engine.api.bindings) == 1, "bound")


@pytest.mark.parametrize("kubernetes", VERSIONS)
async def test_a_pod_is_nominated_while_it_waits_for_permission(kubernetes: str) -> None:
    async with running(kubernetes) as engine:
        plugin = with_slow_plugin(engine, permits=False, is_slow=False)
        plugin.outcome.set_result(SUCCESS)
        engine.add_node("n1")
        engine.add_pod("p")
        await eventually(lambda: len(engine.waiting) == 1, "it waits")
        await asyncio.sleep(1)
        assert nominations(engine) == ([] if kubernetes == "1.34" else ["n1"])
        engine.waiting.allow("p-uid", plugin.name)
        await eventually(lambda: len(engine.api.bindings) == 1, "bound")


@pytest.mark.parametrize("kubernetes", VERSIONS)
async def test_a_pod_that_is_bound_at_once_is_not_nominated(kubernetes: str) -> None:
    async with running(kubernetes) as engine:
        engine.add_node("n1")
        engine.add_pod("p")
        await eventually(lambda: len(engine.api.bindings) == 1, "bound")
        assert not engine.api.patches


async def test_a_nomination_that_came_to_nothing_is_taken_back_though_the_watch_never_showed_it() -> None:
    async with running("1.36") as engine:
        plugin = with_slow_plugin(engine)
        engine.add_node("n1")
        engine.add_pod("p")
        await eventually(lambda: nominations(engine) == ["n1"], "nominated")
        plugin.outcome.set_result(failure("no volume"))
        await eventually(lambda: nominations(engine)[1:2] == [None], "taken back with the reason")
        _, patch = engine.api.patches[1]
        assert "no volume" in patch["status"]["conditions"][0]["message"]


async def test_a_pod_that_is_nominated_to_its_node_already_is_not_patched_again() -> None:
    async with running("1.36") as engine:
        plugin = with_slow_plugin(engine)
        plugin.outcome.set_result(SUCCESS)
        engine.add_node("n1")
        engine.add_pod("p", nominated="n1")
        await eventually(lambda: len(engine.api.bindings) == 1, "bound")
        assert not engine.api.patches


async def test_a_nomination_that_is_refused_does_not_stop_the_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running("1.36") as engine:
        plugin = with_slow_plugin(engine)
        plugin.outcome.set_result(SUCCESS)
        refusals = 0

        async def refuse(*_: object, **__: object) -> Status:
            nonlocal refusals
            refusals += 1
            return failure("forbidden")

        monkeypatch.setattr(engine.handle, "patch_pod", refuse)
        engine.add_node("n1")
        engine.add_pod("p")
        await eventually(lambda: len(engine.api.bindings) == 1, "bound")
        assert refusals == 1


@pytest.mark.parametrize("kubernetes", VERSIONS)
async def test_without_a_post_filter_plugin_a_rejected_pod_loses_its_nomination_from_1_35_on(kubernetes: str) -> None:
    async with running(kubernetes, WITHOUT_POST_FILTER) as engine:
        engine.add_node("n1", cpu="1")
        engine.add_pod("p", cpu="2", nominated="n1")
        await eventually(lambda: bool(engine.api.patches), "rejected")
        assert nominations(engine) == ([] if kubernetes == "1.34" else [None])


@pytest.mark.parametrize("kubernetes", VERSIONS)
async def test_a_nominated_pod_that_is_bound_wakes_others_as_1_34_only(kubernetes: str) -> None:
    async with running(kubernetes) as engine:
        engine.add_node("n1", cpu="1")
        engine.add_pod("q", cpu="2")
        await eventually(lambda: bool(engine.api.patches), "it does not fit")
        engine.leading = False
        engine.add_pod("p", cpu="700m", nominated="n1")
        engine.pods.apply([(EventType.MODIFIED, pod_info("p", cpu="700m", nominated="n1", node="n1", rv="2"))])
        assert (engine.queue.queue_of("q-uid") == "unschedulable") is (kubernetes != "1.34")
