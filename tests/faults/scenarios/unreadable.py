"""Fault 36, as far as pods on nodes are concerned: an object that the scheduler cannot read.

The API server takes no such object; a newer one may. So the proxy spoils what the scheduler is shown.
"""

from __future__ import annotations

from aiohttp import web

from tests.faults import proxy as faults
from tests.faults.proxy import Action, Edit, Exchange, Rule
from tests.faults.scenarios.registry import scenario
from tests.faults.schedulers import Scheduler
from tests.faults.stage import Stage

_READABLE, _NONSENSE = b'"cpu":"701m"', b'"cpu":"plenty"'


def _spoil() -> Action:
    """Show an amount of nonsense in lists and watches, where there is one of 701m."""

    class Spoil(Edit):
        def line(self, line: bytes) -> list[bytes]:
            return [line.replace(_READABLE, _NONSENSE)]

    async def act(exchange: Exchange) -> web.StreamResponse:
        response = await exchange.forward(Spoil())
        if isinstance(response, web.Response) and isinstance(response.body, bytes):
            response.body = response.body.replace(_READABLE, _NONSENSE)
        return response

    return act


def _spoilt_pods() -> Rule:
    return Rule(_spoil(), verb="list|watch", resource="pods")


async def _decided(stage: Stage, scheduler: Scheduler, name: str) -> str:
    """Wait until a pod is rejected or bound; returns its node."""
    rejected = f'"pod": "{stage.namespace}/{name}", "err"'
    await scheduler.until(lambda: rejected in scheduler.log or "Successfully bound" in scheduler.log, 30)
    return (await stage.where())[name]


@scenario(36, "a running pod that cannot be read any more keeps its room over a list, and gives it back", quick=True)
async def running_pod_becomes_unreadable(stage: Stage) -> None:
    scheduler = await stage.scheduler(speaks_json=True)
    await stage.nodes("n1", cpu="1")
    await stage.pods("full", cpu="701m", nodeName="n1")
    lists = scheduler.proxy.count("list", "pods")
    expire = Rule(faults.end_watch_with(410), verb="watch", resource="pods", times=1)
    scheduler.proxy.add(expire, _spoilt_pods())
    scheduler.proxy.reset_all()
    await scheduler.until(lambda: scheduler.proxy.count("list", "pods") > lists, 30)
    await stage.pods("second", cpu="600m")
    assert not await _decided(stage, scheduler, "second"), "bound where there is no room"
    await stage.delete("full")
    stage.figures["recover_seconds"] = await stage.bound("second")


@scenario(36, "a node with a pod of unknown requests gets no more pods until that pod can be read")
async def pod_unreadable_from_the_start(stage: Stage) -> None:
    await stage.nodes("n1", cpu="1")
    await stage.pods("full", cpu="701m", nodeName="n1")
    scheduler = await stage.scheduler(speaks_json=True, ready=False)
    spoilt = scheduler.proxy.add(_spoilt_pods())
    await scheduler.until(scheduler.is_ready, 60)
    assert f"{stage.namespace}/full" in scheduler.log, "nothing says which pod cannot be read"
    await stage.pods("second", cpu="100m")
    assert not await _decided(stage, scheduler, "second"), "bound where it is not known what is free"
    scheduler.proxy.remove(spoilt)
    scheduler.proxy.reset_all()
    path = f"/api/v1/namespaces/{stage.namespace}/pods/full"
    await stage.api.call("PATCH", path, {"metadata": {"labels": {"readable": "again"}}})
    stage.figures["recover_seconds"] = await stage.bound("second")
