"""What is written about a pod: one patch at a time, the newest last, and none that comes after the binding."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from scheduler.engine.failures import UNSCHEDULABLE, AttemptFailure, FailureReporter
from scheduler.framework import PodInfo
from scheduler.kube.client import ConnectionLost
from tests.unit.scheduler.engine.fakes import Engine, FakeApi, eventually, started


class SlowApi(FakeApi):
    """Answers a patch when the test says so, or fails; what is under way is in `patches` already."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[asyncio.Future[None]] = []

    async def patch(
        self, path: str, body: Any, content_type: str = "", allowed: Callable[[], bool] = lambda: True
    ) -> bytes:
        if "status" not in body:
            # The series of an Event.
            return b"{}"
        answer = asyncio.get_running_loop().create_future()
        self.answers.append(answer)
        # As it was sent: a change from now on would not reach the API server.
        await super().patch(path, {**body, "status": dict(body["status"])})
        await answer
        return b"{}"

    def messages(self) -> list[str]:
        return [
            body["status"]["conditions"][0]["message"] for _, body in self.patches if "conditions" in body["status"]
        ]


def report(engine: Engine, reporter: FailureReporter, pod: PodInfo, message: str, nominated: str | None = "") -> None:
    failure = AttemptFailure(message, UNSCHEDULABLE, frozenset({"NodeResourcesFit"}), nominated_node=nominated)
    reporter.report(engine.handle, pod, failure)


@asynccontextmanager
async def first_under_way(api: SlowApi) -> AsyncIterator[tuple[Engine, PodInfo, FailureReporter]]:
    """An engine, a pod of another scheduler, and a reporter whose first patch of it has no answer yet."""
    async with started(Engine(api)) as engine:
        pod, reporter = engine.add_pod("p", scheduler="other"), FailureReporter()
        report(engine, reporter, pod, "first")
        await eventually(lambda: api.messages() == ["first"], "sent")
        yield engine, pod, reporter


async def turns_of_the_loop() -> None:
    """Let everything run that does not wait for an answer."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_a_newer_reason_waits_until_the_older_one_is_written_and_replaces_those_between_them() -> None:
    api = SlowApi()
    async with first_under_way(api) as (engine, pod, reporter):
        report(engine, reporter, pod, "second", nominated="n1")
        report(engine, reporter, pod, "third", nominated="n1")
        await turns_of_the_loop()
        assert api.messages() == ["first"]
        api.answers[0].set_result(None)
        await eventually(lambda: api.messages() == ["first", "third"], "the newest")
        assert api.patches[1][1]["status"]["nominatedNodeName"] == "n1"
        api.answers[1].set_result(None)
        await turns_of_the_loop()
        assert api.messages() == ["first", "third"]


async def test_pods_do_not_wait_for_each_other() -> None:
    api = SlowApi()
    async with started(Engine(api)) as engine:
        reporter = FailureReporter()
        for name in ("a", "b", "c"):
            report(engine, reporter, engine.add_pod(name, scheduler="other"), name)
        await eventually(lambda: api.messages() == ["a", "b", "c"], "all sent")
        for answer in api.answers:
            answer.set_result(None)


async def test_a_failed_patch_is_written_again_and_one_that_succeeded_after_it_is_not() -> None:
    api = SlowApi()
    async with first_under_way(api) as (engine, pod, reporter):
        report(engine, reporter, pod, "second")
        api.answers[0].set_exception(ConnectionLost("gone"))
        await eventually(lambda: len(api.answers) == 2, "the newer one")
        api.answers[1].set_result(None)
        await turns_of_the_loop()
        report(engine, reporter, pod, "second")
        await turns_of_the_loop()
        assert api.messages() == ["first", "second"]
        report(engine, reporter, pod, "third")
        await eventually(lambda: len(api.answers) == 3, "sent")
        api.answers[2].set_exception(ConnectionLost("gone"))
        await turns_of_the_loop()
        report(engine, reporter, pod, "third")
        await eventually(lambda: api.messages() == ["first", "second", "third", "third"], "once more")
        api.answers[3].set_result(None)


async def test_a_binding_waits_for_the_patch_that_is_under_way() -> None:
    """Otherwise a pod that runs could say that it is not scheduled."""
    api = SlowApi()
    async with started(Engine(api)) as engine:
        engine.add_pod("p", cpu="1")
        await eventually(lambda: len(api.answers) == 1, "no node: the condition is sent")
        engine.add_node("n1", cpu="2")
        await eventually(lambda: engine.state.is_assumed("p-uid"), "it has a node")
        await turns_of_the_loop()
        assert not api.bindings
        api.answers[0].set_result(None)
        await eventually(lambda: bool(api.bindings), "bound")
        assert len(api.patches) == 1


async def test_what_was_not_sent_before_a_pod_is_bound_is_dropped_and_written_if_that_fails() -> None:
    api = SlowApi()
    async with first_under_way(api) as (engine, pod, reporter):
        report(engine, reporter, pod, "second")
        settled = asyncio.ensure_future(reporter.settle(pod.uid))
        await turns_of_the_loop()
        assert not settled.done()
        api.answers[0].set_result(None)
        await asyncio.wait_for(settled, 3)
        await turns_of_the_loop()
        assert api.messages() == ["first"]
        report(engine, reporter, pod, "second")
        await eventually(lambda: api.messages() == ["first", "second"], "the binding failed")
        api.answers[1].set_result(None)
        report(engine, reporter, pod, "third")
        reporter.forget(pod.uid)
        await turns_of_the_loop()
        assert api.messages() == ["first", "second"]


async def test_a_nomination_that_is_given_up_in_its_turn_lets_nobody_overtake_what_is_under_way() -> None:
    api = SlowApi()
    async with first_under_way(api) as (engine, pod, reporter):
        nomination = asyncio.ensure_future(reporter.nominate(engine.handle, pod, "n1", lambda: True))
        await turns_of_the_loop()
        nomination.cancel()
        await turns_of_the_loop()
        report(engine, reporter, pod, "second")
        await turns_of_the_loop()
        assert api.messages() == ["first"]
        api.answers[0].set_result(None)
        await eventually(lambda: api.messages() == ["first", "second"], "in order")
        api.answers[1].set_result(None)
