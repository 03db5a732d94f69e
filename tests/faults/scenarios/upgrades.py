"""A cluster that is changed under its schedulers: 56, a namespace goes; 59, the API server becomes another minor."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from typing import Any

from devcluster.releases import DEFAULT
from tests.conformance.apiclient import ApiError
from tests.faults.oracle import Violation
from tests.faults.plane import API_SERVER, CONTROLLER_MANAGER, SECOND_API_SERVER
from tests.faults.scenarios.load import said_of
from tests.faults.scenarios.registry import scaled, scenario
from tests.faults.stage import GANGS, Stage, eventually, names

Json = dict[str, Any]
_NAMESPACES = "/api/v1/namespaces"
_LATER = "1.36"


# 56 ------------------------------------------------------------------------------------------------------------------


async def _make_elsewhere(stage: Stage, namespace: str, count: int) -> None:
    """Pods of ours in another namespace, which end at once where they run."""
    at_once = asyncio.Semaphore(12)
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]
    spec = {"schedulerName": stage.namespace, "containers": containers, "terminationGracePeriodSeconds": 0}

    async def make(name: str) -> None:
        async with at_once:
            metadata = {"name": name, "namespace": namespace}
            await stage.api.create({"kind": "Pod", "metadata": metadata, "spec": spec})

    await asyncio.gather(*map(make, names("doomed", count)))


@scenario(56, "a namespace of 1,000 pods that wait is deleted: nothing of it is left, and others flow", disruptive=True)
async def namespace_of_waiting_pods_deleted(stage: Stage) -> None:
    count, doomed = scaled(1000), f"{stage.namespace}-doomed"
    scheduler = await stage.scheduler()
    # A line for each refused Binding, of which a pod has some while its namespace ends.
    stage.bounds = replace(stage.bounds, log_bytes=8 << 20)
    await stage.nodes("n1", cpu="1")
    await stage.api.create({"kind": "Namespace", "metadata": {"name": doomed}})
    await _make_elsewhere(stage, doomed, count)
    await eventually(lambda: said_of(scheduler, count), 120)
    stage.plane.controllers = "namespace-controller"
    await asyncio.to_thread(stage.plane.start, CONTROLLER_MANAGER)
    try:
        began = time.monotonic()
        await stage.api.call("DELETE", f"{_NAMESPACES}/{doomed}", {"propagationPolicy": "Background"})
        # There is room for half of them just now: Bindings and Events meet a namespace that ends.
        await stage.nodes(*names("late", 10), cpu=str(count // 10))
        waits = []
        for name in names("beside", 5):
            await stage.pods(name, cpu="100m")
            waits.append(await stage.bound(name, within=10))
        stage.figures["slowest_seconds"] = max(waits)

        async def gone() -> bool:
            with contextlib.suppress(ApiError):
                await stage.api.call("GET", f"{_NAMESPACES}/{doomed}")
                return False
            return True

        await eventually(gone, 120)
        stage.figures["gone_seconds"] = time.monotonic() - began
    finally:
        await asyncio.to_thread(stage.plane.kill, CONTROLLER_MANAGER)

    waiting = dict[str, int]()

    async def queue_is_empty() -> bool:
        waiting.update((await scheduler.cache())["queue"])
        return not any(waiting.values())

    if scheduler.is_ours:
        try:
            stage.figures["known_seconds"] = await eventually(queue_is_empty, min(15, stage.within))
        except TimeoutError:
            stage.violations.append(Violation("I7", f"pods that are gone wait in the queue: {waiting}"))


# 59 ------------------------------------------------------------------------------------------------------------------


@scenario(
    59, f"an API server that becomes {_LATER} under a pair, and {DEFAULT} again, costs no pod and no leader",
    disruptive=True,
)  # fmt: skip
async def api_server_upgraded(stage: Stage) -> None:
    """As with two API servers: one of the later minor is started beside the old one, clients change over, the old one
    is replaced, clients change back."""
    plane = stage.plane
    pair = await stage.pair(profile=GANGS, lease_seconds=(30, 20, 1))
    first = plane.api_server
    await stage.nodes(*names("n", 4), cpu="4")
    await stage.gang("before", 3)
    await stage.bound()

    def change_over(to: str) -> None:
        for scheduler in pair:
            scheduler.proxy.upstream = to
            scheduler.proxy.reset_all()

    async def pods_flow(label: str) -> None:
        await stage.pods(*names(label, 5), cpu="100m")
        await stage.gang(f"gang-{label}", 3, cpu="100m")
        seconds = await stage.bound(within=60)
        stage.figures["recover_seconds"] = max(seconds, stage.figures.get("recover_seconds", 0.0))

    try:
        await asyncio.to_thread(plane.use_api_server_of, _LATER)
        await asyncio.to_thread(plane.start, SECOND_API_SERVER)
        change_over(plane.second_api_server)
        await pods_flow("at-the-second")
        await asyncio.to_thread(plane.restart, API_SERVER)
        version = await stage.api.call("GET", "/version")
        assert version["gitVersion"].startswith(f"v{_LATER}."), version
        change_over(first)
        await pods_flow("at-the-later")
        plane.kill(SECOND_API_SERVER)
        await pods_flow("with-one")
    finally:
        # Back again, as after an upgrade that was given up; what the later one wrote is read by the older one.
        await asyncio.to_thread(plane.use_api_server_of, DEFAULT)
        await asyncio.to_thread(plane.restart, API_SERVER)
        with contextlib.suppress(ProcessLookupError):
            plane.kill(SECOND_API_SERVER)
        change_over(first)
    await pods_flow("back")
    leader, follower = pair
    assert leader.alive, f"the leader ended: {leader.log[-1500:]}"
    assert follower.alive, f"the follower ended: {follower.log[-1500:]}"
    assert not follower.leads, "a second leader"
