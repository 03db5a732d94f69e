"""Faults of the cluster around the scheduler: 28, 29, 30, 34, 35."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.faults.proxy import Hold, Rule
from tests.faults.scenarios.registry import scenario
from tests.faults.stage import GANGS, Stage, names

_BIND: dict[str, Any] = {"verb": "create", "resource": "pods/binding"}


@scenario(29, "a node that goes with assumed pods on it leaves nothing behind", quick=True)
async def node_removed_with_assumed_pods(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes("n1", cpu="1")
    hold = Hold()
    scheduler.proxy.add(Rule(hold, **_BIND, times=2))
    await stage.pods("p", "q", cpu="500m")
    await hold.first()
    await stage.api.delete(stage.node_item("n1"))
    await asyncio.sleep(0.3)
    await stage.nodes("n1", cpu="1")
    hold.release()
    stage.figures["recover_seconds"] = await stage.bound()
    # Its room is given to exactly as many as fit.
    await stage.pods("more", cpu="500m")
    # The Bindings were decided for the node that was there before.
    stage.expected.staleness = 20


@scenario(29, "a node that flaps is counted once")
async def node_flaps(stage: Stage) -> None:
    await stage.scheduler()
    stage.expected.staleness = 20
    await stage.nodes("n0", cpu="400m")
    for number in range(10):
        await stage.nodes("flapping", cpu="1")
        await stage.pods(f"p{number}", cpu="400m", tolerations=[{"operator": "Exists"}])
        await asyncio.sleep(stage.random.uniform(0, 0.2))
        await stage.api.delete(stage.node_item("flapping"))
    await stage.nodes("last", cpu="4")
    await stage.bound()


@scenario(30, "a node that has less than it gave away is closed for that resource only", quick=True)
async def allocatable_below_used(stage: Stage) -> None:
    await stage.scheduler()
    await stage.nodes("n1", cpu="2")
    await stage.pods(*names("p", 3), cpu="600m")
    await stage.bound()
    await stage.resize_node("n1", "1")
    await asyncio.sleep(0.5)
    await stage.pods("needs-cpu", cpu="100m")
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"memory": "64Mi"}}}]
    await stage.pods("needs-memory", containers=containers)
    stage.figures["recover_seconds"] = await stage.bound("needs-memory")
    await asyncio.sleep(1)
    assert not (await stage.where())["needs-cpu"]
    await stage.resize_node("n1", "2")
    await stage.bound("needs-cpu")


@scenario(34, "two gangs for one room: one of them is whole, and others are not held up", quick=True)
async def two_gangs_for_one_room(stage: Stage) -> None:
    await stage.scheduler(profile=GANGS)
    await stage.nodes("n1", "n2", cpu="1")
    await stage.gang("red", 4, cpu="500m")
    await stage.gang("blue", 4, cpu="500m")
    await asyncio.sleep(3)
    nodes = await stage.where()
    count = {name: sum(bool(node) for pod, node in nodes.items() if pod.startswith(name)) for name in ("red", "blue")}
    assert sorted(count.values()) == [0, 4], count
    await stage.nodes("n3", "n4", cpu="1")
    stage.figures["recover_seconds"] = await stage.bound()


@scenario(34, "a gang whose last member never fits is not bound in part, and holds up nobody", quick=True)
async def gang_that_never_fits(stage: Stage) -> None:
    await stage.scheduler(profile=GANGS)
    await stage.nodes("n1", cpu="1")
    await stage.gang("large", 3, cpu="400m")
    await stage.pods("single", cpu="400m")
    stage.figures["recover_seconds"] = await stage.bound("single")
    await asyncio.sleep(2)
    nodes = await stage.where()
    assert not any(node for name, node in nodes.items() if name.startswith("large"))
    await stage.nodes("n2", cpu="1")
    await stage.bound()
