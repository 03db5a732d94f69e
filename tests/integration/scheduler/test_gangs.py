"""Gangs on a real API server: all or none, also with a rival, and when the daemon dies in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.conformance.apiclient import Api
from tests.conformance.controlplane import ControlPlane
from tests.integration.scheduler.gangs import Cluster, daemon_running

pytestmark = [pytest.mark.integration]


@pytest.fixture
async def cluster(plane: ControlPlane, request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    api = Api(plane)
    stage = Cluster(api, f"ns-{abs(hash(request.node.name)) % 10**9}")
    await stage.prepare()
    yield stage
    await stage.clear()
    await api.close()


async def test_without_the_kind_everything_else_is_scheduled_and_the_gang_when_it_comes(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    await cluster.node("n1", 8)
    with daemon_running(plane, tmp_path):
        await cluster.pods("g", 2)
        await cluster.pods("alone", 2, label=False)

        async def others() -> bool:
            return await cluster.bound() == 2

        async def reported() -> bool:
            return f"pod group {cluster.namespace}/g does not exist" in await cluster.message("g-1")

        await cluster.until(others, "pods without a group")
        await cluster.until(reported, "the reason")
        await cluster.create_kind()
        await cluster.group("g", 2)

        async def everybody() -> bool:
            return await cluster.bound() == 4

        await cluster.until(everybody, "the gang", 90)


async def test_a_gang_of_ten_on_room_for_nine_holds_nothing_until_there_is_room_for_ten(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    for number in range(3):
        await cluster.node(f"n{number}", 3)
    with daemon_running(plane, tmp_path):
        await cluster.group("g", 10)
        await cluster.pods("g", 10)
        expected = (
            f"pod group {cluster.namespace}/g: 9 of 10 members fit, minMember is 10: "
            "0/3 nodes are available: 3 Insufficient cpu."
        )

        async def reported() -> bool:
            return all([await cluster.message(f"g-{number}") == expected for number in range(10)])

        await cluster.until(reported, "the reason, for every member")
        assert await cluster.bound() == 0
        # Nothing is held: others get all of the room.
        await cluster.pods("alone", 9, label=False)

        async def full() -> bool:
            return await cluster.bound() == 9

        await cluster.until(full, "nine others")
        await cluster.node("n9", 10)

        async def everybody() -> bool:
            return await cluster.bound("g") == 10

        await cluster.until(everybody, "the gang")


async def test_of_two_gangs_for_one_room_one_runs_and_then_the_other(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    for number in range(2):
        await cluster.node(f"n{number}", 3)
    with daemon_running(plane, tmp_path, profiles=("gangs", "others")):
        for group in ("a", "b"):
            await cluster.group(group, 5)
        # Both at the same time, each of a profile of its own.
        await asyncio.gather(cluster.pods("a", 5, scheduler="gangs"), cluster.pods("b", 5, scheduler="others"))
        seen: set[tuple[int, int]] = set()

        async def one_runs() -> bool:
            seen.add((await cluster.bound("a"), await cluster.bound("b")))
            return any(5 in counts for counts in seen)

        await cluster.until(one_runs, "one of them")
        await asyncio.sleep(2)
        await one_runs()
        assert all(0 in counts for counts in seen), seen
        first, second = ("a", "b") if await cluster.bound("a") else ("b", "a")
        await cluster.finish(first)

        async def other_runs() -> bool:
            return await cluster.bound(second) == 5

        await cluster.until(other_runs, "the other")
        assert await cluster.bound(first) == 0


@pytest.mark.slow
async def test_a_daemon_killed_in_the_middle_of_a_gangs_bindings_completes_it_when_it_is_back(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    for number in range(2):
        await cluster.node(f"n{number}", 12)
    with daemon_running(plane, tmp_path, qps=4) as daemon:
        await cluster.group("g", 20)
        await cluster.pods("g", 20)

        async def some() -> bool:
            return await cluster.bound("g") > 0

        await cluster.until(some, "the first of them")
        daemon.kill()
        bound = await cluster.bound("g")
        assert 0 < bound < 20
        # More important work is there as well: it must not take what the gang lacks.
        await cluster.pods("alone", 6, label=False)
        daemon.start()

        async def everybody() -> bool:
            return await cluster.bound("g") == 20

        await cluster.until(everybody, "the gang")
        assert f"pod group {cluster.namespace}/g" in daemon.log


async def test_a_gang_killed_half_bound_in_a_rack_is_completed_there_and_later_members_wait_for_it(
    plane: ControlPlane, cluster: Cluster, tmp_path: Path
) -> None:
    """The new process knows of the rack by the members that are bound alone; the other rack has room for all."""
    for number in range(3):
        await cluster.node(f"small-{number}", 4, rack="small")
        await cluster.node(f"large-{number}", 9, rack="large")
    with daemon_running(plane, tmp_path, qps=4) as daemon:
        await cluster.group("g", 12, {"secondary-scheduler.io/topology-required": "rack"})
        await cluster.pods("g", 12)

        async def some() -> bool:
            return await cluster.bound("g") > 0

        await cluster.until(some, "the first of them")
        daemon.kill()
        assert 0 < await cluster.bound("g") < 12
        daemon.start()

        async def everybody() -> bool:
            return await cluster.bound("g") == 12

        await cluster.until(everybody, "the gang")
        assert {node.partition("-")[0] for node in await cluster.nodes("g")} == {"small"}
        await cluster.member("late", "g")

        async def refused() -> bool:
            return "in rack=small" in await cluster.message("late")

        await cluster.until(refused, "why the late member has no node")
