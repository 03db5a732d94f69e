"""Faults of the store behind the API server: 17. The quota is really used up, and the disk is really full."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

from tests.conformance.apiclient import ApiError
from tests.faults import etcd
from tests.faults.plane import API_SERVER, ETCD, FaultPlane
from tests.faults.proxy import Hold, Rule
from tests.faults.scenarios.registry import BINDING, scenario
from tests.faults.stage import Stage, eventually, names

_MIB = 1 << 20
_FULL_SECONDS = 10.0
_MAX_BALLAST = 200


async def _fill(stage: Stage) -> None:
    """Store objects of almost a mebibyte until none is taken any more."""
    path = f"/api/v1/namespaces/{stage.namespace}/configmaps"
    for number in range(_MAX_BALLAST):
        try:
            async with asyncio.timeout(5):
                item = {"metadata": {"name": f"ballast-{number}"}, "data": {"ballast": "x" * (_MIB - 10_000)}}
                await stage.api.call("POST", path, item)
        except (ApiError, TimeoutError, OSError):
            stage.figures["filled_mib"] = number
            return
    raise AssertionError(f"etcd takes more than {_MAX_BALLAST} MiB")


async def _pods_beside_a_full_store(stage: Stage) -> Hold:
    """A pair, a pod that is bound, and pods whose Bindings are under way."""
    leader, _ = await stage.pair()
    await stage.nodes("n1", "n2", cpu="4")
    await stage.pods("before")
    await stage.bound()
    hold = Hold()
    leader.proxy.add(Rule(hold, **BINDING))
    await stage.pods(*names("p", 8), cpu="300m")
    await hold.first()
    return hold


async def _full(stage: Stage, hold: Hold) -> None:
    """Let the Bindings go while nothing can be stored, and see what is asked of the API server meanwhile."""
    since = time.monotonic()
    hold.release()
    await asyncio.sleep(_FULL_SECONDS)
    count = sum(each.proxy.count(since=since) for each in stage.schedulers)
    stage.figures["requests_per_second"] = count / (time.monotonic() - since)
    assert stage.figures["requests_per_second"] < 40, "a busy loop"


async def _recovered(stage: Stage) -> None:
    """All is bound after there is room again. Who could not renew its Lease has ended, and is started again."""
    began = time.monotonic()
    ended = [each for each in stage.schedulers if not each.alive]
    stage.figures["ended"] = len(ended)
    for each in ended:
        await each.start()
    await eventually(lambda: any(each.alive and each.leads for each in stage.schedulers), 60)
    await stage.bound(within=60)
    stage.figures["recover_seconds"] = time.monotonic() - began


def _restart_with_quota(plane: FaultPlane, quota: int | None) -> None:
    """Restart etcd with that quota; None: with its own, and without the alarm."""
    plane.etcd_flags = () if quota is None else (f"--quota-backend-bytes={quota}",)
    # A write in between would raise the alarm again.
    plane.signal(API_SERVER, signal.SIGSTOP)
    try:
        if quota is None:
            etcd.disarm(plane.etcd)
        plane.restart(ETCD)
    finally:
        plane.signal(API_SERVER, signal.SIGCONT)


@scenario(17, "with etcd's quota used up it backs off, and after the quota is raised all is placed", disruptive=True)
async def etcd_quota_used_up(stage: Stage) -> None:
    plane = stage.plane
    await asyncio.to_thread(_restart_with_quota, plane, etcd.size(plane.etcd) + 8 * _MIB)
    try:
        hold = await _pods_beside_a_full_store(stage)
        await _fill(stage)
        await _full(stage, hold)
    finally:
        await asyncio.to_thread(_restart_with_quota, plane, None)
    await _recovered(stage)


@contextlib.asynccontextmanager
async def _small_disk(plane: FaultPlane) -> AsyncIterator[Path]:
    """Let etcd store its data on a disk of its own."""
    await asyncio.to_thread(_to_small_disk, plane)
    try:
        yield plane.layout.data("etcd")
    finally:
        await asyncio.to_thread(_to_large_disk, plane)


def _to_small_disk(plane: FaultPlane) -> None:
    data = plane.layout.data("etcd")
    aside = data.with_name("etcd-aside")
    plane.kill(ETCD)
    data.rename(aside)
    data.mkdir(mode=0o700)
    used = sum(file.stat().st_size for file in aside.rglob("*") if file.is_file())
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={used + 160 * _MIB}", "none", str(data)], check=True)
    shutil.copytree(aside, data, dirs_exist_ok=True)
    shutil.rmtree(aside)
    plane.start(ETCD)


def _to_large_disk(plane: FaultPlane) -> None:
    data = plane.layout.data("etcd")
    aside = data.with_name("etcd-aside")
    with contextlib.suppress(ProcessLookupError):
        plane.kill(ETCD)
    shutil.copytree(data, aside, ignore=shutil.ignore_patterns("ballast"))
    subprocess.run(["umount", str(data)], check=True)
    shutil.copytree(aside, data, dirs_exist_ok=True)
    shutil.rmtree(aside)
    plane.start(ETCD)


def _take_all_room(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(b"x" * 4096)


@scenario(
    17, "with no room on etcd's disk, which ends etcd, it waits; when there is room all is placed", disruptive=True
)
async def etcd_disk_full(stage: Stage) -> None:
    plane = stage.plane
    async with _small_disk(plane) as disk:
        hold = await _pods_beside_a_full_store(stage)
        await asyncio.to_thread(_take_all_room, disk)
        await _fill(stage)
        # Its log of writes has room of its own until the segment ends; the file of its data has none.
        await eventually(lambda: not plane.alive(ETCD), 30)
        await _full(stage, hold)
        await asyncio.to_thread((disk / "ballast").unlink)
        await asyncio.to_thread(plane.start, ETCD)
        await _recovered(stage)
        await stage.settle()
