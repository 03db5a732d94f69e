"""Bindings whose outcome is in doubt, and bindings that fail in a way that nobody planned for.

A pod keeps its node, and its room there, until it is certain where it is. On the real API server:
tests/integration/scheduler/test_bindings.py.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from scheduler.engine.binding import LANDING_SECONDS, SLOW_SECONDS
from scheduler.engine.cycle import MAX_BINDING, MAX_SLOW_BINDINGS
from scheduler.framework import SUCCESS, Code, CycleState, PodInfo, Status
from scheduler.kube.client import ConnectionLost, ResponseTooLarge
from tests.unit.scheduler.engine.fakes import Engine, FakeApi, eventually
from tests.unit.scheduler.engine.test_cycle import refused

LOGIN_PAGE = b"<!DOCTYPE html><html><body>Log in. Success!</body></html>"


class Doubtful(FakeApi):
    """Answers Bindings with `answers` and reads with `reads`, as long as there are any; None is an ordinary answer.

    A binding can be held back by name until `release`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[bytes | Exception | None] = []
        self.reads: list[bytes | Exception | None] = []
        self.attempts: list[tuple[str, str]] = []
        self.prepaid: list[bool] = []
        self.held: set[str] = set()
        self.release = asyncio.Event()

    async def post(
        self, path: str, body: Any, allowed: Callable[[], bool] = lambda: True, prepaid: bool = False
    ) -> bytes:
        if path.endswith("/binding"):
            name = body["metadata"]["name"]
            self.attempts.append((name, body["target"]["name"]))
            self.prepaid.append(prepaid)
            if name in self.held:
                await self.release.wait()
            answer = self.answers.pop(0) if self.answers else None
            if isinstance(answer, Exception):
                raise answer
            if answer is not None:
                return answer
        return await super().post(path, body)

    async def get(self, path: str) -> bytes:
        answer = self.reads.pop(0) if self.reads else None
        if isinstance(answer, Exception):
            raise answer
        return answer if answer is not None else await super().get(path)


@pytest.fixture
def api(engine: Engine) -> Doubtful:
    api = Doubtful()
    for handle in engine.handles.values():
        handle._binder._client = api  # type: ignore[assignment] -- the fixture's engine has a plain one
    return api


def rejected(engine: Engine, name: str) -> bool:
    """Whether a pod was tried and found no room."""
    return any(path.endswith(f"/pods/{name}/status") for path, _ in engine.api.patches)


async def test_a_binding_without_an_answer_is_written_again_to_the_same_node(engine: Engine, api: Doubtful) -> None:
    api.answers = [ConnectionLost("timed out")]
    api.show("p")
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: bool(api.bindings), "bound")
    assert api.attempts == [("p", "n1")] * 2
    assert not api.prepaid[1], "the repetition waits for its turn"
    assert not rejected(engine, "p")
    assert engine.metrics.bindings.labels("unknown").value == 1


async def test_room_stays_taken_as_long_as_a_request_may_be_carried_out(engine: Engine, api: Doubtful) -> None:
    """Neither request has an answer, and nothing is seen of them: they may both still be under way."""
    api.answers = [ConnectionLost("timed out")] + [refused(403, "no")] * 20
    api.show("slow")
    engine.add_node("n1", cpu="1")
    engine.add_pod("slow", cpu="700m")
    await eventually(lambda: len(api.attempts) > 1, "the first request has timed out")
    engine.add_pod("rival", cpu="700m")
    started = asyncio.get_running_loop().time()
    await eventually(lambda: rejected(engine, "rival"), "no room for another")
    await eventually(lambda: rejected(engine, "slow"), "it is given up", LANDING_SECONDS + 20)
    api.answers.clear()
    assert asyncio.get_running_loop().time() - started > LANDING_SECONDS - 5
    await eventually(lambda: len(api.bindings) == 1, "its room is free again", 20)


@pytest.mark.parametrize(
    "failure",
    [refused(409, "etcdserver: request timed out"), refused(408, "slow"), ResponseTooLarge("too large"), OSError("x")],
    ids=["etcd did not answer", "proxy", "answer too large", "unexpected"],
)
async def test_whatever_leaves_the_outcome_open_keeps_the_node(
    engine: Engine, api: Doubtful, failure: Exception
) -> None:
    if isinstance(failure, ResponseTooLarge):
        failure.outcome_unknown = True
    api.answers = [failure]
    api.show("p")
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: bool(api.bindings), "bound")
    assert api.attempts == [("p", "n1")] * 2
    assert not rejected(engine, "p")


async def test_a_webhook_that_fails_has_refused_the_binding(engine: Engine, api: Doubtful) -> None:
    message = 'Internal error occurred: failed calling webhook "w.example.com": connection refused'
    api.answers = [refused(500, message)]
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: rejected(engine, "p"), "the reason is written at once")
    assert "failed calling webhook" in engine.api.patches[0][1]["status"]["conditions"][0]["message"]
    assert not engine.state.is_assumed("p-uid")


async def test_a_binding_is_repeated_for_as_long_as_a_short_outage_lasts(engine: Engine, api: Doubtful) -> None:
    api.answers = [refused(503, "unavailable")] * 9
    api.show("p")
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: bool(api.bindings), "bound", LANDING_SECONDS)
    assert not rejected(engine, "p")


@pytest.mark.parametrize("page", [LOGIN_PAGE, b"", b'{"error": "log in"}', b"[]"])
async def test_an_answer_that_is_not_the_api_servers_is_no_binding(engine: Engine, api: Doubtful, page: bytes) -> None:
    api.answers = [page]
    api.show("p")
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: bool(api.bindings), "bound after all")
    assert api.attempts == [("p", "n1")] * 2


@pytest.mark.parametrize("page", [LOGIN_PAGE, b"", b'{"error": "log in"}', b"[]", b'{"metadata": 7}'])
async def test_a_pod_read_as_something_else_is_read_again(engine: Engine, api: Doubtful, page: bytes) -> None:
    api.answers, api.reads = [ConnectionLost("reset")], [page] * 3
    api.show("p", node="n1")
    engine.add_node("n1", cpu="1")
    engine.add_pod("p", cpu="700m")
    await eventually(lambda: engine.api.events != [], "known to be bound")
    assert engine.api.events[0]["reason"] == "Scheduled"
    assert api.attempts == [("p", "n1")]


async def test_a_read_that_is_forbidden_does_not_end_the_assumption(engine: Engine, api: Doubtful) -> None:
    api.answers = [ConnectionLost("reset"), *[refused(403, "bindings are forbidden")] * 20]
    api.reads = [refused(403, "pods are forbidden")] * 12
    api.show("p", node="n1")
    engine.add_node("n1", cpu="1")
    engine.add_pod("p", cpu="700m")
    await eventually(lambda: len(api.reads) < 9, "forbidden again and again", 60)
    assert engine.state.is_assumed("p-uid")
    engine.add_pod("rival", cpu="700m")
    await eventually(lambda: rejected(engine, "rival"), "no room for another")
    await eventually(lambda: "Scheduled" in [event["reason"] for event in engine.api.events], "it can be read", 120)


async def test_the_watch_answers_where_reads_are_forbidden(engine: Engine, api: Doubtful) -> None:
    api.answers = [ConnectionLost("reset"), *[refused(403, "bindings are forbidden")] * 20]
    api.reads = [refused(403, "pods are forbidden")] * 1000
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: len(api.reads) < 1000, "forbidden")
    engine.add_pod("p", node="n1", rv="2")
    await eventually(lambda: bool(engine.api.events), "bound, says the watch", 20)
    assert engine.api.events[0]["reason"] == "Scheduled"


async def test_a_pod_is_not_bound_again_to_a_node_that_is_gone(engine: Engine, api: Doubtful) -> None:
    api.answers, api.reads = [ConnectionLost("reset")], [refused(500, "etcdserver: no leader")] * 2
    api.show("p")
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: len(api.reads) < 2, "in doubt")
    engine.nodes.replace([], resource_version=None)  # type: ignore[arg-type] -- not looked at
    await eventually(lambda: rejected(engine, "p"), "given up", LANDING_SECONDS + 20)
    assert api.attempts == [("p", "n1")]


async def test_a_pod_that_is_being_deleted_needs_no_waiting(engine: Engine, api: Doubtful) -> None:
    api.answers = [ConnectionLost("reset")]
    api.pods["p"] = {"metadata": {"uid": "p-uid", "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    engine.add_node("n1")
    engine.add_pod("p")
    await eventually(lambda: rejected(engine, "p"), "given up at once")
    assert not engine.state.is_assumed("p-uid")


async def test_other_pods_do_not_wait_for_bindings_that_hang(engine: Engine, api: Doubtful) -> None:
    stuck = [f"stuck-{number}" for number in range(MAX_BINDING + MAX_SLOW_BINDINGS)]
    api.held = set(stuck[:MAX_BINDING])
    for number in range(4):
        engine.add_node(f"n{number}", cpu="100")
    for name in stuck[:MAX_BINDING]:
        engine.add_pod(name)
    await eventually(lambda: len(api.attempts) == MAX_BINDING, "all under way")
    engine.add_pod("quick")
    await asyncio.sleep(1)
    assert not api.bindings
    await eventually(lambda: bool(api.bindings), "the other pod is bound", SLOW_SECONDS + 2)
    assert [name for name, _, _ in api.bindings] == ["quick"]
    api.release.set()


class Broken:
    """A plugin that raises as long as there is an error left, at any point."""

    name = "Broken"

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        return self._answer()

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        self._answer()
        return Status(Code.SKIP)

    def reserve(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        return self._answer()

    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status, float]:
        return self._answer(), 0.0

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> None:
        raise ValueError("cannot undo")

    def _answer(self) -> Status:
        if self.errors:
            raise self.errors.pop()
        return SUCCESS


@pytest.mark.parametrize(
    ("point", "error"),
    [
        ("pre_bind", ValueError("a defect")),
        ("pre_bind", asyncio.CancelledError()),
        ("bind", ValueError("a defect")),
        ("bind", asyncio.CancelledError()),
        ("reserve", ValueError("a defect")),
        ("permit", ValueError("a defect")),
    ],
)
async def test_a_plugin_that_raises_costs_its_pod_one_attempt(engine: Engine, point: str, error: BaseException) -> None:
    runner = next(iter(engine.runners.values()))
    setattr(runner, point, (Broken(error), *getattr(runner, point)))
    engine.add_node("n1", cpu="1")
    engine.add_pod("p", cpu="700m")
    await eventually(lambda: rejected(engine, "p"), "the reason is written")
    assert engine.api.patches[0][1]["status"]["conditions"][0]["reason"] == "SchedulerError"
    await eventually(lambda: bool(engine.api.bindings), "tried again")
    assert engine.state.pod_count == 1


async def test_a_plugin_that_cannot_undo_does_not_keep_the_room(engine: Engine) -> None:
    runner = next(iter(engine.runners.values()))
    runner.reserve = (*runner.reserve, Broken())
    engine.api.failures = [refused(403, "not now")]
    engine.add_node("n1", cpu="1")
    engine.add_pod("p", cpu="700m")
    await eventually(lambda: bool(engine.api.bindings), "tried again with its room back")


async def test_a_decision_that_raises_costs_its_pod_one_attempt(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = engine.cycle._attempts
    decide = attempts.decide

    def fail(snapshot: Any, pod: PodInfo) -> Any:
        if pod.name == "odd":
            raise RuntimeError("a defect")
        return decide(snapshot, pod)

    monkeypatch.setattr(attempts, "decide", fail)
    engine.add_node("n1")
    engine.add_pod("odd")
    engine.add_pod("p")
    await eventually(lambda: bool(engine.api.bindings), "other pods go on")
    assert "RuntimeError: a defect" in json.dumps(engine.api.patches)
    monkeypatch.setattr(attempts, "decide", decide)
    await eventually(lambda: len(engine.api.bindings) == 2, "it comes back")
