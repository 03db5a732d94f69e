"""A scheduler that is killed between the writes of a claim: the next one goes on from what is written.

Bindings of a pod with a claim are three writes: finalizer, allocation with reservation, Binding. The scheduler is a
process behind a proxy that keeps the second or the third.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.apiclient import Api
from tests.conformance.controlplane import ControlPlane
from tests.faults.proxy import Hold, Proxy, Rule
from tests.integration.scheduler.queueing import node, pod
from tests.integration.scheduler.test_bindings import NAMESPACE, ProxiedScheduler
from tests.unit.scheduler.plugins.devices import exactly

pytestmark = [pytest.mark.integration, pytest.mark.slow]

DRA = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DRA}/namespaces/{NAMESPACE}/resourceclaims"
FINALIZER = "resource.kubernetes.io/delete-protection"


@pytest.fixture
async def stage(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[ProxiedScheduler]:
    async with Proxy.of(plane) as proxy:
        stage = ProxiedScheduler(Api(plane), proxy, tmp_path)
        with contextlib.ExitStack() as stack:
            stack.callback(stage.end)
            yield stage
        await stage.api.close()


async def prepare(stage: ProxiedScheduler, case: str) -> None:
    """A node with one device, and two pods with a claim each for it."""
    spec = {"selectors": [{"cel": {"expression": f'device.driver == "{case}.example.com"'}}]}
    await stage.api.call("POST", f"{DRA}/deviceclasses", {"metadata": {"name": case}, "spec": spec})
    await stage.create(node(case, "4"))
    pool = {"name": case, "generation": 1, "resourceSliceCount": 1}
    content = {"driver": f"{case}.example.com", "pool": pool, "nodeName": case, "devices": [{"name": "only"}]}
    await stage.api.call("POST", f"{DRA}/resourceslices", {"metadata": {"name": case}, "spec": content})
    for name in ("first", "rival"):
        claim = {"metadata": {"name": f"{case}-{name}"}, "spec": {"devices": {"requests": [exactly("r", case)]}}}
        await stage.api.call("POST", CLAIMS, claim)


async def create_pod(stage: ProxiedScheduler, case: str, name: str) -> None:
    new = pod(f"{case}-{name}", "100m")
    claim = {"name": "device", "resourceClaimName": f"{case}-{name}"}
    await stage.create({**new, "spec": {**new["spec"], "resourceClaims": [claim]}})


async def kill(stage: ProxiedScheduler) -> None:
    assert stage.process is not None
    stage.process.kill()
    await asyncio.to_thread(stage.process.wait, 60)


async def claim_of(stage: ProxiedScheduler, case: str, name: str) -> Any:
    return await stage.api.call("GET", f"{CLAIMS}/{case}-{name}")


async def is_bound(stage: ProxiedScheduler, case: str, name: str) -> bool:
    return (await stage.nodes_of_pods()).get(f"{case}-{name}") == case


@pytest.mark.parametrize(
    ("case", "verb", "resource", "is_allocated"),
    [
        ("before-allocation", "patch", "resourceclaims/status", False),
        ("before-binding", "create", "pods/binding", True),
    ],
)
async def test_a_scheduler_that_is_killed_between_two_writes_is_continued(
    stage: ProxiedScheduler, case: str, verb: str, resource: str, is_allocated: bool
) -> None:
    await prepare(stage, case)
    held = Hold()
    kept = stage.proxy.add(Rule(held, verb=verb, resource=resource, name=f"{case}-first"))
    await stage.start(timeout=30.0)
    await create_pod(stage, case, "first")
    await held.first(120)
    await kill(stage)
    between = await claim_of(stage, case, "first")
    assert between["metadata"]["finalizers"] == [FINALIZER]
    assert ("allocation" in between.get("status", {})) is is_allocated
    stage.proxy.remove(kept)

    await stage.start(timeout=30.0)
    await stage.until(lambda: is_bound(stage, case, "first"), "the next scheduler goes on")
    # What is kept arrives late, and changes nothing.
    held.release()
    await create_pod(stage, case, "rival")
    await stage.until(lambda: _has_condition(stage, case), "there is no device for the other pod")
    after = await claim_of(stage, case, "first")
    assert after["metadata"]["finalizers"] == [FINALIZER]
    (result,) = after["status"]["allocation"]["devices"]["results"]
    assert result["device"] == "only"
    assert [user["name"] for user in after["status"]["reservedFor"]] == [f"{case}-first"]
    assert "allocation" not in (await claim_of(stage, case, "rival")).get("status", {})
    assert not await is_bound(stage, case, "rival")


async def _has_condition(stage: ProxiedScheduler, case: str) -> bool:
    rival = await stage.api.call("GET", f"/api/v1/namespaces/{NAMESPACE}/pods/{case}-rival")
    return any(
        "cannot allocate all claims" in each.get("message", "") for each in rival["status"].get("conditions", ())
    )
