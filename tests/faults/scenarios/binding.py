"""Faults between a decision and its Binding: 8, 9, 10, 12, 13, 33."""

from __future__ import annotations

import asyncio

from aiohttp import web

from tests.faults import proxy as faults
from tests.faults.proxy import Hold, Rule
from tests.faults.scenarios.registry import BINDING, binding_held, scenario
from tests.faults.stage import Stage, names


@scenario(8, "a Binding that took effect counts, though its answer was lost", quick=True)
async def bind_applied_answer_lost(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes("n1", "n2", cpu="1")
    rule = scheduler.proxy.add(Rule(faults.lose_answer(), **BINDING, times=3))
    # Two fit on each node: where a pod is forgotten, a node gets a third.
    await stage.pods(*names("p", 4), cpu="500m")
    stage.figures["recover_seconds"] = await stage.bound()
    await stage.pods(*names("too-many", 2), cpu="500m")
    await stage.answered(*names("too-many", 2))
    assert rule.used, "no Binding came"


@scenario(8, "a Binding that never arrived is repeated")
async def bind_never_arrived(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes("n1", "n2", cpu="1")
    scheduler.proxy.add(Rule(faults.reset(), **BINDING, times=3))
    await stage.pods(*names("p", 4), cpu="500m")
    stage.figures["recover_seconds"] = await stage.bound()


@scenario(9, "a pod that another scheduler bound first keeps its node, and is not tried again", quick=True)
async def another_scheduler_binds_first(stage: Stage) -> None:
    scheduler, hold = await binding_held(stage, "p", cpu="600m")
    await stage.nodes("n2", cpu="1")
    await stage.bind_by_hand("p", "n2")
    hold.release()
    # The room on n1, which was assumed, is free again.
    await stage.pods("q", cpu="600m", nodeSelector={"kubernetes.io/hostname": "n1"})
    stage.figures["recover_seconds"] = await stage.bound("q")
    assert (await stage.where())["p"] == "n2"
    assert scheduler.proxy.count("create", "pods/binding") <= 3, "the refused Binding was repeated"


@scenario(10, "a namesake of a deleted pod is another pod", quick=True)
async def pod_recreated_while_its_binding_is_under_way(stage: Stage) -> None:
    _, hold = await binding_held(stage, "p", cpu="600m")
    await stage.delete("p")
    await stage.nodes("n2", cpu="2", labels={"disk": "ssd"})
    await stage.pods("p", cpu="1500m", nodeSelector={"disk": "ssd"})
    hold.release()
    stage.figures["recover_seconds"] = await stage.bound("p")
    assert (await stage.where())["p"] == "n2"


@scenario(10, "the room of a pod that was deleted while its Binding was under way is free again")
async def pod_deleted_while_its_binding_is_under_way(stage: Stage) -> None:
    _, hold = await binding_held(stage, "p", cpu="600m")
    await stage.delete("p")
    hold.release()
    await stage.pods("q", cpu="600m")
    stage.figures["recover_seconds"] = await stage.bound("q")


@scenario(12, "an error of the server after the Binding took effect is looked up")
async def bind_applied_and_answered_500(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes("n1", "n2", cpu="1")

    async def applied(exchange: faults.Exchange) -> web.StreamResponse:
        await exchange.apply()
        return await faults.answer(500, "etcdserver: request timed out")(exchange)

    scheduler.proxy.add(Rule(applied, **BINDING, times=3))
    await stage.pods(*names("p", 4), cpu="500m")
    stage.figures["recover_seconds"] = await stage.bound()


@scenario(12, "an error of the server instead of the Binding leads to another attempt")
async def bind_answered_500(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes("n1", "n2", cpu="1")
    scheduler.proxy.add(Rule(faults.answer(500, "etcdserver: request timed out"), **BINDING, times=3))
    await stage.pods(*names("p", 4), cpu="500m")
    stage.figures["recover_seconds"] = await stage.bound()


async def _slow_bindings(stage: Stage, seconds: float) -> None:
    """One Binding takes that long; its room is not given away, and the others flow."""
    scheduler = await stage.scheduler()
    await stage.nodes("n1", cpu="1")
    hold = Hold()
    scheduler.proxy.add(Rule(hold, **BINDING, name="slow"))
    await stage.pods("slow", cpu="700m")
    await hold.first()
    await stage.nodes("n2", cpu="1")
    await stage.pods("beside", "rival", cpu="700m")
    # One of the two has room on n2, the other must wait: n1 is promised.
    await asyncio.sleep(seconds)
    bound = sum(bool(node) for node in (await stage.where()).values())
    hold.release()
    stage.figures["recover_seconds"] = await stage.bound("slow", within=60)
    assert bound == 1, f"{bound} of the two others were bound meanwhile; one has room"


@scenario(13, "room stays promised while a Binding takes 3 s; other pods flow", quick=True)
async def bind_takes_3_seconds(stage: Stage) -> None:
    await _slow_bindings(stage, 3)


@scenario(13, "room stays promised while a Binding takes 35 s, longer than the client waits")
async def bind_takes_35_seconds(stage: Stage) -> None:
    await _slow_bindings(stage, 35)


@scenario(33, "a pod that is changed while it waits is placed by its latest spec", quick=True)
async def pod_changed_while_it_waits(stage: Stage) -> None:
    await stage.scheduler()
    await stage.nodes("n1", cpu="4")
    gates = [{"name": "example.com/gate"}]
    created = list(names("p", 4))
    await stage.pods(*created, schedulingGates=gates)
    await stage.nodes("n2", cpu="4", labels={"disk": "ssd"})
    for name in created:
        path = f"/api/v1/namespaces/{stage.namespace}/pods/{name}"
        # A gated pod's selector may be made stricter.
        await stage.api.call("PATCH", path, {"spec": {"nodeSelector": {"disk": "ssd"}}})
        await stage.api.call("PATCH", path, {"spec": {"schedulingGates": None}})
    stage.figures["recover_seconds"] = await stage.bound()
    assert set((await stage.where()).values()) == {"n2"}
