"""Faults of the source of load that need a scheduler of their own: 44. The others, 38 to 43, are played under one
daemon in `tests/faults/test_prometheus.py`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from devcluster import pki
from tests.faults import etcd
from tests.faults.scenarios.registry import scenario
from tests.faults.schedulers import OURS, PLUGINS, Scheduler
from tests.faults.server import BreakablePrometheus
from tests.faults.stage import CANARY, Stage, names

Json = dict[str, Any]
_TOKEN = f"{CANARY}-of-prometheus"
_PROBES = 5


@asynccontextmanager
async def _prometheus(stage: Stage) -> AsyncIterator[tuple[BreakablePrometheus, Json]]:
    """A Prometheus, and how a scheduler is set up to read it: ours, or the one of scheduler-plugins."""
    directory = stage.directory / "metric-credentials"
    await asyncio.to_thread(directory.mkdir, exist_ok=True)
    authority = pki.CertificateAuthority("authority-of-prometheus")
    fake = BreakablePrometheus(authority.server("prometheus", [], ["127.0.0.1"]), stage.directory, _TOKEN)
    provider = {"type": "Prometheus", "address": fake.url}
    setup: Json = {}
    configurations = []
    if stage.kind == PLUGINS:
        provider |= {"token": _TOKEN, "insecureSkipVerify": True}
    else:
        token, ca = directory / "token", directory / "ca.crt"
        await asyncio.to_thread(_write, {token: _TOKEN.encode(), ca: authority.pair.certificate})
        setup["flags"] = (f"--metric-credentials-directory={directory}",)
        load = {"tokenFile": str(token), "caFile": str(ca), "refreshSeconds": 1}
        configurations.append({"name": "SecondarySchedulerOptions", "args": {"load": load}})
    configurations.append({"name": "TargetLoadPacking", "args": {"metricProvider": provider}})
    only = {"enabled": [{"name": "TargetLoadPacking"}], "disabled": [{"name": "*"}]}
    setup["profile"] = {"plugins": {"score": only}, "pluginConfig": configurations}
    try:
        yield fake, setup
    finally:
        fake.stop()


def _write(files: dict[Path, bytes]) -> None:
    for file, content in files.items():
        file.write_bytes(content)


async def _ran_for_an_hour(stage: Stage, node: str, *pods: str) -> None:
    """Pods that were bound an hour ago, so that what is measured contains them."""
    hour_ago = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def aged(item: Json) -> None:
        item["metadata"]["creationTimestamp"] = hour_ago
        bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": hour_ago}
        item["status"] |= {"phase": "Running", "startTime": hour_ago, "conditions": [bound]}

    await stage.pods(*pods, cpu="1", nodeName=node)
    for pod in pods:
        await asyncio.to_thread(etcd.edit, stage.plane.etcd, f"/registry/pods/{stage.namespace}/{pod}", aged)


async def _choices(stage: Stage, scheduler: Scheduler, label: str) -> list[str]:
    """Where small pods go, one after the other, as soon as the source was read."""
    if stage.kind == OURS:

        async def is_fresh() -> bool:
            return "load_data_fresh{" in (text := (await scheduler.ask("/metrics"))[1]) and any(
                line.endswith(" 1.0") for line in text.splitlines() if "load_data_fresh{" in line
            )

        await scheduler.until(is_fresh, 30)
    else:
        await scheduler.until(lambda: "Started watching metrics" in scheduler.log or scheduler.is_ready(), 60)
        await asyncio.sleep(3)
    chosen = []
    for name in names(label, _PROBES):
        await stage.pods(name, cpu="10m")
        await stage.bound(name)
        chosen.append((await stage.where())[name])
        await stage.delete(name)
    return chosen


@scenario(44, "a restart counts no pod twice that the measured load contains: the same node is best before and after")
async def restart_under_load(stage: Stage) -> None:
    async with _prometheus(stage) as (fake, setup):
        await stage.nodes("packed", "idle", "busy", cpu="8")
        # The target is 40 %: the node below it that is fullest is best, unless its pods are counted once more.
        fake.loads = {"packed": 0.30, "idle": 0.05, "busy": 0.85}
        await _ran_for_an_hour(stage, "packed", *names("old", 3))
        scheduler = await stage.scheduler(**setup)
        before = await _choices(stage, scheduler, "before")
        await scheduler.kill()
        began = time.monotonic()
        await scheduler.start()
        after = await _choices(stage, scheduler, "after")
        stage.figures["recover_seconds"] = time.monotonic() - began
        stage.figures["misplaced"] = sum(node != "packed" for node in before + after)
        assert after == before == ["packed"] * _PROBES, f"before {before}, after {after}"
