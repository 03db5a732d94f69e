"""Faults of the cluster around the scheduler: 28, 29, 30, 31, 34, 35."""

from __future__ import annotations

import asyncio
import itertools

from tests.faults.fits import GROUP_LABEL
from tests.faults.patience import patience
from tests.faults.scenarios.registry import binding_held, scenario
from tests.faults.schedulers import REAL
from tests.faults.stage import GANGS, Stage, names, reason


async def _no_node_known(stage: Stage) -> None:
    """Wait until the scheduler knows of no node, by what it says of pods that are too large for the only one."""
    for number in itertools.count():
        probe = f"probe-{number}"
        await stage.pods(probe, cpu="2")
        await stage.answered(probe)
        verdict = reason(await stage.api.get(stage.pod_item(probe)))
        await stage.delete(probe)
        if not verdict.startswith("0/1"):
            return


@scenario(29, "a node that goes with assumed pods on it leaves nothing behind", quick=True)
async def node_removed_with_assumed_pods(stage: Stage) -> None:
    _, hold = await binding_held(stage, "p", "q", cpu="500m")
    await stage.api.delete(stage.node_item("n1"))
    await _no_node_known(stage)
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


@scenario(30, "a node that has less than it gave away is closed for that resource only")
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


@scenario(34, "a gang whose last member never fits is not bound in part, and holds up nobody")
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


@scenario(28, "beside the default scheduler on nodes with one slot each, our own pods never collide")
async def race_for_the_last_slot(stage: Stage) -> None:
    await stage.scheduler()
    await stage.scheduler("default", kind=REAL, scheduler_name=f"{stage.namespace}-default", judged=False)
    stage.expected.room = False
    # The other's decisions become known while ours are under way: a pod may wait for what is given away meanwhile.
    stage.expected.staleness = 50
    await stage.nodes(*names("n", 60), cpu="1")
    await asyncio.sleep(1)

    async def create(scheduler_name: str) -> None:
        await stage.pods(*names(scheduler_name.rpartition("-")[2], 30), cpu="600m", schedulerName=scheduler_name)

    await asyncio.gather(create(stage.namespace), create(f"{stage.namespace}-default"))
    await stage.bound()
    state = await stage.state()
    counts = [len(state.pods_on(name)) for name in names("n", 60)]
    stage.figures["nodes_given_twice"] = sum(count > 1 for count in counts)


@scenario(31, "2,000 pods that fit nowhere hold up none that fits")
async def crowd_that_fits_nowhere(stage: Stage) -> None:
    await stage.scheduler()
    await stage.nodes(*names("n", 10), cpu="4")

    async def crowd(part: int) -> None:
        await stage.pods(*names(f"large-{part}", 250), cpu="16")

    await asyncio.gather(*(crowd(part) for part in range(8)))
    slowest = 0.0
    for name in names("good", 20):
        await stage.pods(name, cpu="500m")
        slowest = max(slowest, await stage.bound(name))
    stage.figures["slowest_seconds"] = slowest
    assert slowest < patience(5)


@scenario(35, "a PodGroup that comes after its pods is noticed at once")
async def group_after_its_pods(stage: Stage) -> None:
    await stage.scheduler(profile=GANGS)
    await stage.nodes("n1", "n2", cpu="1")
    await stage.pods(*names("late", 3), cpu="400m", labels={GROUP_LABEL: "late"})
    await asyncio.sleep(2)
    await stage.gang("late", 0, least=3)
    stage.figures["recover_seconds"] = await stage.bound(*names("late", 3))
    assert stage.figures["recover_seconds"] < patience(5)
