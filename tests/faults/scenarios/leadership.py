"""Faults of leadership, clocks and the end of a process: 19, 20, 21, 22, 23."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from collections.abc import AsyncIterator
from typing import Any

from tests.conformance.apiclient import ApiError
from tests.faults import proxy as faults
from tests.faults.oracle import Violation
from tests.faults.patience import patience
from tests.faults.proxy import Rule
from tests.faults.scenarios.registry import scenario
from tests.faults.schedulers import LEASE
from tests.faults.stage import Stage, eventually, names, reason

_DEVICES = "/apis/resource.k8s.io/v1"
_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE[0]}/leases/{LEASE[1]}"
_BIND: dict[str, Any] = {"verb": "create", "resource": "pods/binding"}


@scenario(19, "a leader that is killed is followed within Lease and retry, and no pod is lost")
async def leader_killed(stage: Stage) -> None:
    leader, follower = await stage.pair()
    await stage.nodes("n1", "n2", cpu="4")
    leader.proxy.add(Rule(faults.delay(0.2), **_BIND))
    await stage.pods(*names("p", 16), cpu="400m")
    await eventually(lambda: leader.proxy.count("create", "pods/binding") > 3)
    await leader.kill()
    stage.figures["takeover_seconds"] = await follower.until(lambda: follower.leads, 30)
    stage.figures["recover_seconds"] = stage.figures["takeover_seconds"] + await stage.bound()
    duration, _, period = leader.setup.lease_seconds
    assert stage.figures["takeover_seconds"] <= duration + 2 * period + 1


@contextlib.asynccontextmanager
async def _device(stage: Stage, node: str) -> AsyncIterator[str]:
    """One device on a node; yields its class."""
    name, driver = stage.namespace, f"{stage.namespace}.example.com"
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    specs = {
        "deviceclasses": {"selectors": [selector]},
        "resourceslices": {"driver": driver, "pool": pool, "nodeName": node, "devices": [{"name": "only"}]},
    }
    for resource, spec in specs.items():
        await stage.api.call("POST", f"{_DEVICES}/{resource}", {"metadata": {"name": name}, "spec": spec})
    try:
        yield name
    finally:
        for resource in specs:
            await stage.api.call("DELETE", f"{_DEVICES}/{resource}/{name}")


@scenario(19, "what the killed leader gave away is given to nobody else, though the watch has not shown it")
async def devices_unseen_at_takeover(stage: Stage) -> None:
    leader, follower = await stage.pair(speaks_json=True)
    claims = f"{_DEVICES}/namespaces/{stage.namespace}/resourceclaims"
    swallowed: list[bytes] = []

    def is_allocation(line: bytes) -> bool:
        claim = json.loads(line)["object"]
        if claim["metadata"].get("name") != "first" or not claim.get("status", {}).get("allocation"):
            return False
        swallowed.append(line)
        return True

    async def pod_with_claim(name: str, device_class: str) -> None:
        request = {"name": "device", "exactly": {"deviceClassName": device_class}}
        body = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        await stage.api.call("POST", claims, body)
        await stage.pods(name, cpu="100m", resourceClaims=[{"name": "device", "resourceClaimName": name}])

    watch = follower.proxy.add(Rule(faults.swallow(is_allocation), verb="watch", resource="resourceclaims"))
    follower.proxy.reset_all()
    await eventually(lambda: watch.used)
    await stage.nodes("n1", cpu="4")
    async with _device(stage, "n1") as device_class:
        await pod_with_claim("first", device_class)
        await stage.bound("first")
        await eventually(lambda: swallowed)
        await leader.kill()
        stage.figures["takeover_seconds"] = await follower.until(lambda: follower.leads, 30)
        stage.expected.waiting = frozenset({"second"})
        await pod_with_claim("second", device_class)

        async def decided() -> bool:
            pod = await stage.api.get(stage.pod_item("second"))
            return bool(pod["spec"].get("nodeName") or reason(pod))

        await eventually(decided)
        second = await stage.api.call("GET", f"{claims}/second")
        if second.get("status", {}).get("allocation"):
            stage.violations.append(Violation("I2", "the node's one device was given to two claims"))
    for name in ("first", "second"):
        await stage.api.call("PATCH", f"{claims}/{name}", {"metadata": {"finalizers": None}})
        await stage.api.call("DELETE", f"{claims}/{name}")


@scenario(20, "a leader that wakes after its Lease was taken writes nothing more and ends", quick=True)
async def zombie_leader(stage: Stage) -> None:
    leader, follower = await stage.pair()
    await stage.nodes("n1", "n2", cpu="8")
    await stage.pods("before")
    await stage.bound()
    leader.signal(signal.SIGSTOP)
    await follower.until(lambda: follower.leads, 30)
    # What the sleeper finds when it wakes: pods that wait, and events that tell of them.
    held = Rule(faults.Hold(), **_BIND)
    follower.proxy.add(held)
    await stage.pods(*names("p", 8))
    leader.signal(signal.SIGCONT)
    code = await leader.ended(15)
    stage.ends[leader.name] = code
    assert code != 0, "it lost its Lease and said that all was well"
    follower.proxy.remove(held)
    assert isinstance(held.action, faults.Hold)
    held.action.release()
    stage.figures["recover_seconds"] = await stage.bound()


async def _clock_moved(stage: Stage, seconds: float) -> None:
    """A pod waits in back-off after a refused Binding when the wall clock moves; leadership and retries go on."""
    leader, follower = await stage.pair()
    await stage.nodes("n1", cpu="1")
    # A refusal: after an error of the server, ours looks the outcome up and binds again without back-off.
    leader.proxy.add(Rule(faults.answer(403, "not now", reason="Forbidden"), **_BIND, times=1))
    await stage.pods("backs-off", cpu="300m")
    # The pod is in back-off before anything is written about it.
    await eventually(lambda: leader.proxy.count("patch", "pods/status"))
    for scheduler in (leader, follower):
        scheduler.skew(seconds)
    await stage.pods("next", cpu="300m")
    stage.figures["next_seconds"] = await stage.bound("next", within=15)
    stage.figures["recover_seconds"] = await stage.bound("backs-off", within=15)
    await asyncio.sleep(leader.setup.lease_seconds[0] + 1)
    assert leader.alive, "the leader ended"
    assert not follower.leads, "a second leader"


@scenario(21, "the wall clock goes back an hour: retries and leadership go on")
async def clock_goes_back(stage: Stage) -> None:
    await _clock_moved(stage, -3600)


@scenario(21, "the wall clock goes forward an hour: retries and leadership go on")
async def clock_goes_forward(stage: Stage) -> None:
    await _clock_moved(stage, 3600)


async def _holder(stage: Stage) -> str:
    with contextlib.suppress(ApiError):
        return (await stage.api.call("GET", _LEASE))["spec"].get("holderIdentity") or ""
    return ""


@scenario(22, "a Lease that is stolen or deleted ends the leader; junk in it ends nobody")
async def lease_tampered_with(stage: Stage) -> None:
    leader, follower = await stage.pair()
    await stage.nodes("n1", cpu="8")
    await stage.pods("before")
    await stage.bound()
    junk = {"spec": {"leaseTransitions": 2**31 - 1, "leaseDurationSeconds": 1, "acquireTime": None}}
    await stage.api.call("PATCH", _LEASE, junk)
    await asyncio.sleep(2)
    assert follower.alive
    holder = await _holder(stage)
    with contextlib.suppress(ApiError):
        await stage.api.call("DELETE", _LEASE)
    await eventually(lambda: _holder(stage))
    if await _holder(stage) != holder:
        # The follower was first.
        await leader.ended(15)
        leader, follower = follower, leader
        await follower.start()
    await stage.api.call("PATCH", _LEASE, {"spec": {"holderIdentity": "thief", "leaseDurationSeconds": 3}})
    code = await leader.ended(15)
    assert code != 0
    await follower.until(lambda: follower.leads, 30)
    await stage.pods("after")
    stage.figures["recover_seconds"] = await stage.bound("after")


@scenario(23, "SIGTERM lets Bindings under way end, gives the Lease back and exits with 0")
async def terminated_with_bindings_under_way(stage: Stage) -> None:
    leader, follower = await stage.pair()
    await stage.nodes("n1", "n2", cpu="8")
    leader.proxy.add(Rule(faults.delay(1.5), **_BIND))
    await stage.pods(*names("p", 12))
    await eventually(lambda: leader.proxy.count("create", "pods/binding") >= 6)
    leader.signal(signal.SIGTERM)
    code = await leader.ended(20)
    assert code == 0, f"exit code {code}"
    stage.figures["takeover_seconds"] = await follower.until(lambda: follower.leads, 30)
    stage.figures["recover_seconds"] = await stage.bound()
    assert stage.figures["takeover_seconds"] < patience(3), "the Lease was not given back"
