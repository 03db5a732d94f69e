"""Fault 37: what a node says of its zones is missing, stale, or speaks of other pods. Also beside scheduler-plugins."""

from __future__ import annotations

import time
from typing import Any

from tests.conformance import numa, numa_running
from tests.faults.scenarios.registry import scenario
from tests.faults.schedulers import OURS
from tests.faults.stage import Stage
from tests.integration.scheduler import numa_stage

Json = dict[str, Any]
_SLOWLY_SECONDS = 20.0


def _profile() -> Json:
    enabled = [{"name": numa.PLUGIN}]
    points: Json = {point: {"enabled": enabled} for point in ("filter", "reserve", "postBind")}
    points["score"] = {"enabled": [{"name": numa.PLUGIN, "weight": 1}], "disabled": [{"name": "*"}]}
    points["postFilter"] = {"disabled": [{"name": "*"}]}
    args = {"cacheResyncPeriodSeconds": numa_stage.PERIOD}
    return {"plugins": points, "pluginConfig": [{"name": numa.PLUGIN, "args": args}]}


async def _zones(stage: Stage) -> numa_stage.NumaNode:
    """A node of two zones with a foreign pod on it, and numbers that include that pod."""
    await numa_running.install(stage.api)
    # Scheduler-plugins looks again at a rejected pod when an object changes, not when a comparison ends.
    zones = numa_stage.NumaNode(stage.api, pokes=stage.kind != OURS)
    await zones.set()
    await zones.pod("there", 1, node=numa_stage.NODE, scheduler="somebody-else")
    await zones.started("there")
    await zones.publish((4, 4), ["there"])
    return zones


@scenario(37, "zones that are stale, or of other pods, promise nothing twice; who fits what is certain flows")
async def topology_stale(stage: Stage) -> None:
    zones = await _zones(stage)
    try:
        await stage.scheduler(profile=_profile(), scheduler_name=numa_stage.SCHEDULER)
        played = await zones.play()
        assert played == numa_stage.EXPECTED, f"played {played}"
    finally:
        await zones.clear()


@scenario(37, "a node whose zones are missing takes pods as any other, and its zones count once they are there")
async def topology_missing(stage: Stage) -> None:
    zones = await _zones(stage)
    try:
        await stage.scheduler(profile=_profile(), scheduler_name=numa_stage.SCHEDULER)
        await zones.resynced()
        await stage.api.delete_all("NodeResourceTopology")
        await zones.resynced()
        began = time.monotonic()
        await zones.pod("without-zones", 5)
        verdict = await zones.verdict("without-zones")
        seconds = time.monotonic() - began
        assert verdict == "bound", verdict
        stage.figures["placed_seconds"] = seconds
        await zones.started("without-zones")
        await zones.publish((1, 2), ["there", "without-zones"])
        await zones.resynced()
        await zones.pod("too-large", 3)
        verdict = await zones.verdict("too-large")
        began = time.monotonic()
        await zones.publish((4, 4), ["there", "without-zones"])
        await zones.bound("too-large", _SLOWLY_SECONDS)
        stage.figures["recover_seconds"] = time.monotonic() - began
        assert verdict.endswith("cannot align container"), verdict
        assert zones.transcript[-1] == "too-large: in the end bound", zones.transcript
    finally:
        await zones.clear()
