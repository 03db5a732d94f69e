"""Pods on nodes that cannot be read: they keep their room by what can be read, else their node gets no more pods."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import structlog

from tests.unit.scheduler.engine.fakes import eventually
from tests.unit.scheduler.engine.test_hostile import Daemon

Json = dict[str, Any]


def running(name: str, cpu: str, **fields: Any) -> Json:
    """A pod on node n1, as the API server shows it."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"{name}-uid", "resourceVersion": "7"},
        "spec": {"nodeName": "n1", "schedulerName": "secondary-scheduler", "containers": [container], **fields},
        "status": {"phase": "Running"},
    }


def with_amount_of_nonsense(pod: Json) -> Json:
    """It decodes, but an amount cannot be read."""
    spoilt = copy.deepcopy(pod)
    spoilt["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "plenty"
    return spoilt


def with_containers_of_nonsense(pod: Json) -> Json:
    """It does not even decode."""
    return pod | {"spec": pod["spec"] | {"containers": "some"}}


def with_limit_of_nonsense(pod: Json) -> Json:
    """What it requests can be read, its limits cannot."""
    spoilt = copy.deepcopy(pod)
    spoilt["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "plenty"}
    return spoilt


def with_priority_of_nonsense(pod: Json) -> Json:
    """It does not decode, but what it requests can be read."""
    return pod | {"spec": pod["spec"] | {"priority": "high"}}


UNKNOWN_REQUESTS = pytest.mark.parametrize("spoil", [with_amount_of_nonsense, with_containers_of_nonsense])
KNOWN_REQUESTS = pytest.mark.parametrize("spoil", [with_limit_of_nonsense, with_priority_of_nonsense])
ANY_NONSENSE = pytest.mark.parametrize(
    "spoil",
    [with_amount_of_nonsense, with_containers_of_nonsense, with_limit_of_nonsense, with_priority_of_nonsense],
)
Spoil = Callable[[Json], Json]


def deliver(daemon: Daemon, pod: Json, change: str = "ADDED") -> bool:
    """Deliver an event of a new version; false when the pod couldnot be fully decoded."""
    daemon.version += 1
    metadata = pod["metadata"] | {"resourceVersion": str(daemon.version)}
    return daemon.deliver("Pod", pod | {"metadata": metadata}, change)


@pytest.fixture
async def daemon() -> AsyncIterator[Daemon]:
    daemon = Daemon()
    daemon.engine.recorder.start()
    task = asyncio.create_task(daemon.engine.cycle.run())
    daemon.engine.add_node("n1", cpu="1")
    yield daemon
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await daemon.engine.recorder.drain(1)


async def rejected(daemon: Daemon, name: str, cpu: str = "600m") -> None:
    """Add a pod, which must find no room."""
    daemon.engine.add_pod(name, cpu=cpu)
    await eventually(lambda: name in daemon.reasons() or name in daemon.bound(), "a decision")
    assert name not in daemon.bound()


async def bound(daemon: Daemon, name: str) -> None:
    await eventually(lambda: daemon.bound().get(name) == "n1", f"{name} is bound")


@ANY_NONSENSE
async def test_a_running_pod_that_a_relist_cannot_read_keeps_its_room(daemon: Daemon, spoil: Spoil) -> None:
    full = running("full", "700m")
    await daemon.relist_pods([full])
    await daemon.relist_pods([spoil(full)])
    await rejected(daemon, "second")


@ANY_NONSENSE
async def test_a_running_pod_that_becomes_unreadable_and_is_deleted_gives_its_room_back(
    daemon: Daemon, spoil: Spoil
) -> None:
    full = running("full", "700m")
    deliver(daemon, full)
    await rejected(daemon, "second")
    assert not deliver(daemon, spoil(full), "MODIFIED")
    assert not deliver(daemon, spoil(full), "DELETED")
    await bound(daemon, "second")


@ANY_NONSENSE
async def test_and_so_does_one_that_ended(daemon: Daemon, spoil: Spoil) -> None:
    full = running("full", "700m")
    deliver(daemon, full)
    await rejected(daemon, "second")
    deliver(daemon, spoil(full) | {"status": {"phase": "Succeeded"}}, "MODIFIED")
    await bound(daemon, "second")


@KNOWN_REQUESTS
async def test_a_pod_whose_requests_can_be_read_is_counted(daemon: Daemon, spoil: Spoil) -> None:
    deliver(daemon, spoil(running("first", "700m")))
    await rejected(daemon, "large")
    daemon.engine.add_pod("small", cpu="300m")
    await bound(daemon, "small")


@UNKNOWN_REQUESTS
async def test_a_node_with_a_pod_of_unknown_requests_gets_no_pods_until_it_can_be_read(
    daemon: Daemon, spoil: Spoil
) -> None:
    tiny = running("tiny", "1m")
    deliver(daemon, spoil(tiny))
    await rejected(daemon, "second")
    await rejected(daemon, "asks-for-nothing", cpu="0")
    deliver(daemon, tiny, "MODIFIED")
    await bound(daemon, "second")


@UNKNOWN_REQUESTS
async def test_or_until_it_is_gone(daemon: Daemon, spoil: Spoil) -> None:
    tiny = spoil(running("tiny", "1m"))
    await daemon.relist_pods([tiny, spoil(running("other", "1m"))])
    await rejected(daemon, "second")
    deliver(daemon, tiny, "DELETED")
    await asyncio.sleep(1)
    assert daemon.bound() == {}
    await daemon.relist_pods([], keep=["second"])
    await bound(daemon, "second")


@UNKNOWN_REQUESTS
async def test_a_node_that_comes_or_changes_later_is_closed_as_well(daemon: Daemon, spoil: Spoil) -> None:
    tiny = spoil(running("tiny", "1m") | {"spec": running("tiny", "1m")["spec"] | {"nodeName": "n2"}})
    await daemon.relist_pods([running("full", "1"), tiny])
    daemon.engine.add_node("n2", cpu="4")
    await rejected(daemon, "second")
    daemon.engine.add_node("n2", cpu="8", labels={"changed": "yes"})
    await asyncio.sleep(1)
    assert daemon.bound() == {}
    deliver(daemon, tiny, "DELETED")
    await eventually(lambda: daemon.bound().get("second") == "n2", "the node is open")


@UNKNOWN_REQUESTS
async def test_the_pod_is_named_once_and_counted(daemon: Daemon, spoil: Spoil) -> None:
    tiny = spoil(running("tiny", "1m"))
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            deliver(daemon, tiny, "MODIFIED")
    named = [line for line in lines if line.get("pod") == "ns/tiny"]
    assert [line["node"] for line in named] == ["n1"]
    gauge = daemon.engine.metrics.unreadable_pods
    assert gauge.labels("node closed")._value.get() == 1
    deliver(daemon, tiny, "DELETED")
    assert gauge.labels("node closed")._value.get() == 0


async def test_a_waiting_pod_that_cannot_be_read_is_left_out(daemon: Daemon) -> None:
    waiting = running("waits", "1m")
    del waiting["spec"]["nodeName"]
    assert not deliver(daemon, with_amount_of_nonsense(waiting))
    daemon.engine.add_pod("beside", cpu="1")
    await bound(daemon, "beside")
    assert list(daemon.bound()) == ["beside"]
