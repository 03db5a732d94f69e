"""What the API server refuses in the cluster's name: 53, its fair queueing; 54, a webhook."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from tests.faults import oracle
from tests.faults.patience import patience
from tests.faults.proxy import Proxy
from tests.faults.scenarios.registry import granted, scaled, scenario
from tests.faults.schedulers import Scheduler
from tests.faults.stage import Stage, eventually, names
from tests.faults.webhook import Webhook

Json = dict[str, Any]
_FLOWS = "/apis/flowcontrol.apiserver.k8s.io/v1"
_EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
"""All rights; whoever is in system:masters is exempt from fair queueing."""
_WHY = "the auditors keep this node"


# 53 ------------------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def _starved(stage: Stage, group: str, user: str) -> AsyncIterator[None]:
    """Leave a user no share of the API server, which answers its requests with 429. A level without shares still takes
    one request at a time: somebody else's, each of which takes as long as a webhook lets it wait."""
    name, hog = f"{stage.namespace}-starves", f"{stage.namespace}-hog"
    none = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    level = {"type": "Limited", "limited": {**none, "limitResponse": {"type": "Reject"}}}
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    rule = {
        "subjects": [{"kind": "User", "user": {"name": each}} for each in (user, hog)],
        "resourceRules": [everything],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    flow = {"matchingPrecedence": 2, "priorityLevelConfiguration": {"name": name}, "rules": [rule]}
    await stage.api.call("POST", f"{_FLOWS}/prioritylevelconfigurations", {"metadata": {"name": name}, "spec": level})
    await stage.api.call("POST", f"{_FLOWS}/flowschemas", {"metadata": {"name": name}, "spec": flow})
    try:
        async with (
            Webhook(stage, lambda review: {}, resources=("configmaps",), timeout_seconds=30) as hook,
            Proxy.of(stage.plane, user=hog, groups=(group,)) as proxy,
            aiohttp.ClientSession() as session,
        ):
            hook.seconds = 20.0
            tasks = [asyncio.create_task(_hog(stage, session, proxy.url)) for _ in range(3)]
            try:
                await eventually(lambda: hook.asked)
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await stage.api.call("DELETE", f"{_FLOWS}/flowschemas/{name}")
        await stage.api.call("DELETE", f"{_FLOWS}/prioritylevelconfigurations/{name}")


async def _hog(stage: Stage, session: aiohttp.ClientSession, url: str) -> None:
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps?dryRun=All"
    while True:
        body = {"metadata": {"generateName": "hog-"}}
        with contextlib.suppress(aiohttp.ClientError):
            async with session.post(url + path, json=body) as answer:
                await answer.read()
        await asyncio.sleep(0.02)


def _statuses(scheduler: Scheduler, since: float) -> list[int]:
    return [each.upstream_status for each in scheduler.proxy.exchanges if each.started >= since and each.ended]


async def _refused_everything(scheduler: Scheduler) -> float:
    """Break its connections until it is refused whatever it asks for; returns the monotonic moment."""

    async def refused() -> bool:
        since = time.monotonic()
        scheduler.proxy.reset_all()
        await asyncio.sleep(1)
        answers = set(_statuses(scheduler, since))
        return 429 in answers and answers <= {0, 429}

    await eventually(refused)
    return time.monotonic()


@scenario(53, "a minute of 429 from the API server's fair queueing ends it not, makes no storm, and costs no pod")
async def starved_by_fair_queueing(stage: Stage) -> None:
    seconds = scaled(60)
    async with granted(stage, [_EVERYTHING]) as group:
        scheduler = await stage.scheduler(groups=(group,))
        await stage.nodes("n1", "n2", cpu="4")
        await stage.pods("before")
        await stage.bound()
        async with _starved(stage, group, scheduler.proxy.user):
            since = await _refused_everything(scheduler)
            await stage.pods(*names("p", 10))
            await asyncio.sleep(seconds)
            answers = _statuses(scheduler, since)
            stage.figures["requests_per_second"] = len(answers) / (time.monotonic() - since)
            refused = sum(status == 429 for status in answers) / len(answers)
            stage.figures["refused_share"] = refused
            assert refused > 0.9, f"only {refused:.0%} were refused: it was not starved"
            assert scheduler.alive, scheduler.log[-1500:]
        # A dozen watches, each of which asks once a second where it is told to.
        assert stage.figures["requests_per_second"] < 40, "a busy loop"
        stage.violations += oracle.says({"log": r"(?i)429|too many requests|too ?many"}, {"log": scheduler.log})
        stage.figures["recover_seconds"] = await stage.bound(within=45)
        await stage.settle()
        await scheduler.stop()


@scenario(53, "a leader that is starved by fair queueing ends before its Lease does, and is followed")
async def leader_starved_by_fair_queueing(stage: Stage) -> None:
    async with granted(stage, [_EVERYTHING]) as group:
        leader, follower = await stage.pair(groups=(group,))
        await stage.nodes("n1", cpu="8")
        await stage.pods("before")
        await stage.bound()
        async with _starved(stage, group, leader.proxy.user):
            await stage.pods(*names("p", 5))
            began = time.monotonic()
            code = await leader.ended(30)
            stage.figures["ended_seconds"] = time.monotonic() - began
            stage.ends[leader.name] = code
            assert code != 0, "it lost its Lease and said that all was well"
            stage.figures["takeover_seconds"] = await follower.until(lambda: follower.leads, 30)
            stage.figures["recover_seconds"] = stage.figures["takeover_seconds"] + await stage.bound()
        await stage.settle()
        await follower.stop()


# 54 ------------------------------------------------------------------------------------------------------------------


def _refuses(review: Json) -> Json:
    if not review["name"].startswith("refused"):
        return {}
    return {"allowed": False, "status": {"code": 403, "message": _WHY}}


@scenario(54, "a webhook that refuses some Bindings is quoted on the pod, costs no room and no storm, and is retried")
async def webhook_refuses_bindings(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes("n1", cpu="2")
    refused = list(names("refused", 3))
    async with Webhook(stage, _refuses) as hook:
        await hook.in_force()
        await stage.pods("refused-large", cpu="1500m")
        await eventually(lambda: hook.asked)
        # The room of what was refused is free again.
        await stage.pods("large", cpu="1500m")
        stage.figures["placed_seconds"] = await stage.bound("large", within=15)
        await stage.delete("refused-large")
        await stage.pods(*refused, cpu="100m")
        await eventually(lambda: set(refused) <= set(hook.asked))
        since, before = time.monotonic(), len(hook.asked)
        for name in names("beside", 5):
            await stage.pods(name, cpu="10m")
            await stage.bound(name, within=10)
        await asyncio.sleep(max(0.0, since + 10 - time.monotonic()))
        again = len(hook.asked) - before - 5
        stage.figures["again_per_pod"] = again / len(refused)
        # With a back-off of 1 s, 2 s and then 2 s for ever.
        assert again <= len(refused) * ((time.monotonic() - since) / 1 + 2), f"{again} Bindings more were tried"
        assert again >= len(refused), "it has given up"
        path = f"/api/v1/namespaces/{stage.namespace}/events?fieldSelector=reason%3DFailedScheduling"
        events = json.dumps((await stage.api.call("GET", path))["items"])
        stage.violations += oracle.says({"events": _WHY, "log": _WHY}, {"events": events, "log": scheduler.log})
    stage.figures["recover_seconds"] = await stage.bound(within=30)


@scenario(54, "while a webhook does not answer, the room of a Binding stays promised; all is bound once it is gone")
async def webhook_does_not_answer(stage: Stage) -> None:
    scheduler = await stage.scheduler()
    await stage.nodes("n1", "n2", cpu="1")
    async with Webhook(stage, _refuses) as hook:
        await hook.in_force()
        hook.seconds = patience(3)
        await stage.pods(*names("p", 4), cpu="400m")
        await eventually(lambda: hook.asked)
        await asyncio.sleep(8)
        assert not any((await stage.where()).values())
        stage.figures["asked"] = len(hook.asked)
        assert scheduler.alive, scheduler.log[-1500:]
        hook.seconds = 0.0
    stage.figures["recover_seconds"] = await stage.bound(within=45)


@scenario(54, "a webhook that sends Bindings to another node is believed: the pod counts where it is")
async def webhook_sends_bindings_elsewhere(stage: Stage) -> None:
    await stage.scheduler()

    def elsewhere(review: Json) -> Json:
        if not review["name"].startswith("sent"):
            return {}
        patch = json.dumps([{"op": "replace", "path": "/target/name", "value": "elsewhere"}])
        return {"patchType": "JSONPatch", "patch": base64.b64encode(patch.encode()).decode()}

    on_n1 = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1"]}]}
    preferred = [{"weight": 100, "preference": on_n1}]
    rather_on_n1 = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    await stage.nodes("n1", "elsewhere", cpu="1")
    async with Webhook(stage, elsewhere, mutating=True) as hook:
        await hook.in_force()
        await stage.pods(*names("sent", 2), cpu="400m", affinity=rather_on_n1)
        await stage.bound()
        assert set(hook.asked) == set(names("sent", 2)), hook.asked
        assert set((await stage.where()).values()) == {"elsewhere"}
        # n1 has all of its room.
        await stage.pods("large", cpu="900m", nodeSelector={"kubernetes.io/hostname": "n1"})
        stage.figures["recover_seconds"] = await stage.bound("large", within=15)
    await stage.pods("too-large", cpu="400m", nodeSelector={"kubernetes.io/hostname": "elsewhere"})
    await stage.answered("too-large")
    assert not (await stage.where())["too-large"]
