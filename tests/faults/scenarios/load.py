"""Too much of everything, and too little of the machine: 24, 25, 26, 27, 28, 31, 32.

Numbers are scaled for a minute each; FAULTS_SCALE, or `--scale`, multiplies them.
"""

from __future__ import annotations

import asyncio
import math
import resource
import signal
import statistics
import subprocess
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import psutil

from tests.faults import oracle, proxy as faults
from tests.faults.history import POD, History
from tests.faults.patience import patience
from tests.faults.proxy import Rule
from tests.faults.scenarios.registry import scaled, scenario
from tests.faults.schedulers import OURS, REAL, Scheduler
from tests.faults.stage import Stage, eventually, names

Json = dict[str, Any]
_MIB = 1 << 20


async def crowd(stage: Stage, created: Iterable[str], cpu: str, **spec: Any) -> None:
    """Make pods, a dozen at a time: what waits longer for a connection than a request may take fails."""
    at_once = asyncio.Semaphore(12)

    async def make(name: str) -> None:
        async with at_once:
            await stage.pods(name, cpu=cpu, **spec)

    await asyncio.gather(*map(make, created))


# 24 ------------------------------------------------------------------------------------------------------------------


async def _blocked(stage: Stage, how: str, seconds: float) -> tuple[Scheduler, Scheduler]:
    """A leader that does nothing for longer than its Lease lasts, with pods waiting and a Binding under way."""
    leader, follower = await stage.pair(environment={"FAULTS_BLOCK": f"{how}:{seconds}"})
    await stage.nodes("n1", "n2", cpu="8")
    await stage.pods("before")
    await stage.bound()
    slow = leader.proxy.add(Rule(faults.delay(0.5), verb="create", resource="pods/binding"))
    await stage.pods(*names("under-way", 3))
    await eventually(lambda: slow.used >= 1)
    leader.signal(signal.Signals(signal.SIGRTMIN))
    await stage.pods(*names("p", 8))
    return leader, follower


@scenario(24, "an event loop that is blocked past the renew deadline keeps its Lease, which a thread renews")
async def event_loop_blocked(stage: Stage) -> None:
    leader, follower = await _blocked(stage, "loop", 8)
    stage.figures["recover_seconds"] = await stage.bound()
    assert leader.alive, "the leader ended"
    assert not follower.leads, "a second leader"


@scenario(24, "an interpreter that is blocked past its Lease writes nothing when it wakes, and ends")
async def interpreter_blocked(stage: Stage) -> None:
    leader, follower = await _blocked(stage, "interpreter", 10)
    stage.figures["takeover_seconds"] = await follower.until(lambda: follower.leads, 30)
    code = await leader.ended(20)
    stage.ends[leader.name] = code
    assert code != 0, "it lost its Lease and said that all was well"
    stage.figures["recover_seconds"] = stage.figures["takeover_seconds"] + await stage.bound()


# 25, 26, 27 ----------------------------------------------------------------------------------------------------------


@scenario(25, "a scheduler that reaches its memory limit goes on, or ends and starts again; no pod is lost or doubled")
async def memory_limit_reached(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes(*names("n", 4), cpu="8")
    await stage.pods("before", cpu="100m")
    await stage.bound()
    # What serving imports needs memory, too.
    await scheduler.until(scheduler.serves, 30)
    assert scheduler.process is not None
    process = psutil.Process(scheduler.process.pid)
    _, most = process.rlimit(resource.RLIMIT_AS)
    process.rlimit(resource.RLIMIT_AS, (process.memory_info().vms + 8 * _MIB, most))
    environment = [{"name": f"V{number}", "value": "x" * 10_000} for number in range(90)]
    large = [{"name": "c", "image": "i", "env": environment, "resources": {"requests": {"cpu": "10m"}}}]
    await stage.pods(*names("large", scaled(30)), containers=large)
    scheduler.proxy.reset_all()
    await asyncio.sleep(5)
    stage.figures["ended"] = not scheduler.alive
    if scheduler.alive:
        process.rlimit(resource.RLIMIT_AS, (most, most))
    else:
        await scheduler.start()
    stage.figures["recover_seconds"] = await stage.bound()


@scenario(26, "without a byte of room in /tmp it places pods, and ends as it should")
async def no_room_for_temporary_files(stage: Stage) -> None:
    full = stage.directory / "tmp"
    await asyncio.to_thread(full.mkdir, exist_ok=True)
    mounted = ["mount", "-t", "tmpfs", "-o", "size=16k", "none", str(full)]
    if (await asyncio.to_thread(subprocess.run, mounted, capture_output=True)).returncode != 0:
        # Without the right to mount: a directory that does not exist takes no file either.
        full = full / "absent"
    else:
        await asyncio.to_thread((full / "ballast").write_bytes, b"x" * 16_384)
    try:
        scheduler = await stage.scheduler(environment={"TMPDIR": str(full)})
        await stage.nodes("n1", cpu="4")
        await stage.pods(*names("p", 5))
        stage.figures["recover_seconds"] = await stage.bound()
        code = await scheduler.stop()
        assert code == 0 or stage.kind != OURS, f"exit code {code}"
    finally:
        if full.name == "tmp":
            await asyncio.to_thread(subprocess.run, ["umount", str(full)], check=True)


@scenario(27, "idle callers that take every descriptor up to ulimit -n 64 keep it from nothing once they go")
async def descriptors_taken_by_callers(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes("n1", cpu="8")
    await stage.pods("before")
    await stage.bound()
    await scheduler.until(scheduler.serves, 30)
    assert scheduler.process is not None
    process = psutil.Process(scheduler.process.pid)
    _, most = process.rlimit(resource.RLIMIT_NOFILE)
    process.rlimit(resource.RLIMIT_NOFILE, (64, most))
    callers: list[asyncio.StreamWriter] = []
    # Idle clients of its own server take every descriptor up to the limit.
    for _ in range(80):
        _, writer = await asyncio.open_connection("127.0.0.1", scheduler.port)
        callers.append(writer)
    await asyncio.sleep(1)
    stage.figures["descriptors_under_limit"] = process.num_fds()
    scheduler.proxy.reset_all()
    await stage.pods(*names("under", 3))
    await asyncio.sleep(4)
    assert scheduler.alive, scheduler.log[-1500:]
    log_bytes = scheduler.figures()["log_bytes"]
    for writer in callers:
        writer.close()
    stage.figures["recover_seconds"] = await stage.bound()
    await stage.pods(*names("after", 3))
    await stage.bound(*names("after", 3))
    stage.figures["log_under_limit"] = log_bytes
    process.rlimit(resource.RLIMIT_NOFILE, (most, most))


# 28 ------------------------------------------------------------------------------------------------------------------


@scenario(28, "beside the default scheduler on one slot: ours never gives it twice, and what both give is counted")
async def default_scheduler_races(stage: Stage) -> None:
    await stage.scheduler("a")
    rival = f"{stage.namespace}-rival"
    await stage.scheduler("rival", kind=REAL, scheduler_name=rival, judged=False)
    await stage.nodes("n1", cpu="1")
    rounds, given_twice = scaled(40), 0
    # Whoever binds second could not see the first: what both give is counted, what ours gives by itself is judged.
    stage.expected.room = False
    for number in range(rounds):
        given_twice += await _raced(stage, rival, number)
    stage.figures["rounds"], stage.figures["conflicts"] = rounds, given_twice
    past = await asyncio.to_thread(stage.history)
    stage.violations += oracle.room(_without(past, rival), stage.ours)


async def _raced(stage: Stage, rival: str, number: int) -> bool:
    """Two of our pods and another's for one slot; whether both schedulers gave it."""
    mine, theirs = f"mine-{number}", f"theirs-{number}"
    created = [mine, f"{mine}-next", theirs]
    await asyncio.gather(
        stage.pods(mine, f"{mine}-next", cpu="600m"), stage.pods(theirs, cpu="600m", schedulerName=rival)
    )

    await stage.answered(*created)
    placed = await stage.where()
    await stage.delete(*created)
    return sum(bool(placed[name]) for name in created) > 1


def _without(past: History, scheduler_name: str) -> History:
    """A history in which another scheduler's pods never were."""
    kept = [
        change for change in past.changes
        if change.kind != POD or (change.after or change.before or {})["spec"].get("schedulerName") != scheduler_name
    ]  # fmt: skip
    return History(kept, past.requests, past.start)


# 31, and a burst ------------------------------------------------------------------------------------------------------


@scenario(31, "beside 1,000 pods that fit nowhere, good ones are placed at once, and Events do not multiply")
async def unschedulable_pods_in_the_thousands(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes(*names("n", 20), cpu="8")
    hopeless = list(names("hopeless", scaled(1000)))
    stage.expected.waiting = frozenset(hopeless)
    started = time.monotonic()
    await crowd(stage, hopeless, "32")
    await eventually(lambda: said_of(scheduler, len(hopeless)), 120)
    stage.figures["crowd_seconds"] = time.monotonic() - started
    since = time.monotonic()
    waits = []
    for number in range(40):
        began = time.monotonic()
        name = f"good-{number}"
        await stage.pods(name, cpu="100m")
        await eventually(lambda name=name: placed(stage, name))
        waits.append(time.monotonic() - began)
        if number % 10 == 9:
            # Every pod that waits might fit now: all are looked at again.
            await stage.nodes(f"more-{number}", cpu="8")
    stage.figures["good_p50_seconds"] = statistics.median(waits)
    stage.figures["slowest_seconds"] = max(waits)
    stage.figures["writes_per_hopeless_pod"] = writes(scheduler, since) / len(hopeless)
    assert max(waits) < patience(10), f"a good pod waited {max(waits):.1f} s"


async def placed(stage: Stage, name: str) -> bool:
    """Whether a pod has a node."""
    pod = await stage.api.call("GET", f"/api/v1/namespaces/{stage.namespace}/pods/{name}")
    return bool(pod["spec"].get("nodeName"))


def said_of(scheduler: Scheduler, count: int) -> bool:
    """Whether it has said of so many pods why they wait."""
    return scheduler.proxy.count("patch", "pods/status") >= count


def writes(scheduler: Scheduler, since: float) -> int:
    """Events and conditions that were written since a monotonic moment."""
    count = scheduler.proxy.count
    return sum(
        count(verb, kind, since=since) for verb in ("create", "patch", "update") for kind in ("events", "pods/status")
    )


@scenario(31, "1,000 pods in one second are all placed, none twice")
async def burst_of_pods(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    # Where the API server takes seconds for each, 256 Bindings and 64 Events are under way.
    stage.bounds = replace(stage.bounds, descriptors=400)
    created = list(names("p", scaled(1000)))
    # A node takes 110 pods.
    nodes = max(25, math.ceil(len(created) / 100))
    await stage.nodes(*names("n", nodes), cpu=str(math.ceil(len(created) / nodes / 10) + 1))
    # It sleeps while they are made: when it wakes, all come at once.
    scheduler.signal(signal.SIGSTOP)
    try:
        await crowd(stage, created, "100m")
    finally:
        scheduler.signal(signal.SIGCONT)
    stage.within = 60.0 * scaled(1)
    stage.figures["recover_seconds"] = await stage.bound(within=stage.within)
    stage.figures["pods_per_second"] = len(created) / stage.figures["recover_seconds"]


@scenario(31, "nodes that change all the time under pods that wait make no storm of Events")
async def event_storm(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes(*names("n", 4), cpu="1")
    hopeless = list(names("hopeless", scaled(200)))
    stage.expected.waiting = frozenset(hopeless)
    await crowd(stage, hopeless, "32", nodeSelector={"colour": "red"})
    await eventually(lambda: said_of(scheduler, len(hopeless)), 60)
    since = time.monotonic()
    changes = scaled(100)
    for number in range(changes):
        # A node that becomes red is worth another look for every pod, and has no room for any.
        colour = "red" if number // 4 % 2 == 0 else "blue"
        await stage.api.call("PATCH", f"/api/v1/nodes/n-{number % 4}", {"metadata": {"labels": {"colour": colour}}})
        await asyncio.sleep(0.05)
    await stage.pods("good", cpu="100m")
    stage.figures["recover_seconds"] = await stage.bound("good", within=15)
    stage.figures["writes"] = writes(scheduler, since)
    stage.figures["writes_per_change"] = stage.figures["writes"] / changes
    assert stage.figures["writes"] > len(hopeless), "no pod was looked at again"
    # One look per pod and change would be 200 writes for each of 100 changes.
    assert stage.figures["writes"] < len(hopeless) * changes / 10, f"{stage.figures['writes']} Events and conditions"


# 32 ------------------------------------------------------------------------------------------------------------------


@scenario(32, "pods and nodes that come and go leave no memory, descriptor, series or log behind")
async def churn(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes(*names("stays", 4), cpu="8")
    rounds, size = scaled(16), 60
    resident, series, logs, descriptors = [], [], [], []
    for number in range(rounds):
        created = list(names(f"r{number}", size))
        await crowd(stage, created, "100m", tolerations=[{"operator": "Exists"}])
        await stage.nodes(f"passing-{number}", cpu="4", labels={f"label-{number}": "v"})
        await stage.bound(*created)
        await asyncio.gather(*map(stage.delete, created))
        await stage.api.delete(stage.node_item(f"passing-{number}"))
        figures = scheduler.figures()
        resident.append(figures["resident_bytes"])
        logs.append(figures["log_bytes"])
        descriptors.append(figures["descriptors"])
        series.append(float(len((await scheduler.page("/metrics"))[1].splitlines())))
    half = rounds // 2
    stage.figures["pods"] = rounds * size
    stage.figures["bytes_per_pod"] = _slope(resident[half:]) / size
    stage.figures["series_per_round"] = _slope(series[half:])
    stage.figures["descriptors_per_round"] = _slope(descriptors[half:])
    stage.figures["log_bytes_per_pod"] = _slope(logs[half:]) / size
    if stage.kind == OURS:
        assert stage.figures["bytes_per_pod"] < 4096, "memory grows"
        assert stage.figures["series_per_round"] < 1, "metric series grow"
        assert stage.figures["descriptors_per_round"] < 1, "descriptors grow"
        assert stage.figures["log_bytes_per_pod"] < 1024, "the log grows by more than a few lines a pod"


def _slope(values: list[float]) -> float:
    """How much a value grows a step, by least squares."""
    steps = range(len(values))
    return statistics.linear_regression(steps, values).slope if len(values) > 1 else 0.0
