"""Faults of the API server, of etcd behind it, of our credentials and descriptors: 1, 2, 6, 11, 12, 15, 27."""

from __future__ import annotations

import asyncio
import signal

import psutil

from tests.faults import oracle, proxy as faults
from tests.faults.plane import API_SERVER, ETCD, SECOND_API_SERVER
from tests.faults.proxy import Rule
from tests.faults.scenarios.registry import ROLES, granted, scenario
from tests.faults.schedulers import Scheduler
from tests.faults.stage import Stage, names
from tests.faults.tcp import TcpProxy


@scenario(1, "after a crash of the API server everything goes on, with one list per kind", disruptive=True)
async def api_server_crashes(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes("n1", "n2", cpu="2")
    await stage.pods(*names("before", 3))
    await stage.bound()
    lists = scheduler.proxy.count("list")
    stage.plane.kill(API_SERVER)
    await asyncio.sleep(5)
    await asyncio.to_thread(stage.plane.start, API_SERVER)
    await stage.pods(*names("after", 3))
    stage.figures["recover_seconds"] = await stage.bound(within=60)
    stage.figures["lists"] = scheduler.proxy.count("list") - lists


@scenario(2, "a leader that the API server leaves hanging ends before its Lease does", disruptive=True)
async def api_server_hangs(stage: Stage) -> None:
    leader, follower = await stage.pair()
    await stage.nodes("n1", cpu="4")
    await stage.pods("before")
    await stage.bound()
    stage.plane.signal(API_SERVER, signal.SIGSTOP)
    try:
        stage.figures["ended_seconds"] = await _ended_after(leader)
    finally:
        stage.plane.signal(API_SERVER, signal.SIGCONT)
    await stage.pods("after")
    await follower.until(lambda: follower.leads, 60)
    stage.figures["recover_seconds"] = await stage.bound("after", within=60)


async def _ended_after(leader: Scheduler) -> float:
    loop = asyncio.get_running_loop()
    started = loop.time()
    code = await leader.ended(30)
    assert code != 0, "it lost its Lease and said that all was well"
    took = loop.time() - started
    assert took <= leader.setup.lease_seconds[0] + 1, f"it lived {took:.1f} s, longer than its Lease"
    return took


@scenario(11, "429 with Retry-After is obeyed: no more requests than asked for, and all goes on after it")
async def too_many_requests(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes("n1", "n2", cpu="4")
    # Seconds are what Retry-After counts in.
    rule = Rule(faults.answer(429, reason="TooManyRequests", retry_after=1), verb="create|list|watch|get|patch")
    scheduler.proxy.add(rule)
    scheduler.proxy.reset_all()
    before = len(scheduler.proxy.exchanges)
    await stage.pods(*names("p", 10))
    await asyncio.sleep(5)
    stage.figures["requests_per_second"] = (len(scheduler.proxy.exchanges) - before) / 5
    scheduler.proxy.remove(rule)
    stage.figures["recover_seconds"] = await stage.bound()
    # Ten Bindings, ten Events and the watches, once a second each.
    assert stage.figures["requests_per_second"] < 40


@scenario(12, "etcd that stalls for 11 s costs no pod", disruptive=True)
async def etcd_stalls(stage: Stage) -> None:
    await stage.scheduler()
    await stage.nodes("n1", "n2", cpu="4")
    await stage.pods(*names("p", 20), cpu="300m")
    stage.plane.signal(ETCD, signal.SIGSTOP)
    await asyncio.sleep(11)
    stage.plane.signal(ETCD, signal.SIGCONT)
    stage.figures["recover_seconds"] = await stage.bound(within=60)


@scenario(15, "rights that are taken away are named, and used again when they are back")
async def rights_removed(stage: Stage) -> None:
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    without_nodes = [
        {"apiGroups": ["*"], "resources": ["pods", "pods/*", "bindings", "events", "leases"], "verbs": ["*"]}
    ]
    async with granted(stage, rules) as group:
        scheduler = await stage.scheduler(groups=(group,))
        await stage.nodes("n1", cpu="400m")
        await stage.pods("p")
        await stage.bound()
        await stage.api.call("PATCH", f"{ROLES}/clusterroles/{group}", {"rules": without_nodes})
        await asyncio.sleep(1)
        scheduler.proxy.reset_all()
        await stage.nodes("n2", cpu="400m")
        await stage.pods("q")
        await asyncio.sleep(4)
        why = r"(?i)(forbidden|cannot|refuse).*nodes|nodes.*(forbidden|cannot|refuse)"
        stage.violations += oracle.says({"log": why}, {"log": scheduler.log})
        await stage.api.call("PATCH", f"{ROLES}/clusterroles/{group}", {"rules": rules})
        stage.figures["recover_seconds"] = await stage.bound("q", within=60)


@scenario(
    6, "an API server that lags behind is not believed: nothing is bound twice, no room given twice", disruptive=True
)
async def failover_to_a_stale_api_server(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes("n1", "n2", cpu="1")
    first = scheduler.proxy.upstream
    async with TcpProxy(stage.plane.ports["etcd"]) as link:
        await asyncio.to_thread(stage.plane.start, SECOND_API_SERVER, link.port)
        try:
            await stage.pods("before", cpu="600m")
            await stage.bound()
            await asyncio.sleep(1)
            link.stall()
            await stage.pods("unknown-to-it", cpu="600m")
            await stage.bound("unknown-to-it")
            scheduler.proxy.upstream = stage.plane.second_api_server
            scheduler.proxy.reset_all()
            await stage.pods("waits", cpu="600m")
            await stage.delete("before")
            await asyncio.sleep(5)
            link.resume()
            stage.figures["recover_seconds"] = await stage.bound("waits")
        finally:
            scheduler.proxy.upstream = first
            stage.plane.kill(SECOND_API_SERVER)
            scheduler.proxy.reset_all()


@scenario(27, "without descriptors it waits, and goes on when there are some")
async def descriptors_exhausted(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes("n1", cpu="8")
    await stage.pods("before")
    await stage.bound()
    # What serving imports needs descriptors, too.
    await scheduler.until(scheduler.serves, 30)
    assert scheduler.process is not None
    process = psutil.Process(scheduler.process.pid)
    limits = process.rlimit(psutil.RLIMIT_NOFILE)
    process.rlimit(psutil.RLIMIT_NOFILE, (12, limits[1]))
    scheduler.proxy.reset_all()
    await stage.pods(*names("p", 10))
    await asyncio.sleep(4)
    process.rlimit(psutil.RLIMIT_NOFILE, limits)
    stage.figures["recover_seconds"] = await stage.bound(within=60)
