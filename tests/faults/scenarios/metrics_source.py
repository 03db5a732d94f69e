"""Faults of the source of load that need a scheduler of their own: 38, 39, 44, also beside scheduler-plugins. More of
them, 38 to 43, are played under one daemon of ours in `tests/faults/test_prometheus.py`."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from devcluster import pki
from tests.faults import etcd, oracle
from tests.faults.scenarios.registry import scenario
from tests.faults.schedulers import OURS, PLUGINS, Scheduler
from tests.faults.server import BreakablePrometheus
from tests.faults.stage import CANARY, Stage, names

Json = dict[str, Any]
_TOKEN = f"{CANARY}-of-prometheus"
_PROBES = 5
_PLACED_SECONDS = 5.0
_COUNTED_SECONDS = 150.0
"""load-watcher reads its source once a minute, and scheduler-plugins reads load-watcher every 30 s."""
_WITHOUT_LOAD = r"(?i)(not reachable|unable to (populate|update) metrics|(error|unable|failed).*fetch)"


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
        load = {"tokenFile": str(token), "caFile": str(ca), "refreshSeconds": 1, "maxAgeSeconds": 3}
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
        await scheduler.until(lambda: _freshness(scheduler, "1.0"), 30)
    else:
        await scheduler.until(lambda: "Started watching metrics" in scheduler.log or scheduler.is_ready(), 60)
        await asyncio.sleep(3)
    return [await _choice(stage, name) for name in names(label, _PROBES)]


async def _choice(stage: Stage, name: str) -> str:
    """Where a small pod goes; empty where it is not placed within seconds."""
    await stage.pods(name, cpu="10m")
    await stage.bound(name, within=_PLACED_SECONDS)
    node = (await stage.where(name))[name]
    await stage.delete(name)
    return node


async def _until_load_counts(stage: Stage, best: str) -> float:
    """Place small pods until three follow each other onto the best node; returns how long that took."""
    started, in_a_row = time.monotonic(), 0
    for number in itertools.count():
        in_a_row = in_a_row + 1 if await _choice(stage, f"try-{number}") == best else 0
        if in_a_row == 3:
            return time.monotonic() - started
        assert time.monotonic() - started < _COUNTED_SECONDS, f"load does not count after {_COUNTED_SECONDS:g} s"
        await asyncio.sleep(0.5)
    raise AssertionError


async def _it_is_said(stage: Stage, scheduler: Scheduler) -> None:
    """Wait until the log, and the metric of ours, say that there is no load."""
    started = time.monotonic()
    with contextlib.suppress(AssertionError):
        await scheduler.until(lambda: re.search(_WITHOUT_LOAD, scheduler.log_since_start), _COUNTED_SECONDS)
    stage.figures["said_seconds"] = time.monotonic() - started
    stage.violations += oracle.says({"log": _WITHOUT_LOAD}, {"log": scheduler.log_since_start})
    if stage.kind == OURS:
        await scheduler.until(lambda: _freshness(scheduler, "0.0"), 30)


async def _freshness(scheduler: Scheduler, value: str) -> bool:
    lines = (await scheduler.ask("/metrics"))[1].splitlines()
    return any(line.startswith("secondary_scheduler_load_data_fresh{") and line.endswith(f" {value}") for line in lines)


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


@scenario(38, "with Prometheus down at the start pods are placed, it is said, and its load counts once it is there")
async def source_down_at_the_start(stage: Stage) -> None:
    async with _prometheus(stage) as (fake, setup):
        fake.loads = {"best": 0.35} | dict.fromkeys(names("hot", 4), 0.95)
        await stage.nodes(*fake.loads, cpu="8")
        fake.stop()
        scheduler = await stage.scheduler(**setup)
        began = time.monotonic()
        chosen = [await _choice(stage, name) for name in names("without", _PROBES)]
        stage.figures["placed_seconds"] = (time.monotonic() - began) / _PROBES
        assert all(chosen), "pods wait for a source of load"
        await _it_is_said(stage, scheduler)
        fake.start()
        stage.figures["counts_seconds"] = await _until_load_counts(stage, "best")


@scenario(38, "when Prometheus goes away pods are placed, it is said, and no load that is too old decides")
async def source_goes_away(stage: Stage) -> None:
    async with _prometheus(stage) as (fake, setup):
        fake.loads = {"best": 0.35} | dict.fromkeys(names("hot", 9), 0.95)
        await stage.nodes(*fake.loads, cpu="8")
        scheduler = await stage.scheduler(**setup)
        await _choices(stage, scheduler, "before")
        fake.stop()
        await _it_is_said(stage, scheduler)
        began = time.monotonic()
        chosen = [await _choice(stage, name) for name in names("without", 2 * _PROBES)]
        stage.figures["placed_seconds"] = (time.monotonic() - began) / len(chosen)
        assert all(chosen), "pods wait for a source of load"
        stage.figures["by_old_load"] = chosen.count("best")
        fake.start()
        fake.loads |= {"best": 0.95, "hot-0": 0.35}
        stage.figures["counts_seconds"] = await _until_load_counts(stage, "hot-0")


@scenario(39, "NaN, infinite, negative and absurd loads harm no pod: the node with a sensible load is best")
async def nonsense_loads(stage: Stage) -> None:
    async with _prometheus(stage) as (fake, setup):
        nonsense = {"nan": math.nan, "infinite": math.inf, "minus-infinite": -math.inf, "negative": -0.5, "vast": 1e4}
        fake.loads = {"best": 0.38, **nonsense}
        await stage.nodes(*fake.loads, "absent", cpu="8")
        scheduler = await stage.scheduler(**setup)
        chosen = await _choices(stage, scheduler, "nonsense")
        stage.figures["misplaced"] = 2 * sum(node != "best" for node in chosen)
        fake.loads = {"best": 0.38} | dict.fromkeys(nonsense, 0.95)
        stage.figures["counts_seconds"] = await _until_load_counts(stage, "best")
        assert chosen == ["best"] * _PROBES, f"chosen {chosen}"


@scenario(39, "with half of the nodes missing the others' load counts; with an empty answer pods are placed")
async def loads_missing(stage: Stage) -> None:
    async with _prometheus(stage) as (fake, setup):
        await stage.nodes("best", "hot", *names("absent", 2), cpu="8")
        fake.loads = {"best": 0.38, "hot": 0.95}
        scheduler = await stage.scheduler(**setup)
        chosen = await _choices(stage, scheduler, "half")
        stage.figures["misplaced"] = 2 * sum(node != "best" for node in chosen)
        assert chosen == ["best"] * _PROBES, f"chosen {chosen}"
        fake.loads = {}
        await scheduler.kill()
        await scheduler.start()
        began = time.monotonic()
        chosen = [await _choice(stage, name) for name in names("empty", _PROBES)]
        stage.figures["placed_seconds"] = (time.monotonic() - began) / _PROBES
        assert all(chosen), "pods wait for a load that nobody has"
