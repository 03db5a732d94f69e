"""Faults of the past: 49, etcd is put back to a copy while schedulers live.

In each there is, before the copy, a node `n1` with two pods; after it one of the two is deleted, a pod is bound to
`n2`, and a node `n3` comes: all of that is undone. Who goes on by what was undone puts the next pod on `n1`, which is
full, or on `n3`, which does not exist.
"""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from tests.conformance.apiclient import ApiError
from tests.faults import etcd, history, oracle
from tests.faults.plane import API_SERVER
from tests.faults.scenarios.registry import scenario
from tests.faults.schedulers import REAL, Scheduler
from tests.faults.stage import Stage, eventually

_WRITES = 300
"""Far more than are made between the copy's return and the moment at which it has to be noticed."""
_LOST_SECONDS = 10.0
"""A read every five seconds, of a Lease that is renewed every two, has to fall into what is undone."""
_KNOWN_SECONDS = 30.0
_LEASE_SECONDS = (30, 20, 1)
"""No leader loses its Lease while the API server starts."""


def _on(node: str) -> dict[str, Any]:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


async def _live_before(stage: Stage) -> None:
    await stage.nodes("n1", "n2", cpu="1")
    await stage.pods("stays", "goes", **_on("n1"))
    await stage.bound()
    counter = {"metadata": {"name": "counter"}, "data": {}}
    await stage.api.call("POST", f"/api/v1/namespaces/{stage.namespace}/configmaps", counter)


async def _live_after(stage: Stage) -> None:
    """What the copy does not have."""
    await stage.delete("goes")
    await stage.nodes("n3", cpu="4")
    await stage.pods("undone", cpu="700m", **_on("n2"))
    await stage.bound("undone")
    await _write(stage, _WRITES)
    await asyncio.sleep(_LOST_SECONDS)


async def _write(stage: Stage, count: int) -> None:
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps/counter"
    for number in range(count):
        await stage.api.call("PATCH", path, {"data": {"number": f"{count} {number}"}})


async def _begin_history_anew(stage: Stage) -> None:
    """What was undone happened in no history of etcd."""
    stage.start_revision = await asyncio.to_thread(history.revision, stage.plane.etcd)
    stage.audited = history.log_sizes(stage.plane.audit_logs)


async def _knows_the_truth(stage: Stage) -> bool:
    with contextlib.suppress(ApiError, OSError):
        state = await stage.state()
        caches = [await each.cache() for each in stage.schedulers if each.is_ours]
        return not any(oracle.cache(cache, state) for cache in caches)
    return False


async def _live_on(stage: Stage) -> None:
    """See that the truth is known in time, and stays known once the store has passed the versions from before."""
    await _begin_history_anew(stage)
    if any(each.is_ours for each in stage.schedulers):
        stage.figures["known_seconds"] = await eventually(
            lambda: _knows_the_truth(stage), min(_KNOWN_SECONDS, stage.within)
        )
    else:
        await asyncio.sleep(_KNOWN_SECONDS)
    await stage.pods("next", cpu="600m")
    stage.figures["recover_seconds"] = await stage.bound("next", within=30)
    await _write(stage, _WRITES)
    await stage.pods("later", cpu="300m")
    await stage.bound("later", within=30)
    nodes = await stage.where("next", "later")
    assert nodes == {"next": "n2", "later": "n2"}, f"only n2 has room: {nodes}"


async def _says_so(*schedulers: Scheduler) -> None:
    for each in schedulers:
        if each.is_ours:
            assert "the cluster went back to an older state" in each.log, f"{each.name} does not say it"
            _, metrics = await each.page("/metrics")
            assert "\nsecondary_scheduler_etcd_restores_total 1.0\n" in metrics, f"{each.name} does not count it once"


async def _beside_kube_scheduler(stage: Stage) -> Scheduler:
    """A scheduler without a Lease, and the cluster's own, whose Lease it reads."""
    await stage.scheduler(
        "kube-scheduler",
        kind=REAL,
        judged=False,
        scheduler_name="default-scheduler",
        leader_election=True,
        lease=("kube-system", "kube-scheduler"),
        lease_seconds=(15, 10, 2),
    )
    return await stage.scheduler()


@scenario(49, "without a Lease it knows within 30 s what a restored etcd has", disruptive=True)
async def etcd_put_back(stage: Stage) -> None:
    scheduler = await _beside_kube_scheduler(stage)
    await _live_before(stage)
    copy = stage.directory / "etcd"
    await asyncio.to_thread(stage.plane.copy_etcd, copy)
    await _live_after(stage)
    await asyncio.to_thread(stage.plane.put_back, copy)
    await _live_on(stage)
    await _says_so(scheduler)


@scenario(49, "leader and follower know within 30 s what a restored etcd has", disruptive=True)
async def etcd_put_back_under_a_pair(stage: Stage) -> None:
    pair = await stage.pair(lease_seconds=_LEASE_SECONDS)
    await _live_before(stage)
    copy = stage.directory / "etcd"
    await asyncio.to_thread(stage.plane.copy_etcd, copy)
    await _live_after(stage)
    await asyncio.to_thread(stage.plane.put_back, copy)
    await _live_on(stage)
    await _says_so(*pair)


@scenario(49, "they know it, too, where the snapshot's revision was bumped and marked as compacted", disruptive=True)
async def etcd_put_back_with_a_bumped_revision(stage: Stage) -> None:
    scheduler = await _beside_kube_scheduler(stage)
    pair = await stage.pair(lease_seconds=_LEASE_SECONDS)
    await _live_before(stage)
    snapshot = Path(stage.directory / "snapshot.db")
    await asyncio.to_thread(etcd.save_snapshot, stage.plane.etcd, snapshot)
    await _live_after(stage)
    await asyncio.to_thread(stage.plane.put_back_bumped, snapshot)
    await _live_on(stage)
    await _says_so(scheduler, *pair)


@scenario(
    49, "an API server that was not restarted is named, and what it shows once it is, is believed", disruptive=True
)
async def etcd_put_back_behind_an_api_server(stage: Stage) -> None:
    pair = await stage.pair(lease_seconds=_LEASE_SECONDS)
    await _live_before(stage)
    copy = stage.directory / "etcd"
    await asyncio.to_thread(stage.plane.copy_etcd, copy)
    await _live_after(stage)
    await asyncio.to_thread(lambda: stage.plane.put_back(copy, restart=False))
    if pair[0].is_ours:
        await eventually(lambda: all("restart kube-apiserver" in each.log for each in pair), _KNOWN_SECONDS)
    await asyncio.to_thread(stage.plane.restart, API_SERVER)
    await _live_on(stage)
    await _says_so(*pair)
