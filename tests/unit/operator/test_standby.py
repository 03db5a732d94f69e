"""Instances that another operator serves are told so by one Event, which disturbs nobody."""

import json

import pytest

from scheduler.kube.client import ConnectionLost, Forbidden
from secondary_scheduler.operator.standby import NOTIFY_AFTER, LeaseHolder, Standby
from tests.unit.operator.builders import NS, scheduler

UPSTREAM = LeaseHolder(f"{NS}/openshift-secondary-scheduler-operator-lock", "upstream-7d9f_0f3c")


class Served:
    """Takes the places of KubeClient and Writer."""

    def __init__(self):
        self.instances = [scheduler()]
        self.refuse = None
        self.lists = 0
        self.events = []

    async def get(self, path):
        self.lists += 1
        if self.refuse is not None:
            raise self.refuse
        return json.dumps({"items": self.instances}).encode()

    async def send_event(self, resource, draft, now):
        self.events.append((resource["metadata"]["uid"], draft))


@pytest.fixture
def served():
    return Served()


@pytest.fixture
def held():
    return {NS: UPSTREAM}


@pytest.fixture
def check(served, held):
    """Passes time, looking every second."""
    standby = Standby(served, served, [NS], held.get)
    seconds = iter(range(10_000))

    async def run(duration):
        for _ in range(int(duration)):
            await standby.check(float(next(seconds)))

    return run


async def test_the_holder_and_its_lease_are_reported_once(served, check):
    await check(NOTIFY_AFTER)
    assert not served.events, "a predecessor that goes is nobody else"
    await check(60)
    ((uid, draft),) = served.events
    assert uid == "cr-uid"
    assert (draft.reason, draft.warning) == ("ServedByAnotherOperator", True)
    assert UPSTREAM.holder in draft.message
    assert UPSTREAM.lease in draft.message


async def test_an_instance_that_comes_later_is_told_too(served, check):
    await check(NOTIFY_AFTER + 5)
    other = scheduler()
    other["metadata"]["uid"] = "another"
    served.instances.append(other)
    await check(12)
    assert [uid for uid, _ in served.events] == ["cr-uid", "another"]


async def test_nothing_is_asked_for_while_nobody_else_holds_the_lease(served, held, check):
    del held[NS]
    await check(100)
    assert served.lists == 0


async def test_a_holder_that_comes_back_or_changes_is_logged_again(served, held, check):
    await check(NOTIFY_AFTER + 2)
    held[NS] = LeaseHolder(UPSTREAM.lease, "another")
    await check(NOTIFY_AFTER + 2)
    del held[NS]
    await check(2)
    held[NS] = UPSTREAM
    await check(NOTIFY_AFTER + 2)
    assert ["another" in draft.message for _, draft in served.events] == [False, True, False]


@pytest.mark.parametrize(
    "error",
    [Forbidden("GET", status=403, reason="Forbidden", message="no"), ConnectionLost("gone")],
    ids=["403", "gone"],
)
async def test_what_cannot_be_reported_now_is_reported_later(served, check, error):
    served.refuse = error
    await check(NOTIFY_AFTER + 5)
    served.refuse = None
    await check(12)
    assert len(served.events) == 1
