"""What the rebalancer sends to the API server, and what it makes of the answers."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from scheduler.framework import PodInfo
from scheduler.helpers import PodReducer
from scheduler.kube.client import ConnectionLost, WriteWithheld
from scheduler.kube.client.errors import api_error
from secondary_scheduler.rebalancer.live import LiveAccess, RebalancerPlaces
from secondary_scheduler.rebalancer.rounds import StatusDeleted
from secondary_scheduler.rebalancer.status import Mode, RebalancingCondition, RoundReport
from secondary_scheduler.rebalancing import MOVABLE_PODS, EvictionReply, History, Memory, PastMove, decode_memory
from tests.support.rebalancing import running

EVICTION = "/api/v1/namespaces/default/pods/web/eviction"
STATUS = "/api/v1/namespaces/own/configmaps/rebalancer"


class FakeClient:
    """Answers with what it was given; keeps what it was sent."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.sent: list[tuple[str, Any, dict[str, Any]]] = []

    async def post(self, path: str, body: Any, **options: Any) -> bytes:
        self.sent.append((path, body, options))
        return self._answer("post")

    async def patch(self, path: str, body: Any, params: Any, **options: Any) -> bytes:
        self.sent.append((path, body, {**options, "params": params}))
        return self._answer("patch")

    async def get(self, path: str, params: Any = None, **options: Any) -> bytes:
        return self._answer("get")

    def _answer(self, verb: str) -> bytes:
        answer = self.answers.get(verb, b"{}")
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()


def world(**answers: Any) -> tuple[LiveAccess, FakeClient]:
    client: Any = FakeClient(**answers)
    nothing: Any = None
    places = RebalancerPlaces("own", "rebalancer", ("own", "mine"))
    return LiveAccess(client, nothing, nothing, nothing, places, "hash", lambda: True, nothing), client


def pod() -> PodInfo:
    return PodReducer().reduce(MOVABLE_PODS.decode(msgspec.json.encode(running("web", "n0"))))


def status(code: int, message: str) -> Exception:
    return api_error("POST", EVICTION, code, json.dumps({"kind": "Status", "message": message}).encode())


@pytest.mark.parametrize("dry_run", [True, False])
async def test_an_eviction_is_for_one_uid_and_is_not_repeated(dry_run: bool) -> None:
    live, client = world()
    answered = await live.evict(pod(), dry_run=dry_run)
    assert answered.answer is EvictionReply.EVICTED
    ((path, body, options),) = client.sent
    assert path == EVICTION
    assert body["deleteOptions"]["preconditions"] == {"uid": "uid-web"}
    assert body["deleteOptions"].get("dryRun") == (["All"] if dry_run else None)
    assert (options["repeat"], options["timeout"]) == (False, 35.0)
    assert options["allowed"]()


@pytest.mark.parametrize(
    ("error", "answer"),
    [
        (status(429, "Cannot evict pod as it would violate the pod's disruption budget."), EvictionReply.REFUSED),
        (status(429, "Eviction triggered evacuation of VMI"), EvictionReply.EVACUATING),
        (status(500, "This pod has more than one PodDisruptionBudget"), EvictionReply.REFUSED),
        (status(409, "the UID in the precondition does not match"), EvictionReply.GONE),
        (status(404, "not found"), EvictionReply.GONE),
        (status(504, "timeout"), EvictionReply.FAILED),
        (ConnectionLost("POST: connection lost"), EvictionReply.FAILED),
        (WriteWithheld("not sent"), EvictionReply.FAILED),
    ],
)
async def test_each_answer_has_a_meaning(error: Exception, answer: EvictionReply) -> None:
    live, _ = world(post=error)
    answered = await live.evict(pod(), dry_run=False)
    assert answered.answer is answer
    assert answered.message


MEMORY = Memory(History(moves=(PastMove(("Deployment", "a", "b"), "a/p", "u", "n0", "n1", 1.0),)), 5.0)


def report() -> RoundReport:
    return RoundReport(Mode.AUTOMATIC, Mode.AUTOMATIC, RebalancingCondition(True, "Automatic", "", 0.0))


async def test_what_is_written_can_be_read_again() -> None:
    live, client = world(patch={"metadata": {"uid": "1"}})
    assert await live.save(MEMORY, report()) == ""
    ((path, body, _),) = client.sent
    assert path == STATUS
    shown = json.loads(body["data"]["status.json"])
    assert [move["pod"] for move in shown["moves"]] == ["a/p"]
    reading, _ = world(get={"metadata": {"uid": "1"}, "data": body["data"]})
    assert repr(await reading.read_memory()) == repr(decode_memory(body["data"]["memory.json"]))


async def test_a_status_that_somebody_deleted_is_noticed_once() -> None:
    live, client = world(patch={"metadata": {"uid": "1"}})
    await live.save(MEMORY, report())
    client.answers["patch"] = api_error("PATCH", STATUS, 409, b"")
    with pytest.raises(StatusDeleted):
        await live.save(MEMORY, report())
    client.answers["patch"] = {"metadata": {"uid": "2"}}
    assert await live.save(MEMORY, report()) == ""
    assert "uid" not in client.sent[-1][1]["metadata"]


async def test_a_status_that_may_not_be_written_says_why() -> None:
    live, _ = world(patch=api_error("PATCH", STATUS, 403, b'{"kind": "Status", "message": "forbidden"}'))
    assert "forbidden" in await live.save(MEMORY, report())


@pytest.mark.parametrize(
    "content", [{}, {"data": 7}, {"data": {"memory.json": "{"}}, {"data": {"memory.json": 1}}, [], "text"]
)
async def test_a_memory_that_cannot_be_read_is_a_new_one(content: Any) -> None:
    live, _ = world(get=content)
    assert await live.read_memory() == Memory()


async def test_without_a_status_it_begins_anew() -> None:
    live, _ = world(get=api_error("GET", STATUS, 404, b""))
    assert (await live.read_memory()).history.moves == ()


async def test_the_first_status_that_meets_another_says_why_and_is_no_deletion() -> None:
    live, _ = world(patch=api_error("PATCH", STATUS, 409, b'{"kind": "Status", "message": "another manager"}'))
    assert "another manager" in await live.save(MEMORY, report())


async def test_a_status_is_applied_as_the_rebalancers_while_it_leads() -> None:
    live, client = world(patch={"metadata": {"uid": "1"}})
    await live.save(MEMORY, report())
    await live.save(MEMORY, report())
    (_, first, options), (_, second, _) = client.sent
    assert options["content_type"] == "application/apply-patch+yaml"
    assert options["params"] == {"fieldManager": "secondary-scheduler-rebalancer", "force": "true"}
    assert options["allowed"]()
    metadata: dict[str, Any] = {"name": "rebalancer", "namespace": "own"}
    metadata |= {"labels": {"app.kubernetes.io/managed-by": "secondary-scheduler-rebalancer"}}
    assert (first["apiVersion"], first["kind"], first["metadata"]) == ("v1", "ConfigMap", metadata)
    assert second["metadata"] == {**metadata, "uid": "1"}
