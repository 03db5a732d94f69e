"""Much that happens again and again, quickly: 50, 51, 52. Numbers are scaled as in `load`."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

from tests.faults.history import POD
from tests.faults.patience import patience
from tests.faults.scenarios.load import crowd, placed, said_of, writes
from tests.faults.scenarios.registry import scaled, scenario
from tests.faults.schedulers import Scheduler
from tests.faults.stage import GANGS, Stage, eventually, names, reason

Json = dict[str, Any]
_HERTZ = 10
_TERMINATING_SECONDS = 0.3
"""How long a pod takes to end."""
_MAX_BACKOFF_SECONDS = 2
"""As every scheduler is configured here."""
_MAX_LINE_BYTES = 600
_NO_FIT = "no fit; waiting"
"""In our log, an attempt at a pod that fits nowhere."""
_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@contextlib.asynccontextmanager
async def _meanwhile(*repeated: Callable[[int], Awaitable[None]]) -> AsyncIterator[None]:
    """Have each called with 0, 1, 2, ..., ten times a second, as long as the block, which fails with it."""

    async def repeat(step: Callable[[int], Awaitable[None]]) -> None:
        started = time.monotonic()
        for number in itertools.count():
            await step(number)
            await asyncio.sleep(max(0.0, started + (number + 1) / _HERTZ - time.monotonic()))

    tasks = [asyncio.create_task(repeat(step)) for step in repeated]
    try:
        yield
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


# 50 ------------------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _priorities(stage: Stage, **classes: Json) -> AsyncIterator[Callable[[str], str]]:
    """PriorityClasses as long as the block; yields how they are called in the cluster."""

    def of(name: str) -> str:
        return f"{stage.namespace}-{name}"

    for name, fields in classes.items():
        await stage.api.call("POST", _CLASSES, {"metadata": {"name": of(name)}, **fields})
    try:
        yield of
    finally:
        for name in classes:
            await stage.api.call("DELETE", f"{_CLASSES}/{of(name)}")


def _kubelet(stage: Stage) -> Callable[[int], Awaitable[None]]:
    """Ends what is being deleted, as a kubelet does."""
    since: dict[str, float] = {}

    async def step(_: int) -> None:
        for pod in await stage.api.list_all("Pod", stage.namespace):
            if not pod["metadata"].get("deletionTimestamp"):
                continue
            began = since.setdefault(pod["metadata"]["uid"], time.monotonic())
            if time.monotonic() - began > _TERMINATING_SECONDS:
                await stage.delete(pod["metadata"]["name"])

    return step


@scenario(50, "of waves of ever higher priority the highest is bound in the end, and none of it was ever preempted")
async def preemption_storm(stage: Stage) -> None:
    waves, nodes = 5, scaled(10)
    slots = nodes * 4
    async with _priorities(stage, **{str(wave): {"value": wave * 100} for wave in range(waves)}) as of:
        await stage.nodes(*names("n", nodes), cpu="4")
        await stage.scheduler()
        stage.expected.waiting = frozenset(name for wave in range(waves - 1) for name in names(f"wave-{wave}", slots))
        async with _meanwhile(_kubelet(stage)):
            # The lowest is bound; the others come at once, while there is no room for any of them.
            for wave in range(waves):
                await crowd(stage, names(f"wave-{wave}", slots), "1", priorityClassName=of(str(wave)))
                if wave == 0:
                    await stage.bound()
            stage.figures["recover_seconds"] = await stage.bound(*names(f"wave-{waves - 1}", slots), within=60)
        preempted = await _deleted_by_us(stage)
    stage.figures["preempted"] = len(preempted)
    assert not [name for name in preempted if name.startswith(f"wave-{waves - 1}-")], "the highest was preempted"
    # What is bound is the highest, or made room for what is.
    assert len(preempted) >= slots, f"{len(preempted)} preempted for {slots} slots"
    assert len(preempted) <= slots * (waves - 1), f"{len(preempted)} preempted: more than all that are lower"


async def _deleted_by_us(stage: Stage) -> list[str]:
    past = await asyncio.to_thread(stage.history)
    return [
        request.name for request in past.requests
        if (request.verb, request.resource) == ("delete", POD) and request.ok and request.user in stage.ours.users
    ]  # fmt: skip


def _deleted_by(scheduler: Scheduler) -> set[str]:
    """The pods that it has deleted so far. Its proxy tells sooner than the whole history."""
    return {
        each.target.name for each in scheduler.proxy.exchanges
        if (each.target.verb, each.target.resource) == ("delete", POD) and each.upstream_status == 200
    }  # fmt: skip


async def _large_nodes(stage: Stage, *created: str, cpu: int) -> None:
    """Nodes for more pods than a kubelet takes by default."""
    await stage.nodes(*created, cpu=str(cpu))
    amounts = {"pods": str(3 * cpu)}
    for name in created:
        await stage.api.set_status(stage.node_item(name), {"allocatable": amounts, "capacity": amounts})


async def _left(stage: Stage, labels: str, fields: str) -> int:
    """How many pods there are of these labels and fields; of many, a first page."""
    query = f"labelSelector={labels}&fieldSelector={fields}&limit=50"
    answer = await stage.api.call("GET", f"/api/v1/namespaces/{stage.namespace}/pods?{query}")
    return len(answer["items"]) + int(answer["metadata"].get("remainingItemCount") or 0)


@scenario(50, "beside 200 pods that wait for their victims' end others flow, and nobody takes the room they made")
async def nominated_pods(stage: Stage) -> None:
    # Up to 1.34, a preemption deletes its node's victims of before once more: of many on a node, the square.
    count, on_each = scaled(200), 10
    nodes = math.ceil(count / on_each)
    stage.within = 60.0 * scaled(1)
    began = time.monotonic()
    classes = {"low": {"value": 0}, "thief": {"value": 50, "preemptionPolicy": "Never"}, "high": {"value": 100}}
    async with _priorities(stage, **classes) as of:
        await _large_nodes(stage, *names("n", nodes), cpu=on_each)
        low: Json = {"priorityClassName": of("low"), "terminationGracePeriodSeconds": 3600}
        numbers = iter(range(nodes * on_each))
        for node in names("n", nodes):
            pods = [f"low-{next(numbers)}" for _ in range(on_each)]
            await crowd(stage, pods, "1", labels={"role": "low"}, nodeName=node, **low)
        scheduler = await stage.scheduler()
        high = {"labels": {"role": "high"}, "priorityClassName": of("high")}
        started = time.monotonic()
        await crowd(stage, names("high", count), "1", **high)

        async def all_nominated() -> bool:
            return not await _left(stage, "role%3Dhigh", "status.nominatedNodeName%3D")

        await eventually(all_nominated, stage.within)
        stage.figures["nominated_seconds"] = time.monotonic() - started
        # It nominates first, and has them deleted meanwhile.
        stage.figures["told_seconds"] = await eventually(lambda: len(_deleted_by(scheduler)) >= count, stage.within)
        # Others flow, on a node that is theirs alone.
        taint = {"key": "others", "effect": "NoSchedule"}
        await stage.nodes("free", cpu="4", taints=[taint])
        stage.figures["slowest_seconds"] = 0.0
        for name in names("beside", 5):
            await stage.pods(name, cpu="100m", tolerations=[{"key": "others", "operator": "Exists"}])
            # Each that is nominated may be tried once before it, as there is a new node.
            waited = await stage.bound(name, within=10 + count / 100)
            stage.figures["slowest_seconds"] = max(waited, stage.figures["slowest_seconds"])
        thieves = list(names("thief", 50))
        stage.expected.waiting = frozenset(thieves)
        await crowd(stage, thieves, "1", labels={"role": "thief"}, priorityClassName=of("thief"))
        started = time.monotonic()
        await _end(stage, sorted(_deleted_by(scheduler)))

        async def all_bound() -> bool:
            return not await _left(stage, "role%3Dhigh", "spec.nodeName%3D")

        await eventually(all_bound, stage.within)
        stage.figures["recover_seconds"] = time.monotonic() - started
        # A line an attempt: each end may make room for each pod, which is tried again every other second at most.
        attempts = (count + len(thieves)) * (time.monotonic() - began) / _MAX_BACKOFF_SECONDS
        stage.bounds = replace(stage.bounds, log_bytes=int(attempts * _MAX_LINE_BYTES), descriptors=400)
        assert await _left(stage, "role%3Dthief", "spec.nodeName%3D") == len(thieves), "a thief has a promised room"
        assert scheduler.alive
        deletions = await _deleted_by_us(stage)
        stage.figures["preempted"], stage.figures["deletions"] = len(set(deletions)), len(deletions)
        assert len(set(deletions)) == count, f"{len(set(deletions))} preempted for {count} pods"
        assert len(deletions) <= count * on_each


async def _end(stage: Stage, ending: list[str]) -> None:
    at_once = asyncio.Semaphore(12)

    async def end(name: str) -> None:
        async with at_once:
            while True:
                # Of thousands, one may take a busy API server longer than a request may.
                with contextlib.suppress(TimeoutError):
                    return await stage.delete(name)

    await asyncio.gather(*map(end, ending))


# 51 ------------------------------------------------------------------------------------------------------------------


@scenario(51, "a gang whose minMember changes ten times a second is bound only when it says so, and holds up nobody")
async def minimum_flaps(stage: Stage) -> None:
    scheduler = await stage.scheduler(profile=GANGS)
    await stage.nodes("n1", "n2", cpu="1")
    flaps = scaled(60)

    def ask(least: int) -> Awaitable[Json]:
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{stage.namespace}/podgroups/gang"
        return stage.api.call("PATCH", path, {"spec": {"minMember": least}})

    async def too_many(_: int) -> None:
        await ask(stage.random.randint(5, 8))

    async def few_or_many(_: int) -> None:
        await ask(stage.random.choice((3, 6)))

    # Room for four of six.
    await stage.gang("gang", 6)
    since = time.monotonic()
    async with _meanwhile(too_many):
        waits = []
        for number in range(flaps // _HERTZ):
            name = f"single-{number}"
            await stage.pods(name, cpu="50m")
            waits.append(await stage.bound(name, within=5))
            await asyncio.sleep(max(0.0, since + number + 1 - time.monotonic()))
    stage.figures["slowest_seconds"] = max(waits)
    stage.figures["writes"] = writes(scheduler, since)
    members = list(names("gang", 6))
    nodes = await stage.where()
    assert not any(nodes[name] for name in members), f"bound although fewer fit than it asked for: {nodes}"
    # A look at each member per change, with an Event and a condition, is what six pods may cost.
    assert stage.figures["writes"] < 2 * len(members) * flaps, f"{stage.figures['writes']} Events and conditions"
    async with _meanwhile(few_or_many):
        await asyncio.sleep(flaps / 2 / _HERTZ)
    await ask(3)

    async def part_is_bound() -> bool:
        nodes = await stage.where()
        return sum(bool(nodes[name]) for name in members) >= 3

    stage.figures["placed_seconds"] = await eventually(part_is_bound, 30)
    await ask(6)
    await stage.nodes("n3", "n4", cpu="1")
    stage.figures["recover_seconds"] = await stage.bound(*members)


# 52 ------------------------------------------------------------------------------------------------------------------


def _flap(stage: Stage, node: str) -> Callable[[int], Awaitable[None]]:
    """As the node lifecycle controller: a condition, and the taint that follows from it."""
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}

    async def step(number: int) -> None:
        ready = bool(number % 2)
        condition = {"type": "Ready", "status": str(ready), "reason": "Flaps"}
        await stage.api.set_status(stage.node_item(node), {"conditions": [condition]})
        await stage.api.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": [] if ready else [taint]}})

    return step


async def _told(stage: Stage, name: str) -> bool:
    """Whether a pod says why it waits."""
    return bool(reason(await stage.api.get(stage.pod_item(name))))


@scenario(52, "nodes that flap at 10 Hz under 1,000 pods that wait hold up nobody, and their room counts in the end")
async def nodes_flap_under_waiting_pods(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    # A node may become unready while a Binding for it is under way, for which a busy machine takes its time.
    stage.expected.staleness = 400
    # A line an attempt, of which a flap makes one for each pod that might fit.
    stage.bounds = replace(stage.bounds, log_bytes=16 << 20)
    flapping = list(names("flapping", 3))
    await stage.nodes(*flapping, cpu="4", labels={"flaps": "yes"})
    await stage.nodes("steady", cpu="8")
    hopeless = list(names("hopeless", scaled(1000)))
    stage.expected.waiting = frozenset(hopeless)
    await crowd(stage, hopeless, "32")
    await eventually(lambda: said_of(scheduler, len(hopeless)), 120)
    await scheduler.until(scheduler.serves, 30)
    changes, seconds = 0, 10
    since = time.monotonic()
    slowest = longest_answer = 0.0
    most_before = 0
    only_there = {"nodeSelector": {"flaps": "yes"}}
    async with _meanwhile(*(_flap(stage, node) for node in flapping)):
        for number in range(seconds):
            name = f"good-{number}"
            began, attempts = time.monotonic(), scheduler.log.count(_NO_FIT)
            await stage.pods(name, cpu="100m", nodeSelector={"kubernetes.io/hostname": "steady"})
            await stage.pods(f"there-{number}", cpu="500m", **only_there)
            await eventually(lambda name=name: placed(stage, name), 60)
            slowest = max(slowest, time.monotonic() - began)
            most_before = max(most_before, scheduler.log.count(_NO_FIT) - attempts)
            began = time.monotonic()
            status, _ = await scheduler.ask("/livez")
            longest_answer = max(longest_answer, time.monotonic() - began)
            assert status == 200, f"/livez answers {status}"
            await asyncio.sleep(max(0.0, since + number + 1 - time.monotonic()))
        changes = int((time.monotonic() - since) * _HERTZ) * len(flapping)
    # Who came while none of them was ready is woken when they are.
    for node in flapping:
        await _flap(stage, node)(0)
    await stage.pods("last", cpu="500m", **only_there)
    await eventually(lambda: _told(stage, "last"), 60)
    for node in flapping:
        await _flap(stage, node)(1)
    stage.figures["slowest_seconds"], stage.figures["answer_seconds"] = slowest, longest_answer
    stage.figures["writes"] = writes(scheduler, since)
    stage.figures["writes_per_change"] = stage.figures["writes"] / changes
    wanted = [*names("good", seconds), *names("there", seconds), "last"]
    stage.figures["recover_seconds"] = await stage.bound(*wanted)
    # Each pod that waits may be looked at once before it, as their turn came first; how long that takes, machines tell.
    if scheduler.is_ours:
        stage.figures["attempts_before"] = most_before
        assert most_before < 1.5 * len(hopeless), f"a good pod waited for {most_before} attempts at others"
        assert longest_answer < patience(2), f"/livez took {longest_answer:.1f} s"
    # One look per pod and change would be 1,000 writes for each.
    assert stage.figures["writes"] < len(hopeless) * changes / 10, f"{stage.figures['writes']} Events and conditions"
